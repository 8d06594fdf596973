"""Arguments are held to their annotations, and the error says what they must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pymc as pm
import pytest
import xarray as xr

from bayeskit.arguments import SAMPLER_OPTIONS, Count, Probability, Range, checked, numeric
from bayeskit.errors import BayeskitError, DataError, ModelError, OptionError


@checked
def asked(
    number: Count = 1,
    share: Probability = 0.5,
    above: Annotated[float, Range(0)] | None = None,
    kind: Literal["one", "two"] = "one",
    names: Sequence[str] = (),
    odds: Mapping[str, float] | None = None,
    whatever: Mapping[str, Any] | None = None,
    path: str | Path = "",
    flag: bool = True,
    model: pm.Model | None = None,
    data: xr.Dataset | None = None,
) -> dict[str, Any]:
    return locals()


WRONG: list[tuple[str, Any, type[BayeskitError], str]] = [
    ("number", 0, OptionError, "number is 0; it must be a whole number from 1 to 1e+09"),
    ("number", 2.0, OptionError, "number is 2.0; it must be a whole"),
    ("number", True, OptionError, "number is True; it must be a whole"),
    ("number", "3", OptionError, "number is '3'; it must be a whole"),
    ("number", 10**5000, OptionError, "number is a huge number; it must be a whole"),
    ("share", 1.0, OptionError, "share is 1.0; it must be a finite number from 0 to 1, both excluded"),
    ("share", np.nan, OptionError, "share is nan; it must be a finite number"),
    ("above", -1, OptionError, "above is -1; it must be a finite number at least 0 or None"),
    ("above", np.inf, OptionError, "above is inf"),
    ("kind", "three", OptionError, "kind is 'three'; it must be one of one, two"),
    ("kind", np.array(["one", "two"]), OptionError, "kind is array"),
    ("names", "one", OptionError, "names is 'one'; it must be a sequence of text"),
    ("names", ["one", 2], OptionError, "it must be a sequence of text"),
    ("odds", {"one": "x"}, OptionError, "it must be a mapping by name of a finite number or None"),
    ("path", 3, OptionError, "path is 3; it must be text or a pathlib.Path"),
    ("flag", "no", OptionError, "flag is 'no'; it must be true or false"),
    ("model", "line", ModelError, "model is 'line'; it must be a pymc.Model or None"),
    ("data", {"x": 1}, DataError, "it must be an xarray.Dataset or None"),
]


@pytest.mark.parametrize(("name", "value", "error", "message"), WRONG, ids=[w[3] for w in WRONG])
def test_what_is_no_such_argument_is_refused(name: str, value: Any, error: type[BayeskitError], message: str) -> None:
    with pytest.raises(error) as raised:
        asked(**{name: value})
    assert message in str(raised.value)
    assert type(raised.value) is error


def test_what_is_one_is_given_on() -> None:
    right = {"number": 3, "share": 0.2, "above": 0.0, "kind": "two", "names": ["a"], "odds": {"a": 1}, "flag": False}
    right |= {"whatever": {"a": object()}, "path": Path("a"), "model": pm.Model(), "data": xr.Dataset()}
    assert asked(**right) == asked() | right
    numpy = asked(np.int32(3), np.float32(0.5), flag=np.bool_(False))
    assert (numpy["number"], numpy["share"], numpy["flag"]) == (3, 0.5, False)
    assert [type(numpy[name]) for name in ("number", "share", "flag")] == [int, float, bool]
    with pytest.raises(TypeError, match="unexpected keyword"):
        asked(colour="red")  # type: ignore[call-arg]


@checked
def sampled(model: pm.Model, *, draws: Count = 1, sampler: Mapping[str, Any] | None = None) -> None:
    """As `infer` is."""


@checked
def predicted(data: Mapping[str, Any] | None = None, *, coords: Mapping[str, Any] | None = None) -> None:
    """As `predict` is."""


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sampled(pm.Model(), chains=2), "sampled() got an unexpected keyword argument 'chains'; options of "),
        (lambda: sampled(pm.Model(), chains=2), "sampler={'chains': ...}"),
        (lambda: sampled(pm.Model(), colour=2), "'colour'; its arguments are model, draws, sampler"),
        (lambda: sampled(), "sampled() missing a required argument: 'model'; give it the model"),
        (lambda: sampled(pm.Model(), 3), "sampled() too many positional arguments"),
        (
            lambda: predicted(x=[1.0]),
            "predicted() got an unexpected keyword argument 'x'; new data are ",
        ),
        (lambda: predicted(x=[1.0]), "data={'x': ...}; its arguments are data, coords"),
        (lambda: asked(chains=2), "asked() got an unexpected keyword argument 'chains'; its arguments are number, "),
    ],
)
def test_arguments_that_are_none_are_told_with_the_function(call: Callable[[], None], message: str) -> None:
    with pytest.raises(TypeError) as raised:
        call()
    assert message in str(raised.value)


def test_every_option_of_the_sampler_is_hinted_at() -> None:
    from bayeskit.sampling.options import sampler_defaults

    assert set(sampler_defaults()) < set(SAMPLER_OPTIONS)


@pytest.mark.parametrize("given", ["x", [[1, 2], [3]], [None], xr.DataTree(), np.ma.masked_array([1.0], [True])])
def test_what_is_no_array_of_numbers_is_refused(given: Any) -> None:
    with pytest.raises(DataError, match="the values are not numbers"):
        numeric("the values", given)
