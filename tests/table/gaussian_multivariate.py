"""Linear-Gaussian graphs: multivariate Normal data and priors with known covariances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
from oracles import (
    Answer,
    GaussianGraph,
)

from table.case import Case
from table.data import (
    COV2,
    COV3,
    REAL,
    ROWS,
    X,
)
from table.describe import graph_answer


def _mv_data(**noise: Any) -> Callable[[], Any]:
    def body() -> None:
        mu = pm.Normal("mu", [0.5, 0.0], 3.0, shape=2)
        pm.MvNormal("y", mu, observed=ROWS, **noise)

    return body


def _mv_data_oracle(g: GaussianGraph) -> None:
    g.observe_mv(g.normal("mu", np.array([0.5, 0.0]), 3, (2,)), COV2, ROWS)


def _mv_prior(**prior: Any) -> Callable[[], Any]:
    def body() -> None:
        w = pm.MvNormal("w", np.zeros(3), **prior)
        pm.Normal("y", X @ w, 0.7, observed=REAL)

    return body


def _mv_prior_oracle(g: GaussianGraph) -> None:
    g.observe(X @ g.mvnormal("w", 0, COV3), 0.7, REAL)


def _mvn_hierarchy() -> None:
    centre = pm.MvNormal("centre", np.zeros(2), chol=np.array([[2.0, 0.0], [0.5, 1.0]]))
    each = pm.MvNormal("each", centre, cov=COV2, shape=(3, 2))
    pm.MvNormal("y", each[np.arange(9) % 3], cov=0.25 * np.eye(2), observed=ROWS)


def _mvn_hierarchy_oracle(g: GaussianGraph) -> None:
    root = np.array([[2.0, 0.0], [0.5, 1.0]])
    centre = g.mvnormal("centre", 0, root @ root.T)
    each = [g.mvnormal(f"each{i}", centre, COV2) for i in range(3)]
    for i in range(9):
        g.observe_mv(each[i % 3], 0.25 * np.eye(2), ROWS[i])


def _mvn_hierarchy_answer() -> Answer:
    answer = graph_answer(_mvn_hierarchy_oracle)
    parts = [answer.moments[f"each{i}"] for i in range(3)]
    rows = (np.stack([p[0] for p in parts]), np.stack([p[1] for p in parts]))
    return Answer(answer.log_evidence, {"centre": answer.moments["centre"], "each": rows})


GAUSSIAN_MULTIVARIATE = (
    Case("mvnormal", "data, cov", _mv_data(cov=COV2), lambda: graph_answer(_mv_data_oracle)),
    Case("mvnormal", "data, chol", _mv_data(chol=np.linalg.cholesky(COV2)), lambda: graph_answer(_mv_data_oracle)),
    Case("mvnormal", "data, tau", _mv_data(tau=np.linalg.inv(COV2)), lambda: graph_answer(_mv_data_oracle)),
    Case("mvnormal", "prior, cov", _mv_prior(cov=COV3), lambda: graph_answer(_mv_prior_oracle)),
    Case("mvnormal", "prior, chol", _mv_prior(chol=np.linalg.cholesky(COV3)), lambda: graph_answer(_mv_prior_oracle)),
    Case("mvnormal", "prior, tau", _mv_prior(tau=np.linalg.inv(COV3)), lambda: graph_answer(_mv_prior_oracle)),
    Case("mvnormal", "hierarchy of vectors", _mvn_hierarchy, _mvn_hierarchy_answer),
)
