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
spherical q(z) overlaps much more than a skewed f. q is a Student t with the degrees of freedom, up to the Normal, that
are most likely for that half.

**Exchangeable components.** Where f has a finite group of symmetries (the labels of a mixture), f is one labelling's
share of it, and draws are relabelled: :mod:`bayeskit.marginal_likelihood.one_labelling`.

**Error.** The weights in (1) are bounded, so their averages have ordinary standard errors: independent proposals, and
correlated draws through ArviZ's Monte Carlo standard error of the mean (Frühwirth-Schnatter 2004, who calls this the
relative mean-squared error). A number is refused rather than given where these cannot be trusted; see :func:`bridge`.

Sources: Meng and Wong (1996), Statistica Sinica 6, 831-860; Meng and Schilling (2002), Journal of Computational and
Graphical Statistics 11, 552-586; Frühwirth-Schnatter (2004), Econometrics Journal 7, 143-167; Gronau et al. (2017),
Journal of Mathematical Psychology 81, 80-97.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from arviz_stats.base import array_stats
from numpy.typing import NDArray
from scipy import linalg

from bayeskit.graphs.environment import on_one_thread, silently
from bayeskit.marginal_likelihood.estimators import Target, refused
from bayeskit.marginal_likelihood.one_labelling import Share, labelling, moved
from bayeskit.marginal_likelihood.permutations import Matrix
from bayeskit.marginal_likelihood.proposal import (
    Array,
    BridgeSide,
    BridgeSolution,
    Refused,
    effective_number,
    error_of_mean,
    fitted,
    log_spherical,
    require_more_draws_than,
)
from bayeskit.results.records import LogEvidence

__all__ = ["bridge", "estimate", "obstacle"]

LogDensity = Callable[[Array], Array]

MOST = 2_000  # draws at which the density is evaluated; more are thinned
FEWEST = 500  # proposals
RHAT = 1.05
EFFECTIVE = 100.0  # effective draws at least
CONTRIBUTING = 50.0  # draws or proposals that at least share the weight
DISAGREEMENT = 5.0  # standard errors between two estimates of the same number
NEGLIGIBLE = 1e-6  # nats
OTHER_BRIDGES = (0.1, 0.9)  # s₁ of the bridges that must agree with the optimal one
STREAM = 0xB21D6E  # which of the streams of a seed
WIDE, WIDELY, WIDE_DEGREES = 5.0, 1_000, 3.0  # scale, number and degrees of freedom of the proposals far away
INVARIANT = 1e-6  # nats, and a thousandth of it relative to the density: rounding
LARGEST_ERROR = 0.5  # nats; beyond, the error itself is a guess


def obstacle(target: Target) -> str:
    """There are no draws."""
    return "" if target.draws is not None else "bridge sampling needs posterior draws; sample the model first"


def estimate(target: Target) -> LogEvidence:
    """By :func:`bridge`."""
    assert target.draws is not None
    density = target.space.log_density
    return bridge(density, target.draws, random_seed=target.random_seed, symmetries=target.symmetries)


def bridge(
    log_density: LogDensity, draws: Array, *, random_seed: int, symmetries: Sequence[Matrix] = ()
) -> LogEvidence:
    r"""Estimate log Z = log ∫ exp f(x) dx from draws of the density proportional to exp f.

    Parameters
    ----------
    log_density : callable
        f: points of shape (n, D) to n values; −∞ where the density is zero, NaN where it could not be evaluated.
    draws : array of shape (chains, length, D)
        Posterior draws on the unconstrained scale, in the order in which they were drawn.
    random_seed : int
        Of the proposals.
    symmetries : sequence of sparse matrices of shape (D, D), optional
        All T of a finite group of linear maps under which f is invariant, the identity first.

    Returns
    -------
    LogEvidence
        Labelled ``estimated``, with its standard error; or NaN with infinite error and the reason, if the chains
        disagree (R-hat above 1.05) or have fewer than 100 effective draws; if f is not finite at a draw; if the two
        halves, or bridges of different shape, disagree by more than five standard errors; if importance sampling far
        around the draws finds more than they account for; or if proposal and posterior overlap so little that the error
        would itself be a guess.

    Notes
    -----
    About four evaluations of f a draw and 1,000 more, 9,000 at most; memory of a few (n, D) arrays. With symmetries one
    evaluation a draw more, and a product of a D × D matrix with all points for each symmetry; summing over 720 of them
    takes about as long as evaluating a mixture of as many components on a few hundred observations.

    **Limit.** A mode that no chain has visited and that lies off the beaten track in many dimensions is not seen by any
    of these checks: the estimate is then that of the part of the posterior that was visited.
    """
    try:
        # A stream of its own: proposals made from the same numbers as the draws would not be independent of them.
        rng = np.random.default_rng([random_seed, STREAM])
        with on_one_thread(), silently():
            return _bridge(log_density, np.asarray(draws, dtype=float), list(symmetries), rng)
    except Refused as reason:
        return refused(str(reason))


def _bridge(
    log_density: LogDensity, draws: Array, symmetries: Sequence[Matrix], rng: np.random.Generator
) -> LogEvidence:
    if not np.all(np.isfinite(draws)):
        raise Refused("a draw is not finite on the unconstrained scale")
    if draws.shape[1] < 8:
        raise Refused("there are too few draws")
    size = draws.shape[-1]
    middle = draws.shape[1] // 2
    parts = (draws[:, :middle], draws[:, middle : 2 * middle])
    step = max(1, -(-draws.shape[0] * 2 * middle // MOST))
    thinned = [p[:, ::step] for p in parts]
    heights = [np.asarray(log_density(k.reshape(-1, size)), dtype=float).reshape(k.shape[:2]) for k in thinned]
    judged, anywhere, samples = draws, draws, list(parts)
    if len(symmetries) > 1:
        # Each half gets its own labelling, for its own proposal; what is judged is labelled by the first.
        one, other = (labelling(k, h, symmetries) for k, h in zip(thinned, heights, strict=True))
        judged, samples = one.applied(draws), [one.applied(parts[0]), other.applied(parts[1])]
        anywhere = moved(draws, symmetries, rng.integers(len(symmetries), size=draws.shape[:2]))
    _require_mixing(judged)
    if not np.all(np.isfinite(heights)):
        raise Refused("the density is not finite at every draw")
    _require_mixing(np.concatenate(heights, axis=1)[..., None])
    sides = [_side(log_density, samples[1 - k], thinned[k], heights[k], symmetries, rng) for k in (0, 1)]
    first, second = (_optimal(side) for side in sides)
    result = _combined(first, second)
    _require_nothing_far_away(log_density, anywhere.reshape(-1, size), result.value, rng)
    return result


def _require_mixing(series: Array) -> None:
    """Refuse chains that disagree, or that hold too few effective draws; the last axis is what is looked at."""
    columns = [series[..., k] for k in range(series.shape[-1])]
    # R-hat splits every chain, so that one chain is compared with itself.
    rhat = max(float(array_stats.rhat(s)) for s in columns)
    if not rhat <= RHAT:
        raise Refused(f"the chains disagree (R-hat {rhat:.3f}): several modes, or too few draws")
    effective = min(float(array_stats.ess(s, method="bulk")) for s in columns)
    if not effective >= EFFECTIVE:
        raise Refused(f"there are too few effective draws ({effective:.0f}); ask for more")


def _require_nothing_far_away(log_density: LogDensity, draws: Array, log_z: float, rng: np.random.Generator) -> None:
    """Importance sampling from far around the draws finds a mode that they missed, in few dimensions.

    Where it is poor it is too low, or its error is as large as itself; it does not come out far above by chance.
    """
    size = draws.shape[1]
    root = WIDE * np.linalg.cholesky(np.atleast_2d(np.cov(draws, rowvar=False)))
    z = rng.standard_normal((WIDELY, size)) * np.sqrt(WIDE_DEGREES / rng.chisquare(WIDE_DEGREES, size=(WIDELY, 1)))
    values = np.asarray(log_density(draws.mean(axis=0) + z @ root.T), dtype=float)
    log_weights = values + np.log(np.diag(root)).sum() - log_spherical(z, WIDE_DEGREES) - log_z
    weights = np.exp(np.where(np.isnan(log_weights), -np.inf, log_weights).clip(max=700))
    excess, error = float(weights.mean()) - 1, float(weights.std(ddof=1)) / math.sqrt(WIDELY)
    if excess > NEGLIGIBLE + DISAGREEMENT * error:
        raise Refused("there is a mode that no draw has found")


def _side(
    log_density: LogDensity,
    fit: Array,
    use: Array,
    heights: Array,
    symmetries: Sequence[Matrix],
    rng: np.random.Generator,
) -> BridgeSide:
    size = use.shape[-1]
    sample = fit.reshape(-1, size)
    require_more_draws_than(sample)
    centre, root, degrees = fitted(sample)
    log_volume = float(np.log(np.diag(root)).sum())
    share = Share(centre, root, degrees, symmetries)

    def symmetric(value: Array, mirrored: Array, z: Array) -> tuple[Array, NDArray[np.bool_]]:
        both = np.stack([value, mirrored])
        lost = np.isnan(both)
        if np.any(both == np.inf):
            raise Refused("the density is infinite somewhere")
        density = np.logaddexp(*np.where(lost, -np.inf, both)) - math.log(2.0) + log_volume
        return density - log_spherical(z, degrees), lost.any(axis=0)

    def shared(points: Array) -> Array:
        return np.asarray(log_density(points)) + share.log(points)

    points, values = _relabelled(log_density, share, use.reshape(-1, size), heights.ravel(), rng)
    z = linalg.solve_triangular(root, (points - centre).T, lower=True).T
    drawn, lost_draws = symmetric(values, shared(2 * centre - points), z)
    z = rng.standard_normal((max(len(points), FEWEST), size))
    if math.isfinite(degrees):
        z *= np.sqrt(degrees / rng.chisquare(degrees, size=(len(z), 1)))
    proposed, lost_proposals = symmetric(shared(centre + z @ root.T), shared(centre - z @ root.T), z)
    return BridgeSide(drawn.reshape(heights.shape), proposed, lost_draws.reshape(heights.shape), lost_proposals)


def _relabelled(
    log_density: LogDensity, share: Share, points: Array, heights: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Draws of one labelling's share of f from draws of f, and log f₁ there."""
    if len(share.symmetries) < 2:
        return points, heights
    points = moved(points, share.symmetries, share.drawn(points, rng))
    again = np.asarray(log_density(points), dtype=float)
    if not np.all(np.abs(again - heights) <= INVARIANT * (1 + 1e-3 * np.abs(heights))):
        raise Refused("the density changes with the labels of its components at some draw")
    return points, again + share.log(points)


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
        if abs(difference.log_z) > NEGLIGIBLE + DISAGREEMENT * difference.error:
            raise Refused(
                f"two bridges differ by {abs(difference.log_z):.2g} nats: the draws do not follow the density"
            )
    return best


def _combined(first: BridgeSolution, second: BridgeSolution) -> LogEvidence:
    difference, scale = abs(first.log_z - second.log_z), math.hypot(first.error, second.error)
    if difference > NEGLIGIBLE + DISAGREEMENT * scale:
        raise Refused(
            f"the two halves of the draws differ by {difference:.2g} nats, {difference / scale:.0f} standard errors"
        )
    # The draws' errors add up: near a Normal, that of either half is the product of both halves' deviations, so that
    # they are the same; and a slow chain is off in both alike.
    drawn = 0.5 * (error_of_mean(first.drawn) + error_of_mean(second.drawn))
    proposed = 0.5 * math.hypot(first.error_of_proposals, second.error_of_proposals)
    error = math.hypot(drawn, proposed) * max(1.0, difference / (2 * scale) if scale > 0 else 1.0)
    error += 0.5 * (first.unknown + second.unknown)
    if not error <= LARGEST_ERROR:
        raise Refused(f"its standard error would be {error:.2g} nats")
    return LogEvidence(0.5 * (first.log_z + second.log_z), error, "estimated")
