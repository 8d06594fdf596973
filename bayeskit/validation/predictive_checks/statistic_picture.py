"""The picture of a predictive check: for each statistic the replicated ones, and the observed one among them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import arviz_plots as azp
import xarray as xr

from bayeskit.errors import ModelError
from bayeskit.results.picture_style import BLUE, ORANGE, panel_name, picture_style
from bayeskit.validation.predictive_checks.histogram_grid import PANELS, grid_options, varies

if TYPE_CHECKING:
    from bayeskit.validation.predictive_checks.predictive_check import PredictiveCheck

__all__ = ["draw_statistics"]


def draw_statistics(check: PredictiveCheck, backend: str | None) -> Any:
    """Histograms of replicated statistics (blue), the farthest out first; dots are the observed ones (orange)."""
    table = check.table.assign(name=check.table["variable"] + ": " + check.table["statistic"])
    table = table.sort_values("tail", kind="stable")
    known = check.statistics
    shown = [row for row in table.itertuples() if row.name in known and varies(known[row.name].to_numpy())][:PANELS]
    if not shown:
        raise ModelError("every statistic is the same in all replicated data: there is nothing to draw")
    names = {row.name: panel_name(row.name) for row in shown}
    entry = xr.Dataset({names[row.name]: ("entry", [row.observed]) for row in shown})
    replicated = known[[*names]].rename_vars(names).expand_dims("entry", -1)
    groups = {"posterior_predictive": replicated, "observed_data": entry}
    visuals = {"dist": {"color": BLUE, "alpha": 0.3}, "observed_tstat": {"color": ORANGE}, "title": {"size": 9}}
    with picture_style():
        # Of one number each: whether it is zero or one says nothing.
        warnings.filterwarnings("ignore", message="Variables .* look binary", category=UserWarning)
        return azp.plot_ppc_tstat(
            xr.DataTree.from_dict(groups),
            t_stat="mean",
            kind="hist",
            visuals=visuals | dict.fromkeys(("point_estimate", "point_estimate_text"), False),
            **grid_options(len(names), backend),
        )
