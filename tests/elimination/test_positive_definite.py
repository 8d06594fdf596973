"""Covariances that are none are named, with the jitter that would mend them; sound ones are left alone."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pymc as pm
import pytest

import bayeskit as bk
from bayeskit.elimination.positive_definite import is_positive_definite, mending_jitter

X = np.array([0.0, 1.0, 1.0, 2.0])
TWICE = np.exp(-0.5 * (X[:, None] - X) ** 2)  # the second and the third input are equal
INDEFINITE = np.array([[1.0, 2.0], [2.0, 1.0]])


def _data(**options: object) -> None:
    pm.MvNormal("y", pm.Normal("m"), observed=np.zeros(len(next(iter(options.values())))), **options)


def _prior(cov: np.ndarray) -> None:
    f = pm.MvNormal("f", np.zeros(len(cov)), cov=cov)
    pm.Normal("y", f, 0.1, observed=np.ones(len(cov)))


def _scaled() -> None:
    pm.MvNormal("y", pm.Normal("m"), cov=pm.HalfNormal("s") ** 2 * TWICE, observed=np.zeros(4))


def _process(noise: float) -> None:
    process = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, pm.HalfNormal("length")))
    process.marginal_likelihood("y", X[:, None], np.ones(4), sigma=noise, jitter=0.0)


def _latent_process() -> None:
    process = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, pm.HalfNormal("length")))
    pm.Normal("y", process.prior("f", X[:, None], jitter=0.0), 0.1, observed=np.ones(4))


REFUSED: dict[str, tuple[Callable[[], None], str]] = {
    "data, equal rows": (lambda: _data(cov=TWICE), "covariance of 'y'.*rows 2 and 3 are equal.*adding 1e-10"),
    "data, indefinite": (lambda: _data(cov=INDEFINITE), "covariance of 'y'.*eigenvalue is -1; no small jitter"),
    "data, precision": (lambda: _data(tau=INDEFINITE), "covariance of 'y'.*no small jitter"),
    "data, factor": (lambda: _data(chol=np.array([[1.0, 0.0], [1.0, 0.0]])), "covariance of 'y'.*rows 1 and 2"),
    "prior, equal rows": (lambda: _prior(TWICE), "covariance of 'f'.*rows 2 and 3"),
    "prior, indefinite": (lambda: _prior(INDEFINITE), "covariance of 'f'"),
    "data, unknown scale": (_scaled, "covariance of 'y'.*rows 2 and 3"),
    "process without noise": (lambda: _process(0.0), "covariance of 'y'.*the same input twice"),
    "latent process": (_latent_process, "log density of 'y'.*rows 2 and 3"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_matrices_that_are_no_covariances_are_named(name: str) -> None:
    build, pattern = REFUSED[name]
    with pm.Model() as model:
        build()
    for answer in (bk.infer, bk.collapse):
        if answer is bk.collapse and not bk.explain(model).remaining:
            continue
        with pytest.raises(bk.BayeskitError, match=pattern):
            answer(model)


def test_the_proposed_jitter_mends_it() -> None:
    with pm.Model() as model:
        _data(cov=TWICE)
    with pytest.raises(bk.BayeskitError) as caught:
        bk.infer(model)
    found = re.search(r"adding (\S+) to", str(caught.value))
    assert found is not None
    with pm.Model() as mended:
        _data(cov=TWICE + float(found[1]) * np.eye(4))
    assert bk.infer(mended, draws=4).method == "exact"


def test_noise_makes_equal_inputs_sound() -> None:
    with pm.Model() as model:
        _process(0.1)
    assert bk.infer(model, draws=4, random_seed=1).method == "quadrature"


@pytest.mark.slow
def test_small_inputs_are_tried_at_the_scale_of_their_prior() -> None:
    """At a length scale of one all rows of the kernel are equal."""
    x = 1e-6 * np.arange(4.0)
    with pm.Model() as model:
        length = pm.LogNormal("length", np.log(1e-6), 0.3)
        process = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, length))
        process.marginal_likelihood("y", x[:, None], np.array([1.0, 0.2, -0.3, 0.1]), sigma=0.0, jitter=0.0)
    assert bk.infer(model, draws=4, random_seed=1).method == "quadrature"


def test_jitter() -> None:
    assert is_positive_definite(np.eye(3)) and is_positive_definite(np.diag([1e-9, 1.0]))
    assert not is_positive_definite(np.ones((2, 2))) and not is_positive_definite(np.full((2, 2), np.nan))
    assert mending_jitter(np.full((2, 2), np.nan)) is None
    for scale in (1e-12, 1.0, 3e8):
        jitter = mending_jitter(scale * TWICE)
        assert jitter is not None and is_positive_definite(scale * TWICE + jitter * np.eye(4))
        assert jitter < 1e-8 * scale
