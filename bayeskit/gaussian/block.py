"""The linear-Gaussian path: a set of variables in which log p(y, θ) is quadratic, integrated out at once.

With θ the stacked variables, log p(y, θ | φ) = c + ηᵀθ − ½ θᵀΛθ, hence θ | y, φ ~ Normal(Λ⁻¹η, Λ⁻¹) and

    log p(y | φ) = log p(y, θ̂ | φ) + ½ D log 2π − ½ log |Λ|,    θ̂ = Λ⁻¹η.

That the density is quadratic is proved by :mod:`bayeskit.graphs.polynomial_degree`, not tried at points. Every
quadratic term is a product w·u₁·u₂ of affine nodes, so Λ = −Σ (J₁ᵀ diag(w) J₂ + J₂ᵀ diag(w) J₁): one matrix product
over the data, not one pass for each of the D coefficients.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import toposort
from pytensor.tensor.math import Dot

from bayeskit.gaussian.factorisation import NotPositiveDefinite, Precision, factorise, factorise_root
from bayeskit.gaussian.gram import (
    Product,
    WeightedPair,
    expanded,
    precision_of,
    products_of,
    square_root,
    stacked_slices,
)
from bayeskit.gaussian.jacobian_walk import jacobians
from bayeskit.gaussian.jacobians import Jacobian
from bayeskit.graphs.chunked_sums import compile_rows
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.domain import Kind, kind_of
from bayeskit.graphs.gradient import gradient as gradient_of
from bayeskit.graphs.nodes import core_op
from bayeskit.graphs.polynomial_degree import degrees
from bayeskit.model.log_joint import LogJoint
from bayeskit.results.tree import LaterDraws, StackedDraws

__all__ = ["Gaussian", "GaussianBlock"]

ILL_CONDITIONED = 1e7  # condition of Λ above which its square root is factorised instead
REFINEMENTS = 6


@dataclass(frozen=True, eq=False)
class Gaussian:
    """θ | y, φ at one φ: mean and precision over the stacked variables.

    Attributes
    ----------
    names : tuple of str
    shapes : dict of str to tuple of int
    mean : numpy.ndarray
        θ̂, stacked.
    precision : Precision
    """

    names: tuple[str, ...]
    shapes: dict[str, tuple[int, ...]]
    mean: np.ndarray
    precision: Precision

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Where each variable lies in the stack."""
        return stacked_slices(self.names, self.shapes)

    def draw(self, rng: np.random.Generator, number: int) -> np.ndarray:
        """Independent draws, stacked, of shape (number, D)."""
        result = self.precision.draw(rng, number)
        result += self.mean  # in place: draws of many groups are most of the memory
        return result

    def draws_later(self, rng: np.random.Generator, number: int) -> dict[str, Any]:
        """Independent draws of each variable, first axis the draws, made when the first of them is read."""
        together = StackedDraws(partial(self.draw, rng.spawn(1)[0], number))
        return {n: LaterDraws(together, s, (number, *self.shapes[n])) for n, s in self.slices.items()}

    def split(self, stacked: np.ndarray) -> dict[str, np.ndarray]:
        """A stacked array of shape (…, D) as one array a variable."""
        lead = stacked.shape[:-1]
        return {n: stacked[..., s].reshape(lead + self.shapes[n]) for n, s in self.slices.items()}

    @property
    def size(self) -> int:
        return len(self.mean)


@dataclass(frozen=True, eq=False)
class GaussianBlock:
    """Variables in which a model's log density is quadratic; evaluates their conditional posterior at any φ.

    Attributes
    ----------
    joint : LogJoint
    names : tuple of str
        The variables integrated out together.
    shapes : dict of str to tuple of int
        Of every latent variable of the model.
    active : tuple of str
        The factors that count; those of variables drawn forward from it are left out.
    """

    joint: LogJoint
    names: tuple[str, ...]
    shapes: dict[str, tuple[int, ...]]
    active: tuple[str, ...]

    @cached_property
    def factors(self) -> tuple[str, ...]:
        """The active factors in which the variables occur."""
        return tuple(f for f in self.active if self.joint.scopes[f] & set(self.names))

    @cached_property
    def _degree(self) -> dict[Variable, float]:
        graphs = [self.joint.factors[f] for f in self.factors]
        return degrees(graphs, {self.joint.values[n]: 1.0 for n in self.names})

    @cached_property
    def products(self) -> list[Product]:
        """The products of affine nodes of which the quadratic part of the log density is made."""
        return products_of([self.joint.factors[f] for f in self.factors], self._degree)

    @cached_property
    def _total(self) -> Variable:
        return pt.add(*[pt.sum(self.joint.factors[f]) for f in self.factors], pt.constant(0.0))

    @cached_property
    def _linear(self) -> Any:
        """Compiled: all latent values → gradient of the log density in θ."""
        wrt = [self.joint.values[n] for n in self.names]
        gradient = gradient_of(self._total, wrt)
        return compile_small(list(self.joint.values.values()), gradient)

    @cached_property
    def _structure(self) -> tuple[list[Product], list[Variable], Any]:
        """The products, the θ-free inputs their Jacobians need, and a function for weights, inputs and gradient."""
        products = self.products
        wrt = [*(p.node.outputs[0] for p in products), *(self.joint.values[n] for n in self.names)]
        derivatives = gradient_of(self._total, wrt)
        zeros = self._zeros(derivatives)
        weights, gradient = derivatives[: len(products)], derivatives[len(products) :]
        sides = list(dict.fromkeys([s for p in products for s in (p.left, p.right)]))
        free: dict[Variable, None] = {}
        for node in toposort(sides):
            if any(self._degree.get(o, 0) == 1 for o in node.outputs):
                free.update(dict.fromkeys(i for i in node.inputs if self._degree.get(i, 0) == 0))
        for product in products:
            free.update(dict.fromkeys(i for i in product.node.inputs if self._degree.get(i, 0) == 0))
        computed = [v for v in free if not isinstance(v, Constant | SharedVariable)]
        inputs, outputs = [*self.joint.values.values(), *zeros], [*weights, *computed, *gradient]
        function = compile_rows(inputs, outputs) or compile_small(inputs, outputs)
        nothing = [np.broadcast_to(0.0, v.type.shape) for v in zeros]
        return products, computed, lambda *arguments: function(*arguments, *nothing)

    def _zeros(self, graphs: list[Variable]) -> list[Variable]:
        """The products X·θ in graphs that are evaluated at θ = 0 only: each would be a pass over the data."""
        zero = {self.joint.values[n] for n in self.names}
        products: list[Variable] = []
        for node in toposort(graphs):
            moved = kind_of(node) in (Kind.MOVE, Kind.CHECK) and node.inputs[0] in zero
            multiplied = isinstance(core_op(node), Dot) and any(i in zero for i in node.inputs)
            if moved or multiplied:
                zero.update(node.outputs)
            if multiplied and None not in node.outputs[0].type.shape:
                products.append(node.outputs[0])
        return products

    def _arguments(self, point: Mapping[str, Any]) -> list[np.ndarray]:
        return [
            np.asarray(point[n] if n in point else np.zeros(self.shapes[n]), dtype=v.type.dtype)
            for n, v in self.joint.values.items()
        ]

    def at(self, point: Mapping[str, Any]) -> Gaussian:
        """The conditional posterior of θ given everything else.

        Parameters
        ----------
        point : mapping of str to array
            Values of the variables outside the block; the block's own are ignored.

        Raises
        ------
        NotPositiveDefinite
            If Λ is not a precision matrix: the posterior of θ is improper.
        """
        outside = {n: v for n, v in point.items() if n not in self.names}
        terms, gradient = self._terms(outside)
        precision = self._factorise(terms)
        mean = np.zeros(precision.size)
        slices = stacked_slices(self.names, self.shapes)
        previous = np.inf
        for refinement in range(REFINEMENTS):
            # The first step gives Λ⁻¹η; the others are Newton steps on an exactly quadratic function, that is,
            # iterative refinement: they win back the digits that forming Λ and η loses when data lie far from zero.
            if refinement:
                at_mean = outside | {n: mean[s].reshape(self.shapes[n]) for n, s in slices.items()}
                gradient = np.concatenate([np.ravel(g) for g in self._linear(*self._arguments(at_mean))])
            step = precision.solve(gradient)
            size = float(np.max(np.abs(step) / precision.inverse_scale, initial=0.0))
            if not size < 0.5 * previous:
                break
            mean = mean + step
            previous = size
            if size * precision.condition * np.finfo(float).eps < 1e-10:
                break
        return Gaussian(self.names, self.shapes, mean, precision)

    def quadratic(self, point: Mapping[str, Any]) -> tuple[Any, np.ndarray]:
        """Λ, dense or sparse, and η at given values of the variables outside the block."""
        terms, gradient = self._terms({n: v for n, v in point.items() if n not in self.names})
        return precision_of(terms, self.names, self.shapes), gradient

    def jacobians_at(
        self,
        nodes: list[Variable],
        targets: Mapping[Variable, tuple[str, tuple[int, ...]]],
        point: Mapping[str, Any],
    ) -> dict[Variable, Jacobian]:
        """Jacobians of affine nodes at given values of the variables outside the block."""
        free: dict[Variable, None] = {}
        for node in toposort(nodes):
            if any(self._degree.get(o, 0) == 1 for o in node.outputs):
                free.update(dict.fromkeys(i for i in node.inputs if self._degree.get(i, 0) == 0))
        wanted = [v for v in free if hasattr(v.type, "dtype")]
        outside = {n: v for n, v in point.items() if n not in self.names}
        function = compile_small(list(self.joint.values.values()), wanted)
        values = dict(zip(wanted, function(*self._arguments(outside)), strict=True))
        return jacobians(nodes, targets, self._degree, values.__getitem__)

    def _factorise(self, terms: list[WeightedPair]) -> Precision:
        """Λ factorised; from the stacked square roots of its terms where the sum itself has lost too many digits.

        A collinear pair of columns with prior sd 1e3 and noise sd 1e-3 has a Λ of condition 1e12, its root one of 1e6.
        """
        precision: Precision | None = None
        with suppress(NotPositiveDefinite):
            precision = factorise(precision_of(terms, self.names, self.shapes))
        if precision is not None and precision.condition < ILL_CONDITIONED:
            return precision
        root = square_root(terms, self.names, self.shapes)
        if root is not None:
            return factorise_root(root)
        if precision is None:
            raise NotPositiveDefinite
        return precision

    def _terms(self, outside: Mapping[str, Any]) -> tuple[list[WeightedPair], np.ndarray]:
        """The scalar products whose weighted sum is the quadratic part of the log density, and η."""
        products, computed, function = self._structure
        results = function(*self._arguments(outside))
        weights, gradient = results[: len(products)], results[len(products) + len(computed) :]
        values = dict(zip(computed, results[len(products) : len(products) + len(computed)], strict=True))

        def value_of(var: Variable) -> Any:
            if isinstance(var, Constant):
                return var.data
            if isinstance(var, SharedVariable):
                return var.get_value(borrow=True)
            return values[var]

        sides = list(dict.fromkeys([s for p in products for s in (p.left, p.right)]))
        targets = {self.joint.values[n]: (n, self.shapes[n]) for n in self.names}
        jacobian = jacobians(sides, targets, self._degree, value_of)
        terms = [expanded(p, jacobian, np.asarray(w), value_of) for p, w in zip(products, weights, strict=True)]
        return terms, np.concatenate([np.ravel(g) for g in gradient])
