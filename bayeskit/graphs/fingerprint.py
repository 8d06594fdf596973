"""A text by which the same function of latent variables is known, in whichever chunk it stands."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import toposort

__all__ = ["digest", "digest_of_text", "fingerprint"]


def digest(*arrays: np.ndarray) -> str:
    """A text that arrays share which hold the same numbers in the same order."""
    return _short(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))


def _short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def digest_of_text(text: str) -> str:
    """A short text that stands for a long one."""
    return _short(text.encode())


def fingerprint(graph: Any, names: dict[Variable, str]) -> str:
    """A text that two graphs share where they are the same function of the variables that ``names`` names."""
    seen: dict[Variable, str] = dict(names)

    def told(var: Any) -> str:
        if var in seen:
            return seen[var]
        data = var.data if isinstance(var, Constant) else var.get_value(borrow=True)
        array = np.asarray(data)
        if array.ndim == 0:
            return repr(data if array.dtype == object else array.item())
        return f"{array.shape}{digest(array)}"

    for node in toposort([graph], blockers=names):
        text = f"{node.op}({','.join(told(i) for i in node.inputs)})"
        for k, out in enumerate(node.outputs):
            seen[out] = f"{_short(text.encode())}.{k}"
    return told(graph)
