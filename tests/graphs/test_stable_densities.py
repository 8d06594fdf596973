"""Densities of models far out, held against mpmath: where rounding leaves nothing of a probability."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import ancestors
from scipy import special

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.stable_logistic import stable_logistics
from bayeskit.graphs.stable_normal import log_half_erfc
from bayeskit.model.unconstrained import Unconstrained

SCALE = 1000
FEATURES = np.array([[0.0, 1.0, 2.0], [1.0, -1.0, 0.0], [0.5, 0.25, -2.0]])
CLASSES = [2, 0, 1]
POINTS = (-800.0, -90.0, -38.0, -3.0, -0.25, 0.0, 1.0, 12.0, 40.0, 400.0, 800.0)

Build = Callable[[Any], object]
Oracle = Callable[[Any], Any]


def density_is(build: Build, log_likelihood: Oracle, digits: int = 60, rounding: float = 1e-14) -> None:
    """The log density of a model with one Normal(0, 1000) is that of mpmath, and so is its slope."""
    with pm.Model() as model:
        build(pm.Normal("w", 0.0, SCALE))
    space = Unconstrained(model)

    def expected(w: Any) -> Any:
        return -((w / SCALE) ** 2) / 2 - mp.log(SCALE * mp.sqrt(2 * mp.pi)) + log_likelihood(w)

    found = space.log_density(np.array(POINTS)[:, None])
    with mp.workdps(digits):
        for point, value in zip(POINTS, found, strict=True):
            both = space.value_and_gradient(np.array([point]))
            assert both[0] == pytest.approx(value, rel=1e-14)
            assert value == pytest.approx(float(expected(mp.mpf(point))), rel=1e-12)
            assert both[1][0] == pytest.approx(float(mp.diff(expected, mp.mpf(point))), rel=1e-12, abs=rounding)


def log_softmax(logits: Any, k: int) -> Any:
    return logits[k] - mp.log(mp.fsum(mp.exp(x) for x in logits))


@pytest.mark.parametrize(
    "build",
    [
        lambda w: pm.Categorical("y", logit_p=w * FEATURES, observed=CLASSES),
        lambda w: pm.Categorical("y", p=pm.math.softmax(w * FEATURES.T, axis=0).T, observed=CLASSES),
        lambda w: pm.Multinomial("y", n=1, p=pm.math.softmax(w * FEATURES, axis=1), observed=np.eye(3)[CLASSES]),
    ],
)
def test_softmax(build: Build) -> None:
    density_is(build, lambda w: sum(log_softmax(w * x, k) for x, k in zip(FEATURES, CLASSES, strict=True)))


def test_softmax_of_one_row() -> None:
    counts = [1, 2, 3]
    coefficient = mp.log(60)  # 6!/(1! 2! 3!)
    density_is(
        lambda w: pm.Multinomial("y", n=6, p=pm.math.softmax(w * FEATURES[0]), observed=counts),
        lambda w: coefficient + sum(n * log_softmax(w * FEATURES[0], k) for k, n in enumerate(counts)),
    )


def test_a_softmax_that_is_written_out_holds_as_the_operation_does() -> None:
    x = pt.dmatrix("x")
    away = pt.exp(x - x.max(axis=1, keepdims=True))
    written = away / away.sum(axis=1, keepdims=True)
    logits = np.array([[0.0, 400.0, 800.0], [-800.0, 1.0, 2.0]])
    for p in (pt.special.softmax(x, axis=1), written):
        (graph,) = stable_logistics([pt.log(p[:, :2])])
        (found,) = compile_small([x], [graph])(logits)
        np.testing.assert_allclose(found, special.log_softmax(logits, axis=1)[:, :2], rtol=1e-14)


def test_what_is_no_softmax_is_left() -> None:
    x = pt.dmatrix("x")
    away = pt.exp(x - x.max(axis=1, keepdims=True))
    p = pt.special.softmax(x, axis=1)
    narrow = pt.special.softmax(pt.cast(x, "float32"), axis=1)
    others = (2 * p, 1 - p, p + p[::-1], narrow, away / (1 + away.sum(axis=1, keepdims=True)), away / away[:, :1])
    for graph in (*(pt.log(other) for other in others), pt.log1p(p), pt.log2(p)):
        (left,) = stable_logistics([graph])
        assert left is graph


CUTS = [-1.0, 0.5, 2.0]


def between(a: Any, b: Any) -> Any:
    """log(σ(a) − σ(b))."""
    return mp.log(1 / (1 + mp.exp(-a)) - 1 / (1 + mp.exp(-b)))


def log_level(eta: Any, level: int) -> Any:
    ends = [-mp.inf, *CUTS, mp.inf]
    return between(ends[level + 1] - eta, ends[level] - eta)


@pytest.mark.slow
@pytest.mark.parametrize("levels", [[0, 1, 2], [3, 2, 1]])
def test_ordered_levels(levels: list[int]) -> None:
    eta = np.array([1.0, -0.5, 0.25])
    density_is(
        lambda w: pm.OrderedLogistic("y", eta=w * eta, cutpoints=CUTS, compute_p=False, observed=levels),
        lambda w: sum(log_level(w * x, k) for x, k in zip(eta, levels, strict=True)),
        digits=800,
    )


def test_ordered_levels_with_cuts_that_are_far_apart_or_close() -> None:
    density_is(
        lambda w: pm.OrderedLogistic("y", eta=0.0, cutpoints=pt.stack([w, w + 1e-3, w + 900]), observed=1),
        lambda w: between(w + mp.mpf(1e-3), w),
        digits=800,
        rounding=1e-12,  # two slopes of a thousand cancel
    )


def test_a_level_between_equal_cuts_has_probability_zero() -> None:
    c = pt.dvector("c")
    p = pt.concatenate([[0.0], pt.sigmoid(c), [1.0]])
    (graph,) = stable_logistics([pt.log(p[1:] - p[:-1])])
    (found,) = compile_small([c], [graph])(np.array([-np.inf, 0.5, 0.5, np.inf, np.inf]))
    half = special.log_expit(0.5)
    np.testing.assert_allclose(found, [-np.inf, half, -np.inf, special.log_expit(-0.5), -np.inf, -np.inf], rtol=1e-14)
    (found,) = compile_small([c], [graph])(np.array([1.0, 0.0]))
    assert np.isnan(found[1])


def test_what_is_no_difference_of_logistic_functions_is_left() -> None:
    x, y = pt.dmatrix("x"), pt.drow("y")
    p, q = pt.sigmoid(x), pt.sigmoid(y)
    half = pt.concatenate([pt.full_like(p, 0.5), p], axis=1)
    other = pt.concatenate([2 * p, p], axis=1)
    ends = pt.concatenate([pt.zeros_like(x), pt.ones_like(x)], axis=1)
    for graph in (p + p[::-1], 2 - p, p - 2 * p, p - q, half, half[:, 1:] - half[:, :-1], other, ends):
        whole = pt.log(graph)
        (left,) = stable_logistics([whole])
        assert left is whole


def share(w: Any) -> Any:
    return 1 / (1 + mp.exp(-w))


ZEROS = np.array([0, 1, 0, 3])
RATE = 2.0
RATES = [mp.exp(-2), 2 * mp.exp(-2), None, mp.exp(-2) * 8 / 6]
CHANCES = [mp.mpf(0.25) ** 5, 5 * mp.mpf(0.75) * mp.mpf(0.25) ** 4, None, 10 * mp.mpf(0.75) ** 3 * mp.mpf(0.25) ** 2]


@pytest.mark.parametrize(
    ("build", "of_counts"),
    [
        (lambda w: pm.ZeroInflatedPoisson("y", psi=pm.math.sigmoid(w), mu=RATE, observed=ZEROS), RATES),
        (lambda w: pm.ZeroInflatedBinomial("y", psi=pm.math.sigmoid(w), n=5, p=0.75, observed=ZEROS), CHANCES),
        (
            lambda w: pm.Mixture(
                "y",
                w=pt.stack([1 - pm.math.sigmoid(w), pm.math.sigmoid(w)]),
                comp_dists=[pm.DiracDelta.dist(0), pm.Poisson.dist(RATE)],
                observed=ZEROS,
            ),
            RATES,
        ),
    ],
)
def test_shares_of_zeros(build: Build, of_counts: list[Any]) -> None:
    def log_likelihood(w: Any) -> Any:
        return sum(mp.log(share(w) * of_counts[k] + (share(-w) if k == 0 else 0)) for k in ZEROS)

    density_is(build, log_likelihood)


def test_hurdles() -> None:
    def log_likelihood(w: Any) -> Any:
        return sum(mp.log(share(-w) if k == 0 else share(w) * RATES[k] / (1 - RATES[0])) for k in ZEROS)

    density_is(lambda w: pm.HurdlePoisson("y", psi=pm.math.sigmoid(w), mu=RATE, observed=ZEROS), log_likelihood)


SCORES = np.array([1.0, -0.5, 0.25])
EVENTS = np.array([0, 1, 1])


def log_normal_cdf(z: Any) -> Any:
    return mp.log(mp.erfc(-z / mp.sqrt(2)) / 2)


def written_with_erf(z: Any) -> Any:
    return 0.5 * (1 + pt.erf(z / np.sqrt(2)))


# PyMC has the root in `invprobit` with seven digits.
RATIO = np.sqrt(2) / float(np.float32(np.sqrt(2)))


@pytest.mark.parametrize(
    ("cdf", "ratio"),
    [(pm.math.invprobit, RATIO), (written_with_erf, 1.0), (lambda z: 1 - pt.erfc(z / np.sqrt(2)) / 2, 1.0)],
)
def test_probit(cdf: Build, ratio: float) -> None:
    def log_likelihood(w: Any) -> Any:
        return sum(log_normal_cdf((1 if y else -1) * w * z * ratio) for z, y in zip(SCORES, EVENTS, strict=True))

    density_is(lambda w: pm.Bernoulli("y", p=cdf(w * SCORES), observed=EVENTS), log_likelihood, digits=100)


def test_counts_of_events_with_probit() -> None:
    counts = [0, 2, 5]
    coefficient = mp.log(10)  # 5!/(2! 3!)

    def log_likelihood(w: Any) -> Any:
        both = [
            k * log_normal_cdf(w * z) + (5 - k) * log_normal_cdf(-w * z) for z, k in zip(SCORES, counts, strict=True)
        ]
        return coefficient + sum(both)

    density_is(
        lambda w: pm.Binomial("y", n=5, p=written_with_erf(w * SCORES), observed=counts), log_likelihood, digits=100
    )


def test_a_normal_distribution_function_is_that_of_mpmath_all_the_way() -> None:
    t = pt.dvector("t")
    at = np.concatenate([np.linspace(-40, 8, 97), [-1e5, -26.0, -26.0000001, -25.9999999, -1e-9, 0.0, 1e3, 1e150]])
    graph = log_half_erfc(t)
    value, slope = compile_small([t], [graph, pytensor.grad(graph.sum(), t)])(at)
    with mp.workdps(60):
        expected = [mp.log(mp.erfc(-mp.mpf(x)) / 2) for x in at]
        slopes = [mp.exp(-(mp.mpf(x) ** 2)) / mp.erfc(-mp.mpf(x)) * 2 / mp.sqrt(mp.pi) for x in at]
    np.testing.assert_allclose(value, np.array(expected, dtype=float), rtol=1e-14, atol=1e-290)
    np.testing.assert_allclose(slope, np.array(slopes, dtype=float), rtol=1e-12, atol=1e-290)
    (ends,) = compile_small([t], [graph])(np.array([-np.inf, np.inf, np.nan]))
    np.testing.assert_allclose(ends, [-np.inf, 0.0, np.nan], atol=1e-290)


def test_one_normal_distribution_function_is_evaluated_where_events_choose() -> None:
    with pm.Model() as model:
        pm.Bernoulli("y", p=pm.math.invprobit(pm.Normal("w") * SCORES), observed=EVENTS)
    operations = [str(v.owner.op) for v in ancestors([Unconstrained(model).graph]) if v.owner]
    assert sum("Erfc" in name for name in operations) == 1


def test_what_is_no_normal_distribution_function_is_left() -> None:
    x = pt.dvector("x")
    half = 0.5 * pt.erfc(x)
    others = (0.25 * pt.erfc(x), pt.erfc(x), 0.5 * (2 + pt.erf(x)), 0.5 * (1 - pt.erf(x)), 0.5 * pt.erf(x), 2 - half)
    for graph in (*(pt.log(other) for other in others), pt.log1p(half), pt.log(half * half)):
        (left,) = stable_logistics([graph])
        assert left is graph
