"""Densities of rows as sums of (column) × (function of the parameters), against their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
from hypothesis import HealthCheck, given, reject, settings
from random_graphs import evaluate, graphs, leaf

from bayeskit.graphs.rewriting import depends_on
from bayeskit.point_estimates.column_forms import Columns, NotReduced
from bayeskit.point_estimates.sufficient_statistics import form_of

RNG = np.random.default_rng(9)
PHI, WEIGHTS = pt.tensor("phi", dtype="float64", shape=(3,)), leaf("weights")
PARAMETER = pt.alloc(PHI, 3, 3)
DATA = RNG.normal(size=(3, 3))
VALUES = {PHI: RNG.uniform(0.5, 1.5, size=3), WEIGHTS: RNG.uniform(size=(3, 3))}

REDUCED: dict[str, Any] = {
    "residual": (pt.constant(DATA) - PARAMETER) ** 2 / PARAMETER,
    "quadratic form": pt.sum(
        pt.sqr(pt.linalg.solve_triangular(pt.eye(3) * PHI, (DATA - PARAMETER).T, lower=True)), axis=0
    ),
    "weighted": WEIGHTS * pt.log(PARAMETER) + pt.constant(DATA) * PHI,
    "product": pt.dot(pt.constant(DATA), pt.outer(PHI, PHI)),
    "cumulative sum of columns": pt.cumsum(DATA * PHI, axis=1),
    "columns joined": pt.concatenate([(DATA * PHI)[:, :1], WEIGHTS[:, 1:]], axis=1),
    "added to a column": pt.inc_subtensor((DATA * PHI)[:, 1:], PARAMETER[:, :1] * WEIGHTS[:, 1:]),
    "column picked": (DATA * PHI)[:, 1],
    "no logarithm of zero, in some rows": pt.switch(
        pt.and_(pt.eq(pt.log(PARAMETER), -np.inf), DATA > 0), -np.inf, DATA * pt.log(PARAMETER)
    ),
    "chosen by the data": pt.switch(pt.constant(DATA > 0), PARAMETER, pt.sqr(PARAMETER)),
}
REFUSED: dict[str, Any] = {
    "three columns multiplied": (pt.constant(DATA) - PARAMETER) ** 3,
    "a function of both": pt.exp(DATA * PHI),
    "divided by a column": PARAMETER / (pt.constant(DATA) + PARAMETER),
    "cumulative sum of rows": pt.cumsum(DATA * PHI, axis=0),
    "rows reversed": (DATA * PHI)[::-1],
    "added to a row": pt.inc_subtensor((DATA * PHI)[1], PHI),
    "rows joined": pt.concatenate([(DATA * PHI)[:1], (DATA * PHI)[1:]]),
    "chosen by either": pt.switch(pt.or_(pt.eq(PARAMETER, 0.0), DATA > 0), 1.0, PARAMETER),
    "chosen by both": pt.switch(DATA * PHI > 0, PARAMETER, 1.0),
}
ENTRYWISE = "add subtract negate shift multiply scale square fill exponential reciprocal check allocate"
KEEPING = (
    *ENTRYWISE.split(),
    "sum of columns",
    "cumulative sum",
    "add to a column",
    "set columns",
    "pick columns",
    "join columns",
    "choose by a constant",
    "product with a constant",
)


def reduced(graph: Any) -> tuple[np.ndarray, np.ndarray]:
    """The sum of columns times functions, and the values, with the rows first."""
    columns = Columns(3, depends_on([graph], [PHI]), (WEIGHTS,))
    form = form_of(graph, 0, columns)
    centre = RNG.normal(size=len(columns.data))
    b = evaluate(form.b, {**VALUES, columns.centre: centre})[form.b]
    total: Any = 0.0
    for (weights, data), function in zip(form.keys, b, strict=True):
        column = np.ones(3)
        for array, axis, place in (columns.weights[w] for w in weights):
            assert array == 0
            column = column * np.moveaxis(VALUES[WEIGHTS], axis, 0)[:, place]
        for d in data:
            column = column * (columns.data[d] - centre[d])
        total = total + column.reshape(-1, *[1] * np.ndim(function)) * function
    expected = evaluate(graph, VALUES)[graph]
    return np.broadcast_to(total, expected.shape), expected


@pytest.mark.parametrize("name", REDUCED)
def test_a_density_of_rows_is_reduced(name: str) -> None:
    np.testing.assert_allclose(*reduced(REDUCED[name]), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", REFUSED)
def test_what_mixes_rows_or_bends_columns_is_refused(name: str) -> None:
    with pytest.raises(NotReduced):
        reduced(REFUSED[name])


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(graph=graphs([PARAMETER, WEIGHTS], length=4, names=KEEPING))
def test_a_form_has_the_values_of_the_graph(graph: Any) -> None:
    try:
        found, expected = reduced(graph)
    except NotReduced:
        reject()
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
