"""Estimators as records: their order, what a refusal or a failure says, and how one is added."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

from bayeskit.elimination.plan import analyse
from bayeskit.marginal_likelihood import estimators
from bayeskit.marginal_likelihood.estimators import ESTIMATORS, Estimator, Target, first_estimate
from bayeskit.marginal_likelihood.sampled import evidence_of_draws
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.results.records import LogEvidence

Y = np.array([0.3, -0.2, 1.1])
EXACT = float(stats.multivariate_normal.logpdf(Y, np.zeros(3), np.eye(3) + 1))  # mean integrated out: 1 1' + I


def conjugate() -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean"), 1.0, observed=Y)
    return model


def posterior_draws() -> np.ndarray:
    """Independent draws of Normal(Σy / 4, 1 / 4), of shape (chain, draw, k)."""
    return np.random.default_rng(1).normal(Y.sum() / 4, 0.5, size=(4, 500, 1))


def target(draws: np.ndarray | None) -> Target:
    return Target(Unconstrained(conjugate()), 1, draws)


def add(monkeypatch: pytest.MonkeyPatch, name: str, estimate: Callable[[Target], LogEvidence], *, first: bool) -> None:
    """One module and one line."""
    module = ModuleType(name)
    vars(module).update(obstacle=lambda _: "", estimate=estimate)
    monkeypatch.setitem(sys.modules, name, module)
    line = Estimator(name, f"the {name}", name)
    monkeypatch.setattr(estimators, "ESTIMATORS", (line, *ESTIMATORS) if first else (*ESTIMATORS, line))


def test_names_are_unique() -> None:
    assert len({e.name for e in ESTIMATORS}) == len(ESTIMATORS)


def test_bridge_estimates_from_draws() -> None:
    evidence = first_estimate(target(posterior_draws()))
    assert evidence.label == "estimated"
    assert abs(evidence.value - EXACT) <= 5 * evidence.error + 1e-9


def test_every_estimator_that_needs_draws_says_so() -> None:
    for estimator in ESTIMATORS:
        assert ("sample the model first" in estimator.obstacle(target(None))) == estimator.of_draws
    evidence = first_estimate(target(None))
    assert math.isnan(evidence.value) and evidence.error == math.inf and "needs posterior draws" in evidence.reason


def test_an_estimator_is_one_module_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for the evidence of a posterior by NUTS, before the others."""
    seen: list[Target] = []

    def estimate(asked: Target) -> LogEvidence:
        seen.append(asked)
        return LogEvidence(values.pop(), 0.25, "estimated")

    values = [EXACT - 3, EXACT]
    add(monkeypatch, "oracle", estimate, first=True)
    model = conjugate()
    evidence = evidence_of_draws(analyse(model), model, {"mean": posterior_draws()[..., 0]}, xr.Dataset(), 1)
    assert (evidence.value, evidence.error) == (EXACT, 0.25)
    (asked,) = seen
    assert asked.draws is not None and asked.draws.shape == (4, 500, 1)
    assert asked.analysis is not None and asked.space.model is model and asked.symmetries == ()
    # Whoever gives the number, it is doubted where draws from the prior find more.
    doubted = evidence_of_draws(analyse(model), model, {"mean": posterior_draws()[..., 0]}, xr.Dataset(), 1)
    assert math.isnan(doubted.value) and "another mode" in doubted.reason


@pytest.mark.parametrize("error", [ValueError("no mode"), np.linalg.LinAlgError("singular")], ids=repr)
def test_an_estimator_that_fails_hands_over(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def failing(_: Target) -> LogEvidence:
        raise error

    add(monkeypatch, "oracle", failing, first=True)
    evidence = first_estimate(target(posterior_draws()))
    assert abs(evidence.value - EXACT) <= 5 * evidence.error + 1e-9
    refusal = first_estimate(target(None))
    assert math.isnan(refusal.value)
    assert f"the oracle failed ({type(error).__name__}: {error}); bridge sampling" in refusal.reason.replace(
        "the oracle: ", ""
    )


def test_an_interrupt_is_not_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: Target) -> LogEvidence:
        raise KeyboardInterrupt

    add(monkeypatch, "oracle", interrupted, first=True)
    with pytest.raises(KeyboardInterrupt):
        first_estimate(target(posterior_draws()))


def test_what_refuses_is_followed_by_what_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains that disagree are refused by bridge sampling; what comes after it may still know."""
    add(monkeypatch, "oracle", lambda _: LogEvidence(EXACT, 0.1, "estimated"), first=False)
    apart = posterior_draws() + np.arange(4)[:, None, None]
    assert first_estimate(target(apart)).value == EXACT
    monkeypatch.setattr(estimators, "ESTIMATORS", ESTIMATORS)
    assert "the chains disagree" in first_estimate(target(apart)).reason
