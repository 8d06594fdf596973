"""Data of other lengths than their distribution's parameters are refused by name, whatever method was to answer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import bayeskit as bk
from bayeskit.errors import ModelError

X = np.linspace(-1.0, 1.0, 30)


def line(x: np.ndarray, y: np.ndarray, container: bool) -> pm.Model:
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 2.0, 1.0)
        slope = pm.Normal("slope", 0.0, variance**0.5)
        pm.Normal("y", slope * (pm.Data("x", x) if container else x), variance**0.5, observed=y)
    return model


def groups_and_slope(y: np.ndarray) -> pm.Model:
    with pm.Model() as model:
        level, slope = pm.Normal("level", shape=3), pm.Normal("slope")
        pm.Normal("y", level[np.arange(20) % 3] + slope * pm.Data("x", X), 1.0, observed=y)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("container", [True, False])
@pytest.mark.parametrize("ask", [bk.explain, bk.infer, bk.prior_check])
def test_rows_that_are_missing_from_the_data_are_said(ask: Callable[[pm.Model], object], container: bool) -> None:
    said = r"the data of 'y' have shape \(20,\), but a parameter of its distribution has shape \(30,\); give both"
    with pytest.raises(ModelError, match=said):
        ask(line(X, X[:20], container))


@pytest.mark.parametrize("container", [True, False])
@pytest.mark.parametrize("ask", [bk.explain, bk.infer])
def test_a_column_is_told_from_a_vector(ask: Callable[[pm.Model], object], container: bool) -> None:
    with pytest.raises(ModelError, match=r"shape \(30, 1\), .* \(30,\); y is a column: observe it as a vector"):
        ask(line(X, X[:, None], container))


def test_predictors_of_two_lengths_are_said() -> None:
    with pytest.raises(ModelError, match=r"arrays of shapes \(20,\), \(30,\) meet behind 'y'"):
        bk.infer(groups_and_slope(X))


def test_counts_without_a_closed_form_are_named_too() -> None:
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=pm.Normal("w") * pm.Data("x", X), observed=[0, 1])
    with pytest.raises(ModelError, match=r"the data of 'y' have shape \(2,\)"):
        bk.explain(model)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(30,), (4, 30)])
def test_parameters_that_broadcast_are_let_through(shape: tuple[int, ...]) -> None:
    y = np.zeros(shape)
    posterior = bk.infer(line(X[:1], y, False), random_seed=1, progressbar=False)
    assert posterior.log_evidence.label == "exact"
    assert isinstance(posterior.predict(random_seed=1), xr.Dataset)
