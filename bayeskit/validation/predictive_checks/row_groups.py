"""The groups that the rows of an observed variable are in: codes by which its distribution picks a parameter."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pymc as pm
from pytensor.graph.traversal import ancestors
from pytensor.tensor.subtensor import AdvancedSubtensor

from bayeskit.model.data_slots import held_array
from bayeskit.model.snapshot import WrittenModel

__all__ = ["in_time", "row_groups"]

# Distributions of rows, or of what rows depend on, in which each follows the one before.
CHAINS = ("AutoRegressiveRV", "DiscreteMarkovChainRV", "EulerMaruyamaRV", "GARCH11RV", "RandomWalkRV")


def row_groups(model: pm.Model, name: str, rows: int) -> dict[str, tuple[np.ndarray, tuple[str, ...]]]:
    """By name of the dim, or of the codes: the code of each row, and what the groups are called.

    Codes with as many values as there are rows, or with one, are no groups.
    """
    if isinstance(model, WrittenModel):
        return {}
    found: dict[str, tuple[np.ndarray, tuple[str, ...]]] = {}
    for node in (v.owner for v in ancestors([model[name]]) if v.owner is not None):
        if not isinstance(node.op, AdvancedSubtensor):
            continue
        variable, *indices = node.inputs
        for axis, entry in enumerate(node.op.idx_list):
            index = indices[entry] if isinstance(entry, int) else None
            codes = held_array(index)
            if codes is None or codes.shape != (rows,) or codes.dtype.kind not in "iu":
                continue
            if 1 < np.unique(codes).size <= rows / 2 and not any(np.array_equal(codes, c) for c, _ in found.values()):
                dims: Mapping[int, str | None] = dict(enumerate(model.named_vars_to_dims.get(str(variable.name), ())))
                label = dims.get(axis) or (index.name if index is not None else None) or "group"
                coords = model.coords.get(str(label))
                called = range(int(codes.max()) + 1) if coords is None else coords
                found[str(label)] = codes, tuple(map(str, called))
    return found


def in_time(model: pm.Model, name: str) -> bool:
    """Whether rows follow each other in the model: a chain, a walk or an autoregression is above them, or is theirs."""
    if isinstance(model, WrittenModel):
        return False
    return any(v.owner is not None and type(v.owner.op).__name__ in CHAINS for v in ancestors([model[name]]))
