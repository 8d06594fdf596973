"""Group codes that count beyond the last group, or from the end, said by name before anything is read of a model.

PyTensor looks at an index when it is used: an IndexError of some rewritten graph, or pages of a rewrite that failed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.subtensor import AdvancedSubtensor

from bayeskit.errors import ModelError
from bayeskit.model.data_slots import held_array, sealed_in

__all__ = ["counted_from_the_end", "require_indices_inside"]


def require_indices_inside(model: pm.Model) -> None:
    """A ModelError where data pick entries of a variable that it does not have."""
    for name, codes, length, of in _picked(model):
        if not np.all(inside := (codes >= -length) & (codes < length)):
            there = f"there are {length} entries {of}: the first is 0, the last {length - 1}"
            raise ModelError(f"{_said(name, codes, inside)}, but {there}")


def counted_from_the_end(model: pm.Model) -> list[str]:
    """Notes on data that pick some entries from the front and some from the end: −1 is pandas' code of a gap."""
    found = [
        f"{_said(name, codes, codes >= 0)}, which counts from the end: the last of {length} entries {of} is −1; a code "
        "of pandas for what is missing is −1, too"
        for name, codes, length, of in _picked(model)
        if codes.min() < 0 <= codes.max()
    ]
    return list(dict.fromkeys(found))


def _picked(model: pm.Model) -> Iterator[tuple[str, np.ndarray, int, str]]:
    """What picks entries by whole numbers that are held, these, how many entries there are, and of what."""
    for node in {v.owner for v in ancestors(model.basic_RVs) if v.owner is not None}:
        if not isinstance(node.op, AdvancedSubtensor):
            continue
        variable, *indices = node.inputs
        for axis, entry in enumerate(node.op.idx_list):
            index = indices[entry] if isinstance(entry, int) else None
            codes, length = _held(index), _length(model, variable, axis)
            if codes is None or length is None or not codes.size:
                continue
            name = f"data {index.name!r}" if index is not None and index.name else "an index"
            yield name, codes, length, f"of {variable.name!r}" if variable.name else "along an axis"


def _said(name: str, codes: np.ndarray, fine: np.ndarray) -> str:
    """The first code that is not fine, with its place."""
    place = np.unravel_index(np.argmin(fine), codes.shape)
    return f"{name} has the value {codes[place]} at entry {', '.join(map(str, place))}"


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
