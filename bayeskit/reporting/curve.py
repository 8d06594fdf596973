"""The fitted mean along one covariate with its credible and predictive bands, over the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from matplotlib.axes import Axes
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors

from bayeskit.graphs.compile import compile_small
from bayeskit.reporting.checks import MAX_DRAWS, generator
from bayeskit.reporting.records import BLUE, INK, Picture, interval_probability, subplots, to_picture
from bayeskit.results.records import Posterior
from bayeskit.results.tree import stacked_draws

__all__ = ["Curve", "curve_picture", "draw_curve", "fitted_curve"]

GRID = 120
RESPONSES = ("NormalRV", "BernoulliRV")


@dataclass(frozen=True)
class Curve:
    """Predictions along one covariate: its grid, the mean's and the prediction's draws, and the data.

    A prediction of zeros and ones has no band beside that of its mean, their probability.
    """

    covariate: str
    response: str
    grid: np.ndarray
    mean: np.ndarray
    predicted: np.ndarray | None
    x: np.ndarray
    y: np.ndarray


def fitted_curve(post: Posterior) -> Curve | None:
    """Predictions along the covariate of a regression.

    None where the model has not exactly one numeric covariate along the rows of one observed variable that is Normal
    or Bernoulli, or its rows cannot change.
    """
    model = post.model
    if (forecast := _at_new_inputs(post)) is not None:
        return forecast
    if len(model.observed_RVs) != 1 or len(model.data_vars) not in (1, 2):
        return None
    response = model.observed_RVs[0]
    y = np.asarray(post.tree["observed_data"][response.name])
    held = set(ancestors([model.rvs_to_values[response]]))  # a container of the observed values is no covariate
    covariates = [v for v in model.data_vars if v not in held]
    if len(covariates) != 1 or y.ndim != 1 or type(response.owner.op).__name__ not in RESPONSES:
        return None
    data = np.asarray(covariates[0].get_value())
    if data.dtype.kind != "f" or data.size != y.size or data.shape[0] != y.size or np.unique(data).size < 3:
        return None
    x = data.ravel()
    margin = 0.04 * (x.max() - x.min())
    grid = np.linspace(x.min() - margin, x.max() + margin, GRID)
    try:
        mean, *sd = _parameter_draws(post, response, covariates[0], grid.reshape(GRID, *data.shape[1:]))
    except ValueError:  # something else in the mean has a value for each row
        return None
    # One noise for the whole grid: right at every point, which is all that a pointwise band shows, and smooth.
    predicted = mean + sd[0] * generator(post).standard_normal((len(mean), 1)) if sd else None
    return Curve(_label(model, covariates[0]), str(response.name), grid, mean, predicted, x, y)


def _at_new_inputs(post: Posterior) -> Curve | None:
    """A function and a new response that the model itself draws at a container of new inputs, as a process does."""
    model = post.model
    leaves = [n for step in post.plan.eliminated if step.family == "ancestral" for n in step.variables]
    dims = {n: tuple(model.named_vars_to_dims.get(n, ())) for n in leaves}
    columns = {v.name: (v, np.asarray(v.get_value())) for v in model.data_vars if hasattr(v, "get_value")}
    columns = {n: (v, a) for n, (v, a) in columns.items() if a.dtype.kind == "f" and a.size == a.shape[0] > 2}
    if len(model.observed_RVs) != 1 or len(columns) != 2:
        return None
    y = np.asarray(post.tree["observed_data"][model.observed_RVs[0].name])
    for name, (container, grid) in columns.items():
        rows = tuple(model.named_vars_to_dims.get(name) or ())[:1]
        at = [
            n for n in leaves if dims[n] == rows and (rows or np.shape(post.tree["posterior"][n])[2:] == (len(grid),))
        ]
        means = [n for n in at if container in ancestors([model[n]]) and not _follows(model, n, at)]
        responses = [n for n in at if _follows(model, n, means)]
        ((other, (_, x)),) = ((n, c) for n, c in columns.items() if n != name)
        if len(means) != 1 or len(responses) != 1 or y.shape != (x.size,):
            continue
        order = np.argsort(grid.ravel())
        mean, predicted = (d[:, order] for d in stacked_draws(post.tree["posterior"], (*means, *responses)).values())
        response = str(model.observed_RVs[0].name)
        return Curve(_label(model, model[other]), response, grid.ravel()[order], mean, predicted, x.ravel(), y)
    return None


def _follows(model: pm.Model, name: str, others: list[str]) -> bool:
    """Whether a variable depends on one of the others."""
    above = set(ancestors([model[name]]))
    return any(model[n] in above for n in others if n != name)


def _label(model: pm.Model, covariate: Any) -> str:
    """Name of the column that a one-column covariate holds, else its own name."""
    dims = model.named_vars_to_dims.get(covariate.name, ())
    columns = model.coords.get(dims[1]) if len(dims) == 2 else None
    return str(covariate.name if columns is None else columns[0])


def _parameter_draws(post: Posterior, response: Any, covariate: Any, new: np.ndarray) -> np.ndarray:
    """Draws of the parameters of a response at new values of its covariate, of shape (parameters, draws, grid).

    Of a Normal these are mean and sd, of a Bernoulli the probability.
    """
    free = {v: v.type(name=v.name) for v in post.model.free_RVs}
    inside = {**free, covariate: covariate.type(name=covariate.name)}
    parameters = graph_replace(response.owner.op.dist_params(response.owner), inside, strict=False)
    compiled = compile_small(list(inside.values()), parameters)
    draws = stacked_draws(post.tree["posterior"], [v.name for v in free]).values()
    rows = zip(*(d[:: max(1, len(d) // MAX_DRAWS)] for d in draws), strict=True)
    values = [[np.broadcast_to(value, GRID) for value in compiled(*row, new)] for row in rows]
    return np.moveaxis(np.array(values), 1, 0)


def curve_picture(curve: Curve) -> Picture:
    """The data with the mean's credible band and the predictive band."""
    figure, axes = subplots(figsize=(7.4, 3.6))
    draw_curve(axes, curve)
    bands = "credible band" if curve.predicted is None else "credible band and predictive band"
    alt = f"{curve.response} against {curve.covariate}: data, fitted mean, {bands}."
    return to_picture(
        figure, alt=alt, caption=f"Fitted mean of {curve.response} along {curve.covariate}, over the data."
    )


def draw_curve(axes: Axes, curve: Curve) -> None:
    """Draw the bands, the mean and the data of a fitted curve into given axes."""
    probability = interval_probability()
    tails = [(1 - probability) / 2, (1 + probability) / 2]
    bands = ((curve.predicted, 0.15, "of predictions"), (curve.mean, 0.4, "credible band of the mean"))
    for draws, alpha, label in bands:
        if draws is None:
            continue
        ends, words = np.quantile(draws, tails, axis=0), f"{100 * probability:g} % {label}"
        axes.fill_between(curve.grid, *ends, color=BLUE, alpha=alpha, linewidth=0, label=words)
    axes.plot(curve.grid, curve.mean.mean(axis=0), color=BLUE, label="posterior mean")
    axes.plot(curve.x, curve.y, "o", color=INK, markersize=4, alpha=0.8, label="data", rasterized=len(curve.x) > 2000)
    axes.set(xlabel=curve.covariate, ylabel=curve.response)
    axes.legend(loc="best")
    axes.margins(x=0)
