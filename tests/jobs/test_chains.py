"""Chains that are made one by one, on workers or from a checkpoint: each of its own seed, whoever makes it."""

from __future__ import annotations

import json
import threading
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from distributed import Client
from pymc.distributions.transforms import LogTransform

import bayeskit as bk
from bayeskit.errors import OptionError

SAMPLER = {"tune": 150, "chains": 3}


@cache
def line(scale: float = 1.0) -> pm.Model:
    x = np.linspace(-1, 1, 6)
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, scale)
        pm.Poisson("y", pm.math.exp(slope * x), observed=[1, 0, 1, 2, 1, 4])
    return model


def made(scale: float = 1.0, seed: int = 1, sampler: dict[str, Any] | None = None, **options: Any) -> bk.Posterior:
    given = {"method": "nuts", "draws": 300, "random_seed": seed, "progressbar": False}
    return bk.infer(line(scale), **given, sampler=SAMPLER | (sampler or {}), **options)


def same(one: bk.Posterior, other: bk.Posterior) -> None:
    """To the last digit."""
    for group in ("posterior", "sample_stats"):
        xr.testing.assert_equal(one.tree[group].to_dataset(), other.tree[group].to_dataset())
    np.testing.assert_equal(vars(one.log_evidence), vars(other.log_evidence))


@pytest.mark.slow
def test_chains_have_the_same_draws_wherever_they_are_made(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "chains"
    here = made(checkpoint=path)
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) == 1 + SAMPLER["chains"]
    draws = here.tree["posterior"]["slope"]
    assert draws.sizes == {"chain": 3, "draw": 100}
    assert draws.chain.to_numpy().tolist() == [0, 1, 2]
    assert len({float(draws[k, -1]) for k in range(3)}) == 3  # each of its own seed
    exact = bk.infer(line(), method="quadrature", random_seed=1)
    truth = float(exact.tree["posterior"]["slope"].mean())
    assert abs(float(draws.mean()) - truth) < 0.15
    assert abs(here.log_evidence.value - exact.log_evidence.value) < 5 * here.log_evidence.error + 1e-6
    same(made(client=client), here)

    path.write_text("".join(lines[:2]) + lines[2][:100])  # the second chain was being written
    same(made(checkpoint=path), here)
    marks = [json.loads(line)["mark"] for line in path.read_text().splitlines()[1:]]
    assert marks == [f"as written: slope: chain {k}" for k in (1, 2, 3)]
    others: tuple[tuple[str, dict[str, Any]], ...] = (
        ("chains of model", {"scale": 2.0}),
        ("seed", {"seed": 2}),
        ("sampler", {"sampler": {"tune": 151}}),
    )
    for other, options in others:
        with pytest.raises(OptionError, match=f"of another run, with another {other}") as raised:
            made(checkpoint=path, **options)
        assert "\n" not in str(raised.value)
        assert not getattr(raised.value, "__notes__", [])


@pytest.mark.slow
def test_a_collapsed_model_goes_to_workers_and_what_is_not_sampled_says_so(client: Client, tmp_path: Path) -> None:
    with pm.Model() as model:
        sd = pm.HalfNormal("sd", 1)
        pm.Normal("y", pm.Normal("mean", 0, sd), 1, observed=[0.3, 1.2])
    options: dict[str, Any] = {"method": "nuts", "draws": 80, "random_seed": 3, "sampler": {"tune": 100, "chains": 2}}
    there = bk.infer(model, client=client, checkpoint=tmp_path / "chains", **options)
    assert there.plan.eliminated
    quick = bk.infer(model, client=client, draws=4)
    assert "no chains were needed" in quick.plan.notes[-1]


class Locked(LogTransform):
    """Of somebody's own, with what nothing sends to another process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def test_a_model_that_cannot_be_sent_is_refused_for_a_client_that_was_named(client: Client) -> None:
    with pm.Model() as model:
        pm.Poisson("y", pm.HalfNormal("rate", 2, default_transform=Locked()), observed=[1, 2, 2])
    with pytest.raises(OptionError, match="client: the model or a function cannot be sent") as raised:
        bk.infer(model, method="nuts", client=client)
    assert "\n" not in str(raised.value)
