"""Linear-Gaussian graphs: missing observations that PyMC imputes."""

from __future__ import annotations

import numpy as np
import pymc as pm
from oracles import (
    GaussianGraph,
)

from table.case import Case
from table.data import (
    GAPS,
    ROWS,
    X,
)
from table.describe import graph_answer


def _missing_regression() -> None:
    b = pm.Normal("b", 0, 2)
    pm.Normal("y", 1.0 + b * X[:, 0], 0.5, observed=GAPS)


def _missing_oracle(g: GaussianGraph) -> None:
    b = g.normal("b", 0, 2)
    mean = b * X[:, 0] + 1.0
    absent = np.isnan(GAPS)
    g.normal("y_unobserved", mean[np.nonzero(absent)], 0.5, (int(absent.sum()),))
    g.observe(mean, 0.5, GAPS)


def _missing_matrix() -> None:
    mu = pm.Normal("mu", 0, 2, shape=2)
    pm.Normal("y", mu, [0.5, 1.5], observed=_gappy_rows())


def _gappy_rows() -> np.ndarray:
    rows = ROWS.copy()
    rows[[0, 3, 5], [1, 0, 1]] = np.nan
    return rows


def _missing_matrix_oracle(g: GaussianGraph) -> None:
    rows = _gappy_rows()
    mu = g.normal("mu", 0, 2, (2,))
    row, column = np.nonzero(np.isnan(rows))
    g.normal("y_unobserved", mu[column], np.array([0.5, 1.5])[column], (len(row),))
    g.observe(mu, np.array([0.5, 1.5]), rows)


GAUSSIAN_MISSING = (
    Case("normal", "missing values in a regression", _missing_regression, lambda: graph_answer(_missing_oracle)),
    Case("normal", "missing values in a matrix", _missing_matrix, lambda: graph_answer(_missing_matrix_oracle)),
)
