"""The numbers that a model names: its constants and its data, near which a mode may be that nothing else shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs

__all__ = ["named_numbers"]


def named_numbers(graphs: Iterable[Any]) -> list[np.ndarray]:
    """Each constant and each datum of some graphs, as arrays of finite numbers; the smallest arrays first."""
    inputs = list(graph_inputs(list(graphs)))
    held = [v.data for v in inputs if isinstance(v, Constant)]
    held += [v.get_value() for v in inputs if isinstance(v, SharedVariable)]
    arrays = [np.ravel(h).astype(float) for h in held if getattr(getattr(h, "dtype", None), "kind", "") in "iuf"]
    return sorted((a[np.isfinite(a)] for a in arrays), key=len)
