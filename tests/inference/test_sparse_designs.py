"""Regressions on sparse matrices against the same on dense ones, and what must not be answered as if it were one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.sparse as ps
import pytensor.tensor as pt
import pytest
from scipy import sparse, stats

import bayeskit as bk
from bayeskit.elimination.plan import analyse
from bayeskit.errors import ModelError
from bayeskit.graphs import sparse_products
from bayeskit.sampling.native import compile_for_nutpie, objective_of

RNG = np.random.default_rng(11)


def one_hot(*levels):
    """A column for each level of some factors."""
    rows = np.arange(len(levels[0]))
    shapes = [(np.ones(len(rows)), (rows, of)) for of in levels]
    return sparse.hstack([sparse.csr_matrix(s, shape=(len(rows), s[1][1].max() + 1)) for s in shapes], format="csr")


def with_intercept(design):
    return sparse.hstack([sparse.csr_matrix(np.ones((design.shape[0], 1))), design], format="csr")


DESIGNS = {
    "random": sparse.random(200, 50, density=0.1, random_state=1, format="csr"),
    "by columns": sparse.random(4_000, 60, density=0.05, random_state=2, format="csc"),
    "one-hot and an intercept": with_intercept(one_hot(RNG.integers(70, size=3_000))),
    "crossed": one_hot(RNG.integers(200, size=10_000), RNG.integers(300, size=10_000)),
}


def regression(design, y, noise, dense=False):
    with pm.Model() as model:
        sd = noise()
        beta = pm.Normal("beta", 0.0, 1.5 * sd if noise is variance else 1.5, shape=design.shape[1])
        if dense:
            mean = pt.dot(design.toarray(), beta)
        else:
            mean = ps.structured_dot(ps.as_sparse_variable(design), beta[:, None])[:, 0]
        pm.Normal("y", mean, sd, observed=y)
    return model


def known():
    return 1.3


def half_normal():
    return pm.HalfNormal("sd", 1.0)


def variance():
    return pt.sqrt(pm.InverseGamma("v", 3.0, 2.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "noise"),
    [*((n, noise) for n in DESIGNS for noise in (known, variance)), ("by columns", half_normal)],
)
def test_a_sparse_design_gives_what_the_dense_one_does(name, noise):
    design = DESIGNS[name]
    y = design @ RNG.normal(size=design.shape[1]) + RNG.normal(size=design.shape[0])
    posts = [bk.infer(regression(design, y, noise, dense), draws=200, random_seed=1) for dense in (False, True)]
    one, two = posts
    assert one.method == two.method == ("quadrature" if noise is half_normal else "exact")
    assert one.log_evidence.value == pytest.approx(two.log_evidence.value, rel=1e-12, abs=1e-9)
    found, expected = (p.marginal("beta") for p in posts)
    np.testing.assert_allclose(found.mean(), expected.mean(), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found.std(), expected.std(), rtol=1e-9)
    drawn = one.tree["posterior"]["beta"].to_numpy().reshape(200, -1)
    z = (drawn.mean(axis=0) - expected.mean()) / expected.std() * np.sqrt(200)
    assert np.max(np.abs(z)) < 5.5  # of 500 entries, one is larger by chance in 50,000 runs


def test_the_closed_form_of_many_levels_never_needs_all_pairs_of_them():
    level = np.concatenate([np.arange(30_000), RNG.integers(30_000, size=30_000)])
    y = RNG.normal(size=len(level))
    post = bk.infer(regression(one_hot(level), y, known), draws=2, random_seed=1)
    count, total = np.bincount(level), np.bincount(level, weights=y)
    precision = 1 / 1.5**2 + count / 1.3**2
    np.testing.assert_allclose(post.marginal("beta").mean(), total / 1.3**2 / precision, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(post.marginal("beta").std(), precision**-0.5, rtol=1e-12)
    square = np.sum(y**2) / 1.3**2 - np.sum((total / 1.3**2) ** 2 / precision)
    log_determinant = np.sum(np.log(1.5**2 * precision)) + len(y) * np.log(2 * np.pi * 1.3**2)
    assert post.log_evidence.value == pytest.approx(-0.5 * (square + log_determinant), rel=1e-12)


def test_matrices_that_PyTensor_takes_for_one_are_two():
    design = one_hot(np.concatenate([np.arange(400), RNG.integers(400, size=200)]))
    other = design.copy()
    other.data = other.data * (1 + 4e-7)
    y = 1e6 * RNG.normal(size=600)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1e6, shape=400)
        difference = ps.dot(ps.as_sparse_variable(other), beta) - ps.dot(ps.as_sparse_variable(design), beta)
        pm.Normal("y", 1e6 * difference, 1.0, observed=y)
    joint = analyse(model).original
    value = RNG.normal(size=400)
    mean = 1e6 * (other @ value - design @ value)
    expected = -0.5 * np.sum((y - mean) ** 2) - 300 * np.log(2 * np.pi)
    expected += -0.5 * np.sum((value / 1e6) ** 2) - 200 * np.log(2 * np.pi * 1e12)
    assert joint.logp({"beta": value}) == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_other_likelihoods_are_compiled_without_a_dense_matrix():
    design = sparse.random(3_000, 50, density=0.04, random_state=2, format="csr")
    counts = RNG.poisson(1.0, size=3_000)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 0.3, shape=50)
        pm.Poisson("y", pt.exp(ps.dot(ps.as_sparse_variable(design), beta)), observed=counts)
    compiled = compile_for_nutpie(model, set())
    assert len(compiled.user_data) < design.shape[0] * design.shape[1] / 2
    value = RNG.normal(size=50)
    found, gradient = objective_of(compiled)(value)
    rate = np.exp(design @ value)
    expected = stats.poisson.logpmf(counts, rate).sum() + stats.norm.logpdf(value, 0.0, 0.3).sum()
    assert found == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(gradient, design.T @ (counts - rate) - value / 0.3**2, rtol=1e-8, atol=1e-8)


@pytest.mark.slow
def test_rows_in_chunks_give_what_all_rows_do(monkeypatch):
    """What a chunk is read as does not depend on its size: the first is above the limit of a dense matrix only."""
    frame = pd.DataFrame({"a": RNG.integers(30, size=900), "b": RNG.integers(10, size=900), "y": RNG.normal(size=900)})
    monkeypatch.setattr(sparse_products, "WRITTEN_OUT", 18_000)

    def build(rows, dense=False):
        index = np.arange(len(rows))
        pairs = [(rows["a"], 30), (rows["b"], 10)]
        parts = [sparse.csr_matrix((np.ones(len(rows)), (index, of)), shape=(len(rows), k)) for of, k in pairs]
        return regression(sparse.hstack(parts, format="csr"), rows["y"].to_numpy(), known, dense)

    whole = bk.infer(build(frame, dense=True), draws=2, random_seed=1)
    parts = bk.infer(build, chunks=[frame[:500], frame[500:]], draws=2, random_seed=1)
    assert parts.log_evidence.value == pytest.approx(whole.log_evidence.value, rel=1e-12)


def test_what_is_no_product_with_a_constant_is_refused():
    design = DESIGNS["random"]
    with pm.Model() as scaled:
        beta, scale = pm.Normal("beta", shape=50), pm.HalfNormal("scale", shape=50)
        pm.Normal("y", ps.dot(ps.multiply(ps.as_sparse_variable(design), scale), beta), observed=np.zeros(200))
    with pytest.raises(ModelError, match=r"only pytensor.sparse.dot\(X, b\) of a constant sparse X"):
        bk.infer(scaled)
    with pm.Model() as shared:
        beta = pm.Normal("beta", shape=50)
        pm.Normal("y", ps.dot(pytensor.shared(design), beta), observed=np.zeros(200))
    with pytest.raises(ModelError, match="a sparse matrix is shared"):
        bk.infer(shared)
