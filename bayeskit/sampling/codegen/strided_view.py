"""Where the numbers of an array lie in a flat one.

What NumPy calls a view of an array (transposed, sliced, broadcast, a diagonal) is the same view of its addresses: an
offset, and a stride for each axis. Everything is known before the program runs, so that each is a plain number in its
source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Place"]


@dataclass(frozen=True, eq=False)
class Place:
    """An array within a flat one, by the name of that and the address of each entry: a view of consecutive numbers."""

    array: str
    addresses: np.ndarray

    @classmethod
    def row_major(cls, array: str, offset: int, shape: Sequence[int]) -> Place:
        """Entries one after the other, the last axis fastest."""
        return cls(array, np.arange(offset, offset + int(np.prod(shape, dtype=int))).reshape(shape))

    def seen(self, addresses: np.ndarray) -> Place:
        """The same numbers, or some of them, by a view of the addresses."""
        return Place(self.array, addresses)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.addresses.shape

    @property
    def size(self) -> int:
        return self.addresses.size

    @property
    def offset(self) -> int:
        """Where the first entry lies."""
        return int(self.addresses.flat[0]) if self.size else 0

    @property
    def strides(self) -> tuple[int, ...]:
        """How far apart neighbours along each axis are."""
        return tuple(step // self.addresses.itemsize for step in self.addresses.strides)

    @property
    def contiguous(self) -> bool:
        """Whether it is row-major without gaps."""
        return bool(self.addresses.flags.c_contiguous)
