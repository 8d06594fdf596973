"""What a quadratic form is found in: a block at a typical point, its nodes separated, its density split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors

from bayeskit.errors import InferenceError
from bayeskit.gaussian.block import GaussianBlock, boundary, known_value, latent_values
from bayeskit.gaussian.factorisation import NotPositiveDefinite
from bayeskit.gaussian.gram import Product, sides_of
from bayeskit.gaussian.propriety import proper_at
from bayeskit.gaussian.separable_forms import OFFSET, Form, NotSeparable
from bayeskit.gaussian.separated import materialised
from bayeskit.gaussian.separator import Separator, Targets
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.nodes import conjuncts
from bayeskit.graphs.rewriting import depends_on, substitute
from bayeskit.model.data_slots import sealed_in
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.vector_layout import VectorLayout
from bayeskit.types import Graph, Point

__all__ = ["Setting", "reduced", "setting_of"]


@dataclass(frozen=True, eq=False)
class Setting:
    """What the quadratic form of a block is found from."""

    block: GaussianBlock
    separator: Separator  # has separated the factors of the products, their weights, ``rest`` and ``linear``
    weights: Mapping[Product, Graph]  # of each product of affine nodes in the log density
    prior: list[Product]  # those of the densities of the block's own variables alone
    linear: list[Graph | None]  # each variable's gradient at θ₀ of the log density without its products, if it has one
    rest: Graph  # the log density at θ₀ without its products
    points: list[Point]  # generic values of the variables outside the block
    origin: Point  # θ₀

    @property
    def theta(self) -> VectorLayout:
        """Where each variable lies in θ."""
        return self.block.theta

    @property
    def size(self) -> int:
        """D."""
        return self.theta.size

    @property
    def data(self) -> list[Product]:
        """The products that are not of the prior."""
        return [p for p in self.weights if p not in self.prior]

    def weight(self, product: Product, shape: tuple[int, ...]) -> Form:
        """The weight of a product, separated and of a shape."""
        return self.separator.form(self.weights[product]).to_shape(shape)

    def convex(self, products: list[Product]) -> bool:
        """Whether a square has a positive weight: a Potential 0.1μ² has, and no root, though the sum may be proper."""
        joint = self.block.joint
        function = compile_small(list(joint.values.values()), [self.weights[p] for p in products])
        results = (function(*latent_values(joint, point, self.block.shapes)) for point in self.points)
        return any(np.any(w > 0) for weights in results for w in weights)


def setting_of(block: GaussianBlock, points: list[Point]) -> Setting:
    """Separate the nodes of a block, and split its density into products of affine nodes and what is left of it.

    θ₀ is the block's mean at the first of the points, or zero where the data are sealed.
    """
    joint, products = block.joint, block.products
    mean = np.zeros(block.theta.size)
    try:
        if not _sealed(block):
            mean = proper_at(block, points[0]).mean
    except NotPositiveDefinite as error:
        raise InferenceError(
            f"the posterior precision of {', '.join(block.names)} is not positive definite at a typical point: the "
            "posterior is improper, or the data hold entries that are not finite; check priors, Potentials and data"
        ) from error
    sides = sides_of(products)
    prior = _own_products(block, products)
    unsafe = _magnified(sides_of(p for p in products if p not in prior), block, sides, points[0])
    origin = {n: value * (n not in unsafe) for n, value in block.theta.split(mean).items()}
    held = {joint.values[n]: pt.constant(origin[n]) for n in block.names}
    nodes = [p.node.outputs[0] for p in products]
    weights, rest, linear = _without_products(block.total, nodes, list(held), held)
    others = [var for p in products for var in p.others]
    separator = _separator(block, [*sides, *weights, rest, *[g for g in linear if g is not None], *others], points[0])
    rest = _guarded(materialised(separator.form(rest))[0], separator)
    of_products = dict(zip(products, weights, strict=True))
    return Setting(block, separator, of_products, prior, linear, rest, points, origin)


def _sealed(block: GaussianBlock) -> list[Graph]:
    return list(sealed_in([block.joint.factors[f] for f in block.factors]))


def _separator(block: GaussianBlock, graphs: list[Graph], point: Point) -> Separator:
    # What cannot be read is a symbol, as φ is.
    return _separated(graphs, block.joint, point, block.shapes, block.targets, _sealed(block))


def _own_products(block: GaussianBlock, products: list[Product]) -> list[Product]:
    """The products that belong to the densities of the block's own variables alone."""
    own: set[Graph] = set()
    others: set[Graph] = set()
    for factor in block.factors:
        (own if factor in block.names else others).update(ancestors([block.joint.factors[factor]]))
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


def reduced(total: Graph, joint: LogJoint, point: Point, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    """A scalar graph in the latent variables with the data in it reduced to sufficient statistics."""
    if not depends_on([total], joint.values.values()).get(total):
        return total
    separator = _separated([total], joint, point, shapes, {})
    return _guarded(materialised(separator.form(total))[0], separator)


def _guarded(value: Graph, separator: Separator) -> Graph:
    """−∞ where a parameter of some distribution leaves its range."""
    conditions = [leaf for condition in separator.conditions for leaf in conjuncts(condition)]
    if not conditions:
        return value
    holds: list[Graph] = []
    for condition in dict.fromkeys(conditions):
        # One check for each value of a factor, not one for each row: σ[group] > 0 is σ > 0.
        for term in separator.form(condition).terms:
            holds.append(pt.all(pt.gt(term.offset if term.factor is None else term.factor, 0.5)))
    return pt.switch(pt.all(pt.stack(holds)), value, -np.inf)


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


def _separated(
    graphs: list[Graph],
    joint: LogJoint,
    point: Point,
    shapes: Mapping[str, tuple[int, ...]],
    targets: Targets,
    symbols: Sequence[Graph] = (),
) -> Separator:
    """The forms of graphs; the values of nodes that depend on no latent variable and on no symbol, computed at once."""
    inputs, arguments = list(joint.values.values()), latent_values(joint, point, shapes)
    latent = [*inputs, *symbols]
    computed = boundary(graphs, depends_on(graphs, latent).get)
    values = dict(zip(computed, compile_small(inputs, computed)(*arguments), strict=True)) if computed else {}

    def value_of(var: Graph) -> Any:
        try:
            return np.asarray(known_value(var, values))
        except KeyError:
            values[var] = compile_small(inputs, var)(*arguments)
            return np.asarray(values[var])

    def shape_of(var: Graph) -> tuple[int, ...]:
        if None not in var.type.shape:
            return tuple(var.type.shape)
        return np.shape(compile_small(inputs, var)(*arguments))

    separator = Separator(targets, latent, value_of, shape_of)
    separator.walk(graphs)
    return separator
