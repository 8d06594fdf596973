r"""A series as the sum of a level, a trend, a season, a regression and noise: the basic structural model.

.. math::

   y_t &= \mu_t + \gamma_t + z_t^\top w + \varepsilon_t, & \varepsilon_t &\sim \mathrm{Normal}(0, \sigma^2) \\
   \mu_{t+1} &= \mu_t + \delta_t + \xi_t, & \xi_t &\sim \mathrm{Normal}(0, \tau_\mu^2) \\
   \delta_{t+1} &= \delta_t + \zeta_t, & \zeta_t &\sim \mathrm{Normal}(0, \tau_\delta^2) \\
   \gamma_{t+1} &= -\gamma_t - \cdots - \gamma_{t-S+2} + \omega_t, & \omega_t &\sim \mathrm{Normal}(0, \tau_\gamma^2)

(Harvey 1989). The rows are in the order of time, at even steps. The slope :math:`\delta` may be one number, or absent;
the season of :math:`S` steps may repeat without change, or be absent; so may the features :math:`z`, standardised or as
they are. Rows without a response are predicted, and as many beyond the last as ``ahead`` says; a forecast with features
is of rows that have these and no response.

The first level is :math:`\mathrm{Normal}(m, s_\mu^2)` and the first slope :math:`\mathrm{Normal}(0, s_\delta^2)`; the
effects of one season are Normal with sd :math:`s_\gamma` each and add up to zero: the first :math:`S - 1` have the
covariance :math:`s_\gamma^2\, (S\, 1_{i = j} - 1) / (S - 1)`. The sds :math:`\sigma, \tau_\mu, \tau_\delta,
\tau_\gamma` are log-Normal, which keeps them away from zero: that a component does not change at all is another model,
to be compared by evidence.

Given the sds everything is jointly Normal: level, slope, season, weights and forecasts are integrated out in one step,
in time linear in the number of rows, as a Kalman filter and smoother would. The log evidence given the sds is the log
likelihood of the state-space model whose first state has these means and variances. Software that gives the first
state a diffuse prior leaves out :math:`\log s_\mu` and its like, which have no limit. The sds remain, by quadrature for
up to three of them, else by importance sampling.

The free variables are ``noise``, ``level_step``, ``slope_step`` and ``season_step``, the sds; ``level`` of dims
``("row",)``; ``slope``, of the same dims or a number; ``season`` of dims ``("row",)``, or ``season_start``, all but the
last of the effects that repeat, ``season`` of dims ``("phase",)``; and ``weights`` of dims ``("feature",)``.
``forecast`` holds the responses that are not in the data.

The example is the carbon dioxide in the air over Mauna Loa, by quarter from 1959 to 1979. Over these years the evidence
is for a season that repeats and a slope that is one number.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayeskit.catalogue.builder import column_coords, model_builder, refuse_unused
from bayeskit.catalogue.linear_predictor import feature_terms
from bayeskit.datasets.schema import Example, Positive, Range, Variable
from bayeskit.errors import DataError, OptionError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "y": Variable(doc="the series, in the order of time; entries may be missing", missing=True),
    "x": Variable(("row", "feature"), required=False, doc="features of the rows, one column each"),
}

EXAMPLE = Example(
    "mauna_loa",
    {"y": "co2", "row": "quarter"},
    {"trend": "constant", "period": 4, "season": "constant", "ahead": 8},
)

SDS = ("noise", "level_step", "slope_step", "season_step")
NEEDED = {  # by options that may have no effect
    "slope_scale": "trend=constant or trend=walk",
    "slope_step": "trend=walk",
    "season_scale": "period",
    "season_step": "season=walk and a period",
    "prior_scale": "features x",
}


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    trend: Literal["none", "constant", "walk"] = "none",
    period: Annotated[int, Range(1, 1000)] = 1,
    season: Literal["walk", "constant"] = "walk",
    ahead: Annotated[int, Range(0, 100_000)] = 0,
    level_mean: float | None = None,
    level_scale: Positive | None = None,
    slope_scale: Positive | None = None,
    season_scale: Positive | None = None,
    noise: Positive | None = None,
    level_step: Positive | None = None,
    slope_step: Positive | None = None,
    season_step: Positive | None = None,
    step_spread: Positive = 1.0,
    standardise: bool = True,
    prior_scale: Positive | None = None,
) -> pm.Model:
    """Build the structural model of the series ``y``, of dims ``("row",)``.

    Parameters
    ----------
    data : xarray.Dataset
    trend : {"none", "constant", "walk"}
        The slope of the level: zero, one number, or a random walk.
    period : int
        Steps S of one season; 1 for none.
    season : {"walk", "constant"}
        Whether the effects of the season change, or repeat.
    ahead : int
        Steps to forecast beyond the last row.
    level_mean, level_scale : float or None
        Prior mean and sd of the first level, in units of y; where not given, the mean of y and its range.
    slope_scale, season_scale : float or None
        Prior sd of the first slope, and of each effect of the season; the sd of y's changes where not given.
    noise, level_step, slope_step, season_step : float or None
        Prior medians of the sds; where not given, 1/2, 1/2, 1/20 and 1/20 of the sd of y's changes in one period.
    step_spread : float
        Prior sd of the logarithms of these sds.
    standardise : bool
        Shift and scale each feature by the mean and sd of these data.
    prior_scale : float or None
        Prior sd of each weight, for a unit of the feature as seen by the model; the sd of y where not given.
    """
    y = _series(data, period, ahead)
    used = {"slope_scale": trend != "none", "slope_step": trend == "walk", "season_scale": period > 1}
    used |= {"season_step": period > 1 and season == "walk", "prior_scale": "x" in data}
    given = {"slope_scale": slope_scale, "season_scale": season_scale, "prior_scale": prior_scale}
    given |= {"noise": noise, "level_step": level_step, "slope_step": slope_step, "season_step": season_step}
    start = (np.nanmean(y) if level_mean is None else level_mean, level_scale or np.nanmax(y) - np.nanmin(y) or 1.0)
    prior = _with_defaults(y, period, given, used)
    with pm.Model(coords={"row": _times(data, ahead)}) as model:
        sd = {name: pm.LogNormal(name, np.log(prior[name]), step_spread) for name in SDS if name in prior}
        line = _level(start, trend, prior, sd, len(y) + ahead) + _season(period, prior, sd, len(y) + ahead)
        if "x" in data:
            model.add_coords(column_coords(data, "x"))
            line = line + feature_terms(data, standardise, prior["prior_scale"])
        _observe(np.append(y, np.full(ahead, np.nan)), line, sd["noise"])
    return model


def _with_defaults(
    y: np.ndarray, period: int, given: dict[str, float | None], used: dict[str, bool]
) -> dict[str, float]:
    """The scales of the priors that are used, by the changes of y where they are not given."""
    for name, value in given.items():
        refuse_unused(name, value, used.get(name, True), NEEDED.get(name, ""))
    change, yearly = _spread(np.diff(y), y), _spread(y[period:] - y[:-period], y)
    default = {"slope_scale": change, "season_scale": change, "prior_scale": _spread(y, y)}
    default |= {"noise": yearly / 2, "level_step": yearly / 2, "slope_step": yearly / 20, "season_step": yearly / 20}
    return {name: given[name] or default[name] for name in given if used.get(name, True)}


def _series(data: xr.Dataset, period: int, ahead: int) -> np.ndarray:
    """The responses; refused where they are fewer than one season has, or forecasts' features are not known."""
    y = data["y"].to_numpy().astype(float)
    if len(y) <= max(period, 1):
        raise DataError(f"the series has {len(y)} rows; it needs more than {max(period, 1)}, the steps of one season")
    if "x" in data and ahead:
        raise OptionError(
            f"option ahead is {ahead}, but the features of those steps are not known; leave it out, and add rows with "
            "features and without a response: they are predicted"
        )
    return y


def _spread(values: np.ndarray, y: np.ndarray) -> float:
    """The root mean square of changes of y, or the sd of y; where there are none, or all are zero, 1."""
    seen = values[~np.isnan(values)]
    with np.errstate(over="ignore", invalid="ignore"):
        spread = float(np.std(seen) if values is y else np.sqrt(np.mean(seen**2))) if seen.size else 0.0
    if not math.isfinite(spread):
        raise DataError("the squares of 'y' are beyond the largest number there is; give the series in a larger unit")
    return spread if spread > 1e-12 * np.nanmax(np.abs(y)) else 1.0


def _times(data: xr.Dataset, ahead: int) -> np.ndarray:
    """The labels of the rows and, counted from the last of them, of the steps beyond."""
    labels = data["row"].to_numpy() if "row" in data.coords else np.arange(data.sizes["row"])
    if not ahead:
        return labels
    beyond = np.arange(1, ahead + 1)
    if labels.dtype.kind in "iuf" and np.ptp(np.diff(labels)) == 0:
        return np.append(labels, labels[-1] + beyond * (labels[-1] - labels[-2]))
    return np.array([*map(str, labels), *(f"{labels[-1]} + {k}" for k in beyond)])


def _level(start: tuple[float, float], trend: str, prior: dict[str, float], sd: dict[str, Any], steps: int) -> Any:
    """The level of each row, which rises by the slope of the row before."""
    slope: Any = 0.0
    if trend == "constant":
        slope = pm.Normal("slope", 0.0, prior["slope_scale"])
    elif trend == "walk":
        first = pm.Normal.dist(0.0, prior["slope_scale"])
        slopes = pm.GaussianRandomWalk("slope", sigma=sd["slope_step"], init_dist=first, dims="row", steps=steps - 1)
        slope = slopes[:-1]
    first = pm.Normal.dist(*start)
    return pm.GaussianRandomWalk("level", slope, sd["level_step"], init_dist=first, dims="row", steps=steps - 1)


def _season(period: int, prior: dict[str, float], sd: dict[str, Any], steps: int) -> Any:
    """The effect of the season on each row."""
    if period == 1:
        return 0.0
    covariance = prior["season_scale"] ** 2 * (period * np.eye(period) - 1.0)[:-1, :-1] / (period - 1)
    if (step := sd.get("season_step")) is not None:
        start = pm.MvNormal.dist(np.zeros(period - 1), covariance)
        rho = -np.ones(period - 1)
        return pm.AR("season", rho=rho, sigma=step, init_dist=start, dims="row", steps=steps - period + 1)
    pm.modelcontext(None).add_coords({"phase": np.arange(1, period + 1), "first_phase": np.arange(1, period)})
    first = pm.MvNormal("season_start", np.zeros(period - 1), covariance, dims="first_phase")
    effects = pm.Deterministic("season", pt.concatenate([first, [-pt.sum(first)]]), dims="phase")
    return effects[np.arange(steps) % period]


def _observe(y: np.ndarray, mean: Any, noise: Any) -> None:
    """The responses; those that are not there are predicted, as a variable of their own."""
    missing = np.isnan(y)
    if not missing.any():
        pm.Normal("y", mean, noise, observed=y, dims="row")
        return
    model = pm.modelcontext(None)
    times = np.asarray(model.coords["row"])
    for name, dim, at in (("y", "observed_row", ~missing), ("forecast", "missing_row", missing)):
        model.add_coord(dim, times[at])
        pm.Normal(name, mean[np.flatnonzero(at)], noise, observed=y[at] if name == "y" else None, dims=dim)
