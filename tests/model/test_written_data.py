"""Observations that are a constant of a model, too: predictions that hold them are left out, nothing else is."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import bayeskit as bk
from bayeskit.model.written_data import without_predictions_from_data

X, Y = np.array([0.0, 1.0, 2.5, 4.0]), np.array([0.3, 1.1, -0.4, 0.8])


def process(*, ahead: bool = True, predicted: bool = False, held: bool = False) -> pm.Model:
    """A Gaussian process with its values at new inputs, and data that may depend on these."""
    with pm.Model(coords={"row": X}) as model:
        noise = pm.Exponential("noise", 2.0)
        gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=1.5))
        gp.marginal_likelihood("y", X[:, None], pm.Data("held", Y, dims="row") if held else Y, dims="row", sigma=noise)
        if ahead:
            new = gp.conditional("new", np.array([[1.5], [5.0]]), jitter=1e-10)
            pm.Normal("next", pm.Deterministic("twice", 2 * new), noise, observed=[0.1, 0.9] if predicted else None)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("held", [False, True])
def test_predictions_are_left_out_and_the_rest_stays(held: bool) -> None:
    model, left_out = without_predictions_from_data(process(held=held))
    assert left_out == ("new", "next", "twice")
    assert [rv.name for rv in model.free_RVs] == ["noise"] and not model.deterministics
    assert model.coords == {"row": tuple(X)} and tuple(model.named_vars_to_dims["y"]) == ("row",)
    with_and_without = [bk.infer(m, draws=10).log_evidence for m in (process(held=held), model)]
    assert with_and_without[0].value == pytest.approx(with_and_without[1].value, rel=1e-10)


def test_what_data_depend_on_stays() -> None:
    for model in (process(predicted=True), process(ahead=False)):
        assert without_predictions_from_data(model) == (model, ())


@pytest.mark.slow
def test_a_process_is_calibrated_without_its_predictions() -> None:
    found = bk.calibrate(process(held=True), datasets=3, random_seed=1, progressbar=False)
    assert "left out were new, next, twice" in found.notes[0]
    assert {"noise", "prediction of y"} < set(found.table.index) and not {"new", "next"} & set(found.table.index)
