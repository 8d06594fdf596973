"""From what a person types to a built model: a catalogue name or a Python file, a table, and options as text.

A specification is ``name`` or ``name:option=value,option=value``. A name is one of the catalogue, or the path of a
Python file that defines ``build(data, *, option=default, ...)``, which returns a ``pymc.Model`` (with ``VARIABLES``
and ``EXAMPLE`` as in ``models/``, both optional), or ``model``, a ``pymc.Model`` or a function without arguments that
returns one.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bayeskit.errors import BayeskitError, DataError, ModelError, OptionError

if TYPE_CHECKING:
    import pymc as pm
    import xarray as xr

    from bayeskit.datasets.schema import Variable

__all__ = ["BuiltModel", "build_model", "load_module"]


@dataclass(frozen=True)
class BuiltModel:
    """A model, and what it was built from."""

    name: str  # the specification, as it was typed
    model: pm.Model = field(repr=False)
    data: str  # where the data came from: a path, the name of an example, or the model file itself
    options: Mapping[str, Any] = field(default_factory=dict)  # those that were set


def build_model(
    specification: str, *, data: str | None, columns: Mapping[str, str | tuple[str, ...]], settings: Sequence[str]
) -> BuiltModel:
    """Build the model that a specification names.

    ``data`` is the path of a table; without it, the model's example is taken, with the options that suit the example.
    ``columns`` are those of the variables of the model whose names differ, ``settings`` are ``name=value`` texts beside
    those in the specification.
    """
    from bayeskit.catalogue.options import parse_options
    from bayeskit.datasets import example_data

    match = re.fullmatch(r"(.*?):(\w+=.*)", specification)
    name, own = (match[1], match[2].split(",")) if match else (specification, [])
    settings = [*own, *settings]
    left_out: dict[str, str] = {}
    module, running = load_module(name)
    build = getattr(module, "build", None)
    if not callable(build):
        return BuiltModel(specification, _finished_model(module, Path(name), data, settings), name)
    with running():
        options = parse_options(build, settings)
        parameters = inspect.signature(build).parameters.values()
    arguments: tuple[Any, ...] = ()
    if not any(p.kind < p.VAR_POSITIONAL and (p.default is p.empty or p.name == "data") for p in parameters):
        _refuse_data(specification, data, "its build() takes no data")
        label = name
    elif data is not None:
        table, left_out = _read(data, getattr(module, "VARIABLES", None), columns)
        arguments, label = (table,), data
    else:
        if columns:
            raise OptionError("--columns names columns of a table; name the table with --data")
        if not (hasattr(module, "EXAMPLE") and hasattr(module, "VARIABLES")):
            raise DataError(f"model {specification!r} has no example data; name a table with --data")
        arguments, label = (example_data(module.EXAMPLE, module.VARIABLES),), module.EXAMPLE.dataset
        options = {**module.EXAMPLE.options, **options}
    try:
        with running():
            model = build(*arguments, **options)
    except ModelError as error:
        asked = [why for column, why in left_out.items() if repr(column) in str(error)]
        raise (DataError(asked[0]) if asked else error) from error.__cause__
    return BuiltModel(specification, _checked(model, specification), label, options)


def _read(
    path: str, variables: Mapping[str, Variable] | None, columns: Mapping[str, str | tuple[str, ...]]
) -> tuple[xr.Dataset, dict[str, str]]:
    """A user's table with the variables that a model declares, and why columns were left out.

    A model that declares none gets the columns that were named, or all that hold numbers: it may not need the others.
    """
    from bayeskit.datasets import Variable, load_table, prepare

    table, left_out = load_table(path), {}
    if variables is None:
        chosen = columns or {str(name): str(name) for name in table}
        variables = {n: Variable(("row",) if isinstance(c, str) else ("row", f"{n}_column")) for n, c in chosen.items()}
        for name in () if columns else chosen:
            try:
                prepare(table[[name]], {name: Variable()})
            except DataError as error:
                left_out[name] = str(error)
    return prepare(table, {n: v for n, v in variables.items() if n not in left_out}, columns), left_out


def _refuse_data(specification: str, data: str | None, why: str) -> None:
    if data is not None:
        what = f"model {specification!r} cannot read {data!r}: {why}"
        raise OptionError(f"{what}; leave out --data, or define build(data)")


def _finished_model(module: ModuleType, path: Path, data: str | None, settings: Sequence[str]) -> pm.Model:
    """The ``model`` of a file without ``build``."""
    if not hasattr(module, "model"):
        raise ModelError(f"model file {path} defines neither build(data) nor model; define one of them")
    _refuse_data(str(path), data, "the file defines a finished model")
    if settings:
        option = settings[0].partition("=")[0]
        raise OptionError(f"model file {path} has no option {option!r}: it defines a finished model")
    model = module.model
    if inspect.isfunction(model):
        with _running(path):
            model = model()
    return _checked(model, str(path))


def _checked(model: Any, name: str) -> pm.Model:
    import pymc as pm

    if not isinstance(model, pm.Model):
        raise ModelError(f"model {name!r} is a {type(model).__name__}, not a pymc.Model; return the model")
    return model


def load_module(name: str) -> tuple[ModuleType, Callable[[], AbstractContextManager[None]]]:
    """The module of a catalogue name or of a Python file, and what its code is to be run in."""
    from bayeskit.models import load_model

    if name.endswith(".py") or os.sep in name or "/" in name:
        return _load_file(Path(name)), partial(_running, Path(name))
    return load_model(name), nullcontext


def _load_file(path: Path) -> ModuleType:
    """Run a model file as a module, leaving no compiled file beside it."""
    try:
        source = path.read_bytes()
    except OSError as error:
        what = f"model file {path} cannot be read: {error.strerror}"
        raise ModelError(f"{what}; give a catalogue name or a Python file") from None
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    with _running(path):
        exec(compile(source, str(path), "exec"), module.__dict__)
    return module


@contextmanager
def _running(path: Path) -> Iterator[None]:
    """Run a user's code as ``python path`` would; what it raises becomes one line with file and line number."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        if isinstance(error, SyntaxError) and error.filename == str(path):
            lines = [error.lineno]
        if not lines and isinstance(error, BayeskitError):
            raise
        where = f", line {lines[-1]}" if lines else ""
        kind = "" if isinstance(error, BayeskitError) else f"{type(error).__name__}: "
        what = f"{kind}{getattr(error, 'msg', error) if kind else error}"
        raise ModelError(f"model file {path}{where}: {what}") from error
    finally:
        sys.path.remove(folder)
