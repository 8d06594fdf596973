"""A text by which the same function of latent variables is known, in whichever chunk it stands."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pytensor.compile.ops import FromFunctionOp
from pytensor.graph.basic import Constant
from pytensor.graph.op import HasInnerGraph
from pytensor.graph.traversal import toposort
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.type_other import NoneTypeT

from bayeskit.graphs.identity import digest_of, is_installed

__all__ = ["digest", "digest_of_text", "fingerprint", "fingerprints"]


def digest(*arrays: np.ndarray) -> str:
    """A text that arrays share which hold the same numbers in the same order."""
    return _short(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))


def _short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def digest_of_text(text: str) -> str:
    """A short text that stands for a long one."""
    return _short(text.encode())


def fingerprint(graph: Any, names: Mapping[Any, str]) -> str:
    """A text that two graphs share where they are the same function of the variables that ``names`` names."""
    return fingerprints([graph], names)[0]


def fingerprints(graphs: Sequence[Any], names: Mapping[Any, str]) -> list[str]:
    """Such a text of each graph."""
    seen: dict[Any, str] = dict(names)

    def told(var: Any) -> str:
        if var in seen:
            return seen[var]
        if isinstance(var.type, RandomType | NoneTypeT):
            return str(var.type)
        if not isinstance(var, Constant) and not hasattr(var, "get_value"):
            return f"{var.name} {var.type}"  # an input of a graph inside another
        data = var.data if isinstance(var, Constant) else var.get_value(borrow=True)
        if isinstance(var.type, SparseTensorType):
            return digest(data.indptr, data.indices, data.data)
        array = np.asarray(data)
        if array.ndim == 0:
            return repr(data if array.dtype == object else array.item())
        return f"{array.shape}{digest(array)}"

    for node in toposort(list(graphs), blockers=names):
        text = f"{_told_of(node.op)}({','.join(told(i) for i in node.inputs)})"
        for k, out in enumerate(node.outputs):
            seen[out] = f"{_short(text.encode())}.{k}"
    return [told(graph) for graph in graphs]


def _told_of(op: Any) -> str:
    """An operation with what it holds: a loop its body, one that a user wrote its code and data."""
    if isinstance(op, HasInnerGraph):
        inputs = {v: f"input {k}" for k, v in enumerate(op.inner_inputs)}
        return f"{op} {getattr(op, 'info', '')} {fingerprints(op.inner_outputs, inputs)}"
    if is_installed(type(op).__module__) and not isinstance(op, FromFunctionOp):
        return str(op)
    return f"{op} {digest_of([type(op), {n: v for n, v in vars(op).items() if not n.startswith('_cache')}])}"
