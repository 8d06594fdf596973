"""The arguments of public functions, held to their annotations before anything is computed.

What an argument may be is said once, in the signature: ``Count``, ``Literal["likelihood", "posterior"]``,
``Annotated[float, Range(0)]``, ``Sequence[str] | None``. What has the right type and does not fit the model, a name
that it does not have or an array of another length, is refused where it is read. Pydantic's ``validate_call`` would
turn "3" into 3, build mappings of posteriors anew, and answer in several lines.
"""

from __future__ import annotations

import inspect
import reprlib
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from typing import Annotated, Any, Literal, TypeAliasType, Union, get_args, get_origin, get_type_hints
from zlib import crc32

import numpy as np

from bayeskit.errors import DataError, ModelError, OptionError

__all__ = [
    "PLAIN",
    "SAMPLER_OPTIONS",
    "Count",
    "Positive",
    "Probability",
    "RandomSeed",
    "Range",
    "all_finite",
    "checked",
    "hold",
    "is_a",
    "numeric",
    "plain",
    "seed_of",
    "shown",
    "whole_seed",
]

PLAIN = {bool: "true or false", int: "a whole number", float: "a finite number", str: "text"}
# What an error is of, by the packages of the types that were asked for; of an option, where it is none of them.
SUBJECTS = {"pymc.": ModelError, "bayeskit.": ModelError, "xarray.": DataError, "pandas.": DataError}

# PyMC's names of what the argument ``sampler`` takes; nutpie's come beside them.
SAMPLER_OPTIONS = ("tune", "chains", "target_accept", "init", "cores", "adaptation")


@dataclass(frozen=True)
class Range:
    """The numbers an option may take, written ``Annotated[float, Range(0, 1)]``; None is no end."""

    low: float | None = None
    high: float | None = None
    closed: Literal["both", "left", "right", "neither"] = "both"  # the ends that belong to it

    def __contains__(self, value: float) -> bool:
        above = self.low is None or value > self.low or (value == self.low and self.closed in ("both", "left"))
        below = self.high is None or value < self.high or (value == self.high and self.closed in ("both", "right"))
        return above and below

    def __str__(self) -> str:
        if self.low is None and self.high is None:
            return "any number"
        if self.high is None:
            return f"at least {self.low:g}" if self.closed in ("both", "left") else f"above {self.low:g}"
        if self.low is None:
            return f"at most {self.high:g}" if self.closed in ("both", "right") else f"below {self.high:g}"
        ends = {"both": "", "left": f", {self.high:g} excluded", "right": f", {self.low:g} excluded"}
        return f"from {self.low:g} to {self.high:g}{ends.get(self.closed, ', both excluded')}"


Positive = Annotated[float, Range(low=0, closed="neither")]
"""A number above zero."""
Probability = Annotated[float, Range(0, 1, closed="neither")]
"""A number between zero and one."""
Count = Annotated[int, Range(1, 10**9)]
"""A whole number from one; more than a billion of anything is a slip."""


def checked[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """A function whose arguments are held to its annotations; the error for the first that is not says what may be."""
    signature = inspect.signature(function)
    # Not before the first call: what an annotation names may be imported after the function is made.
    hints = cache(lambda: get_type_hints(function, include_extras=True))

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True  # pytest shows the line that called
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError as error:
            advice = _advice(signature, args, kwargs)
            raise TypeError(f"{function.__qualname__}() {error}{advice}") from None
        for name, value in given.arguments.items():
            given.arguments[name] = hold(name, value, hints().get(name, Any))
        return function(*given.args, **given.kwargs)

    return called


def _advice(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """What to write for arguments that are too many or too few."""
    known = [name for name in signature.parameters if name != "self"] or ["none"]
    unknown = next((name for name in kwargs if name not in known), None)
    if unknown is None:
        missing = not args and "model" in known[:1] and "model" not in kwargs
        return "; give it the model, also inside of `with model:`" if missing else ""
    if "sampler" in known and unknown in SAMPLER_OPTIONS:
        return f"; options of the sampler are given by name, sampler={{{unknown!r}: ...}}"
    if known[0] == "data":
        return f"; new data are given by name, data={{{unknown!r}: ...}}; its arguments are {', '.join(known)}"
    return f"; its arguments are {', '.join(known)}"


def hold(name: str, value: Any, hint: Any) -> Any:
    """A value that is what an annotation says; else the error that says what it must be."""
    fits, words = _read(hint)
    if fits(value := plain(value)):
        return value
    error = next((kind for package, kind in SUBJECTS.items() if package in words), OptionError)
    alone = f", as in ({value!r},)" if isinstance(value, str) and "a sequence of text" in words else ""
    raise error(f"{name} is {shown(value)}; it must be {words}{alone}")


def plain(value: Any) -> Any:
    """A NumPy scalar is as good as a Python number."""
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def shown(value: Any) -> str:
    """A value in a message, cut where it is long; Python writes no whole number of thousands of digits."""
    huge = isinstance(value, int) and abs(value) > sys.float_info.max
    return "a huge number" if huge else reprlib.repr(value)


def is_a(value: Any, kind: type) -> bool:
    """Whether a value is a bool, a text or a number of a kind: a bool is not a number here, nor is 1.5 a whole one."""
    right = isinstance(value, int | float if kind is float else kind) and isinstance(value, bool) == (kind is bool)
    return right and (kind is not float or abs(value) <= sys.float_info.max)


def numeric(what: str, given: Any) -> np.ndarray:
    """What was given as an array; a DataError where it is no numbers, rows of different lengths, or masked."""
    ragged = False
    try:
        values = np.asarray(given)
    except (TypeError, ValueError) as error:
        values, ragged = np.array(None), "inhomogeneous" in str(error)
    if values.dtype.kind not in "biuf" or np.ma.is_masked(given):
        why = ", for some are masked" * np.ma.is_masked(given) + ", for rows of them have different lengths" * ragged
        raise DataError(f"{what} are not numbers{why}; numbers are needed")
    return values


def all_finite(values: np.ndarray) -> bool:
    """Whether no number is infinite or missing, by their sum: half the time of looking at each, and no array beside."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(values.sum()) or np.all(np.isfinite(values)))


@cache
def _read(hint: Any) -> tuple[Callable[[Any], bool], str]:
    """Whether a value is what an annotation says, as a function, and what that is in words."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint in (Any, Ellipsis) or isinstance(hint, TypeAliasType):  # an alias has a reader of its own
        return lambda value: True, "anything"
    if isinstance(hint, Range):
        return hint.__contains__, str(hint)
    if hint in PLAIN:
        return lambda value: is_a(value, hint), PLAIN[hint]
    if origin is Literal:
        return lambda value: isinstance(value, str) and value in parts, f"one of {', '.join(parts)}"
    if origin not in (Annotated, Union, types.UnionType, Mapping, Sequence, tuple):
        kind = origin or hint
        package = "" if kind.__module__ in ("os", "builtins") else f"{kind.__module__.partition('.')[0]}."
        words = f"{'an' if package == 'xarray.' else 'a'} {package}{kind.__name__}"
        return lambda value: isinstance(value, kind), "None" if kind is types.NoneType else words
    fits, said = zip(*map(_read, parts), strict=True)
    if origin is Annotated:
        return lambda value: all(fit(value) for fit in fits), " ".join(said)
    if origin is Mapping:
        words = f"a mapping by name of {said[1]}"
        return lambda v: isinstance(v, Mapping) and all(fits[1](plain(e)) for e in v.values()), words
    if origin in (Sequence, tuple):
        words, text = f"a sequence of {said[0]}", str | bytes
        return lambda v: isinstance(v, origin) and not isinstance(v, text) and all(fits[0](plain(e)) for e in v), words
    return lambda value: any(fit(value) for fit in fits), " or ".join(dict.fromkeys(said))


type RandomSeed = int | Sequence[int] | np.random.Generator | None


def whole_seed(random_seed: RandomSeed) -> int:
    """A seed as one whole number; a fresh one for None."""
    if isinstance(random_seed, int | np.integer) and not isinstance(random_seed, bool) and random_seed >= 0:
        return int(random_seed)
    try:
        if isinstance(random_seed, bool):
            raise TypeError
        return int(np.random.default_rng(random_seed).integers(2**32))
    except (TypeError, ValueError):
        kinds = "a whole number of at least 0, a sequence of such numbers, or a numpy.random.Generator"
        raise OptionError(f"random_seed is {shown(random_seed)}; it must be {kinds}") from None


def seed_of(random_seed: int, *names: str) -> int:
    """A seed of its own for what has these names, the same whatever else there is.

    Of one seed, the draws of two models are functions of the same random numbers: their errors would add up in an
    average, instead of in squares.
    """
    marks = [crc32(name.encode()) for name in names]
    return int(np.random.SeedSequence([random_seed, *marks]).generate_state(1)[0])
