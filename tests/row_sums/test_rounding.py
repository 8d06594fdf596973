"""What sums of rows are rounded by, against forty digits: an evidence is off by no more than it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pymc as pm
import pytest
from mpmath import mp

import bayeskit as bk

RNG = np.random.default_rng(4)


def in_parts(build: Callable[[Any], pm.Model], rows: dict[str, np.ndarray]) -> bk.LogEvidence:
    n = len(rows["y"])
    stream = bk.Stream(build)
    for part in np.array_split(np.arange(n), 3):
        stream.update({name: values[part] for name, values in rows.items()})
    return stream.log_evidence


def exact(values: np.ndarray) -> list[Any]:
    return [mp.mpf(v) for v in np.ravel(values).tolist()]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [50, 3_000])
@pytest.mark.parametrize(("centre", "sd"), [(273.15, 0.01), (1e5, 0.01), (1e5, 1.0), (0.0, 1.0)])
def test_a_mean_that_is_large_beside_the_spread(centre: float, sd: float, rows: int) -> None:
    def build(data: dict[str, np.ndarray]) -> pm.Model:
        with pm.Model() as model:
            pm.Normal("y", pm.Normal("mu", centre + sd, 10.0 * sd), sd, observed=data["y"])
        return model

    y = centre + sd * RNG.normal(size=rows)
    found = in_parts(build, {"y": y})
    with mp.workdps(40):
        apart = [v - mp.mpf(centre + sd) for v in exact(y)]
        noise, prior = mp.mpf(sd) ** 2, mp.mpf(10.0 * sd) ** 2
        precision = 1 / prior + rows / noise
        squares = mp.fsum(v * v for v in apart) / noise - (mp.fsum(apart) / noise) ** 2 / precision
        expected = -rows * mp.log(2 * mp.pi * noise) / 2 - mp.log(prior * precision) / 2 - squares / 2
        assert abs(mp.mpf(found.value) - expected) < found.error
    assert found.error < 1e-7 * max(1.0, centre * 1e-4 / sd)


@pytest.mark.slow
def test_a_regression_that_explains_most_of_its_rows() -> None:
    rows = 20_000
    x = np.column_stack([np.ones(rows), RNG.normal(size=(rows, 2))])
    y = x @ [1.0, 20.0, 30.0] + RNG.normal(size=rows)

    def build(data: dict[str, np.ndarray]) -> pm.Model:
        with pm.Model() as model:
            variance = pm.InverseGamma("variance", 3.0, 2.0)
            weights = pm.Normal("weights", 0.0, 20.0 * pm.math.sqrt(variance), shape=3)
            pm.Normal("y", pm.math.dot(data["x"], weights), pm.math.sqrt(variance), observed=data["y"])
        return model

    found = in_parts(build, {"x": x, "y": y})
    with mp.workdps(40):
        columns = [exact(column) for column in (*x.T, y)]
        products = mpmath.matrix([[mp.fdot(a, b) for a in columns] for b in columns])
        precision, linear = products[:3, :3] + mpmath.eye(3) / 400, products[:3, 3]
        shape, square = 3 + mp.mpf(rows) / 2, products[3, 3] - (linear.T * mp.lu_solve(precision, linear))[0]
        expected = -rows * mp.log(2 * mp.pi) / 2 - mp.log(mp.det(precision) * 400**3) / 2
        expected += 3 * mp.log(2) - mp.loggamma(3) + mp.loggamma(shape) - shape * mp.log(2 + square / 2)
        assert abs(mp.mpf(found.value) - expected) < found.error
    assert found.error < 1e-6


def test_multivariate_rows() -> None:
    y = 1e4 + RNG.normal(size=(500, 2)) @ [[1.0, 0.9], [0.0, 0.1]]
    covariance = np.array([[1.0, 0.9], [0.9, 0.9]])

    def build(data: dict[str, np.ndarray]) -> pm.Model:
        with pm.Model() as model:
            pm.MvNormal("y", pm.Normal("mu", 1e4, 5.0, shape=2), covariance, observed=data["y"])
        return model

    found = in_parts(build, {"y": y})
    with mp.workdps(40):
        noise, prior = mpmath.matrix(covariance.tolist()), 25 * mpmath.eye(2)
        apart = [mpmath.matrix([a - 10**4, b - 10**4]) for a, b in zip(exact(y[:, 0]), exact(y[:, 1]), strict=True)]
        inverse = noise**-1
        total = sum(apart[1:], apart[0])
        precision, linear = prior**-1 + len(y) * inverse, inverse * total
        squares = mp.fsum((v.T * inverse * v)[0] for v in apart) - (linear.T * mp.lu_solve(precision, linear))[0]
        expected = -len(y) * mp.log(4 * mp.pi**2 * mp.det(noise)) / 2 - squares / 2
        expected -= mp.log(mp.det(prior) * mp.det(precision)) / 2
        assert abs(mp.mpf(found.value) - expected) < found.error
    assert found.error < 1e-7


def test_what_was_combined_keeps_its_rounding() -> None:
    def build(y: np.ndarray) -> pm.Model:
        with pm.Model() as model:
            pm.Normal("y", pm.Normal("mu", 1e5, 1.0), 0.01, observed=y)
        return model

    parts = np.array_split(1e5 + 0.01 * RNG.normal(size=3_000), 2)
    apart = [bk.infer(build, chunks=[part]) for part in parts]
    both = bk.combine(apart)
    assert both.log_evidence.error > 0.5 * max(post.log_evidence.error for post in apart)
    assert both.log_evidence.value == pytest.approx(
        bk.infer(build, chunks=parts).log_evidence.value, abs=both.log_evidence.error
    )
