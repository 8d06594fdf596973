"""Pictures of predictive checks: a panel a column, means by group, bands along time, residuals and their PIT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure

from bayeskit.reporting import checks
from bayeskit.reporting.records import styled
from bayeskit.reporting.residual_checks import pit_outside

RNG = np.random.default_rng(3)
DATES = pd.date_range("2021-01-01", periods=24, freq="MS")


def figures(observed: np.ndarray, predicted: np.ndarray, dims: tuple[str, ...], **given: Any) -> dict[str, Figure]:
    """What is drawn of a variable, by what it is."""
    coords = {"date": DATES} if "date" in dims else {}
    data = xr.DataArray(observed, dims=dims, coords=coords, attrs=given.pop("attrs", {}))
    drawn = xr.DataArray(predicted.reshape(4, -1, *observed.shape), dims=("chain", "draw", *dims), coords=coords)
    of = checks._Checked("y", data, drawn, given.get("groups", {}), given.get("timed", False))
    with styled():
        return {what: figure for what, (figure, _) in checks._figures_of(of, np.random.default_rng(1))}


def labels_of(figure: Figure) -> list[str]:
    return [axes.get_xlabel() for axes in figure.axes if axes.axison]


def test_a_matrix_has_a_panel_a_column() -> None:
    counts = figures(RNG.poisson(3, (24, 3)), RNG.poisson(3, (200, 24, 3)), ("row", "k"))
    assert labels_of(counts["Posterior predictive check"]) == ["y[0]", "y[1]", "y[2]"]
    assert set(counts) == {"Posterior predictive check", "Residuals"}
    ones = figures(RNG.integers(0, 2, (24, 2)), RNG.integers(0, 2, (200, 24, 2)), ("row", "k"))
    assert labels_of(ones["Posterior predictive check"]) == ["y[0]", "y[1]"]
    assert set(ones) == {"Posterior predictive check"}
    wide = figures(RNG.normal(size=(10, 20)), RNG.normal(size=(200, 10, 20)), ("row", "plot"))
    assert set(wide) == {"Posterior predictive check", "Means by plot", "Residuals"}


def test_bars_of_zeros_and_ones_are_their_shares() -> None:
    observed, predicted = RNG.integers(0, 2, 30), (RNG.random((400, 30)) < 0.3).astype(int)
    (axes,) = figures(observed, predicted, ("row",))["Posterior predictive check"].axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["0", "1"]
    np.testing.assert_allclose([bar.get_height() for bar in axes.patches], [1 - predicted.mean(), predicted.mean()])
    np.testing.assert_allclose(np.asarray(axes.lines[-1].get_ydata()), [1 - observed.mean(), observed.mean()])


def test_means_of_groups_are_those_of_their_rows() -> None:
    codes = np.repeat([0, 2, 1], 5)
    observed = RNG.normal(size=15)
    found = figures(observed, RNG.normal(size=(200, 15)), ("row",), groups={"school": (codes, ("a", "b", "c"))})
    (axes,) = found["Means by school"].axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["a", "b", "c"]
    heights = np.sort(
        np.concatenate([np.asarray(c.get_offsets())[:, 1] for c in axes.collections if c.get_offsets().size])
    )
    np.testing.assert_allclose(heights, np.sort([observed[codes == k].mean() for k in range(3)]))


@pytest.mark.parametrize(("dims", "timed"), [(("date",), False), (("row",), True)])
def test_times_have_a_band(dims: tuple[str, ...], timed: bool) -> None:
    observed, predicted = RNG.normal(size=24), RNG.normal(size=(400, 24))
    found = figures(observed, predicted, dims, timed=timed)
    (axes,) = found["Predictive band along time"].axes
    np.testing.assert_array_equal(np.asarray(axes.lines[-1].get_ydata()), observed)
    inner = axes.collections[-1].get_paths()[0].vertices[:, 1]
    low, high = np.quantile(predicted, [0.25, 0.75], axis=0)
    assert inner.min() == pytest.approx(low.min()) and inner.max() == pytest.approx(high.max())
    if not timed:
        assert axes.get_xticklabels()[0].get_text() == "2021-01-01"


def test_residuals_are_in_predictive_standard_deviations() -> None:
    means = np.linspace(0.0, 4.0, 20)  # apart, as far as draws tell: residuals are not drawn over noise
    observed, predicted = RNG.normal(means, 3.0), RNG.normal(means, 3.0, (4000, 20))
    fitted, along, _ = figures(observed, predicted, ("row",))["Residuals"].axes
    expected = (observed - predicted.mean(axis=0)) / predicted.std(axis=0)
    for axes in (fitted, along):
        np.testing.assert_allclose(np.asarray(axes.lines[0].get_ydata()), expected)


def test_pit_outside_of_its_band_are_seen_and_uniform_ones_are_not() -> None:
    assert not pit_outside(RNG.random(100))[0]
    assert pit_outside(RNG.beta(3, 3, 200))[0]
    assert pit_outside(RNG.beta(1, 2, 100))[0]
