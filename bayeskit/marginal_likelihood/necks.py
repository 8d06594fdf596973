r"""What the neck of a funnel holds that no chain went down.

Where :math:`x_k` is the log of a scale, many others shrink like :math:`e^{x_k}` as it falls. NUTS takes steps that suit
the wide part, and turns back in the neck (Neal 2003; Betancourt and Girolami 2015): its chains agree with each other,
and all of them lack a few per cent of the mass, by which an evidence from them is too low.

**Which.** In the lower half of the draws by :math:`\pm x_k`, the logs of the deviations of every other coordinate from
their line in :math:`x_k` are regressed on :math:`x_k`. Where they fall clearly and far, there may be a neck. It
counts where the proposal of the estimate does not cover its end: elsewhere proposals make up for draws that lack.

**How much.** Draws of a slab of low :math:`x_k`, where the chains still are, go down slab by slab. The map

.. math:: T: x_k \mapsto x_k - \delta, \qquad x_r \mapsto m_r + e^{-\gamma_r \delta} (x_r - m_r)                (1)

takes a slab S to the next, and :math:`\int_{TS} f = \mathrm E_S[f(Tx) \lvert T \rvert / f(x)] \int_S f` whatever m and
:math:`\gamma` are. Weighted particles are resampled, and moved by Metropolis steps along (1) and by differences of
particles, which are sequential Monte Carlo (Del Moral, Doucet and Jasra 2006) with a target that shrinks. What the
slabs hold together is held against the share of the draws that lie there. Each chain has particles of its own, so that
the spread of the chains gives the error. A slab that is missed makes the sum too low, so that the neck seldom seems to
hold more than it does.

Sources: Betancourt and Girolami (2015), in Current Trends in Bayesian Methodology with Applications, 79-101; Del Moral,
Doucet and Jasra (2006), Journal of the Royal Statistical Society B 68, 411-436; Neal (2003), Annals of Statistics 31,
705-767, section 8.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayeskit.types import Array

__all__ = ["Neck", "mass_in_necks", "necks_of"]

MOST_SIZE = 200  # coordinates among which necks are looked for: each is held against every other
CLEAR, SHRUNK, SCORE = 3.0, 0.3, 15.0  # standard errors of a slope; logs of scale over the lower half; Σ z² of all
LOWEST, BARE = 0.02, 0.5  # share of the draws, and how far a proposal may stand for them, at the end of a neck
NECKS = 2  # that are gone down
LOWER, UPPER = 0.05, 0.2  # quantiles of the draws between which the first slab lies
FEWEST, PARTICLES, SWEEPS = 5, 100, 4  # draws in a chain's first slab; particles a chain; Metropolis steps of each
SLABS, END = 24, 2e-3  # at most; the share of the mass in a slab that is the last
EVEN, FINEST = 0.4, 1 / 16  # effective share of the particles after a step; of a slab, the smallest step
STEEPEST = 2.0  # of γ; 1 is that of a scale


@dataclass(frozen=True, eq=False)
class Neck:
    """Others shrink as ``sign`` · x_k falls, k the ``driver``."""

    driver: int
    sign: float
    slopes: Array  # γ of every coordinate; zero where it does not shrink
    score: float = 0.0

    def depth(self, points: Array) -> Array:
        """What falls on the way down."""
        return np.asarray(self.sign * points[..., self.driver])

    def moved(self, points: Array, middle: Array, steps: Array) -> tuple[Array, Array]:
        """Points (..., D) by (1), each its own step up, and the log of |T|."""
        result = middle + (points - middle) * np.exp(self.slopes * steps[..., None])
        result[..., self.driver] = points[..., self.driver] + self.sign * steps
        return result, steps * self.slopes.sum()


def mass_in_necks(
    log_density: Callable[[Array], Array],
    draws: Array,
    heights: Array,
    covered: Array,
    rng: np.random.Generator,
    cover: Callable[[Array], Array] | None = None,
) -> tuple[float, float]:
    """What an estimate lacks of the necks, relative to all, and its standard error.

    Draws are of shape (chains, length, D), heights the log density at them. ``covered`` is 1 where the estimate rests
    on a proposal, whatever draws there are, and 0 where it rests on the draws alone; ``cover`` gives the same at other
    points, for a proposal may follow a curved ridge as far as the draws went, and no farther. Zeros where there is no
    neck.
    """
    if len(draws) == 1:  # one chain gives no error; its halves do
        half = draws.shape[1] // 2
        draws, heights, covered = (
            np.concatenate([a[:, :half], a[:, half : 2 * half]]) for a in (draws, heights, covered)
        )
    missing, variance = 0.0, 0.0
    for neck in necks_of(draws.reshape(-1, draws.shape[-1])):
        depth = neck.depth(draws)
        bare = float(covered[depth <= np.quantile(depth, LOWEST)].mean()) < BARE
        if bare or cover is not None:
            thin = np.ones(covered.shape) if bare else 1 - covered
            differences = _beyond_the_draws(log_density, draws, heights, neck, rng, thin, None if bare else cover)
            missing += max(0.0, float(differences.mean()))
            variance += float(differences.var(ddof=1)) / len(differences)
    return missing, math.sqrt(variance)


def necks_of(points: Array) -> list[Neck]:
    """The clearest necks first; of two where one coordinate drives the other, the clearer."""
    size = points.shape[1]
    if not 1 < size <= MOST_SIZE or len(points) < 10 * FEWEST / (UPPER - LOWER):
        return []
    found = [neck for k in range(size) for sign in (1.0, -1.0) if (neck := _neck(points, k, sign)).score > SCORE]
    result: list[Neck] = []
    for neck in sorted(found, key=lambda n: -n.score):
        if len(result) < NECKS and not any(r.driver == neck.driver or r.slopes[neck.driver] > 0 for r in result):
            result.append(neck)
    return result


def _neck(points: Array, driver: int, sign: float) -> Neck:
    """How the others shrink as one coordinate falls, in the lower half of its range."""
    depth = sign * points[:, driver]
    order = np.argsort(depth)[: len(points) // 2]
    low, depth = points[order], depth[order]
    reach = depth[-1] - depth[len(order) // 10]
    depth = depth - depth.mean()
    total = float(depth @ depth)
    if not total > 0:
        return Neck(driver, sign, np.zeros(points.shape[1]))
    off = low - low.mean(axis=0)
    off = np.abs(off - np.outer(depth, depth @ off / total)) + np.finfo(float).tiny
    logs = np.log(np.maximum(off, np.quantile(off, 0.02, axis=0)))  # next to the line, the log says little
    logs -= logs.mean(axis=0)
    slopes = depth @ logs / total
    error = (logs - np.outer(depth, slopes)).std(axis=0) / math.sqrt(total)
    slopes[driver] = 0.0
    scores = np.divide(slopes, error, out=np.zeros_like(slopes), where=error > 0)
    clear = (scores > CLEAR) & (slopes * reach > SHRUNK)
    slopes = np.where(clear, np.minimum(slopes, STEEPEST), 0.0)
    return Neck(driver, sign, slopes, float(np.sum(scores[clear] ** 2)))


@dataclass(eq=False)
class _Particles:
    """Particles of each chain in a slab, ``low`` to ``low + height``."""

    log_density: Callable[[Array], Array]
    points: Array  # (chains, PARTICLES, D)
    heights: Array
    low: float
    height: float
    rng: np.random.Generator

    def evaluated(self, points: Array) -> Array:
        values = np.asarray(self.log_density(points.reshape(-1, points.shape[-1])), dtype=float)
        return np.where(np.isnan(values), -np.inf, values).reshape(points.shape[:-1])

    @property
    def middle(self) -> Array:
        return np.asarray(np.median(self.points, axis=(0, 1)))

    @property
    def spread(self) -> Array:
        low, high = np.quantile(self.points, [0.25, 0.75], axis=(0, 1))
        return np.asarray(high - low)

    def down(self, neck: Neck, step: float) -> tuple[float, Array]:
        """One step of the slab downwards, halved until the weights are even: its length, and log ratios of mass."""
        while True:
            points, log_volume = neck.moved(self.points, self.middle, np.full(self.heights.shape, -step))
            heights = self.evaluated(points)
            log_weights = heights - self.heights + log_volume
            weights = np.exp(log_weights - max(float(log_weights.max()), -np.finfo(float).max))
            if not weights.sum() > 0:
                return step, np.full(len(heights), -np.inf)
            effective = weights.sum() ** 2 / np.sum(weights**2)
            if effective > EVEN * weights.size or step < FINEST * self.height:
                break
            step /= 2
        self.low -= step
        largest = np.maximum(log_weights.max(axis=1), -np.finfo(float).max)
        each = np.exp(log_weights - largest[:, None])
        for chain, weight in enumerate(each):
            if weight.sum() > 0:
                edges = np.cumsum(weight) / weight.sum()
                kept = np.searchsorted(edges, (np.arange(PARTICLES) + self.rng.random()) / PARTICLES)
                kept = np.minimum(kept, PARTICLES - 1)
                self.points[chain], self.heights[chain] = points[chain, kept], heights[chain, kept]
        with np.errstate(divide="ignore"):
            return step, largest + np.log(each.mean(axis=1))

    def sweep(self, neck: Neck) -> None:
        """Metropolis steps within the slab, by turns along the neck and across it."""
        middle, shape = self.middle, self.heights.shape
        for turn in range(SWEEPS):
            log_volume: Array | float = 0.0
            if turn % 2 == 0:
                points, log_volume = neck.moved(self.points, middle, 0.5 * self.height * self.rng.normal(size=shape))
            else:
                pool = self.points.reshape(-1, self.points.shape[-1])
                one, other = self.rng.integers(len(pool), size=(2, *shape))
                scale = self.rng.choice([1.0, 0.3], size=shape) * 2.38 / math.sqrt(2 * (pool.shape[1] - 1))
                points = self.points + scale[..., None] * (pool[one] - pool[other])
                points[..., neck.driver] = self.points[..., neck.driver]
            depth, heights = neck.depth(points), self.evaluated(points)
            inside = (depth >= self.low) & (depth < self.low + self.height)
            taken = inside & (np.log(self.rng.random(shape)) < heights - self.heights + log_volume)
            self.points = np.where(taken[..., None], points, self.points)
            self.heights = np.where(taken, heights, self.heights)


def _beyond_the_draws(
    log_density: Callable[[Array], Array],
    draws: Array,
    heights: Array,
    neck: Neck,
    rng: np.random.Generator,
    thin: Array,
    cover: Callable[[Array], Array] | None,
) -> Array:
    """For each chain, the mass below the first slab less the share of its draws there; zeros where it has too few.

    Of both only what no proposal stands for, ``thin`` at the draws.
    """
    depth, size = neck.depth(draws), draws.shape[-1]
    low, high = np.quantile(depth, [LOWER, UPPER])
    inside = (depth >= low) & (depth < high)
    if inside.sum(axis=1).min() < FEWEST:
        return np.zeros(len(draws))
    rows = [np.flatnonzero(i) for i in inside]
    which = [r[np.linspace(0, len(r) - 1, PARTICLES).round().astype(int)] for r in rows]
    points = np.stack([d[w] for d, w in zip(draws, which, strict=True)])
    values = np.stack([h[w] for h, w in zip(heights, which, strict=True)])
    height = float(high - low)
    particles = _Particles(log_density, points, values, float(low), height, rng)
    particles.sweep(neck)
    ratio, mass, first = np.zeros(len(draws)), np.zeros(len(draws)), float(inside.mean())
    step = height / 2
    for _ in range(SLABS):
        spread, left = particles.spread, height
        while left > 1e-9 * height:
            step, change = particles.down(neck, min(step, left))
            left -= step
            ratio += change
            if np.all(ratio == -np.inf):
                break
            particles.sweep(neck)
        bare = 1.0 if cover is None else 1 - cover(particles.points.reshape(-1, size)).reshape(particles.heights.shape)
        mass += first * np.exp(ratio) * np.mean(bare * np.ones(particles.heights.shape), axis=1)
        if first * float(np.exp(ratio).mean()) < END:
            break
        step = height / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = np.log(spread / particles.spread) / height
        slopes[neck.driver] = 0.0
        neck = Neck(neck.driver, neck.sign, np.clip(np.where(np.isfinite(slopes), slopes, 0.0), 0.0, STEEPEST))
    return np.asarray(mass - (thin * (depth < low)).mean(axis=1))
