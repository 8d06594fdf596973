"""Dirichlet priors: Categorical and Multinomial."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
from oracles import (
    dirichlet,
    log_factorial,
)

from table.case import Case
from table.data import (
    GROUP,
    GROUPS,
    KINDS,
    MULTI,
)


def _log_multinomial(counts: np.ndarray) -> Any:
    return log_factorial(counts.sum(axis=-1)) - log_factorial(counts)


def _dirichlet_rows_by_index() -> None:
    theta = pm.Dirichlet("theta", a=np.array([1.0, 2.0, 0.5]), dims=("group", "kind"))
    pm.Categorical("y", p=theta[GROUP], observed=KINDS)


def _dirichlet_chain() -> None:
    transition = pm.Dirichlet("transition", a=np.ones((3, 3)) + np.eye(3), shape=(3, 3))
    before = pm.Data("before", KINDS[:-1])
    pm.Categorical("y", p=transition[before], observed=KINDS[1:])


def _dirichlet_two_likelihoods() -> None:
    theta = pm.Dirichlet("theta", a=np.array([1.0, 2.0, 3.0]))
    share = pm.Deterministic("share", theta * 1.0)
    pm.Categorical("y", p=share, observed=KINDS)
    pm.Multinomial("z", n=MULTI.sum(axis=1), p=share, observed=MULTI)


def _transition_counts() -> np.ndarray:
    counts = np.zeros((3, 3), dtype=int)
    np.add.at(counts, (KINDS[:-1], KINDS[1:]), 1)
    return counts


def _group_kind_counts() -> np.ndarray:
    counts = np.zeros((3, 3), dtype=int)
    np.add.at(counts, (GROUP, KINDS), 1)
    return counts


DIRICHLET = (
    Case(
        "dirichlet",
        "Categorical",
        lambda: pm.Categorical("y", p=pm.Dirichlet("theta", a=np.array([1.0, 2.0, 3.0])), observed=KINDS),
        lambda: dirichlet("theta", [1, 2, 3], np.bincount(KINDS)),
    ),
    Case(
        "dirichlet",
        "Multinomial",
        lambda: pm.Multinomial("y", n=10, p=pm.Dirichlet("theta", a=np.full(3, 0.5)), observed=np.array([3, 1, 6])),
        lambda: dirichlet("theta", [0.5] * 3, [3, 1, 6], _log_multinomial(np.array([3, 1, 6]))),
    ),
    Case(
        "dirichlet",
        "Multinomial rows, one simplex",
        lambda: pm.Multinomial("y", n=MULTI.sum(axis=1), p=pm.Dirichlet("theta", a=np.full(3, 0.5)), observed=MULTI),
        lambda: dirichlet("theta", [0.5] * 3, MULTI.sum(axis=0), _log_multinomial(MULTI)),
    ),
    Case(
        "dirichlet",
        "rows of Dirichlets, Multinomial, dims",
        lambda: pm.Multinomial(
            "y",
            n=MULTI.sum(axis=1),
            p=pm.Dirichlet("theta", a=np.array([1.0, 2.0, 0.5]), dims=("group", "kind")),
            observed=MULTI,
            dims=("group", "kind"),
        ),
        lambda: dirichlet("theta", [[1, 2, 0.5]] * 3, MULTI, _log_multinomial(MULTI)),
        {"group": GROUPS, "kind": ["a", "b", "c"]},
    ),
    Case(
        "dirichlet",
        "rows of Dirichlets by index, Categorical, dims",
        _dirichlet_rows_by_index,
        lambda: dirichlet("theta", [[1, 2, 0.5]] * 3, _group_kind_counts()),
        {"group": GROUPS, "kind": ["a", "b", "c"]},
    ),
    Case(
        "dirichlet",
        "transition matrix of an observed chain, pm.Data",
        _dirichlet_chain,
        lambda: dirichlet("transition", np.ones((3, 3)) + np.eye(3), _transition_counts()),
    ),
    Case(
        "dirichlet",
        "Categorical and Multinomial share the simplex",
        _dirichlet_two_likelihoods,
        lambda: dirichlet("theta", [1, 2, 3], np.bincount(KINDS) + MULTI.sum(axis=0), _log_multinomial(MULTI)),
    ),
    Case(
        "dirichlet",
        "Multinomial, counts of a million",
        lambda: pm.Multinomial(
            "y",
            n=1_500_003,
            p=pm.Dirichlet("theta", a=np.array([1.0, 2.0, 3.0])),
            observed=np.array([1_000_000, 500_000, 3]),
        ),
        lambda: dirichlet(
            "theta", [1, 2, 3], [1_000_000, 500_000, 3], _log_multinomial(np.array([1_000_000, 500_000, 3]))
        ),
    ),
)
