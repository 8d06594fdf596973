"""A text by which a function, data or a model of one run is known again in another: by what it is made of.

Pickles will not do: of a function of a module they have the name only, and of the same class another text in each
process. Here a function is its code, with its defaults, what it encloses, and what the globals that it names are; of
installed packages names are enough. What can be told by nothing, a lock or a connection, is an error: a result that may
be of something else must not be taken for one that was kept.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import sys
import sysconfig
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayeskit.errors import OptionError
from bayeskit.terminal import let_alarms_through

__all__ = ["digest_of", "is_installed"]

PLAIN = (type(None), bool, int, float, complex, str, bytes, range, slice, type(Ellipsis))


def digest_of(value: Any) -> str:
    """A short text that another value would not have; an OptionError where nothing tells it from another."""
    found = hashlib.sha256()
    for part in _parts(value, {}):
        found.update(part)
        found.update(b"\x00")
    return found.hexdigest()[:20]


def is_installed(module: str) -> bool:
    """Whether a module is of Python, of an installed package, or of this library: what is in it stays."""
    top = module.partition(".")[0]
    if top in ("__main__", "__mp_main__"):
        return False
    if top in ("bayeskit", "builtins") or top in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(module) or sys.modules.get(top), "__file__", None)
    if file is None:  # a folder without __init__.py is nobody's package
        return False
    return _lies_in_packages(file)


@functools.cache  # asked of the operation of every node of a graph, and files do not move
def _lies_in_packages(file: str) -> bool:
    folders = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
    return any(Path(file).resolve().is_relative_to(Path(folder).resolve()) for folder in folders)


def _parts(value: Any, seen: dict[int, tuple[int, Any]]) -> Iterator[bytes]:
    if isinstance(value, PLAIN):
        yield f"{type(value).__name__} {value!r}".encode()
        return
    if id(value) in seen:
        yield f"again {seen[id(value)][0]}".encode()
        return
    seen[id(value)] = len(seen), value  # held, lest another value gets its id
    yield type(value).__qualname__.encode()
    if isinstance(value, np.ndarray | np.generic):
        yield from _of_array(np.asarray(value), seen)
    elif isinstance(value, pd.DataFrame | pd.Series | pd.Index):
        yield from _of_table(value, seen)
    elif isinstance(value, xr.Dataset | xr.DataArray):
        yield from _parts(value.to_dict(encoding=False), seen)
    elif isinstance(value, Mapping):
        for key in sorted(value, key=digest_of):
            yield from (*_parts(key, seen), *_parts(value[key], seen))
    elif isinstance(value, set | frozenset):
        yield from (digest_of(one).encode() for one in sorted(value, key=digest_of))
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _parts(one, seen)
    elif isinstance(value, types.CodeType):
        yield from _of_code(value, seen)
    elif isinstance(value, types.FunctionType):
        yield from _of_function(value, seen)
    elif isinstance(value, types.MethodType):
        yield from (*_parts(value.__self__, seen), *_parts(value.__func__, seen))
    elif isinstance(value, functools.partial):
        yield from _parts((value.func, value.args, value.keywords), seen)
    elif isinstance(value, types.ModuleType):
        yield value.__name__.encode()
    elif isinstance(value, type):
        yield from _of_class(value, seen)
    else:
        yield from _of_object(value, seen)


def _of_array(array: np.ndarray, seen: dict[int, tuple[int, Any]]) -> Iterator[bytes]:
    yield f"{array.dtype} {array.shape}".encode()
    if array.dtype.hasobject:
        for one in array.ravel():
            yield from _parts(one, seen)
    else:
        yield np.ascontiguousarray(array).tobytes()


def _of_table(table: Any, seen: dict[int, tuple[int, Any]]) -> Iterator[bytes]:
    if isinstance(table, pd.DataFrame):
        yield from _parts([*table.columns], seen)
        yield from _parts(table.index, seen)
        for k in range(table.shape[1]):
            yield from _of_column(table.iloc[:, k], seen)
    elif isinstance(table, pd.MultiIndex):
        yield from _parts([table.names, table.tolist()], seen)
    else:
        yield from _parts(table.name, seen)
        if isinstance(table, pd.Series):
            yield from _parts(table.index, seen)
        yield from _of_column(table, seen)


def _of_column(column: Any, seen: dict[int, tuple[int, Any]]) -> Iterator[bytes]:
    yield str(column.dtype).encode()
    if isinstance(column.dtype, pd.CategoricalDtype):
        yield from _parts(column.dtype.categories, seen)
    values = column.to_numpy()
    yield from _of_array(values.astype(str) if values.dtype.kind not in "biufcmM" else values, seen)


def _of_code(code: types.CodeType, seen: dict[int, tuple[int, Any]]) -> Iterator[bytes]:
    yield code.co_code
    yield " ".join([*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars]).encode()
    for one in code.co_consts:
        yield from _parts(one, seen)


def _of_function(function: types.FunctionType, seen: dict[int, tuple[int, Any]]) -> Iterator[bytes]:
    name = f"{function.__module__}.{function.__qualname__}"
    yield name.encode()
    if is_installed(str(function.__module__)) and "<" not in name:
        return
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    yield from _parts((function.__code__, function.__defaults__, function.__kwdefaults__, cells), seen)
    codes = list(_codes(function.__code__))
    named = {i.argval for code in codes for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for name in sorted(named & function.__globals__.keys()):
        held = function.__globals__[name]
        yield from (name.encode(), *_parts(held, seen))
        if isinstance(held, types.ModuleType) and not is_installed(held.__name__):
            for own in sorted({n for code in codes for n in code.co_names} & vars(held).keys()):
                yield from (own.encode(), *_parts(vars(held)[own], seen))


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _codes(one)


def _of_class(kind: type, seen: dict[int, tuple[int, Any]]) -> Iterator[bytes]:
    yield f"{kind.__module__}.{kind.__qualname__}".encode()
    if is_installed(kind.__module__):
        return
    yield from _parts(list(kind.__bases__), seen)
    for name, held in sorted(vars(kind).items()):
        held = getattr(held, "__func__", held) if isinstance(held, staticmethod | classmethod) else held
        if isinstance(held, property):
            yield from _parts([held.fget, held.fset], seen)
        elif isinstance(held, (types.FunctionType, tuple, *PLAIN)) and name not in ("__module__", "__firstlineno__"):
            yield from (name.encode(), *_parts(held, seen))


def _of_object(value: Any, seen: dict[int, tuple[int, Any]]) -> Iterator[bytes]:
    """A built-in or compiled function by its name; anything else by what a pickle would be made from."""
    name = getattr(value, "__qualname__", getattr(value, "__name__", None))
    if callable(value) and isinstance(name, str) and isinstance(getattr(value, "__module__", None) or "", str):
        module = getattr(value, "__module__", None) or ""
        if not hasattr(value, "__wrapped__") and is_installed(module or "builtins"):
            yield f"{module}.{name}".encode()
            return
    try:
        reduced = value.__reduce_ex__(4)
    except Exception as error:
        let_alarms_through(error)
        raise OptionError(
            f"checkpoint: a function or the data hold a {type(value).__name__}, which nothing tells from another one; "
            "leave it out of them, or leave checkpoint out"
        ) from error
    yield from _parts(type(value), seen)
    if isinstance(reduced, str):
        yield reduced.encode()
        return
    made, arguments, *rest = reduced
    yield from _parts((made, arguments), seen)
    for one in rest:
        yield from _parts(list(one) if isinstance(one, Iterator) else one, seen)
