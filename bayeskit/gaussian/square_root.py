"""Squares Σ w u² of a block's density as rows, −½ |Aδ + a|²: its prior's root, and the data's where they are few."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy import sparse

from bayeskit.gaussian.coloured_jacobians import by_colour, compressed, patterns_of
from bayeskit.gaussian.entry_table import DENSE
from bayeskit.gaussian.gram import Product
from bayeskit.gaussian.hierarchical_prior import triangular_order
from bayeskit.gaussian.separable_forms import NotSeparable
from bayeskit.gaussian.separated import is_even, materialised, recentred, stacked_matrix
from bayeskit.gaussian.setting import Setting
from bayeskit.types import Graph

__all__ = ["prior_root", "square_root_rows"]


def prior_root(setting: Setting) -> tuple[Graph | None, int]:
    """The block's own prior as a square root (R, r), and the depth of R, 0 where it has none; None where it is not one.

    A prior sd τ → 0 makes Λ singular to working precision long before the integral stops changing: in eight schools
    Λ⁻¹ has lost every digit at τ = 1e-8. Given R, only I + R⁻ᵀ P R⁻¹ is factorised, with P the precision of the data.
    """
    size = setting.size
    result = square_root_rows(setting, setting.prior, size)
    if result is None or len(result[1]) != size:
        return None, 0
    root, pattern = result
    order, depth = triangular_order(sparse.csr_array(pattern), size) or (np.arange(size), 0)
    return pt.specify_shape(root[order], (size, size + 1)), depth


def square_root_rows(setting: Setting, products: list[Product], most: int) -> tuple[Graph, np.ndarray] | None:
    """Rows A and a with Σ w u² = −½ |Aδ + a|² for products that are squares, and which entries can differ from zero.

    None where some product is no square, or there are more than ``most`` rows.
    """
    squares = bool(products) and all(p.is_square for p in products)
    if setting.size > DENSE or not squares or setting.convex(products):
        return None
    shapes = [setting.separator.shape_of(p.left) for p in products]
    if sum(math.prod(s) for s in shapes) > most:
        return None
    rows, patterns = zip(*map(partial(_rows, setting), products, shapes), strict=True)
    return pt.concatenate(rows, axis=0), np.concatenate(patterns)


def _rows(setting: Setting, product: Product, shape: tuple[int, ...]) -> tuple[Graph, np.ndarray]:
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
