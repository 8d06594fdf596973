"""Options of a model: read from the signature of its ``build``, parsed from text, checked before use.

An option is a keyword-only parameter of ``build``, or another with a default, whose annotation (or default, where it
has none) is one of these types: ``bool``, ``int``, ``float``, ``str``, ``Literal[...]``, any of them ``| None``, any of
them in ``Annotated[..., Range(...)]``.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from bayeskit.arguments import PLAIN, Range, is_a, plain, shown
from bayeskit.datasets.schema import Option
from bayeskit.errors import ModelError, OptionError

__all__ = ["check_options", "model_options", "no_options", "option_error", "parse_options"]

TYPES = tuple(PLAIN)
ANNOTATE = "an option is a bool, int, float, str or Literal: annotate it as one"
BOOLS = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)


def model_options(build: Callable[..., Any]) -> dict[str, Option]:
    """The options of a model's ``build``, in their order; one without an annotation has the type of its default."""
    docs = _parameter_docs(inspect.getdoc(build) or "")
    options = {}
    for parameter in _defaulted(build):
        try:
            option = _option(parameter.name, _hint(build, parameter), parameter.default)
        except ModelError:
            if parameter.kind is parameter.KEYWORD_ONLY:
                raise
            continue  # an argument that the file gives a value, for no one to change
        options[parameter.name] = replace(option, doc=docs.get(parameter.name, ""))
    return options


def no_options(build: Callable[..., Any]) -> dict[str, str]:
    """The parameters of a model's ``build`` that have a default and cannot be set from text, and why."""
    reasons = {}
    for parameter in _defaulted(build):
        try:
            _option(parameter.name, _hint(build, parameter), parameter.default)
        except ModelError as error:
            reasons[parameter.name] = str(error)
    return reasons


def _defaulted(build: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters that may be options: keyword-only, or with a default."""
    known = inspect.signature(build).parameters.values()
    return [p for p in known if p.kind is p.KEYWORD_ONLY or (p.name != "data" and p.default is not p.empty)]


def _hint(build: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """The annotation of one parameter: those of others may be known to type checkers alone."""
    annotated = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        hints = get_type_hints(annotated, globalns=inspect.unwrap(build).__globals__, include_extras=True)
    except (NameError, TypeError) as error:
        raise ModelError(f"parameter {parameter.name!r} of build: {error}; {ANNOTATE}") from error
    return hints[parameter.name]


def parse_options(build: Callable[..., Any], texts: Iterable[str]) -> dict[str, Any]:
    """Arguments for a model's ``build`` from text, ``["degree=2"]``: known names, once each, right types, in range."""
    options = model_options(build)
    values = {}
    for text in texts:
        name, sign, value = (part.strip() for part in text.partition("="))
        if not sign or not name:
            raise OptionError(f"option {text!r} is not of the form name=value; write for example alpha=2")
        if name in values:
            raise OptionError(f"option {name} is set twice; set it once")
        if name not in options and (why := no_options(build).get(name)):
            raise OptionError(f"{name} cannot be set: {why}")
        values[name] = _from_text(_find(options, name), value)
    return check_options(build, values)


def check_options(build: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Options given as values, as plain ``bool``, ``int``, ``float`` and ``str``; refused as those of text are."""
    options = model_options(build)
    return {name: _checked(_find(options, name), value) for name, value in values.items()}


def option_error(name: str, value: Any, allowed: str) -> OptionError:
    """The one way to say that an option's value is not allowed."""
    return OptionError(f"option {name} is {shown(value)}; it must be {allowed}")


def _find(options: Mapping[str, Option], name: str) -> Option:
    if name not in options:
        known = ", ".join(options) or "none"
        raise OptionError(f"unknown option {name!r}; this model's options are {known}")
    return options[name]


def _from_text(option: Option, text: str) -> Any:
    if option.optional and text.lower() in ("none", ""):
        return None
    try:
        return BOOLS[text.lower()] if option.type is bool else option.type(text)
    except (KeyError, ValueError):
        raise option_error(option.name, text, option.allowed) from None


def _checked(option: Option, value: Any) -> Any:
    value = plain(value)
    if (value is None and option.optional) or (isinstance(value, TYPES) and value in option.choices):
        return value
    if not option.choices and is_a(value, option.type) and (option.range is None or value in option.range):
        return option.type(value)
    raise option_error(option.name, value, option.allowed)


def _option(name: str, hint: Any, default: Any) -> Option:
    choices: tuple[Any, ...] = ()
    allowed: Range | None = None
    optional = False
    while True:
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            hint = arguments[0]
            allowed = next((mark for mark in arguments[1:] if isinstance(mark, Range)), allowed)
        elif origin in (Union, types.UnionType):
            optional = optional or types.NoneType in arguments
            several = [argument for argument in arguments if argument is not types.NoneType]
            hint = several[0] if len(several) == 1 else hint
            if len(several) != 1:
                break
        elif origin is Literal:
            choices, hint = arguments, type(arguments[0])
        else:
            break
    if hint is inspect.Parameter.empty:
        hint = type(default)
    if hint not in TYPES:
        kind = "no known type" if hint is types.NoneType else f"the type {getattr(hint, '__name__', hint)}"
        raise ModelError(f"parameter {name!r} of build has {kind}; {ANNOTATE}")
    return Option(name, hint, default, choices, allowed, optional)


def _parameter_docs(docstring: str) -> dict[str, str]:
    """Descriptions in the ``Parameters`` section of a numpydoc docstring, one line each."""
    match = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}\n|\Z)", docstring, flags=re.M | re.S)
    docs: dict[str, str] = {}
    names: list[str] = []
    for line in (match.group(1) if match else "").splitlines():
        if line and not line[0].isspace():
            names = [name.strip() for name in line.partition(" : ")[0].split(",")]
        else:
            for name in names:
                docs[name] = f"{docs.get(name, '')} {line.strip()}".strip()
    return docs
