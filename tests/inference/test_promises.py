"""What ``explain`` says is what ``infer`` does, and no method goes on for longer than the next would take."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import integrate, special, stats

import bayeskit as bk
from bayeskit.errors import InferenceError, ModelError, UnanswerableError
from bayeskit.graphs.compile import compile_stacked
from bayeskit.graphs.operation_costs import charge
from bayeskit.inference import importance, nuts, quadrature

ROWS = np.array([[1, 2, 2], [3, 1, 1]])


def test_an_evidence_that_no_draws_can_give_is_not_promised() -> None:
    with pm.Model() as model:
        pm.Binomial("y", n=pm.Poisson("k", 5.0) + 10, p=0.4, observed=6)
    plan = bk.explain(model)
    assert plan.method == "nuts" and "estimated" not in plan.outlook
    assert plan.notes == ("no log evidence: an estimate from draws is for continuous variables, and k is discrete",)


def test_that_quadrature_may_be_refused_is_said() -> None:
    with pm.Model() as model:
        pm.Laplace("y", pm.Normal("m", 0.0, 5.0), 1.0, observed=[1.0, 2.0])
    plan = bk.explain(model)
    assert plan.outlook.startswith("m will be integrated by quadrature. Should that be refused")
    assert plan.outlook.endswith("NUTS will sample m.") and "closed form" not in plan.outlook


def test_data_that_will_be_refused_are_named_beforehand() -> None:
    with pm.Model() as model:
        pm.VonMises("y", pm.VonMises("mu", 0.0, 1.0), 2.0, observed=[0.2, 4.7])
    with pytest.raises(UnanswerableError) as refusal:
        bk.infer(model)
    assert bk.explain(model).outlook == f"bayeskit.infer will refuse: {refusal.value}."
    assert "y[1] is 4.7" in str(refusal.value)


def test_a_branch_that_is_never_taken_is_no_missing_number() -> None:
    """PyTensor's √x² of a Matérn covariance is x where x ≥ 0, else NaN."""
    place = np.linspace(0.0, 5.0, 6)[:, None]
    with pm.Model() as model:
        process = pm.gp.Marginal(cov_func=pm.gp.cov.Matern52(1, pm.InverseGamma("length", 3.0, 3.0)))
        process.marginal_likelihood("y", place, np.sin(place[:, 0]), sigma=0.1)
    assert bk.infer(model, draws=4, random_seed=1).method == "quadrature"
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("m") + np.array([1.0, math.nan]), 1.0, observed=[1.0, 2.0])
    with pytest.raises(bk.BayeskitError, match="nan"):
        bk.infer(model)


def test_rows_of_counts_are_masked_as_a_whole() -> None:
    def masked(mask: Any) -> pm.Model:
        with pm.Model() as model, pytest.warns(pm.exceptions.ImputationWarning):
            p = pm.Dirichlet("p", np.ones(3))
            pm.Multinomial("y", 5, p, observed=np.ma.masked_array(ROWS, mask=mask))
        return model

    post = bk.infer(masked([[0, 0, 0], [1, 1, 1]]), draws=8, random_seed=1)
    assert post.method == "exact"
    expected = stats.dirichlet_multinomial(np.ones(3), 5).logpmf(ROWS[0])
    assert post.log_evidence.value == pytest.approx(expected, abs=1e-9)
    with pytest.raises(ModelError, match="mask such rows as a whole"):
        bk.explain(masked([[0, 0, 0], [1, 0, 0]]))


def test_an_angle_that_remains_is_integrated_over_its_circle() -> None:
    y = np.array([0.2, 0.3, 0.7])
    with pm.Model() as model:
        pm.Normal("y", pt.cos(pm.VonMises("angle", 2.0, 1.0)), 0.5, observed=y)

    def density(angle: float) -> float:
        return float(np.exp(stats.norm(np.cos(angle), 0.5).logpdf(y).sum() + np.cos(angle - 2)) / special.i0(1.0))

    post = bk.infer(model, draws=400, random_seed=1)
    value = math.log(integrate.quad(density, -np.pi, np.pi, epsabs=1e-13)[0] / (2 * np.pi))
    assert post.method == "quadrature"
    assert post.log_evidence.value == pytest.approx(value, abs=post.log_evidence.error + 1e-10)
    assert np.all(np.abs(post.tree["posterior"]["angle"]) <= np.pi)


def test_a_density_too_slow_for_quadrature_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    for rung in (quadrature, importance):
        monkeypatch.setattr(rung, "seconds_of_evaluation", lambda space: 0.1)
    monkeypatch.setattr(nuts, "answer", lambda request: asked.append(request.analysis.plan) or 1 / 0)
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("m"), pm.HalfNormal("s"), observed=[1.0, 2.0])
    with pytest.raises(InferenceError):
        bk.infer(model, method="quadrature")
    monkeypatch.setattr("bayeskit.inference.nuts_as_written.answer", lambda request: 1 / 0)
    with pytest.raises(InferenceError):
        bk.infer(model)
    for note, tried in zip(asked[0].notes, ("quadrature", "importance sampling"), strict=True):
        assert f"{tried} was tried: over 1 real numbers it would take longer than sampling" in note


def test_a_collapsed_density_with_far_slower_gradients_is_left() -> None:
    def space(milliseconds: float) -> Any:
        named = SimpleNamespace(discrete_value_vars=[])
        return SimpleNamespace(value_and_gradient=lambda _: charge(1e6 * milliseconds), start=np.zeros(1), model=named)

    nuts._require_worthwhile(space(20), space(2))
    with pytest.raises(InferenceError, match=r"takes 100\.0 ms, 50 times one of the model as written"):
        nuts._require_worthwhile(space(100), space(2))


@pytest.mark.slow
def test_loops_at_many_values_are_compiled() -> None:
    x = pt.dscalar("x")
    one = pt.constant(np.float64(1.0), dtype="float64")
    path: Any = pytensor.scan(lambda z, x: z * x, None, one, x, n_steps=4, return_updates=False)
    at = np.array([0.5, 2.0, 3.0])
    np.testing.assert_allclose(compile_stacked([x], path[-1])(at), at**4)
    last, total = compile_stacked([x], [path[-1], path])(at)
    np.testing.assert_allclose(last, at**4)
    np.testing.assert_allclose(total, at[:, None] ** np.arange(1, 5))


@pytest.mark.parametrize(
    ("mean", "words"),
    [
        (lambda d: pt.cumprod(d), "a cumulative product"),
        (lambda d: pt.maximum(d, 0.5), "the largest of several numbers"),
        (lambda d: pt.max(d), "the largest of several numbers"),
    ],
)
def test_reasons_are_in_an_analysts_words(mean: Any, words: str) -> None:
    with pm.Model() as model:
        pm.Poisson("y", mean(pm.Gamma("d", 2.0, 1.0, shape=3)), observed=[1, 2, 3])
    (refusal,) = bk.explain(model).refusals
    assert words in refusal.reason
