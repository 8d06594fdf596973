"""Functions in C's calling convention from loops over a workspace, compiled by numba and kept on disk.

The source is a file in PyTensor's folder of compiled code, named by what it says and calls; numba keeps the machine
code beside it. The constants (data) are not part of it but passed by address: other data of the same shape find it
compiled. Code that calls Python back holds addresses of this process, and is not kept.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any

import numba
import pytensor

from bayeskit.sampling.codegen.loop_helpers import helpers
from bayeskit.sampling.codegen.loops import Program
from bayeskit.sampling.codegen.strided_view import Place
from bayeskit.sampling.codegen.workspace import FAILED, Call

__all__ = ["density_source", "draw_source", "load"]

LOADING = RLock()
LENGTH, NUMBERS = "types.uint64", "NUMBERS"  # of an argument in C
KEPT, NOT_KEPT = "\nKEPT = True\n", "\nKEPT = False\n"
HEAD = '''"""Made by bayeskit from a model; numba {numba}, pytensor {pytensor}."""
import math

import numba
import numpy as np
from numba import types

INF, NAN = math.inf, math.nan
NUMBERS = types.CPointer(types.double)
OPTIONS = {{"error_model": "numpy", "fastmath": {{"contract"}}}}
KEPT = {kept}


A, N = types.Array(types.float64, 1, "C"), types.intp


def compiled(function):
    """Called by other compiled code only."""
    return numba.njit(cache=KEPT, no_cpython_wrapper=True, no_cfunc_wrapper=True, **OPTIONS)(function)


def helper(signature):
    return numba.njit(signature, cache=KEPT, no_cpython_wrapper=True, no_cfunc_wrapper=True, **OPTIONS)

'''


def _functions(name: str, program: Program) -> tuple[list[str], list[str]]:
    """Definitions, and the lines that call them."""
    lines, calls = [], []
    for k, body in enumerate(program.functions):
        lines += ["", "", "@compiled", f"def {name}_{k}(w, c):", *(f"    {line}" for line in body)]
        calls.append(f"{name}_{k}(w, c)")
    if program.calls:  # what is called may raise, which would leave a C function as if all were well
        calls = ["try:", *(f"    {call}" for call in calls), "except Exception:", f"    w[{FAILED}] = 1.0"]
    return lines, calls


def _start(program: Program, inputs: int, data: int) -> list[str]:
    return [
        f"w = np.empty({program.size})",
        f"w[{FAILED}] = 0.0",
        f"for i in range({inputs}):",
        "    w[i + 1] = point[i]",
        f"c = numba.carray(data, ({data},))",
    ]


def _copies(places: Sequence[Place], to: str) -> list[str]:
    lines, at = [], 0
    for place in places:
        lines += [f"for i in range({place.size}):", f"    {to}[i + {at}] = {place.array}[i + {place.offset}]"]
        at += place.size
    return lines


def _c_function(name: str, arguments: dict[str, str], definitions: Sequence[str], body: Sequence[str]) -> str:
    head = [
        "",
        "",
        f"@numba.cfunc(types.int64({', '.join(arguments.values())}), cache=KEPT, **OPTIONS)",
        f"def {name}({', '.join(arguments)}):",
    ]
    return "\n".join([*definitions, *head, *(f"    {line}" for line in body), ""])


def density_source(program: Program, inputs: int, data: int) -> str:
    """nutpie's C signature for the log density and its gradient; what it returns is not zero where they are not finite.

    Parameters
    ----------
    program : Program
        With the value and the gradient as its outputs.
    inputs, data : int
        Numbers in a point, and in the constants of all programs.
    """
    definitions, calls = _functions("density", program)
    value, *gradient = program.outputs
    body = [
        f"if length != {inputs}:",
        "    return -1",
        *_start(program, inputs, data),
        *calls,
        f"if w[{FAILED}] != 0.0:",
        "    return 1",
        *_copies(gradient, "gradient"),
        f"value[0] = {value.array}[{value.offset}]",
        f"for i in range({inputs}):",
        "    if not np.isfinite(gradient[i]):",
        "        return 3",
        "return 0 if np.isfinite(value[0]) else 4",
    ]
    arguments = {"length": LENGTH, "point": NUMBERS, "gradient": NUMBERS, "value": NUMBERS, "data": NUMBERS}
    return _c_function("density", arguments, definitions, body)


def draw_source(program: Program, inputs: int, data: int) -> str:
    """nutpie's C signature for all that is kept of a draw.

    Parameters
    ----------
    program : Program
        With all that is kept, but for the point itself, as its outputs.
    inputs, data : int
        Numbers in a point, and in the constants of all programs.
    """
    definitions, calls = _functions("draw", program)
    size = inputs + sum(p.size for p in program.outputs)
    body = [
        f"if length != {inputs} or expanded != {size}:",
        "    return -1",
        *_start(program, inputs, data),
        *calls,
        f"if w[{FAILED}] != 0.0:",
        "    return -2",
        *_copies([Place.row_major("w", 1, (inputs,)), *program.outputs], "out"),
        "return 0",
    ]
    arguments = {"length": LENGTH, "expanded": LENGTH, "point": NUMBERS, "out": NUMBERS, "data": NUMBERS}
    return _c_function("draw", arguments, definitions, body)


def load(source: str, calls: dict[str, Call]) -> Any:
    """The module of a source, its functions compiled or found compiled.

    Parameters
    ----------
    source : str
    calls : dict of str to Call
        What it calls by these names. It is kept on disk unless one of them is of this process only, or the folder
        cannot be written to.
    """
    keys = [f"# {name}: {call.key}" for name, call in calls.items()]
    kept = all(call.key is not None for call in calls.values())
    head = HEAD.format(numba=numba.__version__, pytensor=pytensor.__version__, kept=kept)
    text = "\n".join([head, *keys, helpers(source), source])
    name = f"bayeskit_model_{sha256(text.encode()).hexdigest()[:24]}"
    path = _written(name, text) if kept else None
    module = ModuleType(name)
    vars(module).update({n: call.function for n, call in calls.items()})
    if path is None:
        exec(compile(text.replace(KEPT, NOT_KEPT), f"<{name}>", "exec"), vars(module))
        return module
    vars(module)["__file__"] = str(path)
    with LOADING:  # another thread may be half through it
        if name in sys.modules:
            return sys.modules[name]
        sys.modules[name] = module  # where numba looks for it when it finds the compiled code
        try:
            exec(compile(text, str(path), "exec"), vars(module))
        except BaseException:
            del sys.modules[name]
            raise
        return module


def _written(name: str, text: str) -> Path | None:
    """The file of a source; None where there can be none."""
    folder = Path(str(pytensor.config.compiledir)) / "bayeskit"
    path = folder / f"{name}.py"
    if path.exists():  # numba takes a file written again for another one
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError:
        return None
    return path
