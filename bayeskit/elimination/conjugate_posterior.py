"""Numbers for a plan that leaves nothing over: posterior parameters, log evidence, draws, and the certificate.

The evidence is the candidate's formula log p(y) = log p(y, θ*) − log p(θ* | y) at the posterior mean θ*, where rounding
does least; the certificate is the spread of the same expression over other points (Besag 1989; Chib 1995).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bayeskit.elimination.analysis import Analysis, Scale
from bayeskit.elimination.log_joint_evaluator import Evaluator, Point
from bayeskit.errors import InferenceError
from bayeskit.families.base import Parameters
from bayeskit.gaussian.block import Gaussian, GaussianBlock
from bayeskit.gaussian.factorisation import NotPositiveDefinite

__all__ = ["Component", "Evaluator", "Part", "solve_posterior"]

AT_ONCE = 20_000_000  # numbers in the draws of a block above which they are made when they are read


@dataclass(frozen=True, eq=False)
class Part:
    """One scale (or none) with the Gaussian block that it governs (or none), solved.

    Attributes
    ----------
    scale : Scale or None
    parameters : dict of arrays
        Of the scale's posterior.
    gaussian : Gaussian or None
        θ | y, φ at φ = ``reference``.
    reference : numpy.ndarray
        φ at which ``gaussian`` was taken.
    """

    scale: Scale | None = None
    parameters: Parameters = field(default_factory=dict)
    gaussian: Gaussian | None = None
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
        if self.gaussian is not None:
            total += self._log_gaussian(point)
        return total

    def _log_gaussian(self, point: Mapping[str, np.ndarray]) -> float:
        gaussian = self.gaussian
        assert gaussian is not None
        stacked = np.concatenate([np.ravel(point[n]) for n in gaussian.names])
        deviation = stacked - gaussian.mean
        constant = -0.5 * gaussian.size * np.log(2 * np.pi)
        if self.multiple is not None:
            assert self.scale is not None
            matrix = np.asarray(point[self.scale.name])
            rows = deviation.reshape(-1, len(matrix))
            log_det = len(matrix) * np.linalg.slogdet(self.multiple)[1] + len(rows) * np.linalg.slogdet(matrix)[1]
            quadratic = np.einsum("ai,ij,bj,ab->", rows, matrix, rows, self.multiple)
            return float(constant + 0.5 * log_det - 0.5 * quadratic)
        log_det = gaussian.precision.log_determinant
        if self.scale is not None:
            stretch = self.stretch(point[self.scale.name])
            log_det += 2 * float(np.sum(np.log(stretch)))
            deviation = deviation * stretch
        return float(constant + 0.5 * log_det - 0.5 * np.sum(gaussian.precision.whiten(deviation) ** 2))

    def draw(self, rng: np.random.Generator, number: int) -> Point:
        """Independent draws, scale first; those of very many variables are made when they are read."""
        draws: Point = {}
        phi = None
        if self.scale is None and self.gaussian is not None and number * self.gaussian.size > AT_ONCE:
            return self.gaussian.draws_later(rng, number)
        if self.scale is not None:
            phi = self.scale.family.draw(self.parameters, rng, number)
            draws[self.scale.name] = phi
        if self.gaussian is not None:
            if self.multiple is not None and phi is not None:
                rows = rng.standard_normal((number, self.gaussian.size)).reshape(number, len(self.multiple), -1)
                outer = np.linalg.inv(np.linalg.cholesky(self.multiple))
                inner = np.linalg.inv(np.linalg.cholesky(phi))
                deviation = np.einsum("ab,nai,nij->nbj", outer, rows, inner).reshape(number, -1)
            else:
                deviation = self.gaussian.precision.draw(rng, number)
                if phi is not None:
                    deviation /= self.stretch(phi)
            draws |= self.gaussian.split(self.gaussian.mean + deviation)
        return draws


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


def solve_posterior(analysis: Analysis, evaluator: Evaluator, fixed: Point | None = None) -> Component:
    """The exact posterior and log evidence, given the finite variables.

    Raises
    ------
    InferenceError
        If the posterior is improper or its parameters cannot be computed.
    """
    fixed = fixed or {}
    point: Point = dict(fixed)
    gaussians: dict[int, Gaussian] = {}
    for scale in analysis.scales:
        shape = analysis.shapes[scale.name]
        point[scale.name] = scale.family.support.start(shape)
    governed = {id(s.block) for s in analysis.scales if s.block is not None}
    for block in analysis.blocks:
        gaussian = _gaussian(block, point)
        gaussians[id(block)] = gaussian
        point |= gaussian.split(gaussian.mean)
    references = {s.name: point[s.name] for s in analysis.scales}
    parameters = _solve_scales(analysis, evaluator, point)
    parts = [
        Part(s, parameters[s.name], None if s.block is None else gaussians[id(s.block)], references[s.name])
        for s in analysis.scales
    ]
    parts += [Part(gaussian=gaussians[id(b)]) for b in analysis.blocks if id(b) not in governed]
    centre = dict(fixed)
    for part in parts:
        centre |= part.centre()
    log_joint = evaluator.log_joint(centre)
    if log_joint == -np.inf and fixed:
        # A value of the finite variables that is impossible, by a transition of probability zero, say.
        return Component(fixed, tuple(parts), np.longdouble(-np.inf), centre)
    if not np.isfinite(log_joint):
        raise InferenceError("the log density is not finite at the posterior mean: check the data against the model")
    evidence = log_joint - sum((p.log_density(centre) for p in parts), np.longdouble(0))
    return Component(fixed, tuple(parts), evidence, centre)


def _gaussian(block: GaussianBlock, point: Point) -> Gaussian:
    try:
        return block.at(point)
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
    gradient = evaluator.gradient_at(point) if evaluator.differentiated else None
    for _ in range(12):
        parameters = _parameters(analysis, evaluator, gradient, point, guess)
        if _recentre(analysis.scales, parameters, guess) < 0.7:
            break
    for scale in analysis.scales:
        if not scale.family.proper(parameters[scale.name]):
            raise InferenceError(
                f"the posterior of {scale.name!r} is improper: its {scale.family.label} "
                f"parameters are { {k: v.tolist() for k, v in parameters[scale.name].items()} }; check its prior"
            )
    return parameters


def _parameters(
    analysis: Analysis, evaluator: Evaluator, gradient: Any, point: Point, guess: Point
) -> dict[str, Parameters]:
    anchors = {s.name: s.family.anchors(guess[s.name].shape, guess[s.name]) for s in evaluator.differentiated}
    rounds = range(max((len(a) for a in anchors.values()), default=0))
    gradients = [gradient({n: a[min(k, len(a) - 1)] for n, a in anchors.items()}) for k in rounds]
    parameters = {}
    for scale in analysis.scales:
        if scale.family.from_values is not None:
            c = scale.family.from_values(_along(evaluator, point, scale.name), guess[scale.name])
        else:
            points = anchors[scale.name]
            c = scale.family.coefficients_at(points, [g[scale.name] for g in gradients[: len(points)]])
        if scale.block is not None and scale.family.gaussian is not None:
            # The block's −½ log|Λ(φ)| = −½ d κ log φ, or −½ d log|W|.
            k = scale.family.gaussian.coefficient
            c[k] = c[k] - 0.5 * scale.family.gaussian.power * scale.governed(guess[scale.name].shape)
        parameters[scale.name] = scale.family.parameters(c)
    return parameters


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
