"""The picture of a prior: histograms of what it predicts, with the ends of the data, and of the parameters."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import arviz_base
import arviz_plots as azp
import numpy as np
import xarray as xr

from bayeskit.errors import ModelError
from bayeskit.results.picture_style import BLUE, ORANGE, picture_style
from bayeskit.validation.predictive_checks.histogram_grid import PANELS, grid_options, varies

if TYPE_CHECKING:
    from bayeskit.validation.predictive_checks.prior_record import PriorCheck

__all__ = ["draw_prior"]

POINTS, TAIL = 1000, 0.005  # the draws that are shown: those of a heavy tail would leave one bar of the others


def draw_prior(check: PriorCheck, backend: str | None) -> Any:
    """The central 99 % of the draws, all entries of a variable together: the observed ones first, then parameters.

    Orange lines are the smallest and the largest of the data.
    """
    names = [*map(str, check.predicted.index), *(n for n in check.prior.data_vars if n not in check.predicted.index)]
    central = {str(n): _central(check.prior[n].to_numpy()) for n in names}
    shown = {n: v for n, v in central.items() if varies(v)}
    if not shown:
        raise ModelError("nothing was drawn from the prior that differs between draws: there is nothing to draw")
    data = xr.Dataset({n: (("chain", "draw"), shown[n][None]) for n in [*shown][:PANELS]})
    visuals: dict[str, Any] = {"dist": {"color": BLUE, "alpha": 0.5}, "title": {"size": 9}}
    visuals |= {"credible_interval": {"color": BLUE}, "point_estimate_text": False}
    with picture_style():
        tree = xr.DataTree.from_dict({"prior": data})
        panels = azp.plot_dist(tree, group="prior", kind="hist", visuals=visuals, **grid_options(len(data), backend))
        marks = import_module(f"arviz_plots.backend.{backend or arviz_base.rcParams['plot.backend']}")
        for n in (n for n in check.observed.data_vars if n in data and check.observed[n].size):
            target = panels.get_target(n, {})
            for end in {float(check.observed[n].min()), float(check.observed[n].max())}:
                marks.vline(end, target, color=ORANGE, width=1.4)
    return panels


def _central(values: np.ndarray) -> np.ndarray:
    """Evenly spaced quantiles of the central draws that are finite."""
    finite = values[np.isfinite(values)].astype(float)
    return np.quantile(finite, np.linspace(TAIL, 1 - TAIL, POINTS)) if finite.size else np.zeros(POINTS)
