"""Priors that are improper and Normal in form: the posterior is exact, and there is no evidence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytest

import bayeskit as bk
from bayeskit.errors import UnanswerableError

RNG = np.random.default_rng(3)
X = np.column_stack([np.ones(25), RNG.normal(size=(25, 3))])
Y = X @ [1.0, 2.0, 0.0, -1.0] + 0.5 * RNG.normal(size=25)
FIT = np.linalg.lstsq(X, Y, rcond=None)[0]
UNSCALED = np.linalg.inv(X.T @ X)

# Six areas: a ring of four with a tail of two.
EDGES = np.array([(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5)])
W = np.zeros((6, 6), dtype=int)
W[tuple(EDGES.T)] = W[tuple(EDGES.T[::-1])] = 1
LAPLACIAN = np.diag(W.sum(axis=0)) - W
FIELD = np.array([0.3, -1.1, 0.6, 1.4, 2.0, 0.7])


def built(body: Callable[[], Any]) -> pm.Model:
    with pm.Model() as model:
        body()
    return model


def test_regression_under_flat_weights_is_least_squares() -> None:
    post = bk.infer(built(lambda: pm.Normal("y", X @ pm.Flat("w", shape=4), 0.5, observed=Y)), draws=200, random_seed=1)
    assert post.method == "exact"
    assert post.log_evidence.reason == "the prior of w has no normaliser: pm.Flat is improper, so there is no evidence"
    found = post.marginal("w")
    assert np.allclose(found.mean(), FIT, rtol=1e-10)
    assert np.allclose(found.std(), 0.5 * np.sqrt(np.diag(UNSCALED)), rtol=1e-10)
    assert np.isnan(post.log_evidence.value)


def test_the_precision_under_flat_weights_has_as_many_degrees_less_as_there_are_weights() -> None:
    def body() -> None:
        pm.Normal("y", X @ pm.Flat("w", shape=4), tau=pm.Gamma("tau", 2.0, 1.0), observed=Y)

    post = bk.infer(built(body), draws=200, random_seed=1)
    shape, rate = 2 + (25 - 4) / 2, 1 + np.sum((Y - X @ FIT) ** 2) / 2
    assert post.method == "exact"
    assert post.marginal("tau").mean() == pytest.approx(shape / rate, rel=1e-10)
    assert post.marginal("tau").std() == pytest.approx(np.sqrt(shape) / rate, rel=1e-10)
    spread = np.sqrt(np.diag(UNSCALED) * rate / (shape - 1))
    assert np.allclose(post.marginal("w").std(), spread, rtol=1e-10)


def test_flat_weights_are_integrated_out_beside_what_remains() -> None:
    def body() -> None:
        effects = pm.Normal("effects", 0, 1, shape=5)
        mean = X @ pm.Flat("w", shape=4) + effects[np.arange(25) % 5]
        pm.Normal("y", mean, pm.HalfNormal("sd", 1), observed=Y)

    plan = bk.explain(built(body))
    assert plan.remaining == ("sd",) and {"w", "effects"} <= set(plan.eliminated[0].variables)
    assert any("no log evidence" in note for note in plan.notes)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    "mean",
    [
        lambda: X[:, :3] @ (w := pm.Flat("w", shape=4))[:3] + w[3] * (0.3 * X[:, 1] - 0.7 * X[:, 2]),  # a column twice
        lambda: pm.Flat("w", shape=2).sum() * np.ones(25),
        lambda: pm.Flat("w", shape=40)[:25],
    ],
)
def test_weights_that_the_data_do_not_tell_apart_are_refused(mean: Callable[[], Any], known: bool) -> None:
    model = built(lambda: pm.Normal("y", mean(), 0.5 if known else pm.HalfNormal("sd", 1), observed=Y))
    with pytest.raises(UnanswerableError, match="the data do not tell w apart"):
        bk.infer(model, draws=50, random_seed=1)


def test_a_flat_variable_that_no_data_depend_on_is_refused() -> None:
    def body() -> None:
        pm.Flat("w")
        pm.Normal("y", pm.Normal("mu", 0, 1), 0.5, observed=Y)

    with pytest.raises(UnanswerableError, match="posterior of w is improper"):
        bk.infer(built(body), draws=50, random_seed=1)


@pytest.mark.parametrize("soft", [0.001, 0.5])
def test_an_intrinsic_field_is_normal_with_its_soft_constraint(soft: float) -> None:
    def body() -> None:
        field = pm.ICAR("field", W=W, sigma=1.3, zero_sum_stdev=soft)
        pm.Normal("y", field[:5], 0.8, observed=FIELD[:5])

    post = bk.infer(built(body), draws=200, random_seed=1)
    precision = LAPLACIAN / 1.3**2 + np.ones((6, 6)) / (6 * soft) ** 2
    precision[:5, :5] += np.eye(5) / 0.64
    mean = np.linalg.solve(precision, np.append(FIELD[:5], 0.0) / 0.64)
    assert post.method == "exact" and "pm.ICAR is improper" in post.log_evidence.reason
    assert np.allclose(post.marginal("field").mean(), mean, atol=1e-8)
    assert np.allclose(post.marginal("field").std(), np.sqrt(np.diag(np.linalg.inv(precision))), atol=1e-8)


def test_an_intrinsic_field_times_its_scale_leaves_the_scale() -> None:
    def body() -> None:
        scale, level = pm.HalfNormal("scale", 1), pm.Normal("level", 0, 2)
        pm.Normal("y", level + scale * pm.ICAR("field", W=W), 0.8, observed=FIELD)

    post = bk.infer(built(body), draws=4000, random_seed=1)
    s = np.linspace(1e-3, 6, 1500)
    scaled = [np.diag(np.full(6, 0.64)) + 4 + a * a * np.linalg.inv(LAPLACIAN + np.ones((6, 6)) / 0.006**2) for a in s]
    height = np.array([-0.5 * (np.linalg.slogdet(c)[1] + FIELD @ np.linalg.solve(c, FIELD)) for c in scaled]) - s**2 / 2
    weights = np.exp(height - height.max())
    mean = float(s @ weights / weights.sum())
    assert post.method == "quadrature" and post.plan.remaining == ("scale",)
    assert post.marginal("scale").mean() == pytest.approx(mean, abs=1e-3)


def test_a_sigma_with_a_prior_is_no_scale_of_an_intrinsic_field_and_it_is_said() -> None:
    def body() -> None:
        field = pm.ICAR("field", W=W, sigma=pm.HalfNormal("scale", 1))
        pm.Normal("y", field, 0.8, observed=FIELD)

    notes = " ".join(bk.explain(built(body)).notes)
    assert "no power of sigma in front" in notes and "multiply the field by its scale" in notes
