"""The table of models whose exact answer is known.

Each row is a PyMC model as a user may write it and an independent closed form from :mod:`oracles`. Every row is crossed
with every property in ``test_exact.py``; a new row is tested everywhere. Within a family the rows differ in spelling:
sd, variance or precision, rate or scale, through a Deterministic, ``pm.Data``, an index, dims, a Potential.

The body of a row is called inside the context of a fresh ``pm.Model``.
"""

from __future__ import annotations

from table.beta import BETA
from table.blocks import BLOCKS
from table.case import Case
from table.dirichlet import DIRICHLET
from table.finite import FINITE
from table.gamma import GAMMA
from table.gaussian_means import GAUSSIAN_MEANS
from table.gaussian_missing import GAUSSIAN_MISSING
from table.gaussian_multivariate import GAUSSIAN_MULTIVARIATE
from table.gaussian_regression import GAUSSIAN_REGRESSION
from table.gaussian_series import GAUSSIAN_SERIES
from table.inverse_gamma import INVERSE_GAMMA
from table.normal_inverse_gamma import NORMAL_INVERSE_GAMMA
from table.von_mises import VON_MISES
from table.wishart import WISHART

__all__ = ["CASES", "Case"]

CASES: tuple[Case, ...] = (
    *BETA,
    *GAMMA,
    *INVERSE_GAMMA,
    *DIRICHLET,
    *GAUSSIAN_MEANS,
    *GAUSSIAN_REGRESSION,
    *GAUSSIAN_MULTIVARIATE,
    *GAUSSIAN_SERIES,
    *GAUSSIAN_MISSING,
    *BLOCKS,
    *NORMAL_INVERSE_GAMMA,
    *WISHART,
    *VON_MISES,
    *FINITE,
)
