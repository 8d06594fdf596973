"""Draws of very many variables, made when they are read.

4,000 draws of 25,000 variables are 800 MB of random numbers, which take longer than all else of an exact answer, while
its closed-form marginals say the same of each variable. Which draws they are is settled beforehand, by their generator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

__all__ = ["LaterDraws", "StackedDraws"]


@dataclass(eq=False)
class StackedDraws:
    """All variables of a block in one array, its first axis the draws.

    Attributes
    ----------
    make : callable
        Makes them; called once.
    """

    make: Callable[[], np.ndarray]

    @cached_property
    def values(self) -> np.ndarray:
        """The draws."""
        return self.make()


class LaterDraws(BackendArray):
    """Draws of one variable of a block: an array for NumPy, and for xarray one that is read as a file is.

    Parameters
    ----------
    stacked : StackedDraws
    where : slice
        The columns of the variable.
    shape : tuple of int
        The axes of the draws, then those of the variable.
    """

    dtype = np.dtype(float)

    def __init__(self, stacked: StackedDraws, where: slice, shape: tuple[int, ...]) -> None:
        self.stacked, self.where, self.shape = stacked, where, shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        values = self.stacked.values[:, self.where].reshape(self.shape)
        return np.array(values, dtype=dtype) if copy else np.asarray(values, dtype=dtype)

    def __getitem__(self, key: Any) -> Any:
        values = np.asarray(self)
        if not isinstance(key, indexing.ExplicitIndexer):
            return values[key]
        slices = indexing.IndexingSupport.BASIC
        return indexing.explicit_indexing_adapter(key, self.shape, slices, values.__getitem__)

    def variable(self, lengths: tuple[int, ...]) -> Any:
        """The same draws with other axes in place of their first, as what an ``xarray.Variable`` holds."""
        return indexing.LazilyIndexedArray(LaterDraws(self.stacked, self.where, (*lengths, *self.shape[1:])))
