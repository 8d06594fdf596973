"""The linear-Gaussian path: a set of variables in which log p(y, θ) is quadratic, integrated out at once.

With θ the stacked variables, log p(y, θ | φ) = c + ηᵀθ − ½ θᵀΛθ, hence θ | y, φ ~ Normal(Λ⁻¹η, Λ⁻¹) and

    log p(y | φ) = log p(y, θ̂ | φ) + ½ D log 2π − ½ log |Λ|,    θ̂ = Λ⁻¹η.

That the density is quadratic is proved by :mod:`bayeskit.graphs.polynomial_degree`, not tried at points. Every
quadratic term is a product w·u₁·u₂ of affine nodes, so Λ = −Σ (J₁ᵀ diag(w) J₂ + J₂ᵀ diag(w) J₁): one matrix product
over the data, not one pass for each of the D coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import toposort
from pytensor.scalar import basic as ps
from pytensor.tensor.math import Dot
from scipy import sparse

from bayeskit.gaussian import gram
from bayeskit.gaussian.factorisation import NotPositiveDefinite, Precision, factorise, factorise_root, updated
from bayeskit.gaussian.jacobians import Jacobian
from bayeskit.graphs.chunked_sums import compile_rows
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.gradient import gradient as gradient_of
from bayeskit.graphs.nodes import applies, core_op
from bayeskit.graphs.operations import Kind, kind_of
from bayeskit.graphs.polynomial_degree import degrees
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.vector_layout import VectorLayout
from bayeskit.results.tree import LaterDraws, StackedDraws

__all__ = ["Gaussian", "GaussianBlock", "boundary", "known_value", "latent_values"]

ILL_CONDITIONED = 1e7  # condition of Λ above which its square root is factorised instead
WIDE = 600  # variables from which it pays to keep few rows of data apart
REMEMBERED = 100_000  # numbers that Jacobians are computed from, above which they are not kept
REFINEMENTS = 6


@dataclass(frozen=True, eq=False)
class Gaussian(VectorLayout):
    """θ | y, φ at one φ: where each variable lies in θ, the mean θ̂ and the precision Λ."""

    mean: np.ndarray
    precision: Precision

    def draw(self, rng: np.random.Generator, number: int) -> np.ndarray:
        """Independent draws, stacked, of shape (number, D)."""
        result = self.precision.draw(rng, number)
        result += self.mean  # in place: draws of many groups are most of the memory
        return result

    def draws_later(self, rng: np.random.Generator, number: int) -> dict[str, Any]:
        """Independent draws of each variable, first axis the draws, made when the first of them is read."""
        together = StackedDraws(partial(self.draw, rng.spawn(1)[0], number))
        return {n: LaterDraws(together, s, (number, *self.shapes[n])) for n, s in self.slices.items()}


@dataclass(frozen=True, eq=False)
class GaussianBlock:
    """Variables in which a model's log density is quadratic; evaluates their conditional posterior at any φ."""

    joint: LogJoint
    names: tuple[str, ...]  # the variables integrated out together
    shapes: dict[str, tuple[int, ...]]  # of every latent variable of the model
    active: tuple[str, ...]  # the factors that count; those of variables drawn forward from it are left out

    @cached_property
    def factors(self) -> tuple[str, ...]:
        """The active factors in which the variables occur."""
        return tuple(f for f in self.active if self.joint.scopes[f] & set(self.names))

    @cached_property
    def theta(self) -> VectorLayout:
        """Where each variable lies in θ."""
        return VectorLayout({n: self.shapes[n] for n in self.names})

    @property
    def targets(self) -> dict[Variable, tuple[str, tuple[int, ...]]]:
        """Name and shape of each variable."""
        return {self.joint.values[n]: (n, self.shapes[n]) for n in self.names}

    @cached_property
    def _degree(self) -> dict[Variable, float]:
        return degrees([self.joint.factors[f] for f in self.factors], dict.fromkeys(self.targets, 1.0))

    @cached_property
    def products(self) -> list[gram.Product]:
        """The products of affine nodes of which the quadratic part of the log density is made."""
        return gram.products_of([self.joint.factors[f] for f in self.factors], self._degree)

    @cached_property
    def total(self) -> Variable:
        """The log density, as far as the variables occur in it."""
        return pt.add(*[pt.sum(self.joint.factors[f]) for f in self.factors], pt.constant(0.0))

    @cached_property
    def _linear(self) -> Any:
        """Compiled: all latent values → gradient of the log density in θ."""
        return compile_small(list(self.joint.values.values()), gradient_of(self.total, list(self.targets)))

    @cached_property
    def _structure(self) -> tuple[list[Variable], Any]:
        """The θ-free nodes that Jacobians need, and a function for the products' weights, the gradient and these."""
        nodes = [p.node.outputs[0] for p in self.products]
        derivatives = gradient_of(self.total, [*nodes, *self.targets])
        zeros = self._zeros(derivatives)
        free = self._boundary(nodes)
        inputs, outputs = [*self.joint.values.values(), *zeros], [*derivatives, *free]
        function = compile_rows(inputs, outputs) or compile_small(inputs, outputs)
        nothing = [np.broadcast_to(0.0, v.type.shape) for v in zeros]
        return free, lambda *arguments: function(*arguments, *nothing)

    def _boundary(self, graphs: list[Variable]) -> list[Variable]:
        return boundary(graphs, lambda var: self._degree.get(var, 0) > 0)

    def _zeros(self, graphs: list[Variable]) -> list[Variable]:
        """The products X·θ in graphs that are evaluated at θ = 0 only: each would be a pass over the data."""
        zero = set(self.targets)
        products: list[Variable] = []
        for node in toposort(graphs):
            moved = kind_of(node) in (Kind.MOVE, Kind.CHECK) and node.inputs[0] in zero
            multiplied = isinstance(core_op(node), Dot) and any(i in zero for i in node.inputs)
            if moved or multiplied:
                zero.update(node.outputs)
            if multiplied and None not in node.outputs[0].type.shape:
                products.append(node.outputs[0])
        return products

    def _arguments(self, point: Mapping[str, Any], theta: Mapping[str, Any] | None = None) -> list[np.ndarray]:
        """All latent values, those of the block given by ``theta`` or else zero."""
        outside = {n: v for n, v in point.items() if n not in self.names}
        return latent_values(self.joint, outside | dict(theta or {}), self.shapes)

    def at(self, point: Mapping[str, Any]) -> Gaussian:
        """θ given all variables outside the block; NotPositiveDefinite where its posterior is improper."""
        terms, gradient = self._terms(point)
        precision = self._factorise(terms)
        mean = np.zeros(precision.size)
        previous = np.inf
        for refinement in range(REFINEMENTS):
            # The first step gives Λ⁻¹η; the others are Newton steps on an exactly quadratic function, that is,
            # iterative refinement: they win back the digits that forming Λ and η loses when data lie far from zero.
            if refinement:
                slopes = self._linear(*self._arguments(point, self.theta.split(mean)))
                gradient = np.concatenate([np.ravel(g) for g in slopes])
            step = precision.solve(gradient)
            size = float(np.max(np.abs(step) / precision.inverse_scale, initial=0.0))
            if not size < 0.5 * previous:
                break
            mean = mean + step
            previous = size
            if size * precision.condition * np.finfo(float).eps < 1e-10:
                break
        return Gaussian(self.theta.shapes, mean, precision)

    def quadratic(self, point: Mapping[str, Any]) -> tuple[Any, np.ndarray]:
        """Λ, dense or sparse, and η at given values of the variables outside the block."""
        terms, gradient = self._terms(point)
        return gram.precision_of(terms, self.theta), gradient

    def jacobians_at(self, nodes: list[Variable], point: Mapping[str, Any]) -> dict[Variable, Jacobian]:
        """Jacobians of affine nodes at given values of the variables outside the block."""
        free = self._boundary(nodes)
        function = compile_small(list(self.joint.values.values()), free)
        values = dict(zip(free, function(*self._arguments(point)), strict=True))
        return gram.jacobians(nodes, self.targets, self._degree, lambda var: known_value(var, values))

    def _factorise(self, terms: list[gram.WeightedPair]) -> Precision:
        """Λ factorised; from the stacked square roots of its terms where the sum itself has lost too many digits.

        A collinear pair of columns with prior sd 1e3 and noise sd 1e-3 has a Λ of condition 1e12, its root one of 1e6.
        """
        if (wide := self._with_few_rows(terms)) is not None and wide.condition < ILL_CONDITIONED:
            return wide
        precision: Precision | None = None
        with suppress(NotPositiveDefinite):
            precision = factorise(gram.precision_of(terms, self.theta))
        if precision is not None and precision.condition < ILL_CONDITIONED:
            return precision
        root = gram.square_root(terms, self.theta)
        if root is not None:
            return factorise_root(root)
        if precision is None:
            raise NotPositiveDefinite
        return precision

    def _with_few_rows(self, terms: list[gram.WeightedPair]) -> Precision | None:
        """Λ factorised where all but a few rows of it, those of the data, are sparse; None where that does not pay."""
        if self.theta.size < WIDE or (found := gram.without_few_rows(terms, self.theta)) is None:
            return None
        others, rows = found
        with suppress(NotPositiveDefinite, np.linalg.LinAlgError):
            if sparse.issparse(own := gram.precision_of(others, self.theta)):
                return updated(factorise(own), rows)
        return None

    def _terms(self, point: Mapping[str, Any]) -> tuple[list[gram.WeightedPair], np.ndarray]:
        """The scalar products whose weighted sum is the quadratic part of the log density, and η."""
        free, function = self._structure
        results = function(*self._arguments(point))
        last, count = len(results) - len(free), len(self.products)
        weights, gradient, values = results[:count], results[count:last], dict(zip(free, results[last:], strict=True))
        value_of = partial(known_value, computed=values)
        jacobian = self._jacobians(value_of)
        pairs = zip(self.products, weights, strict=True)
        terms = [gram.expanded(p, jacobian, np.asarray(w), value_of) for p, w in pairs]
        return terms, np.concatenate([np.ravel(g) for g in gradient])

    def _jacobians(self, value_of: Callable[[Variable], Any]) -> dict[Variable, Jacobian]:
        """Those of the products' sides; as they were, where all that they were computed from is as it was."""
        now: dict[Variable, Any] = {}

        def noted(var: Variable) -> Any:
            value = value_of(var)
            now[var] = np.broadcast_to(0.0, np.shape(value)) if var in self._offsets else value
            return value

        read, found = self._read
        for var in read:
            noted(var)
        if found and all(np.array_equal(now[var], value) for var, value in read.items()):
            return found
        found = gram.jacobians(gram.sides_of(self.products), self.targets, self._degree, noted)
        if sum(np.size(value) for value in now.values()) <= REMEMBERED:
            self._read[:] = {var: np.array(value) for var, value in now.items()}, found
        return found

    @cached_property
    def _offsets(self) -> set[Variable]:
        """What is only added to something, of which Jacobians depend on no more than the shape."""
        added: set[Variable] = set()
        used: set[Variable] = set()
        for node in toposort(gram.sides_of(self.products)):
            (added if applies(node, ps.Add, ps.Sub) else used).update(node.inputs)
        return added - used

    @cached_property
    def _read(self) -> list[dict[Variable, Any]]:
        """The values that Jacobians were computed from the last time, and these."""
        return [{}, {}]


def latent_values(joint: LogJoint, point: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> list[np.ndarray]:
    """The values of all latent variables, zero where a point has none."""
    given = {n: point[n] if n in point else np.zeros(shapes[n]) for n in joint.values}
    return joint.arguments(given)


def boundary(graphs: list[Variable], inside: Callable[[Variable], Any]) -> list[Variable]:
    """The nodes outside some part of graphs that enter it, or are asked for themselves, and have to be computed."""
    read = [i for node in toposort(graphs) if any(map(inside, node.outputs)) for i in node.inputs]
    outside = dict.fromkeys(v for v in [*read, *graphs] if not inside(v))
    return [v for v in outside if not isinstance(v, Constant | SharedVariable) and hasattr(v.type, "dtype")]


def known_value(var: Variable, computed: Mapping[Variable, Any]) -> Any:
    """The value of a constant, of data, or of a node that was computed; a KeyError for any other."""
    if isinstance(var, Constant):
        return var.data
    return var.get_value(borrow=True) if isinstance(var, SharedVariable) else computed[var]
