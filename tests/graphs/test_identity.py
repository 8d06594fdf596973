"""What is known again in another run, and what is another thing."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from pytensor.graph.op import Op

from bayeskit.errors import OptionError
from bayeskit.graphs.identity import digest_of
from bayeskit.model.mark import mark_of

SCALE = 1.0

SOURCE = """
import functools, numpy as np, pandas as pd
from dataclasses import dataclass
from bayeskit.graphs.identity import digest_of

@dataclass
class Prior:
    mean: float
    def at(self, x): return x - self.mean

names = {"one", "two", "three", "four"}
scale = {"b": 1, "a": 2}

def build(rows, width=2):
    prior = Prior(1.0)
    return [np.exp(prior.at(x)) * scale["a"] for x in rows if x in names] + [functools.partial(max, width)]

print(digest_of(build), digest_of(pd.DataFrame({"x": [1, 2], "y": pd.Categorical(["u", None])})))
"""


def test_the_same_function_is_the_same_in_another_process() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", SOURCE],
            env=os.environ | {"PYTHONHASHSEED": str(k)},
            text=True,
            capture_output=True,
            check=True,
        ).stdout
        for k in (1, 2)
    }
    assert len(said) == 1


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


class Shifted(Op):
    """An operation of a user, which holds its data."""

    def __init__(self, by: np.ndarray) -> None:
        self.by = by

    def make_node(self, x: Any) -> Any:
        x = pt.as_tensor(x)
        return pytensor.graph.basic.Apply(self, [x], [x.type()])

    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        outputs[0][0] = inputs[0] + self.by


def looped(mean: Any, share: float) -> Any:
    return pytensor.scan(
        lambda before, m: share * before + m,
        outputs_info=[pt.constant(0.0, dtype="float64")],
        non_sequences=[mean],
        n_steps=3,
        return_updates=False,
    )


def model(of: Callable[[Any], Any] = lambda m: m, sd: float = 2.0, observed: float = 1.0, name: str = "d") -> pm.Model:
    with pm.Model(coords={"row": [0, 1, 2]}) as found:
        mean = pm.Normal("mean", 0, sd)
        data = pm.Data("data", np.full(3, observed), dims="row")
        pm.Deterministic(name, 2 * mean)
        pm.StudentT("y", nu=4, mu=of(mean), sigma=1.0, observed=data)
    return found


def test_models_that_differ_anywhere_have_another_mark() -> None:
    several = [
        model(),
        model(sd=3.0),
        model(observed=2.0),
        model(name="e"),
        model(lambda m: m * m),
        model(lambda m: looped(m, 0.2)),
        model(lambda m: looped(m, 0.9)),
        model(lambda m: Shifted(np.zeros(3))(m)),
        model(lambda m: Shifted(np.ones(3))(m)),
        model(lambda m: pt.switch(m > 9.0, 1.0, m)),
        model(lambda m: pt.switch(m > 9.0, 3.0, m)),
    ]
    assert len({mark_of(one) for one in several}) == len(several)
    assert mark_of(model()) == mark_of(model())
    assert mark_of(model(lambda m: looped(m, 0.2))) == mark_of(several[5])
    with several[0]:
        pm.set_data({"data": np.array([1.0, 1.0, 7.0])})
    assert mark_of(several[0]) != mark_of(model())
