r"""The log evidence from posterior draws, by bridge sampling with a symmetrised density.

With p(x) = f(x)/Z the posterior on its unconstrained scale, q a proposal that can be drawn from and s₁ + s₂ = 1, the
bridge identity with the optimal bridge function of Meng and Wong (1996) is

.. math::
    \mathrm{E}_q \frac{f/Z}{s_1 f/Z + s_2 q} = \mathrm{E}_p \frac{q}{s_1 f/Z + s_2 q}.                               (1)

Its sample version is one equation in log Z, monotone on both sides, and is solved by bisection rather than iterated.

**Two halves.** Draws that q was fitted to must not be used again in (1): the estimate would be biased. The first half
of every chain fits q for the second half and the other way round; the result is the mean of the two.

**Symmetrised density** (Warp-III of Meng and Schilling 2002). With the mean μ and the Cholesky factor L of the
covariance of one half, f is replaced by ½|L| (f(μ + Lz) + f(μ − Lz)), which has the same integral, and which a
spherical q(z) overlaps much more than a skewed f. Here q is written as a density of x, about μ with scatter LLᵀ: a
Student t with the degrees of freedom, up to the Normal, that are most likely for that half.

**Exchangeable components.** Where f has a finite group of symmetries (the labels of a mixture), f is one labelling's
share of it, and draws are relabelled: :mod:`bayeskit.marginal_likelihood.one_labelling`.

**A thorough bridge.** Where the standard error is above two hundredths, q is a mixture of t's
(:mod:`bayeskit.marginal_likelihood.mixture_proposal`), against f itself, with all draws and 20,000 proposals for each
half. The nearer q is to f, the less depends on how independent the draws are: (1) then asks of them only how much of f
lies where q is thin, as (1) with s₂ near one is importance sampling.

**Error.** The weights in (1) are bounded, so their averages have ordinary standard errors: independent proposals, and
correlated draws through ArviZ's Monte Carlo standard error of the mean (Frühwirth-Schnatter 2004, who calls this the
relative mean-squared error). The draws' errors of the two halves are taken for one and the same, as they are where f is
near the family of q: each is then the product of both halves' deviations. Of a thorough bridge the weights of both q at
the same draws say how much of the error is that, and how much is due to what f has and no q; the latter is that of two
halves. A number is refused rather than given where these cannot be trusted: if the chains disagree or have few
effective draws, if f is not finite at a draw, if the two halves, or bridges of different shape, disagree by more than
five standard errors, if importance sampling far around the draws finds more than they account for, or if proposal and
posterior overlap so little that the error would itself be a guess. A mode that no chain has visited and that lies off
the beaten track in many dimensions is not seen by any of these checks.

**Funnels.** No chain goes far down the neck of a funnel, and chains that turn back at the same depth agree. What the
neck holds beyond the draws in it is estimated by :mod:`bayeskit.marginal_likelihood.necks`, and is added, both to the
estimate and to its error. With symmetries it is looked for in one labelling's share of f: folded chains along a ridge
x₁x₂ ≈ y agree, too, and none of them goes where x₂ is next to nothing.

**Cost.** About four evaluations of f a draw and 1,000 more, 9,000 at most, and 50,000 more of a thorough one; with
symmetries one evaluation a draw more, and a product of a D × D matrix with all points for each; 15,000 to 30,000 more
for each of two necks at most.

Sources: Meng and Wong (1996), Statistica Sinica 6, 831-860; Meng and Schilling (2002), Journal of Computational and
Graphical Statistics 11, 552-586; Frühwirth-Schnatter (2004), Econometrics Journal 7, 143-167; Gronau et al. (2017),
Journal of Mathematical Psychology 81, 80-97.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from arviz_stats.base import array_stats

from bayeskit.graphs.environment import on_one_thread, silently
from bayeskit.marginal_likelihood.bridge_sides import side_of_mixture, side_of_t
from bayeskit.marginal_likelihood.estimators import PRECISE, Target, refused
from bayeskit.marginal_likelihood.necks import mass_in_necks
from bayeskit.marginal_likelihood.one_labelling import labelling, moved
from bayeskit.marginal_likelihood.permutations import Matrix
from bayeskit.marginal_likelihood.proposal import (
    Array,
    BridgeSide,
    BridgeSolution,
    Proposal,
    Refused,
    Unvisited,
    beyond_error,
    effective_number,
    error_of_mean,
    finds_more,
    proposal_of,
)
from bayeskit.results.diagnostics import ESTIMABLE_ESS, ESTIMABLE_R_HAT
from bayeskit.results.records import LogEvidence

__all__ = ["bridge", "estimate", "obstacle"]

Density = Callable[[Array], Array]

MOST = 2_000  # draws at which the density is evaluated; more are thinned
ALL = 8_000  # draws of a thorough bridge
CONTRIBUTING = 50.0  # draws or proposals that at least share the weight
OTHER_BRIDGES = (0.1, 0.9)  # s₁ of the bridges that must agree with the optimal one
STREAM = 0xB21D6E  # which of the streams of a seed
WIDE, WIDELY, WIDE_DEGREES = 5.0, 1_000, 3.0  # scale, number and degrees of freedom of the proposals far away
LARGEST_ERROR = 0.5  # nats; beyond, the error itself is a guess


def obstacle(target: Target) -> str:
    """There are no draws."""
    return "" if target.draws is not None else "bridge sampling needs posterior draws; sample the model first"


def estimate(target: Target) -> LogEvidence:
    """By :func:`bridge`, and again by the thorough one where that is not precise."""
    assert target.draws is not None
    ask = partial(bridge, target.space.log_density, target.draws, random_seed=target.random_seed)
    evidence = ask(symmetries=target.symmetries)
    if not PRECISE < evidence.error < math.inf:
        return evidence
    again = ask(symmetries=target.symmetries, thorough=True)
    return again if again.error < evidence.error else evidence


def bridge(
    log_density: Density,
    draws: Array,
    *,
    random_seed: int,
    symmetries: Sequence[Matrix] = (),
    thorough: bool = False,
) -> LogEvidence:
    """log Z = log ∫ exp f(x) dx from draws (chains, length, D) of the density proportional to exp f.

    f maps points (n, D) to n values: −∞ where the density is zero, NaN where it could not be evaluated. ``symmetries``
    are all T of a finite group of linear maps under which f is invariant, the identity first. A ``thorough`` bridge is
    built on all draws, many proposals, and a mixture.
    """
    try:
        # A stream of its own: proposals made from the same numbers as the draws would not be independent of them.
        rng = np.random.default_rng([random_seed, STREAM])
        with on_one_thread(), silently():
            return _bridge(log_density, np.asarray(draws, dtype=float), list(symmetries), rng, thorough)
    except Refused as reason:
        return refused(reason)


def _bridge(
    log_density: Density, draws: Array, symmetries: Sequence[Matrix], rng: np.random.Generator, thorough: bool
) -> LogEvidence:
    if not np.all(np.isfinite(draws)):
        raise Refused("a draw is not finite on the unconstrained scale")
    if draws.shape[1] < 8:
        raise Refused("there are too few draws")
    size = draws.shape[-1]
    middle = draws.shape[1] // 2
    parts = (draws[:, :middle], draws[:, middle : 2 * middle])
    step = max(1, -(-draws.shape[0] * 2 * middle // (ALL if thorough else MOST)))
    thinned = [p[:, ::step] for p in parts]
    heights = [np.asarray(log_density(k.reshape(-1, size)), dtype=float).reshape(k.shape[:2]) for k in thinned]
    judged, anywhere, samples, one = draws, draws, list(parts), None
    if len(symmetries) > 1:
        # Each half gets its own labelling, for its own proposal; what is judged is labelled by the first.
        one, other = (labelling(k, h, symmetries) for k, h in zip(thinned, heights, strict=True))
        judged, samples = one.applied(draws), [one.applied(parts[0]), other.applied(parts[1])]
        anywhere = moved(draws, symmetries, rng.integers(len(symmetries), size=draws.shape[:2]))
    _require_mixing(judged)
    if not np.all(np.isfinite(heights)):
        raise Refused("the density is not finite at every draw")
    _require_mixing(np.concatenate(heights, axis=1)[..., None])
    side = side_of_mixture if thorough else side_of_t
    known = [(samples[1 - k], thinned[k], heights[k], heights[1 - k]) for k in (0, 1)]
    sides = [side(log_density, *each, symmetries, rng) for each in known]
    first, second = (_optimal(side) for side in sides)
    result = _combined(first, second)
    _require_nothing_far_away(log_density, anywhere.reshape(-1, size), result.value, rng)
    judged_by = list(zip(sides, (first, second), strict=True))
    covered = [side.covered(solution.log_z) for side, solution in judged_by]
    every, height, cover = (np.concatenate(parts, axis=1) for parts in (thinned, heights, covered))
    # From here: where there is no neck, nothing that is drawn counts.
    if one is not None:  # draws of one labelling's share, in which what all its images have is there once
        every = moved(every, symmetries, one.drawn(every.reshape(-1, size), rng))
        height = height + one.log(every.reshape(-1, size)).reshape(height.shape)
        log_density = one.of(log_density)

    def covered_at(points: Array) -> Array:
        return np.mean([side.covered(solution.log_z, points) for side, solution in judged_by], axis=0)

    missing = mass_in_necks(log_density, every, height, cover, rng, covered_at if thorough else None)
    return _with_necks(result, *missing)


def _require_mixing(series: Array) -> None:
    """Refuse chains that disagree, or that hold too few effective draws; the last axis is what is looked at."""
    if len(series) == 1:  # one chain is compared with itself
        half = series.shape[1] // 2
        series = np.concatenate([series[:, :half], series[:, half : 2 * half]])
    columns = [series[..., k] for k in range(series.shape[-1])]
    rhat = max(float(array_stats.rhat(s)) for s in columns)
    if not rhat <= ESTIMABLE_R_HAT:
        raise Refused(f"the chains disagree (R-hat {rhat:.3f}): several modes, or too few draws")
    effective = min(float(array_stats.ess(s, method="bulk")) for s in columns)
    if not effective >= ESTIMABLE_ESS:
        raise Refused(f"there are too few effective draws ({effective:.0f}); ask for more")


def _require_nothing_far_away(log_density: Density, draws: Array, log_z: float, rng: np.random.Generator) -> None:
    """Importance sampling from far around the draws finds a mode that they missed, in few dimensions."""
    near = proposal_of(draws)
    wide = Proposal(near.centre, WIDE * near.root, WIDE_DEGREES)
    points = wide.draw(rng, WIDELY)
    if finds_more(np.asarray(log_density(points), dtype=float) - wide.log_density(points) - log_z):
        raise Unvisited("there is a mode that no draw has found")


def _optimal(side: BridgeSide) -> BridgeSolution:
    """The optimal bridge, held against bridges of a different shape."""
    # Draws count by their effective number; a wrong one costs precision only.
    low, high = np.quantile(side.draws, [0.01, 0.99])
    count = effective_number(np.clip(side.draws, low, high))
    best = side.solve(count / (count + side.proposals.size))
    if best.contributing < CONTRIBUTING:
        raise Refused(f"only {best.contributing:.0f} draws or proposals lie where the other density does")
    for s in OTHER_BRIDGES:
        other = side.solve(s)
        # Both use the same draws: the error of the difference is that of the difference of the weights.
        difference = BridgeSolution(other.log_z - best.log_z, other.drawn - best.drawn, other.proposed - best.proposed)
        if beyond_error(abs(difference.log_z), difference.error):
            apart = f"{abs(difference.log_z):.2g} nats"
            raise Refused(f"two bridges differ by {apart}: the draws do not follow the density")
    return best


def _with_necks(result: LogEvidence, missing: float, error: float) -> LogEvidence:
    """With what the necks of funnels hold that the draws lack; all of it is in doubt."""
    total = math.hypot(result.error, missing, error)
    if not total <= LARGEST_ERROR:
        raise Unvisited(
            f"the neck of a funnel holds {missing:.2g} ± {error:.1g} times what the chains found, who did not go "
            "down: give what is scaled a prior of scale one, and multiply (non-centred)"
        )
    return replace(result, value=result.value + math.log1p(missing), error=total)


def _combined(first: BridgeSolution, second: BridgeSolution) -> LogEvidence:
    difference, scale = abs(first.log_z - second.log_z), math.hypot(first.error, second.error)
    if beyond_error(difference, scale):
        apart = f"{difference:.2g} nats, {difference / scale:.0f} standard errors"
        raise Refused(f"the two halves of the draws differ by {apart}")
    drawn = _error_of_draws(first, second)
    proposed = 0.5 * math.hypot(first.error_of_proposals, second.error_of_proposals)
    error = math.hypot(drawn, proposed) * max(1.0, difference / (2 * scale) if scale > 0 else 1.0)
    error += 0.5 * (first.unknown + second.unknown)
    if not error <= LARGEST_ERROR:
        raise Refused(f"its standard error would be {error:.2g} nats")
    return LogEvidence(0.5 * (first.log_z + second.log_z), error, "estimated")


def _error_of_draws(first: BridgeSolution, second: BridgeSolution) -> float:
    """Standard error of the mean of both halves that is due to the draws."""
    # Near the family of proposals the error of either half is the product of both halves' deviations: they are the
    # same, and add up. What the best proposal of the family lacks is the same function of the draws of either half,
    # whose errors are those of chains twice as long; both sides' weights at the same draws then go together.
    same = 0.5 * (error_of_mean(first.drawn) + error_of_mean(second.drawn))
    if first.at_fitted is None or second.at_fitted is None:
        return same
    lacking = 0.5 * (_correlation(first.drawn, second.at_fitted) + _correlation(second.drawn, first.at_fitted))
    apart = error_of_mean(np.concatenate([first.drawn, second.drawn], axis=1))
    return math.sqrt(lacking * apart**2 + (1 - lacking) * same**2)


def _correlation(one: Array, other: Array) -> float:
    """Of two weights at the same draws, not below zero."""
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return max(0.0, float(np.corrcoef(one.ravel(), other.ravel())[0, 1]))
