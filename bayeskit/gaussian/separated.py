"""Separable nodes as matrices in (δ, 1) and as vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy import sparse

from bayeskit.gaussian.jacobians import Jacobian, JacobianBlock
from bayeskit.gaussian.separable_forms import OFFSET, Form, Term
from bayeskit.model.vector_layout import VectorLayout
from bayeskit.types import Graph, Point

__all__ = ["factor_by_row", "is_even", "materialised", "recentred", "root_weight", "stacked_matrix"]


def recentred(form: Form, origin: Point) -> Form:
    """The same node as a function of δ = θ − θ₀."""
    terms = []
    for term in form.terms:
        shift = term.offset
        blocks = {n: b for n, b in term.jacobian.blocks.items() if n != OFFSET}
        for name, block in blocks.items():
            shift = shift + block.times_vector(np.ravel(origin[name]))
        blocks[OFFSET] = JacobianBlock(shift[:, None])
        terms.append(replace(term, jacobian=Jacobian(term.jacobian.shape, blocks)))
    return Form(form.shape, tuple(terms))


def stacked_matrix(jacobian: Jacobian, theta: VectorLayout) -> sparse.csr_array:
    """A Jacobian in (δ, 1) as one sparse matrix."""
    rows, columns, data = [np.zeros(0, dtype=int)], [np.zeros(0, dtype=int)], [np.zeros(0)]
    for name, block in jacobian.blocks.items():
        part = sparse.coo_array(block.plain())
        rows.append(part.coords[0])
        columns.append(part.coords[1] + (theta.size if name == OFFSET else theta.slices[name].start))
        data.append(part.data)
    coords = (np.concatenate(rows), np.concatenate(columns))
    return sparse.csr_array(sparse.coo_array((np.concatenate(data), coords), shape=(jacobian.size, theta.size + 1)))


def materialised(form: Form) -> Graph:
    """A form without θ as a flat vector."""
    total: Any = pt.zeros(form.size)
    for term in form.terms:
        offset = term.offset
        if term.factor is None:
            total = total + pt.constant(offset)
        else:
            factor = term.factor if term.index is None else term.factor[term.index]
            total = total + (factor if np.all(offset == 1) else factor * offset)
    return total


def factor_by_row(term: Term) -> Graph:
    """b[index], one number a row."""
    if term.factor is None:
        return pt.ones(term.jacobian.size)
    return pt.ones(term.jacobian.size) * term.factor if term.index is None else term.factor[term.index]


def root_weight(weight: Form) -> Graph:
    """√(−2w): exp(w u²) = exp(−½ (√(−2w) u)²)."""
    return pt.sqrt(-2.0 * materialised(weight))


def is_even(weight: Form) -> bool:
    """Whether a form without θ has the same value in every row, whatever φ."""
    return all(t.index is None and (not t.offset.size or np.ptp(t.offset) == 0) for t in weight.terms)
