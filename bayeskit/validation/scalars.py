"""The tests of each scalar of one variable: against its closed-form marginal, or against independent exact draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayeskit.validation.statistics import ScalarTests, compare_with_distribution, compare_with_draws

if TYPE_CHECKING:
    import xarray as xr

    from bayeskit.results.marginals import Marginal

__all__ = ["draws_by_scalar", "judge_variable"]

CONSTANT = 1e-9  # relative range of exact draws up to which the value is one number, but for rounding


def draws_by_scalar(exact: xr.DataArray) -> NDArray[np.float64]:
    """Exact draws as (draw, scalar): chains of independent draws are one sample."""
    values = exact.transpose("chain", "draw", ...).to_numpy().astype(np.float64)
    return values.reshape(values.shape[0] * values.shape[1], -1)


def judge_variable(
    draws: NDArray[np.float64], exact: NDArray[np.float64], marginal: Marginal | None, rng: np.random.Generator
) -> list[tuple[dict[str, Any], ScalarTests]]:
    """One (row, tests) for each scalar of a variable, in C order."""
    flat = draws.reshape(*draws.shape[:2], -1)
    scalars = range(flat.shape[2])
    if marginal is not None and marginal.elementwise:
        shape = draws.shape[2:]
        moments = _moments(marginal, shape)
        probability = _probability(marginal, draws, rng).reshape(flat.shape)
        ends = np.stack([np.broadcast_to(bound, shape).ravel() for bound in _support(marginal)], axis=-1)
        tests = [
            _against_distribution(flat[:, :, k], probability[:, :, k], [m[k] for m in moments], ends[k])
            for k in scalars
        ]
        mean, sd = moments[:2]
    else:
        tests = [_against_draws(flat[:, :, k], exact[:, k], rng) for k in scalars]
        if marginal is not None:  # a Wishart matrix: exact moments, entries without a distribution of their own
            mean, sd = np.ravel(marginal.mean()), np.ravel(marginal.std())
        else:
            mean, sd = exact.mean(axis=0), exact.std(axis=0, ddof=1)
    with np.errstate(invalid="ignore", over="ignore"):
        rows = [
            {"exact_mean": mean[k], "mcmc_mean": x.mean(), "exact_sd": sd[k], "mcmc_sd": x.std(ddof=1)}
            for k, x in ((k, flat[:, :, k]) for k in scalars)
        ]
    return list(zip(rows, tests, strict=True))


def _against_distribution(
    x: NDArray[np.float64], probability: NDArray[np.float64], moments: list[Any], support: NDArray[np.float64]
) -> ScalarTests:
    low, high = support
    if not np.isfinite(x).all():
        return _not_finite(x)
    outside = int(((x < low) | (x > high)).sum())
    if outside:
        return ScalarTests(problem=f"{outside} draws lie outside the support [{low:g}, {high:g}]")
    return compare_with_distribution(x, probability, moments)


def _against_draws(x: NDArray[np.float64], exact: NDArray[np.float64], rng: np.random.Generator) -> ScalarTests:
    if not np.isfinite(x).all():
        return _not_finite(x)
    if np.ptp(exact) <= CONSTANT * np.abs(exact).max():
        value = exact.mean()
        same = np.allclose(x, value, rtol=1e-6, atol=1e-12)
        return ScalarTests(scale="constant", problem="" if same else f"the exact value is always {value:.6g}")
    return compare_with_draws(x, exact, rng)


def _not_finite(x: NDArray[np.float64]) -> ScalarTests:
    return ScalarTests(problem=f"{int((~np.isfinite(x)).sum())} draws are not finite")


def _moments(marginal: Marginal, shape: tuple[int, ...]) -> tuple[NDArray[np.float64], ...]:
    """Mean, sd, skewness and excess kurtosis of every element, flattened; NaN where SciPy has none."""
    # SciPy divides by zero on the way to an infinite moment.
    with np.errstate(all="ignore"):
        mean, variance, skewness, excess = marginal.dist.stats(moments="mvsk")
        columns = (mean, np.sqrt(variance), skewness, excess)
    return tuple(np.broadcast_to(np.asarray(column, dtype=float), shape).ravel() for column in columns)


def _support(marginal: Marginal) -> tuple[Any, Any]:
    """The ends of the support: a method of SciPy's distributions, the ends themselves of a density on a grid."""
    support = marginal.dist.support
    low, high = support() if callable(support) else support
    return low, high


def _probability(marginal: Marginal, draws: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """F(x), drawn uniformly within the jump where the marginal is discrete."""
    values = np.asarray(marginal.dist.cdf(draws), dtype=np.float64)
    if hasattr(marginal.dist, "pmf"):
        values = values - rng.random(values.shape) * marginal.dist.pmf(draws)
    return values
