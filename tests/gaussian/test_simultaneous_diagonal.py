"""Gaussian blocks made diagonal once for all scales, against least squares on the rows themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

import bayeskit as bk
from bayeskit.elimination.collapsed_density import Collapsed, collapsed_density
from bayeskit.elimination.plan import analyse
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.rewriting import inline
from bayeskit.model.unconstrained import Unconstrained

RNG = np.random.default_rng(5)
ROWS, SIZE = 700, 4
X = RNG.normal(size=(ROWS, SIZE)) @ np.array([[2.0, 0, 0, 0], [0.5, 1, 0, 0], [0, 0, 0.3, 0], [1, 1, 0, 5]])
Y = X @ np.array([1.0, -2.0, 0.5, 3.0]) + 0.7 * RNG.normal(size=ROWS) + 2.0
MEAN = np.array([0.5, -1.0, 2.0, 0.0])
SDS = np.array([1.0, 2.0, 0.5, 3.0])

Build = Callable[[Any, Any], tuple[Any, np.ndarray, np.ndarray]]


def single(tau: Any, design: np.ndarray) -> Any:
    return design @ pm.Normal("w", 0.0, tau, shape=SIZE)


def about_a_mean(tau: Any, design: np.ndarray) -> Any:
    return design @ pm.Normal("w", MEAN, tau * SDS, shape=SIZE)


def by_precision(tau: Any, design: np.ndarray) -> Any:
    return design @ pm.Normal("w", 0.0, tau=tau**-2, shape=SIZE)


def in_two_variables(tau: Any, design: np.ndarray) -> Any:
    return design[:, :1] @ pm.Normal("a", 0.0, tau, shape=1) + design[:, 1:] @ pm.Normal("w", 0.0, tau, shape=SIZE - 1)


def fixed(tau: Any, design: np.ndarray) -> Any:
    return design[:, 0] * pm.Normal("a", 1.0, 3.0) + design[:, 1:] @ pm.Normal("w", 0.0, 2.0, shape=SIZE - 1)


# How the weights are written, their prior mean, and their prior sds in units of tau, or as they are.
WAYS: dict[str, tuple[Any, np.ndarray, np.ndarray, bool]] = {
    "one scale": (single, np.zeros(SIZE), np.ones(SIZE), True),
    "mean and sds": (about_a_mean, MEAN, SDS, True),
    "precision": (by_precision, np.zeros(SIZE), np.ones(SIZE), True),
    "two variables": (in_two_variables, np.zeros(SIZE), np.ones(SIZE), True),
    "no scale": (fixed, np.array([1.0, 0, 0, 0]), np.array([3.0, 2, 2, 2]), False),
}


def regression(way: Any, design: np.ndarray = X) -> pm.Model:
    with pm.Model() as model:
        tau, sigma = pm.HalfCauchy("tau", 1.0), pm.HalfNormal("sigma", 1.0)
        pm.Normal("y", way(tau, design), sigma, observed=Y)
        if way is fixed:
            pm.Normal("z", 0.0, tau, observed=0.5)
    return model


def collapsed_of(model: pm.Model) -> Collapsed:
    return collapsed_density(analyse(model))


def value_of(collapsed: Collapsed, **point: float) -> float:
    return float(likelihood_of(collapsed)(*[np.array(point[n]) for n in collapsed.remaining]))


@cache
def likelihood_of(collapsed: Collapsed) -> Callable[..., Any]:
    return compile_small(collapsed.inputs, inline([pt.add(collapsed.likelihood, pt.constant(0.0))])[0])


@cache
def collapsed_way(name: str) -> Collapsed:
    return collapsed_of(regression(WAYS[name][0]))


def by_least_squares(mean: np.ndarray, sds: np.ndarray, sigma: float) -> float:
    """log N(y; Xm, σ²I + X diag(s²) Xᵀ), by reflections on the rows: as accurate for any s and σ."""
    stacked = np.concatenate([X * sds / sigma, np.eye(SIZE)])
    right = np.concatenate([(Y - X @ mean) / sigma, np.zeros(SIZE)])
    q, r = np.linalg.qr(stacked)
    residual = right - q @ (q.T @ right)
    log_det = np.sum(np.log(np.abs(np.diag(r))))
    return float(-0.5 * ROWS * np.log(2 * np.pi) - ROWS * np.log(sigma) - log_det - 0.5 * residual @ residual)


@pytest.mark.slow
@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("tau", [1e-8, 1e-3, 1.0, 1e3, 1e8])
@pytest.mark.parametrize("sigma", [1e-3, 0.7, 1e4])
def test_the_integral_is_that_of_least_squares(name: str, tau: float, sigma: float) -> None:
    _, mean, sds, scaled = WAYS[name]
    collapsed = collapsed_way(name)
    ((_, form),) = collapsed.blocks
    assert form.spectrum is not None
    expected = by_least_squares(mean, sds * tau if scaled else sds, sigma)
    if not scaled:
        expected += float(stats.norm.logpdf(0.5, 0.0, tau))
    assert value_of(collapsed, tau=tau, sigma=sigma) == pytest.approx(expected, rel=1e-10, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", WAYS)
def test_the_gradient_is_that_of_differences(name: str) -> None:
    space = Unconstrained(bk.collapse(regression(WAYS[name][0])))
    point = space.start + np.array([0.3, -0.4])
    _, gradient = space.value_and_gradient(point)
    step = 1e-4
    sides = np.concatenate([point + k * step * np.eye(2) for k in (-2, -1, 1, 2)])
    f = space.log_density(sides).reshape(4, -1)
    assert gradient == pytest.approx((f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * step), rel=1e-6)


def test_it_is_the_same_with_as_many_weights_as_are_never_factorised_whole() -> None:
    """With more than 64 weights the prior is no root any more, and that of a walk has too many levels for a side."""
    size, rng = 80, np.random.default_rng(6)
    design = rng.normal(size=(ROWS, size))
    with pm.Model() as model:
        tau, sigma = pm.HalfCauchy("tau", 1.0), pm.HalfNormal("sigma", 1.0)
        w = pm.GaussianRandomWalk("w", sigma=tau, init_dist=pm.Normal.dist(0.3, tau), steps=size - 1)
        pm.Normal("y", design @ w, sigma, observed=Y)
    collapsed = collapsed_of(model)
    assert collapsed.blocks[0][1].spectrum is not None
    assert collapsed.blocks[0][1].root is None
    walk = design @ np.tri(size)
    covariance = 0.49 * np.eye(ROWS) + 4.0 * walk @ walk.T
    expected = stats.multivariate_normal(design @ np.full(size, 0.3), covariance).logpdf(Y)
    assert value_of(collapsed, tau=2.0, sigma=0.7) == pytest.approx(expected, rel=1e-11)


def two_scales(tau: Any, design: np.ndarray) -> Any:
    return design[:, 0] * pm.Normal("a", 0.0, 3.0) + design[:, 1:] @ pm.Normal("w", 0.0, tau, shape=SIZE - 1)


def scale_of_each(tau: Any, design: np.ndarray) -> Any:
    return design @ pm.Normal("w", 0.0, tau * pm.HalfNormal("each", 1.0, shape=SIZE), shape=SIZE)


@pytest.mark.parametrize(
    "model",
    [
        lambda: regression(two_scales),
        lambda: regression(scale_of_each),
        lambda: regression(single, np.concatenate([X[:, :3], X[:, :1] + 1e-6 * X[:, 3:]], axis=1)),
        lambda: regression(single, X * np.array([1.0, 1e-5, 1.0, 1e3])),
    ],
    ids=["two prior scales", "a prior scale each", "collinear columns", "columns of different units"],
)
def test_what_has_more_scales_or_is_ill_conditioned_is_factorised(model: Callable[[], pm.Model]) -> None:
    assert collapsed_of(model()).blocks[0][1].spectrum is None


def test_two_noise_scales_are_factorised() -> None:
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 1.0, shape=2)
        w = pm.Normal("w", 0.0, 1.0, shape=SIZE)
        pm.Normal("y", X @ w, sigma[np.arange(ROWS) % 2], observed=Y)
    assert collapsed_of(model).blocks[0][1].spectrum is None


def test_a_potential_that_takes_precision_away_is_seen() -> None:
    """The prior's own square may be spoilt: 0.1 |w|² has a positive weight, and belongs to what the data say."""
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 1.0)
        w = pm.Normal("w", 0.0, 1.0, shape=SIZE)
        pm.Potential("bend", 0.1 * pt.sum(w**2))
        pm.Normal("y", X @ w, sigma, observed=Y)
    collapsed = collapsed_of(model)
    assert collapsed.blocks[0][1].spectrum is None
    precision = 0.8 * np.eye(SIZE) + X.T @ X / 0.49
    mean = np.linalg.solve(precision, X.T @ Y / 0.49)
    expected = (
        stats.norm.logpdf(Y, X @ mean, 0.7).sum()
        + stats.norm.logpdf(mean).sum()
        + 0.1 * mean @ mean
        + 0.5 * SIZE * np.log(2 * np.pi)
        - 0.5 * np.linalg.slogdet(precision)[1]
    )
    assert value_of(collapsed, sigma=0.7) == pytest.approx(expected, rel=1e-11)


def test_draws_of_the_weights_are_those_of_the_posterior() -> None:
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 1.0)
        pm.Normal("y", X @ pm.Normal("w", MEAN, 1.0, shape=SIZE), sigma, observed=Y)
    post = bk.infer(model, draws=4000, random_seed=1, progressbar=False)
    assert post.method == "quadrature"
    assert post.certificate < 1e-9
    sigma = np.sqrt(float((post.tree["posterior"]["sigma"] ** 2).mean()))
    precision = np.eye(SIZE) + X.T @ X / sigma**2
    mean = np.linalg.solve(precision, MEAN + X.T @ Y / sigma**2)
    sd = np.sqrt(np.diag(np.linalg.inv(precision)))
    draws = post.tree["posterior"]["w"].to_numpy().reshape(-1, SIZE)
    # Five standard errors of a mean of 4,000 draws; a false alarm once in 400,000.
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * sd / np.sqrt(4000))
