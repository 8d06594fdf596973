"""A text by which the same function of latent variables is known, in whichever chunk it stands."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pymc.logprob.abstract import MeasurableOp, _icdf, _logcdf, _logprob
from pytensor.compile.ops import FromFunctionOp
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.op import HasInnerGraph, Op
from pytensor.graph.traversal import toposort
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.type_other import NoneTypeT

from bayeskit.graphs.identity import digest_of
from bayeskit.graphs.installed import is_found_by_name, is_installed

__all__ = ["digest", "digest_of_text", "fingerprint", "fingerprints", "known_variable"]

DENSITIES = (_logprob, _logcdf, _icdf)  # in which PyMC keeps the functions of a CustomDist
INNER = ("_cache", "_frozen", "_connection", "_lop", "_rop", "fgraph", "input_types", "output_types")


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


def known_variable(value: Any) -> str | None:
    """What tells a variable of PyTensor that a function or an object holds; None of other things."""
    if not isinstance(value, Variable):
        return None
    return f"{value.type} {fingerprint(value, {})}"


def _told_of(op: Any) -> str:
    """An operation with what it holds: a loop its body, one that a user wrote its code and data."""
    text = str(op)
    if isinstance(op, HasInnerGraph):
        inputs = {v: f"input {k}" for k, v in enumerate(op.inner_inputs)}
        text = f"{op} {getattr(op, 'info', '')} {fingerprints(op.inner_outputs, inputs)}"
    elif isinstance(core := getattr(op, "core_op", getattr(op, "scalar_op", None)), Op):
        text = f"{op} {_told_of(core)}"
    kind = type(op)
    own: list[Any] = []
    if not is_found_by_name(kind, kind.__module__, kind.__qualname__):  # PyMC makes classes of a model, too
        own.append(kind)
    if own or isinstance(op, FromFunctionOp):
        # Of one with a graph inside, that is told above, and what is made of it when it is needed, nothing new.
        inner = isinstance(op, HasInnerGraph)
        hidden = INNER if inner else ("_cache",)
        own.append({n: v for n, v in sorted(vars(op).items()) if not n.startswith(hidden)})
    if isinstance(op, RandomVariable | MeasurableOp):
        own.extend(f for f in (d.dispatch(kind) for d in DENSITIES) if not _is_of_a_library(f))
    return f"{text} {digest_of(own, known_variable)}" if own else text


def _is_of_a_library(function: Any) -> bool:
    return is_installed(str(function.__module__)) and "<" not in function.__qualname__
