r"""A block with a hierarchical prior in coordinates in which that prior is standard Normal, sparse where θ is long.

With the prior exp(−½|Rδ + r|²), R = diag(ρ) T with constant T, and T(φ) = Σ_k β_k G_k of the data, in w = diag(ρ) T δ

    ∫ exp(½ δ̃ᵀ T δ̃) dδ = |R|⁻¹ ∫ exp(−½|w + r|² + ½ Σ_k β_k w̃ᵀ S G'_k S w̃) dw,   G'_k = T⁻ᵀ G_k T⁻¹,

S = diag(1/ρ, 1). A prior sd τ → 0 enters as τ, not as 1/τ²: in θ the precision of a hundred group means and of their
own mean has lost every digit of what the data say at τ = 1e-8, and their constant is 1e14 with an integral as large. θ₀
is on the prior mean where ρ may change, so that r does not grow as τ vanishes, and near the data elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytensor.tensor as pt
from scipy import sparse

from bayeskit.gaussian.block import latent_values
from bayeskit.gaussian.entry_table import EntryTable, add_separable
from bayeskit.gaussian.hierarchical_prior import HierarchicalPrior, Weighted, hierarchical_prior
from bayeskit.gaussian.setting import Setting
from bayeskit.graphs.compile import compile_small
from bayeskit.types import Graph

__all__ = ["ScaledHierarchy", "scaled_hierarchy"]

FACTORS = 64  # entries of β up to which each has its own constant matrix
FILLED = 20  # times as many entries as the data's table may have in the new coordinates


@dataclass(frozen=True, eq=False)
class ScaledHierarchy:
    """The form in w: its entries are ``table @ beta`` at some positions of the lower triangle."""

    rows: np.ndarray
    columns: np.ndarray  # index D is the constant 1
    table: sparse.csr_array
    beta: Graph
    prior: HierarchicalPrior  # its origin is θ₀
    alone: bool  # whether the data's part does not depend on φ, so that θ is never the better choice


def scaled_hierarchy(setting: Setting, prior: Sequence[Weighted]) -> ScaledHierarchy | None:
    """The form of a block in w; None where its prior is no hierarchy with constant means, or its data no squares."""
    found = hierarchical_prior(prior, setting.theta)
    if found is None or found.centre is not None:
        return None
    shift = _shift(setting, found)
    origin = found.origin + found.inverse @ shift
    entries = EntryTable(setting.size)
    failed = add_separable(entries, replace(setting, origin=setting.theta.split(origin)), setting.data)
    if failed or entries.whole or entries.scattered or not entries.constants or entries.length > FACTORS:
        return None
    keys, entry, value = _of_data(entries, found.inverse)
    if len(value) > FILLED * sum(len(v) for _, _, v in entries.constants):
        return None
    pieces = _collected(keys, entry, value, entries.beta, found, shift)
    return ScaledHierarchy(*pieces, prior=replace(found, origin=origin), alone=entries.length == 1)


def _shift(setting: Setting, prior: HierarchicalPrior) -> np.ndarray:
    """T(θ₀ − prior mean): the block's mean, in the rows whose ρ is the same at all points."""
    joint = setting.block.joint
    spread = compile_small(list(joint.values.values()), prior.spread)
    at = np.array([spread(*latent_values(joint, point, setting.block.shapes)) for point in setting.points])
    still = np.ptp(at, axis=0) == 0
    away = prior.root @ (setting.theta.ravel(setting.origin) - prior.origin)
    return np.where(still[prior.classes], away, 0.0)


def _of_data(entries: EntryTable, inverse: sparse.csr_array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The constants of G'_k: keys of the lower triangle, entries of β, values."""
    size = entries.size + 1
    key, entry, value = (np.concatenate(column) for column in zip(*entries.constants, strict=True))
    change = sparse.block_diag([inverse, sparse.eye_array(1)], format="csr")
    keys, numbers, values = [], [], []
    for k in np.unique(entry):
        row, column = np.divmod(key[entry == k], size)
        lower = sparse.coo_array((value[entry == k], (row, column)), shape=(size, size))
        strict = sparse.csr_array(sparse.tril(lower, -1))
        whole = sparse.csr_array(lower) + strict.T
        found = sparse.coo_array(sparse.tril(change.T @ whole @ change))
        keys.append(found.coords[0].astype(np.int64) * size + found.coords[1])
        numbers.append(np.full(len(found.data), k))
        values.append(found.data)
    return np.concatenate(keys), np.concatenate(numbers), np.concatenate(values)


def _collected(
    keys: np.ndarray,
    entry: np.ndarray,
    value: np.ndarray,
    beta: Graph,
    prior: HierarchicalPrior,
    shift: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, sparse.csr_array, Graph]:
    """Those of the data times the scales of their rows and columns, those of the standard Normal prior added."""
    size, number = len(shift), len(np.bincount(prior.classes))
    scales = pt.concatenate([prior.spread, pt.ones(1)])  # S, one number a class
    classes = np.append(prior.classes, number)
    row, column = np.divmod(keys, size + 1)
    pairs = np.sort(np.stack([classes[row], classes[column]]), axis=0)
    kinds, kind = np.unique(np.stack([entry, *pairs]), axis=1, return_inverse=True)
    of_data = beta[kinds[0]] * scales[kinds[1]] * scales[kinds[2]]
    own = np.arange(size)
    # 1, then 1/ρ⁻¹ and its square: −½|w + r|² = −½|w|² − rᵀw − ½|r|².
    beta = pt.concatenate([of_data, pt.ones(1), 1.0 / prior.spread, prior.spread**-2.0])
    start = kinds.shape[1]
    squares = np.bincount(prior.classes, shift**2, minlength=number)
    parts = [
        (keys, np.ravel(kind), value),
        (own * (size + 1) + own, np.full(size, start), np.full(size, -1.0)),
        (size * (size + 1) + own, start + 1 + prior.classes, -shift),
        (np.full(number, size * (size + 1) + size), start + 1 + number + np.arange(number), -squares),
    ]
    key, place, constant = (np.concatenate(part) for part in zip(*parts, strict=True))
    pattern, where = np.unique(key, return_inverse=True)
    table = sparse.coo_array((constant, (np.ravel(where), place)), shape=(len(pattern), start + 1 + 2 * number))
    return *np.divmod(pattern, size + 1), sparse.csr_array(table), beta
