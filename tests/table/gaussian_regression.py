"""Linear-Gaussian graphs: regressions in every spelling, with a known noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from mpmath import mp, mpf
from oracles import (
    GaussianGraph,
    elementwise,
    regression_from_sums,
    sum_log,
)

from table.case import Case
from table.data import (
    COV3,
    GROUP,
    KINDS,
    MILLION,
    POSITIVE,
    REAL,
    ROWS,
    WIDE,
    X,
    million_line,
    million_line_sums,
)
from table.describe import graph_answer


def _regression() -> None:
    x = pm.Data("x", X, dims=("row", "feature"))
    intercept = pm.Normal("intercept", 1.0, 10.0)
    w = pm.Normal("w", 0, [1.0, 2.0, 3.0], dims="feature")
    pm.Normal("y", intercept + x @ w, 0.7, observed=REAL, dims="row")


def _regression_dot() -> None:
    w = pm.MvNormal("w", mu=np.array([1.0, 0.0, -1.0]), cov=COV3)
    pm.Normal("y", pt.dot(X, w), tau=2.0, observed=REAL)


def _regression_products() -> None:
    a = pm.Normal("a", 0, 1)
    b = pm.Normal("b", 0, 2)
    c = pm.Normal("c", 0.1, 0.5, shape=2)
    mean = a * X[:, 0] + X[:, 1] * b - (c * X[:, 1:]).sum(axis=1) / 3
    pm.Normal("y", mean, np.linspace(0.5, 1.5, 12), observed=REAL)


def _regression_products_oracle(g: GaussianGraph) -> None:
    a, b = g.normal("a", 0, 1), g.normal("b", 0, 2)
    c = g.normal("c", 0.1, 0.5, (2,))
    third = 1 / mpf(3)
    mean = a * X[:, 0] + b * X[:, 1] - (c[0] * X[:, 1] + c[1] * X[:, 2]) * third
    g.observe(mean, np.linspace(0.5, 1.5, 12), REAL)


def _crossed_effects() -> None:
    plant = pm.Normal("plant", 0, 1, shape=3)
    lot = pm.Normal("lot", 0, 1, shape=3)
    cell = pm.Normal("cell", 0, 0.5, shape=(3, 3))
    pm.Normal("y", plant[GROUP] + lot[KINDS] + cell[GROUP, KINDS], 0.6, observed=REAL)


def _crossed_effects_oracle(g: GaussianGraph) -> None:
    plant, lot = g.normal("plant", 0, 1, (3,)), g.normal("lot", 0, 1, (3,))
    cell = g.normal("cell", 0, 0.5, (3, 3))
    g.observe(plant[GROUP] + lot[KINDS] + cell[GROUP, KINDS], 0.6, REAL)


def _matrix_weights() -> None:
    w = pm.Normal("w", 0.0, 2.0, dims=("feature", "output"))
    pm.Normal("y", pm.math.dot(X[:9], w), [0.5, 0.8], observed=ROWS, dims=("row", "output"))


def _matrix_weights_oracle(g: GaussianGraph) -> None:
    w = g.normal("w", 0, 2, (3, 2))
    g.observe(X[:9] @ w, np.array([0.5, 0.8]), ROWS)


def _wide(sd: float) -> Callable[[], Any]:
    def body() -> None:
        w = pm.Normal("w", 0, sd, dims="feature")
        pm.Normal("y", pm.Data("x", WIDE) @ w, 0.5, observed=REAL[:6])

    return body


def _million_rows() -> None:
    x, y = million_line()
    w = pm.Normal("w", 0, 10, shape=2)
    pm.Normal("y", w[0] + w[1] * x, 1.3, observed=y)


def _collinear() -> None:
    w = pm.Normal("w", 0, 2, shape=3)
    pm.Normal("y", _collinear_design() @ w, 0.5, observed=REAL)


def _collinear_design() -> np.ndarray:
    return np.column_stack([np.ones(12), X[:, 0], 2 * X[:, 0]])


GAUSSIAN_REGRESSION = (
    Case(
        "normal",
        "regression X @ w with intercept, pm.Data, dims",
        _regression,
        lambda: graph_answer(
            lambda g: g.observe(
                g.normal("intercept", 1, 10) + X @ g.normal("w", 0, np.array([1.0, 2.0, 3.0]), (3,)), 0.7, REAL
            )
        ),
        {"row": range(12), "feature": ["a", "b", "c"]},
    ),
    Case(
        "normal",
        "regression, pt.dot, MvNormal prior",
        _regression_dot,
        lambda: graph_answer(
            lambda g: g.observe(X @ g.mvnormal("w", np.array([1.0, 0.0, -1.0]), COV3), 1 / mp.sqrt(mpf(2)), REAL)
        ),
    ),
    Case(
        "normal", "regression, sum of products", _regression_products, lambda: graph_answer(_regression_products_oracle)
    ),
    Case(
        "normal",
        "regression, crossed effects and interaction",
        _crossed_effects,
        lambda: graph_answer(_crossed_effects_oracle),
    ),
    Case(
        "normal",
        "regression, matrix of weights, dims",
        _matrix_weights,
        lambda: graph_answer(_matrix_weights_oracle),
        {"feature": ["a", "b", "c"], "output": ["u", "v"], "row": range(9)},
    ),
    Case(
        "normal",
        "regression, more weights than rows",
        _wide(2.0),
        lambda: graph_answer(lambda g: g.observe(WIDE @ g.normal("w", 0, 2, (20,)), 0.5, REAL[:6])),
        {"feature": range(20)},
    ),
    Case(
        "normal",
        "regression, collinear columns",
        _collinear,
        lambda: graph_answer(lambda g: g.observe(_collinear_design() @ g.normal("w", 0, 2, (3,)), 0.5, REAL)),
    ),
    Case(
        "normal",
        "regression, a million rows",
        _million_rows,
        lambda: regression_from_sums("w", *million_line_sums(), MILLION, 10.0, 1.3),
    ),
    Case(
        "lognormal",
        "regression",
        lambda: pm.LogNormal("y", X @ pm.Normal("w", 0, 1, shape=3), 0.7, observed=POSITIVE),
        lambda: graph_answer(
            lambda g: g.observe(X @ g.normal("w", 0, 1, (3,)), 0.7, elementwise(mp.log, POSITIVE))
        ).shift(-sum_log(POSITIVE)),
    ),
)
