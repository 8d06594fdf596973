r"""Laplace's approximation at every mode that is found, with what it leaves out as its error.

At a mode x* of the density exp f, in k dimensions,

.. math:: \log Z^* = f(x^*) + \tfrac k2 \log 2\pi - \tfrac12 \log |-\nabla^2 f(x^*)|,

and log Z is the log of the sum over all modes, those that a symmetry of f makes of one counted without climbing to
each. Climbs start at draws, where there are some: of the highest density, and anywhere; else at the prior's.

**Error.** Two measures of what is left out of one mode, the larger of which counts: the next term of the expansion
along each principal axis by itself, :math:`f''''/8 + 5 f'''^2/24` in standard deviations (Tierney and Kadane 1986),
and how far the mean of :math:`f/q`, with q the Normal of the approximation, is from one at a few hundred points (with
twice its standard error), which sees what axes do together. It is a systematic error, the same for every seed, no
Monte Carlo error; where it is above a nat there is no number. Nor is there one where chains disagree on where the
posterior is: a mode of its own is missing from the sum, whatever the others leave out.

**Cost.** A climb of some dozens of gradients for each start, 4k more for the curvature at each mode.

Source: Tierney and Kadane (1986), Journal of the American Statistical Association 81, 82-86.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from arviz_stats.base import array_stats
from scipy import special

from bayeskit.errors import InferenceError
from bayeskit.graphs.environment import on_one_thread, silently
from bayeskit.marginal_likelihood.estimators import Target, refused
from bayeskit.marginal_likelihood.proposal import Proposal
from bayeskit.model.maximum import Maximum, maximum, maximum_near
from bayeskit.model.unconstrained import Objective, Unconstrained
from bayeskit.results.diagnostics import ESTIMABLE_R_HAT
from bayeskit.results.records import LogEvidence

__all__ = ["estimate", "next_order", "obstacle"]

STREAM = 0x1A91ACE
STARTS = 8  # draws that are climbed from
LARGEST = 40  # numbers, above which the curvature by differences takes too long
SAME = 0.05  # standard deviations between two climbs that ended at one mode
POINTS = 1_000  # at which the Normal is held against the density
LARGEST_ERROR = 1.0  # nats
LEAST_DRAWS = 100  # of a chain, for R-hat to say something


def obstacle(target: Target) -> str:
    """There are too many numbers."""
    size = target.space.size
    return (
        "" if size <= LARGEST else f"its curvature is found by differences, for {LARGEST} numbers at most, not {size}"
    )


def estimate(target: Target) -> LogEvidence:
    """The log of the sum over modes, with the error of each."""
    rng = np.random.default_rng([target.random_seed, STREAM])
    if (rhat := _largest_rhat(target.draws)) > ESTIMABLE_R_HAT:
        where = "the chains disagree on where the posterior is"
        return refused(f"{where} (R-hat {rhat:.2f}), so that it may have modes which no climb from their draws finds")
    with on_one_thread(), silently():
        try:
            modes = _modes(target, rng)
        except (InferenceError, NotImplementedError) as failure:
            return refused(str(failure).splitlines()[0])
        if not modes:
            return refused("no climb ended at a mode: the density is flat in some direction, or falls off to an end")
        parts = np.array([each.log_mass for each in modes])
        value = float(special.logsumexp(parts))
        shares = np.exp(parts - value)
        errors = [_left_out(target.space, each.mode, rng) for each in modes]
    error = float(shares @ errors)
    if not error <= LARGEST_ERROR:
        return refused(f"the density is not near a Normal at its modes: what is left out is about {error:.2g} nats")
    return LogEvidence(value, error, "estimated")


def _largest_rhat(draws: np.ndarray | None) -> float:
    if draws is None or draws.shape[0] < 2 or draws.shape[1] < LEAST_DRAWS:
        return 1.0
    with silently():
        rhats = [float(array_stats.rhat(draws[..., k])) for k in range(draws.shape[2])]
    return max([r for r in rhats if np.isfinite(r)], default=1.0)


@dataclass(frozen=True, eq=False)
class _Mode:
    mode: Maximum
    copies: int  # that symmetries make of it, with itself

    @property
    def log_mass(self) -> float:
        return self.mode.value + self.mode.log_gauss() + math.log(self.copies)


def _modes(target: Target, rng: np.random.Generator) -> list[_Mode]:
    """Modes that no symmetry makes of each other."""
    symmetries = target.symmetries or [np.eye(target.space.size)]
    found: list[_Mode] = []
    for top in _tops(target, rng):
        if not top.converged or np.any(top.spectrum[0] <= 0):
            continue
        images = [image @ top.x for image in symmetries]
        if any(_near(each.mode, image) for each in found for image in images):
            continue
        copies = len(symmetries) / sum(_near(top, image) for image in images)
        found.append(_Mode(top, round(copies)))
    return found


def _tops(target: Target, rng: np.random.Generator) -> Sequence[Maximum]:
    """Where climbs end."""
    space, draws = target.space, target.draws
    if draws is None:
        return [maximum(space.value_and_gradient, space, rng)]
    flat = draws.reshape(-1, space.size)
    some = flat[rng.permutation(len(flat))[: 50 * STARTS]]
    order = np.argsort(-np.nan_to_num(space.log_density(some), nan=-np.inf))
    starts = [*some[order[:1]], *some[: STARTS - 1]]
    units = np.clip(flat.std(axis=0), 1e-12, None)
    return [maximum_near(space.value_and_gradient, space, start, units) for start in starts]


def _near(mode: Maximum, x: np.ndarray) -> bool:
    """Whether a point is that mode, by its curvature."""
    off = (x - mode.x) / mode.units
    return bool(off @ mode.hessian @ off < SAME**2 * len(x))


def _left_out(space: Unconstrained, mode: Maximum, rng: np.random.Generator) -> float:
    """What the approximation at one mode leaves out, in nats."""
    root = mode.units[:, None] * np.linalg.cholesky(np.linalg.inv(mode.hessian))
    normal = Proposal(mode.x, root)
    points = normal.draw(rng, POINTS // 2)
    points = np.concatenate([points, 2 * mode.x - points])
    log_weights = space.log_density(points) - normal.log_density(points) - mode.value - mode.log_gauss()
    weights = np.exp(np.where(np.isnan(log_weights), -np.inf, log_weights).clip(max=50.0))
    pairs = weights.reshape(2, -1).mean(axis=0)
    mean, spread = float(pairs.mean()), float(pairs.std(ddof=1)) / math.sqrt(len(pairs))
    seen = abs(math.log(mean)) + 2 * spread / mean if mean > 0 else math.inf
    return max(seen, next_order(space.value_and_gradient, mode))


def next_order(whole: Objective, mode: Maximum, step: float = 0.3) -> float:
    """What the next term of Laplace's expansion adds along each principal axis by itself, in nats.

    f⁗/8 + 5 f‴²/24 in standard deviations (Tierney and Kadane 1986): of a Poisson count n about 1/(12 n), where the
    approximations in the rate and in its logarithm may happen to agree.
    """
    eigenvalues, axes = mode.spectrum
    total = 0.0
    for eigenvalue, axis in zip(eigenvalues, axes.T, strict=True):
        along = mode.units * axis / np.sqrt(eigenvalue)
        up, down = (float(np.dot(whole(mode.x + s * along)[1], along)) for s in (step, -step))
        third, fourth = (up + down) / step**2, 3 * (up - down + 2 * step) / step**3
        total += abs(fourth / 8 + 5 * third**2 / 24)
    return total
