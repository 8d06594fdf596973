r"""A Gaussian linear model, read from its graph: log p(y, w, ν, φ) as a quadratic in the coefficients w and ν.

ν are the coefficients that every submodel has (an intercept), φ what is no coefficient (σ², g). Around a point θ₀ with
w = 0, and δ = (w, ν − ν₀), the density is c(φ) + η(φ)ᵀδ − ½ δᵀΛ(φ)δ, which
:mod:`bayeskit.graphs.polynomial_degree` proves. ν is integrated out, Λ and η become those of w, and with the precision
P(φ) of the prior of w (mean zero), a submodel S, whose prior is p(w_S | w_j = 0 for j ∉ S, φ), has

.. math::
    \log p(y, \varphi \mid S) = k(\varphi)
    + \tfrac12 \log |P_{SS}| - \tfrac12 \log |\Lambda_{SS}| + \tfrac12 \eta_S^\top \Lambda_{SS}^{-1} \eta_S .
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import linalg, sparse

from bayeskit.comparison.subsets.sweep import NotDefinite
from bayeskit.errors import ModelError
from bayeskit.gaussian.block import GaussianBlock, latent_values
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.gradient import gradient as gradient_of
from bayeskit.graphs.polynomial_degree import degrees
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.support import has_own_transform, is_improper, support_without_transform
from bayeskit.model.vector_layout import VectorLayout
from bayeskit.types import Point

__all__ = ["LinearModel", "Nuisance", "Quadratic", "linear_model", "require_centred"]

LOG_2PI = math.log(2 * math.pi)
CENTRED = 1e-12  # gradient of the prior at w = 0, relative to what one prior sd makes of it


@dataclass(frozen=True, eq=False)
class Nuisance:
    """ν given w and φ: Normal(at − slope w, covariance)."""

    at: np.ndarray
    slope: np.ndarray
    covariance: np.ndarray


@dataclass(frozen=True, eq=False)
class Quadratic:
    """log p(y, w | φ) with ν integrated out, at one φ."""

    constant: float  # k(φ)
    precision: np.ndarray  # Λ
    linear: np.ndarray  # η
    prior: np.ndarray  # P
    nuisance: Nuisance
    lift: float  # what the best ν at w = 0 adds to the log density at ν₀


@dataclass(eq=False)
class LinearModel:
    """A model in which log p(y, w, ν, φ) is quadratic in (w, ν)."""

    joint: LogJoint
    shapes: dict[str, tuple[int, ...]]
    name: str  # of w
    nuisance: tuple[str, ...]
    hyper: tuple[str, ...]  # names of φ, scalars all
    origin: dict[str, np.ndarray] = field(default_factory=dict)  # ν₀, and w = 0
    _known: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def size(self) -> int:
        """How many coefficients w has."""
        return int(np.prod(self.shapes[self.name], dtype=int))

    @property
    def coefficients(self) -> tuple[str, ...]:
        """ν and w, in the order of θ."""
        return (*self.nuisance, self.name)

    @cached_property
    def theta(self) -> VectorLayout:
        """Where each of them lies in θ."""
        return VectorLayout({n: self.shapes[n] for n in self.coefficients})

    def arguments(self, point: Mapping[str, Any]) -> list[np.ndarray]:
        """All values of the model at φ and θ₀."""
        return latent_values(self.joint, self.origin | dict(point), self.shapes)

    def _scope(self, factor: str) -> tuple[str, ...]:
        return tuple(n for n in self.coefficients if n in self.joint.scopes[factor])

    def _remembered(self, kind: str, factor: str, point: Mapping[str, Any], make: Any) -> Any:
        """A part that depends on φ only through the scope of its factor."""
        key = (kind, factor, *(float(point[n]) for n in self.hyper if n in self.joint.scopes[factor]))
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    @cached_property
    def _values(self) -> dict[str, Any]:
        inputs = list(self.joint.values.values())
        return {f: compile_small(inputs, pt.sum(g)) for f, g in self.joint.factors.items()}

    @cached_property
    def _slopes(self) -> dict[str, Any]:
        inputs, values = list(self.joint.values.values()), self.joint.values
        factors = {f: g for f, g in self.joint.factors.items() if self._scope(f)}
        return {
            f: compile_small(inputs, gradient_of(pt.sum(g), [values[n] for n in self._scope(f)]))
            for f, g in factors.items()
        }

    @cached_property
    def _blocks(self) -> dict[str, GaussianBlock]:
        return {f: GaussianBlock(self.joint, self._scope(f), self.shapes, (f,)) for f in self._slopes}

    def value(self, point: Point) -> float:
        """c(φ) = log p(y, θ₀, φ)."""
        return math.fsum(self.value_of(f, point) for f in self.joint.factors)

    def value_of(self, factor: str, point: Point) -> float:
        """The part of c(φ) that comes from one factor."""

        def made() -> float:
            with np.errstate(all="ignore"):
                return float(self._values[factor](*self.arguments(point)))

        found: float = self._remembered("value", factor, point, made)
        return found

    def precision(self, factor: str, point: Point) -> np.ndarray:
        """The part of Λ that comes from one factor."""

        def made() -> np.ndarray:
            block, result = self._blocks[factor], np.zeros((self.theta.size, self.theta.size))
            found, _ = block.quadratic({n: point[n] for n in self.hyper})
            places = np.concatenate([np.arange(self.theta.size)[self.theta.slices[n]] for n in block.names])
            result[np.ix_(places, places)] = found.toarray() if sparse.issparse(found) else found
            return result

        found: np.ndarray = self._remembered("precision", factor, point, made)
        return found

    def slope(self, factor: str, point: Point) -> np.ndarray:
        """The part of η that comes from one factor."""

        def made() -> np.ndarray:
            result = np.zeros(self.theta.size)
            for name, part in zip(self._scope(factor), self._slopes[factor](*self.arguments(point)), strict=True):
                result[self.theta.slices[name]] = np.ravel(part)
            return result

        found: np.ndarray = self._remembered("slope", factor, point, made)
        return found

    def whole(self, point: Point) -> tuple[np.ndarray, np.ndarray]:
        """Λ and η of all of θ."""
        total, slope = np.zeros((self.theta.size, self.theta.size)), np.zeros(self.theta.size)
        for factor in self._blocks:
            total = total + self.precision(factor, point)
            if factor != self.name:  # whose mean is zero: see require_centred
                slope = slope + self.slope(factor, point)
        return total, slope

    def at(self, point: Point) -> Quadratic:
        """Λ, η, P and k at one φ; NotDefinite where ν or the prior has no normaliser there."""
        total, slope = self.whole(point)
        if not (np.all(np.isfinite(total)) and np.all(np.isfinite(slope))):
            raise NotDefinite(self.size)
        inside, kept = slice(0, self.theta.size - self.size), self.theta.slices[self.name]
        prior = self.precision(self.name, point)[kept, kept]
        try:
            root = linalg.cho_factor(total[inside, inside], lower=True) if inside.stop else (np.zeros((0, 0)), True)
            prior_root = np.linalg.cholesky(prior)
        except np.linalg.LinAlgError:
            raise NotDefinite(self.size) from None
        covariance = linalg.cho_solve(root, np.eye(inside.stop)) if inside.stop else np.zeros((0, 0))
        best = covariance @ slope[inside]
        by_w = covariance @ total[inside, kept]
        lift = 0.5 * float(slope[inside] @ best)
        constant = self.value(point) + lift + 0.5 * (inside.stop + self.size) * LOG_2PI
        constant -= float(np.sum(np.log(np.diag(root[0])))) + float(np.sum(np.log(np.diag(prior_root))))
        precision = total[kept, kept] - total[kept, inside] @ by_w
        nuisance = Nuisance(best, by_w, covariance)
        linear = slope[kept] - total[kept, inside] @ best
        return Quadratic(constant, 0.5 * (precision + precision.T), linear, prior, nuisance, lift)

    def centre(self, point: Point) -> None:
        """Move θ₀ to the best ν at w = 0 and some φ: the sums of squares are then those of residuals."""
        nuisance = self.at(point).nuisance
        shapes = VectorLayout({n: self.shapes[n] for n in self.nuisance})
        moved = shapes.split(nuisance.at)
        self.origin = {n: self.origin[n] + moved[n] for n in self.nuisance} | {self.name: self.origin[self.name]}
        self._known = {key: found for key, found in self._known.items() if key[0] == "precision"}


def linear_model(model: pm.Model, name: str) -> LinearModel:
    """Read a model; a ModelError where log p(y, w, …) is not quadratic in w, or its prior is not centred at zero."""
    joint = LogJoint.from_model(model)
    if name not in joint.values:
        known = ", ".join(n for n, v in joint.values.items() if v.type.ndim == 1) or "none"
        kind = (
            "a Deterministic; name the variable that it is made of" if name in joint.deterministics else "none of them"
        )
        raise ModelError(f"select takes a free vector of coefficients, and {name!r} is {kind}; there are: {known}")
    shapes = joint.shapes()
    if len(shapes[name]) != 1 or not shapes[name][0]:
        raise ModelError(
            f"{name!r} has the shape {shapes[name]}; select takes a vector of coefficients, one a predictor"
        )
    for n in joint.names:
        if not (has_own_transform(model, model[n]) or is_improper(model[n])):
            raise ModelError(f"the transform of {n!r} may restrict its support: leave it out")
    if is_improper(joint.model[name]):
        raise _improper(name)
    coefficients = [name]
    _require_quadratic(joint, coefficients)
    for other in joint.names:
        real = support_without_transform(model[other]).kind == "real" or is_improper(model[other])
        if (
            other != name
            and real
            and has_own_transform(model, model[other])
            and not _not_quadratic(joint, [*coefficients, other])
        ):
            coefficients.append(other)
    nuisance = tuple(n for n in joint.names if n in coefficients and n != name)
    hyper = tuple(n for n in joint.names if n not in coefficients)
    for other in hyper:
        if shapes[other] != () or joint.values[other].type.dtype.startswith(("int", "bool")):
            kind = "takes whole numbers" if shapes[other] == () else f"has the shape {shapes[other]}"
            raise ModelError(
                f"select integrates out scalars beside the coefficients, and {other!r} {kind}; compare submodels "
                "written one by one with bayeskit.compare"
            )
    if shared := sorted(joint.scopes[name] & set(nuisance)):
        raise ModelError(f"the prior of {name!r} depends on {shared[0]!r}; select needs a prior with mean zero")
    origin = {n: np.zeros(shapes[n]) for n in coefficients}
    return LinearModel(joint, shapes, name, nuisance, hyper, origin)


def _not_quadratic(joint: LogJoint, names: list[str]) -> str:
    """The first factor that is not quadratic in some variables."""
    targets = {joint.values[n]: 1.0 for n in names}
    found = degrees(list(joint.factors.values()), targets)
    return next((f for f, g in joint.factors.items() if found.get(g, 0) > 2), "")


def _require_quadratic(joint: LogJoint, names: list[str]) -> None:
    name = names[0]
    if factor := _not_quadratic(joint, names):
        what = "its prior is not Normal" if factor == name else f"the log density of {factor!r} is not quadratic in it"
        raise ModelError(
            f"select needs a Gaussian linear model, and {name!r} is no coefficient of one: {what}; compare submodels "
            "written one by one with bayeskit.compare"
        )
    if not any(name in scope for factor, scope in joint.scopes.items() if factor != name):
        raise ModelError(f"no data depend on {name!r}: there is nothing to select by")


def _improper(name: str) -> ModelError:
    return ModelError(
        f"the prior of {name!r} is improper, and each submodel would have its own arbitrary constant: the evidence "
        "of a subset means nothing; give it a proper prior, such as Zellner's g prior"
    )


def require_centred(linear: LinearModel, point: Point) -> None:
    """A ModelError where the prior of w has no normaliser, or its mean is not zero."""
    name, kept = linear.name, linear.theta.slices[linear.name]
    prior, slope = linear.precision(name, point)[kept, kept], linear.slope(name, point)[kept]
    if not np.all(np.diag(prior) > 0):
        raise _improper(name)
    if np.any(np.abs(slope) > CENTRED * np.sqrt(np.diag(prior))):
        raise ModelError(
            f"the prior of {name!r} is not centred at zero: a coefficient that is left out is zero, which its prior "
            "takes for something else; write the offset into the mean of the data, with coefficients around zero"
        )
