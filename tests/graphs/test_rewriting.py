"""Graphs written another way: the same numbers, by operations that many values can be put through at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.shape import Shape, Shape_i

from bayeskit.graphs.compile import compile_small, compile_stacked
from bayeskit.graphs.nodes import core_op
from bayeskit.graphs.rewriting import inline, widen, with_known_shapes

BASE = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 1.0]])


def score_of_a_covariance() -> tuple[Any, list[Any]]:
    """d/dg of log N(1; 0, g C), by PyTensor's gradient of a factorisation."""
    g = pt.dscalar("g")
    factor = pt.linalg.cholesky(g * BASE)
    white = pt.linalg.solve_triangular(factor, np.ones(3), lower=True)
    value = -pt.sum(white**2) / 2 - pt.sum(pt.log(pt.diagonal(factor)))
    return g, [value, pytensor.grad(value, g)]


def kinds(graphs: list[Any]) -> set[type]:
    return {type(core_op(v.owner)) for v in ancestors(graphs) if v.owner}


def test_a_graph_within_a_blockwise_that_repeats_nothing_is_written_out() -> None:
    vector = pt.dvector("vector")
    inner = OpFromGraph([vector], [pt.exp(vector) + 1])
    graph = Blockwise(inner, signature="(n)->(n)")(vector)
    (plain,) = inline([graph])
    assert not any(issubclass(kind, OpFromGraph | Blockwise) for kind in kinds([plain]))
    np.testing.assert_array_equal(compile_small([vector], plain)([0.0, 1.0]), np.exp([0.0, 1.0]) + 1)
    many = Blockwise(inner, signature="(n)->(n)")(pt.dmatrix("many"))
    assert inline([many]) == [many]


def test_shapes_that_follow_from_the_types_are_numbers() -> None:
    _, graphs = score_of_a_covariance()
    written = with_known_shapes(inline(graphs))
    assert {Shape, Shape_i} & kinds(inline(graphs)) and not {Shape, Shape_i} & kinds(written)
    open_ended = pt.dvector("x")
    (asked,) = with_known_shapes([pt.zeros(open_ended.shape) + open_ended.shape[0]])
    np.testing.assert_array_equal(compile_small([open_ended], asked)(np.ones(4)), np.full(4, 4.0))


@pytest.mark.parametrize("form", [list, tuple])
def test_many_values_at_once_are_each_by_itself(form: Any) -> None:
    g, graphs = score_of_a_covariance()
    at = np.array([0.2, 1.0, 7.0])
    both = compile_stacked([g], form(inline(graphs)))(at)
    one = compile_stacked([g], inline(graphs)[0])(at)
    quadratic = np.ones(3) @ np.linalg.solve(BASE, np.ones(3))
    expected = -quadratic / at / 2 - np.linalg.slogdet(BASE)[1] / 2 - 1.5 * np.log(at)
    np.testing.assert_allclose(one, expected, rtol=1e-12)
    np.testing.assert_allclose(both[0], expected, rtol=1e-12)
    np.testing.assert_allclose(both[1], quadratic / at**2 / 2 - 1.5 / at, rtol=1e-12)


@pytest.mark.parametrize(("a", "b"), [(50_000.0, 50_001.0), (1e8, 1e8 + 1), (-1e5, 1 - 1e5), (7.0, -3.0)])
def test_what_is_mapped_onto_an_interval_stays_in_it(a: float, b: float) -> None:
    value = pt.dvector("value")
    share = pt.sigmoid(value)
    mapped = share * b + (1 - share) * a
    points = np.linspace(-40, 40, 20_001)
    found, before = compile_small([value], [*widen([mapped]), mapped])(points)
    assert found.min() >= min(a, b) and found.max() <= max(a, b)
    np.testing.assert_allclose(found, before, rtol=0, atol=2 * np.spacing(max(abs(a), abs(b))))
    slope, slope_before = compile_small([value], [pytensor.grad(v.sum(), value) for v in (*widen([mapped]), mapped)])(
        points
    )
    inside = (before > min(a, b)) & (before < max(a, b))
    np.testing.assert_allclose(slope[inside], slope_before[inside], rtol=1e-9)
