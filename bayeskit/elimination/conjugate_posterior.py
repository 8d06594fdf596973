"""Numbers for a plan that leaves nothing over: posterior parameters, log evidence, draws, and the certificate.

The evidence is the candidate's formula log p(y) = log p(y, θ*) − log p(θ* | y) at the posterior mean θ*, where rounding
does least; the certificate is the spread of the same expression over other points (Besag 1989; Chib 1995).

Finite variables without structure are a table of hypotheses, each with a posterior of its own. Mixtures and chains,
whose tables grow as K^N, are summed out by :mod:`bayeskit.finite.sum_out`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bayeskit.elimination.analysis import Analysis, Scale
from bayeskit.elimination.impossible_data import entry_at_fault
from bayeskit.elimination.log_joint_evaluator import Evaluator, Point
from bayeskit.errors import InferenceError
from bayeskit.families.base import Parameters
from bayeskit.gaussian.block import Gaussian, GaussianBlock
from bayeskit.gaussian.factorisation import NotPositiveDefinite
from bayeskit.gaussian.propriety import proper_at

__all__ = ["Component", "Evaluator", "Part", "hypotheses", "solve_posterior"]

SETTLED = 32  # units in the last place
AT_ONCE = 20_000_000  # numbers in the draws of a block above which they are made when they are read


@dataclass(frozen=True, eq=False)
class Part:
    """One scale (or none) with the Gaussian block that it governs (or none), solved."""

    scale: Scale | None = None
    parameters: Parameters = field(default_factory=dict)  # of the scale's posterior
    gaussian: Gaussian | None = None  # θ | y, φ at φ = ``reference``
    reference: np.ndarray = field(default_factory=lambda: np.ones(()))

    @property
    def group(self) -> np.ndarray | None:
        """For each stacked θ, which flat entry of φ governs it."""
        return None if self.scale is None else self.scale.group

    @property
    def multiple(self) -> np.ndarray | None:
        """K of Λ(W) = K ⊗ W."""
        return None if self.scale is None else self.scale.multiple

    @cached_property
    def student(self) -> tuple[np.ndarray, np.ndarray]:
        """Degrees of freedom and squared scale of the Student-t that the block becomes without its scale."""
        assert self.scale is not None and self.scale.family.gaussian is not None
        return self.scale.family.gaussian.student(self.parameters)

    def centre(self) -> Point:
        """A typical point of the posterior: the mean of the block, the family's own centre of the scale."""
        point: Point = {}
        if self.scale is not None:
            point[self.scale.name] = self.scale.family.centre(self.parameters)
        if self.gaussian is not None:
            point |= self.gaussian.split(self.gaussian.mean)
        return point

    def stretch(self, phi: np.ndarray) -> np.ndarray:
        """√(Λ(φ)/Λ(reference)), entry by entry of the stacked θ, for φ of shape (…,) + shape."""
        assert self.scale is not None and self.group is not None
        ratio = np.asarray(phi) / self.reference
        lead = ratio.shape[: ratio.ndim - np.ndim(self.reference)]
        return (ratio.reshape(*lead, -1) ** (self.scale.kappa / 2))[..., self.group]

    def log_density(self, point: Mapping[str, np.ndarray]) -> Any:
        """log p(θ, φ | y) of this part, in extended precision."""
        total: Any = np.longdouble(0)
        if self.scale is not None:
            value = np.asarray(point[self.scale.name])
            total += np.sum(self.scale.family.log_density(self.parameters, value))
        return total if self.gaussian is None else total + self._log_gaussian(self.gaussian, point)

    def _log_gaussian(self, gaussian: Gaussian, point: Mapping[str, np.ndarray]) -> float:
        deviation = gaussian.ravel(point) - gaussian.mean
        if self.scale is None:
            return gaussian.precision.log_density(deviation)
        phi = np.asarray(point[self.scale.name])
        if self.multiple is None:
            stretch = self.stretch(phi)
            return gaussian.precision.log_density(deviation * stretch) + float(np.sum(np.log(stretch)))
        rows = deviation.reshape(-1, len(phi))
        log_det = len(phi) * np.linalg.slogdet(self.multiple)[1] + len(rows) * np.linalg.slogdet(phi)[1]
        quadratic = np.einsum("ai,ij,bj,ab->", rows, phi, rows, self.multiple)
        return float(0.5 * (log_det - quadratic - gaussian.size * np.log(2 * np.pi)))

    def draw(self, rng: np.random.Generator, number: int) -> Point:
        """Independent draws, scale first; those of very many variables are made when they are read."""
        gaussian = self.gaussian
        if self.scale is None:
            assert gaussian is not None
            if number * gaussian.size > AT_ONCE:
                return gaussian.draws_later(rng, number)
            return gaussian.split(gaussian.draw(rng, number))
        phi = self.scale.family.draw(self.parameters, rng, number)
        if gaussian is None:
            return {self.scale.name: phi}
        if self.multiple is None:
            deviation = gaussian.precision.draw(rng, number)
            deviation /= self.stretch(phi)
        else:
            rows = rng.standard_normal((number, gaussian.size)).reshape(number, len(self.multiple), -1)
            outer = np.linalg.inv(np.linalg.cholesky(self.multiple))
            inner = np.linalg.inv(np.linalg.cholesky(phi))
            deviation = np.einsum("ab,nai,nij->nbj", outer, rows, inner).reshape(number, -1)
        return {self.scale.name: phi} | gaussian.split(gaussian.mean + deviation)


@dataclass(frozen=True, eq=False)
class Component:
    """The exact posterior given one value of the finite variables (or none): its parts and its log evidence."""

    fixed: Point
    parts: tuple[Part, ...]
    log_evidence: Any  # a longdouble: the certificate subtracts numbers of its size
    centre: Point

    def log_density(self, point: Mapping[str, np.ndarray]) -> Any:
        """log p(θ | y, finite variables), in extended precision."""
        return sum((p.log_density(point) for p in self.parts), np.longdouble(0))

    def draw(self, rng: np.random.Generator, number: int) -> Point:
        draws: Point = {}
        for part in self.parts:
            draws |= part.draw(rng, number)
        for name, value in self.fixed.items():
            draws[name] = np.broadcast_to(value, (number, *np.shape(value)))
        return draws


def hypotheses(analysis: Analysis) -> Iterator[Point]:
    """Every joint value of the finite variables that are enumerated; one empty value where there are none."""
    shapes = {n: analysis.shapes[n] for n in analysis.finite}
    cells = [itertools.product(analysis.values[n], repeat=int(np.prod(s, dtype=int))) for n, s in shapes.items()]
    for row in itertools.product(*cells):
        yield {n: np.asarray(entries).reshape(s) for (n, s), entries in zip(shapes.items(), row, strict=True)}


def solve_posterior(analysis: Analysis, evaluator: Evaluator, fixed: Point | None = None) -> Component:
    """The exact posterior and log evidence, given the finite variables; an InferenceError if it is improper."""
    fixed = fixed or {}
    point: Point = fixed | {s.name: s.family.support.start(analysis.shapes[s.name]) for s in analysis.scales}
    gaussians: dict[GaussianBlock | None, Gaussian] = {}
    for block in analysis.blocks:
        gaussians[block] = _gaussian(block, point)
        point |= gaussians[block].split(gaussians[block].mean)
    parameters = _solve_scales(analysis, evaluator, point)
    parts = [Part(s, parameters[s.name], gaussians.pop(s.block, None), point[s.name]) for s in analysis.scales]
    parts += [Part(gaussian=gaussian) for gaussian in gaussians.values()]
    centre = dict(fixed)
    for part in parts:
        centre |= part.centre()
    log_joint = evaluator.log_joint(centre)
    if log_joint == -np.inf and fixed:
        # A value of the finite variables that is impossible, by a transition of probability zero, say.
        return Component(fixed, tuple(parts), np.longdouble(-np.inf), centre)
    if not np.isfinite(log_joint):
        why = entry_at_fault(analysis, centre)
        raise InferenceError(f"the log density is not finite at the posterior mean{why}; check the data and the model")
    evidence = log_joint - sum((p.log_density(centre) for p in parts), np.longdouble(0))
    return Component(fixed, tuple(parts), evidence, centre)


def _gaussian(block: GaussianBlock, point: Point) -> Gaussian:
    try:
        return proper_at(block, point)
    except NotPositiveDefinite as error:
        raise InferenceError(
            f"the posterior precision of {', '.join(block.names)} is not positive definite to working precision: "
            "a covariance in the model is singular, or scales differ by more than 1e15; rescale the data or the priors"
        ) from error


def _solve_scales(analysis: Analysis, evaluator: Evaluator, point: Point) -> dict[str, Parameters]:
    """Posterior parameters of every scale, from gradients at its family's anchors, taken anew near the posterior.

    The scales of an exact plan do not interact, so that one evaluation of the gradient serves all of them at once.
    """
    if not analysis.scales:
        return {}
    guess = {s.name: np.asarray(point[s.name], dtype=float) for s in analysis.scales}
    gradients = evaluator.gradients_at(point) if evaluator.differentiated else None
    with np.errstate(all="ignore"):
        for _ in range(12):
            parameters = _parameters(evaluator, gradients, point, guess)
            if _recentre(analysis.scales, parameters, guess) < 0.7:
                break
    for scale in analysis.scales:
        if not all(np.all(np.isfinite(v)) for v in parameters[scale.name].values()):
            raise InferenceError(
                f"the posterior of {scale.name!r} is beyond floating-point numbers: a sum over the data overflows, as "
                "the square of 1e200 does; rescale the data"
            )
        if not scale.family.proper(parameters[scale.name]):
            raise InferenceError(
                f"the posterior of {scale.name!r} is improper: its {scale.family.label} "
                f"parameters are { {k: v.tolist() for k, v in parameters[scale.name].items()} }; check its prior"
            )
    return parameters


def _parameters(evaluator: Evaluator, gradients: Any, point: Point, guess: Point) -> dict[str, Parameters]:
    anchors = {s.name: s.family.anchors(guess[s.name].shape, guess[s.name]) for s in evaluator.differentiated}
    rounds = range(max((len(a) for a in anchors.values()), default=0))
    slopes = gradients([{n: a[min(k, len(a) - 1)] for n, a in anchors.items()} for k in rounds]) if rounds else []
    parameters = {}
    for scale in evaluator.analysis.scales:
        if scale.family.from_values is not None:
            c = scale.family.from_values(_along(evaluator, point, scale.name), guess[scale.name])
        else:
            points = anchors[scale.name]
            c = scale.family.coefficients_at(points, [g[scale.name] for g in slopes[: len(points)]])
        if scale.block is not None and scale.family.gaussian is not None:
            # The block's −½ log|Λ(φ)| = −½ d κ log φ, or −½ d log|W|.
            k = scale.family.gaussian.coefficient
            c[k] = c[k] - 0.5 * scale.family.gaussian.power * scale.governed(guess[scale.name].shape)
        parameters[scale.name] = scale.family.parameters(c)
        if "shape" in parameters[scale.name]:
            parameters[scale.name]["shape"] = _settled(parameters[scale.name]["shape"])
    return parameters


def _settled(shape: np.ndarray) -> np.ndarray:
    """A shape without the rounding of its solution, where it is a multiple of a half but for that.

    An inverse gamma variable has a variance from a shape above 2 on: at 2.0000000000000004 one of 10⁸.
    """
    half = np.rint(2 * shape) / 2
    return np.where(np.abs(shape - half) <= SETTLED * np.spacing(np.maximum(np.abs(half), 1.0)), half, shape)


def _along(evaluator: Evaluator, point: Point, name: str) -> Callable[[np.ndarray], Any]:
    """log p(y, θ) as a function of one variable, all else held at a point."""
    return lambda value: evaluator.log_joint({**point, name: value})


def _recentre(scales: tuple[Scale, ...], parameters: dict[str, Parameters], guess: Point) -> float:
    """Put each guess at the posterior's centre; the largest relative move."""
    largest = 0.0
    for scale in scales:
        with np.errstate(all="ignore"):
            centre = np.asarray(scale.family.centre(parameters[scale.name]), dtype=float)
            guess[scale.name], move = scale.family.support.recentred(guess[scale.name], centre)
        largest = max(largest, move)
    return largest
