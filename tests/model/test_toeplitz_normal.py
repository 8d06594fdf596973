"""Which covariances are taken for functions of the distance at evenly spaced places: as PyMC's, and near-misses."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import ancestors
from scipy.stats import multivariate_normal

import bayeskit as bk
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.rewriting import widen
from bayeskit.graphs.toeplitz.density import ToeplitzTerms
from bayeskit.model.log_joint import LogJoint

N = 24
X = -1.0 + 0.3 * np.arange(N)
COLUMN = X[:, None]
Y = np.sin(X) + 0.3 * np.random.default_rng(3).normal(size=N)
cov = pm.gp.cov


@pytest.fixture(autouse=True)
def few_rows_are_worth_it(monkeypatch):
    monkeypatch.setattr("bayeskit.model.toeplitz_normal.WORTHWHILE", 4)


def _marginal(kernel, inputs=COLUMN, y=Y, noise=None, **options):
    with pm.Model() as model:
        eta, ls, sigma = pm.HalfNormal("eta"), pm.InverseGamma("ls", 3.0, 3.0), pm.HalfNormal("sigma")
        gp = pm.gp.Marginal(cov_func=kernel(eta, ls))
        data = inputs() if callable(inputs) else inputs
        gp.marginal_likelihood("y", data, y, sigma=sigma if noise is None else noise(sigma), **options)
    return model


def _taken(model):
    factor = LogJoint.from_model(model).factors["y"]
    return any(v.owner and isinstance(v.owner.op, ToeplitzTerms) for v in ancestors([factor]))


def _require_as_pymc_has_it(model, slack=1e-7):
    """The density and its gradient against PyMC's own, at a few points."""
    joint = LogJoint.from_model(model)
    free = list(joint.values.values())
    ours = compile_small(free, [joint.total, *pt.grad(joint.total, free)])
    values = [model.rvs_to_values[rv] for rv in model.free_RVs]  # logarithms
    total = model.logp(jacobian=False)
    theirs = compile_small(values, widen([total, *pt.grad(total, values)]))
    for point in ([0.7, 0.9, 0.3], [2.0, 0.4, 0.05], [0.4, 30.0, 1.1]):
        at = np.array(point[-len(free) :])
        expected, found = theirs(*np.log(at)), ours(*map(np.asarray, at))
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-8)
        np.testing.assert_allclose(np.array(found[1:]) * at, expected[1:], rtol=slack, atol=slack)


KERNELS = {
    "smooth": lambda eta, ls: eta**2 * cov.ExpQuad(1, ls=ls),
    "products and sums": lambda eta, ls: (
        eta**2 * cov.ExpQuad(1, ls=ls) * cov.Periodic(1, period=2.0, ls=eta) + cov.RatQuad(1, alpha=eta, ls=2.0)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_taken_and_as_pymc_has_it(name):
    model = _marginal(KERNELS[name])
    assert _taken(model)
    _require_as_pymc_has_it(model, slack=1e-7)


@pytest.mark.parametrize(("sd", "taken"), [(0.0, False), (1e-8, False), (0.1, True)])
def test_without_noise_the_matrix_is_kept(sd, taken):
    assert _taken(_marginal(KERNELS["smooth"], noise=lambda sigma: sd, jitter=0.0)) == taken


def test_data_that_are_put_in_later_are_looked_at_again():
    model = _marginal(KERNELS["smooth"], lambda: pm.Data("x", COLUMN))
    joint = LogJoint.from_model(model)
    at = {"eta": 1.2, "ls": 0.7, "sigma": 0.2}
    before = joint.logp(at)
    with model:
        pm.set_data({"x": 2.0 * COLUMN})
    assert np.isfinite(joint.logp(at)) and joint.logp(at) != before
    with model:
        pm.set_data({"x": COLUMN**3})
    assert not np.isfinite(joint.logp(at))
    assert not _taken(model)


@pytest.mark.parametrize("name", ["level", "v"])
def test_what_has_a_closed_form_keeps_its_matrix(name):
    with pm.Model() as model:
        level = pm.Normal("level", 0.0, 3.0) if name == "level" else 0.5
        v = pm.InverseGamma("v", 3.0, 1.0) if name == "v" else 0.7
        pm.MvNormal("y", level + 0.0 * Y, v * (cov.ExpQuad(1, ls=1.0)(COLUMN) + 0.1 * np.eye(N)), observed=Y)
    assert not _taken(model)


def test_few_rows_and_matern_processes_are_not_taken(monkeypatch):
    assert not _taken(_marginal(lambda eta, ls: eta * cov.Matern32(1, ls=ls)))
    monkeypatch.setattr("bayeskit.model.toeplitz_normal.WORTHWHILE", N + 1)
    assert not _taken(_marginal(KERNELS["smooth"]))


def test_the_posterior_is_that_of_the_matrix(monkeypatch):
    def build():
        with pm.Model() as model:
            gp = pm.gp.Marginal(cov_func=1.3 * cov.ExpQuad(1, ls=pm.InverseGamma("ls", 3.0, 3.0)))
            gp.marginal_likelihood("y", COLUMN, Y, sigma=0.3)
        return model

    found = []
    for worthwhile in (4, N + 1):
        monkeypatch.setattr("bayeskit.model.toeplitz_normal.WORTHWHILE", worthwhile)
        found.append(bk.infer(build(), progressbar=False, random_seed=1, draws=200))
    fast, slow = found
    assert fast.method == slow.method
    both = fast.log_evidence.error + slow.log_evidence.error
    np.testing.assert_allclose(fast.log_evidence.value, slow.log_evidence.value, atol=both + 1e-8)


@pytest.mark.slow
def test_with_all_numbers_given_the_evidence_is_exact():
    with pm.Model() as model:
        gp = pm.gp.Marginal(cov_func=1.3 * cov.ExpQuad(1, ls=0.8))
        gp.marginal_likelihood("y", COLUMN, Y, sigma=0.3)
        gp.conditional("f", np.array([[0.15], [9.0]]))
    matrix = 1.3 * np.exp(-0.5 * (np.subtract.outer(X, X) / 0.8) ** 2) + (0.09 + 1e-6) * np.eye(N)
    post = bk.infer(model, progressbar=False)
    assert post.log_evidence.label == "exact"
    np.testing.assert_allclose(post.log_evidence.value, multivariate_normal(np.zeros(N), matrix).logpdf(Y), rtol=1e-9)
    cross = 1.3 * np.exp(-0.5 * (np.subtract.outer([0.15, 9.0], X) / 0.8) ** 2)
    drawn = post.tree.posterior["f"].stack(sample=("chain", "draw")).values
    np.testing.assert_allclose(drawn.mean(axis=1), cross @ np.linalg.solve(matrix, Y), atol=0.1)
    assert post.predict({})["y"].shape[-1] == N


def test_many_places_need_no_matrix(monkeypatch):
    n = 6000
    x = np.arange(n) / 50.0
    model = _marginal(KERNELS["smooth"], x[:, None], np.sin(x))
    joint = LogJoint.from_model(model)
    values = list(joint.values.values())
    density, *slopes = compile_small(values, [joint.total, *pt.grad(joint.total, values)])(
        *map(np.asarray, (1.0, 2.0, 0.5))
    )
    steps = [joint.logp({"eta": 1.0, "ls": 2.0, "sigma": 0.5 + s}) for s in (1e-4, -1e-4)]
    np.testing.assert_allclose(slopes[2], (steps[0] - steps[1]) / 2e-4, rtol=1e-6)
    np.testing.assert_allclose(density, joint.logp({"eta": 1.0, "ls": 2.0, "sigma": 0.5}), rtol=1e-12)
