"""Models with many modes: by quadrature in one variable, and where it cannot, no evidence that misses a mode."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from scipy.special import logsumexp

import bayeskit as bk
from bayeskit.elimination.plan import analyse
from bayeskit.inference import ladder
from bayeskit.inference.methods import Method
from bayeskit.inference.quadrature_probes import peaks_of_components
from bayeskit.marginal_likelihood.known_modes import unvisited_mode
from bayeskit.marginal_likelihood.sampled import evidence_of_draws
from bayeskit.marginal_likelihood.symmetries import Symmetric, flat
from bayeskit.model.unconstrained import Unconstrained


def evidence(model: pm.Model) -> bk.LogEvidence:
    posterior = bk.infer(model, draws=4, random_seed=1, progressbar=False)
    assert posterior.method == "quadrature"
    return posterior.log_evidence


@pytest.mark.slow
def test_a_sine_of_the_variable() -> None:
    with pm.Model() as model:
        a = pm.Normal("a", 0, 1)
        pm.Normal("y", pm.math.sin(5 * a), 0.01, observed=0.2)
    x = np.arange(-9_000_000, 9_000_001, 5) / 1e6
    truth = logsumexp(stats.norm.logpdf(x) + stats.norm.logpdf(0.2, np.sin(5 * x), 0.01)) + np.log(5e-6)
    found = evidence(model)
    assert abs(found.value - truth) <= found.error + 1e-10


def test_a_frequency() -> None:
    rng = np.random.default_rng(3)
    at = np.sort(rng.uniform(0, 30, 20))
    y = np.sin(1.7 * at) + 0.3 * rng.normal(size=20)
    with pm.Model() as model:
        w = pm.Uniform("w", 0, 3)
        pm.Normal("y", pm.math.sin(w * at), 0.3, observed=y)
    x = (np.arange(20_000) + 0.5) * 3 / 20_000
    truth = logsumexp(stats.norm.logpdf(y, np.sin(x[:, None] * at), 0.3).sum(axis=1)) - np.log(20_000)
    found = evidence(model)
    assert abs(found.value - truth) <= found.error + 1e-6  # what the sum over midpoints is good to


def test_a_prior_of_narrow_components() -> None:
    weights, means, sds = [0.2, 0.149, 0.35, 0.001, 0.3], [-5.0, -1.0, 0.3, 4.0, 9.0], [1e-3, 0.02, 0.1, 1e-4, 0.01]
    with pm.Model() as model:
        a = pm.NormalMixture("a", weights, means, sds)
        pm.StudentT("y", nu=3.0, mu=a, sigma=5.0, observed=1.0)
    z, w = np.polynomial.hermite_e.hermegauss(60)
    likelihood = stats.t(3).pdf((1 - np.array(means)[:, None] - np.array(sds)[:, None] * z) / 5) / 5
    truth = np.log(np.array(weights) @ likelihood @ w / np.sqrt(2 * np.pi))
    found = evidence(model)
    assert abs(found.value - truth) <= found.error


def test_a_needle_of_the_likelihood_that_no_draw_of_the_prior_hits() -> None:
    with pm.Model() as model:
        a = pm.Normal("a", 0, 10)
        pm.NormalMixture("y", [0.9, 0.1], pm.math.stack([a, 0.0]), [1e-4, 10.0], observed=[3.3217])
    truth = np.log(0.9 * stats.norm.pdf(3.3217, 0, np.hypot(10, 1e-4)) + 0.1 * stats.norm.pdf(3.3217, 0, 10))
    found = evidence(model)
    assert abs(found.value - truth) <= found.error


def test_a_needle_of_the_likelihood_where_a_function_of_the_variable_is_the_datum() -> None:
    with pm.Model() as model:
        a = pm.Normal("a", 0, 2)
        pm.NormalMixture("y", [0.9, 0.1], pm.math.stack([1.3 + 2.1 * a, 0.0]), [1e-4, 10.0], observed=[7.3])
    truth = np.log(0.9 * stats.norm.pdf(7.3, 1.3, np.hypot(4.2, 1e-4)) + 0.1 * stats.norm.pdf(7.3, 0, 10))
    found = evidence(model)
    assert abs(found.value - truth) <= found.error


def test_components_without_a_peak_add_no_points() -> None:
    space: Any = SimpleNamespace(size=1, names=(), backward=lambda x: x)
    rising = SimpleNamespace(joint=SimpleNamespace(values={}), remembered=lambda *_: lambda x, _: [x])
    assert peaks_of_components(space, rising, np.array([[0.0], [1.0]])).shape == (0, 1)  # type: ignore[arg-type]


def two_modes() -> tuple[pm.Model, dict[str, np.ndarray]]:
    with pm.Model() as model:
        a = pm.NormalMixture("a", [0.4, 0.6], [-20.0, 20.0], [0.5, 1.0])
        pm.Cauchy("y", a + 0.1, 30.0, observed=3.0)
    return model, {"a": np.array([[-20.0], [20.0]])}


@pytest.mark.parametrize("crossing", [True, False])
def test_an_estimate_from_draws_is_refused_where_no_chain_crosses(crossing: bool) -> None:
    model, modes = two_modes()
    rng = np.random.default_rng(1)
    x = np.linspace(-25, 25, 200_001)
    p = np.exp(
        logsumexp(stats.norm.logpdf(x[:, None], [-20, 20], [0.5, 1.0]), axis=1, b=[0.4, 0.6])
        + stats.cauchy.logpdf(3, x + 0.1, 30)
    )
    seen = np.where((x > 0) | crossing, p, 0.0)
    draws = rng.choice(x, size=(4, 1000), p=seen / seen.sum())
    found = evidence_of_draws(analyse(model), model, {"a": draws}, xr.Dataset(), 1, modes=[modes])
    if crossing:
        assert abs(found.value - np.log(p.sum() * (x[1] - x[0]))) < 6 * found.error
    else:
        assert np.isnan(found.value) and "2 separate modes" in found.reason
        assert found.unvisited == found.reason  # a fault of the draws, too


def chains(here: list[float]) -> dict[str, np.ndarray]:
    """Chains of a loading about these places, and of effects that modes of the collapsed density do not name."""
    rng = np.random.default_rng(4)
    loading = np.array(here)[:, None] + 0.2 * rng.normal(size=(len(here), 200))
    return {"loading": loading, "effects": rng.normal(size=(len(here), 200, 5))}


def test_modes_are_compared_by_the_variables_that_they_name() -> None:
    """Two modes of a loading, its effects integrated out; the draws are those of the model as written."""
    modes = {"loading": np.array([[-1.5], [1.5]])}
    assert "2 separate modes, and not every chain" in unvisited_mode(modes, chains([1.5] * 4))
    moving = chains([1.5] * 4)
    moving["loading"][:, ::2] -= 3.0
    assert not unvisited_mode(modes, moving)
    assert "not every chain" in unvisited_mode(modes, chains([1.5, -1.5, 1.5, 1.5]))


@pytest.mark.parametrize("names", ["other", "effects"])
def test_modes_that_cannot_be_compared_are_a_doubt(names: str) -> None:
    """Of another variable, or of as many entries as it does not have in the draws."""
    assert "could not be checked" in unvisited_mode({names: np.array([[-1.5], [1.5]])}, chains([1.5] * 4))


def test_modes_that_mirror_each_other_in_all_variables_need_no_visits() -> None:
    with pm.Model() as model:
        loading = pm.Normal("loading")
        pm.Normal("y", loading * pm.Normal("effects", shape=5), 1.0, observed=np.arange(5.0))
    draws, modes = chains([1.5] * 4), {"loading": np.array([[-1.5], [1.5]])}
    space = Unconstrained(model)
    symmetry = Symmetric(space, flat(space, draws), (), [np.eye(6), -np.eye(6)], ("loading",), (), 0.0)
    assert not unvisited_mode(modes, draws, symmetry)
    mixing = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]  # the loading goes to the effects, too
    assert "not every" in unvisited_mode(modes, draws, replace(symmetry, maps=[np.eye(6), mixing]))


def test_a_doubt_of_modes_is_kept_where_there_is_no_evidence() -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Flat("loading") ** 2, 1.0, observed=2.0)
    modes = {"loading": np.array([[-1.5], [1.5]])}
    draws = {"loading": chains([1.5] * 4)["loading"]}
    found = evidence_of_draws(analyse(model), model, draws, xr.Dataset(), 1, modes=[modes])
    assert np.isnan(found.value) and found.unvisited and "separate modes" not in found.reason


def test_the_next_method_is_told_the_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusal(Exception):
        named_modes = (two_modes()[1],)

    told = []

    def answer(self: Method, request: object) -> object:
        told.append(request.modes)  # type: ignore[attr-defined]
        raise Refusal("two modes")

    monkeypatch.setattr(Method, "answer", answer)
    with pytest.raises(bk.BayeskitError):
        ladder.infer(two_modes()[0], draws=4, random_seed=1)
    assert told[0] == () and all(set(map(id, t)) == {id(Refusal.named_modes[0])} for t in told[1:]) and len(told) > 1
