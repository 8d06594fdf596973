"""Names for what many functions take and give."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Array", "ArrayFunction", "Backend", "Draws", "Graph", "Point"]

Backend = Literal["matplotlib", "bokeh", "plotly", "none"]  # of arviz-plots
Graph = Any  # a PyTensor variable: type checkers do not know its arithmetic
type Array = NDArray[np.float64]
type ArrayFunction = Callable[[np.ndarray], np.ndarray]
type Point = dict[str, np.ndarray]  # a value of each variable, by name
type Draws = dict[str, np.ndarray]  # draws of each variable, by name, along the first axis
