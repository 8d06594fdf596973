"""Diagonal matrices as a choice: the same values, at one point and at many, and no calls for each of them."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.blockwise import Blockwise

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.diagonal_matrices import LARGEST, diagonals_as_choices
from bayeskit.graphs.rewriting import inline


@pytest.mark.parametrize("size", [2, 9, LARGEST])
def test_values_are_those_of_the_matrix(size: int) -> None:
    noise, of_each = pt.dscalar("noise"), pt.dvector("of_each")
    entries = pt.specify_shape(of_each, (size,))
    before = inline([pt.sum(pt.diag(pt.alloc(noise, size)) * 2.0 + pt.diag(entries)[::-1])])[0]
    after = diagonals_as_choices(before)
    point = (1.5, np.arange(1.0, size + 1))
    assert compile_small([noise, of_each], after)(*point) == compile_small([noise, of_each], before)(*point)
    batched = {noise: pt.dvector(), of_each: pt.dmatrix()}
    many = vectorize_graph(after, batched)
    assert not [v for v in ancestors([many]) if v.owner is not None and isinstance(v.owner.op, Blockwise)]
    result = compile_small(list(batched.values()), many)(np.array([1.5, 2.0]), np.stack([point[1]] * 2))
    assert result[0] == compile_small([noise, of_each], before)(*point)


def test_what_is_no_diagonal_matrix_stays() -> None:
    entries = pt.specify_shape(pt.dvector("entries"), (4,))
    start = pt.dmatrix("start")
    places = np.arange(4)
    for matrix in (
        pt.diag(entries, 1),
        pt.set_subtensor(pt.ones((4, 4))[places, places], entries),
        pt.set_subtensor(pt.zeros((4, 4))[places, places[::-1]], entries),
        pt.set_subtensor(pt.zeros((5, 5))[places, places], entries),
        pt.inc_subtensor(pt.zeros((4, 4))[places, places], entries),
        pt.set_subtensor(start[places, places], entries),
        pt.diag(pt.dvector()),
        pt.diag(pt.specify_shape(pt.dvector(), (LARGEST + 1,))),
    ):
        graph = inline([pt.sum(matrix)])[0]
        assert diagonals_as_choices(graph) is graph
