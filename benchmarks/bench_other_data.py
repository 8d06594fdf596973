"""The same model on other data of the same shapes, without draws: what one more answer costs.

Processor time, which another process on the machine does not change much; the median of several.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pymc as pm
from bars import Row, show

from bayeskit.elimination.plan import analyse
from bayeskit.graphs.environment import lightly
from bayeskit.inference.ladder import answer

REPEATS = 15
COVARIATE = np.linspace(0.0, 1.0, 17)
STANDARD_ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])

Sampler = Callable[[np.random.Generator], np.ndarray]


def beta_binomial(y: np.ndarray) -> pm.Model:
    with pm.Model() as model:
        theta = pm.Beta("theta", 2.0, 3.0)
        pm.Binomial("y", 10, theta, observed=y)
    return model


def regression(y: np.ndarray) -> pm.Model:
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 3.0, 2.0)
        w = pm.Normal("w", 0.0, 3.0 * pm.math.sqrt(variance), shape=2)
        pm.Normal("y", w[0] + w[1] * pm.Data("x", COVARIATE), pm.math.sqrt(variance), observed=y)
    return model


def eight_schools(y: np.ndarray) -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 5.0)
        tau = pm.HalfCauchy("tau", 5.0)
        theta = pm.Normal("theta", mu, tau, shape=8)
        pm.Normal("y", theta, STANDARD_ERRORS, observed=y)
    return model


CASES: tuple[tuple[str, Callable[[np.ndarray], pm.Model], Sampler, float], ...] = (
    ("Beta–Binomial", beta_binomial, lambda rng: np.asarray(rng.integers(1, 10)), 5.0),
    ("regression of 17 rows", regression, lambda rng: rng.normal(size=17), 10.0),
    ("eight schools, quadrature", eight_schools, lambda rng: rng.normal(0.0, 12.0, size=8), 60.0),
)


def milliseconds(build: Callable[[np.ndarray], pm.Model], data: Sampler) -> tuple[float, float]:
    """The first answer, with everything that is found and compiled, and the median of those on other data."""
    rng = np.random.default_rng(1)
    started = time.process_time()
    model = build(data(rng))
    with lightly():
        analysis = analyse(model)
    answer(analysis, random_seed=1)
    first = time.process_time() - started
    answer(analysis.with_data({"y": data(rng)}), random_seed=1)
    taken = []
    for _ in range(REPEATS):
        y = data(rng)
        started = time.process_time()
        answer(analysis.with_data({"y": y}), random_seed=1)
        taken.append(time.process_time() - started)
    return 1e3 * first, 1e3 * float(np.median(taken))


def run() -> list[Row]:
    rows = []
    for name, build, data, bar in CASES:
        first, again = milliseconds(build, data)
        values = {"first": f"{first:.0f} ms", "other data": f"{again:.1f} ms"}
        rows.append(Row(name, values, f"{bar:.0f} ms", again <= bar))
    return rows


if __name__ == "__main__":
    show("Other data of the same shapes, without draws", run())
