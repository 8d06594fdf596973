"""The quadratic form of a Gaussian block as a graph in the remaining variables φ alone.

With δ = θ − θ₀ and δ̃ = (δ, 1), a block's log density is rest(φ) + ½ δ̃ᵀ T(φ) δ̃, where

    Λ = −T[θ, θ],   η = T[θ, 1],   c = ½ T[1, 1].

T is a sum over the products u·v of affine nodes with weight w: Σ w (ũ ṽᵀ + ṽ ũᵀ). Separable nodes (see
:mod:`bayeskit.gaussian.separable_forms`) give T = Σ_k β_k(φ) G_k with constant G_k, kept for the entries of T that can
differ from zero: β is short, and no evaluation touches the data again. The other nodes are differentiated as graphs,
several entries of θ at once where no row has two of them (Curtis, Powell and Reid 1974).

θ₀ is a typical value of θ. Without it c − ½ ηᵀΛ⁻¹η would be the difference of two numbers of the size of yᵀy/σ², which
for y near 10⁶ with σ = 1 leaves no digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.replace import graph_replace, vectorize_graph
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor import basic as ptb
from pytensor.tensor.math import All, Dot
from scipy import sparse

from bayeskit.errors import InferenceError
from bayeskit.gaussian.block import GaussianBlock, Product, weighted_product
from bayeskit.gaussian.factorisation import NotPositiveDefinite
from bayeskit.gaussian.jacobians import Jacobian
from bayeskit.gaussian.observation_space import DataSide, data_side
from bayeskit.gaussian.plate_rotation import Plates, rotated
from bayeskit.gaussian.separable_forms import OFFSET, Form, NotSeparable, Separator, Term, broadcast_term, dot_rows
from bayeskit.gaussian.separated import materialised, recentred, stacked_matrix
from bayeskit.gaussian.simultaneous_diagonal import Spectrum, spectrum
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.nodes import core_op
from bayeskit.graphs.rewriting import depends_on, substitute
from bayeskit.model.log_joint import LogJoint
from bayeskit.types import Graph

__all__ = ["Point", "QuadraticForm", "multiplied", "quadratic_form", "reduced"]

Point = Mapping[str, np.ndarray]
STACKED = 64  # values of a factor up to which each gets its own constant matrix
ENTRIES = 20_000_000  # constants kept for one product of nodes; beyond it, it is multiplied out at each evaluation
DATA_ROWS = 600  # rows of data up to which residuals are computed one by one
DENSE = 64  # size of θ up to which T is kept whole


@dataclass(frozen=True, eq=False)
class QuadraticForm:
    """T(φ) of one block, entry by entry.

    Attributes
    ----------
    names : tuple of str
        The variables of θ, in the order in which they are stacked.
    origin : numpy.ndarray
        θ₀, stacked, of length D.
    rows, columns : numpy.ndarray
        Positions of the entries of T that can differ from zero, of its lower triangle; index D is the constant 1.
    values : tensor
        Those entries, a vector.
    rest : tensor
        rest(φ), a scalar.
    root : tensor or None
        R and r of shape (D, D + 1), where the block's own prior is exp(−½|Rδ + r|²): then T is that of the rest.
    depth : int
        Where rows and columns can be ordered so that R is triangular, the rows are those of their columns, and this is
        the length of the longest chain of variables each of which is the parent of the next: 1 where R is diagonal. 0
        where they cannot.
    data : tensor or None
        B and b of shape (rows, D + 1), where the rest of the density is rest − ½|Bδ + b|² and has few rows: then the
        residual is known, not only its square, which must not be got as a difference where the noise is small.
    side : DataSide or None
        The block on the side of the data, where they have fewer rows than θ has entries; the entries of T are then not
        needed, and there are none.
    spectrum : Spectrum or None
        The block in coordinates in which it is diagonal at every φ, where there are some.
    plates : Plates or None
        A shorter form with the same integral, where members of a plate share one precision.
    beta : tensor or None
        β of ``plates``.
    """

    names: tuple[str, ...]
    origin: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    values: Graph
    rest: Graph
    root: Graph | None = None
    depth: int = 0
    data: Graph | None = None
    side: DataSide | None = None
    spectrum: Spectrum | None = None
    plates: Plates | None = None
    beta: Graph | None = None

    @property
    def size(self) -> int:
        return len(self.origin)

    @property
    def weight(self) -> int:
        """About how many numbers a solution holds."""
        if self.spectrum is not None:
            return self.size
        if self.plates is not None:
            return self.plates.size**2
        return self.size**2 if self.side is None else self.side.weight


class _Entries:
    """Sums of constants times factors, for entries of T in its lower triangle, as they are found."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.factors: list[Graph] = [pt.ones(1)]
        self.start = {None: 0}
        self.length = 1
        self.found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # key, entry of β, constant
        self.whole: list[Graph] = []  # contributions to T as a matrix of its own
        self.scattered: list[tuple[np.ndarray, np.ndarray, Graph]] = []  # key, multiple, vector

    def offset_of(self, factor: Graph | None, length: int) -> int:
        if factor not in self.start:
            self.start[factor] = self.length
            self.factors.append(factor)
            self.length += length
        return self.start[factor]

    def keys(self, p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Number of the entry of the lower triangle, and 2 on the diagonal: T = G + Gᵀ."""
        # SciPy's sparse indices are of 32 bits: from 46,341 entries of θ on, their products overflow.
        p, q = np.asarray(p, dtype=np.int64), np.asarray(q, dtype=np.int64)
        key = np.maximum(p, q) * (self.size + 1) + np.minimum(p, q)
        return key, np.where(p == q, 2.0, 1.0)

    def add(self, p: np.ndarray, q: np.ndarray, entry: np.ndarray | int, value: np.ndarray) -> None:
        kept = value != 0
        key, multiple = self.keys(p[kept], q[kept])
        entries = np.broadcast_to(np.asarray(entry), value.shape)[kept]
        self.found.append((key, entries, value[kept] * multiple))

    def pattern(self) -> np.ndarray:
        """The keys of all entries, sorted."""
        if self.whole or self.size <= DENSE:
            p, q = np.tril_indices(self.size + 1)
            return p * (self.size + 1) + q
        keys = [k for k, _, _ in self.found] + [k for k, _, _ in self.scattered]
        return np.unique(np.concatenate(keys)) if keys else np.zeros(0, dtype=int)

    @cached_property
    def beta(self) -> Graph:
        return pt.concatenate(self.factors) if len(self.factors) > 1 else self.factors[0]

    def table(self, pattern: np.ndarray) -> sparse.csr_array:
        """G of the entries of T that are Gβ; of all of them, where nothing is ``scattered`` or ``whole``."""
        key, entry, value = (np.concatenate(column) for column in zip(*self.found, strict=True))
        place = np.searchsorted(pattern, key)
        return sparse.csr_array(sparse.coo_array((value, (place, entry)), shape=(len(pattern), self.length)))

    def values(self, pattern: np.ndarray) -> Graph:
        total: Any = pt.zeros(len(pattern))
        if self.found:
            total = total + multiplied(self.table(pattern), self.beta)
        for key, multiple, vector in self.scattered:
            total = pt.inc_subtensor(total[np.searchsorted(pattern, key)], vector * multiple)
        if self.whole:
            rows, columns = np.divmod(pattern, self.size + 1)
            matrix: Any = pt.add(*self.whole) if len(self.whole) > 1 else self.whole[0]
            total = total + (matrix + matrix.T)[rows, columns]
        return total


def multiplied(table: sparse.csr_array, beta: Graph) -> Graph:
    """A constant sparse matrix times a short vector."""
    if table.shape[1] <= 8 or table.shape[0] * table.shape[1] <= 4_000_000:
        return pt.dot(table.toarray(), beta)
    entries = sparse.coo_array(table)
    rows, columns = entries.coords
    terms = beta[columns] * entries.data
    if len(np.unique(rows)) == len(rows) == table.shape[0]:
        return terms[np.argsort(rows)]
    return pt.inc_subtensor(pt.zeros(table.shape[0])[rows], terms)


def quadratic_form(block: GaussianBlock, points: list[Point]) -> QuadraticForm:
    """The quadratic form of a block, with the data reduced to sufficient statistics where they have some.

    Parameters
    ----------
    block : GaussianBlock
    points : list of mapping of str to array
        Values of the variables outside the block. θ₀ is the block's mean at the first; all of them show which entries
        of a Jacobian can differ from zero, so they must be generic (no zeros, no ties).
    """
    joint = block.joint
    graphs = [joint.factors[f] for f in block.factors]
    products = block.products
    try:
        gaussian = block.at(points[0])
    except NotPositiveDefinite as error:
        raise InferenceError(
            f"the posterior precision of {', '.join(block.names)} is not positive definite at a typical point: the "
            "posterior is improper, or the data hold entries that are not finite; check priors, Potentials and data"
        ) from error
    theta = {joint.values[n]: (n, block.shapes[n]) for n in block.names}
    latent = list(joint.values.values())
    sides = list(dict.fromkeys([s for p in products for s in (p.left, p.right)]))
    first = _separator(sides, theta, latent, points[0], block)
    prior = _own_products(block, products)
    unsafe = _magnified([s for p in products if p not in prior for s in (p.left, p.right)], first, block.names)
    origin = {n: v * 0.0 if n in unsafe else v for n, v in gaussian.split(gaussian.mean).items()}
    held = {joint.values[n]: pt.constant(origin[n]) for n in block.names}
    total = pt.add(*[pt.sum(g) for g in graphs], pt.constant(0.0))
    nodes = [p.node.outputs[0] for p in products]
    weights, rest, linear = _split(total, nodes, list(theta), held)
    everything = [*sides, *weights, rest, *[g for g in linear if g is not None], *_other_inputs(products)]
    separator = _separator(everything, theta, latent, points[0], block)
    size = gaussian.size
    slices = gaussian.slices
    entries = _Entries(size)
    setting = _Setting(block, separator, dict(zip(products, weights, strict=True)), theta, points, origin, slices)
    rest_of_density = _guarded(materialised(separator.form(rest))[0], separator)
    if all(g is None for g in linear):
        side = _data_side(setting, prior, [p for p in products if p not in prior])
        if side is not None:
            nothing = np.zeros(0, dtype=int)
            empty: Graph = pt.zeros(0)
            return QuadraticForm(block.names, side.origin, nothing, nothing, empty, rest_of_density, side=side)
    root, depth = _prior_root(setting, prior)
    data = None
    if root is not None and all(g is None for g in linear):
        data = _square_root(setting, [p for p in products if p not in prior], DATA_ROWS)
    others = [p for p in products if p not in prior]
    failed = [] if root is not None else _add_products(entries, setting, prior)
    of_prior = len(entries.found)
    failed += _add_products(entries, setting, others)
    if failed:
        _add_graphs(entries, block, failed, theta, points, origin, slices)
    for name, gradient in zip(block.names, linear, strict=True):
        if gradient is not None:
            _add_linear(entries, separator.form(gradient), slices[name])
    constant = bool(entries.found) and not entries.whole and not entries.scattered
    pattern = entries.pattern()
    rows, columns = np.divmod(pattern, size + 1)
    diagonal = _spectrum(setting, prior, entries, of_prior) if data is None and not failed and constant else None
    plates = None
    if root is None and diagonal is None and constant:
        plates = rotated(size, rows, columns, entries.table(pattern))
    return QuadraticForm(
        names=block.names,
        origin=np.concatenate([np.ravel(origin[n]) for n in block.names]),
        rows=rows,
        columns=columns,
        values=entries.values(pattern),
        rest=rest_of_density,
        root=root,
        depth=depth,
        data=None if data is None else data[0],
        spectrum=diagonal,
        plates=plates,
        beta=None if plates is None else entries.beta,
    )


def _add_products(entries: _Entries, setting: _Setting, products: list[Product]) -> list[tuple[Product, Graph]]:
    """Add what is separable; the rest, each with its weight."""
    failed = []
    for product in products:
        weight, separator = setting.weights[product], setting.separator
        try:
            left, right = separator.form(product.left), separator.form(product.right)
        except NotSeparable:
            failed.append((product, weight))
            continue
        scale = _whole_weight(product, separator, weight)
        _add_product(entries, separator, product, left, right, scale, setting.origin, setting.slices)
    return failed


def _spectrum(setting: _Setting, prior: list[Product], entries: _Entries, of_prior: int) -> Spectrum | None:
    """The block made diagonal, where its prior has one scale and its data another."""
    if not prior or not _simple(prior) or _convex(setting, prior):
        return None
    forms = []
    for product in prior:
        try:
            form = recentred(setting.separator.form(product.left), setting.origin)
        except NotSeparable:
            return None
        forms.append((form, setting.separator.form(setting.weights[product]).to_shape(form.shape)))
    return spectrum(forms, entries.found[of_prior:], entries.factors, setting.slices)


@dataclass(frozen=True, eq=False)
class _Setting:
    """What finding the rows of a block's products takes."""

    block: GaussianBlock
    separator: Separator
    weights: Mapping[Product, Graph]
    theta: Mapping[Graph, tuple[str, tuple[int, ...]]]
    points: list[Point]
    origin: Point
    slices: Mapping[str, slice]

    @property
    def size(self) -> int:
        return sum(s.stop - s.start for s in self.slices.values())


def _separator(
    graphs: list[Graph],
    theta: Mapping[Graph, tuple[str, tuple[int, ...]]],
    latent: list[Graph],
    point: Point,
    block: GaussianBlock,
) -> Separator:
    dependence = depends_on(graphs, latent)
    evaluators = _evaluators(graphs, dependence, latent, point, block.shapes, block.joint)
    separator = Separator(theta, dependence, *evaluators)
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


def _magnified(sides: list[Graph], separator: Separator, names: tuple[str, ...]) -> set[str]:
    """Variables that reach the data multiplied by a factor of their own, as z in y − μ − τz.

    With z₀ ≠ 0 the residual τz₀ grows without bound as τ does, and the integral would be the difference of two such
    squares; z₀ = 0 leaves the residual alone.
    """
    found: set[str] = set()
    for side in sides:
        try:
            form = separator.form(side)
        except NotSeparable:
            return set(names)
        for term in form.terms:
            if len(form.terms) > 1 and term.factor is not None and not np.any(term.offset):
                found.update(n for n in term.jacobian.blocks if n != OFFSET)
    return found


def _prior_root(setting: _Setting, prior: list[Product]) -> tuple[Graph | None, int]:
    """The block's own prior as a square root (R, r), and the depth of R; None where it is not one.

    A prior sd τ → 0 makes Λ singular to working precision long before the integral stops changing: in eight schools
    Λ⁻¹ has lost every digit at τ = 1e-8. Given R, only I + R⁻ᵀ P R⁻¹ is factorised, with P the precision of the data.
    """
    size = setting.size
    found = _square_root(setting, prior, size)
    if found is None or len(found[1]) != size:
        return None, 0
    root, pattern = found
    order, depth = _triangular(pattern)
    return pt.specify_shape(root[order], (size, size + 1)), depth


def _triangular(pattern: np.ndarray) -> tuple[np.ndarray, int]:
    """The row of each column and the depth, for a square pattern that is triangular in some order; else depth 0."""
    size, depth = len(pattern), 0
    row_of = np.full(size, -1)
    left = pattern.copy()
    while np.any(row_of < 0):
        rows = np.flatnonzero(left.sum(axis=1) == 1)
        columns = np.argmax(left[rows], axis=1)
        if not len(rows) or len(np.unique(columns)) < len(columns):
            return np.arange(size), 0
        row_of[columns] = rows
        left[:, columns] = False
        depth += 1
    return row_of, depth


def _data_side(setting: _Setting, prior: list[Product], data: list[Product]) -> DataSide | None:
    """The block on the side of the data; None where its products are no squares, or it is better solved in θ."""
    if not _simple([*prior, *data]):
        return None
    forms = []
    for product in (*prior, *data):
        try:
            form = setting.separator.form(product.left)
        except NotSeparable:
            return None
        forms.append((form, setting.separator.form(setting.weights[product]).to_shape(form.shape)))
    found = data_side(forms[: len(prior)], forms[len(prior) :], setting.slices)
    return None if found is None or _convex(setting, [*prior, *data]) else found


def _simple(products: list[Product]) -> bool:
    """Whether products are all squares of nodes, entry by entry."""
    return all(p.left is p.right and not isinstance(core_op(p.node), Dot) and _is_power(p) for p in products)


def _square_root(setting: _Setting, products: list[Product], most: int) -> tuple[Graph, np.ndarray] | None:
    """Rows A and a with Σ w u² = −½ |Aδ + a|² for products that are squares, and which entries can differ from zero.

    None where some product is no square, or there are more than ``most`` rows.
    """
    size = setting.size
    if size > DENSE or not _simple(products) or not products or _convex(setting, products):
        return None
    shapes = [_side_shape(setting.block, p.left, setting.points) for p in products]
    if sum(int(np.prod(s, dtype=int)) for s in shapes) > most:
        return None
    rows: list[Any] = []
    patterns: list[np.ndarray] = []
    for product, shape in zip(products, shapes, strict=True):
        separator, side = setting.separator, product.left
        scale = pt.sqrt(-2.0 * materialised(separator.form(setting.weights[product]).to_shape(shape)))
        try:
            form = recentred(separator.form(side), setting.origin)
        except NotSeparable:
            colours = np.arange(size)
            answer = _by_colour([side], setting.theta, colours, setting.origin, setting.slices, setting.block)[side]
            jacobian, _ = _compressed(answer, np.zeros(0, dtype=int))
            rows.append(jacobian.T * scale[:, None])
            pattern = _patterns(setting.block, [side], setting.theta, setting.points, setting.slices, size)[side]
            patterns.append(pattern.toarray() != 0)
            continue
        total: Any = 0.0
        matrices = [stacked_matrix(term.jacobian, setting.slices, size).toarray() for term in form.terms]
        uniform = _uniform(separator.form(setting.weights[product])) and all(t.index is None for t in form.terms)
        if uniform and len(matrices[0]) > sum(m.shape[1] for m in matrices):
            # |Σ f_k M_k δ̃| with numbers f_k is that of the triangular factor of (M_1 … M_K): as good, and shorter.
            short = np.linalg.qr(np.concatenate(matrices, axis=1), mode="r")
            matrices, scale = np.split(short, len(matrices), axis=1), scale[: len(short)]
        used = np.zeros((len(matrices[0]), size), dtype=bool)
        for term, matrix in zip(form.terms, matrices, strict=True):
            factor = 1.0 if term.factor is None else term.factor if term.index is None else term.factor[term.index]
            total = total + (scale * factor)[:, None] * matrix
            used |= matrix[:, :size] != 0
        rows.append(total)
        patterns.append(used)
    return pt.concatenate(rows, axis=0) if len(rows) > 1 else rows[0], np.concatenate(patterns)


def _convex(setting: _Setting, products: list[Product]) -> bool:
    """Whether some square has a positive weight: a Potential 0.1μ² has, and no root, though the sum may be proper."""
    values = setting.block.joint.values
    function = compile_small(list(values.values()), [setting.weights[p] for p in products])
    for point in setting.points:
        arguments = [
            np.asarray(point[n] if n in point else np.zeros(setting.block.shapes[n]), dtype=v.type.dtype)
            for n, v in values.items()
        ]
        if any(np.any(w > 0) for w in function(*arguments)):
            return True
    return False


def _uniform(form: Form) -> bool:
    """Whether a form without θ has the same value in every row, whatever φ."""
    return all(t.index is None and np.ptp(t.offset) == 0 for t in form.terms)


def _is_power(product: Product) -> bool:
    return type(core_op(product.node).scalar_op).__name__ in ("Sqr", "Pow")


def reduced(total: Graph, joint: LogJoint, point: Point, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    """A scalar graph in the latent variables with the data in it reduced to sufficient statistics."""
    latent = list(joint.values.values())
    dependence = depends_on([total], latent)
    if not dependence.get(total):
        return total
    separator = Separator({}, dependence, *_evaluators([total], dependence, latent, point, shapes, joint))
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


def _split(
    total: Graph, nodes: list[Graph], theta: list[Graph], held: Mapping[Graph, Graph]
) -> tuple[list[Graph], Graph, list[Graph | None]]:
    """The weights of the products, and value and gradient at θ₀ of what is left without them."""
    stand_ins = {n: n.type() for n in nodes}
    without = graph_replace([total], stand_ins, strict=False)[0] if nodes else total
    weights: Any = pytensor.grad(total, nodes, disconnected_inputs="ignore") if nodes else []
    linear: Any = pytensor.grad(without, theta, disconnected_inputs="ignore", return_disconnected="none")
    found = [g for g in linear if g is not None]
    # At θ = θ₀ and with the products at zero. Their shapes still count: sums broadcast over them.
    zeros = {s: pt.zeros_like(n) for n, s in stand_ins.items()}
    graphs = substitute(substitute([*weights, without, *found], zeros), held)
    answers = iter(graphs[len(weights) + 1 :])
    return graphs[: len(weights)], graphs[len(weights)], [None if g is None else next(answers) for g in linear]


def _other_inputs(products: list[Product]) -> list[Graph]:
    return [i for p in products for i in p.node.inputs if i is not p.left and i is not p.right]


def _evaluators(
    graphs: list[Graph],
    dependence: Mapping[Graph, Any],
    latent: list[Graph],
    point: Point,
    shapes: Mapping[str, tuple[int, ...]],
    joint: LogJoint,
) -> tuple[Any, Any]:
    """Values of the nodes that depend on no latent variable, computed at once, and shapes of any node."""
    arguments = [np.asarray(point.get(n, np.zeros(shapes[n])), dtype=v.type.dtype) for n, v in joint.values.items()]
    frontier: dict[Graph, None] = {}
    for node in toposort(graphs):
        if any(dependence.get(o) for o in node.outputs):
            frontier.update((i, None) for i in node.inputs if not dependence.get(i))
    frontier.update((g, None) for g in graphs if not dependence.get(g))
    computed = [v for v in frontier if not isinstance(v, Constant | SharedVariable) and hasattr(v.type, "dtype")]
    found = dict(zip(computed, compile_small(latent, computed)(*arguments), strict=True)) if computed else {}

    def value_of(var: Graph) -> Any:
        if isinstance(var, Constant):
            return np.asarray(var.data)
        if isinstance(var, SharedVariable):
            return np.asarray(var.get_value(borrow=True))
        if var not in found:
            found[var] = compile_small(latent, var)(*arguments)
        return np.asarray(found[var])

    def shape_of(var: Graph) -> tuple[int, ...]:
        if None not in var.type.shape:
            return tuple(var.type.shape)
        return np.shape(compile_small(latent, var)(*arguments))

    return value_of, shape_of


def _whole_weight(product: Product, separator: Separator, weight: Graph) -> Form:
    """The weight of a product, times the factors of a Mul that are not affine in θ."""
    form = separator.form(weight)
    if isinstance(core_op(product.node), Dot):
        return form
    shape = np.broadcast_shapes(form.shape, separator.shape_of(product.node.outputs[0]))
    form = form.to_shape(shape)
    seen = 0
    for var in product.node.inputs:
        if var is product.left or var is product.right:
            seen += 1
        elif len(product.node.inputs) > 1 and not _is_exponent(product, var):
            form = separator._multiply_forms(form, separator.form(var).to_shape(shape))
    return form


def _is_exponent(product: Product, var: Graph) -> bool:
    return type(core_op(product.node).scalar_op).__name__ == "Pow" and var is product.node.inputs[1]


def _add_product(
    entries: _Entries,
    separator: Separator,
    product: Product,
    left: Form,
    right: Form,
    weight: Form,
    origin: Point,
    slices: Mapping[str, slice],
) -> None:
    """Add Σ w u v for two separable nodes."""
    same = product.left is product.right
    left = recentred(left, origin)
    right = left if same else recentred(right, origin)
    if isinstance(core_op(product.node), Dot):
        rows, columns, repeat = dot_rows(left.shape, right.shape)
        shape = rows.shape
        left, right = left.rows(rows, shape), right.rows(columns, shape)
        weight = weight.rows(repeat, shape)
        same = False
    shape = np.broadcast_shapes(left.shape, right.shape, weight.shape)
    weight = weight.to_shape(shape)
    ones = [broadcast_term(t, shape) for t in left.terms]
    twos = ones if same else [broadcast_term(t, shape) for t in right.terms]
    for w in weight.terms:
        for a in ones:
            for b in twos:
                _add_pair(entries, separator, a, b, w, slices)


def _add_pair(entries: _Entries, separator: Separator, a: Term, b: Term, w: Term, slices: Mapping[str, slice]) -> None:
    factor, index = separator.multiply(a.factor, a.index, b.factor, b.index)
    factor, index = separator.multiply(factor, index, w.factor, w.index)
    weight = w.offset
    if index is None:
        _add_gram(entries, a.jacobian, b.jacobian, weight, entries.offset_of(factor, 1), slices)
        return
    used, index = np.unique(index, return_inverse=True)
    assert factor is not None
    length = int(used.max()) + 1
    start = entries.offset_of(factor, _length(factor, length))
    if len(used) <= STACKED:
        for k, entry in enumerate(used):
            rows = np.flatnonzero(index == k)
            one = a.rows(rows, (len(rows),)).jacobian
            two = one if b is a else b.rows(rows, (len(rows),)).jacobian
            _add_gram(entries, one, two, weight[rows], start + int(entry), slices)
        return
    left, right = stacked_matrix(a.jacobian, slices, entries.size), stacked_matrix(b.jacobian, slices, entries.size)
    pairs = int(np.sum(np.diff(left.indptr).astype(float) * np.diff(right.indptr)))
    if pairs <= ENTRIES and (entries.size > DENSE or pairs <= 20 * len(weight)):
        row, p, q, value = _row_products(left, right)
        entries.add(p, q, start + used[index[row]], value * weight[row])
    else:
        scale = factor[used[index]] * weight
        one_matrix = left.toarray()
        two_matrix = one_matrix if a is b else right.toarray()
        entries.whole.append(pt.dot(pt.constant(one_matrix.T) * scale, pt.constant(two_matrix)))


def _length(factor: Graph, at_least: int) -> int:
    length = factor.type.shape[0]
    if length is None:
        raise NotImplementedError(f"a factor of unknown length, at least {at_least}")
    return int(length)


def _add_gram(
    entries: _Entries, a: Jacobian, b: Jacobian, weight: np.ndarray, entry: int, slices: Mapping[str, slice]
) -> None:
    """Add Aᵀ diag(w) B for one entry of β."""
    place = {n: s.start for n, s in slices.items()} | {OFFSET: entries.size}
    weight = weight[:1] if weight.size and np.all(weight == weight[0]) else weight
    for one, x in a.blocks.items():
        for two, y in b.blocks.items():
            if a is b and place[two] < place[one]:
                continue  # the symmetric half
            gram = sparse.coo_array(weighted_product(x, y, weight))
            p, q = gram.coords
            value = gram.data * (2.0 if a is b and one != two else 1.0)
            entries.add(p + place[one], q + place[two], entry, value)


def _row_products(
    left: sparse.csr_array, right: sparse.csr_array
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Row by row, every product of an entry of the left with one of the right: row, both columns, product."""
    one, two = np.diff(left.indptr), np.diff(right.indptr)
    count = one * two
    row = np.repeat(np.arange(len(count)), count)
    within = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    i = left.indptr[row] + within // np.maximum(two[row], 1)
    j = right.indptr[row] + within % np.maximum(two[row], 1)
    return row, left.indices[i], right.indices[j], left.data[i] * right.data[j]


def _add_linear(entries: _Entries, form: Form, where: slice) -> None:
    """Add gᵀδ, the part of the log density that is linear in θ without being part of a product."""
    for term in form.terms:
        value = term.offset
        entry: Any = entries.offset_of(term.factor, 1 if term.factor is None else _length(term.factor, 1))
        if term.index is not None:
            entry = entry + term.index
        place = np.arange(where.start, where.stop)
        entries.add(np.full(len(value), entries.size), place, entry, value)


# -- nodes that are not separable --------------------------------------------------------------------------------------
def _add_graphs(
    entries: _Entries,
    block: GaussianBlock,
    failed: list[tuple[Product, Graph]],
    theta: Mapping[Graph, tuple[str, tuple[int, ...]]],
    points: list[Point],
    origin: Point,
    slices: Mapping[str, slice],
) -> None:
    """Differentiate nodes as graphs: u(θ) = u(0) + Jθ, with all columns of J of one colour at once."""
    sides = list(dict.fromkeys([s for p, _ in failed for s in (p.left, p.right)]))
    patterns = _patterns(block, sides, theta, points, slices, entries.size)
    colours = _colours(patterns, entries.size)
    count = int(colours.max(initial=-1)) + 1
    answers = _by_colour(sides, theta, colours, origin, slices, block)
    columns = {}
    for side in sides:
        pattern = patterns[side]
        owner = np.full((count + 1, pattern.shape[0]), -1)
        entry = sparse.coo_array(pattern)
        owner[colours[entry.coords[1]], entry.coords[0]] = entry.coords[1]
        owner[count] = entries.size
        columns[side] = owner
    for product, weight in failed:
        left, one = _compressed(answers[product.left], columns[product.left])
        right, two = _compressed(answers[product.right], columns[product.right])
        scale: Any = weight
        op = core_op(product.node)
        shapes = [_side_shape(block, product.left, points), _side_shape(block, product.right, points)]
        if isinstance(op, Dot):
            rows, cols, repeat = dot_rows(*shapes)
            left, one, right, two = (
                left[:, rows.ravel()],
                one[:, rows.ravel()],
                right[:, cols.ravel()],
                two[:, cols.ravel()],
            )
            scale = pt.flatten(pt.broadcast_to(weight, _dot_shape(*shapes)))[repeat.ravel()]
        else:
            shape = np.broadcast_shapes(*shapes)
            for var in product.node.inputs:
                if var is not product.left and var is not product.right and not _is_exponent(product, var):
                    scale = scale * var
            spread = [np.broadcast_to(np.arange(int(np.prod(s, dtype=int))).reshape(s), shape).ravel() for s in shapes]
            left, one, right, two = left[:, spread[0]], one[:, spread[0]], right[:, spread[1]], two[:, spread[1]]
            scale = pt.flatten(pt.broadcast_to(scale, shape))
        _add_compressed(entries, left, one, right, two, scale, whole=count == entries.size)


def _by_colour(
    sides: list[Graph],
    theta: Mapping[Graph, tuple[str, tuple[int, ...]]],
    colours: np.ndarray,
    origin: Point,
    slices: Mapping[str, slice],
    block: GaussianBlock,
) -> dict[Graph, Any]:
    """Each node at θ = 0, at θ₀, and at the sum of the unit vectors of every colour, along a new first axis."""
    count, size = int(colours.max(initial=-1)) + 1, len(colours)
    seeds = np.zeros((count + 2, size))
    seeds[1] = np.concatenate([np.ravel(origin[n]) for n in block.names])
    seeds[colours + 2, np.arange(size)] = 1.0
    batched = {v: pt.constant(seeds[:, slices[n]].reshape(count + 2, *shape)) for v, (n, shape) in theta.items()}
    return dict(zip(sides, vectorize_graph(sides, batched), strict=True))


def _side_shape(block: GaussianBlock, side: Graph, points: list[Point]) -> tuple[int, ...]:
    if None not in side.type.shape:
        return tuple(side.type.shape)
    latent = block.joint.values
    arguments = [np.asarray(points[0].get(n, np.zeros(block.shapes[n])), dtype=v.type.dtype) for n, v in latent.items()]
    return np.shape(compile_small(list(latent.values()), side)(*arguments))


def _dot_shape(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    return np.shape(np.empty(left) @ np.empty(right))


def _compressed(answer: Any, owner: np.ndarray) -> tuple[Graph, np.ndarray]:
    """Jacobian by colour with the offset as last row, and the entry of (θ, 1) that each number belongs to."""
    flat = pt.reshape(answer, (answer.shape[0], -1))
    return pt.concatenate([flat[2:] - flat[0], flat[1:2]], axis=0), owner


def _add_compressed(
    entries: _Entries,
    left: Any,
    one: np.ndarray,
    right: Any,
    two: np.ndarray,
    scale: Any,
    *,
    whole: bool,
) -> None:
    if whole:
        entries.whole.append(pt.dot(left * scale, right.T))
        return
    keys, multiples, vectors = [], [], []
    for i in range(len(one)):
        for j in range(len(two)):
            used = np.flatnonzero((one[i] >= 0) & (two[j] >= 0))
            if len(used):
                key, multiple = entries.keys(one[i][used], two[j][used])
                keys.append(key)
                multiples.append(multiple)
                vectors.append(left[i, used] * right[j, used] * scale[used])
    entries.scattered.append((np.concatenate(keys), np.concatenate(multiples), pt.concatenate(vectors)))


def _patterns(
    block: GaussianBlock,
    sides: list[Graph],
    theta: Mapping[Graph, tuple[str, tuple[int, ...]]],
    points: list[Point],
    slices: Mapping[str, slice],
    size: int,
) -> dict[Graph, sparse.csr_array]:
    """Which entries of θ each row of a node can depend on, from its Jacobians at generic values of φ."""
    found: dict[Graph, Any] = {}
    for point in points:
        for side, jacobian in block.jacobians_at(sides, theta, point).items():
            matrix = abs(stacked_matrix(jacobian, slices, size))[:, :size]
            found[side] = matrix if side not in found else found[side] + matrix
    return {s: sparse.csr_array(m) for s, m in found.items()}


def _colours(patterns: Mapping[Graph, sparse.csr_array], size: int) -> np.ndarray:
    """A colour for each entry of θ such that no row of any node has two entries of one colour."""
    if size <= DENSE:
        return np.arange(size)
    stacked = sparse.csr_array(sparse.vstack(list(patterns.values())))
    stacked.data = np.ones_like(stacked.data)
    if np.max(np.diff(stacked.indptr), initial=0) > size // 2:
        return np.arange(size)
    neighbours = sparse.csr_array(stacked.T @ stacked)
    colours = np.full(size, -1)
    for entry in range(size):
        taken = set(colours[neighbours.indices[neighbours.indptr[entry] : neighbours.indptr[entry + 1]]])
        colour = 0
        while colour in taken:
            colour += 1
        colours[entry] = colour
    return colours
