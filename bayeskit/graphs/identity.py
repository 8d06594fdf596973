"""A text by which a function, data or a model of one run is known again in another: by what it is made of.

Pickles will not do: of a function of a module they have the name only, and of the same class another text in each
process. Here a function is its code, with its defaults, what it encloses, and what the globals that it names are; of
installed packages names are enough. What can be told by nothing, a lock or a connection, is an error: a result that may
be of something else must not be taken for one that was kept.

The text of a whole is made of the texts of its parts, so that it is the same whether equal parts are one object or
copies; of what holds itself, the part says how many objects before it the whole was begun.
"""

from __future__ import annotations

import copyreg
import functools
import hashlib
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import scipy.special
import xarray as xr
from pytensor.graph.op import Op

from bayeskit.errors import OptionError
from bayeskit.graphs.code_identity import made_of_class, made_of_code, made_of_function, made_of_module
from bayeskit.graphs.installed import is_found_by_name, is_installed
from bayeskit.terminal import let_alarms_through

__all__ = ["digest_of"]

PLAIN = (type(None), bool, int, float, complex, str, bytes, range, type(Ellipsis), type(NotImplemented))
NAMED = (types.BuiltinFunctionType, types.MethodWrapperType)
OF_A_TYPE = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)


def digest_of(value: Any, known: Callable[[Any], str | None] | None = None, *, refuse: bool = True) -> str:
    """A short text that another value would not have; an OptionError where nothing tells it from another.

    ``known`` tells what it does not answer None to. With ``refuse=False``, what nothing tells is told by its type.
    """
    try:
        return _Teller(known, refuse).text(value).hex()[:20]
    except RecursionError as error:
        raise OptionError(
            "checkpoint: a function or the data hold one thing inside another, too deep to be told from others; "
            "flatten them, or leave checkpoint out"
        ) from error


def _joined(parts: Iterable[bytes]) -> bytes:
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8))  # where one ends, lest another cut gives the same
        found.update(part)
    return found.digest()


class _Teller:
    """What was told, and the objects that are begun, as in Tarjan's search for cycles."""

    def __init__(self, known: Callable[[Any], str | None] | None, refuse: bool) -> None:
        self.known, self.refuse = known, refuse
        self.done: dict[int, tuple[bytes, Any]] = {}  # each held, lest another object gets its id
        self.begun: dict[int, int] = {}
        self.stack: list[Any] = []
        self.here = self.lowest = -1

    def text(self, value: Any) -> bytes:
        if type(value) in PLAIN:
            return _joined([type(value).__name__.encode(), repr(value).encode()])
        if id(value) in self.done:
            return self.done[id(value)][0]
        if id(value) in self.begun:
            position = self.begun[id(value)]
            self.lowest = min(self.lowest, position)
            return _joined([b"again", str(self.here - position).encode()])
        position, before = len(self.stack), (self.here, self.lowest)
        self.stack.append(value)
        self.begun[id(value)] = self.here = self.lowest = position
        found = _joined(self.parts(value))
        lowest = self.lowest
        self.here, self.lowest = before[0], min(before[1], lowest)
        if lowest == position:  # nothing in it is in what holds it
            for one in self.stack[position:]:
                del self.begun[id(one)]
            del self.stack[position:]
            self.done[id(value)] = found, value
        return found

    def parts(self, value: Any) -> Iterator[bytes]:
        told = None if self.known is None else self.known(value)
        if told is not None:
            yield from (b"known", told.encode())
            return
        kind = type(value)
        yield f"{kind.__module__}.{kind.__qualname__}".encode()
        if isinstance(value, np.ma.MaskedArray):
            yield from map(self.text, (value.data, np.ma.getmaskarray(value), value.fill_value))
        elif isinstance(value, np.ndarray | np.generic):
            yield from self.of_array(np.asarray(value))
        elif isinstance(value, pd.DataFrame | pd.Series | pd.Index):
            yield from self.of_table(value)
        elif isinstance(value, xr.Dataset | xr.DataArray):
            yield self.text(_labelled(value))
        elif kind in (dict, types.MappingProxyType):
            for key, held in value.items():
                yield from (self.text(key), self.text(held))
        elif kind in (set, frozenset):
            yield from sorted(map(self.text, value))
        elif kind in (tuple, list):
            yield from map(self.text, value)
        else:
            made = _made_of(value)
            yield from self.of_object(value) if made is None else map(self.text, made)

    def of_array(self, array: np.ndarray) -> Iterator[bytes]:
        yield f"{array.dtype} {array.shape}".encode()
        yield self.text(array.tolist()) if array.dtype.hasobject else np.ascontiguousarray(array).tobytes()

    def of_table(self, table: Any) -> Iterator[bytes]:
        if isinstance(table, pd.DataFrame):
            yield from (self.text([*table.columns]), self.text(table.index))
            for k in range(table.shape[1]):
                yield from self.of_column(table.iloc[:, k])
        elif isinstance(table, pd.MultiIndex):
            yield self.text([[*table.names], table.tolist()])
        else:
            yield self.text(table.name)
            if isinstance(table, pd.Series):
                yield self.text(table.index)
            yield from self.of_column(table)

    def of_column(self, column: Any) -> Iterator[bytes]:
        yield str(column.dtype).encode()
        if isinstance(column.dtype, pd.CategoricalDtype):
            yield from (self.text(column.dtype.categories), str(column.dtype.ordered).encode())
        values, missing = column.to_numpy(), np.asarray(column.isna())
        if values.dtype.kind in "biufcmM":
            yield from self.of_array(values)
        elif column.dtype != object or all(type(one) is str for one in values):
            yield from (*self.of_array(values.astype(str)), missing.tobytes())  # text at the speed of arrays
        else:
            yield from self.of_array(values)

    def of_object(self, value: Any) -> Iterator[bytes]:
        """What a pickle would be made from."""
        kind = type(value)
        if isinstance(value, np.random.RandomState) and (value is np.random.mtrand._rand or not self.refuse):
            yield b"numpy.random"  # which SciPy's distributions hold, and which is another in each process
            return
        try:
            make = copyreg.dispatch_table.get(kind)
            reduced = value.__reduce_ex__(4) if make is None else make(value)
            told_by_name = isinstance(reduced, str)
            if told_by_name and not is_installed(str(getattr(value, "__module__", None) or kind.__module__)):
                raise TypeError(f"{reduced} is a name only")
            if isinstance(value, np.ufunc):
                raise TypeError("made of a function that it does not show")
        except Exception as error:
            let_alarms_through(error)
            if not self.refuse:
                return
            raise OptionError(
                f"checkpoint: a function or the data hold a {kind.__name__}, which nothing tells from another one; "
                "leave it out of them, or leave checkpoint out"
            ) from error
        yield self.text(kind)
        if isinstance(reduced, str):
            yield reduced.encode()
            return
        for one in reduced:
            yield self.text(list(one) if isinstance(one, Iterator) else _state(one))


def _labelled(data: xr.Dataset | xr.DataArray) -> list[Any]:
    own = {"data": data.variable} if isinstance(data, xr.DataArray) else data.data_vars
    found: list[Any] = [getattr(data, "name", None), dict(data.attrs)]
    for name, held in [*own.items(), *data.coords.items()]:
        levels = [held.dtype.categories, held.dtype.ordered] if isinstance(held.dtype, pd.CategoricalDtype) else []
        found.append([name, held.dims, str(held.dtype), levels, np.asarray(held.values), dict(held.attrs)])
    return found


def _state(state: Any) -> Any:
    """A class with slots that came from another process has a dictionary, too, and holds the same in another place."""
    match state:
        case (None, dict() as slots):
            return dict(sorted(slots.items()))
        case (dict() as attributes, dict() as slots):
            return dict(sorted((attributes | slots).items()))
        case _:
            return state


def _made_of(value: Any) -> list[Any] | None:
    """What a function, a class or a module is made of; None of other things."""
    if isinstance(value, types.CodeType):
        return made_of_code(value)
    if isinstance(value, types.ModuleType):
        return made_of_module(value)
    if isinstance(value, slice):
        return [value.start, value.stop, value.step]
    if isinstance(value, types.MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, functools.partial):
        return [type(value), value.func, value.args, value.keywords, vars(value)]
    if isinstance(value, OF_A_TYPE):
        return [value.__objclass__, value.__name__]
    if isinstance(value, NAMED) and value.__self__ is not None and not isinstance(value.__self__, types.ModuleType):
        return [value.__self__, value.__name__]
    if isinstance(value, functools._lru_cache_wrapper):
        return [value.__wrapped__, vars(value)]
    if isinstance(value, np.ufunc):
        return _name_of_ufunc(value)
    if isinstance(value, Op) and hasattr(value, "__props__") and is_found_by_name(*_named(type(value))):
        # What PyTensor compares; the rest is what it remembers.
        return [type(value), *(getattr(value, name) for name in value.__props__)]
    if isinstance(value, Mapping) and isinstance(value, Hashable) and is_found_by_name(*_named(type(value))):
        return [type(value), dict(value)]  # frozen, it may remember its hash
    if callable(value):
        module = getattr(value, "__module__", None) or "builtins"
        name = getattr(value, "__qualname__", getattr(value, "__name__", None))
        if is_found_by_name(value, module, name):
            return [module, name]
        if isinstance(value, types.FunctionType):
            return [module, name, *made_of_function(value)]
        if isinstance(value, type):
            return [module, name, *made_of_class(value)]
    return None


def _named(kind: type) -> tuple[type, str, str]:
    return kind, kind.__module__, kind.__qualname__


def _name_of_ufunc(function: Any) -> list[Any] | None:
    """Of NumPy or SciPy; None of one that was made of a function."""
    name = function.__name__
    found = (library.__name__ for library in (np, scipy.special) if getattr(library, name, None) is function)
    return next(([library, name] for library in found), None)
