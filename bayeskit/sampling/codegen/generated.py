"""Functions in C's calling convention from loops over a workspace, compiled by numba and kept on disk.

The machine code is kept beside PyTensor's own, under a number made of what its source says and calls. The constants
(data) are not part of it but passed by address: other data of the same shape find it compiled. Code that calls Python
back holds addresses of this process, and is not kept.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from hashlib import sha256
from threading import RLock
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytensor
from numba import types
from pytensor.link.numba.cache import CACHED_SRC_FUNCTIONS, NUMBA_CACHE_PATH

from bayeskit.sampling.codegen.loop_helpers import helpers
from bayeskit.sampling.codegen.loops import Program
from bayeskit.sampling.codegen.strided_view import Place
from bayeskit.sampling.codegen.workspace import FAILED, Call

__all__ = ["density_source", "draw_source", "load_functions"]

LOADING = RLock()
# What the source takes for known: a flat array and an integer of its own functions, and numbers as C passes them.
KNOWN = {
    "math": math,
    "np": np,
    "numba": numba,
    "types": types,
    "INF": math.inf,
    "NAN": math.nan,
    "A": types.Array(types.float64, 1, "C"),
    "N": types.intp,
    "NUMBERS": types.CPointer(types.double),
}


def density_source(program: Program, inputs: int, data: int) -> str:
    """nutpie's C signature for the log density and its gradient; what it returns is not zero where they are not finite.

    ``inputs`` are the numbers in a point, ``data`` those in the constants of all programs and one more, which is set to
    have it fail from then on.
    """
    value, *gradient = program.outputs
    end = [
        "    return 1",
        f"if data[{data - 1}] != 0.0:",
        "    return 2",
        *_copies(gradient, "gradient"),
        *_copies([value], "value"),
        f"for i in range({inputs}):",
        "    if not np.isfinite(gradient[i]):",
        "        return 3",
        "return 0 if np.isfinite(value[0]) else 4",
    ]
    return _c_function("density", program, "length, point, gradient, value, data", {"length": inputs}, data, end)


def draw_source(program: Program, inputs: int, data: int) -> str:
    """nutpie's C signature for all that is kept of a draw: the point itself, and the outputs of a program."""
    places = [Place.row_major("w", 1, (inputs,)), *program.outputs]
    lengths = {"length": inputs, "expanded": sum(p.size for p in places)}
    end = ["    return -2", *_copies(places, "out"), "return 0"]
    return _c_function("draw", program, "length, expanded, point, out, data", lengths, data, end)


def _c_function(name: str, program: Program, arguments: str, lengths: dict[str, int], data: int, end: list[str]) -> str:
    """Its source, with the functions that it calls; ``end`` begins with what it returns where an assertion fails."""
    lines, calls = [], []
    for k, body in enumerate(program.functions):
        lines += ["", "", "@compiled()", f"def {name}_{k}(w, c):", *_indented(body)]
        calls.append(f"{name}_{k}(w, c)")
    if program.calls:  # what is called may raise, which would leave a C function as if all were well
        calls = ["try:", *_indented(calls), "except Exception:", f"    w[{FAILED}] = 1.0"]
    kinds = ", ".join("types.uint64" if a in lengths else "NUMBERS" for a in arguments.split(", "))
    lines += ["", "", f"@called(types.int64({kinds}))", f"def {name}({arguments}):"]
    lines += _indented(
        [
            f"if {' or '.join(f'{a} != {n}' for a, n in lengths.items())}:",
            "    return -1",
            f"w = np.empty({program.size})",
            f"w[{FAILED}] = 0.0",
            f"for i in range({lengths['length']}):",
            "    w[i + 1] = point[i]",
            f"c = numba.carray(data, ({data},))",
            *calls,
            f"if w[{FAILED}] != 0.0:",
            *end,
        ]
    )
    return "\n".join([*lines, ""])


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _copies(places: Sequence[Place], to: str) -> list[str]:
    lines, at = [], 0
    for place in places:
        lines += [f"for i in range({place.size}):", f"    {to}[i + {at}] = {place.array}[i + {place.offset}]"]
        at += place.size
    return lines


def load_functions(source: str, calls: dict[str, Call]) -> Any:
    """The functions of a source, compiled or found compiled; ``calls`` are those that it calls by these names."""
    about = [f"# numba {numba.__version__}, pytensor {pytensor.__version__}"]
    text = "\n".join([*about, *(f"# {name}: {call.key}" for name, call in calls.items()), helpers(source), source])
    writable = pytensor.config.numba__cache and os.access(NUMBA_CACHE_PATH, os.W_OK)
    with LOADING:  # another thread may be half through it
        if writable and all(call.key is not None for call in calls.values()):
            return _kept(text, tuple(calls.items()))
        return _run(text, calls, None)


@cache
def _kept(text: str, calls: tuple[tuple[str, Call], ...]) -> Any:
    return _run(text, dict(calls), sha256(text.encode()).hexdigest())


def _run(text: str, calls: dict[str, Call], key: str | None) -> Any:
    """What a source defines, its machine code kept under a key if there is one."""
    options: dict[str, Any] = {"cache": key is not None, "error_model": "numpy", "fastmath": {"contract"}}

    def keyed(function: Callable[..., Any]) -> Callable[..., Any]:
        if key is not None:
            CACHED_SRC_FUNCTIONS[function] = key
        return function

    def compiled(*signature: Any, **own: Any) -> Callable[..., Any]:
        """Called by other compiled code only."""
        inner = {**options, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, **own}
        return lambda function: numba.njit(*signature, **inner)(keyed(function))

    def called(signature: Any) -> Callable[..., Any]:
        return lambda function: numba.cfunc(signature, **options)(keyed(function))

    # numba looks for this module when it finds the compiled code.
    space: dict[str, Any] = {"__name__": __name__, **KNOWN, "compiled": compiled, "called": called}
    space |= {name: call.function for name, call in calls.items()}
    exec(compile(text, "<made from a model>", "exec"), space)
    return SimpleNamespace(**space)
