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

**Exchangeable components.** Where f(T_π x) = f(x) for a finite group of linear maps with |det T_π| = 1 (permutations of
the labels of a mixture), the posterior has a copy of every mode for each π, and an estimate from one of them misses the
log of their number (Neal 1999, on Chib 1995; Berkhof, van Mechelen and Gelman 2003). With q fitted to draws relabelled
to one labelling, f is replaced by

    f₁(x) = f(x) · |G| q(x) / Σ_π q(T_π x),                                                                          (2)

one labelling's soft share of f. Because f is invariant, each π's share has the same integral, so that ∫ f₁ = ∫ f
whatever q is; and a posterior draw x becomes a draw of f₁ as T_π x, π chosen with probability q(T_π x) / Σ_σ q(T_σ x).
The ratio f₁ / q is f over the proposal symmetrised over all labellings, (1/|G|) Σ_π q(T_π x) (Frühwirth-Schnatter 2004,
section 4.2, in which the permutations are drawn rather than summed over): the estimate is right whether the modes are
apart or overlap, and whether or not the chains switched labels. The draws that q is fitted to are relabelled to the
draw of highest density (pivotal reordering; Marin, Mengersen and Robert 2005), and then each by the permutation that is
most likely under a Normal fitted to all, in turn until nothing changes (Stephens 2000, section 4). Whether chains agree
is judged after relabelling. That f is invariant is checked at every draw that is used.

**Error.** The weights in (1) are bounded, so their averages have ordinary standard errors: independent proposals, and
correlated draws through ArviZ's Monte Carlo standard error of the mean (Frühwirth-Schnatter 2004, who calls this the
relative mean-squared error). A number is refused rather than given where these cannot be trusted; see :func:`bridge`.

Sources: Meng and Wong (1996), Statistica Sinica 6, 831-860; Meng and Schilling (2002), Journal of Computational and
Graphical Statistics 11, 552-586; Frühwirth-Schnatter (2004), Econometrics Journal 7, 143-167; Gronau et al. (2017),
Journal of Mathematical Psychology 81, 80-97.

On labels: Stephens (2000), Journal of the Royal Statistical Society B 62, 795-809; Berkhof, van Mechelen and Gelman
(2003), Statistica Sinica 13, 423-442; Marin, Mengersen and Robert (2005), Handbook of Statistics 25, 459-507; Neal
(1999), Erroneous results in "Marginal likelihood from the Gibbs output" (on Chib 1995, JASA 90, 1313-1321).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from arviz_stats.base import array_stats
from numpy.typing import NDArray
from scipy import linalg, optimize, special

from bayeskit.compiling import on_one_thread, silently
from bayeskit.results import LogEvidence

__all__ = ["bridge", "refused"]

Array = NDArray[np.float64]
LogDensity = Callable[[Array], Array]
Matrix = Any  # a sparse matrix: its type has no operators that a type checker knows

MOST = 2_000  # draws at which the density is evaluated; more are thinned
FEWEST = 500  # proposals
DEGREES = (math.inf, 30.0, 10.0, 5.0, 3.0, 2.0)  # of freedom of the proposal
RHAT = 1.05
EFFECTIVE = 100.0  # effective draws at least
CONTRIBUTING = 50.0  # draws or proposals that at least share the weight
DISAGREEMENT = 5.0  # standard errors between two estimates of the same number
NEGLIGIBLE = 1e-6  # nats
OTHER_BRIDGES = (0.1, 0.9)  # s₁ of the bridges that must agree with the optimal one
STREAM = 0xB21D6E  # which of the streams of a seed
WIDE, WIDELY, WIDE_DEGREES = 5.0, 1_000, 3.0  # scale, number and degrees of freedom of the proposals far away
LABELLED = 1_000  # draws to which the labelling is fitted
ROUNDS = 50  # of relabelling
INVARIANT = 1e-6  # nats, and a thousandth of it relative to the density: rounding
LARGEST_ERROR = 0.5  # nats; beyond, the error itself is a guess


def refused(reason: str) -> LogEvidence:
    """No estimate, and why."""
    return LogEvidence(math.nan, math.inf, "estimated", reason)


class _Refused(Exception):
    """There is no estimate that could be trusted; the message says why."""


@dataclass(frozen=True)
class _Side:
    """One half of the draws against the proposal fitted to the other half.

    Attributes
    ----------
    draws : array (chains, length)
        log f̃ − log q at the draws, f̃ the symmetrised density.
    proposals : array (n,)
        The same at draws from q.
    lost_draws, lost_proposals : array of bool
        Where the density could not be evaluated, at the point or at its mirror image, and was taken as zero.
    """

    draws: Array
    proposals: Array
    lost_draws: NDArray[np.bool_]
    lost_proposals: NDArray[np.bool_]

    def solve(self, s: float) -> _Solution:
        """Solve (1) with s₁ = s."""
        odds = math.log(s / (1 - s))
        finite = np.concatenate([self.draws.ravel(), self.proposals[np.isfinite(self.proposals)]])
        low, high = float(finite.min()) - 50.0, float(finite.max()) + 50.0

        def weights(log_z: float) -> tuple[Array, Array]:
            drawn = special.expit(log_z - self.draws - odds) / (1 - s)
            proposed = special.expit(self.proposals - log_z + odds) / s
            return drawn, proposed

        def excess(log_z: float) -> float:
            drawn, proposed = weights(log_z)
            return float(proposed.mean() - drawn.mean())

        if not excess(low) > 0 > excess(high):
            raise _Refused("the proposal and the posterior do not overlap")
        log_z = float(optimize.brentq(excess, low, high, xtol=1e-12))
        drawn, proposed = weights(log_z)
        overlap = float(proposed.mean())
        # Had the density been known, a draw's weight would be smaller, and that of a proposal at most 1 / s.
        unknown = float((drawn * self.lost_draws).mean() + self.lost_proposals.mean() / s) / overlap
        return _Solution(log_z, drawn / drawn.mean(), proposed / overlap, unknown)


@dataclass(frozen=True)
class _Solution:
    """log Z from one side, with what its error is made of.

    Attributes
    ----------
    log_z : float
    drawn : array (chains, length)
        The weights of (1) at the draws, divided by their mean.
    proposed : array (n,)
        The same at the proposals.
    unknown : float
        Bound of the relative error from points where the density could not be evaluated.
    """

    log_z: float
    drawn: Array
    proposed: Array
    unknown: float = 0.0

    @property
    def error_of_proposals(self) -> float:
        return float(self.proposed.std(ddof=1)) / math.sqrt(self.proposed.size)

    @property
    def error(self) -> float:
        return math.hypot(_error_of_mean(self.drawn), self.error_of_proposals)

    @property
    def contributing(self) -> float:
        """The least effective number of draws, or of proposals, that share the weight."""
        return min(w.size / float(np.mean(w**2)) for w in (self.drawn, self.proposed))


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
    except _Refused as reason:
        return refused(str(reason))


def _bridge(
    log_density: LogDensity, draws: Array, symmetries: Sequence[Matrix], rng: np.random.Generator
) -> LogEvidence:
    if not np.all(np.isfinite(draws)):
        raise _Refused("a draw is not finite on the unconstrained scale")
    if draws.shape[1] < 8:
        raise _Refused("there are too few draws")
    size = draws.shape[-1]
    middle = draws.shape[1] // 2
    parts = (draws[:, :middle], draws[:, middle : 2 * middle])
    step = max(1, -(-draws.shape[0] * 2 * middle // MOST))
    kept = [p[:, ::step] for p in parts]
    heights = [np.asarray(log_density(k.reshape(-1, size)), dtype=float).reshape(k.shape[:2]) for k in kept]
    judged, anywhere, samples = draws, draws, list(parts)
    if len(symmetries) > 1:
        # Each half gets its own labelling, for its own proposal; what is judged is labelled by the first.
        one, other = (_labelling(k, h, symmetries) for k, h in zip(kept, heights, strict=True))
        judged, samples = one.applied(draws), [one.applied(parts[0]), other.applied(parts[1])]
        anywhere = _moved(draws, symmetries, rng.integers(len(symmetries), size=draws.shape[:2]))
    _require_mixing(judged)
    if not np.all(np.isfinite(heights)):
        raise _Refused("the density is not finite at every draw")
    _require_mixing(np.concatenate(heights, axis=1)[..., None])
    sides = [_side(log_density, samples[1 - k], kept[k], heights[k], symmetries, rng) for k in (0, 1)]
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
        raise _Refused(f"the chains disagree (R-hat {rhat:.3f}): several modes, or too few draws")
    effective = min(float(array_stats.ess(s, method="bulk")) for s in columns)
    if not effective >= EFFECTIVE:
        raise _Refused(f"there are too few effective draws ({effective:.0f}); ask for more")


def _require_nothing_far_away(log_density: LogDensity, draws: Array, log_z: float, rng: np.random.Generator) -> None:
    """Importance sampling from far around the draws finds a mode that they missed, in few dimensions.

    Where it is poor it is too low, or its error is as large as itself; it does not come out far above by chance.
    """
    size = draws.shape[1]
    root = WIDE * np.linalg.cholesky(np.atleast_2d(np.cov(draws, rowvar=False)))
    z = rng.standard_normal((WIDELY, size)) * np.sqrt(WIDE_DEGREES / rng.chisquare(WIDE_DEGREES, size=(WIDELY, 1)))
    values = np.asarray(log_density(draws.mean(axis=0) + z @ root.T), dtype=float)
    log_weights = values + np.log(np.diag(root)).sum() - _log_spherical(z, WIDE_DEGREES) - log_z
    weights = np.exp(np.where(np.isnan(log_weights), -np.inf, log_weights).clip(max=700))
    excess, error = float(weights.mean()) - 1, float(weights.std(ddof=1)) / math.sqrt(WIDELY)
    if excess > NEGLIGIBLE + DISAGREEMENT * error:
        raise _Refused("there is a mode that no draw has found")


def _side(
    log_density: LogDensity,
    fit: Array,
    use: Array,
    heights: Array,
    symmetries: Sequence[Matrix],
    rng: np.random.Generator,
) -> _Side:
    size = use.shape[-1]
    sample = fit.reshape(-1, size)
    _require_more_draws_than(sample)
    centre, root, degrees = _fitted(sample)
    log_volume = float(np.log(np.diag(root)).sum())
    share = _Share(centre, root, degrees, symmetries)

    def symmetric(value: Array, mirrored: Array, z: Array) -> tuple[Array, NDArray[np.bool_]]:
        both = np.stack([value, mirrored])
        lost = np.isnan(both)
        if np.any(both == np.inf):
            raise _Refused("the density is infinite somewhere")
        density = np.logaddexp(*np.where(lost, -np.inf, both)) - math.log(2.0) + log_volume
        return density - _log_spherical(z, degrees), lost.any(axis=0)

    def shared(points: Array) -> Array:
        return np.asarray(log_density(points)) + share.log(points)

    points, values = _relabelled(log_density, share, use.reshape(-1, size), heights.ravel(), rng)
    z = linalg.solve_triangular(root, (points - centre).T, lower=True).T
    drawn, lost_draws = symmetric(values, shared(2 * centre - points), z)
    z = rng.standard_normal((max(len(points), FEWEST), size))
    if math.isfinite(degrees):
        z *= np.sqrt(degrees / rng.chisquare(degrees, size=(len(z), 1)))
    proposed, lost_proposals = symmetric(shared(centre + z @ root.T), shared(centre - z @ root.T), z)
    return _Side(drawn.reshape(heights.shape), proposed, lost_draws.reshape(heights.shape), lost_proposals)


def _require_more_draws_than(sample: Array) -> None:
    size = sample.shape[1]
    if len(sample) < 2 * size + 10:
        raise _Refused(f"there are too few draws for {size} dimensions; ask for more draws")


@dataclass(frozen=True)
class _Share:
    """One labelling's share of f, log |G| q(x) − log Σ_π q(T_π x) of (2), with q a multivariate Normal or t."""

    centre: Array
    root: Array
    degrees: float
    symmetries: Sequence[Matrix]

    def each(self, points: Array) -> Iterator[Array]:
        """log q(T_π x), up to a constant, for every π in turn: memory is that of a few arrays of points."""
        for symmetry in self.symmetries:
            offset = symmetry @ points.T - self.centre[:, None]
            yield _log_spherical(linalg.solve_triangular(self.root, offset, lower=True).T, self.degrees)

    def log(self, points: Array) -> Array:
        """The share at points of shape (n, D); zero where there are no symmetries."""
        if len(self.symmetries) < 2:
            return np.zeros(len(points))
        values = self.each(points)
        own = total = next(values)  # the identity comes first
        for value in values:
            total = np.logaddexp(total, value)
        return np.asarray(own - total + math.log(len(self.symmetries)))

    def most_likely(self, points: Array) -> NDArray[np.intp]:
        """Which π makes T_π x most likely under q."""
        return _largest(self.each(points), len(points))

    def drawn(self, points: Array, rng: np.random.Generator) -> NDArray[np.intp]:
        """π with probability q(T_π x) / Σ q(T_σ x), by the Gumbel distribution of the largest."""
        return _largest((value + rng.gumbel(size=len(points)) for value in self.each(points)), len(points))

    def applied(self, draws: Array) -> Array:
        """Draws of shape (chains, length, D), each under its most likely labelling."""
        return _moved(draws, self.symmetries, self.most_likely(draws.reshape(-1, draws.shape[-1])))


def _largest(values: Iterator[Array], number: int) -> NDArray[np.intp]:
    """For each entry, which of the arrays is largest there."""
    best, which = np.full(number, -np.inf), np.zeros(number, dtype=np.intp)
    for k, value in enumerate(values):
        better = value > best
        best[better], which[better] = value[better], k
    return which


def _moved(draws: Array, symmetries: Sequence[Matrix], which: NDArray[np.intp]) -> Array:
    """Each draw under one of the symmetries."""
    points = draws.reshape(-1, draws.shape[-1])
    result = points.copy()
    for k in np.unique(which):
        rows = which.ravel() == k
        result[rows] = (symmetries[k] @ points[rows].T).T
    return result.reshape(draws.shape)


def _labelling(draws: Array, heights: Array, symmetries: Sequence[Matrix]) -> _Share:
    """The Normal under which one labelling of each draw is more likely than the others; see the module's docstring."""
    sample = draws.reshape(-1, draws.shape[-1])
    _require_more_draws_than(sample)
    pivot = sample[np.argmax(np.where(np.isnan(heights), -np.inf, heights).ravel())]
    sample = sample[:: -(-len(sample) // LABELLED)]
    squares = sum(((s @ sample.T - pivot[:, None]) ** 2).mean(axis=1) for s in symmetries) / len(symmetries)
    fitted = _Share(pivot, np.diag(np.sqrt(np.maximum(squares, np.finfo(float).tiny))), math.inf, symmetries)
    before = None
    for _ in range(ROUNDS):
        which = fitted.most_likely(sample)
        if before is not None and np.array_equal(which, before):
            break
        centre, scatter = _scatter(_moved(sample, symmetries, which), math.inf)
        fitted, before = _Share(centre, _root(scatter), math.inf, symmetries), which
    return fitted


def _relabelled(
    log_density: LogDensity, share: _Share, points: Array, heights: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Draws of f₁ of (2) from draws of f, and log f₁ there."""
    if len(share.symmetries) < 2:
        return points, heights
    points = _moved(points, share.symmetries, share.drawn(points, rng))
    again = np.asarray(log_density(points), dtype=float)
    if not np.all(np.abs(again - heights) <= INVARIANT * (1 + 1e-3 * np.abs(heights))):
        raise _Refused("the density changes with the labels of its components at some draw")
    return points, again + share.log(points)


def _root(scatter: Array) -> Array:
    try:
        return np.linalg.cholesky(scatter)
    except np.linalg.LinAlgError:
        raise _Refused("the draws lie on a subspace: their covariance is singular") from None


def _fitted(sample: Array) -> tuple[Array, Array, float]:
    """Centre, Cholesky factor and degrees of freedom of the most likely proposal."""
    best: tuple[float, Array, Array, float] | None = None
    for degrees in DEGREES:
        centre, scatter = _scatter(sample, degrees)
        root = _root(scatter)
        z = linalg.solve_triangular(root, (sample - centre).T, lower=True).T
        fit = float((_log_spherical(z, degrees) - np.log(np.diag(root)).sum()).mean())
        if best is not None and fit < best[0]:
            break
        best = (fit, centre, root, degrees)
    assert best is not None
    return best[1:]


def _scatter(sample: Array, degrees: float) -> tuple[Array, Array]:
    """Location and scatter of a multivariate t, by its EM steps; of a Normal, the moments."""
    size = sample.shape[1]
    centre, scatter = sample.mean(axis=0), np.atleast_2d(np.cov(sample, rowvar=False))
    if not math.isfinite(degrees):
        return centre, scatter
    for _ in range(10):
        distance = np.einsum("ij,ij->i", sample - centre, np.linalg.solve(scatter, (sample - centre).T).T)
        weight = (degrees + size) / (degrees + distance)
        centre = weight @ sample / weight.sum()
        scatter = (sample - centre).T @ (weight[:, None] * (sample - centre)) / len(sample)
    return centre, scatter


def _log_spherical(z: Array, degrees: float) -> Array:
    """Log density of a standard spherical Normal or Student t."""
    size, square = z.shape[-1], np.sum(z**2, axis=-1)
    if not math.isfinite(degrees):
        return np.asarray(-0.5 * square - 0.5 * size * math.log(2 * math.pi))
    constant = special.gammaln((degrees + size) / 2) - special.gammaln(degrees / 2)
    constant -= 0.5 * size * math.log(degrees * math.pi)
    return np.asarray(constant - 0.5 * (degrees + size) * np.log1p(square / degrees))


def _optimal(side: _Side) -> _Solution:
    """The optimal bridge, held against bridges of a different shape."""
    # Draws count by their effective number; a wrong one costs precision only.
    low, high = np.quantile(side.draws, [0.01, 0.99])
    count = _effective(np.clip(side.draws, low, high))
    best = side.solve(count / (count + side.proposals.size))
    if best.contributing < CONTRIBUTING:
        raise _Refused(f"only {best.contributing:.0f} draws or proposals lie where the other density does")
    for s in OTHER_BRIDGES:
        other = side.solve(s)
        # Both use the same draws: the error of the difference is that of the difference of the weights.
        difference = _Solution(other.log_z - best.log_z, other.drawn - best.drawn, other.proposed - best.proposed)
        if abs(difference.log_z) > NEGLIGIBLE + DISAGREEMENT * difference.error:
            raise _Refused(
                f"two bridges differ by {abs(difference.log_z):.2g} nats: the draws do not follow the density"
            )
    return best


def _combined(first: _Solution, second: _Solution) -> LogEvidence:
    difference, scale = abs(first.log_z - second.log_z), math.hypot(first.error, second.error)
    if difference > NEGLIGIBLE + DISAGREEMENT * scale:
        raise _Refused(
            f"the two halves of the draws differ by {difference:.2g} nats, {difference / scale:.0f} standard errors"
        )
    # The draws' errors add up: near a Normal, that of either half is the product of both halves' deviations, so that
    # they are the same; and a slow chain is off in both alike.
    drawn = 0.5 * (_error_of_mean(first.drawn) + _error_of_mean(second.drawn))
    proposed = 0.5 * math.hypot(first.error_of_proposals, second.error_of_proposals)
    error = math.hypot(drawn, proposed) * max(1.0, difference / (2 * scale) if scale > 0 else 1.0)
    error += 0.5 * (first.unknown + second.unknown)
    if not error <= LARGEST_ERROR:
        raise _Refused(f"its standard error would be {error:.2g} nats")
    return LogEvidence(0.5 * (first.log_z + second.log_z), error, "estimated")


def _effective(series: Array) -> float:
    """Effective number of draws for the mean of one series, at most the number there are."""
    if np.ptp(series) == 0:
        return float(series.size)
    return min(float(array_stats.ess(series, method="mean")), float(series.size))


def _error_of_mean(series: Array) -> float:
    """Standard error of the mean of autocorrelated chains: by the effective number, or the spread of the chains."""
    within = float(series.std(ddof=1)) / math.sqrt(_effective(series))
    if len(series) < 2:
        return within
    return max(within, float(series.mean(axis=1).std(ddof=1)) / math.sqrt(len(series)))
