r"""Item response: persons of different ability answer items of different difficulty, right or wrong.

.. math::

   y_{ij} \mid \theta, d, a \sim \mathrm{Bernoulli}(p_{ij}), \qquad
   \log \frac{p_{ij}}{1 - p_{ij}} = a_j (\theta_i - d_j)

for person :math:`i` and item :math:`j`, with :math:`d_j \sim \mathrm{Normal}(0, s_d^2)`. In the Rasch model every
:math:`a_j` is 1, and :math:`\theta_i \sim \mathrm{Normal}(0, \sigma^2)` with a half-Normal, half-Cauchy or exponential
prior of the sd :math:`\sigma` of the abilities. With ``discrimination`` (the two-parameter logistic model) the
:math:`\theta_i` are standard Normal and :math:`\log a_j \sim \mathrm{Normal}(0, s_a^2)`: an item of large :math:`a_j`
tells persons apart well. Abilities are counted from the mean of the persons, difficulties from there too.

Given the items each ability is an integral over one number,

.. math::

   p(y \mid d, a, \sigma) = \prod_i \int \mathrm{Normal}(\theta \mid 0, \sigma^2)
   \prod_j \mathrm{Bernoulli}(y_{ij} \mid p_{ij})\, d\theta,

the marginal likelihood of Bock and Lieberman (1970); persons with the same answers share one. The evidence integrates
it over the items and :math:`\sigma`, by importance sampling where they are more than four numbers.

Answers may be missing: of a person who was not asked an item nothing is said. Where whether an answer is missing
depends on what it would have been (items at the end that only the slow did not reach), this is not right.

The free variables are ``difficulty`` of dims ``("item",)``, ``ability`` of dims ``("row",)``, and ``spread``
(:math:`\sigma`) or ``discrimination`` of dims ``("item",)``.

The example are the answers of 1,000 persons to five items of the Law School Admission Test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pymc as pm

from bayeskit.catalogue.builder import column_coords, half_prior, model_builder, refuse_unused, row_coords
from bayeskit.datasets.schema import Example, Positive, Variable

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "answers": Variable(
        ("row", "item"),
        kind="binary",
        min_columns=2,
        missing=True,
        doc="1 for a right answer, 0 for a wrong one; a row a person, a column an item; entries may be missing",
    )
}

EXAMPLE = Example("law_school", {"answers": ("first", "second", "third", "fourth", "fifth")})


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    discrimination: bool = False,
    difficulty_scale: Positive = 2.5,
    spread: Literal["half_cauchy", "half_normal", "exponential"] | None = None,
    spread_scale: Positive | None = None,
    discrimination_scale: Positive | None = None,
) -> pm.Model:
    """Build the item response model of ``answers``.

    Parameters
    ----------
    data : xarray.Dataset
        ``answers`` with dims ``("row", "item")``; missing entries are NaN.
    discrimination : bool
        Whether items differ in how well they tell persons apart (the two-parameter logistic model).
    difficulty_scale : float
        Prior sd of each difficulty, in log odds.
    spread : {"half_cauchy", "half_normal", "exponential"}, optional
        The prior of the sd of the abilities, half-Normal where not given; not with ``discrimination``.
    spread_scale : float, optional
        Its scale (of an exponential: its mean), in log odds; 2 where not given.
    discrimination_scale : float, optional
        Prior sd of the logarithm of each discrimination; 0.5 where not given.
    """
    refuse_unused("spread", spread, not discrimination, "discrimination=false")
    refuse_unused("spread_scale", spread_scale, not discrimination, "discrimination=false")
    refuse_unused("discrimination_scale", discrimination_scale, discrimination, "discrimination=true")
    answers = data["answers"].to_numpy()
    missing = np.isnan(answers)
    items = column_coords(data, "answers")
    with pm.Model(coords={"row": np.arange(len(answers)), **items, **row_coords(data)}) as model:
        difficulty = pm.Normal("difficulty", 0.0, difficulty_scale, dims="item")
        if discrimination:
            slope = pm.LogNormal("discrimination", 0.0, discrimination_scale or 0.5, dims="item")
            ability = pm.Normal("ability", 0.0, 1.0, dims="row")
        else:
            slope = np.ones(answers.shape[1])
            sd = half_prior("spread", spread or "half_normal", spread_scale or 2.0)
            ability = pm.Normal("ability", 0.0, sd, dims="row")
        if not missing.any():
            logit = ability[:, None] - difficulty
            logit = slope * logit if discrimination else logit
            pm.Bernoulli("answers", logit_p=logit, observed=answers.astype(int), dims=("row", "item"))
            return model
        row, item = np.nonzero(~missing)
        labels = np.asarray(model.coords["row"]), np.asarray(model.coords["item"])
        asked = [f"{labels[0][i]}, {labels[1][j]}" for i, j in zip(row, item, strict=True)]
        model.add_coord("observed_entry", asked)
        logit = ability[row] - difficulty[item]
        logit = slope[item] * logit if discrimination else logit
        pm.Bernoulli("answers", logit_p=logit, observed=answers[row, item].astype(int), dims="observed_entry")
    return model
