"""Numbers for a plan that leaves nothing over: posterior parameters, log evidence, draws, and the certificate.

The evidence is the candidate's formula log p(y) = log p(y, θ*) − log p(θ* | y) at the posterior mean θ*, where rounding
does least; the certificate is the spread of the same expression over other points (Besag 1989; Chib 1995).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.logprob.utils import ParameterValueError
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors, toposort
from pytensor.scalar.basic import Log
from pytensor.tensor.elemwise import Elemwise
from scipy import stats

from bayeskit.elimination.analysis import Analysis, Scale
from bayeskit.errors import InferenceError
from bayeskit.families import wishart
from bayeskit.families.base import Parameters, solve_coefficients
from bayeskit.gaussian.block import Gaussian, GaussianBlock
from bayeskit.gaussian.factorisation import NotPositiveDefinite
from bayeskit.graphs.compile import compile_small, vectorised
from bayeskit.graphs.extended_precision import compile_extended
from bayeskit.graphs.gradient import gradient as gradient_of
from bayeskit.graphs.product_cache import Function, Products
from bayeskit.graphs.rewriting import depends_on

__all__ = ["Component", "Evaluator", "Part", "solve"]

Point = dict[str, np.ndarray]
EXTENDED_LIMIT = 100_000  # numbers in the data up to which the log density is evaluated in extended precision


class Evaluator:
    """Compiled once a model: log p(y, θ) over the active factors, and its gradient in the scales."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        joint = analysis.joint
        self.inputs = list(joint.values.values())
        active = [f for f in joint.factors if f not in analysis.ancestral]
        self.products = Products()
        self.total = vectorised(pt.add(*[pt.sum(joint.factors[f]) for f in active], pt.constant(0.0)))

    def _arguments(self, point: Mapping[str, Any]) -> list[np.ndarray]:
        values = self.analysis.joint.values
        filler = self.analysis.shapes
        return [
            np.asarray(point[n] if n in point else np.zeros(filler[n]), dtype=v.type.dtype) for n, v in values.items()
        ]

    @cached_property
    def _log_joint(self) -> Any:
        small = self.analysis.joint.data_size <= EXTENDED_LIMIT
        return (compile_extended if small else self.products.compile)(self.inputs, self.total)

    def prepare(self, points: Iterable[Mapping[str, Any]]) -> None:
        """Make the products of a large design with all these points at once, before ``log_joint`` is asked for them."""
        if isinstance(self._log_joint, Function):
            self._log_joint.prepare([self._arguments(p) for p in points])

    def log_joint(self, point: Mapping[str, Any]) -> Any:
        """log p(y, θ) without the factors of variables that are drawn forward, in extended precision for small data.

        With many rows the log evidence is large itself, so that double precision is enough relative to it.
        """
        try:
            with np.errstate(all="ignore"):
                return self._log_joint(*self._arguments(point))
        except (ParameterValueError, np.linalg.LinAlgError):
            return -np.inf

    @property
    def _differentiated(self) -> list[Scale]:
        return [s for s in self.analysis.scales if s.family is not None]

    @cached_property
    def _gradient(self) -> tuple[Any, Any]:
        """Two functions: everything that does not depend on the scales, and from it and them the gradient."""
        scales = [self.analysis.joint.values[s.name] for s in self._differentiated]
        total = _without_log_of_zero(self.total, depends_on([self.total], self.inputs))
        gradient = gradient_of(total, scales)
        whole = self.products.compile(self.inputs, gradient)
        if isinstance(whole, Function) and whole.by_rows:
            # Residuals are computed again at every anchor, in the cache, rather than written to memory and held.
            return (lambda *arguments: []), whole
        # The residuals y − Xθ̂ need not be computed again at every anchor.
        cut = _frontier(gradient, depends_on(gradient, self.inputs), set(scales))
        return self.products.compile(self.inputs, cut), compile_small([*self.inputs, *cut], gradient)

    def gradient_at(self, point: Mapping[str, Any]) -> Callable[[Point], Point]:
        """∂/∂φ log p(y, θ) as a function of the scales φ of score families, all else held at ``point``."""
        fixed, function = self._gradient
        with np.errstate(all="ignore"):
            held = fixed(*self._arguments(point))

        def gradient(scales: Point) -> Point:
            with np.errstate(all="ignore"):
                values = function(*self._arguments({**point, **scales}), *held)
            return {s.name: np.asarray(v) for s, v in zip(self._differentiated, values, strict=True)}

        return gradient


def _frontier(graphs: list[Variable], dependence: Mapping[Variable, Any], moving: set[Variable]) -> list[Variable]:
    """The computed nodes that depend on latent variables but not on the moving ones, and feed a node that does."""
    found: dict[Variable, None] = {}
    for node in toposort(graphs):
        if any(dependence.get(i, frozenset()) & moving for i in node.inputs):
            found.update(
                (i, None) for i in node.inputs if (d := dependence.get(i)) and not d & moving and i.owner is not None
            )
    return list(found)


def _without_log_of_zero(graph: Variable, depends: Mapping[Variable, Any]) -> Variable:
    """The same density, with log 0 read as 0, for differentiation.

    A Poisson count of 0 with exposure 0 has the density 0·log(0·λ) = 0 by a ``switch``, but its gradient there is 0·∞.
    """
    logs = [
        v
        for v in ancestors([graph])
        if v.owner and isinstance(v.owner.op, Elemwise) and isinstance(v.owner.op.scalar_op, Log) and depends.get(v)
    ]
    safe = {v: pt.log(pt.switch(pt.eq(v.owner.inputs[0], 0), 1.0, v.owner.inputs[0])) for v in logs}
    return graph_replace([graph], safe)[0] if safe else graph


@dataclass(frozen=True, eq=False)
class Part:
    """One scale (or none) with the Gaussian block that it governs (or none), solved.

    Attributes
    ----------
    scale : Scale or None
    parameters : dict of arrays, WishartParameters or None
        Of the scale's posterior.
    gaussian : Gaussian or None
        θ | y, φ at φ = ``reference``.
    reference : numpy.ndarray
        φ at which ``gaussian`` was taken.
    """

    scale: Scale | None = None
    parameters: Any = None
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

    def centre(self) -> Point:
        """A typical point of the posterior: the mean of the block, the family's own centre of the scale."""
        point: Point = {}
        if self.scale is not None:
            if self.scale.family is None:
                point[self.scale.name] = self.parameters.df * self.parameters.scale
            else:
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
            if self.scale.family is None:
                total += self.parameters.log_density(value)
            else:
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
        """Independent draws, scale first."""
        draws: Point = {}
        phi = None
        if self.scale is not None:
            if self.scale.family is None:
                p = self.parameters
                phi = np.asarray(stats.wishart(p.df, p.scale).rvs(number, random_state=rng)).reshape(
                    number, p.size, p.size
                )
            else:
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
            deviation += self.gaussian.mean  # in place: draws of many groups are most of the memory
            draws |= self.gaussian.split(deviation)
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


def solve(analysis: Analysis, evaluator: Evaluator, fixed: Point | None = None) -> Component:
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
        point[scale.name] = np.eye(shape[-1]) if scale.family is None else scale.family.start(shape)
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


def _solve_scales(analysis: Analysis, evaluator: Evaluator, point: Point) -> dict[str, Any]:
    """Posterior parameters of every scale, from gradients at two anchors, taken anew near the posterior.

    The scales of an exact plan do not interact, so that one evaluation of the gradient serves all of them at once.
    """
    score = [s for s in analysis.scales if s.family is not None]
    parameters: dict[str, Any] = {}
    if score:
        guess = {s.name: np.asarray(point[s.name], dtype=float) for s in score}
        gradient = evaluator.gradient_at(point)
        for _ in range(12):
            parameters = _from_anchors(score, gradient, guess)
            if _move(score, parameters, guess) < 0.7:
                break
        for scale in score:
            assert scale.family is not None
            if not scale.family.proper(parameters[scale.name]):
                raise InferenceError(
                    f"the posterior of {scale.name!r} is improper: its {scale.family.name.replace('_', ' ')} "
                    f"parameters are { {k: v.tolist() for k, v in parameters[scale.name].items()} }; check its prior"
                )
    for scale in analysis.scales:
        if scale.family is None:
            parameters[scale.name] = _wishart_parameters(scale, evaluator, point)
    return parameters


def _from_anchors(score: list[Scale], gradient_of: Callable[[Point], Point], guess: Point) -> dict[str, Parameters]:
    anchors = {s.name: s.family.anchors(guess[s.name].shape, guess[s.name]) for s in score if s.family is not None}
    rounds = max(len(a) for a in anchors.values())
    values: dict[str, list[np.ndarray]] = {n: [] for n in anchors}
    for k in range(rounds):
        here = {n: a[min(k, len(a) - 1)] for n, a in anchors.items()}
        gradient = gradient_of(here)
        for scale in score:
            assert scale.family is not None
            if k < len(anchors[scale.name]):
                values[scale.name].append(scale.family.weight(here[scale.name]) * gradient[scale.name])
    result = {}
    for scale in score:
        assert scale.family is not None
        coefficients = solve_coefficients(anchors[scale.name], values[scale.name])
        if scale.block is not None:
            assert scale.group is not None
            counts = np.bincount(scale.group, minlength=guess[scale.name].size).reshape(guess[scale.name].shape)
            # −½ log|Λ(φ)| = −½ d κ log φ, whose weighted score is −½ d κ w(φ)/φ.
            coefficients[0 if scale.kappa > 0 else 1] = (
                coefficients[0 if scale.kappa > 0 else 1] - 0.5 * counts * scale.kappa
            )
        result[scale.name] = scale.family.parameters(coefficients)
    return result


def _move(score: list[Scale], parameters: dict[str, Parameters], guess: Point) -> float:
    """Put each guess at the posterior's centre; the largest relative move."""
    largest = 0.0
    for scale in score:
        assert scale.family is not None
        with np.errstate(all="ignore"):
            centre = np.asarray(scale.family.centre(parameters[scale.name]), dtype=float)
        if scale.family.support == "positive":
            # Far from the posterior one coefficient drowns in the rounding of the other and may come out with the
            # wrong sign; its size still says in which direction to go, by how many powers of ten.
            centre = np.where(np.isnan(centre) | (centre == 0), guess[scale.name] * 1e-8, np.abs(centre))
            centre = np.clip(centre, guess[scale.name] * 1e-15, guess[scale.name] * 1e15)
            move = np.abs(np.log(centre / guess[scale.name]))
        else:
            centre = np.clip(np.where(np.isfinite(centre), centre, 0.5), 1e-14, 1 - 1e-14)
            move = np.abs(centre - guess[scale.name]) / np.minimum(centre, 1 - centre)
        largest = max(largest, float(np.max(move, initial=0.0)))
        guess[scale.name] = centre
    return largest


def _wishart_parameters(scale: Scale, evaluator: Evaluator, point: Point) -> wishart.WishartParameters:
    count = 0 if scale.multiple is None else len(scale.multiple)
    parameters = wishart.parameters_from_values(
        lambda matrix: evaluator.log_joint({**point, scale.name: matrix}), point[scale.name], shift=-count
    )
    if parameters.df <= parameters.size - 1 or np.any(np.linalg.eigvalsh(parameters.inverse_scale) <= 0):
        raise InferenceError(f"the posterior of {scale.name!r} is improper: check its prior")
    return parameters
