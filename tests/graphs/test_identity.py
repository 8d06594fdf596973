"""What is known again in another run, and what is another thing."""

from __future__ import annotations

import collections
import functools
import importlib
import operator
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import xarray as xr

from bayeskit.errors import OptionError
from bayeskit.graphs.identity import digest_of

SCALE = 1.0

SOURCE = """
import functools, re, numpy as np, pandas as pd, scipy.stats, enum
from dataclasses import dataclass
from bayeskit.graphs.identity import digest_of

@dataclass
class Prior:
    mean: float
    def at(self, x): return x - self.mean

names = {"one", "two", "three", "four"}
scale = {"b": 1, "a": 2}
spots, normal = re.compile("a+"), scipy.stats.norm(0, 1)

class Kind(enum.Enum):
    ONE = 1

@functools.cache
def cached(x): return normal.pdf(x) + len(spots.findall("a")) + Kind.ONE.value

def build(rows, width=2):
    prior = Prior(1.0)
    return [np.exp(prior.at(x)) * scale["a"] + cached(1) for x in rows if x in names] + [functools.partial(max, width)]

print(digest_of(build), digest_of(pd.DataFrame({"x": [1, 2], "y": pd.Categorical(["u", None])})))
"""


COPIES = """
from dataclasses import dataclass
from scipy.stats import norm
from pytensor.tensor import exp
from bayeskit.graphs.identity import digest_of

@dataclass(slots=True)
class Prior:
    mean: tuple = (0.0, 1.0)

class Plain:
    __slots__ = ("scale",)

prior, plain, normal = Prior(), Plain(), norm(0, 1)
plain.scale = 1.0

def build(): return [prior.mean, prior.mean, plain.scale, normal.pdf(1.0), exp(1.0)]
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """What two processes say of the function of COPIES, sent from the first to the second, and of SOURCE.

    Both start with another seed of hashes; what they import takes most of their time, so each is asked for both.
    """
    file = str(tmp_path_factory.mktemp("sent") / "function")
    sent = COPIES + f"import cloudpickle; cloudpickle.dump(build, open({file!r}, 'wb'))"
    read = (
        "from bayeskit.graphs.identity import digest_of; import cloudpickle; "
        f"build = cloudpickle.load(open({file!r}, 'rb'))"
    )
    return [
        subprocess.run(
            [sys.executable, "-c", f"{code}\nprint(digest_of(build, refuse=False))\n{SOURCE}"],
            env=os.environ | {"PYTHONHASHSEED": str(k)},
            text=True,
            capture_output=True,
            check=True,
        ).stdout.splitlines()
        for k, code in enumerate((sent, read), 1)
    ]


@pytest.mark.slow
def test_the_same_function_is_the_same_in_another_process(said: list[list[str]]) -> None:
    assert len(said[0]) == 2
    assert said[0][1] == said[1][1]


def scaled(number: float) -> Callable[[float], float]:
    return lambda x: x * number


def test_what_a_function_is_made_of_tells_it_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def uses_global(x: float) -> float:
        return x * SCALE

    table = pd.DataFrame({"x": [1.0, 2.0], "g": pd.Categorical(["a", "b"])})
    reversed_categories = table.assign(g=table["g"].cat.reorder_categories(["b", "a"]))
    several = [
        scaled(1.0),
        scaled(2.0),
        functools.partial(scaled, 2.0),
        lambda x, y=1: x,
        lambda x, y=2: x,
        np.exp,
        np.log,
        table,
        reversed_categories,
        table.set_index([[4, 5]]),
        table.to_xarray(),
        xr.DataArray([1.0, 2.0]),
        xr.DataArray([1.0, 3.0]),
        np.arange(3),
        np.arange(3.0),
        [1, 2],
        (1, 2),
        {"a": 1},
        {"a": True},
        np.random.default_rng(1),
        np.random.default_rng(2),
    ]
    assert len({digest_of(one) for one in several}) == len(several)
    assert digest_of(scaled(1.0)) == digest_of(scaled(1.0))
    assert digest_of(table) == digest_of(table.copy())
    before = digest_of(uses_global)
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 2.0)
    assert digest_of(uses_global) != before


def test_what_nothing_tells_from_another_is_refused(tmp_path: Path) -> None:
    lock = threading.Lock()
    with (tmp_path / "file").open("w") as file:
        for held in (lock, file, (x for x in [1]), lambda: lock):
            with pytest.raises(OptionError, match="which nothing tells from another one"):
                digest_of(held)


def of_class(scale: float) -> type:
    class Held:
        options: ClassVar = {"scale": [scale]}

    return Held


def cached(scale: float) -> Callable[..., float]:
    return functools.cache(lambda x: x * scale)


def with_attribute(scale: float) -> Any:
    def build(x: float) -> float:
        return x

    build.scale = scale  # type: ignore[attr-defined]
    return build


def like_exp(scale: float) -> Callable[..., Any]:
    return functools.wraps(operator.add)(lambda x, y: scale * x)


def masked(mask: float, fill: float = 0.0) -> Any:
    return np.ma.MaskedArray([1.0, 2.0], mask=[False, mask == 1.0], fill_value=fill)


@pytest.mark.parametrize(
    "made",
    [
        of_class,
        lambda scale: of_class(scale)(),
        cached,
        with_attribute,
        lambda scale: functools.partial(with_attribute(scale), 1.0),
        like_exp,
        lambda scale: np.vectorize(scaled(scale)),
        lambda scale: {"a": scale}.get,
        masked,
        lambda scale: masked(1.0, scale),
        lambda scale: re.compile("a", re.IGNORECASE if scale == 1.0 else 0),
        lambda scale: scipy.stats.norm(0, scale),
        lambda scale: scipy.stats.multivariate_normal([0.0], scale),
        lambda scale: pd.Series([1, str(scale)], dtype=object),
        lambda scale: pd.Series([None if scale == 1.0 else "None", "a"], dtype=object),
        lambda scale: xr.DataArray(np.zeros(2, int if scale == 1.0 else np.int32)),
        lambda scale: collections.defaultdict(scaled(scale)),
        lambda scale: operator.itemgetter(scale),
    ],
)
def test_what_is_held_out_of_sight_tells_it(made: Callable[[float], Any]) -> None:
    assert digest_of(made(1.0)) == digest_of(made(1.0)) != digest_of(made(2.0))


def test_where_one_thing_ends_is_told_and_not_which_object_it_is() -> None:
    several = [[[1], 2], [[1, 2]], [[1], [2]], [1, [2]], {"a": {"b": 1}, "c": 2}, {"a": {"b": 1, "c": 2}}]
    assert len({digest_of(one) for one in several}) == len(several)
    one = (1, (2.0, "a"))
    assert digest_of([one, one]) == digest_of([one, (1, (2.0, "a"))])
    # Lists that hold themselves: a in b and b in a is not b in itself, nor three around.
    a, b, c, d, e, f = ([] for _ in range(6))
    a.append(b), b.append(a), c.append(c), d.append(e), e.append(f), f.append(d)  # type: ignore[func-returns-value]
    assert len({digest_of(one) for one in ([a, b], [a, c], [c, c], [d, e], [a, a])}) == 5
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(OptionError, match="too deep"):
        digest_of(deep)
    assert digest_of(np.frompyfunc, refuse=False)


def test_what_a_function_imports_tells_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "own_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "settings.py").write_text("SCALE = 1.0\nOTHER = 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = importlib.import_module("own_package.settings")
    package_ = sys.modules["own_package"]

    def imports() -> float:
        from own_package.settings import SCALE  # type: ignore[import-not-found]

        return float(SCALE)

    def imports_module() -> float:
        import own_package.settings as own  # type: ignore[import-not-found]

        return float(own.SCALE)

    def encloses() -> float:
        return float(package_.settings.SCALE)

    def by_name() -> float:
        return float(getattr(settings, "SCA" + "LE"))

    def before() -> list[str]:
        return [digest_of(one) for one in (imports, imports_module, encloses, by_name)]

    first = before()
    monkeypatch.setattr(settings, "OTHER", 2.0)
    assert [a == b for a, b in zip(first, before(), strict=True)] == [True, True, True, False]
    first = before()
    monkeypatch.setattr(settings, "SCALE", 2.0)
    assert not set(first) & set(before())
    for name in ("own_package", "own_package.settings"):
        monkeypatch.delitem(sys.modules, name)


def test_where_nothing_is_refused_the_rest_is_told() -> None:
    def build(lock: Any, scale: float) -> Callable[[], Any]:
        return lambda: (lock, scale)

    told = [digest_of(build(threading.Lock(), scale), refuse=False) for scale in (1.0, 1.0, 2.0)]
    assert told[0] == told[1] != told[2]
    with pytest.raises(OptionError, match="a ufunc, which nothing tells"):
        digest_of(np.frompyfunc(scaled(1.0), 1, 1))


def test_a_function_that_was_sent_to_another_process_is_the_same_there(said: list[list[str]]) -> None:
    assert said[0][0] == said[1][0]
