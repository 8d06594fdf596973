"""Integrals of smooth densities over one to four real variables, with an error bound, marginals and exact draws.

The density is located (modes, widths), carried over to coordinates t in which it is about as wide as a standard normal
and falls fast on every side (:mod:`bayeskit.quadrature.change_of_variable`), and summed over a lattice grown outward
from its modes (:mod:`bayeskit.quadrature.trapezoid`). That is done once for every variable: the layers of lattice j are
x_j = const, which yields the marginal density of x_j, and the integrals of lattices that share no node have to agree.

The bound on the error of log ∫f is the sum of what the spectrum of the sums says of their aliases, of what the decay
across the border says of the rest, of four times the largest difference between the lattices, and of rounding. For a
sheared product of three log-gamma densities and 1e-8 this takes about 2e5 evaluations; ``scipy.integrate.cubature``
takes 4.6e7 by its Gauss–Kronrod rule, and its Genz–Malik rule states 1e-4 where its error is 2e-3.

In four variables nodes are many and evaluations dear: there are two lattices in the same coordinates, no marginals, and
bounds of 1e-4 are aimed for. Narrow bumps are looked for along the rays from modes, but not along the axes.

Limits. A mode that no probe comes near (twenty times narrower than the rest, say, or hundreds of widths away) cannot be
seen by any method that only evaluates the density. One lattice serves all modes: in one or two variables its axes may
have many scales; in three, modes of very different widths use up the budget, as do long exponential tails aslant.
Densities with edges or kinks are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bayeskit.quadrature.axis_density import AxisDensity
from bayeskit.quadrature.counted_density import CountedDensity, NotIntegrable
from bayeskit.quadrature.coverage import Lookout
from bayeskit.quadrature.frames import bulk, choose_frame, frame_of_scales
from bayeskit.quadrature.line_scan import bumps_on_lines, lines_through, survey_line
from bayeskit.quadrature.mode_search import Landscape, survey, survey_further
from bayeskit.quadrature.refinement import LatticeSum, marginal, refined
from bayeskit.quadrature.trapezoid import LAYERED, Lattice
from bayeskit.types import ArrayFunction

__all__ = ["NotIntegrable", "Quadrature", "integrate", "nodes_of"]

# Lattices, draws and probes use fixed random numbers: the same density always gives the same answer.
SEED = 20240229
MOST = 4  # variables
# From which the bound of the rejection is taken, in four variables, and its factor above the largest ratio.
PROPOSALS, FEWER, SLACK = 2000, 500, 1.3
LEAST_RATE, MOST_PROPOSALS = 0.02, 100_000  # of acceptance that is planned with, and proposals at once
FURTHER = 4  # rounds in which regions that were passed over are looked for
JUMPS = 0.01  # nats: a density that is rounded to less has an integral, and a bound that says so
SPREAD = 4  # times the largest difference between lattices, or neighbours, that the bound counts
# Widths in which the density is a parabola but for rounding, and about which points, in widths from the mode, it is
# looked at. log(1 - Φ(x)) of x = 6 is a staircase, whose steps are a millionth of a width wide and higher farther out.
NEXT_TO_NONE, PROBED, ABOUT = 1e-6, 8, np.array([-3.0, -1.5, 0.0, 1.5, 3.0])
FINER = 0.96  # factor of the steps by which a second lattice in four variables differs, and its random shift
SHIFT, WIDER = 0.37, 1.3  # sds and factor of variance by which a second lattice in one variable differs
WIDE = 30.0  # times the bulk that the mass of one mode may reach before the mode is a spike upon a slab
CLOSE = 0.3  # first step of a lattice in a frame of many scales
# What modes far out may hold, in all, that no climb in two or three variables found where there are several: no bound.
# Of 130 posteriors with modes in rows to the end of the prior, 5 lacked up to 3e-8.
UNSEARCHED = 3e-7
RAY = np.geomspace(50.0, 1e5, 6)  # distances from the mode, in widths, at which rays are looked at
NOTHING, FLAT = -700.0, 0.05  # nats below the mode that count as zero, and by which r f(r) has to fall along a ray


@dataclass(frozen=True)
class Quadrature:
    """log ∫ f of a density f over R^k, a bound on its error in nats, and the normalised marginal of each variable."""

    log_integral: float
    error: float
    evaluations: int
    marginals: tuple[AxisDensity, ...]
    _rule: Lattice = field(repr=False)
    modes: np.ndarray = field(repr=False)  # (n, k), the highest first
    # In one variable, the widest gap between the points at which modes were looked for, within the range of the probes:
    # a mode much narrower, which no probe hit and the density around it does not show, is not seen.
    unseen: float = np.inf

    def draw(self, rng: np.random.Generator, number: int) -> np.ndarray:
        """Independent draws from f/∫f, one a row.

        In one variable by the quantile function of its marginal. In more, by rejection from the multilinear interpolant
        of f on the lattice: the draws have exactly the density f/∫f if the ratio of f to the interpolant nowhere
        exceeds the bound used. The bound is 1.3 times the largest ratio at 2,000 proposals; every later proposal is
        checked against it, and if one exceeds it everything is drawn again under a larger one. What lies outside the
        lattice, a share below ``error``, is never drawn. That costs about two evaluations of the density a draw.
        """
        if len(self.marginals) == 1:
            return self.marginals[0].quantile(rng.uniform(size=number), 0)[:, None]
        lattice, frame = self._rule, self._rule.frame

        def propose(size: int) -> tuple[np.ndarray, np.ndarray]:
            t, log_height = lattice.propose(rng, size)
            with np.errstate(all="ignore"):
                log_f = np.asarray(lattice.density.log_density(frame.forward(t)), float) + frame.log_jacobian(t)
            return t, np.where(np.isnan(log_f), -np.inf, log_f) - log_height

        accepted: list[np.ndarray] = []
        few = PROPOSALS if lattice.k <= LAYERED else FEWER
        t, log_ratio = propose(few)
        bound = log_ratio.max() + np.log(SLACK)
        while True:
            if log_ratio.max() > bound:
                accepted, bound = [], log_ratio.max() + np.log(SLACK)
                t, log_ratio = propose(few)
                continue
            accepted.append(t[np.log(rng.uniform(size=len(t))) < log_ratio - bound])
            missing = number - sum(map(len, accepted))
            if missing <= 0:
                return frame.forward(np.concatenate(accepted)[:number])
            rate = max(len(accepted[-1]) / len(t), LEAST_RATE)
            t, log_ratio = propose(int(min(missing / rate * 1.1 + 50, MOST_PROPOSALS)))

    @property
    def lattice(self) -> Lattice:
        """The nodes that the draws come from, with the values of the density there."""
        return self._rule

    def nodes(self, negligible: float) -> tuple[np.ndarray, np.ndarray]:
        """Points (n, k) and normalised weights of the rule, but for nodes that together weigh a negligible share."""
        return nodes_of(self._rule, negligible)[:2]


def nodes_of(lattice: Lattice, negligible: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (n, k) of a lattice, normalised weights, and places in it; without a negligible share of the weight."""
    weights = lattice.weights()
    order = np.argsort(weights)
    chosen = np.sort(order[np.cumsum(weights[order]) > negligible * weights.sum()])
    points = lattice.frame.forward(lattice.positions(lattice.nodes[chosen]))
    return points, weights[chosen] / weights[chosen].sum(), chosen


def integrate(
    log_density: ArrayFunction,
    start: np.ndarray,
    *,
    probes: np.ndarray | None = None,
    tolerance: float = 1e-8,
    acceptable: float = 1e-6,
    budget: int = 500_000,
) -> Quadrature:
    """Integrate exp(log_density) over R^k for k = 1, 2, 3 or 4; NotIntegrable where there is no integral, or no bound.

    The log density maps (n, k) points to n values; −inf is allowed, and nan far out in the tails. It is not zero at the
    ``start``; the ``probes`` are points where further modes might be, besides those that are tried anyway. The error
    aimed for is ``tolerance``; if the ``budget`` of evaluations runs out first, one up to ``acceptable`` is returned.
    """
    start = np.atleast_1d(np.asarray(start, float))
    k, rng = len(start), np.random.default_rng(SEED)
    if not 1 <= k <= MOST:
        raise NotIntegrable(f"quadrature is for one to four variables, not {k}")
    f = CountedDensity(log_density, budget)
    # In one variable nodes are cheap, and moments want the tails.
    cut = -np.log(tolerance) + (14.0 if k == 1 else 1.0 + k if k <= LAYERED else k - 1.7)
    probes = np.empty((0, k)) if probes is None else np.asarray(probes, float)
    land = survey_line(f, start, probes, cut) if k == 1 else survey(f, start, probes, cut, rng)
    if not len(land.modes):
        raise NotIntegrable("no mode of the density was found: it has no smooth maximum, or rounding hides it")
    try:
        # What the caller's sum of terms is off shows in its jumps between points that are next to none apart.
        noise = _rounding_at(f, land.modes[0], np.sqrt(np.diag(land.covariance)))
        land, runs = _covering(land, probes, tolerance, acceptable, rng)
        origins = [r.lattice.frame.log_jacobian(np.zeros((1, k)))[0] for r in runs]
        largest = max(float(np.abs(r.lattice.top - origin)) for r, origin in zip(runs, origins, strict=True))
        # It is taken to be good to a few ulp of its largest value and of a thousand nats.
        rounding = 1e-15 * (largest + 1e4)
        error = float(max(r.error for r in runs) + SPREAD * np.ptp([r.log_integral for r in runs]) + rounding)
        error += UNSEARCHED if k > 1 and len(land.modes) > 1 else 0.0
        if not error <= max(tolerance, acceptable):
            raise NotIntegrable(f"the error bound stays at {error:.1g} nats")
        if SPREAD * noise > JUMPS:
            raise NotIntegrable(f"next to its mode the log density jumps by {noise:.2g} nats")
        error += SPREAD * float(noise)
    except NotIntegrable as refusal:
        refusal.modes = land.separate()
        raise
    value = float(np.mean([r.log_integral for r in runs]))
    marginals = tuple(marginal(r) for r in runs[:k]) if k <= LAYERED else ()
    return Quadrature(value, error, f.count, marginals, runs[0].lattice, land.modes, land.unseen)


def _rounding_at(f: ArrayFunction, mode: np.ndarray, widths: np.ndarray) -> float:
    """Largest jump of the density, relative to its top, between points next to none apart, beyond a parabola."""
    places = np.linspace(-1.0, 1.0, PROBED)
    near = ABOUT[:, None] + NEXT_TO_NONE * places
    values = f(mode + near.reshape(-1, 1) * widths).reshape(near.shape)
    values = np.where(np.isfinite(values), values, np.nanmax(values[len(ABOUT) // 2]) + NOTHING)
    parabola = np.vander(places, 3)
    jumps = np.ptp(values - values @ np.linalg.pinv(parabola).T @ parabola.T, axis=1)
    height = values.max(axis=1)
    return float(np.max(jumps * np.exp(np.minimum(height - height[len(ABOUT) // 2], 0.0))))


def _covering(
    land: Landscape, probes: np.ndarray, tolerance: float, acceptable: float, rng: np.random.Generator
) -> tuple[Landscape, list[LatticeSum]]:
    """Lattices that pass nothing over, and the landscape that they are made for."""
    about = bulk(land)
    k = land.modes.shape[1]
    bumps = k > 1 and (_stands_on_more(land, about[1]) or (k <= LAYERED and bumps_on_lines(land, probes)))
    runs = _to_scale(land, about, probes, tolerance, acceptable, rng, bumps)
    if land.modes.shape[1] == 1:
        return land, runs
    lookout = Lookout(land.density, probes, land.modes, SEED)
    for _ in range(FURTHER):
        points, values = lookout.passed_over(runs[0].lattice)
        if not len(points):
            return land, runs
        land = survey_further(land, points, values, rng)
        runs = _to_scale(land, bulk(land), probes, tolerance, acceptable, rng, bumps)
    raise NotIntegrable("new regions in which the density matters were still being found")


def _stands_on_more(land: Landscape, covariance: np.ndarray) -> bool:
    """Whether the highest mode is far narrower than the bulk, which no climb takes for a mode of its own."""
    return bool(np.any(np.diag(covariance) > WIDE**2 * np.diag(land.covariance)))


def _to_scale(
    land: Landscape,
    about: tuple[np.ndarray, np.ndarray],
    probes: np.ndarray,
    tolerance: float,
    acceptable: float,
    rng: np.random.Generator,
    bumps: bool,
) -> list[LatticeSum]:
    """Lattices of one scale; of axes with many where these fail, or where they would not see ``bumps``.

    Axes of many scales take as many nodes as all of them together: a million in two variables, too many in three.
    """
    refusal = NotIntegrable("the density has bumps that are far narrower than the rest")
    if not bumps:
        try:
            return _lattices(land, about, tolerance, acceptable, rng)
        except NotIntegrable as failure:
            refusal = failure
    lines = lines_through(land, probes) if land.modes.shape[1] < 3 else ()
    if not any(map(_many_scaled, lines)):
        raise refusal
    return _lattices(land, about, tolerance, acceptable, rng, lines)


def _many_scaled(line: Landscape, bulk: float | None = None) -> bool:
    """Whether a mode is a spike upon a slab, of which only the spike may be a mode.

    Where the spike is no higher than the slab by three nats, the sd of the ``bulk`` is that of the slab.
    """
    scales = [*line.own_widths, line.reach] if bulk is None else [bulk, line.reach]
    return max(scales) > WIDE * min(scales) or (bulk is not None and bulk > WIDE * min(line.own_widths))


def _lattices(
    land: Landscape,
    about: tuple[np.ndarray, np.ndarray],
    tolerance: float,
    acceptable: float,
    rng: np.random.Generator,
    lines: Sequence[Landscape] = (),
) -> list[LatticeSum]:
    """One lattice for every variable; two for a single one. With ``lines``, axes have the scales that these show."""
    k = land.modes.shape[1]
    centre, covariance = (land.modes[0], land.covariance) if lines else about
    if k == 1 and (_many_scaled(land, np.sqrt(covariance[0, 0])) or len(land.modes) > 1):
        lines = (land,)
    spread = np.diag([max(line.reach, *line.own_widths) ** 2 for line in lines]) if lines else covariance
    _follow_rays(land, spread, rng)
    runs: list[LatticeSum] = []
    lattices = max(k, 2) if k <= LAYERED else 2
    for number in range(lattices):
        if k > LAYERED and number:
            # The same coordinates, in which other nodes are as good: to find others takes as many evaluations.
            frame, step = runs[0].lattice.frame, runs[0].lattice.step * FINER
            runs.append(refined(land, frame, step, tolerance, acceptable, rng, 0))
            break
        first = number if k > 1 else 0
        order = (first, *(i for i in range(k) if i != first))
        if lines:
            frame, step = frame_of_scales(lines, order, number), np.full(k, CLOSE)
        else:
            if k == 1 and number:
                # A second opinion in one dimension: another centre and scale, hence other nodes and another stretch.
                centre, covariance = centre + SHIFT * np.sqrt(covariance[0]), covariance * WIDER
            frame, step = choose_frame(land, centre, covariance, order, tolerance)
        later = lattices - 1 - number
        runs.append(refined(land, frame, step, tolerance, acceptable, rng, later))
        land.density.require(later * len(runs[-1].lattice.nodes) // 2)
    return runs


def _follow_rays(land: Landscape, covariance: np.ndarray, rng: np.random.Generator) -> None:
    """Refuse where r f(r) does not decrease at the far end of a ray: a floor far below has an infinite integral too."""
    f, mode, k = land.density, land.modes[0], len(covariance)
    directions = np.concatenate([np.eye(k), -np.eye(k), rng.standard_normal((4 * (1 < k <= LAYERED) * k, k))])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    steps = RAY[:, None, None] * (directions @ np.linalg.cholesky(covariance).T)
    values = f((mode + steps).reshape(-1, k)).reshape(len(RAY), -1)
    values = np.where(np.isnan(values), -np.inf, values) - f(mode[None]) + np.log(RAY)[:, None]
    last, before = values[-1], values[-3]
    if np.any((last > NOTHING) & (last > before - FLAT)):
        raise NotIntegrable("the density does not fall off far out, so that its integral does not exist")
