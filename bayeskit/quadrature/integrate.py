"""Integrals of smooth densities over one to three real variables, with an error bound, marginals and exact draws.

The density is located (modes, widths), carried over to coordinates t in which it is about as wide as a standard normal
and falls fast on every side (:mod:`bayeskit.quadrature.change_of_variable`), and summed over a lattice grown outward
from its modes (:mod:`bayeskit.quadrature.trapezoid`). That is done once for every variable: the layers of lattice j are
x_j = const, which yields the marginal density of x_j, and the integrals of lattices that share no node have to agree.

The bound on the error of log ∫f is the sum of
- what the spectrum of the sums says of their aliases,
- what the decay across the border says of the rest,
- four times the largest difference between the lattices, and rounding.

For a sheared product of three log-gamma densities and 1e-8 this takes about 2e5 evaluations;
``scipy.integrate.cubature`` takes 4.6e7 by its Gauss-Kronrod rule, and its Genz-Malik rule stops after 1.5e6 with an
error of 2e-3 that it states as 1e-4.

Limits. A mode that no probe comes near (twenty times narrower than the rest, say, or hundreds of widths away) cannot be
seen by any method that only evaluates the density. One lattice serves all modes, so that modes of very different widths
use up the budget, as do three variables with long exponential tails that lie aslant. Densities with edges or kinks are
refused, since no bound is met.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bayeskit.quadrature.change_of_variable import Bend, Frame, Stretch, fit_stretch
from bayeskit.quadrature.grid_distribution import AxisDensity
from bayeskit.quadrature.mode_search import Evaluator, Landscape, NotIntegrable, survey
from bayeskit.quadrature.trapezoid import Lattice, depth

__all__ = ["NotIntegrable", "Quadrature", "integrate"]

Function = Callable[[np.ndarray], np.ndarray]
# Lattices, draws and probes use fixed random numbers: the same density always gives the same answer.
SEED = 20240229
REACH = 60.0
UNDEFINED = "the density is not a number at points where it matters"
SLOW = "the density falls off too slowly, not at all, or along too curved a ridge"


@dataclass(frozen=True)
class Quadrature:
    """The integral of a density f over R^k and what comes with it.

    Attributes
    ----------
    log_integral : float
        log ∫ f.
    error : float
        Bound on its absolute error, in nats.
    evaluations : int
        How often the density was evaluated.
    mode : array of k
    covariance : array (k, k)
        Inverse of the negative Hessian of log f at the mode (nan where that is not positive definite).
    marginals : tuple of AxisDensity
        The normalised marginal density of each variable.
    """

    log_integral: float
    error: float
    evaluations: int
    mode: np.ndarray
    covariance: np.ndarray
    marginals: tuple[AxisDensity, ...]
    _runs: tuple[_Run, ...] = field(repr=False)
    _log_density: Function = field(repr=False)

    def draw(self, rng: np.random.Generator, number: int) -> np.ndarray:
        """Independent draws from f/∫f.

        In one variable by the quantile function of its marginal. In more, by rejection from the multilinear interpolant
        of f on the lattice: the draws have exactly the density f/∫f if the ratio of f to the interpolant nowhere
        exceeds the bound used. The bound is 1.3 times the largest ratio at 2,000 proposals; every later proposal is
        checked against it, and if one exceeds it everything is drawn again under a larger one. What lies outside the
        lattice, a share below ``error``, is never drawn. That costs about two evaluations of the density a draw.

        Parameters
        ----------
        rng : numpy.random.Generator
        number : int

        Returns
        -------
        array (number, k)
        """
        if len(self.mode) == 1:
            return self.marginals[0].ppf(rng.uniform(size=number))[:, None]
        run = self._runs[0]
        lattice = run.lattice

        def propose(size: int) -> tuple[np.ndarray, np.ndarray]:
            t, log_height = lattice.propose(rng, size)
            with np.errstate(all="ignore"):
                log_f = np.asarray(self._log_density(run.frame.forward(t)), float) + run.frame.log_jacobian(t)
            return t, np.where(np.isnan(log_f), -np.inf, log_f) - log_height

        kept: list[np.ndarray] = []
        t, log_ratio = propose(2000)
        bound = log_ratio.max() + np.log(1.3)
        while True:
            if log_ratio.max() > bound:
                kept, bound = [], log_ratio.max() + np.log(1.3)
                t, log_ratio = propose(2000)
                continue
            accepted = np.log(rng.uniform(size=len(t))) < log_ratio - bound
            kept.append(t[accepted])
            have = sum(map(len, kept))
            if have >= number:
                return run.frame.forward(np.concatenate(kept)[:number])
            rate = max(len(kept[-1]) / len(t), 0.02)
            t, log_ratio = propose(int(min((number - have) / rate * 1.1 + 50, 100_000)))

    def nodes(self, negligible: float) -> tuple[np.ndarray, np.ndarray]:
        """Points (n, k) and normalised weights of the rule, but for nodes whose weights add up to a negligible share.

        Parameters
        ----------
        negligible : float
            The share of the integral that may be left out.
        """
        lattice, frame = self._runs[0].lattice, self._runs[0].frame
        weights = lattice.weights()
        order = np.argsort(weights)
        chosen = np.sort(order[np.cumsum(weights[order]) > negligible * weights.sum()])
        return frame.forward(lattice.positions(lattice.nodes[chosen])), weights[chosen] / weights[chosen].sum()

    def expectation(self, function: Function) -> tuple[np.ndarray, np.ndarray]:
        """E g(x) of a smooth vectorised function, at no further evaluation of the density.

        Parameters
        ----------
        function : callable
            (n, k) points to an array (n, ...).

        Returns
        -------
        value, error : arrays
            The error is an estimate from the spectrum, the border and the spread between lattices; nan where the tails
            of g f lie outside the lattice.
        """
        values, errors = [], []
        for run in self._runs:
            g = np.asarray(function(run.frame.forward(run.lattice.positions(run.lattice.nodes))), float)
            shape = g.shape[1:]
            g = g.reshape(len(g), -1)
            w = run.lattice.weights()
            with np.errstate(invalid="ignore"):
                product = np.where(w[:, None] > 0, w[:, None] * g, 0.0)
            mean = product.sum(0) / w.sum()
            scale = np.abs(product).sum(0) / w.sum()
            active = run.lattice.active(run.cut)
            border = 10 * np.abs(product[~active]).sum(0) / w.sum()
            alias = np.array([run.lattice.aliasing(column)[0] for column in product.T])
            values.append(mean)
            errors.append(np.where(border > 1e-3 * scale, np.nan, border + alias + 1e-15 * scale))
        value = np.mean(values, axis=0)
        error = 4 * np.ptp(values, axis=0) + np.max(errors, axis=0) + np.abs(value) * self.error
        return value.reshape(shape), error.reshape(shape)


@dataclass(frozen=True)
class _Run:
    """One finished lattice."""

    frame: Frame
    lattice: Lattice
    cut: float
    log_integral: float
    error: float


def integrate(
    log_density: Function,
    start: np.ndarray,
    *,
    probes: np.ndarray | None = None,
    tolerance: float = 1e-8,
    acceptable: float = 1e-6,
    budget: int = 500_000,
) -> Quadrature:
    """Integrate exp(log_density) over R^k for k = 1, 2 or 3.

    Parameters
    ----------
    log_density : callable
        (n, k) points to n values of an unnormalised log density; -inf is allowed, nan only far out in the tails.
    start : array of k
        A point where the density is not zero.
    probes : array (n, k), optional
        Points where further modes might be, draws from the prior say; besides those that are tried anyway.
    tolerance : float
        Error of log ∫f to aim for, in nats.
    acceptable : float
        If the budget runs out first, the largest error bound that is still returned.
    budget : int
        Largest number of evaluations.

    Returns
    -------
    Quadrature

    Raises
    ------
    NotIntegrable
        If the integral does not exist, or the bound is not met.
    """
    start = np.atleast_1d(np.asarray(start, float))
    k = len(start)
    if k not in (1, 2, 3):
        raise NotIntegrable(f"quadrature is for one to three variables, not {k}")
    f = Evaluator(log_density, budget)
    rng = np.random.default_rng(SEED)
    # In one variable nodes are cheap, and moments want the tails.
    cut = -np.log(tolerance) + (14.0 if k == 1 else 1.0 + k)
    land = survey(f, start, np.empty((0, k)) if probes is None else np.asarray(probes, float), cut, rng)
    centre, covariance = _bulk(f, land, cut)
    _follow_rays(f, land.modes[0], covariance, rng)
    orders = [(j, *(i for i in range(k) if i != j)) for j in range(k)] if k > 1 else [(0,), (0,)]
    runs: list[_Run] = []
    for number, order in enumerate(orders):
        if k == 1 and number:
            # A second opinion in one dimension: another centre and scale, hence other nodes and another stretch.
            centre, covariance = centre + 0.37 * np.sqrt(covariance[0]), covariance * 1.3
        frame, step = _choose_frame(f, centre, covariance, order, land, cut, tolerance)
        runs.append(_sum(f, frame, step, land, cut, tolerance, acceptable, rng))
    integrals = np.array([r.log_integral for r in runs])
    largest = max(float(np.abs(r.lattice.top - r.frame.log_jacobian(np.zeros((1, k)))[0])) for r in runs)
    # The caller's sum of terms is taken to be good to a few ulp of its largest value and of a thousand nats.
    rounding = 1e-15 * (largest + 1e4)
    error = float(max(r.error for r in runs) + 4 * np.ptp(integrals) + rounding)
    if not error <= max(tolerance, acceptable):
        raise NotIntegrable(f"the error bound stays at {error:.1g} nats")
    return Quadrature(
        float(integrals.mean()),
        error,
        f.count,
        land.modes[0],
        _inverse(land.curvature),
        tuple(_marginal(r) for r in runs[:k]),
        tuple(runs),
        log_density,
    )


def _inverse(hessian: np.ndarray) -> np.ndarray:
    eigenvalues = np.linalg.eigvalsh(-hessian)
    return np.linalg.inv(-hessian) if eigenvalues.min() > 0 else np.full(hessian.shape, np.nan)


# Steps of the lattices that only steer.
COARSE = {1: 0.5, 2: 0.6, 3: 1.0}
# What the spline through the layers may be off, relative to its top.
SMOOTH = {1: 1e-9, 2: 5e-7, 3: 2e-6}
# Steps in widths of a mode: the sum over a normal density at this distance is good to 1e-8.
RESOLVED = 1.0
# Refinements without gain after which what remains is noise of the density itself: PyMC takes the distance of two
# inputs as x² + y² − 2xy, which for a short length scale is off by more than one.
STALLED = 3
SINH = Stretch(0.2, right=(0.4, 0.5), left=(0.4, 0.5))


def _coarse(f: Evaluator, frame: Frame, land: Landscape, cut: float, step: float, reach: float) -> Lattice:
    k = len(frame.order)
    lattice = Lattice(_in_frame(f, frame), np.full(k, step), np.full(k, 0.2), reach)
    lattice.fill(_seeds(lattice, frame, land), cut)
    return lattice


def _bulk(f: Evaluator, land: Landscape, cut: float) -> tuple[np.ndarray, np.ndarray]:
    """Centre and covariance of the bulk, from coarse lattices; of the highest mode where there are several."""
    k = land.modes.shape[1]
    centre, covariance = land.modes[0], land.covariance
    if len(land.modes) > 1:
        return centre, covariance
    for _ in range(5):
        frame = Frame.build(centre, covariance, tuple(range(k)), (SINH,) * k)
        lattice = _coarse(f, frame, land, 10.0, COARSE[k], 120.0)
        if lattice.escaped:
            raise NotIntegrable(SLOW)
        t = lattice.positions(lattice.nodes)
        x, log_f = frame.forward(t), lattice.values - frame.log_jacobian(t)
        # By the height of f itself: a heavy tail has no covariance worth the name.
        weights = np.where(log_f > np.nanmax(log_f) - 3 - k, lattice.weights(), 0.0)
        weights = weights / weights.sum()
        centre = weights @ x
        moment = (weights[:, None] * (x - centre)).T @ (x - centre)
        before, covariance = covariance, moment + 0.02 * covariance
        change = np.linalg.eigvals(np.linalg.solve(before, covariance)).real
        if change.max() < 2.5 and change.min() > 0.4:
            break
    return centre, covariance


def _choose_frame(
    f: Evaluator,
    centre: np.ndarray,
    covariance: np.ndarray,
    order: tuple[int, ...],
    land: Landscape,
    cut: float,
    tolerance: float,
) -> tuple[Frame, np.ndarray]:
    """The frame that promises the fewest nodes (stretched only, or bent as well), and steps for it."""
    k = len(order)
    if len(land.modes) > 1:
        return Frame.build(centre, covariance, order, (Stretch(1.0),) * k), np.full(k, 0.7)
    frame = Frame.build(centre, covariance, order, (SINH,) * k)
    lattice = _coarse(f, frame, land, cut, COARSE[k], 120.0)
    if lattice.escaped:
        raise NotIntegrable(SLOW)
    found: list[tuple[float, np.ndarray, Frame]] = []
    straight = _fit_frame(frame, lattice, cut, bent=False)
    if k == 1:
        return straight, np.full(1, 0.7)
    found.append((*_promise(_coarse(f, straight, land, cut, COARSE[k], REACH), tolerance), straight))
    for _ in range(3 if k == 2 else 2):
        frame = _fit_frame(frame, lattice, cut, bent=True)
        lattice = _coarse(f, frame, land, cut, COARSE[k], 2 * REACH)
        if lattice.escaped:
            break
        found.append((*_promise(lattice, tolerance), frame))
        if found[-1][0] > 0.7 * found[-2][0]:
            break
    _, step, frame = min(found, key=lambda candidate: candidate[0])
    return frame, step


def _promise(lattice: Lattice, tolerance: float) -> tuple[float, np.ndarray]:
    """About how many nodes and which steps the tolerance will take, if the aliases fall as exponentials do."""
    if lattice.escaped:
        return np.inf, np.full(lattice.k, 0.7)
    by_axis = np.clip(lattice.aliasing()[1], 1e-12, 0.5)
    step = lattice.step * (np.log(by_axis) / np.log(tolerance / 8)) ** 0.52
    return float(len(lattice.nodes) * np.prod(lattice.step / step)), step


def _in_frame(f: Evaluator, frame: Frame) -> Function:
    return lambda t: f(frame.forward(t)) + frame.log_jacobian(t)


def _seeds(lattice: Lattice, frame: Frame, land: Landscape) -> np.ndarray:
    nearest = lattice.nearest(frame.backward(land.modes))
    around = np.stack(np.meshgrid(*[[-1, 0, 1]] * nearest.shape[1]), -1).reshape(-1, nearest.shape[1])
    return (nearest[:, None] + around).reshape(-1, nearest.shape[1])


def _fit_stretch(z: np.ndarray, drop: np.ndarray, weights: np.ndarray, cut: float) -> Stretch:
    """Stretch an axis by how far the density reaches on either side, 2 nats and ``cut`` nats below its maximum."""
    near, far = np.empty(2), np.empty(2)
    for side, sign in enumerate((-1, 1)):
        rank = np.argsort(sign * z)
        # Least drop at this distance or farther: rises outward.
        envelope = np.minimum.accumulate(drop[rank][::-1])[::-1]
        level, first = np.unique(envelope, return_index=True)
        outermost = np.append(first[1:], len(rank)) - 1
        near[side], far[side] = np.interp(np.sqrt([2.0, cut]), np.sqrt(level), sign * z[rank][outermost])
        # Corners of a coarse lattice fall short of the true reach; the second moment of f^0.3 does not.
        here = sign * z > 0
        if np.any(here):
            moment = 2 * np.sqrt(0.3 * np.average(z[here] ** 2, weights=weights[here] + 1e-300))
            near[side] = np.clip(moment, near[side], 2 * near[side] + 0.5)
    return fit_stretch(np.maximum(near, 0.2), np.maximum(far, 0.8), float(np.sqrt(2 * cut)))


def _fit_frame(frame: Frame, lattice: Lattice, cut: float, bent: bool) -> Frame:
    """A better frame from the values on a coarse lattice.

    Location and log scale of each axis are regressed on the earlier ones, from the conditional moments along the lines
    of the lattice; of f^0.3, so that the tails count too.
    """
    t = lattice.positions(lattice.nodes)
    with np.errstate(invalid="ignore"):
        log_f = lattice.values - frame.log_jacobian(t)
        tempered = lattice.values - 0.7 * log_f
        weights = np.where(np.isfinite(log_f), np.exp(tempered - np.nanmax(tempered[np.isfinite(log_f)])), 0.0)
    keep = (weights > 0) & lattice.active(cut + 6)
    t, nodes, log_f, weights = t[keep], lattice.nodes[keep], log_f[keep], weights[keep]
    drop = log_f.max() - log_f
    z = frame.whiten(frame.forward(t))
    stretches, bends, s, t_new = [], [], np.empty_like(z), np.empty_like(z)
    for i in range(z.shape[1]):
        bend = None
        s[:, i] = z[:, i]
        if bent and i:
            bend = _fit_bend(nodes[:, :i], t_new[:, :i], s[:, :i], z[:, i], weights)
            location, log_scale = bend(t_new[:, :i], s[:, :i])
            s[:, i] = (z[:, i] - location) / np.exp(log_scale)
        stretches.append(_fit_stretch(s[:, i], drop, weights, cut))
        bends.append(bend)
        t_new[:, i] = stretches[-1].backward(s[:, i])
    return Frame(frame.centre, frame.factor, frame.order, tuple(stretches), tuple(bends))


def _fit_bend(nodes: np.ndarray, t: np.ndarray, s: np.ndarray, z: np.ndarray, weights: np.ndarray) -> Bend:
    _, first, line = np.unique(nodes, axis=0, return_index=True, return_inverse=True)
    mass = np.bincount(line, weights)
    mean = np.bincount(line, weights * z) / mass
    variance = np.bincount(line, weights * (z - mean[line]) ** 2) / mass
    location, log_scale = Bend.columns(t[first], s[first])
    # A line with a single node says nothing about the scale.
    known = variance > 1e-6 * np.average(variance, weights=mass)
    spread = np.log(np.maximum(variance, 1e-300)) / 2
    centre = float(np.average(spread[known], weights=mass[known]))
    root = np.sqrt(mass / mass.max())
    ratio = np.exp(np.clip(spread - centre, -3, 3))
    location_fit = _ridge(location, mean, root / np.where(known, ratio, 1.0))
    scale_fit = _ridge(log_scale, np.clip(spread - centre, -4, 4), np.where(known, root, 0.0))
    return Bend(location_fit, scale_fit)


def _ridge(columns: np.ndarray, target: np.ndarray, weights: np.ndarray) -> np.ndarray:
    size = np.sqrt(((weights[:, None] * columns) ** 2).sum(0)) + 1e-300
    a = weights[:, None] * columns / size
    return np.linalg.solve(a.T @ a + 1e-3 * np.eye(len(size)), a.T @ (weights * target)) / size


def _follow_rays(f: Evaluator, mode: np.ndarray, covariance: np.ndarray, rng: np.random.Generator) -> None:
    """Follow the density along rays from the mode to 10⁵ widths.

    Raises
    ------
    NotIntegrable
        If r f(r) does not decrease at the far end of a ray: a floor far below the mode has an infinite integral too.
    """
    k = len(mode)
    directions = np.concatenate([np.eye(k), -np.eye(k), rng.standard_normal((4 * (k > 1) * k, k))])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    radii = np.geomspace(50.0, 1e5, 6)
    steps = radii[:, None, None] * (directions @ np.linalg.cholesky(covariance).T)
    values = f((mode + steps).reshape(-1, k)).reshape(len(radii), -1)
    values = np.where(np.isnan(values), -np.inf, values) - f(mode[None]) + np.log(radii)[:, None]
    last, before = values[-1], values[-3]
    if np.any((last > -700) & (last > before - 0.05)):
        raise NotIntegrable("the density does not fall off far out, so that its integral does not exist")


def _sum(
    f: Evaluator,
    frame: Frame,
    step: np.ndarray,
    land: Landscape,
    cut: float,
    tolerance: float,
    acceptable: float,
    rng: np.random.Generator,
) -> _Run:
    """Refine one lattice until its own error estimate is a quarter of the tolerance."""
    k = len(frame.order)
    goal = tolerance / 4
    # A standard normal is just resolved at 0.7; layers are closer than that, for the spline through them.
    step = np.clip(step, 0.3, 1.0)
    step[0] = min(step[0], 0.45)
    modes = frame.backward(land.modes)
    # Without stretches, as where there are several modes, tails reach farther.
    reach = REACH + 1.2 * float(np.abs(modes).max()) + (150.0 if len(modes) > 1 else 0.0)
    lattice = Lattice(_in_frame(f, frame), step, rng.uniform(size=k), reach)
    heights = land.heights + frame.log_jacobian(modes)
    error, spline = np.inf, np.inf
    best: tuple[float, _Run] | None = None
    stalled = 0
    try:
        while stalled < STALLED:
            lattice.fill(_seeds(lattice, frame, land), cut)
            if lattice.escaped:
                raise NotIntegrable(SLOW)
            tail = lattice.truncation(cut)
            if tail > 1e-3 and np.isnan(lattice.values).any():
                raise NotIntegrable(UNDEFINED)
            alias, by_axis = lattice.aliasing()
            missed = _missed(lattice, modes, heights) + _unresolved(lattice, frame, land, heights)
            spline = _spline_error(lattice, cut) if missed == 0 else np.inf
            error = 2 * (tail + alias + missed)
            run = _Run(frame, lattice.copy(), cut, lattice.log_sum(), float(error))
            if error <= goal and spline <= SMOOTH[k]:
                return run
            stalled = stalled + 1 if best is not None and spline > best[0] / 2 and error <= acceptable / 4 else 0
            if best is None or best[1].error > acceptable / 4 or spline < best[0]:
                best = spline, run
            if alias + missed > goal / 4:
                lattice.halve(int(np.argmax(by_axis if missed == 0 else lattice.step)))
            elif tail <= goal / 4:
                lattice.halve(0)
            elif cut > 60 or np.isnan(lattice.values).any():
                break
            else:
                cut += 4 + max(0.0, np.log(tail / goal) / 2)
    except NotIntegrable:
        # Out of budget: what there is must do, or nothing.
        if best is None or not _will_do(*best, acceptable, k):
            raise
        return best[1]
    if best is not None and _will_do(*best, acceptable, k):
        return best[1]
    if stalled:
        raise NotIntegrable("the density is not smooth: refinement gains nothing")
    if np.isnan(lattice.values).any():
        raise NotIntegrable(UNDEFINED)
    raise NotIntegrable("the density falls off too slowly for the error bound to be met")


def _will_do(spline: float, run: _Run, acceptable: float, k: int) -> bool:
    return run.error <= acceptable / 4 and spline <= 10 * SMOOTH[k]


def _missed(lattice: Lattice, modes: np.ndarray, heights: np.ndarray) -> float:
    """Share of the mass at modes so narrow that no node near them is within 8 nats of their height."""
    nearest = lattice.nearest(modes)
    missed = 0.0
    for node, height in zip(nearest, heights, strict=True):
        near = np.all(np.abs(lattice.nodes - node) <= 2, axis=1)
        if np.nanmax(lattice.values[near], initial=-np.inf) < height - 8:
            missed += float(np.exp(min(height - lattice.top, 100.0)) / lattice.weights().sum())
    return missed


def _unresolved(lattice: Lattice, frame: Frame, land: Landscape, heights: np.ndarray) -> float:
    """Share of the mass at modes narrower than the lattice, by their curvature.

    A spike upon a slab may be less than 8 nats above it, and the nodes at its foot say nothing about it. One mode alone
    is left to the spectrum: the lattice was made for it.
    """
    if len(land.modes) < 2:
        return 0.0
    k, share = lattice.k, 0.0
    nearest = lattice.nearest(frame.backward(land.modes))
    for node, height, hessian in zip(nearest, heights, land.hessians, strict=True):
        values, vectors = np.linalg.eigh(-(hessian + hessian.T) / 2)
        root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        corners = frame.forward(lattice.positions(np.concatenate([node[None], node + np.eye(k, dtype=np.int64)])))
        steps = np.linalg.norm((corners[1:] - corners[0]) @ root.T, axis=1)
        if steps.max(initial=0.0) > RESOLVED:
            # As large as if it filled a cell of the lattice: it is there to be refined, not to be added.
            share += float(np.exp(min(height - lattice.top, 100.0)) / lattice.weights().sum())
    return share


def _trimmed(lattice: Lattice, cut: float) -> tuple[np.ndarray, np.ndarray]:
    """The layers whose sums are not spoilt by the cut; without gaps."""
    t, log_sum = lattice.layers()
    keep = np.flatnonzero(log_sum > log_sum.max() - (cut if lattice.k == 1 else depth(cut) - 1))
    window = slice(keep[0], keep[-1] + 1)
    return t[window], np.maximum(log_sum[window], log_sum.max() - 45)


def _spline_error(lattice: Lattice, cut: float) -> float:
    """How far the spline through every second layer misses the others, over what one halving gains."""
    t, log_sum = _trimmed(lattice, cut)
    if len(t) < 17:
        return np.inf
    share = np.exp(log_sum - log_sum.max())
    coarse = AxisDensity(t[::2], log_sum[::2])._spline
    inner = (t > t[4]) & (t < t[-5])
    return float(np.max(np.where(inner, np.abs(np.expm1(np.clip(coarse(t) - log_sum, -9, 9))) * share, 0))) / 64


def _marginal(run: _Run) -> AxisDensity:
    t, log_sum = _trimmed(run.lattice, run.cut)
    frame = run.frame
    return AxisDensity(
        t, log_sum - log_sum.max(), frame.stretches[0], float(frame.centre[0]), float(frame.factor[0, 0])
    )
