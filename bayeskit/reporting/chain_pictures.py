"""Traces and ranks of the parameters whose chains did worst, by arviz-plots.

Ranks: the distribution function of the ranks that each chain has among all draws, less that of a uniform, by
:func:`arviz_plots.plot_rank`, which marks where its test finds the chains to differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import arviz_plots as azp
import numpy as np
import xarray as xr

from bayeskit.reporting.records import INK, Picture, figure_of, in_a_grid, to_picture
from bayeskit.results.marginals import scalar_labels
from bayeskit.results.picture_style import panel_name
from bayeskit.results.records import Posterior

__all__ = ["chain_pictures"]

POINTS, RANKED = 250, 250  # draws of a chain that are shown
COLUMNS, WIDTH, HEIGHT, LEFT = 2, 3.6, 1.9, 0.45  # inches of a panel, and of the labels on its left


def chain_pictures(post: Posterior, names: Sequence[str], labels: Sequence[str]) -> tuple[Picture, ...]:
    """The traces and the ranks of some scalars, a panel each."""
    draws = _scalars(post.tree["posterior"].to_dataset(), names, labels)
    moved = [n for n in draws.data_vars if np.ptp(draws[n].to_numpy()) > 0]
    if not moved or draws.sizes["draw"] < 4:
        return ()
    draws = draws[moved]
    return (_traces(draws, post), *((_ranks(draws),) if draws.sizes["chain"] > 1 else ()))


def _scalars(draws: xr.Dataset, names: Sequence[str], labels: Sequence[str]) -> xr.Dataset:
    """Some scalars as variables of their own, under the labels that tables have."""
    found: dict[str, xr.DataArray] = {}
    for name in names:
        values = draws[name].transpose("chain", "draw", ...)
        flat = values.to_numpy().reshape(*values.shape[:2], -1)
        for place, label in enumerate(scalar_labels(draws, name)):
            if label in labels:
                found[label] = xr.DataArray(flat[..., place].astype(float), dims=("chain", "draw"))
    sizes = {"chain": np.arange(draws.sizes["chain"]), "draw": np.arange(draws.sizes["draw"])}
    return xr.Dataset({panel_name(label): found[label] for label in labels if label in found}, coords=sizes)


def _layout(draws: xr.Dataset) -> dict[str, Any]:
    rows = -(-len(draws.data_vars) // COLUMNS)
    columns = min(COLUMNS, len(draws.data_vars))
    size = {"figsize": (WIDTH * columns, HEIGHT * rows), "sharex": False}
    return {"col_wrap": COLUMNS, "figure_kwargs": size}


def _traces(draws: xr.Dataset, post: Posterior) -> Picture:
    step = max(1, draws.sizes["draw"] // POINTS)
    kept = draws.isel(draw=slice(None, None, step))
    groups = {"posterior": kept}
    visuals: dict[str, Any] = {"trace": {"width": 0.5, "alpha": 0.8}, "title": {"size": 9}, "xlabel": False}
    words = "Traces: the draws of each chain in its colour"
    if "sample_stats" in post.tree.children and "diverging" in post.tree["sample_stats"]:
        diverging = post.tree["sample_stats"]["diverging"].transpose("chain", "draw").to_numpy().astype(bool)
        if diverging.any():
            # A transition that is between two points that are drawn is marked at the first.
            marked = [diverging[:, k : k + step].any(axis=1) for k in range(0, diverging.shape[1], step)]
            stats = xr.Dataset({"diverging": (("chain", "draw"), np.stack(marked, axis=1))}, coords=kept.coords)
            groups["sample_stats"] = stats
            visuals["divergence"] = {"color": INK}
            words += ", marks below where a transition diverged"
    words += f"; one draw in {step} is shown" if step > 1 else ""
    panels = azp.plot_trace(xr.DataTree.from_dict(groups), visuals=visuals, **_layout(draws))
    names = ", ".join(map(str, draws.data_vars))
    figure = in_a_grid(figure_of(panels), left=LEFT)
    return to_picture(figure, alt=f"Traces of {names}, a panel each.", caption=f"{words}.", stacked=True)


def _ranks(draws: xr.Dataset) -> Picture:
    visuals: dict[str, Any] = {"title": {"size": 9}, "xlabel": False, "ecdf_lines": {"width": 1.2}}
    thinned = draws.isel(draw=slice(None, None, max(1, draws.sizes["draw"] // RANKED)))
    panels = azp.plot_rank(xr.DataTree.from_dict({"posterior": thinned}), visuals=visuals, **_layout(draws))
    figure = in_a_grid(figure_of(panels), left=LEFT)
    for axes in figure.axes:
        for text in [*axes.texts]:  # the test's p-value, which covers the lines
            text.remove()
    names = ", ".join(map(str, draws.data_vars))
    words = (
        "Ranks of each chain's draws among all, their distribution function less that of uniform ones: lines of chains "
        "that sample one distribution stay close to zero; dots mark where they do not"
    )
    return to_picture(figure, alt=f"Rank distributions of {names}, a panel each.", caption=f"{words}.", stacked=True)
