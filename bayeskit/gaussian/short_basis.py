r"""Columns of one scale, of which there are more than rows, by as many as there are rows: U = U'Bᵀ with BᵀB = I.

In the notation of :mod:`bayeskit.gaussian.observation_space` the columns of a class have one ρ for all φ, so that
those of all designs M_f T⁻¹ are, under each other, (Q R)ᵀ with constants Q and R. U' has those of Rᵀ instead, and

.. math::

   U U^\top = U' U'^\top, \qquad U^\top A^{-1} = B\, U'^\top A^{-1}:

what costs O(D N²) for each φ costs O(N³), and a product with B.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayeskit.gaussian.observation_space import DataSide

__all__ = ["ShortBasis", "short_basis"]


@dataclass(frozen=True, eq=False)
class ShortBasis:
    """U' without factors, the class of each of its columns, and B: of each class its columns of U, and Q or None."""

    designs: np.ndarray  # of shape (designs, N, columns of U')
    classes: np.ndarray  # of the columns
    blocks: tuple[tuple[np.ndarray, np.ndarray | None], ...]

    def along(self, z: np.ndarray) -> np.ndarray:
        """Bᵀz for each row z."""
        return np.concatenate([z[:, m] if q is None else z[:, m] @ q for m, q in self.blocks], axis=1)

    @property
    def inside(self) -> np.ndarray:
        """Which of the columns of U are columns of U', too: nothing of these is outside B."""
        return np.concatenate([m for m, q in self.blocks if q is None] or [np.empty(0, dtype=int)])

    def lifted(self, short: np.ndarray) -> np.ndarray:
        """B times each row."""
        result = np.empty((len(short), sum(len(m) for m, _ in self.blocks)))
        start = 0
        for members, q in self.blocks:
            stop = start + (len(members) if q is None else q.shape[1])
            part = short[:, start:stop]
            result[:, members] = part if q is None else part @ q.T
            start = stop
        return result


def short_basis(side: DataSide) -> ShortBasis:
    """U' and B."""
    parts: list[np.ndarray] = []
    blocks: list[tuple[np.ndarray, np.ndarray | None]] = []
    order = np.argsort(side.classes, kind="stable")
    for members in np.split(order, np.cumsum(np.bincount(side.classes))[:-1]):
        part, q = np.concatenate([design[:, members] for design in side.designs]), None
        if part.shape[1] > len(part):
            q, upper = np.linalg.qr(part.T)
            part = upper.T
        parts.append(part)
        blocks.append((members, q))
    designs = np.concatenate(parts, axis=1).reshape(len(side.designs), side.rows, -1)
    classes = np.repeat(np.arange(len(parts)), [part.shape[1] for part in parts])
    return ShortBasis(designs, classes, tuple(blocks))
