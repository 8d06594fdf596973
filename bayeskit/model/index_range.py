"""Group codes that count beyond the last group, said by name before anything is read of a model.

PyTensor looks at an index when it is used: an IndexError of some rewritten graph, or pages of a rewrite that failed.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.subtensor import AdvancedSubtensor

from bayeskit.errors import ModelError
from bayeskit.model.data_slots import held_array, sealed_in

__all__ = ["require_indices_inside"]


def require_indices_inside(model: pm.Model) -> None:
    """A ModelError where data pick entries of a variable that it does not have."""
    for node in {v.owner for v in ancestors(model.basic_RVs) if v.owner is not None}:
        if not isinstance(node.op, AdvancedSubtensor):
            continue
        variable, *indices = node.inputs
        for axis, entry in enumerate(node.op.idx_list):
            index = indices[entry] if isinstance(entry, int) else None
            codes, length = _held(index), _length(model, variable, axis)
            if codes is None or length is None or not codes.size:
                continue
            if not np.all(inside := (codes >= -length) & (codes < length)):
                place = np.unravel_index(np.argmin(inside), codes.shape)
                name = f"data {index.name!r}" if index is not None and index.name else "an index"
                of = f"of {variable.name!r}" if variable.name else "along an axis"
                raise ModelError(
                    f"{name} has the value {codes[place]} at entry {', '.join(map(str, place))}, but there are "
                    f"{length} entries {of}: the first is 0, the last {length - 1}"
                )


def _held(index: Variable | None) -> np.ndarray | None:
    """The whole numbers that an index holds, where it is data or a constant that can be read."""
    values = None if index is None or sealed_in([index]) else held_array(index)
    return values if values is not None and values.dtype.kind in "iu" else None


def _length(model: pm.Model, variable: Variable, axis: int) -> int | None:
    """How long a variable is along an axis: by its type, or by its dim."""
    if (length := getattr(variable.type, "shape", ())[axis : axis + 1]) and length[0] is not None:
        return int(length[0])
    dims = model.named_vars_to_dims.get(str(variable.name), ())
    known = model.dim_lengths.get(dims[axis]) if len(dims) > axis else None
    held = None if known is None else _held(known)
    return None if held is None else int(held)
