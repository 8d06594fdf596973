"""Extended precision against mpmath, and graphs against the same formula written in mpmath."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.logprob.utils import CheckParameterValue, ParameterValueError
from scipy import stats

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.extended_precision import compile_extended, compile_rounding, gammaln, xlogy
from bayeskit.graphs.instructions import NotEvaluable

Long = np.longdouble
EPSILON = float(np.finfo(Long).eps)
pytestmark = pytest.mark.skipif(EPSILON > 1e-18, reason="longdouble is double on this platform")


def exactly(value: Any) -> mp.mpf:
    """A longdouble as the number it is: its leading half, and the rest."""
    high = float(value)
    return mp.mpf(high) + mp.mpf(float(Long(value) - Long(high)))


def assert_close(value: Any, expected: mp.mpf, *, ulps: float, scale: Any = 1.0) -> None:
    """Within a number of roundings of the expected value, or of the size of its terms."""
    with mp.workdps(50):
        assert abs(exactly(value) - expected) <= ulps * EPSILON * max(abs(expected), scale)


@pytest.mark.parametrize("x", [1e-300, 1e-9, 0.1, 0.5, 1.0, 1.4616321449683623, 2.0, 3.7, 15.999, 16.0, 1e2, 1e7, 1e15])
def test_gammaln(x: float) -> None:
    with mp.workdps(50):
        # Near its zeros at 1 and 2 it is a difference of terms of the size of log 16!.
        assert_close(gammaln(x), mp.loggamma(mp.mpf(x)), ulps=8, scale=mp.log(mp.factorial(16)))


def test_gammaln_of_an_array_and_its_recurrence() -> None:
    x = np.array([[0.3, 4.5], [17.0, 1e4]])
    assert gammaln(x).dtype == Long and gammaln(x).shape == x.shape
    difference = gammaln(x + Long(1)) - gammaln(x) - np.log(Long(1) * x)
    assert np.all(np.abs(difference) < 40 * EPSILON * np.maximum(1, np.abs(gammaln(x))))


def test_xlogy() -> None:
    assert xlogy(0.0, 0.0) == 0 and xlogy(0.0, 3.0) == 0
    with mp.workdps(50):
        assert_close(xlogy(3.5, 0.1), mp.mpf(3.5) * mp.log(mp.mpf(0.1)), ulps=4)


VECTOR = np.array([0.3, 1.7, 2.9])
# Each with the same formula in mpmath, entry by entry, and the size of the terms that cancel in it.
Formula = tuple[Callable[[Any], Any], Callable[[mp.mpf], mp.mpf], float]
FORMULAS: dict[str, Formula] = {
    "sum of logarithms": (lambda x: pt.sum(pt.log(x)), mp.log, 3),
    "polynomial": (lambda x: pt.sum(3 * x**2 - x / 7 - 1), lambda x: 3 * x**2 - x / 7 - 1, 30),
    "exponentials": (lambda x: pt.sum(pt.exp(-x) + pt.expm1(x)), lambda x: mp.exp(-x) + mp.expm1(x), 20),
    "logarithms": (lambda x: pt.sum(pt.log1p(x) - pt.sqrt(x)), lambda x: mp.log1p(x) - mp.sqrt(x), 5),
    "squares": (lambda x: pt.sum(pt.sqr(x) + abs(-x) + pt.reciprocal(x)), lambda x: x**2 + x + 1 / x, 20),
    "log gamma": (lambda x: pt.sum(pt.gammaln(x + 1e6)), lambda x: mp.loggamma(x + 10**6), 4e7),
    "switch": (lambda x: pt.sum(pt.switch(x > 1, x**3, -x)), lambda x: x**3 if x > 1 else -x, 30),
    "comparisons": (
        lambda x: pt.sum(pt.switch(pt.eq(x, 0.3), pt.log(x), pt.switch(x <= 2, x, 2.0))),
        lambda x: mp.log(x) if x < 0.5 else min(x, mp.mpf(2)),
        5,
    ),
    "clip": (lambda x: pt.sum(pt.clip(x, 0.5, 2.0) / 3), lambda x: min(max(x, mp.mpf(0.5)), mp.mpf(2)) / 3, 3),
    "alloc": (lambda x: pt.sum(pt.alloc(x, 4, 3)) / 4, lambda x: x, 20),
    "join and index": (lambda x: pt.sum(pt.concatenate([x, x])[3:] / 3), lambda x: x / 3, 3),
    "stack": (lambda x: pt.sum(pt.stack([x[0] / 3, x[1] / 3, x[2] / 3])), lambda x: x / 3, 3),
    "dot": (lambda x: pt.dot(x, x / 3), lambda x: x * x / 3, 5),
    "powers": (lambda x: pt.sum(x**1.5), lambda x: x ** mp.mpf(1.5), 10),
    "fill": (lambda x: pt.sum(pt.fill(x, pt.log(x[1])) - pt.log(x[1]) + x / 3), lambda x: x / 3, 3),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_graphs_keep_every_digit(name: str) -> None:
    """Within a few roundings of the terms, three digits below what double precision would leave."""
    graph, formula, size = FORMULAS[name]
    x = pt.vector("x", shape=(3,), dtype="float64")
    value = compile_extended([x], graph(x))(VECTOR)
    assert type(value) is Long
    with mp.workdps(50):
        assert_close(value, mp.fsum(formula(mp.mpf(v)) for v in VECTOR), ulps=30, scale=size)


def test_a_density_that_double_precision_loses() -> None:
    """A Poisson count of a million: terms of 10⁷ that cancel to 10."""
    rate = pt.scalar("rate", dtype="float64")
    count = pt.constant(np.array([10**6, 10**6 + 1000], dtype=np.int64))
    graph = pt.sum(count * pt.log(rate) - pt.gammaln(count + 1) - rate)
    with mp.workdps(50):
        expected = mp.fsum(k * mp.log(10**6) - mp.loggamma(k + 1) - 10**6 for k in (10**6, 10**6 + 1000))
        assert_close(compile_extended([rate], graph)(np.array(1e6)), expected, ulps=30, scale=4e7)


def test_shared_values_are_read_at_each_call_and_constants_once() -> None:
    data = pytensor.shared(np.array([1.0, 2.0]), name="data")
    x = pt.scalar("x", dtype="float64")
    function = compile_extended([x], pt.sum(pt.gammaln(pt.constant(VECTOR))) * 0 + pt.sum(data) * x)
    assert function(np.array(3.0)) == 9
    data.set_value(np.array([5.0, 5.0]))
    assert function(np.array(3.0)) == 30
    assert function(np.array(1.0)) == 10


def test_checks_of_parameters_are_kept() -> None:
    x = pt.scalar("x", dtype="float64")
    function = compile_extended([x], CheckParameterValue("x > 0")(x / 3, x > 0))
    with mp.workdps(50):
        assert_close(function(np.array(1.0)), mp.mpf(1) / 3, ulps=1)
    with pytest.raises(ParameterValueError, match="x > 0"):
        function(np.array(-1.0))


def test_what_has_no_extended_form_is_computed_in_double() -> None:
    x = pt.vector("x", shape=(3,), dtype="float64")
    value = compile_extended([x], pt.sum(pt.erfc(x)))(VECTOR)
    assert float(value) == pytest.approx(float(mp.fsum(mp.erfc(v) for v in VECTOR)), rel=1e-14)


def test_an_input_without_a_value_is_an_error() -> None:
    x, y = pt.scalar("x"), pt.scalar("y")
    with pytest.raises(NotEvaluable, match="no value for y"):
        compile_extended([x], x + y)


def test_rounding_is_seen_through_conditions_on_parameters() -> None:
    """A number where an operation takes arrays was an error, and taken for no rounding at all."""
    variable = pm.LogitNormal.dist(0.0, 30.0)
    value = variable.type("value")
    graph, at = pm.logcdf(variable, value), np.array(1 - 1e-9)
    found = float(compile_small([value], graph)(at))
    known = stats.norm.logcdf(np.log(at / (1 - at)) / 30)
    assert 1e-10 < abs(found - known) < compile_rounding([value], graph)(found, at) < 1e-7
