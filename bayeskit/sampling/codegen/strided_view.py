"""Where the numbers of an array lie in a flat one: an offset, and a stride for each axis.

What NumPy calls a view (transposed, sliced, broadcast, a diagonal) is another offset and other strides, and costs
nothing. Everything is known before the program runs, so that each is a plain number in its source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Place"]


@dataclass(frozen=True)
class Place:
    """An array within a flat one.

    Attributes
    ----------
    array : str
        The name of the flat one.
    offset : int
        Where its first entry lies.
    shape, strides : tuple of int
        Its lengths, and how far apart neighbours along each axis are.
    """

    array: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def row_major(cls, array: str, offset: int, shape: Sequence[int]) -> Place:
        """Entries one after the other, the last axis fastest."""
        strides, step = [], 1
        for length in reversed(shape):
            strides.append(step)
            step *= length
        return cls(array, offset, tuple(shape), tuple(reversed(strides)))

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))

    @property
    def contiguous(self) -> bool:
        """Whether it is row-major without gaps."""
        whole = Place.row_major(self.array, self.offset, self.shape)
        pairs = zip(self.shape, self.strides, whole.strides, strict=True)
        return all(length == 1 or own == other for length, own, other in pairs)

    def broadcast(self, shape: Sequence[int]) -> Place:
        """As ``numpy.broadcast_to``."""
        missing = len(shape) - len(self.shape)
        own = [(1, 0)] * missing + list(zip(self.shape, self.strides, strict=True))
        strides = tuple(0 if n == 1 else s for n, s in own)
        if any(n not in (1, m) for (n, _), m in zip(own, shape, strict=True)):
            raise ValueError(f"{self.shape} does not broadcast to {tuple(shape)}")
        return Place(self.array, self.offset, tuple(shape), strides)

    def transposed(self, order: Sequence[int | str]) -> Place:
        """Axes in another order, those of length one left out or put in (``"x"``)."""
        shape = tuple(1 if k == "x" else self.shape[int(k)] for k in order)
        strides = tuple(0 if k == "x" else self.strides[int(k)] for k in order)
        return Place(self.array, self.offset, shape, strides)

    def indexed(self, index: Sequence[Any]) -> Place:
        """As NumPy's indexing by integers and slices."""
        offset, shape, strides = self.offset, [], []
        for axis, (length, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            at = index[axis] if axis < len(index) else slice(None)
            if isinstance(at, slice):
                start, stop, step = at.indices(length)
                shape.append(len(range(start, stop, step)))
                strides.append(stride * step)
                offset += start * stride if shape[-1] else 0
            elif -length <= at < length:
                offset += (at % length) * stride
            else:
                raise ValueError(f"index {at} of an axis of length {length}")
        return Place(self.array, offset, tuple(shape), tuple(strides))

    def diagonal(self, offset: int, first: int, second: int) -> Place:
        """As ``numpy.diagonal``."""
        start = offset * self.strides[second] if offset >= 0 else -offset * self.strides[first]
        rows = self.shape[first] - max(-offset, 0)
        length = max(min(rows, self.shape[second] - max(offset, 0)), 0)
        kept = [k for k in range(len(self.shape)) if k not in (first, second)]
        return Place(
            self.array,
            self.offset + (start if length else 0),
            (*(self.shape[k] for k in kept), length),
            (*(self.strides[k] for k in kept), self.strides[first] + self.strides[second]),
        )

    def addresses(self) -> np.ndarray:
        """Where in the flat array each entry lies."""
        result = np.full(self.shape, self.offset)
        for axis, (length, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            steps = stride * np.arange(length)
            result = result + steps.reshape([-1 if k == axis else 1 for k in range(len(self.shape))])
        return result
