"""Samplers that are interrupted, and densities that no chain can start from."""

from __future__ import annotations

import signal
from threading import Timer
from types import SimpleNamespace
from typing import Any

import numpy as np
import nutpie
import pymc as pm
import pytest

from bayeskit.errors import InferenceError
from bayeskit.sampling.native import _called, compile_for_nutpie
from bayeskit.sampling.nuts import _cancel, sample_nuts


def interrupting(monkeypatch: pytest.MonkeyPatch, library: Any, name: str) -> None:
    """Press Ctrl-C half a second after a function of a library was called."""
    original = getattr(library, name)

    def interrupted(*arguments: Any, **options: Any) -> Any:
        Timer(0.5, signal.raise_signal, [signal.SIGINT]).start()
        return original(*arguments, **options)

    monkeypatch.setattr(library, name, interrupted)


@pytest.mark.slow
def test_nutpie_interrupted_gives_no_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", shape=3), 1.0, observed=np.zeros((2, 3)))
    interrupting(monkeypatch, nutpie, "sample")
    with pytest.raises(KeyboardInterrupt):
        sample_nuts(model, draws=10**9, random_seed=1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
def test_steps_of_pymc_interrupted_give_no_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its chains one after the other: an interrupt of the first is no beginning of the second."""
    with pm.Model() as model:
        pm.Bernoulli("z", 0.3)
    interrupting(monkeypatch, pm.sampling.mcmc, "_sample_many")
    with pytest.raises(KeyboardInterrupt):
        sample_nuts(model, draws=2 * 10**6, random_seed=1, sampler={"cores": 1, "chains": 2})


def test_a_trajectory_ends_when_it_is_told_to() -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=[0.5])
    compiled = compile_for_nutpie(model, set())
    value, gradient = np.zeros(1), np.zeros(1)
    arguments = 1, compiled.initial_point_func(0), gradient, value, compiled.user_data
    assert _called(compiled.compiled_logp_func, *arguments) == 0
    _cancel(SimpleNamespace(cancel=lambda: None), compiled)
    assert _called(compiled.compiled_logp_func, *arguments) > 0
    with pytest.raises(InterruptedError):
        compiled.initial_point_func(0)


def test_no_chain_is_started_where_none_could(monkeypatch: pytest.MonkeyPatch) -> None:
    """nutpie would leave chains behind that ask Python for points while it ends, which crashes."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=[1e308, -1e308])
    monkeypatch.setattr(nutpie, "sample", None)
    with pytest.raises(InferenceError, match="NUTS could not start"):
        sample_nuts(model, random_seed=1)
