"""What operations cost is counted: the same at every run, in proportion to the numbers, and never read off a clock."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import bayeskit
from bayeskit.graphs.compile import compile_stacked
from bayeskit.graphs.operation_costs import CALL, charge, operations_counted
from bayeskit.graphs.toeplitz.density import ToeplitzTerms
from bayeskit.inference.cost import seconds_of_evaluation
from bayeskit.model.unconstrained import Unconstrained

PACKAGE = Path(bayeskit.__file__).parent


def cost_of(graph: Any, x: Any, value: np.ndarray) -> float:
    """Of a call, without what is computed once."""
    function = compile_stacked([x], graph)
    function(value)
    with operations_counted() as costs:
        function(value)
    return costs.nanoseconds


@pytest.mark.parametrize("rows", [10, 3_000])
@pytest.mark.parametrize(
    ("function", "price", "calls"),
    [(pt.exp, 0.8, 1), (pt.gammaln, 25.0, 1), (lambda x: pt.sum(pt.gammaln(x)), 25.4, 2)],
    ids=["a function of NumPy", "one of SciPy", "with its sum"],
)
def test_every_number_has_its_price(function: Any, price: float, calls: int, rows: int) -> None:
    x: Any = pt.vector("x", shape=(5,))
    assert cost_of(function(x), x, np.ones((rows, 5))) == pytest.approx(CALL * calls + 5 * rows * price)


@pytest.mark.parametrize("size", [3, 40])
def test_matrices_are_priced_one_by_one_where_lapack_is_called_so(size: int) -> None:
    x: Any = pt.matrix("x", shape=(size, size))
    one, ten = (cost_of(pt.linalg.cholesky(x), x, np.broadcast_to(np.eye(size), (n, size, size))) for n in (1, 10))
    assert ten == pytest.approx(10 * one - 9 * CALL)
    assert (ten > 10 * 5_000) == (size > 32)


def test_a_recursion_over_pairs_of_numbers_is_priced_by_their_pairs() -> None:
    x: Any = pt.vector("x", shape=(1_000,))
    form = ToeplitzTerms().make_node(x, np.ones(1_000)).outputs[0]
    first = np.where(np.arange(1_000) == 0, 2.0, 0.0)
    one, ten = (cost_of(form, x, np.tile(first, (n, 1))) for n in (1, 10))
    assert one > 0.4 * 1_000**2
    assert ten == pytest.approx(10 * one, rel=0.05)


def test_what_is_charged_within_is_charged_around_it() -> None:
    with operations_counted() as around:
        charge(1.0)
        with operations_counted() as within:
            charge(2.0)
    charge(4.0)
    assert (within.nanoseconds, around.nanoseconds) == (2.0, 3.0)


def test_an_evaluation_costs_the_same_again_and_more_for_more_data() -> None:
    def space(rows: int) -> Unconstrained:
        with pm.Model() as model:
            pm.StudentT("y", 4, mu=pm.Normal("mu"), sigma=pm.HalfNormal("sigma"), observed=np.arange(float(rows)))
        return Unconstrained(model)

    once, again, more = (seconds_of_evaluation(space(rows)) for rows in (1_000, 1_000, 3_000))
    assert once == again
    assert more == pytest.approx(3 * once, rel=0.1)


@pytest.mark.slow
def test_no_method_is_chosen_by_a_clock() -> None:
    clocks = {"thread_time", "process_time", "monotonic", "thread_time_ns", "process_time_ns"}
    for path in PACKAGE.rglob("*.py"):
        named = {n.attr for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Attribute)}
        assert not named & clocks, path
