"""Records of an answer as bytes, and back: JSON and arrays, no code, so that a file from anywhere may be read.

Distributions are stored by their parameters, and are the same closed forms when they are read.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from bayeskit.errors import ModelError
from bayeskit.families.von_mises import DISTRIBUTION
from bayeskit.finite import discrete_distribution
from bayeskit.model.snapshot import WrittenModel
from bayeskit.quadrature import axis_density, change_of_variable, grid_distribution, many_scales, mixture_distribution
from bayeskit.reporting import formulas, graph
from bayeskit.results import diagnostics, marginals, plan, records

__all__ = ["packed", "unpacked"]

HOMES = (
    *(axis_density, change_of_variable, diagnostics, discrete_distribution, formulas, graph, grid_distribution),
    *(many_scales, marginals, mixture_distribution, plan, records),
)
RECORDS = {n: kind for home in HOMES for n, kind in vars(home).items() if isinstance(kind, type) and is_dataclass(kind)}
CONTINUOUS = {d.name: d for d in (DISTRIBUTION, stats.beta, stats.gamma, stats.invgamma, stats.norm, stats.t)}
# SciPy's distributions of several numbers, and the parameters that make a frozen one again.
JOINT: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "dirichlet_frozen": (stats.dirichlet, ("alpha",)),
    "multivariate_normal_frozen": (partial(stats.multivariate_normal, allow_singular=True), ("mean", "cov")),
    "multivariate_t_frozen": (partial(stats.multivariate_t, allow_singular=True), ("loc", "shape", "df")),
    "wishart_frozen": (stats.wishart, ("df", "scale")),
}
# How a value is made of its parts, by the name of what it is.
MAKERS: dict[str, Callable[..., Any]] = {
    **RECORDS,
    **{name: make for name, (make, _) in JOINT.items()},
    "WrittenModel": WrittenModel,
    "distribution": lambda name, arguments, options: CONTINUOUS[name](*arguments, **options),
    "mapping": lambda *items: dict(items),
    "objects": lambda shape, *items: np.array([*items, None], dtype=object)[:-1].reshape(shape),
    "time": pd.Timestamp,
    "tuple": lambda *items: items,
}


def packed(value: Any) -> np.ndarray:
    """What is made of records, numbers, texts, labels, arrays and distributions, as bytes."""
    arrays: list[np.ndarray] = []
    text = json.dumps(_plain(value, arrays)).encode()
    stream = io.BytesIO()
    np.savez(stream, *arrays, text=np.frombuffer(text, np.uint8))
    return np.frombuffer(stream.getvalue(), np.uint8)


def unpacked(data: np.ndarray) -> Any:
    """What was packed; an error of any type where these are not such bytes."""
    with np.load(io.BytesIO(data.tobytes()), allow_pickle=False) as arrays:
        return _value(json.loads(arrays["text"].tobytes()), arrays)


def _plain(value: Any, arrays: list[np.ndarray]) -> Any:
    """As JSON; what that does not know, as an object of one key, that says what it is, and the parts it is made of."""
    value = value.item() if isinstance(value, np.number | np.bool) else value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [_plain(part, arrays) for part in value]
    if isinstance(value, np.ndarray) and value.dtype != object:
        arrays.append(value.astype(float) if value.dtype == np.longdouble else value)
        return {"array": len(arrays) - 1}
    kind, parts = _parts(value)
    return {kind: [_plain(part, arrays) for part in parts]}


def _parts(value: Any) -> tuple[str, Any]:
    kind = type(value).__name__
    if kind in JOINT:
        return kind, [getattr(value, name) for name in JOINT[kind][1]]
    if kind in MAKERS and is_dataclass(value):
        return kind, [getattr(value, f.name) for f in fields(value)]
    if isinstance(value, np.ndarray):
        return "objects", [value.shape, *value.flat]
    if isinstance(value, np.datetime64 | pd.Timestamp):
        return "time", [str(value)]
    if isinstance(value, Mapping | tuple):
        return ("tuple", value) if isinstance(value, tuple) else ("mapping", value.items())
    if getattr(getattr(value, "dist", None), "name", "") in CONTINUOUS:
        return "distribution", [value.dist.name, value.args, value.kwds]
    raise ModelError(f"a {kind} cannot be saved; pickle the posterior instead")


def _value(plain: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(plain, list):
        return [_value(part, arrays) for part in plain]
    if not isinstance(plain, dict):
        return plain
    ((kind, parts),) = plain.items()
    return arrays[f"arr_{parts}"] if kind == "array" else MAKERS[kind](*_value(parts, arrays))
