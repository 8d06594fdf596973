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

__all__ = ["BuiltModel", "build_model", "build_models", "load_module", "split_specification"]

type NamedColumns = Mapping[str, str | tuple[str, ...]]
type Loaded = tuple[ModuleType, Callable[[], AbstractContextManager[None]]]
ROW = "row"  # what --columns calls the labels of the rows
MOST_REASONS = 3


@dataclass(frozen=True)
class BuiltModel:
    """A model, and what it was built from."""

    name: str  # the specification, as it was typed
    model: pm.Model = field(repr=False)
    data: str  # where the data came from: a path, the name of an example, or the model file itself
    options: Mapping[str, Any] = field(default_factory=dict)  # those that were set
    columns: NamedColumns = field(default_factory=dict)  # those that were named, by the variables that they are
    standardised: bool = False  # whether its weights are for features in sds


def build_model(specification: str, *, data: str | None, columns: NamedColumns, settings: Sequence[str]) -> BuiltModel:
    """Build the model that a specification names.

    ``data`` is the path of a table; without it, the model's example is taken, with the options that suit the example.
    ``columns`` are those of the variables of the model whose names differ, ``settings`` are ``name=value`` texts beside
    those in the specification.
    """
    _require_there(data)
    return _built(specification, load_module(split_specification(specification)[0]), data, columns, settings)


def build_models(
    specifications: Sequence[str], *, data: str | None, columns: NamedColumns, settings: Sequence[str]
) -> list[BuiltModel]:
    """Build models of one table: each is given the columns of its own variables, and an error names the model."""
    _require_there(data)
    loaded = {text: load_module(split_specification(text)[0]) for text in specifications}
    declared = {text: vars(module).get("VARIABLES") for text, (module, _) in loaded.items()}
    stated = {text: known for text, known in declared.items() if known is not None}
    for name in columns if len(stated) == len(declared) else ():
        if name != ROW and not any(name in known for known in stated.values()):
            has = "; ".join(f"{text} has {', '.join(known)}" for text, known in stated.items())
            raise DataError(f"--columns: no compared model has a variable {name!r}; {has}")
    built = []
    for text, known in declared.items():
        own = columns if known is None else {n: c for n, c in columns.items() if n in known or n == ROW}
        try:
            built.append(_built(text, loaded[text], data, own, settings))
        except (DataError, ModelError, OptionError) as error:
            if text in str(error):
                raise
            raise type(error)(f"model {text}: {error}") from error.__cause__
    return built


def _require_there(table: str | None) -> None:
    """That there is such a file, before a model is loaded, which imports PyMC for seconds."""
    if table is not None:
        from bayeskit.datasets.loading import require_table

        require_table(table)


def split_specification(specification: str) -> tuple[str, list[str]]:
    """The name of a model and the texts of its options, of ``name:option=value,option=value``."""
    match = re.fullmatch(r"(.*?):([^=:/\\]*=.*)", specification)
    return (match[1], match[2].split(",")) if match else (specification, [])


def _built(
    specification: str, loaded: Loaded, data: str | None, columns: NamedColumns, settings: Sequence[str]
) -> BuiltModel:
    from bayeskit.catalogue.options import parse_options
    from bayeskit.datasets import example_data

    name, own = split_specification(specification)
    settings = [*own, *settings]
    left_out: dict[str, str] = {}
    module, running = loaded
    build = getattr(module, "build", None)
    table = data if data is not None else "--columns" if columns else None
    if not callable(build):
        return BuiltModel(specification, _finished_model(module, Path(name), table, settings), name)
    with running():
        options = parse_options(build, settings)
        parameters = inspect.signature(build).parameters
    arguments: tuple[Any, ...] = ()
    if not any(p.kind < p.VAR_POSITIONAL and (p.default is p.empty or p.name == "data") for p in parameters.values()):
        _refuse_data(specification, table, "its build() takes no data")
        label = name
    elif data is not None:
        read, left_out = _read(data, getattr(module, "VARIABLES", None), columns)
        arguments, label = (read,), data
    else:
        if columns:
            raise OptionError("--columns names columns of a table; name the table with --data")
        if not (hasattr(module, "EXAMPLE") and hasattr(module, "VARIABLES")):
            raise DataError(f"model {specification!r} has no example data; name a table with --data")
        arguments, label = (example_data(module.EXAMPLE, module.VARIABLES),), module.EXAMPLE.dataset
        columns = module.EXAMPLE.columns
        options = {**module.EXAMPLE.options, **options}
    try:
        with running():
            model = build(*arguments, **options)
    except ModelError as error:
        asked = [why for column, why in left_out.items() if repr(column) in str(error)]
        raise (DataError(f"{asked[0]}; {DECLARE}") if asked else error) from error.__cause__
    as_built = parameters["standardise"].default if "standardise" in parameters else False
    standardised = options.get("standardise", as_built) is True and "weights" in model.named_vars
    return BuiltModel(specification, _checked(model, specification), label, options, columns, standardised)


NO_COLUMN = re.compile(r"No variable named '(\w+)'")  # xarray's words
RENAME = "where it is in the table by another name, give --columns {}=COLUMN"
DECLARE = "a model file reads labels, or a column with gaps, where its VARIABLES declare them (kind, missing)"


def _read(
    path: str, variables: Mapping[str, Variable] | None, columns: NamedColumns
) -> tuple[xr.Dataset, dict[str, str]]:
    """A user's table with the variables that a model declares, and why columns were left out.

    A model that declares none gets the columns that were named, under the names that they were given, and all others
    that hold numbers: it may not need the others.
    """
    from bayeskit.datasets import Variable, load_table, prepare

    table = load_table(path)
    if variables is not None:
        return prepare(table, variables, columns), {}
    named = {name: column for name, column in columns.items() if name != ROW}
    chosen = {n: Variable((ROW,) if isinstance(c, str) else (ROW, f"{n}_column")) for n, c in named.items()}
    rows = prepare(table, chosen, columns).sizes.get(ROW)
    left_out: dict[str, str] = {}
    for name in (str(name) for name in table if str(name) not in named):
        try:
            found = prepare(table[[name]], {name: Variable()}).sizes[ROW]
        except DataError as error:
            left_out[name] = str(error)
            continue
        if rows is not None and found != rows:  # of a netCDF file, whose variables need not have one dim
            left_out[name] = f"column {name!r} has {found} rows, and the columns that were named have {rows}"
        else:
            chosen[name] = Variable()
    if not chosen:
        reasons = "; ".join([*left_out.values()][:MOST_REASONS]) or "it has no columns"
        raise DataError(f"{path} has no column that can be given to the model: {reasons}; {DECLARE}")
    return prepare(table, chosen, columns), left_out


def _refuse_data(specification: str, data: str | None, why: str) -> None:
    if data == "--columns":
        raise OptionError(f"model {specification!r} reads no table: {why}; leave out --columns")
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


def load_module(name: str) -> Loaded:
    """The module of a catalogue name or of a Python file, and what its code is to be run in."""
    from bayeskit.models import MODELS, load_model

    model, colon, rest = name.partition(":")
    if colon and (model in MODELS or model.endswith(".py")) and not Path(name).exists():
        advice = f"write {model}:option=value, or {model} alone; `bayeskit models {model}` lists the options"
        raise OptionError(f"{rest!r} after {model}: is not of the form option=value; {advice}")
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
        if isinstance(error, KeyError) and (absent := NO_COLUMN.search(what)):
            what += f"; {RENAME.format(absent[1])}"
        raise ModelError(f"model file {path}{where}: {what}") from error
    finally:
        sys.path.remove(folder)
