"""Separable nodes as matrices in (δ, 1) and as vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy import sparse

from bayeskit.gaussian.jacobians import Jacobian, JacobianBlock
from bayeskit.gaussian.separable_forms import OFFSET, Form
from bayeskit.types import Graph, Point

__all__ = ["is_even", "materialised", "recentred", "stacked_matrix"]


def recentred(form: Form, origin: Point) -> Form:
    """The same node as a function of δ = θ − θ₀."""
    terms = []
    for term in form.terms:
        shift = term.offset
        for name, block in term.jacobian.blocks.items():
            if name != OFFSET:
                shift = shift + block.times_vector(np.ravel(origin[name]))
        blocks = {n: b for n, b in term.jacobian.blocks.items() if n != OFFSET}
        blocks[OFFSET] = JacobianBlock(shift[:, None])
        terms.append(replace(term, jacobian=Jacobian(term.jacobian.shape, blocks)))
    return Form(form.shape, tuple(terms))


def stacked_matrix(jacobian: Jacobian, slices: Mapping[str, slice], size: int) -> sparse.csr_array:
    """A Jacobian in (δ, 1) as one sparse matrix."""
    rows, columns, data = [np.zeros(0, dtype=int)], [np.zeros(0, dtype=int)], [np.zeros(0)]
    for name, block in jacobian.blocks.items():
        part = sparse.coo_array(block.plain())
        rows.append(part.coords[0])
        columns.append(part.coords[1] + (size if name == OFFSET else slices[name].start))
        data.append(part.data)
    coords = (np.concatenate(rows), np.concatenate(columns))
    return sparse.csr_array(sparse.coo_array((np.concatenate(data), coords), shape=(jacobian.size, size + 1)))


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


def is_even(weight: Form) -> bool:
    """Whether a form without θ has the same value in every row, whatever φ."""
    return all(t.index is None and np.ptp(t.offset) == 0 for t in weight.terms)
