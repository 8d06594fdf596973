"""Which blocks of variables have a closed-form mode in Q, found from its score at random points, and how it is taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeskit import modes
from bayeskit.expected import Expected, Point, Score
from bayeskit.natural import Natural

__all__ = ["Block", "blocks_for"]

AGREE = 1e-8  # relative difference of a score from its form
LARGEST = 512  # entries of a real block
NEAR = 10.0  # a mode farther than this factor from the anchors is solved once more from nearer ones
PASSES = 8

FORMS = {
    exponents: {
        (1,): "gamma, closed form",
        (-1,): "inverse gamma, closed form",
        (-2,): "standard deviation, closed form",
        (2,): "inverse standard deviation, closed form",
    }.get(exponents, f"root of a polynomial in powers {', '.join(map(str, exponents))}")
    for exponents in modes.EXPONENTS
}

Mode = Callable[[Point, Sequence[np.ndarray], Point], Point]


@dataclass(frozen=True, eq=False)
class Block:
    """Variables and their mode given the others.

    Attributes
    ----------
    names : tuple of str
    form : str
        Of the score, in words.
    mode : callable
        (a point inside the support, statistics, the point itself) → the mode.
    shrinks : callable or None
        (value, earlier value) → the ratio of the variances that they stand for, entry by entry.
    """

    names: tuple[str, ...]
    form: str
    mode: Mode
    shrinks: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None


def blocks_for(
    expected: Expected, natural: Natural, statistics: Sequence[np.ndarray], rng: np.random.Generator
) -> tuple[list[Block], list[str]]:
    """The blocks with a closed form, real variables first, and the names of the rest."""
    search = _Search(expected, natural, statistics, rng)
    real = [n for n in natural.names if natural.transform(n) is None and n not in search.matrices]
    blocks: list[Block] = []
    rest: list[str] = []
    joined = search.real(real) if real else None
    if joined is not None:
        blocks.append(joined)
    for name in natural.names:
        if name in real and joined is not None:
            continue
        own = search.real([name]) if name in real else search.constrained(name)
        if own is None:
            rest.append(name)
        else:
            blocks.append(own)
    return blocks, rest


class _Search:
    def __init__(
        self, expected: Expected, natural: Natural, statistics: Sequence[np.ndarray], rng: np.random.Generator
    ) -> None:
        self.expected, self.natural, self.statistics, self.rng = expected, natural, statistics, rng
        kinds = {n: type(natural.model[n].owner.op).__name__ for n in natural.names}
        self.matrices = [n for n, kind in kinds.items() if kind == "WishartRV"]
        self.factors = [n for n, kind in kinds.items() if kind == "_LKJCholeskyCovRV"]

    def random(self) -> Point:
        """A point inside the support."""
        point = self.natural.backward(self.natural.start + self.rng.normal(scale=0.4, size=self.natural.size))
        for name in self.matrices:
            point[name] = self.matrix(np.shape(point[name]))
        return point

    def matrix(self, shape: tuple[int, ...]) -> np.ndarray:
        root = self.rng.normal(scale=0.3, size=shape)
        return np.eye(shape[-1]) + root @ np.swapaxes(root, -1, -2)

    def several(self, name: str, count: int) -> np.ndarray:
        return np.stack([self.random()[name] for _ in range(count)])

    # -- real variables ----------------------------------------------------------------------------------------------
    def real(self, names: list[str]) -> Block | None:
        start = self.random()
        shapes = {n: np.shape(start[n]) for n in names}
        size = sum(int(np.prod(s, dtype=int)) for s in shapes.values())
        if size > LARGEST:
            return None
        score = self.expected.score(names, size + 3)
        flat = _flat(start, names)
        steps = np.concatenate([np.zeros((1, size)), np.eye(size), self.rng.normal(size=(2, size))])
        found = _rows(score(_split(flat + steps, shapes), start, self.statistics), names)
        if not np.all(np.isfinite(found)):
            return None
        hessian = (found[1 : size + 1] - found[0]).T
        expected = found[0] + steps[-2:] @ hessian.T
        level = np.max(np.abs(found[:1])) + np.abs(steps[-2:]) @ np.abs(hessian).T
        if np.any(np.abs(found[-2:] - expected) > AGREE * (level + 1e-300)) or not np.any(hessian):
            return None
        pattern = np.abs(hessian) > 1e-12 * np.max(np.abs(hessian))
        return Block(tuple(names), "normal, closed form", _quadratic(self.expected, names, shapes, pattern | pattern.T))

    # -- constrained variables ---------------------------------------------------------------------------------------
    def constrained(self, name: str) -> Block | None:
        if name in self.matrices:
            return self.precision(name)
        if name in self.factors:
            return self.cholesky(name)
        kind = type(self.natural.transform(name)).__name__
        if kind == "SimplexTransform":
            return self.simplex(name)
        if kind not in ("LogTransform", "LogOddsTransform", "Interval", "IntervalTransform"):
            return None
        low, high = self.natural.ends[name]
        block = None
        if np.all(low >= 0) and np.all(high <= 1):
            block = self.unit(name)
        if block is None and np.all(low >= 0):
            block = self.positive(name)
        return block

    def scores(self, name: str, count: int) -> tuple[np.ndarray, np.ndarray, Score]:
        points = self.several(name, count)
        score = self.expected.score([name], count)
        return points, score({name: points}, self.random(), self.statistics)[name], score

    def simplex(self, name: str) -> Block | None:
        points, found, _ = self.scores(name, 4)
        c = points * found
        if not _same(c, c[:1]):
            return None
        score = self.expected.score([name], 1)

        def mode(inside: Point, statistics: Sequence[np.ndarray], point: Point) -> Point:
            middle = np.full(np.shape(point[name]), 1.0 / np.shape(point[name])[-1])
            c = middle * score({name: middle[None]}, inside, statistics)[name][0]
            return {name: modes.simplex_mode(c, point[name])}

        return Block((name,), "Dirichlet, closed form", mode)

    def unit(self, name: str) -> Block | None:
        points, found, _ = self.scores(name, 6)
        f = points * (1 - points) * found
        slope = (f[1] - f[0]) / (points[1] - points[0])
        if not _same(f, f[0] + slope * (points - points[0]), np.abs(f) + np.abs(slope)):
            return None
        score = self.expected.score([name], 2)
        low, high = self.natural.ends[name]

        def mode(inside: Point, statistics: Sequence[np.ndarray], point: Point) -> Point:
            x = np.stack([np.full(np.shape(point[name]), v) for v in (0.25, 0.75)])
            f = x * (1 - x) * score({name: x}, inside, statistics)[name]
            slope = (f[1] - f[0]) / 0.5
            found = modes.unit_mode(np.stack([f[0] - 0.25 * slope, slope]), point[name])
            return {name: np.clip(found, low, high)}

        return Block((name,), "beta, closed form", mode)

    def positive(self, name: str) -> Block | None:
        points, found, _ = self.scores(name, 8)
        for exponents in modes.EXPONENTS:
            c = modes.positive_coefficients(points, found, exponents)
            terms = np.stack([c[0] + 0 * points, *[v * points**p for v, p in zip(c[1:], exponents, strict=True)]])
            if _same(points * found, terms.sum(axis=0), np.abs(terms).sum(axis=0)):
                rate = min(exponents) > 0  # or a precision: it is its inverse that shrinks
                return Block((name,), FORMS[exponents], self._positive(name, exponents), _ratio(exponents[0], rate))
        return None

    def _positive(self, name: str, exponents: tuple[int, ...]) -> Mode:
        count = len(exponents) + 1
        score = self.expected.score([name], count)
        low, high = self.natural.ends[name]
        spread = np.geomspace(0.5, 2.0, count)

        def mode(inside: Point, statistics: Sequence[np.ndarray], point: Point) -> Point:
            guess = np.asarray(inside[name], dtype=float)
            guess = np.where((guess > 1e-250) & (guess < 1e250), guess, 1.0)
            found = guess
            for _ in range(PASSES):
                anchors = spread.reshape(-1, *[1] * guess.ndim) * guess
                scores = score({name: anchors}, inside, statistics)[name]
                c = modes.positive_coefficients(anchors, scores, exponents)
                found = modes.positive_mode(c, exponents, point[name])
                near = np.clip(found, guess / 1e4, guess * 1e4)
                if np.all((near <= NEAR * guess) & (near >= guess / NEAR)) or np.any((found == 0) | ~np.isfinite(found)):
                    break
                guess = near
            return {name: np.clip(found, low, high)}

        return mode

    def precision(self, name: str) -> Block | None:
        points, found, _ = self.scores(name, 4)
        inverse = np.linalg.inv(points)
        n = _multiple(inverse, _symmetric(found))
        scatter = n[..., None, None] * inverse - 2 * _symmetric(found)
        if not _same(scatter, scatter[:1], np.abs(scatter) + np.abs(n[..., None, None] * inverse)):
            return None
        score = self.expected.score([name], 2)

        def mode(inside: Point, statistics: Sequence[np.ndarray], point: Point) -> Point:
            now = inside[name]
            anchors = np.stack([now, 2.0 * now])
            found = _symmetric(score({name: anchors}, inside, statistics)[name])
            inverse = np.linalg.inv(anchors)
            n = _multiple(inverse, found)
            return {name: modes.precision_mode(n, n[..., None, None] * inverse[0] - 2 * found[0])}

        return Block((name,), "Wishart, closed form", mode, _precision_ratio)

    def cholesky(self, name: str) -> Block | None:
        points = self.several(name, 4)
        size = int((np.sqrt(8 * points.shape[1] + 1) - 1) / 2)
        score = self.expected.score([name], 4)
        found = score({name: points}, self.random(), self.statistics)[name]
        n, scatter, left = _of_factors(points, found, size)
        if not _same(scatter, scatter[:1], np.abs(scatter) + left):
            return None
        pair = self.expected.score([name], 2)
        rows, columns = np.tril_indices(size)

        def mode(inside: Point, statistics: Sequence[np.ndarray], point: Point) -> Point:
            anchors = np.stack([inside[name], 1.5 * inside[name]])
            found = pair({name: anchors}, inside, statistics)[name]
            n, scatter, _ = _of_factors(anchors, found, size)
            return {name: modes.cholesky_mode(n, scatter[0])[rows, columns]}

        return Block((name,), "Cholesky factor of a covariance, closed form", mode, _factor_ratio)


def _ratio(power: int, rate: bool) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def ratio(value: np.ndarray, earlier: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            found = np.abs(earlier / value if rate else value / earlier) ** abs(power)
        return np.where(np.isnan(found), 1.0, found)

    return ratio


def _precision_ratio(value: np.ndarray, earlier: np.ndarray) -> np.ndarray:
    factor = np.linalg.cholesky(earlier)
    inner = np.linalg.solve(factor, np.swapaxes(np.linalg.solve(factor, value), -1, -2))
    return 1.0 / np.linalg.eigvalsh(inner)[..., -1]


def _factor_ratio(value: np.ndarray, earlier: np.ndarray) -> np.ndarray:
    size = int((np.sqrt(8 * len(value) + 1) - 1) / 2)
    one, two = np.zeros((2, size, size))
    one[np.tril_indices(size)], two[np.tril_indices(size)] = value, earlier
    return np.linalg.svd(np.linalg.solve(two, one), compute_uv=False)[-1:] ** 2


def _same(found: np.ndarray, expected: np.ndarray, level: np.ndarray | None = None) -> bool:
    level = np.abs(found) + np.abs(expected) if level is None else level
    return bool(np.all(np.isfinite(found)) and np.all(np.abs(found - expected) <= AGREE * (level + np.max(level) * 1e-6)))


def _flat(point: Point, names: Sequence[str]) -> np.ndarray:
    return np.concatenate([np.ravel(point[n]) for n in names])


def _split(rows: np.ndarray, shapes: dict[str, tuple[int, ...]]) -> Point:
    ends = np.cumsum([0, *[int(np.prod(s, dtype=int)) for s in shapes.values()]])
    return {
        n: rows[:, a:b].reshape(len(rows), *s) for (n, s), a, b in zip(shapes.items(), ends[:-1], ends[1:], strict=True)
    }


def _rows(found: Point, names: Sequence[str]) -> np.ndarray:
    return np.concatenate([found[n].reshape(len(found[n]), -1) for n in names], axis=1)


def _quadratic(
    expected: Expected, names: Sequence[str], shapes: dict[str, tuple[int, ...]], pattern: np.ndarray
) -> Mode:
    """Newton's step, which is exact; entries with no row in common are moved together (Curtis, Powell and Reid)."""
    colours = _colours(pattern)
    count = int(colours.max()) + 1
    score = expected.score(names, count + 1)

    def mode(inside: Point, statistics: Sequence[np.ndarray], point: Point) -> Point:
        now = _flat(inside, names)
        step = 1.0 + np.abs(now)
        moves = np.concatenate([np.zeros((1, len(now))), (colours == np.arange(count)[:, None]) * step])
        found = _rows(score(_split(now + moves, shapes), inside, statistics), names)
        differences = found[1:] - found[0]
        # The real step: now + step may have been rounded.
        width = (now + step) - now
        hessian = np.where(pattern, differences[colours].T / width, 0.0)
        hessian = 0.5 * (hessian + hessian.T)
        return {n: v[0] for n, v in _split((now + _newton(hessian, found[0]))[None], shapes).items()}

    return mode


def _newton(hessian: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """−H⁻¹ g; nothing along directions that the density does not depend on."""
    scale = np.sqrt(np.abs(np.diag(hessian)))
    used = scale > 0
    inner = -hessian[np.ix_(used, used)] / np.outer(scale[used], scale[used])
    step = np.zeros(len(gradient))
    values, vectors = np.linalg.eigh(inner)
    if np.any(values < -1e-9):
        raise modes.Unbounded()
    kept = values > 1e-12
    projected = vectors[:, kept].T @ (gradient[used] / scale[used])
    step[used] = (vectors[:, kept] @ (projected / values[kept])) / scale[used]
    return step


def _colours(pattern: np.ndarray) -> np.ndarray:
    """A colour for each column, so that columns of one colour have no row in common."""
    colours = np.full(len(pattern), -1)
    clash = (pattern.astype(int).T @ pattern.astype(int)) > 0
    for j in range(len(pattern)):
        taken = set(colours[np.flatnonzero(clash[j])])
        colours[j] = next(c for c in range(len(pattern)) if c not in taken)
    return colours


def _symmetric(matrices: np.ndarray) -> np.ndarray:
    return 0.5 * (matrices + np.swapaxes(matrices, -1, -2))


def _multiple(inverse: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """n of 2 (∂Q/∂W₁ − ∂Q/∂W₂) = n (W₁⁻¹ − W₂⁻¹)."""
    one, two = 2 * (scores[0] - scores[1]), inverse[0] - inverse[1]
    return np.sum(one * two, axis=(-2, -1)) / np.sum(two * two, axis=(-2, -1))


def _of_factors(points: np.ndarray, scores: np.ndarray, size: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """n, S at each point, and the size of what n takes from it."""
    rows, columns = np.tril_indices(size)
    factors = np.zeros((len(points), size, size))
    factors[:, rows, columns] = points
    slopes = np.zeros_like(factors)
    slopes[:, rows, columns] = scores
    lower = np.tril(np.swapaxes(factors, -1, -2) @ slopes)
    whole = lower + np.swapaxes(np.tril(lower, -1), -1, -2)
    # S = L (T + n I) Lᵀ is the same at every point.
    outer = factors @ np.swapaxes(factors, -1, -2)
    inner = factors @ whole @ np.swapaxes(factors, -1, -2)
    one, two = inner[0] - inner[1], outer[1] - outer[0]
    n = np.sum(one * two) / np.sum(two * two)
    return np.asarray(n), inner + n * outer, n * np.abs(outer)
