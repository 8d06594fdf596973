"""Transforms onto an interval: there and back, with the slope that they say, and as PyMC has them."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.distributions import transforms

from bayeskit.graphs.compile import small_mode
from bayeskit.inference.quadrature_marginals import _transform
from bayeskit.quadrature.change_of_variable import OntoInterval

CASES = {
    OntoInterval(): None,
    OntoInterval(0.0): transforms.log,
    OntoInterval(-1.0): transforms.Interval(-1.0, None),
    OntoInterval(high=2.0): transforms.Interval(None, 2.0),
    OntoInterval(-1.0, 2.0): transforms.Interval(-1.0, 2.0),
    OntoInterval(0.0, 1.0): transforms.logodds,
    OntoInterval(0.0, soft=True): transforms.log_exp_m1,
}
X = np.linspace(-6.0, 6.0, 41)


@pytest.mark.parametrize("onto", CASES, ids=str)
def test_a_line_goes_onto_an_interval_and_back(onto: OntoInterval) -> None:
    y = onto.backward(X)
    assert np.all((y > onto.low) & (y < onto.high))
    np.testing.assert_allclose(onto.forward(y), X, rtol=1e-9, atol=1e-9)
    slope = (onto.backward(X + 1e-6) - onto.backward(X - 1e-6)) / 2e-6
    np.testing.assert_allclose(onto.log_jacobian(y), -np.log(np.abs(slope)), atol=1e-5)


@pytest.mark.parametrize("onto", CASES, ids=str)
def test_it_is_what_pymc_does(onto: OntoInterval) -> None:
    transform = CASES[onto]
    with pm.Model() as model:
        rv = pm.Normal("x", default_transform=transform, initval=0.5)
    assert _transform(model, rv) == onto
    if transform is not None:
        x = pt.as_tensor(X)
        np.testing.assert_allclose(
            transform.backward(x, *rv.owner.inputs).eval(mode=small_mode()), onto.backward(X), rtol=1e-12
        )
        jacobian = transform.log_jac_det(x, *rv.owner.inputs).eval(mode=small_mode())
        np.testing.assert_allclose(onto.log_jacobian(onto.backward(X)), -jacobian, atol=1e-9)


def test_ends_that_another_variable_has_or_that_differ_are_no_interval() -> None:
    with pm.Model() as model:
        end = pm.HalfNormal("end")
        inside, apart = pm.Uniform("inside", 0.0, end), pm.Uniform("apart", 0.0, [1.0, 2.0])
        scaled = pm.HalfNormal("scaled", end)
    assert _transform(model, inside) is None and _transform(model, apart) is None
    assert _transform(model, scaled) == OntoInterval(0.0)
