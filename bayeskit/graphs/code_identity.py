"""What tells a function or a class of a user's from another: code, defaults, what it encloses, and what it names."""

from __future__ import annotations

import dis
import functools
import importlib
import types
from collections.abc import Iterable, Iterator
from importlib.util import resolve_name
from itertools import pairwise
from typing import Any

from bayeskit.graphs.installed import is_installed

__all__ = ["made_of_class", "made_of_code", "made_of_function", "made_of_module"]

GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
ENCLOSED = ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")
# Of a class, what Python and its libraries note down about what is told otherwise.
PYTHON = ("module", "qualname", "firstlineno", "static_attributes", "dict", "weakref", "doc", "abstractmethods")
TYPING = ("annotations", "annotations_cache", "annotate", "annotate_func", "parameters", "orig_bases", "type_params")
PICKLES = ("dataclass_fields", "dataclass_params", "slotnames")
NOTES = frozenset({f"__{name}__" for name in PYTHON + TYPING + PICKLES} | {"_abc_impl"})
DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType)


def made_of_code(code: types.CodeType) -> list[Any]:
    """The instructions, and the names and constants that they use."""
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return [code.co_code, code.co_exceptiontable, counts, names, code.co_consts]


def made_of_function(function: types.FunctionType) -> list[Any]:
    """Its code, defaults and attributes, what it encloses, the globals that it names, and what it imports."""
    codes = list(_codes(function.__code__))
    names = {name for code in codes for name in code.co_names}
    whole = {name for code in codes for name in _taken_whole(code)}
    loaded = {i.argval for code in codes for i in dis.get_instructions(code) if i.opname in GLOBALS}
    globals_ = {name: function.__globals__[name] for name in sorted(loaded & function.__globals__.keys())}
    cells = dict(zip(function.__code__.co_freevars, map(_content, function.__closure__ or ()), strict=True))
    found: list[Any] = [function.__code__, function.__defaults__, function.__kwdefaults__, dict(vars(function))]
    for name, held in [*cells.items(), *globals_.items()]:
        own = isinstance(held, types.ModuleType) and name not in whole
        found.append([name, _used_of(held, names, {}) if own else held])
    return [*found, *(_used_of(module, names, {}) for code in codes for module in _imported(code, function))]


def made_of_class(kind: type) -> list[Any]:
    """Its bases, methods and other attributes."""
    held = {name: _plain(value) for name, value in sorted(vars(kind).items()) if name not in NOTES}
    return [list(kind.__bases__), {name: value for name, value in held.items() if not isinstance(value, DESCRIPTORS)}]


def made_of_module(module: types.ModuleType) -> list[Any]:
    """All that it holds, where nobody can say what of it is used."""
    held = {name: value for name, value in sorted(vars(module).items()) if not name.startswith("__")}
    return [module.__name__, *([] if is_installed(module.__name__) else [held])]


def _plain(value: Any) -> Any:
    """What a descriptor of Python's was made from."""
    if isinstance(value, staticmethod | classmethod):
        return [type(value).__name__, value.__func__]
    if isinstance(value, property):
        return [value.fget, value.fset, value.fdel]
    if isinstance(value, functools.cached_property):
        return ["cached_property", value.func]
    return value


def _used_of(module: types.ModuleType, names: Iterable[str], begun: dict[str, Any]) -> list[Any]:
    """Of a module of a user's what is named, in modules inside it, too."""
    if is_installed(module.__name__) or module.__name__ in begun:
        return [module.__name__]
    begun[module.__name__] = module
    held = {name: vars(module)[name] for name in sorted(set(names) & vars(module).keys())}
    told = {
        name: _used_of(value, names, begun) if isinstance(value, types.ModuleType) else value
        for name, value in held.items()
    }
    return [module.__name__, told]


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return Ellipsis


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _codes(one)


def _instructions(code: types.CodeType) -> list[dis.Instruction]:
    return [i for i in dis.get_instructions(code) if i.opname != "EXTENDED_ARG"]


def _taken_whole(code: types.CodeType) -> Iterator[str]:
    """Names of which more may be used than an attribute that is written out: by ``getattr``, or in a function."""
    for one, after in pairwise(_instructions(code)):
        if one.opname in (*GLOBALS, *ENCLOSED) and after.opname not in ATTRIBUTE:
            yield one.argval


def _imported(code: types.CodeType, function: types.FunctionType) -> Iterator[types.ModuleType]:
    """The modules that a function imports when it is called, unless they are installed."""
    instructions = _instructions(code)
    for k, one in enumerate(instructions):
        if one.opname != "IMPORT_NAME":
            continue
        level, named = instructions[k - 2].argval, instructions[k - 1].argval
        package = str(function.__globals__.get("__package__") or "")
        full = resolve_name("." * level + one.argval, package) if level else one.argval
        for name in [full.partition(".")[0], full, *(f"{full}.{n}" for n in named or ())]:
            try:
                module = None if is_installed(name) else importlib.import_module(name)
            except ImportError:  # not there for the function either, or no module but what is in one
                continue
            if module is not None:
                yield module
