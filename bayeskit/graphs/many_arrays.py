"""Operations of PyTensor on many arrays at once: joining, reshaping, filling, writing to places and to diagonals.

PyTensor does them one array after the other, each of which takes microseconds in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.tensor.basic import Alloc, AllocDiag, Join
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.shape import Reshape
from pytensor.tensor.subtensor import AdvancedIncSubtensor, IncSubtensor, unflatten_index_variables

__all__ = ["of_many_arrays", "of_plain_dtype"]


def of_many_arrays(node: Apply) -> Callable[[list[Any]], Any] | None:
    """What does for many arrays the same as a node of PyTensor; None where nothing here does."""
    if not isinstance(node.op, Blockwise):
        return None
    op: Any = node.op.core_op
    inner = [len(axes) for axes in node.op.inputs_sig]
    if isinstance(op, Join):
        return lambda a: _joined(a, inner, op.axis)
    if isinstance(op, Reshape):
        return lambda a: _reshaped(a[0], a[1], inner[0])
    if isinstance(op, Alloc):
        declared = node.inputs[0].type.shape[node.inputs[0].type.ndim - inner[0] :]
        return lambda a: _spread(a, declared)
    if isinstance(op, AllocDiag):
        return (lambda a: _diagonal(a[0], op.offset)) if inner == [1] else None
    batch = node.op.batch_ndim(node)
    places = [i.type.shape[:batch] for i in node.inputs[2:]]
    if isinstance(op, IncSubtensor | AdvancedIncSubtensor) and all(n == 1 for lengths in places for n in lengths):
        return lambda a: _incremented(op, a, batch)
    return None


def _incremented(op: Any, arguments: list[Any], batch: int) -> np.ndarray:
    """Many arrays with a value added, or put, at places that are the same in all of them."""
    value, change, *places = arguments
    leading, trailing = tuple(range(batch)), tuple(range(-batch, 0))
    together = np.broadcast_shapes(value.shape[:batch], change.shape[:batch])
    result = np.moveaxis(np.broadcast_to(value, (*together, *value.shape[batch:])), leading, trailing).copy()
    change = np.moveaxis(change, leading, trailing)
    index: Any = unflatten_index_variables([p.reshape(p.shape[batch:]) for p in places], op.idx_list)
    if op.set_instead_of_inc:
        result[index] = change
    elif isinstance(op, IncSubtensor) or op.ignore_duplicates:
        result[index] += change
    else:
        np.add.at(result, index, of_plain_dtype(change))
    return np.moveaxis(result, trailing, leading)


def of_plain_dtype(values: np.ndarray) -> np.ndarray:
    """The same numbers with the dtype that NumPy knows by sight.

    Functions from numba's cache give arrays of an equal dtype that is another object, and ``np.add.at`` then takes
    thirty times as long.
    """
    return values.view(values.dtype.type)


def _diagonal(values: Any, offset: int) -> np.ndarray:
    """Matrices with vectors on a diagonal."""
    length, places = values.shape[-1] + abs(offset), np.arange(values.shape[-1])
    result = np.zeros((*values.shape[:-1], length, length), dtype=values.dtype)
    result[..., places + max(0, -offset), places + max(0, offset)] = values
    return result


def _joined(arrays: list[Any], inner: list[int], axis: int) -> np.ndarray:
    batch = np.broadcast_shapes(*(a.shape[: a.ndim - n] for a, n in zip(arrays, inner, strict=True)))
    spread = [np.broadcast_to(a, (*batch, *a.shape[a.ndim - n :])) for a, n in zip(arrays, inner, strict=True)]
    return np.concatenate(spread, axis=axis - inner[0] if axis >= 0 else axis)


def _reshaped(value: Any, shapes: Any, inner: int) -> np.ndarray:
    (shape,) = np.unique(shapes.reshape(-1, shapes.shape[-1]), axis=0)
    return np.reshape(value, (*value.shape[: value.ndim - inner], *shape))


def _spread(arguments: list[Any], declared: tuple[int | None, ...]) -> np.ndarray:
    """Many arrays, each over a shape that is the same for all: a view that holds no memory; of lengths as declared."""
    value, *lengths = arguments
    cut = value.ndim - len(declared)
    together = np.broadcast_shapes(value.shape[:cut], *(n.shape for n in lengths))
    shape = [int(np.unique(n).item()) for n in lengths]
    for told, own, n in zip(declared, value.shape[cut:], shape[len(shape) - len(declared) :], strict=True):
        if own == 1 != n and told is None:
            raise ValueError(Alloc._runtime_broadcast_error_msg)
    before = [1] * (len(shape) - len(declared))
    return np.broadcast_to(value.reshape(*value.shape[:cut], *before, *value.shape[cut:]), (*together, *shape))
