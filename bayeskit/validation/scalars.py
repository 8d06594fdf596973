"""The tests of each scalar of one variable: against its closed-form marginal, or against independent exact draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeskit.results.marginals import Marginal
from bayeskit.validation.statistics import ScalarTests, compare_with_distribution, compare_with_draws

__all__ = ["judge_variable", "probability_of"]

CONSTANT = 1e-9  # relative range of exact draws up to which the value is one number, but for rounding
ONE_SUM = 1e-4  # relative, to which draws that may have been kept in single precision have it
TOLD_APART = 20  # values of a chain: another that has the same is its copy, and no chance
AT_AN_END = 1e-12  # F is zero or one but for rounding of a sum over nodes, say


def judge_variable(
    draws: NDArray[np.float64], exact: NDArray[np.float64], marginal: Marginal | None, rng: np.random.Generator
) -> list[tuple[dict[str, Any], ScalarTests]]:
    """One (row, tests) for each scalar of a variable, in C order; exact draws are of shape (draw, scalar)."""
    flat = draws.reshape(*draws.shape[:2], -1)
    columns = [flat[..., k] for k in range(flat.shape[2])]
    problems = _of_sums(draws, exact)
    if marginal is not None and marginal.elementwise:
        shape = draws.shape[2:]
        moments = _moments(marginal, shape)
        probability = probability_of(marginal, draws, rng).reshape(flat.shape)
        low, high = (np.broadcast_to(end, shape).ravel() for end in marginal.dist.support())
        tests = [
            _outside(x, low[k], high[k])
            or problems[k]
            or _copied(x)
            or compare_with_distribution(x, probability[..., k], [m[k] for m in moments])
            for k, x in enumerate(columns)
        ]
        mean, sd = moments[:2]
    else:
        tests = [problems[k] or _against_draws(x, exact[:, k], rng) for k, x in enumerate(columns)]
        if marginal is not None:  # a Wishart matrix: exact moments, entries without a distribution of their own
            mean, sd = np.ravel(marginal.mean()), np.ravel(marginal.std())
        else:
            mean, sd = exact.mean(axis=0), exact.std(axis=0, ddof=1)
    with np.errstate(invalid="ignore", over="ignore"):
        rows = [
            {"exact_mean": mean[k], "mcmc_mean": x.mean(), "exact_sd": sd[k], "mcmc_sd": x.std(ddof=1)}
            for k, x in enumerate(columns)
        ]
    return list(zip(rows, tests, strict=True))


def _against_draws(x: NDArray[np.float64], exact: NDArray[np.float64], rng: np.random.Generator) -> ScalarTests:
    if problem := _outside(x, -np.inf, np.inf):
        return problem
    if np.ptp(exact) <= CONSTANT * np.abs(exact).max():
        value = exact.mean()
        same = np.allclose(x, value, rtol=1e-6, atol=1e-12)
        return ScalarTests(scale="constant", problem="" if same else f"the exact value is always {value:.6g}")
    return _copied(x) or compare_with_draws(x, exact, rng)


def _outside(x: NDArray[np.float64], low: float, high: float) -> ScalarTests | None:
    """The verdict on draws that are not finite, or outside the support; None where there is none."""
    if not np.isfinite(x).all():
        return ScalarTests(problem=f"{int((~np.isfinite(x)).sum())} draws are not finite")
    number = int(((x < low) | (x > high)).sum())
    return ScalarTests(problem=f"{number} draws lie outside the support [{low:g}, {high:g}]") if number else None


def _of_sums(draws: NDArray[np.float64], exact: NDArray[np.float64]) -> list[ScalarTests | None]:
    """Of each scalar, whether its row has another sum than all exact draws, as those of a composition have."""
    shape = draws.shape[2:]
    nothing: list[ScalarTests | None] = [None] * exact.shape[1]
    if not shape or shape[-1] < 2 or not exact.size or not np.isfinite(draws).all():
        return nothing
    sums, scale = exact.reshape(-1, *shape).sum(axis=-1), np.abs(exact).max()
    # Where every entry is one number, it is compared by itself.
    if not np.ptp(sums) <= CONSTANT * scale < np.ptp(exact, axis=0).max():
        return nothing
    value = float(sums.flat[0])
    off = (np.abs(draws.sum(axis=-1) - value) > ONE_SUM * scale).sum(axis=(0, 1))
    numbers = np.repeat(np.ravel(off), shape[-1])
    said = 0.0 if abs(value) <= CONSTANT * scale else value
    return [ScalarTests(problem=f"{n} draws do not sum to {said:.6g}") if n else None for n in numbers]


def _copied(x: NDArray[np.float64]) -> ScalarTests | None:
    """The verdict on chains that are copies of each other, which say nothing beyond one of them."""
    seen: set[bytes] = set()
    for chain in np.ascontiguousarray(x):
        if (key := chain.tobytes()) in seen and len(np.unique(chain)) > TOLD_APART:
            return ScalarTests(problem="two chains have the same draws: each needs a seed of its own")
        seen.add(key)
    return None


def _moments(marginal: Marginal, shape: tuple[int, ...]) -> tuple[NDArray[np.float64], ...]:
    """Mean, sd, skewness and excess kurtosis of every element, flattened; NaN where SciPy has none."""
    # SciPy divides by zero on the way to an infinite moment.
    with np.errstate(all="ignore"):
        mean, variance, skewness, excess = marginal.dist.stats(moments="mvsk")
        columns = (mean, np.sqrt(variance), skewness, excess)
    return tuple(np.broadcast_to(np.asarray(column, dtype=float), shape).ravel() for column in columns)


def probability_of(marginal: Marginal, draws: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """F(x), drawn uniformly within the jump where the marginal is discrete, or all that round to x are many."""
    values = np.asarray(marginal.dist.cdf(draws), dtype=np.float64)
    if hasattr(marginal.dist, "pmf"):
        return values - rng.random(values.shape) * marginal.dist.pmf(draws)
    ended = (values < AT_AN_END) | (values > 1 - AT_AN_END)
    if ended.any():
        # A chance of which a tenth of the distribution rounds to one is no truth that F = 1 makes impossible.
        before = marginal.dist.cdf(np.nextafter(draws, np.where(values > 0.5, -np.inf, np.inf)))
        values = np.where(ended, values + rng.random(values.shape) * (before - values), values)
    return values
