"""What observations are called, and which entries are one of them; of data with missing entries, too."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bayeskit as bk
from bayeskit.errors import OptionError
from bayeskit.model.observations import Observations, observations_of
from bayeskit.model.weighted_likelihood import weighted_likelihood

pytestmark = pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning")

Y = np.array([0.3, -0.8, 1.9, 0.7, 1.2, 0.4])
MASK = np.array([False, False, True, False, False, False])


def masked(values: np.ndarray, mask: np.ndarray) -> np.ma.MaskedArray:
    return np.ma.masked_array(values, mask)


def of(model: pm.Model, unit: str | None = None) -> Observations:
    return observations_of(model, weighted_likelihood(model).shapes, unit)


@pytest.mark.parametrize("dims", [None, "row"])
def test_entries_go_by_the_places_that_they_have_among_the_missing_ones(dims: str | None) -> None:
    with pm.Model(coords={"row": list("abcdef")}) as model:
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=masked(Y, MASK), dims=dims)
    found = of(model)
    assert found.labels == (tuple("abdef") if dims else (0, 1, 3, 4, 5))
    assert found.members["y_observed"].tolist() == [0, 1, 2, 3, 4]
    if dims:
        assert of(model, "row").labels == tuple("abdef")
    else:
        with pytest.raises(OptionError, match="counts no rows of 'y'"):
            of(model, "row")


def test_entries_of_a_table_and_labels_without_any() -> None:
    mask = np.array([[False, True], [True, True], [False, False]])
    with pm.Model(coords={"row": list("abc"), "side": [0, 1]}) as model:
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=masked(Y.reshape(3, 2), mask), dims=("row", "side"))
    assert of(model).labels == ("y[a, 0]", "y[c, 0]", "y[c, 1]")
    by_row = of(model, "row")
    assert by_row.labels == ("a", "c")
    assert by_row.members["y_observed"].tolist() == [0, 1, 1]


def test_rows_of_a_multivariate_variable_and_of_a_whole_one_beside_it() -> None:
    rows = np.column_stack([Y, Y])
    with pm.Model(coords={"row": list("abcdef"), "side": [0, 1]}) as model:
        mu = pm.Normal("mu", shape=2)
        pm.MvNormal("y", mu, np.eye(2), observed=masked(rows, np.column_stack([MASK, MASK])), dims=("row", "side"))
        pm.Normal("x", mu[0], 1.0, observed=Y, dims="row")
    together = of(model)
    assert (together.unit, together.labels) == ("row", tuple("abcdef"))
    assert together.members["y_observed"].tolist() == [0, 1, 3, 4, 5]
    assert of(model, "entry").labels[4:6] == ("y[f]", "x[a]")


def test_a_score_is_shown_at_its_own_observation() -> None:
    """Given a Normal mean with a Normal prior, each of the others has a Normal forecast."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=np.where(MASK, np.nan, Y))
    scores = bk.cross_validate(model, random_seed=1).pointwise["model"]
    for i in np.flatnonzero(~MASK):
        rest = Y[~MASK & (np.arange(6) != i)]
        forecast = stats.norm(rest.sum() / 5, np.sqrt(1 + 1 / 5))
        assert abs(scores[i] - forecast.logpdf(Y[i])) < 1e-10
    assert 2 not in scores.index


@pytest.mark.parametrize("value", [0.7, [0.7]])
def test_one_number_is_no_density_over_many_entries(value: float | list[float]) -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=value)
    with pytest.raises(bk.BayeskitError, match=r"one observation only: y \(Normal\) is one number; at least two"):
        of(model)
