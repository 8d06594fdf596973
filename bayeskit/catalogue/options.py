"""Options of a model: read from the signature of its ``build``, parsed from text, checked before use.

An option is a keyword-only parameter of ``build`` with a default and one of these annotations: ``bool``, ``int``,
``float``, ``str``, ``Literal[...]``, any of them ``| None``, any of them in ``Annotated[..., Range(...)]``.
"""

from __future__ import annotations

import inspect
import math
import numbers
import re
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from bayeskit.datasets.schema import Option, Range
from bayeskit.errors import ModelError, OptionError

__all__ = ["check_options", "model_options", "option_error", "parse_options"]

TRUE = ("true", "yes", "on", "1")
FALSE = ("false", "no", "off", "0")


def model_options(build: Callable[..., Any]) -> dict[str, Option]:
    """The options of a model, from its signature.

    Parameters
    ----------
    build : callable
        A model's ``build``; every keyword-only parameter is an option. One without an annotation has the type of its
        default.

    Returns
    -------
    dict of str to Option
        In the order of the signature.

    Raises
    ------
    ModelError
        If a parameter is of another type than those named above.
    """
    parameters = [p for p in inspect.signature(build).parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    # Options only: the type of ``data`` may be known to type checkers alone.
    annotated = types.SimpleNamespace(__annotations__={p.name: p.annotation for p in parameters})
    hints = get_type_hints(annotated, globalns=inspect.unwrap(build).__globals__, include_extras=True)
    docs = _parameter_docs(inspect.getdoc(build) or "")
    return {p.name: _option(p.name, hints[p.name], p.default, docs.get(p.name, "")) for p in parameters}


def parse_options(build: Callable[..., Any], texts: Mapping[str, str] | Iterable[str]) -> dict[str, Any]:
    """Read options written as text into values of the right types.

    Parameters
    ----------
    build : callable
        A model's ``build``.
    texts : mapping of str to str, or iterable of str
        ``{"degree": "2"}`` or ``["degree=2"]``.

    Returns
    -------
    dict
        Arguments for ``build``, checked.

    Raises
    ------
    OptionError
        If an option is unknown, written twice, of the wrong type, or out of range.
    """
    options = model_options(build)
    values = {}
    for name, text in _pairs(texts):
        option = _find(options, name)
        if name in values:
            raise OptionError(f"option {name} is set twice; set it once")
        values[name] = _from_text(option, text.strip())
    return check_options(build, values)


def check_options(build: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Check options given as values: known names, right types, in range.

    Parameters
    ----------
    build : callable
        A model's ``build``.
    values : mapping of str to value

    Returns
    -------
    dict
        The same options, as plain Python ``bool``, ``int``, ``float`` and ``str``.

    Raises
    ------
    OptionError
    """
    options = model_options(build)
    return {name: _checked(_find(options, name), value) for name, value in values.items()}


def option_error(name: str, value: Any, allowed: str) -> OptionError:
    """The one way to say that an option's value is not allowed."""
    return OptionError(f"option {name} is {value!r}; it must be {allowed}")


def _pairs(texts: Mapping[str, str] | Iterable[str]) -> Iterable[tuple[str, str]]:
    if isinstance(texts, Mapping):
        yield from texts.items()
        return
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise OptionError(f"option {text!r} is not of the form name=value; write for example alpha=2")
        yield name.strip(), value


def _find(options: Mapping[str, Option], name: str) -> Option:
    if name not in options:
        known = ", ".join(options) or "none"
        raise OptionError(f"unknown option {name!r}; this model's options are {known}")
    return options[name]


def _from_text(option: Option, text: str) -> Any:
    if option.optional and text.lower() in ("none", ""):
        return None
    if option.type is bool:
        lowered = text.lower()
        if lowered not in TRUE + FALSE:
            raise option_error(option.name, text, option.allowed)
        return lowered in TRUE
    try:
        return option.type(text)
    except ValueError:
        raise option_error(option.name, text, option.allowed) from None


def _checked(option: Option, value: Any) -> Any:
    if value is None and option.optional:
        return None
    if option.choices:
        if value not in option.choices:
            raise option_error(option.name, value, option.allowed)
        return value
    # A NumPy scalar is as good as a Python number; a bool is not a number here, nor is 1.5 a whole one.
    abstract = {bool: (bool,), int: (numbers.Integral,), float: (numbers.Real,), str: (str,)}[option.type]
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if not isinstance(value, abstract) or (isinstance(value, bool) and option.type is not bool):
        raise option_error(option.name, value, option.allowed)
    value = option.type(value)
    if option.type is float and not math.isfinite(value):
        raise option_error(option.name, value, option.allowed)
    if option.range is not None and value not in option.range:
        raise option_error(option.name, value, option.allowed)
    return value


def _option(name: str, hint: Any, default: Any, doc: str) -> Option:
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
            (hint,) = (argument for argument in arguments if argument is not types.NoneType)
        elif origin is Literal:
            choices, hint = arguments, type(arguments[0])
        else:
            break
    if hint is inspect.Parameter.empty:
        hint = type(default)
    if hint not in (bool, int, float, str):
        raise ModelError(
            f"parameter {name!r} of build has the type {getattr(hint, '__name__', hint)}; "
            "an option is a bool, int, float, str or Literal: annotate it as one"
        )
    return Option(name, hint, default, choices, allowed, optional, doc)


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
