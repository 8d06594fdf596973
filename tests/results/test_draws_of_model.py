"""Draws of other labels, other data or no numbers are refused wherever draws are given with their model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import bayeskit as bk

GROUP = np.repeat([0, 1, 2], 4)
DOSE, Y = np.linspace(0.0, 1.0, 12), np.array([1, 0, 2, 1, 4, 6, 3, 5, 9, 12, 8, 11])


def build() -> pm.Model:
    with pm.Model(coords={"county": ["A", "B", "C"]}) as model:
        dose = pm.Data("dose", DOSE)
        rate, slope = pm.Normal("rate", 1.0, 1.0, dims="county"), pm.Normal("slope", 0.0, 0.1)
        pm.Poisson("y", pm.math.exp(rate[GROUP] + slope * dose), observed=Y)
    return model


def draws() -> xr.DataTree:
    rng = np.random.default_rng(4)
    values = np.log([1.0, 4.5, 10.0]) + 0.2 * rng.normal(size=(2, 60, 3))
    posterior = xr.Dataset(
        {"rate": (("chain", "draw", "county"), values), "slope": (("chain", "draw"), 0.1 * rng.normal(size=(2, 60)))},
        coords={"county": ["A", "B", "C"]},
    )
    groups = {"posterior": posterior, "observed_data": xr.Dataset({"y": ("row", Y)})}
    return xr.DataTree.from_dict({**groups, "constant_data": xr.Dataset({"dose": ("row", DOSE)})})


def checked(tree: xr.DataTree, model: pm.Model, folder: Path) -> None:
    bk.posterior_check(tree, model)


def checked_given_replicates(tree: xr.DataTree, model: pm.Model, folder: Path) -> None:
    """The data that were replicated when the draws were made are compared with those that the model has now."""
    values = np.random.default_rng(1).poisson(5.0, size=(2, 60, 12))
    more = xr.DataTree(xr.Dataset({"y": (("chain", "draw", "row"), values)}))
    bk.posterior_check(xr.DataTree.from_dict({**tree.children, "posterior_predictive": more}), model)


def reported(tree: xr.DataTree, model: pm.Model, folder: Path) -> None:
    bk.report(tree, folder / "page.html", model=model)


def recovered(tree: xr.DataTree, model: pm.Model, folder: Path) -> None:
    bk.recover(model, tree)


ALL = (checked, checked_given_replicates, reported)


@pytest.mark.parametrize("use", [*ALL, recovered])
def test_labels_in_another_order_are_refused(use: Callable[..., None], tmp_path: Path) -> None:
    tree = draws()
    tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset().assign_coords(county=["C", "B", "A"]))
    with pytest.raises(bk.BayeskitError, match="'rate' has other labels along 'county' than the model, or in another"):
        use(tree, build(), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("use", ALL)
def test_data_that_were_exchanged_since_are_refused(use: Callable[..., None], tmp_path: Path) -> None:
    model = build()
    with model:
        pm.set_data({"dose": 1.0 - DOSE})
    with pytest.raises(bk.BayeskitError, match="data 'dose' of the model were changed since the draws were made"):
        use(draws(), model, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("use", [checked, reported])
def test_draws_that_are_no_numbers_are_refused_by_name(use: Callable[..., None], tmp_path: Path) -> None:
    tree = draws()
    posterior = tree["posterior"].to_dataset()
    tree["posterior"] = xr.DataTree(posterior.assign(rate=posterior["rate"].where(posterior["rate"] < 2.5)))
    with pytest.raises(bk.BayeskitError, match="'rate' are not all finite"):
        use(tree, build(), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("use", ALL)
def test_draws_of_the_model_are_taken(use: Callable[..., None], tmp_path: Path) -> None:
    use(draws(), build(), tmp_path)


def test_draws_without_the_data_that_they_saw_are_taken() -> None:
    tree = draws()
    bk.posterior_check(xr.DataTree.from_dict({"posterior": tree["posterior"].to_dataset()}), build())
