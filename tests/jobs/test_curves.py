"""Curves and derivatives of evidences that workers find, or that a run which was cut off goes on with."""

from __future__ import annotations

import json
import threading
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from distributed import Client
from scipy import stats

import bayeskit as bk
from bayeskit.errors import OptionError

GRID = np.array([0.7, 0.9, 1.4])


@cache
def coin(heads: int = 3) -> pm.Model:
    """With another end of its prior there is no closed form: each value is a model of its own."""
    with pm.Model() as model:
        rate = pm.Uniform("rate", 0, 1)
        pm.Binomial("heads", 10, rate, observed=heads)
    return model


@cache
def counts() -> pm.Model:
    with pm.Model() as model:
        pm.Poisson("y", pm.math.exp(pm.Normal("level", 0, 1.5)), observed=[0, 2, 1, 1, 3, 2, 4, 6])
    return model


def curve(heads: int = 3, parameter: str = "rate.upper", seed: int = 1, **options: Any) -> pd.DataFrame:
    return bk.robustness({"coin": coin(heads)}, parameter, GRID, random_seed=seed, **options).table


def curves(**options: Any) -> pd.DataFrame:
    return bk.robustness([counts()], "level.sigma", GRID, random_seed=1, **options).table


def slopes(**options: Any) -> pd.DataFrame:
    return bk.sensitivity(counts(), random_seed=1, **options).table


def same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    """To the last digit."""
    pd.testing.assert_frame_equal(one, other, check_exact=True)


def truth(upper: float) -> float:
    """log p(3 heads of 10), by the mass of a Beta below the end."""
    return float(np.log(stats.beta(4, 8).cdf(upper) / 11 / upper))


def marks(path: Path) -> list[str]:
    """What a checkpoint holds, in the order in which it was finished."""
    return [json.loads(line)["mark"] for line in path.read_text().splitlines()[1:]]


@pytest.mark.slow
def test_a_curve_of_integrals_has_the_same_digits_wherever_they_are_taken(client: Client, tmp_path: Path) -> None:
    here, path = curve(), tmp_path / "curve"
    np.testing.assert_allclose(here["log_evidence"], [truth(0.7), truth(0.9), truth(1.4)], atol=1e-9)
    same(curve(client=client, checkpoint=path), here)
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) == 1 + 1 + len(GRID)  # the posterior, and a value each
    path.write_text("".join(lines[:3]) + lines[3][:40])
    same(curve(checkpoint=path), here)
    assert sorted(marks(path)) == sorted(json.loads(line)["mark"] for line in lines[1:])  # each once
    for other, options in (
        ("set of models", {"heads": 4}),
        ("seed", {"seed": 2}),
        ("robustness", {"parameter": "a.b"}),
    ):
        with pytest.raises(OptionError, match=f"of another run, with another {other}") as raised:
            curve(checkpoint=path, **options)
        assert "\n" not in str(raised.value)


@pytest.mark.slow
def test_values_that_share_nodes_are_one_job(client: Client, tmp_path: Path) -> None:
    here = curves()
    same(curves(client=client, checkpoint=tmp_path / "curves"), here)
    assert len(marks(tmp_path / "curves")) == 1 + 1
    same(curves(checkpoint=tmp_path / "curves"), here)


@pytest.mark.slow
def test_derivatives_have_the_same_digits_wherever_they_are_taken(client: Client, tmp_path: Path) -> None:
    here, path = slopes(), tmp_path / "slopes"
    same(slopes(client=client, checkpoint=path), here)
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) == 1 + 1 + 2  # the posterior, and a number each
    path.write_text("".join(lines[:3]))
    same(slopes(checkpoint=path), here)
    with pytest.raises(OptionError, match="with another set of models"):
        bk.sensitivity(coin(), checkpoint=path, random_seed=1)


@pytest.mark.slow
def test_what_workers_cannot_have_is_done_here_unless_they_were_named(client: Client) -> None:
    here = slopes()
    model = counts()
    model.held = threading.Lock()
    try:
        with client.as_current():
            same(slopes(), here)
        for ask in (slopes, curves):
            with pytest.raises(OptionError, match="client: the model or a function cannot be sent") as raised:
                ask(client=client)
            assert "\n" not in str(raised.value)
    finally:
        del model.held


def test_what_takes_milliseconds_is_not_sent(tmp_path: Path) -> None:
    """Closed forms and weights of draws: what is kept is the posterior."""
    with pm.Model() as normal:
        pm.Normal("y", pm.Normal("mean", 0, 2), 1, observed=[0.5, 1.5])
    bk.robustness([normal], "mean.sigma", GRID, checkpoint=tmp_path / "curve", random_seed=1)
    bk.sensitivity(normal, checkpoint=tmp_path / "slopes", random_seed=1)
    assert len(marks(tmp_path / "curve")) == len(marks(tmp_path / "slopes")) == 1
