r"""log |A_S| and b_Sᵀ A_S⁻¹ b_S for every subset S of the rows of A, and sums of their derivatives.

The subsets are the leaves of a tree that decides one row at a time. A row that is in is eliminated from A and b, one
that is out is crossed out; what is left for the rows to come is shared by all subsets that agree so far. With a pivot
d = A₀₀, its column m and b₀,

.. math::
    A' = A - m m^\top / d, \quad b' = b - m b_0 / d, \quad
    \log |A_S| \mathrel{+}= \log d, \quad b_S^\top A_S^{-1} b_S \mathrel{+}= b_0^2 / d,

which costs Σ_k 2^(p−k) k² ≈ 6 · 2^p products for all 2^p subsets, a level at a time. Subset number Σ_j 2^j [j ∈ S].

Read backwards (reverse mode), the same tree gives ∂/∂A and ∂/∂b of any Σ_S (u_S b_Sᵀ A_S⁻¹ b_S + v_S log |A_S|) at the
same price. As ∂ log |A_S| / ∂A = A_S⁻¹ and ∂ b_Sᵀ A_S⁻¹ b_S / ∂A = −m_S m_Sᵀ with m_S = A_S⁻¹ b_S, these are the
moments of a mixture over all subsets, without a solve for any one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["NotDefinite", "Swept", "add_terms", "sweep", "sweep_moments"]

TOGETHER = 18  # rows decided for all subsets at once; those before them, one branch after the other: bounds the memory


class NotDefinite(ArithmeticError):
    """A matrix that is not positive definite to rounding; ``left`` rows are left where a pivot vanishes."""

    def __init__(self, left: int) -> None:
        super().__init__(left)
        self.left = left


@dataclass(frozen=True, eq=False)
class Swept:
    """Of each subset log |A_S| and b_Sᵀ A_S⁻¹ b_S; ``pivot`` is the least 1 − R² of a row on others."""

    log_determinant: np.ndarray
    gain: np.ndarray
    pivot: float


@dataclass(frozen=True, eq=False)
class _Level:
    """What is left of A and b in every branch."""

    matrix: np.ndarray  # (branches, k, k)
    vector: np.ndarray  # (branches, k)


def sweep(matrix: np.ndarray, vector: np.ndarray, taken: Sequence[bool] = ()) -> Swept:
    """Over all subsets of the rows of a symmetric, positive definite matrix; NotDefinite where it is none.

    With ``taken``, over those in which the first rows are in or out as it says.
    """
    scale = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    if not np.all(scale > 0):
        raise NotDefinite(len(vector) - int(np.argmin(scale)))
    way = _way(_Level((matrix / np.outer(scale, scale))[None], (vector / scale)[None]), taken)
    left = len(vector) - len(taken)
    split = max(0, left - TOGETHER)
    levels = _levels(way[-1], split)
    logs, gains, pivot = _leaves(levels)
    for level, inside in zip(way, taken, strict=False):
        if inside:
            logs, gains = logs + np.log(level.matrix[0, 0, 0]), gains + level.vector[0, 0] ** 2 / level.matrix[0, 0, 0]
            pivot = min(pivot, float(level.matrix[0, 0, 0]))
    top, last = levels[-1], 1 << (left - split)
    log_determinant, gain = np.empty((last, len(logs))), np.empty((last, len(logs)))
    for branch in range(len(logs)):
        inner, more, least = _leaves(_levels(_branch(top, branch), left - split))
        log_determinant[:, branch], gain[:, branch] = logs[branch] + inner, gains[branch] + more
        pivot = min(pivot, least)
    flat = log_determinant.reshape(-1)
    add_terms(flat, 2 * np.log(scale), taken)
    return Swept(flat, gain.reshape(-1), pivot)


def sweep_moments(
    matrix: np.ndarray, vector: np.ndarray, of_gain: np.ndarray, of_log: np.ndarray, taken: Sequence[bool] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """∂/∂A and ∂/∂b of Σ_S (u_S b_Sᵀ A_S⁻¹ b_S + v_S log |A_S|), ``of_gain`` being u and ``of_log`` v."""
    scale = np.sqrt(np.diag(matrix))
    way = _way(_Level((matrix / np.outer(scale, scale))[None], (vector / scale)[None]), taken)
    left = len(vector) - len(taken)
    split = max(0, left - TOGETHER)
    levels, branches = _levels(way[-1], split), 1 << split
    top = levels[-1]
    u, v = of_gain.reshape(-1, branches), of_log.reshape(-1, branches)
    slopes = [
        _backward(_levels(_branch(top, branch), left - split), *_nothing(u[:, branch], v[:, branch]))
        for branch in range(branches)
    ]
    each = _backward(levels, *(np.concatenate(parts) for parts in zip(*slopes, strict=True)))
    for level, inside in reversed(list(zip(way, taken, strict=False))):
        # Of the other side of the decision nothing is asked.
        each = _backward([level, level], *(np.concatenate([0 * e, e] if inside else [e, 0 * e]) for e in each))
    return each[0][0] / np.outer(scale, scale), each[1][0] / scale


def add_terms(values: np.ndarray, terms: np.ndarray, taken: Sequence[bool] = ()) -> None:
    """Add to the value of each subset the terms of its rows."""
    for term, inside in zip(terms, taken, strict=False):
        if inside:
            values += term
    for j, term in enumerate(terms[len(taken) :]):
        values.reshape(-1, 2, 1 << j)[:, 1] += term


def _way(first: _Level, taken: Sequence[bool]) -> list[_Level]:
    """What is left before each of the decisions that are made, and after the last."""
    way = [first]
    for inside in taken:
        way.append(_branch(_levels(way[-1], 1)[-1], int(inside)))
    return way


def _branch(level: _Level, branch: int) -> _Level:
    return _Level(level.matrix[branch : branch + 1], level.vector[branch : branch + 1])


def _levels(first: _Level, depth: int) -> list[_Level]:
    """What is left after each of the first decisions."""
    levels = [first]
    for _ in range(depth):
        matrix, vector = levels[-1].matrix, levels[-1].vector
        pivot, column, head = matrix[:, 0, 0], matrix[:, 1:, 0], vector[:, 0]
        if not np.all(pivot > np.finfo(float).eps):
            raise NotDefinite(vector.shape[1])
        ratio = column / pivot[:, None]
        out = matrix[:, 1:, 1:]
        into = out - ratio[:, :, None] * column[:, None, :]
        levels.append(
            _Level(
                np.concatenate([out, into]),
                np.concatenate([vector[:, 1:], vector[:, 1:] - ratio * head[:, None]]),
            )
        )
    return levels


def _leaves(levels: list[_Level]) -> tuple[np.ndarray, np.ndarray, float]:
    """log determinant and gain of every branch at the end, and the least pivot."""
    log, gain, least = np.zeros(1), np.zeros(1), np.inf
    for level in levels[:-1]:
        pivot, head = level.matrix[:, 0, 0], level.vector[:, 0]
        log = np.concatenate([log, log + np.log(pivot)])
        gain = np.concatenate([gain, gain + head**2 / pivot])
        least = min(least, float(pivot.min()))
    return log, gain, least


def _nothing(gain: np.ndarray, log: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Slopes at the leaves, where no row is left."""
    return np.zeros((len(gain), 0, 0)), np.zeros((len(gain), 0)), gain, log


def _backward(
    levels: list[_Level], of_matrix: np.ndarray, of_vector: np.ndarray, of_gain: np.ndarray, of_log: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Slopes in what is left at the first level, from those at the last; those of matrices are symmetric."""
    for level in reversed(levels[:-1]):
        half = len(level.matrix)
        pivot, column, head = level.matrix[:, 0, 0], level.matrix[:, 1:, 0], level.vector[:, 0]
        inner, row, gain, log = of_matrix[half:], of_vector[half:], of_gain[half:], of_log[half:]
        ratio, share = column / pivot[:, None], head / pivot
        pushed = np.einsum("bij,bj->bi", inner, ratio)
        along = np.einsum("bi,bi->b", row, ratio)
        k = level.vector.shape[1]
        matrix, vector = np.empty((half, k, k)), np.empty((half, k))
        matrix[:, 1:, 1:] = of_matrix[:half] + inner
        matrix[:, 1:, 0] = matrix[:, 0, 1:] = -pushed - 0.5 * row * share[:, None]
        matrix[:, 0, 0] = np.einsum("bi,bi->b", ratio, pushed) + along * share - gain * share**2 + log / pivot
        vector[:, 1:] = of_vector[:half] + row
        vector[:, 0] = -along + 2 * gain * share
        of_matrix, of_vector, of_gain, of_log = matrix, vector, of_gain[:half] + gain, of_log[:half] + log
    return of_matrix, of_vector, of_gain, of_log
