"""What a quadratic form is found in: a block at a typical point, its nodes separated, its density split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor import basic as ptb
from pytensor.tensor.math import All

from bayeskit.errors import InferenceError
from bayeskit.gaussian.block import GaussianBlock
from bayeskit.gaussian.factorisation import NotPositiveDefinite
from bayeskit.gaussian.gram import Product, stacked_slices
from bayeskit.gaussian.separable_forms import OFFSET, Form, NotSeparable
from bayeskit.gaussian.separated import materialised
from bayeskit.gaussian.separator import Separator
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.rewriting import depends_on, substitute
from bayeskit.model.data_slots import sealed_in
from bayeskit.model.log_joint import LogJoint
from bayeskit.types import Graph, Point

__all__ = ["Setting", "all_squares", "is_exponent", "reduced", "setting_of"]


@dataclass(frozen=True, eq=False)
class Setting:
    """What the quadratic form of a block is found from.

    Attributes
    ----------
    block : GaussianBlock
    separator : Separator
        Has separated the factors of the products, their weights, ``rest`` and ``linear``.
    weights : dict of Product to tensor
        The weight of each product of affine nodes in the log density.
    prior : list of Product
        Those of the densities of the block's own variables alone.
    linear : list of tensor or None
        For each variable the gradient at θ₀ of the log density without its products; None where there is none.
    rest : tensor
        The log density at θ₀ without its products.
    points : list of mapping of str to array
        Generic values of the variables outside the block.
    origin : mapping of str to array
        θ₀.
    slices : mapping of str to slice
        Where each variable lies in θ.
    """

    block: GaussianBlock
    separator: Separator
    weights: Mapping[Product, Graph]
    prior: list[Product]
    linear: list[Graph | None]
    rest: Graph
    points: list[Point]
    origin: Point
    slices: Mapping[str, slice]

    @property
    def size(self) -> int:
        """D."""
        return sum(s.stop - s.start for s in self.slices.values())

    @property
    def data(self) -> list[Product]:
        """The products that are not of the prior."""
        return [p for p in self.weights if p not in self.prior]

    @property
    def theta(self) -> dict[Graph, tuple[str, tuple[int, ...]]]:
        """Name and shape of each variable of the block."""
        return _theta(self.block)

    @property
    def stacked_origin(self) -> np.ndarray:
        """θ₀, stacked."""
        return np.concatenate([np.ravel(self.origin[n]) for n in self.block.names])

    def weight(self, product: Product, shape: tuple[int, ...]) -> Form:
        """The weight of a product, separated and of a shape."""
        return self.separator.form(self.weights[product]).to_shape(shape)

    def shape_of(self, side: Graph) -> tuple[int, ...]:
        """The shape of a node, separable or not."""
        if None not in side.type.shape:
            return tuple(side.type.shape)
        latent = list(self.block.joint.values.values())
        return np.shape(compile_small(latent, side)(*_arguments(self.block.joint, self.points[0], self.block.shapes)))

    def convex(self, products: list[Product]) -> bool:
        """Whether a square has a positive weight: a Potential 0.1μ² has, and no root, though the sum may be proper."""
        joint = self.block.joint
        function = compile_small(list(joint.values.values()), [self.weights[p] for p in products])
        results = (function(*_arguments(joint, point, self.block.shapes)) for point in self.points)
        return any(np.any(w > 0) for weights in results for w in weights)


def _arguments(joint: LogJoint, point: Point, shapes: Mapping[str, tuple[int, ...]]) -> list[np.ndarray]:
    return [np.asarray(point.get(n, np.zeros(shapes[n])), dtype=v.type.dtype) for n, v in joint.values.items()]


def _theta(block: GaussianBlock) -> dict[Graph, tuple[str, tuple[int, ...]]]:
    return {block.joint.values[n]: (n, block.shapes[n]) for n in block.names}


def setting_of(block: GaussianBlock, points: list[Point]) -> Setting:
    """Separate the nodes of a block, and split its density into products of affine nodes and what is left of it.

    Parameters
    ----------
    block : GaussianBlock
    points : list of mapping of str to array
        Generic values of the variables outside the block; θ₀ is the block's mean at the first, or zero where the data
        are sealed.

    Raises
    ------
    InferenceError
        If the block has no posterior there.
    """
    joint, products = block.joint, block.products
    slices = stacked_slices(block.names, block.shapes)
    mean = np.zeros(sum(s.stop - s.start for s in slices.values()))
    try:
        if not _sealed(block):
            mean = block.at(points[0]).mean
    except NotPositiveDefinite as error:
        raise InferenceError(
            f"the posterior precision of {', '.join(block.names)} is not positive definite at a typical point: the "
            "posterior is improper, or the data hold entries that are not finite; check priors, Potentials and data"
        ) from error
    sides = list(dict.fromkeys([s for p in products for s in (p.left, p.right)]))
    prior = _own_products(block, products)
    unsafe = _magnified([s for p in products if p not in prior for s in (p.left, p.right)], block, sides, points[0])
    origin = {n: mean[s].reshape(block.shapes[n]) * (n not in unsafe) for n, s in slices.items()}
    held = {joint.values[n]: pt.constant(origin[n]) for n in block.names}
    total = pt.add(*[pt.sum(joint.factors[f]) for f in block.factors], pt.constant(0.0))
    nodes = [p.node.outputs[0] for p in products]
    weights, rest, linear = _without_products(total, nodes, list(held), held)
    others = [i for p in products for i in p.node.inputs if i is not p.left and i is not p.right]
    separator = _separator(block, [*sides, *weights, rest, *[g for g in linear if g is not None], *others], points[0])
    rest = _guarded(materialised(separator.form(rest))[0], separator)
    of_products = dict(zip(products, weights, strict=True))
    return Setting(block, separator, of_products, prior, linear, rest, points, origin, slices)


def _sealed(block: GaussianBlock) -> list[Graph]:
    return list(sealed_in([block.joint.factors[f] for f in block.factors]))


def _separator(block: GaussianBlock, graphs: list[Graph], point: Point) -> Separator:
    # What cannot be read is a symbol, as φ is.
    latent = [*block.joint.values.values(), *_sealed(block)]
    evaluators = _evaluators(graphs, depends_on(graphs, latent), point, block.shapes, block.joint)
    separator = Separator(_theta(block), latent, *evaluators)
    separator.walk(graphs)
    return separator


def _own_products(block: GaussianBlock, products: list[Product]) -> list[Product]:
    """The products that belong to the densities of the block's own variables alone."""
    own: set[Graph] = set()
    others: set[Graph] = set()
    for factor in block.factors:
        above = ancestors([block.joint.factors[factor]])
        (own if factor in block.names else others).update(above)
    return [p for p in products if p.node.outputs[0] in own and p.node.outputs[0] not in others]


def _magnified(sides: list[Graph], block: GaussianBlock, graphs: list[Graph], point: Point) -> set[str]:
    """Variables that reach the data multiplied by a factor of their own, as z in y − μ − τz.

    With z₀ ≠ 0 the residual τz₀ grows without bound as τ does, and the integral would be the difference of two such
    squares; z₀ = 0 leaves the residual alone.
    """
    variables: set[str] = set()
    separator = _separator(block, graphs, point)
    for side in sides:
        try:
            form = separator.form(side)
        except NotSeparable:
            return set(block.names)
        for term in form.terms:
            if len(form.terms) > 1 and term.factor is not None and not np.any(term.offset):
                variables.update(n for n in term.jacobian.blocks if n != OFFSET)
    return variables


def all_squares(products: list[Product]) -> bool:
    """Whether products are all squares of nodes, entry by entry."""
    return all(p.left is p.right and p.is_power for p in products)


def reduced(total: Graph, joint: LogJoint, point: Point, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    """A scalar graph in the latent variables with the data in it reduced to sufficient statistics."""
    latent = list(joint.values.values())
    dependence = depends_on([total], latent)
    if not dependence.get(total):
        return total
    separator = Separator({}, latent, *_evaluators([total], dependence, point, shapes, joint))
    return _guarded(materialised(separator.form(total))[0], separator)


def _guarded(value: Graph, separator: Separator) -> Graph:
    """−∞ where a parameter of some distribution leaves its range."""
    conditions = [leaf for condition in separator.conditions for leaf in _conjuncts(condition)]
    if not conditions:
        return value
    holds: list[Graph] = []
    for condition in dict.fromkeys(conditions):
        # One check for each value of a factor, not one for each row: σ[group] > 0 is σ > 0.
        for term in separator.form(condition).terms:
            factor = term.offset if term.factor is None else term.factor
            holds.append(pt.all(pt.gt(factor, 0.5)))
    return pt.switch(pt.all(pt.stack(holds)), value, -np.inf)


def _conjuncts(condition: Graph) -> list[Graph]:
    """The conditions that ``all`` joins."""
    node = condition.owner
    if node is not None and (isinstance(node.op, All | ptb.MakeVector | ptb.TensorFromScalar | ptb.ScalarFromTensor)):
        return [leaf for i in node.inputs for leaf in _conjuncts(i)]
    return [condition]


def _without_products(
    total: Graph, nodes: list[Graph], theta: list[Graph], held: Mapping[Graph, Graph]
) -> tuple[list[Graph], Graph, list[Graph | None]]:
    """The weights of the products, and value and gradient at θ₀ of what is left without them."""
    stand_ins = {n: n.type() for n in nodes}
    without = graph_replace([total], stand_ins, strict=False)[0] if nodes else total
    weights: Any = pytensor.grad(total, nodes, disconnected_inputs="ignore") if nodes else []
    linear: Any = pytensor.grad(without, theta, disconnected_inputs="ignore", return_disconnected="none")
    gradients = [g for g in linear if g is not None]
    # At θ = θ₀ and with the products at zero. Their shapes still count: sums broadcast over them.
    zeros = {s: pt.zeros_like(n) for n, s in stand_ins.items()}
    graphs = substitute(substitute([*weights, without, *gradients], zeros), held)
    answers = iter(graphs[len(weights) + 1 :])
    return graphs[: len(weights)], graphs[len(weights)], [None if g is None else next(answers) for g in linear]


def _evaluators(
    graphs: list[Graph],
    dependence: Mapping[Graph, Any],
    point: Point,
    shapes: Mapping[str, tuple[int, ...]],
    joint: LogJoint,
) -> tuple[Any, Any]:
    """Values of the nodes that depend on no latent variable, computed at once, and shapes of any node."""
    latent, arguments = list(joint.values.values()), _arguments(joint, point, shapes)
    frontier: dict[Graph, None] = {}
    for node in toposort(graphs):
        if any(dependence.get(o) for o in node.outputs):
            frontier.update((i, None) for i in node.inputs if not dependence.get(i))
    frontier.update((g, None) for g in graphs if not dependence.get(g))
    computed = [v for v in frontier if not isinstance(v, Constant | SharedVariable) and hasattr(v.type, "dtype")]
    values = dict(zip(computed, compile_small(latent, computed)(*arguments), strict=True)) if computed else {}

    def value_of(var: Graph) -> Any:
        if isinstance(var, Constant):
            return np.asarray(var.data)
        if isinstance(var, SharedVariable):
            return np.asarray(var.get_value(borrow=True))
        if var not in values:
            values[var] = compile_small(latent, var)(*arguments)
        return np.asarray(values[var])

    def shape_of(var: Graph) -> tuple[int, ...]:
        if None not in var.type.shape:
            return tuple(var.type.shape)
        return np.shape(compile_small(latent, var)(*arguments))

    return value_of, shape_of


def is_exponent(product: Product, var: Graph) -> bool:
    """Whether an argument of a product is the 2 of a square."""
    return product.is_power and len(product.node.inputs) > 1 and var is product.node.inputs[1]
