"""What is found by its name alone: functions and classes of Python, of installed packages and of this library."""

from __future__ import annotations

import functools
import sys
import sysconfig
from pathlib import Path
from typing import Any

__all__ = ["is_found_by_name", "is_installed"]


def is_installed(module: str) -> bool:
    """Whether a module is of Python, of an installed package, or of this library: what is in it stays."""
    top = module.partition(".")[0]
    if top in ("__main__", "__mp_main__"):
        return False
    if top in ("bayeskit", "builtins") or top in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(module) or sys.modules.get(top), "__file__", None)
    return file is not None and _is_in_a_package(file)  # a folder without __init__.py is nobody's package


@functools.cache
def _is_in_a_package(file: str) -> bool:
    folders = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
    return any(Path(file).resolve().is_relative_to(Path(folder).resolve()) for folder in folders)


def is_found_by_name(value: Any, module: Any, name: Any) -> bool:
    """Whether an installed module has this very thing, or its equal, under the name that it says it has.

    A class that PyMC makes for one model, a function that ``functools.wraps`` gave the name of another, and what
    ``numpy.frompyfunc`` made only look as if they were of a library.
    """
    if not (isinstance(module, str) and isinstance(name, str) and is_installed(module)):
        return False
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    found = getattr(found, "__func__", found)
    # Equal: an operation of PyTensor that came from another process is a copy.
    return found is value or (type(found) is type(value) and callable(found) and bool(found == value))
