"""A Gaussian block with one prior scale and one noise scale, made diagonal once for all their values.

With the prior exp(−½ρ²|Mδ + m|²) and data whose precision is t G (ρ and t numbers that depend on φ; M, m and G
constants), let M⁻ᵀGM⁻¹ = Q diag(d) Qᵀ. In v = QᵀMδ prior and data are diagonal at every φ, with s = Qᵀm, e = QᵀM⁻ᵀη:

    log ∫ exp(−½ρ²|v + s|² + eᵀv − ½ t vᵀ diag(d) v) dδ
        = ½ D log 2π − log|det M| − ½ Σ log pᵢ + ½ Σ (eᵢ² − ρ² sᵢ (2eᵢ + t dᵢ sᵢ)) / pᵢ,    pᵢ = ρ² + t dᵢ.

An evaluation costs O(D) where a factorisation of Λ costs O(D³), which is most of what sampling a noise scale costs. The
squares ρ²s² of a strong prior cancel on paper, so that nothing is lost as ρ → ∞.

The eigenvalues have errors of the size of the largest one times the rounding of a number, so that G must be well
conditioned (in the prior's scale): else the block is factorised at every φ, which has small errors row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy import linalg

from bayeskit.gaussian.hierarchical_prior import Weighted
from bayeskit.gaussian.separated import stacked_matrix
from bayeskit.model.vector_layout import VectorLayout
from bayeskit.types import Graph

__all__ = ["Spectrum", "spectral_integral", "spectrum"]

LARGEST = 512  # size of θ up to which the eigenvalues are found
CONDITION = 1e7  # ratio of the eigenvalues up to which all of them are good to 1e-9
NUMBERS = 16  # numbers in φ by which the linear part is made up

Found = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The block in the coordinates in which it is diagonal."""

    prior: Graph | None  # ρ², where it is not 1
    data: Graph  # t
    values: np.ndarray  # d, of length D
    shift: np.ndarray  # s
    factors: list[Graph]  # numbers b_k in φ
    linear: np.ndarray  # of shape (D, K): e = Σ_k b_k linear[:, k]
    corner: np.ndarray  # c = Σ_k b_k corner[k], the log density of the data at δ = 0
    log_root: float  # log |det M|


def spectrum(
    prior: Sequence[Weighted], found: Sequence[Found], factors: Sequence[Graph], theta: VectorLayout
) -> Spectrum | None:
    """The spectrum of a block; None where it has more than one scale of each kind, or is ill-conditioned.

    ``prior`` has the squares of the block's own prior, as functions of δ, of which no weight is positive; ``found`` the
    keys, entries of β and constants of T that the data give; ``factors`` the vectors that β consists of.
    """
    size = theta.size
    if not found or not 0 < size <= LARGEST:
        return None
    root = _root(prior, theta)
    if root is None:
        return None
    key, entry, value = (np.concatenate(column) for column in zip(*found, strict=True))
    p, q = np.divmod(key, size + 1)
    square = p < size
    scales = np.unique(entry[square])
    used = np.unique(entry)
    if len(scales) != 1 or len(used) > NUMBERS:
        return None
    scale, matrix, shift = root
    gram = np.zeros((size, size))
    np.add.at(gram, (p[square], q[square]), -value[square])
    gram = np.tril(gram) + np.tril(gram, -1).T
    inverse = linalg.inv(matrix)
    values, vectors = linalg.eigh(inverse.T @ gram @ inverse)
    sign = 1.0
    if values[-1] < 0:
        sign, values = -1.0, -values
    if not 0 < max(values) <= CONDITION * min(values):
        return None
    column = np.searchsorted(used, entry)
    linear, corner = np.zeros((size, len(used))), np.zeros(len(used))
    first, last = (p == size) & (q < size), (p == size) & (q == size)
    np.add.at(linear, (q[first], column[first]), value[first])
    np.add.at(corner, column[last], 0.5 * value[last])
    numbers = [_number(factors, int(e)) for e in used]
    return Spectrum(
        prior=scale,
        data=sign * numbers[int(np.searchsorted(used, scales[0]))],
        values=values,
        shift=vectors.T @ shift,
        factors=numbers,
        linear=vectors.T @ (inverse.T @ linear),
        corner=corner,
        log_root=float(np.linalg.slogdet(matrix)[1]),
    )


def _number(factors: Sequence[Graph], entry: int) -> Graph:
    """One entry of the vectors put together."""
    for factor in factors:
        length = int(factor.type.shape[0])
        if entry < length:
            return factor[entry]
        entry -= length
    raise IndexError(entry)


def _root(prior: Sequence[Weighted], theta: VectorLayout) -> tuple[Graph | None, np.ndarray, np.ndarray] | None:
    """ρ², M and m; None where rows have different ρ, or M is not square and well conditioned."""
    size = theta.size
    if sum(form.size for form, _ in prior) != size:
        return None
    rows, names = [], set()
    for form, weight in prior:
        if len(form.terms) != 1 or len(weight.terms) != 1:
            return None
        (term,), (own,) = form.terms, weight.terms
        if term.index is not None or own.index is not None or (own.factor is None and np.any(own.offset >= 0)):
            return None
        names.add((term.factor, own.factor))
        root = np.sqrt(2.0 * np.abs(own.offset))
        rows.append(root[:, None] * stacked_matrix(term.jacobian, theta).toarray())
    if len(names) != 1:
        return None
    ((factor, weight_factor),) = names
    stacked = np.concatenate(rows)
    if not np.linalg.cond(stacked[:, :size]) <= CONDITION:
        return None
    scale: Any = None if factor is None else factor[0] ** 2
    if weight_factor is not None:
        scale = pt.abs(weight_factor[0]) * (1.0 if scale is None else scale)
    return scale, stacked[:, :size], stacked[:, size]


def spectral_integral(form: Spectrum) -> tuple[Graph, Graph]:
    """c, and the log integral over θ of the rest of a block's density."""
    prior: Any = 1.0 if form.prior is None else form.prior
    noise: Any = form.data * form.values
    pivots = prior + noise
    linear: Any = _combined(form.factors, form.linear)
    square = linear**2
    if np.any(form.shift):
        square = square - prior * form.shift * (2.0 * linear + form.shift * noise)
    value = 0.5 * pt.sum(square / pivots - pt.log(pivots))
    constant = 0.5 * len(form.values) * np.log(2 * np.pi) - form.log_root
    return _combined(form.factors, form.corner), value + constant


def _combined(factors: Sequence[Graph], table: np.ndarray) -> Graph:
    """Σ_k b_k table[..., k]."""
    terms: list[Any] = [f * table[..., k] for k, f in enumerate(factors) if np.any(table[..., k])]
    if not terms:
        return pt.zeros(table.shape[:-1])
    return pt.add(*terms) if len(terms) > 1 else terms[0]
