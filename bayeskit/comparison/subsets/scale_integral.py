r"""The scales of a linear model integrated out of all submodels at once: one in closed form, one by quadrature.

The remaining scale t (the g of a g prior, say) is integrated by the trapezoidal rule after t = t(u), with u₀ and s the
mode and spread of u in the full model, and

.. math:: u = u_0 + s \left( x + \tfrac{1}{4} (e^x - 1) \right)

where the right tail is a long one, alike to the left: heavy tails take a few nodes, and as the densities are analytic,
halving the step squares the error. Every node serves all submodels. Where Λ, η and P at all nodes are multiples of one
(Zellner's prior of centred predictors: all depends on R² and size), one sweep does, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bayeskit.comparison.subsets.common_scale import CommonScale, GivenScale, given_scale
from bayeskit.comparison.subsets.linear_model import LinearModel, Quadratic
from bayeskit.comparison.subsets.populations import AllSubsets, ListedSubsets, Population
from bayeskit.comparison.subsets.sweep import NotDefinite
from bayeskit.comparison.subsets.unbounded import Line
from bayeskit.errors import ModelError
from bayeskit.types import Point

__all__ = ["Evidences", "Node", "ScaleIntegral", "no_grid", "scale_grid"]

NEGLIGIBLE, NEARLY = 32.0, 26.0  # nats below its highest where a density is cut off, and may be where numbers end
FINEST, AGREED = 9, 1e-6  # halvings of the step at most, and change of log p(y | S) at which they end
FARTHEST, MANY = 60, 1000  # of x
LONG, STRETCH = 12.0, 0.25  # spreads from the mode beyond which a normal density has no mass, and the share of eˣ
CLOSE, ROUNDING = 1e-9, 1e-12  # the change at which they end where the density is not smooth, and rounding
SAME = 1e-11
MOST_LOST = 700.0  # nats that rounding may take and still be a number's logarithm
KNOWN = 0.03  # share of log p(y | S), or nats, that rounding may take of it at a node
WHOLE = 10  # coefficients up to which all submodels decide where the nodes lie


@dataclass(frozen=True, eq=False)
class Node:
    """One value of t: the log of its weight, the model there, and whether it is one of every second nodes."""

    log_weight: float
    given: GivenScale
    point: Point
    coarse: bool = True


@dataclass(frozen=True, eq=False)
class Evidences:
    """log p(y | S) of each submodel, and a bound of its error."""

    value: np.ndarray
    error: np.ndarray
    label: str


@dataclass(frozen=True, eq=False)
class ScaleIntegral:
    """Submodels of a linear model, with nothing left but which they are."""

    nodes: tuple[Node, ...]
    ends: tuple[int, ...] = ()  # the outermost nodes
    step: float = 1.0  # of x
    smooth: bool = False  # whether halving the step has squared the change, as it does of an analytic density

    @property
    def ratios(self) -> list[tuple[float, float, float]] | None:
        """Of Λ, η and P at each node to those at the first; None where they are no multiples."""
        first = self.nodes[0].given.quadratic
        found = [_multiples(first, n.given.quadratic) for n in self.nodes]
        return None if None in found else [f for f in found if f is not None]

    def each(self, population: Population) -> Callable[[int], tuple[np.ndarray, np.ndarray, float]]:
        """At a node, by its number: ½ log |P_SS| − ½ log |Λ_SS|, G_S and the least pivot."""
        ratios = self.ratios
        if ratios is None:
            return lambda k: population.parts(self.nodes[k].given.quadratic)
        logs, gain, pivot = population.parts(self.nodes[0].given.quadratic)
        sizes = population.sizes

        def at(k: int) -> tuple[np.ndarray, np.ndarray, float]:
            precision, linear, prior = ratios[k]
            return logs + sizes * (0.5 * math.log(prior / precision)), gain * (linear**2 / precision), pivot

        return at

    def log_evidence(self, population: Population) -> Evidences:
        """Of each submodel; a NotDefinite or ModelError where there is none."""
        at, coarse, fine, ends, noise = self.each(population), None, None, None, None
        for k, node in enumerate(self.nodes):
            logs, gain, pivot = at(k)
            value = node.given.log_evidence(logs, gain) + node.log_weight
            if np.any(np.isnan(value)):
                raise NotDefinite(population.size)
            share = _rounding(node.given, gain, pivot, population.size)
            if len(self.nodes) == 1:
                return Evidences(value, share, "exact")
            if k in self.ends:
                ends = _added(ends, value)
            if node.coarse:
                coarse = _added(coarse, value)
            else:
                fine = _added(fine, value)
            noise = _added(noise, value + _log_change(share))  # what is off counts by its part of the integral
        assert coarse is not None and fine is not None and ends is not None and noise is not None
        total = np.logaddexp(coarse, fine)
        change = np.abs(coarse + math.log(2) - total)
        error = (
            (np.minimum(change, 100 * change**2) if self.smooth else change)
            + 4 / self.step * np.exp(ends - total)
            + np.exp(noise - total)
        )
        return Evidences(total, error, "quadrature")


def _rounding(given: GivenScale, gain: np.ndarray, pivot: float, size: int) -> np.ndarray:
    """How far rounding may put each log p(y | S) off."""
    relative = np.finfo(float).eps * size
    return relative / max(pivot, relative) * given.rounding(gain)


def _log_change(share: np.ndarray) -> np.ndarray:
    """The logarithm of e^share − 1, within the range of floating point."""
    return np.log(np.expm1(np.clip(share, np.finfo(float).tiny, MOST_LOST)))


def _added(total: np.ndarray | None, value: np.ndarray) -> np.ndarray:
    return value if total is None else np.logaddexp(total, value)


def _multiples(one: Quadratic, other: Quadratic) -> tuple[float, float, float] | None:
    """Of Λ, η and P; None where they are no multiples, or ν given w is another."""
    if one is other:
        return (1.0, 1.0, 1.0)
    pairs = [(one.precision, other.precision), (one.prior, other.prior)]
    if one.nuisance.at.size:
        pairs.append((one.nuisance.covariance, other.nuisance.covariance))
    ratios = [float(np.trace(b) / np.trace(a)) for a, b in pairs]
    for (a, b), ratio in zip(pairs, ratios, strict=True):
        root = np.sqrt(np.diag(a))
        if not np.all(np.abs(b - ratio * a) <= SAME * ratio * np.outer(root, root)):
            return None
    unit = np.sqrt(np.diag(one.precision))
    longest = float(one.linear @ one.linear)
    linear = float(one.linear @ other.linear) / longest if longest else ratios[0]
    size = np.abs(linear) * (np.abs(one.linear) + unit * math.sqrt(len(unit)) * np.max(np.abs(one.linear / unit)))
    spread = np.sqrt(np.diag(one.nuisance.covariance))
    same = np.all(np.abs(other.linear - linear * one.linear) <= SAME * size)
    same &= np.all(np.abs(other.nuisance.at - one.nuisance.at) <= SAME * (np.abs(one.nuisance.at) + spread))
    same &= np.all(np.abs(other.nuisance.slope - one.nuisance.slope) <= SAME * np.outer(spread, unit))
    return (ratios[0], linear, ratios[1]) if same else None


def no_grid(linear: LinearModel, point: Point, scale: CommonScale | None) -> ScaleIntegral:
    """Nothing is left to integrate over."""
    return ScaleIntegral((Node(0.0, given_scale(linear, point, scale), point),))


@dataclass(frozen=True)
class _Stretched:
    """u(x), and the density of the probes there."""

    density: Callable[[float], tuple[Node, np.ndarray] | None]  # at u
    centre: float
    spread: float
    left: float = 0.0  # the share of the exponential
    right: float = 0.0
    known: dict[float, tuple[Node, np.ndarray] | None] = field(default_factory=dict)

    def __call__(self, x: float) -> tuple[Node, np.ndarray] | None:
        if x not in self.known:
            up, down = self.right * math.exp(x), self.left * math.exp(-x)
            found = self.density(self.centre + self.spread * (x + up - self.right - down + self.left))
            log_slope = math.log(self.spread * (1 + up + down))
            if found is not None:
                found = replace(found[0], log_weight=found[0].log_weight + log_slope), found[1] + log_slope
            self.known[x] = found
        return self.known[x]


def scale_grid(
    linear: LinearModel, point: Point, scale: CommonScale | None, line: Line, centre: float, spread: float
) -> ScaleIntegral:
    """The nodes of t; a ModelError where the integral diverges, or is not to be had by so many."""
    size = linear.size
    marks = np.concatenate([np.zeros((1, size)), np.ones((1, size)), np.eye(size), 1 - np.eye(size)]).astype(bool)
    probes: Population = AllSubsets(size) if size <= WHOLE else ListedSubsets(marks)

    def density(u: float) -> tuple[Node, np.ndarray] | None:
        return _node(linear, point, scale, line, u, probes)

    tails = [_is_long(density, centre, sign * spread) for sign in (-1, 1)]
    at = _Stretched(density, centre, spread, STRETCH * tails[0], STRETCH * tails[1])
    found = _settled(at, line, FARTHEST, FINEST - 4 * any(tails))
    if found is None and any(tails):  # what is far off is no tail, but narrow peaks of other submodels
        found = _settled(_Stretched(density, centre, spread), line, MANY, FINEST - 4)
    if found is None:
        raise ModelError(
            f"the integral over {line.name!r} does not settle; write the prior of {linear.name!r} in units of the sd "
            "of the noise, pm.Normal(0, tau * sigma), with an InverseGamma prior of sigma**2, and priors without kinks"
        )
    return found


def _settled(at: _Stretched, line: Line, farthest: int, finest: int) -> ScaleIntegral | None:
    """The nodes at which halving the step no longer changes an evidence; None where that takes too many."""
    left, right = (_end(at, sign, line, farthest) for sign in (-1, 1))
    change = math.inf
    for halvings in range(finest):
        step, before = 0.5**halvings, change
        nodes = _nodes(at, left, right, halvings, line.name)
        change = _change(nodes)
        smooth = change <= ROUNDING or (before < 0.1 and change <= before**1.5)
        if change <= (AGREED if smooth else CLOSE):
            chosen = tuple(replace(n, log_weight=n.log_weight + math.log(step)) for n, _ in nodes)
            return ScaleIntegral(chosen, (0, len(chosen) - 1), step, smooth)
    return None


def _is_long(density: Callable[[float], tuple[Node, np.ndarray] | None], centre: float, step: float) -> bool:
    """Whether a probe has mass on a side farther off than a normal density would."""
    first, far = density(centre), density(centre + LONG * step)
    return first is not None and far is not None and bool(np.any(far[1] > first[1] - NEGLIGIBLE))


def _change(nodes: Sequence[tuple[Node, np.ndarray]]) -> float:
    """The largest change of log p(y | S) of a probe by taking every second node only."""
    values = np.stack([value for _, value in nodes])
    coarse = np.array([n.coarse for n, _ in nodes])
    total = np.logaddexp.reduce(values, axis=0)
    return float(np.max(np.abs(np.logaddexp.reduce(values[coarse], axis=0) + math.log(2) - total)))


def _node(
    linear: LinearModel, point: Point, scale: CommonScale | None, line: Line, u: float, probes: Population
) -> tuple[Node, np.ndarray] | None:
    """The node at one u, its weight dt/du, and the log densities of the probes there; None where there are none.

    There are none either where they are rounding: with as many predictors as observations, sums of squares that grow
    as 1/σ² cancel in a density that does not vanish as σ does.
    """
    try:
        here = point | {line.name: line.value(u)}
        given = given_scale(linear, here, scale)
        logs, gain, pivot = probes.parts(given.quadratic)
        values = given.log_evidence(logs, gain) + line.log_slope(u)
        off = _rounding(given, gain, pivot, probes.size)
    except (NotDefinite, OverflowError, ValueError):
        return None
    if np.any(np.isnan(values)) or not math.isfinite(given.constant) or np.any(off > KNOWN * (1 + np.abs(values))):
        return None
    return Node(line.log_slope(u), given, here), values


def _end(at: _Stretched, sign: int, line: Line, farthest: int) -> float:
    """The x, a multiple of 1/8, from which on no probe has mass any more."""
    first = at(0.0)
    best = -math.inf if first is None else first[1]
    for k in range(1, farthest):
        found = at(float(sign * k))
        if found is None:  # there numbers end; a little less is negligible where it stands in the error
            for eighths in range(1, 8):
                x = sign * (k - eighths / 8)
                if (nearer := at(x)) is not None and np.all(nearer[1] < best - NEARLY):
                    return x
            raise _numbers_end(line, sign)
        best = np.maximum(best, found[1])
        if np.all(found[1] < best - NEGLIGIBLE):
            return float(sign * k)
    raise ModelError(
        f"the integral over {line.name!r} has no end: its posterior is improper in some submodel; give it a proper "
        "prior"
    )


def _numbers_end(line: Line, sign: int) -> ModelError:
    """Where a submodel has mass still, and its density is lost in rounding."""
    advice = "with as many predictors as observations, a prior without mass near zero, as InverseGamma of a variance"
    if sign > 0 and math.isfinite(line.high):
        advice += f"; or numbers so close to {line.high:g} are not told apart: let g be the variable, not g / (1 + g)"
    return ModelError(
        f"the integral over {line.name!r} does not end before its matrices are singular to rounding, or its posterior "
        f"is improper in some submodel; give it a proper prior, and {advice}"
    )


def _nodes(at: _Stretched, left: float, right: float, halvings: int, name: str) -> list[tuple[Node, np.ndarray]]:
    """All nodes between both ends."""
    result = []
    times = 1 << halvings
    for k in range(math.ceil(left * times), math.floor(right * times) + 1):
        found = at(k / times)
        if found is None:
            raise ModelError(f"the integral over {name!r} meets matrices that are not positive definite")
        result.append((replace(found[0], coarse=k % 2 == 0), found[1]))
    return result
