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

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy import sparse

from bayeskit.gaussian.banded_layout import layout
from bayeskit.gaussian.block import GaussianBlock
from bayeskit.gaussian.coloured_jacobians import add_coloured, by_colour, compressed, patterns_of
from bayeskit.gaussian.entry_table import DENSE, EntryTable, add_linear, add_separable, multiplied
from bayeskit.gaussian.gram import Product
from bayeskit.gaussian.hierarchical_prior import HierarchicalPrior, Weighted, triangular_order
from bayeskit.gaussian.observation_space import DataSide, data_side
from bayeskit.gaussian.plate_rotation import Plates, rotated
from bayeskit.gaussian.scaled_hierarchy import scaled_hierarchy
from bayeskit.gaussian.separable_forms import Form, NotSeparable
from bayeskit.gaussian.separated import is_even, materialised, recentred, stacked_matrix
from bayeskit.gaussian.setting import Setting, setting_of
from bayeskit.gaussian.simultaneous_diagonal import Spectrum, spectrum
from bayeskit.model.data_slots import DataRead, sealed_in
from bayeskit.types import Graph, Point

__all__ = ["QuadraticForm", "quadratic_form"]

TWICE = 2_000  # size of θ up to which a block may be solved in two ways at each evaluation
DATA_ROWS = 600  # rows of data up to which residuals are computed one by one


@dataclass(frozen=True, eq=False)
class QuadraticForm:
    """T(φ) of one block, entry by entry."""

    origin: np.ndarray  # θ₀, stacked, of length D
    # Positions of the entries of T that can differ from zero, of its lower triangle; index D is the constant 1.
    rows: np.ndarray
    columns: np.ndarray
    values: Graph  # those entries, a vector
    rest: Graph  # rest(φ), a scalar
    # R and r of shape (D, D + 1), where the block's own prior is exp(−½|Rδ + r|²): then T is that of the rest.
    root: Graph | None = None
    # Where rows and columns can be ordered so that R is triangular, the rows are those of their columns, and this is
    # the longest chain of variables each of which is the parent of the next: 1 where R is diagonal. Else 0.
    depth: int = 0
    # B and b of shape (rows, D + 1), where the rest of the density is rest − ½|Bδ + b|² and has few rows: then the
    # residual is known, not only its square, which must not be got as a difference where the noise is small.
    data: Graph | None = None
    # On the side of the data, where they have fewer rows than θ has entries; T is then not needed, and has no entries.
    side: DataSide | None = None
    spectrum: Spectrum | None = None  # in coordinates in which the block is diagonal at every φ, where there are some
    plates: Plates | None = None  # a shorter form with the same integral, where members of a plate share one precision
    beta: Graph | None = None  # β of ``plates``
    scaled: ScaledForm | None = None  # in coordinates of a long hierarchical prior, where there are some

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


@dataclass(frozen=True, eq=False)
class ScaledForm:
    """A form in w = diag(ρ) T (θ − θ₀), in which the block's own prior is standard Normal."""

    form: QuadraticForm
    prior: HierarchicalPrior  # ρ, T and θ₀
    alone: bool  # whether it is the better one at every φ


def quadratic_form(block: GaussianBlock, points: list[Point]) -> QuadraticForm:
    """The quadratic form of a block, with the data reduced to sufficient statistics where they have some.

    ``points`` are values of the variables outside the block. θ₀ is the block's mean at the first; all of them show
    which entries of a Jacobian can differ from zero, so they must be generic (no zeros, no ties).
    """
    setting = setting_of(block, points)
    size, squares = setting.size, all(g is None for g in setting.linear)
    side = _data_side(setting) if squares else None
    # A design with a zero has another structure; residuals are linear in the data whatever these are.
    factors = [block.joint.factors[f] for f in block.factors]
    if sealed_in(factors if side is None else [side.factors, side.spread, setting.rest]):
        raise DataRead("more of the block than its residuals depends on the data")
    if side is not None:
        nothing, none = np.zeros(0, dtype=int), pt.zeros(0)
        return QuadraticForm(side.origin, nothing, nothing, none, setting.rest, side=side)
    root, depth = _prior_root(setting)
    data = _square_root_rows(setting, setting.data, DATA_ROWS) if root is not None and squares else None
    entries = EntryTable(size)
    failed = [] if root is not None else add_separable(entries, setting, setting.prior)
    of_prior = len(entries.constants)
    failed += add_separable(entries, setting, setting.data)
    if failed:
        add_coloured(entries, setting, failed)
    for name, gradient in zip(block.names, setting.linear, strict=True):
        if gradient is not None:
            add_linear(entries, setting.separator.form(gradient), block.theta.slices[name])
    constant = bool(entries.constants) and not entries.whole and not entries.scattered
    pattern = entries.pattern()
    rows, columns = np.divmod(pattern, size + 1)
    diagonal = _spectrum(setting, entries, of_prior) if data is None and not failed and constant else None
    alike = root is None and diagonal is None and constant
    plates = rotated(size, rows, columns, entries.table(pattern)) if alike else None
    return QuadraticForm(
        origin=block.theta.ravel(setting.origin),
        rows=rows,
        columns=columns,
        values=entries.values(pattern),
        rest=setting.rest,
        root=root,
        depth=depth,
        data=None if data is None else data[0],
        spectrum=diagonal,
        plates=plates,
        beta=None if plates is None else entries.beta,
        scaled=_scaled(setting) if alike and squares and size > DENSE else None,
    )


def _scaled(setting: Setting) -> ScaledForm | None:
    """A long block in the coordinates of its hierarchical prior; None where it is dense in them."""
    prior = _weighted(setting, setting.prior)
    found = None if not prior or setting.convex(setting.prior) else scaled_hierarchy(setting, prior)
    if found is None or (setting.size > TWICE and not found.alone):
        return None
    rows, columns, table, size = found.rows, found.columns, found.table, setting.size
    plates = rotated(size, rows, columns, table)
    if plates is None and not len(layout(size, rows, columns).inner):
        return None
    form = QuadraticForm(
        np.zeros(size), rows, columns, multiplied(table, found.beta), pt.constant(0.0), plates=plates, beta=found.beta
    )
    return ScaledForm(form, found.prior, found.alone)


def _weighted(setting: Setting, products: list[Product]) -> list[Weighted] | None:
    """The nodes of squares, each with its weight; None where some product is no square, or its node not separable."""
    if not all(p.is_square for p in products):
        return None
    try:
        forms = [setting.separator.form(p.left) for p in products]
    except NotSeparable:
        return None
    return [_counted(f, setting.weight(p, f.shape)) for p, f in zip(products, forms, strict=True)]


def _counted(form: Form, weight: Form) -> Weighted:
    """A square without the rows whose weight is zero at every φ, those of observations left out."""
    counts = np.any([t.offset != 0 for t in weight.terms], axis=0) if weight.terms else np.zeros(form.size, bool)
    if np.all(counts):
        return form, weight
    rows = np.flatnonzero(counts)
    return form.rows(rows, rows.shape), weight.rows(rows, rows.shape)


def _spectrum(setting: Setting, entries: EntryTable, of_prior: int) -> Spectrum | None:
    """The block made diagonal, where its prior has one scale and its data another."""
    prior = _weighted(setting, setting.prior)
    if not prior or setting.convex(setting.prior):
        return None
    centred = [(recentred(form, setting.origin), weight) for form, weight in prior]
    return spectrum(centred, entries.constants[of_prior:], entries.factors, setting.theta)


def _data_side(setting: Setting) -> DataSide | None:
    """The block on the side of the data; None where its products are no squares, or it is better solved in θ."""
    prior, data = _weighted(setting, setting.prior), _weighted(setting, setting.data)
    side = None if prior is None or data is None else data_side(prior, data, setting.theta)
    return None if side is None or setting.convex([*setting.prior, *setting.data]) else side


def _prior_root(setting: Setting) -> tuple[Graph | None, int]:
    """The block's own prior as a square root (R, r), and the depth of R, 0 where it has none; None where it is not one.

    A prior sd τ → 0 makes Λ singular to working precision long before the integral stops changing: in eight schools
    Λ⁻¹ has lost every digit at τ = 1e-8. Given R, only I + R⁻ᵀ P R⁻¹ is factorised, with P the precision of the data.
    """
    size = setting.size
    result = _square_root_rows(setting, setting.prior, size)
    if result is None or len(result[1]) != size:
        return None, 0
    root, pattern = result
    order, depth = triangular_order(sparse.csr_array(pattern), size) or (np.arange(size), 0)
    return pt.specify_shape(root[order], (size, size + 1)), depth


def _square_root_rows(setting: Setting, products: list[Product], most: int) -> tuple[Graph, np.ndarray] | None:
    """Rows A and a with Σ w u² = −½ |Aδ + a|² for products that are squares, and which entries can differ from zero.

    None where some product is no square, or there are more than ``most`` rows.
    """
    squares = bool(products) and all(p.is_square for p in products)
    if setting.size > DENSE or not squares or setting.convex(products):
        return None
    shapes = [setting.separator.shape_of(p.left) for p in products]
    if sum(math.prod(s) for s in shapes) > most:
        return None
    rows, patterns = zip(*map(partial(_rows_of_square, setting), products, shapes), strict=True)
    return pt.concatenate(rows, axis=0), np.concatenate(patterns)


def _rows_of_square(setting: Setting, product: Product, shape: tuple[int, ...]) -> tuple[Graph, np.ndarray]:
    """Those of one square."""
    size, side, weight = setting.size, product.left, setting.weight(product, shape)
    scale: Any = pt.sqrt(-2.0 * materialised(weight))
    try:
        form = recentred(setting.separator.form(side), setting.origin)
    except NotSeparable:
        jacobian: Any = compressed(by_colour(setting, [side], np.arange(size))[side])
        return jacobian.T * scale[:, None], patterns_of(setting, [side])[side].toarray() != 0
    matrices = [stacked_matrix(term.jacobian, setting.theta).toarray() for term in form.terms]
    uniform = is_even(setting.separator.form(setting.weights[product])) and all(t.index is None for t in form.terms)
    if uniform and len(matrices[0]) > sum(m.shape[1] for m in matrices):
        # |Σ f_k M_k δ̃| with numbers f_k is that of the triangular factor of (M_1 … M_K): as good, and shorter.
        short = np.linalg.qr(np.concatenate(matrices, axis=1), mode="r")
        matrices, scale = np.split(short, len(matrices), axis=1), scale[: len(short)]
    total: Any = 0.0
    for term, matrix in zip(form.terms, matrices, strict=True):
        factor = 1.0 if term.factor is None else term.factor if term.index is None else term.factor[term.index]
        total = total + (scale * factor)[:, None] * matrix
    return total, np.any([matrix[:, :size] != 0 for matrix in matrices], axis=0)
