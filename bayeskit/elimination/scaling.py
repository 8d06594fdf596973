"""How a scale, a vector of scales or a precision matrix multiplies the precision of a Gaussian block.

It is proved beforehand that the block's precision Λ(φ) is linear in φ^κ (or in W). What is left to find out is which
entries of θ each φ_j governs, or that Λ(W) = K ⊗ W. Both are identities of linear maps and rational functions, so they
hold everywhere if they hold at one random point.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeskit.elimination.symbols import NotProved
from bayeskit.families.support_kinds import POSITIVE_DEFINITE
from bayeskit.gaussian.block import GaussianBlock

__all__ = ["groups", "wishart_multiple"]

TOLERANCE = 1e-9


def groups(block: GaussianBlock, name: str, kappa: int, point: Mapping[str, Any]) -> np.ndarray:
    """For each entry of the stacked block, the flat index of the entry of φ that scales its precision by φ^kappa.

    NotProved if an entry of θ is governed by several entries of φ, or two governed by different ones are coupled.
    """
    shape = np.shape(point[name])
    count = int(np.prod(shape, dtype=int))
    size = sum(int(np.prod(s, dtype=int)) for s in (block.shapes[n] for n in block.names))
    if count == 1:
        return np.zeros(size, dtype=int)
    # Distinct ratios tell the entries of φ apart; 0.6…1.9 keeps the matrix well scaled.
    ratio = np.random.default_rng(0).permutation(np.linspace(0.6, 1.9, count) + 1e-3 / (1 + np.arange(count)))
    base, _ = block.quadratic(point)
    other, _ = block.quadratic({**point, name: np.asarray(point[name]) * ratio.reshape(shape)})
    base, other = (m.toarray() if hasattr(m, "toarray") else m for m in (base, other))
    change = np.diag(other) / np.diag(base)
    wanted = ratio**kappa
    index = np.argmin(np.abs(change[:, None] - wanted), axis=1)
    expected = base * wanted[index][:, None]
    scale = np.sqrt(np.outer(np.diag(base), np.diag(base)))
    if np.any(np.abs(expected - other) > TOLERANCE * scale) or np.any(
        np.abs(expected - expected.T) > TOLERANCE * scale
    ):
        names = ", ".join(block.names)
        raise NotProved(
            f"its entries share entries of {names}, whose precision is then not scaled by a single one of them"
        )
    return index


def wishart_multiple(block: GaussianBlock, name: str, point: Mapping[str, Any]) -> np.ndarray:
    """The matrix K of Λ(W) = K ⊗ W, for a block of K.shape[0] vectors that share the precision matrix W.

    NotProved if the precision of the block is not of this form, or its mean depends on W.
    """
    generator = np.random.default_rng(0)
    size = np.shape(point[name])[0]
    failure = NotProved(
        f"the precision of {', '.join(block.names)} is not a multiple of it; its prior needs tau = kappa * {name}"
    )
    means, multiples = [], []
    for _ in range(2):
        matrix = POSITIVE_DEFINITE.typical((size, size), generator)
        precision, linear = block.quadratic({**point, name: matrix})
        if len(linear) % size:
            raise failure
        count = len(linear) // size
        precision = precision.toarray() if hasattr(precision, "toarray") else precision
        tensor = precision.reshape(count, size, count, size)
        multiple = np.einsum("aibj,ij->ab", tensor, np.linalg.inv(matrix)) / size
        if np.max(np.abs(tensor - np.einsum("ab,ij->aibj", multiple, matrix))) > TOLERANCE * np.max(np.abs(tensor)):
            raise failure
        means.append(np.linalg.solve(precision, linear))
        multiples.append(multiple)
    spread = 1.0 / np.sqrt(np.max(np.abs(multiples[0])))
    if np.max(np.abs(means[0] - means[1])) > 1e-7 * (spread + np.max(np.abs(means[0]))):
        raise failure
    if np.max(np.abs(multiples[0] - multiples[1])) > TOLERANCE * np.max(np.abs(multiples[0])):
        raise failure
    return multiples[0]
