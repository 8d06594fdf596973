"""Effects of groups under binomial data: graphs against SciPy, evidence against Gauss-Hermite rules, and lme4."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import special, stats
from scipy.optimize import minimize

import bayeskit as bk
from bayeskit.datasets import example_data, load_example, prepare
from bayeskit.errors import BayeskitError
from bayeskit.model.log_joint import LogJoint
from bayeskit.models import load_model

MIXED = load_model("mixed_logistic_regression")
HERDS = example_data(MIXED.EXAMPLE, MIXED.VARIABLES)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


def dataset(**columns: Any) -> xr.Dataset:
    return prepare(pd.DataFrame(columns), MIXED.VARIABLES, {})


def log_likelihood(data: xr.Dataset, eta: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Of the rows of all groups, with the effects integrated out; eta is of shape (..., row), tau of shape (...)."""
    y, n = data["successes"].to_numpy()[:, None], data["trials"].to_numpy()[:, None]
    groups, codes = np.unique(data["group"].to_numpy(), return_inverse=True)
    odds = eta[..., None] + np.asarray(tau)[..., None, None] * NODES
    rows = y * special.log_expit(odds) + (n - y) * special.log_expit(-odds) + np.log(special.binom(n, y))
    inside = np.tensordot(np.eye(len(groups))[codes].T, rows, axes=(1, -2))  # (group, ..., node)
    return special.logsumexp(inside, b=WEIGHTS / np.sqrt(2 * np.pi), axis=-1).sum(axis=0)


def test_maximum_likelihood_is_that_of_lme4() -> None:
    """This table and the likelihood of these tests: glmer with nAGQ = 25, as lme4's own tests print it."""
    design = np.column_stack([np.ones(56), HERDS["x"]])
    fit = minimize(lambda v: -log_likelihood(HERDS, design @ v[:4], np.exp(v[4])), np.zeros(5), method="BFGS")
    assert fit.x[:4] == pytest.approx([-1.399225, -0.991407, -1.127822, -1.579466], abs=1e-4)


@pytest.mark.parametrize("centred", [True, False])
def test_log_joint_against_scipy(centred: bool) -> None:
    model = MIXED.build(HERDS, standardise=False, centred=centred, spread="exponential", spread_scale=0.5)
    b, w, tau = -1.2, np.array([-0.8, -1.0, -1.3]), 0.6
    effect = np.random.default_rng(2).normal(0, 0.6, size=15)
    y, n, codes = (HERDS[name].to_numpy() for name in ("successes", "trials", "group"))
    expected = stats.norm(0, 5).logpdf(b) + stats.norm(0, 2.5).logpdf(w).sum() + stats.expon(scale=0.5).logpdf(tau)
    expected += stats.norm(0, tau).logpdf(effect).sum() + (0 if centred else 15 * np.log(tau))
    expected += stats.binom(n, special.expit(b + effect[codes - 1] + HERDS["x"].to_numpy() @ w)).logpmf(y).sum()
    effects = {"effect": effect} if centred else {"z": effect / tau}
    point = {"intercept": np.array(b), "weights": w, "tau": np.array(tau), **effects}
    assert LogJoint.from_model(model).logp(point) == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_evidence_without_features_against_a_dense_grid() -> None:
    """The trapezoid rule over intercept and sd, in which everything is even, on the first quarter of three herds."""
    first = load_example("cattle_infection").query("quarter == 1").head(3)
    data = dataset(successes=first["cases"], trials=first["animals"], group=first["herd"])
    model = MIXED.build(data, intercept_mean=-1.0, intercept_scale=0.5, spread_scale=0.5)
    post = bk.infer(model, draws=100, random_seed=1, progressbar=False)
    b, tau = np.linspace(-4.5, 2.5, 71)[:, None], np.linspace(0, 4, 61)
    eta = np.broadcast_to(b[..., None], (71, 61, 3))
    log = log_likelihood(data, eta, np.broadcast_to(tau, (71, 61)))
    log = log + stats.norm(-1, 0.5).logpdf(b) + stats.halfnorm(scale=0.5).logpdf(tau)
    log[:, 0] -= np.log(2)  # the end of the trapezoid rule
    assert post.method == "quadrature"
    cells = np.log(b[1, 0] - b[0, 0]) + np.log(tau[1] - tau[0])
    assert float(post.log_evidence) == pytest.approx(special.logsumexp(log) + cells, abs=1e-7)


def test_rows_without_trials_are_events() -> None:
    columns = {"successes": [0, 1, 1, 0], "group": ["a", "a", "b", "b"]}
    point = {"intercept": np.array(0.3), "tau": np.array(0.5), "effect": np.array([0.2, -0.1])}
    with_ones = dataset(**columns, trials=[1, 1, 1, 1])
    one, other = (LogJoint.from_model(MIXED.build(data)).logp(point) for data in (dataset(**columns), with_ones))
    assert one == other
    with pytest.raises(BayeskitError, match="column 'successes', row 2: 3 successes; name the column of the trials"):
        MIXED.build(dataset(successes=[0, 3], group=["a", "b"]))
