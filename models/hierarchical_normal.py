r"""Effects measured in several groups or studies, each with its own known standard error: meta-analysis.

.. math::

   \mu \sim \mathrm{Normal}(m_0, s_0^2), \qquad \tau \sim p(\tau), \qquad
   \theta_j \mid \mu, \tau \sim \mathrm{Normal}(\mu, \tau^2), \qquad
   y_j \mid \theta_j \sim \mathrm{Normal}(\theta_j, \sigma_j^2)

Given :math:`\tau`, the effects and their mean are jointly Normal, with
:math:`y \mid \tau \sim \mathrm{Normal}(m_0 1, \mathrm{diag}(\sigma_j^2 + \tau^2) + s_0^2 1 1^\top)` as the marginal
likelihood; only :math:`\tau` remains, and is integrated by quadrature. The centred spelling and the non-centred one,
:math:`\theta_j = \mu + \tau z_j` with :math:`z_j \sim \mathrm{Normal}(0, 1)`, are the same model and have the same
evidence. This is the random-effects model of a meta-analysis, where :math:`y_j` is the estimate of a study, the
logarithm of a risk ratio say: under next to flat priors :math:`\tau` is most likely at its estimate by restricted
maximum likelihood, and :math:`\mu` given it is the mean of the estimates weighted by
:math:`1 / (\sigma_j^2 + \tau^2)`.

With ``effects="student_t"`` the :math:`\theta_j` have Student-t distributions of mean :math:`\mu` and scale
:math:`\tau`, with :math:`\nu` degrees of freedom: a study far from the others is then pulled less, and pulls the mean
less. They have no closed form; each is integrated by itself, numerically, given :math:`\mu` and :math:`\tau`. They take
``centred=False`` where :math:`\tau` may be near zero: the centred density has a funnel there, and goes to NUTS.

The example is the coaching for an examination in eight schools. Tables of one's own have a row for each study, with its
estimate and standard error; ``bcg_vaccine`` is such a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pymc as pm

from bayeskit.catalogue.builder import half_prior, model_builder, refuse_unused, row_coords
from bayeskit.datasets.schema import Example, Positive, Variable

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "y": Variable(doc="the estimated effect in each group or study"),
    "error": Variable(kind="positive", doc="the standard error of each estimate"),
}

EXAMPLE = Example("eight_schools", {"y": "effect", "error": "standard_error", "row": "school"}, {"centred": False})


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    mean: float = 0.0,
    mean_scale: Positive = 5.0,
    spread: Literal["half_cauchy", "half_normal", "exponential"] = "half_cauchy",
    spread_scale: Positive = 5.0,
    effects: Literal["normal", "student_t"] = "normal",
    freedom: Positive | None = None,
    centred: bool = True,
) -> pm.Model:
    """Build the hierarchical Normal model.

    Parameters
    ----------
    data : xarray.Dataset
        ``y`` and ``error`` with dims ``("row",)``.
    mean : float
        Prior mean m0 of the mean effect, in units of y.
    mean_scale : float
        Prior sd s0 of the mean effect, in units of y.
    spread : {"half_cauchy", "half_normal", "exponential"}
        The prior of the sd tau between groups.
    spread_scale : float
        Its scale, in units of y (of an exponential: its mean).
    effects : {"normal", "student_t"}
        The distribution of the effects about their mean.
    freedom : float or None
        Degrees of freedom of Student-t effects; 4 where not given.
    centred : bool
        Whether the effects are written as Normal(mu, tau), or Student-t, or as mu + tau z.

    Returns
    -------
    pymc.Model
        With the free variables ``mu``, ``tau`` and ``theta`` of dims ``("row",)`` (centred) or ``z`` (non-centred, with
        ``theta`` as a Deterministic).
    """
    heavy = effects == "student_t"
    refuse_unused("freedom", freedom, heavy, "effects=student_t")
    freedom = freedom or 4.0 if heavy else None
    y = data["y"].to_numpy()
    with pm.Model(coords={"row": np.arange(y.size), **row_coords(data)}) as model:
        mu = pm.Normal("mu", mean, mean_scale)
        tau = half_prior("tau", spread, spread_scale)
        if centred:
            theta = _effects("theta", mu, tau, freedom)
        else:
            theta = pm.Deterministic("theta", mu + tau * _effects("z", 0.0, 1.0, freedom), dims="row")
        error = pm.Data("error", data["error"].to_numpy(), dims="row")
        pm.Normal("y", theta, error, observed=y, dims="row")
    return model


def _effects(name: str, centre: Any, scale: Any, freedom: float | None) -> Any:
    """One number for each row, Normal or Student-t."""
    if freedom is None:
        return pm.Normal(name, centre, scale, dims="row")
    return pm.StudentT(name, nu=freedom, mu=centre, sigma=scale, dims="row")
