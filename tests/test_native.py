"""The machine code that nutpie samples: density, gradient and draws against PyTensor's own evaluation of the model."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytest
from pymc.initial_point import make_initial_point_fn

import bayeskit as bk
from bayeskit.compiling import lightly, small_mode
from bayeskit.native import compile_for_nutpie
from bayeskit.unconstrained import Unconstrained

RNG = np.random.default_rng(0)
DESIGN = RNG.normal(size=(12, 3))
Y = DESIGN @ [1.0, -2.0, 0.5] + RNG.normal(size=12)


def regression() -> pm.Model:
    with pm.Model(coords={"column": list("abc")}) as model:
        x = pm.Data("x", DESIGN)
        weights = pm.Normal("weights", 0, 2, dims="column")
        sigma = pm.HalfNormal("sigma", 1)
        share = pm.Dirichlet("share", np.ones(3), dims="column")
        pm.Deterministic("doubled", 2 * weights, dims="column")
        pm.Normal("y", x @ (weights * share), sigma, observed=Y)
    return model


def collapsed() -> pm.Model:
    with pm.Model() as model:
        tau = pm.HalfCauchy("tau", 5)
        sigma = pm.HalfNormal("sigma", 1, shape=4)
        theta = pm.Normal("theta", 0, tau, shape=12)
        z = pm.Categorical("z", np.full(4, 0.25), shape=12)
        pm.Normal("y", Y, sigma[z], observed=Y[::-1])
        pm.Normal("v", theta, 1.0, observed=Y)
    return bk.collapse(model)


def relevance() -> pm.Model:
    """Twenty-five coefficients with a scale each, ten rows: on the side of the data."""
    rng = np.random.default_rng(1)
    with pm.Model() as model:
        noise, scale = pm.HalfNormal("noise", 0.5), pm.HalfNormal("scale", 1.0, shape=25)
        weights = pm.Normal("weights", 0.0, scale, shape=25)
        pm.Normal("y", rng.normal(size=(10, 25)) @ weights, noise, observed=rng.normal(size=10))
    return bk.collapse(model)


@pytest.mark.parametrize("build", [regression, collapsed, relevance], ids=lambda b: b.__name__)
def test_density_gradient_and_draws_are_those_of_the_model(build: Callable[[], pm.Model]) -> None:
    model = build()
    compiled = compile_for_nutpie(model, set())
    names = [v.name for v in model.value_vars]
    start = model.initial_point(0)
    size = sum(np.size(start[n]) for n in names)
    assert compiled.n_dim == size
    void, length = ctypes.c_void_p, ctypes.c_uint64
    density: Any = ctypes.CFUNCTYPE(ctypes.c_int64, length, void, void, void, void)(compiled.compiled_logp_func.address)
    expand: Any = ctypes.CFUNCTYPE(ctypes.c_int64, length, length, void, void, void)(
        compiled.compiled_expand_func.address
    )
    value = model.compile_logp(mode=small_mode())
    slope = model.compile_dlogp(mode=small_mode())
    drawn = model.compile_fn(model.unobserved_value_vars, mode=small_mode(), point_fn=True)
    data = compiled.user_data.ctypes.data
    for seed in range(3):
        x = np.random.default_rng(seed).normal(scale=0.5, size=size)
        point, at = {}, 0
        for name in names:
            shape = np.shape(start[name])
            point[name] = x[at : at + int(np.prod(shape))].reshape(shape)
            at += int(np.prod(shape))
        found, gradient = np.zeros(1), np.zeros(size)
        assert density(size, x.ctypes.data, gradient.ctypes.data, found.ctypes.data, data) == 0
        assert found[0] == pytest.approx(float(value(point)), rel=1e-10)
        np.testing.assert_allclose(gradient, slope(point), rtol=1e-8, atol=1e-10)
        out = np.zeros(compiled.n_expanded)
        assert expand(size, out.size, x.ctypes.data, out.ctypes.data, data) == 0
        expected = dict(zip([v.name for v in model.unobserved_value_vars], drawn(point), strict=True))
        assert sorted(out) == pytest.approx(sorted(np.concatenate([np.ravel(v) for v in expected.values()])), rel=1e-10)


def test_nothing_is_compiled_by_a_c_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyMC's starting points would take g++ seconds, for one evaluation each."""
    from pytensor.link.c.op import COp

    def refuse(*arguments: Any) -> None:
        raise AssertionError("compiled as C")

    monkeypatch.setattr(COp, "make_c_thunk", refuse)
    model = regression()
    assert Unconstrained(model).start.shape == (6,)
    with lightly():
        start = make_initial_point_fn(model=model, jitter_rvs=set(model.free_RVs))
    assert set(start(1)) == {v.name for v in model.value_vars}
