"""The forms that the score of one variable can have: recognised at random points, solved from a few.

=================  ====================================================  ==========================================
variable           score                                                 mode
=================  ====================================================  ==========================================
positive           φ Q′ = c₀ + Σ c_p φ^p, p in {−2, −1, 1, 2}            a root; for one p, φ^p = −c₀ / c_p
of a family        w Q′ = Σ c b                                          the family's own
Cholesky factor    tril(Lᵀ ∂Q/∂L) = tril(L⁻¹ S L⁻ᵀ) − n I                 of S / n
=================  ====================================================  ==========================================

A form is taken for granted once the score agrees with it to 1e-8 at eight random points. That is a lower standard than
the proofs by algebra that an exact posterior rests on, and enough here: a wrong mode is a step that does not raise the
likelihood, which the iteration itself would show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bayeskit.families import ConjugateFamily, families_for, support_kinds
from bayeskit.families.modes import positive_mode, without_rounding
from bayeskit.families.wishart import scatter_over_count, symmetric

__all__ = ["AGREE", "ModeForm", "cholesky_form", "family_form", "interval_form"]

AGREE = 1e-8  # relative difference of a score from its form
NEAR = 10.0  # a mode farther than this factor from the points is solved once more, from nearer ones
FAR = 1e4  # in one go

Ratio = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class ModeForm:
    """A form with a closed-form mode, which is solved from the score at a ``number`` of ``points`` around a guess.

    ``solve`` maps (points, scores, value now) to the mode, and to a better guess where the points were too far from it;
    ``shrinks`` maps (value, earlier value) to the ratio of the variances that they stand for, entry by entry.
    """

    label: str
    number: int
    points: Callable[[np.ndarray], np.ndarray]
    solve: Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray | None]]
    shrinks: Ratio | None = None


def _same(score: np.ndarray, expected: np.ndarray, level: np.ndarray) -> bool:
    close = np.abs(score - expected) <= AGREE * (level + 1e-6 * np.max(level, initial=0.0))
    return bool(np.all(np.isfinite(score)) and np.all(close))


def family_form(family: ConjugateFamily, points: np.ndarray, scores: np.ndarray) -> ModeForm | None:
    """The form of a variable whose score is in the span of a family's basis, or None."""
    number = len(family.anchors(points.shape[1:], points[0]))
    c = family.coefficients_at(list(points[:number]), list(scores[:number]))
    basis = [np.broadcast_to(b, points.shape) for b in family.basis(points, np)]
    # The number of a matrix's family multiplies whole matrices.
    shaped = [np.asarray(k)[(..., *[None] * (points.ndim - 1 - np.ndim(k)))] for k in c]
    terms = [k * b for k, b in zip(shaped, basis, strict=True)]
    matrix = family.support.event == 2
    weighted = family.weight(points) * (symmetric(scores) if matrix else scores)
    if not _same(weighted, sum(terms), sum(np.abs(t) for t in terms)):
        return None
    # A guess may lie on the edge of a bounded support, where there is no score.
    bounded = family.support.bounds is not None or family.support.event == 1

    def anchors(guess: np.ndarray) -> np.ndarray:
        return np.stack(family.anchors(guess.shape, family.support.start(guess.shape) if bounded else guess))

    def solve(x: np.ndarray, scores: np.ndarray, now: np.ndarray) -> tuple[np.ndarray, None]:
        return family.mode(family.coefficients_at(list(x), list(scores)), now), None

    label = family.label.capitalize() if family.support.event else family.label  # named after persons
    return ModeForm(f"{label}, closed form", number, anchors, solve, _precision_ratio if matrix else None)


def interval_form(low: np.ndarray, high: np.ndarray, points: np.ndarray, scores: np.ndarray) -> ModeForm | None:
    """The form of a variable each of whose entries lies in an interval, from what is known on supports around it."""
    for kind in support_kinds().values():
        if kind.event or kind.bounds is None:
            continue
        inside = np.all(low >= kind.bounds[0]) and np.all(high <= kind.bounds[1])
        # On a part of the circle the highest point need not be the nearest one to the mode.
        whole = np.all(low == kind.bounds[0]) and np.all(high == kind.bounds[1])
        if whole or (inside and kind.positive):
            forms = [family_form(family, points, scores) for family in families_for(kind.name)]
            if any(forms):
                return next(f for f in forms if f)
    return _positive_form(points, scores) if np.all(low >= 0) else None


# Tried in this order on a positive variable: the fewer, the fewer digits are lost.
EXPONENTS: tuple[tuple[int, ...], ...] = ((1,), (-1,), (-2,), (2,), (-1, 1), (-2, 1), (-2, 2), (-2, -1), (-2, -1, 1, 2))
NAMED: dict[tuple[int, ...], str] = {
    (1,): "gamma, closed form",
    (-1,): "inverse gamma, closed form",
    (-2,): "standard deviation, closed form",
    (2,): "inverse standard deviation, closed form",
}


def _positive_form(points: np.ndarray, scores: np.ndarray) -> ModeForm | None:
    """φ Q′ a short sum of powers, or None."""
    for exponents in EXPONENTS:
        c = _coefficients(points, scores, exponents)
        terms = np.stack([c[0] + 0 * points, *[v * points**p for v, p in zip(c[1:], exponents, strict=True)]])
        if _same(points * scores, terms.sum(axis=0), np.abs(terms).sum(axis=0)):
            return _positive(exponents)
    return None


def _coefficients(points: np.ndarray, scores: np.ndarray, exponents: Sequence[int]) -> np.ndarray:
    """c of φ Q′ = c₀ + Σ c_p φ^p, first axis c₀ and the exponents, from Q′ at as many points, or more."""
    shape = points.shape[1:]
    x = points.reshape(len(points), -1)
    f = (points * scores).reshape(len(points), -1)
    design = np.stack([np.ones_like(x), *[x**p for p in exponents]], axis=-1).transpose(1, 0, 2)
    size = np.max(np.abs(design), axis=1, keepdims=True)
    terms = (np.linalg.pinv(design / size) @ f.T[..., None])[..., 0]
    terms = without_rounding(terms, np.max(np.abs(f), axis=0)[:, None])
    return (terms / size[:, 0]).T.reshape(len(exponents) + 1, *shape)


def _positive(exponents: tuple[int, ...]) -> ModeForm:
    spread = np.geomspace(0.5, 2.0, len(exponents) + 1)

    def anchors(guess: np.ndarray) -> np.ndarray:
        guess = np.where((guess > 1e-250) & (guess < 1e250), guess, 1.0)
        return np.asarray(spread.reshape(-1, *[1] * guess.ndim) * guess)

    def solve(x: np.ndarray, scores: np.ndarray, now: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        guess = x[0] / spread[0]
        found = positive_mode(_coefficients(x, scores, exponents), exponents, now)
        near = np.clip(found, guess / FAR, guess * FAR)
        inside = (found > 0) & np.isfinite(found)
        again = inside & ((near > NEAR * guess) | (near < guess / NEAR))
        return found, np.where(inside, near, guess) if np.any(again) else None

    label = NAMED.get(exponents, f"root of a polynomial in powers {', '.join(map(str, exponents))}")
    rate = min(exponents) > 0  # or a precision: it is its inverse that shrinks
    return ModeForm(label, len(exponents) + 1, anchors, solve, _power_ratio(exponents[0], rate))


def _power_ratio(power: int, rate: bool) -> Ratio:
    def ratio(value: np.ndarray, earlier: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            found = np.abs(earlier / value if rate else value / earlier) ** abs(power)
        return np.where(np.isnan(found), 1.0, found)

    return ratio


def _precision_ratio(value: np.ndarray, earlier: np.ndarray) -> np.ndarray:
    factor = np.linalg.cholesky(earlier)
    inner = np.linalg.solve(factor, np.swapaxes(np.linalg.solve(factor, value), -1, -2))
    return np.asarray(1.0 / np.linalg.eigvalsh(inner)[..., -1])


def cholesky_form(points: np.ndarray, scores: np.ndarray) -> ModeForm | None:
    """The score of a packed Cholesky factor of the covariance of normal data, or None."""
    _, scatter, taken = _of_factors(points, scores)
    if not _same(scatter, scatter[:1], np.abs(scatter) + np.abs(taken)):
        return None

    def solve(x: np.ndarray, scores: np.ndarray, now: np.ndarray) -> tuple[np.ndarray, None]:
        n, scatter, _ = _of_factors(x, scores)
        return np.linalg.cholesky(scatter_over_count(n, scatter[0]))[np.tril_indices(scatter.shape[-1])], None

    label = "Cholesky factor of a covariance, closed form"
    return ModeForm(label, 2, lambda guess: np.stack([guess, 1.5 * guess]), solve, _factor_ratio)


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
