"""Several variables as one vector: where each of them lies, in both directions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

__all__ = ["VectorLayout"]


@dataclass(frozen=True)
class VectorLayout:
    """Where each variable, of these shapes and in this order, lies in a vector."""

    shapes: dict[str, tuple[int, ...]]

    @cached_property
    def slices(self) -> dict[str, slice]:
        """The places of each variable."""
        result, start = {}, 0
        for name, shape in self.shapes.items():
            stop = start + int(np.prod(shape, dtype=int))
            result[name] = slice(start, stop)
            start = stop
        return result

    @property
    def size(self) -> int:
        """The length of the vector."""
        return sum(s.stop - s.start for s in self.slices.values())

    def split(self, vectors: np.ndarray) -> dict[str, np.ndarray]:
        """Each variable's part of one vector, or of vectors along the last axis."""
        lead = vectors.shape[:-1]
        return {n: vectors[..., s].reshape(lead + self.shapes[n]) for n, s in self.slices.items()}

    def ravel(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """The vector of values; what stands before the shape of a variable, such as draws, stays before it."""
        parts = [np.asarray(values[n]) for n in self.shapes]
        leads = [p.shape[: p.ndim - len(s)] for p, s in zip(parts, self.shapes.values(), strict=True)]
        flat = [p.reshape((*lead, -1)) for p, lead in zip(parts, leads, strict=True)]
        return np.concatenate(flat, axis=-1) if flat else np.empty(0)
