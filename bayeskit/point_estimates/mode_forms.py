"""The forms that the score of one variable can have: recognised at random points, solved from a few.

The solutions are in :mod:`bayeskit.point_estimates.closed_form_modes`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayeskit.point_estimates import closed_form_modes as modes

__all__ = ["AGREE", "Form", "cholesky_form", "positive_form", "precision_form", "simplex_form", "unit_form"]

AGREE = 1e-8  # relative difference of a score from its form
NEAR = 10.0  # a mode farther than this factor from the points is solved once more, from nearer ones
FAR = 1e4  # in one go

Ratio = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Form:
    """A form with a closed-form mode.

    Attributes
    ----------
    label : str
    number : int
        Of points that it is solved from.
    points : callable
        A guess → the points at which the score is taken; first axis the points.
    solve : callable
        (points, scores, value now) → the mode, and a better guess where the points were too far from it, or None.
    shrinks : callable or None
        (value, earlier value) → the ratio of the variances that they stand for, entry by entry.
    """

    label: str
    number: int
    points: Callable[[np.ndarray], np.ndarray]
    solve: Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray | None]]
    shrinks: Ratio | None = None


def _same(found: np.ndarray, expected: np.ndarray, level: np.ndarray) -> bool:
    close = np.abs(found - expected) <= AGREE * (level + 1e-6 * np.max(level, initial=0.0))
    return bool(np.all(np.isfinite(found)) and np.all(close))


def simplex_form(points: np.ndarray, scores: np.ndarray) -> Form | None:
    """φ_k ∂Q/∂φ_k constant, or None."""
    c = points * scores
    if not _same(c, c[:1], np.abs(c) + np.abs(c[:1])):
        return None
    return Form(
        "Dirichlet, closed form",
        1,
        lambda guess: np.full((1, *guess.shape), 1.0 / guess.shape[-1]),
        lambda x, scores, now: (modes.simplex_mode((x * scores)[0], now), None),
    )


def unit_form(points: np.ndarray, scores: np.ndarray) -> Form | None:
    """φ (1 − φ) Q′ linear, or None."""
    f = points * (1 - points) * scores
    slope = (f[1] - f[0]) / (points[1] - points[0])
    if not _same(f, f[0] + slope * (points - points[0]), np.abs(f) + np.abs(slope)):
        return None

    def solve(x: np.ndarray, scores: np.ndarray, now: np.ndarray) -> tuple[np.ndarray, None]:
        f = x * (1 - x) * scores
        slope = (f[1] - f[0]) / (x[1] - x[0])
        return modes.unit_mode(np.stack([f[0] - x[0] * slope, slope]), now), None

    def anchors(guess: np.ndarray) -> np.ndarray:
        return np.stack([np.full(guess.shape, 0.25), np.full(guess.shape, 0.75)])

    return Form("beta, closed form", 2, anchors, solve)


NAMED: dict[tuple[int, ...], str] = {
    (1,): "gamma, closed form",
    (-1,): "inverse gamma, closed form",
    (-2,): "standard deviation, closed form",
    (2,): "inverse standard deviation, closed form",
}


def positive_form(points: np.ndarray, scores: np.ndarray) -> Form | None:
    """φ Q′ a short sum of powers, or None."""
    for exponents in modes.EXPONENTS:
        c = modes.positive_coefficients(points, scores, exponents)
        terms = np.stack([c[0] + 0 * points, *[v * points**p for v, p in zip(c[1:], exponents, strict=True)]])
        if _same(points * scores, terms.sum(axis=0), np.abs(terms).sum(axis=0)):
            return _positive(exponents)
    return None


def _positive(exponents: tuple[int, ...]) -> Form:
    spread = np.geomspace(0.5, 2.0, len(exponents) + 1)

    def anchors(guess: np.ndarray) -> np.ndarray:
        guess = np.where((guess > 1e-250) & (guess < 1e250), guess, 1.0)
        return np.asarray(spread.reshape(-1, *[1] * guess.ndim) * guess)

    def solve(x: np.ndarray, scores: np.ndarray, now: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        guess = x[0] / spread[0]
        c = modes.positive_coefficients(x, scores, exponents)
        found = modes.positive_mode(c, exponents, now)
        near = np.clip(found, guess / FAR, guess * FAR)
        inside = (found > 0) & np.isfinite(found)
        again = inside & ((near > NEAR * guess) | (near < guess / NEAR))
        return found, np.where(inside, near, guess) if np.any(again) else None

    label = NAMED.get(exponents, f"root of a polynomial in powers {', '.join(map(str, exponents))}")
    rate = min(exponents) > 0  # or a precision: it is its inverse that shrinks
    return Form(label, len(exponents) + 1, anchors, solve, _power_ratio(exponents[0], rate))


def _power_ratio(power: int, rate: bool) -> Ratio:
    def ratio(value: np.ndarray, earlier: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            found = np.abs(earlier / value if rate else value / earlier) ** abs(power)
        return np.where(np.isnan(found), 1.0, found)

    return ratio


def _symmetric(matrices: np.ndarray) -> np.ndarray:
    return 0.5 * (matrices + np.swapaxes(matrices, -1, -2))


def precision_form(points: np.ndarray, scores: np.ndarray) -> Form | None:
    """∂Q/∂W = ½ (n W⁻¹ − S), or None."""
    _, scatter, taken = _of_precisions(points, scores)
    if not _same(scatter, scatter[:1], np.abs(scatter) + taken):
        return None

    def solve(x: np.ndarray, scores: np.ndarray, now: np.ndarray) -> tuple[np.ndarray, None]:
        n, scatter, _ = _of_precisions(x, scores)
        return modes.precision_mode(n, scatter[0]), None

    return Form("Wishart, closed form", 2, lambda guess: np.stack([guess, 2 * guess]), solve, _precision_ratio)


def _of_precisions(points: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """n, S at each point, and the size of what n takes from it."""
    inverse, scores = np.linalg.inv(points), _symmetric(scores)
    one, two = 2 * (scores[0] - scores[1]), inverse[0] - inverse[1]
    n = np.sum(one * two, axis=(-2, -1)) / np.sum(two * two, axis=(-2, -1))
    return n, n[..., None, None] * inverse - 2 * scores, np.abs(n[..., None, None] * inverse)


def _precision_ratio(value: np.ndarray, earlier: np.ndarray) -> np.ndarray:
    factor = np.linalg.cholesky(earlier)
    inner = np.linalg.solve(factor, np.swapaxes(np.linalg.solve(factor, value), -1, -2))
    return np.asarray(1.0 / np.linalg.eigvalsh(inner)[..., -1])


def cholesky_form(points: np.ndarray, scores: np.ndarray) -> Form | None:
    """The score of a packed Cholesky factor of the covariance of normal data, or None."""
    _, scatter, taken = _of_factors(points, scores)
    if not _same(scatter, scatter[:1], np.abs(scatter) + np.abs(taken)):
        return None

    def solve(x: np.ndarray, scores: np.ndarray, now: np.ndarray) -> tuple[np.ndarray, None]:
        n, scatter, _ = _of_factors(x, scores)
        return modes.cholesky_mode(n, scatter[0])[np.tril_indices(scatter.shape[-1])], None

    label = "Cholesky factor of a covariance, closed form"
    return Form(label, 2, lambda guess: np.stack([guess, 1.5 * guess]), solve, _factor_ratio)


def _unpacked(values: np.ndarray) -> np.ndarray:
    size = int((np.sqrt(8 * values.shape[-1] + 1) - 1) / 2)
    factors = np.zeros((*values.shape[:-1], size, size))
    rows, columns = np.tril_indices(size)
    factors[..., rows, columns] = values
    return factors


def _of_factors(points: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """n, S at each point, and the size of what n takes from it."""
    factors, slopes = _unpacked(points), _unpacked(scores)
    lower = np.tril(np.swapaxes(factors, -1, -2) @ slopes)
    whole = lower + np.swapaxes(np.tril(lower, -1), -1, -2)
    # With whole = T − n I, S = L (whole + n I) Lᵀ is the same at every point.
    outer = factors @ np.swapaxes(factors, -1, -2)
    inner = factors @ whole @ np.swapaxes(factors, -1, -2)
    one, two = inner[0] - inner[1], outer[1] - outer[0]
    n = np.asarray(np.sum(one * two) / np.sum(two * two))
    return n, inner + n * outer, n * outer


def _factor_ratio(value: np.ndarray, earlier: np.ndarray) -> np.ndarray:
    inner = np.linalg.solve(_unpacked(earlier), _unpacked(value))
    return np.linalg.svd(inner, compute_uv=False)[-1:] ** 2
