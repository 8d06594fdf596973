"""Estimators of a log evidence side by side: the error that each has for its time, on models whose evidence is known.

Run as ``python benchmarks/bench_estimators.py``; some minutes. Each estimator is asked with as many points as take it
about ``SECONDS``, over ``REPEATS`` seeds; the column is the root mean square difference from the evidence of the closed
form or of quadrature, in nats, and beside it that of bridge sampling divided by it: above one it is better. Nested
sampling takes longer than that with the fewest live points; it is asked once, and its seconds are printed.
``--calibrate`` prints mean and variance of z-scores over 200 seeds.

The draws are those of the closed form or of quadrature, independent and free; NUTS would take seconds for them.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pymc as pm
from bars import Row, show

import bayeskit as bk
from bayeskit.comparison.agreement import Estimate
from bayeskit.comparison.second_opinion import _Asked
from bayeskit.graphs.environment import lightly, on_one_thread
from bayeskit.marginal_likelihood.estimators import ESTIMATORS, Target

SECONDS, REPEATS = 0.5, 6
POOL = 4_000  # draws for one repeat, at most
NAMES = ("bridge", "importance", "smc", "nested")
LEAST = {"bridge": 200, "importance": 500, "smc": 1_000, "nested": 400}  # points
Y = np.random.default_rng(1).normal(1.0, 2.0, 20)


def coin() -> None:
    pm.Binomial("y", 50, pm.Beta("p", 2.0, 2.0), observed=31)


def mean_and_variance() -> None:
    variance = pm.InverseGamma("variance", 3.0, 4.0)
    pm.Normal("y", pm.Normal("mean", 0.0, pm.math.sqrt(variance)), pm.math.sqrt(variance), observed=Y)


def rates() -> None:
    pm.Poisson("y", pm.Gamma("rate", 2.0, 1.0, shape=6), observed=[3, 0, 1, 7, 2, 4])


def regression() -> None:
    x = np.random.default_rng(2).normal(size=(30, 5))
    w = pm.Normal("w", 0.0, 2.0, shape=5)
    pm.Normal("y", x @ w, 1.0, observed=x @ np.arange(5.0) + np.random.default_rng(3).normal(size=30))


def ten_means() -> None:
    mean = pm.Normal("mean", 0.0, 3.0, shape=10)
    pm.Normal("y", mean, 1.0, observed=np.random.default_rng(4).normal(size=(4, 10)))


def logistic() -> None:
    x = np.random.default_rng(5).normal(size=(40, 3))
    w = pm.Normal("w", 0.0, 2.0, shape=3)
    pm.Bernoulli(
        "y", logit_p=x @ w, observed=(x @ [1.0, -1.0, 0.5] + np.random.default_rng(6).logistic(size=40) > 0) * 1
    )


def hierarchy() -> None:
    tau, sd = pm.HalfCauchy("tau", 1.0), pm.HalfNormal("sd", 2.0)
    effect = pm.Normal("effect", pm.Normal("mean", 0.0, 5.0), tau, shape=6)
    group = np.arange(60) % 6
    rng = np.random.default_rng(7)
    pm.Normal("y", effect[group], sd, observed=rng.normal(size=6)[group] + rng.normal(size=60))


def two_labels() -> None:
    mean = pm.Normal("mean", 0.0, 3.0, shape=2, initval=[-2.0, 2.0])
    y = [-2.1, -1.8, -2.4, 1.9, 2.2, 2.0]
    pm.NormalMixture("y", [0.5, 0.5], mean, 0.5, observed=y)


MODELS: tuple[Callable[[], None], ...] = (
    coin,
    mean_and_variance,
    rates,
    regression,
    ten_means,
    logistic,
    hierarchy,
    two_labels,
)


def prepared(write: Callable[[], None], repeats: int) -> tuple[Target, np.ndarray, Callable[[float], float]]:
    """What estimators are asked of, a pool of draws, and the difference of an integral from the known evidence."""
    with pm.Model() as model:
        write()
    post = bk.infer(model, draws=POOL * repeats, random_seed=1, progressbar=False)
    assert post.method in ("exact", "quadrature"), post.method
    asked = _Asked(post, Estimate(post.log_evidence), POOL * repeats, 1)
    with lightly():
        target = asked.drawn(*asked.density()[1:]).target()
    assert target.draws is not None and not target.log_mass
    truth = post.log_evidence.value
    return target, target.draws.reshape(-1, target.space.size), lambda value: value - truth


def once(target: Target, pool: np.ndarray, name: str, points: int, seed: int) -> tuple[float, float, float]:
    """Value, error and seconds of one estimate."""
    number = min(points, POOL) // 4 * 4
    some = pool[seed * POOL : seed * POOL + number].reshape(4, -1, target.space.size)
    asked = replace(target, draws=some, points=points, random_seed=1_000 + seed)
    estimator = next(e for e in ESTIMATORS if e.name == name)
    with lightly(), on_one_thread():
        if estimator.obstacle(asked):
            return math.nan, math.nan, math.nan
        started = time.perf_counter()
        found = estimator.estimate(asked)
    return found.value, found.error, time.perf_counter() - started


def points_for(target: Target, pool: np.ndarray, name: str) -> int:
    """As many as take about the time that all have."""
    points = LEAST[name]
    if name == "nested":
        return points
    once(target, pool, name, points, 0)  # compiled
    taken = once(target, pool, name, points, 0)[2]
    return points if math.isnan(taken) else int(np.clip(points * SECONDS / taken, points, 100_000))


def side_by_side(write: Callable[[], None]) -> Row:
    """The errors of all estimators of one model."""
    target, pool, off = prepared(write, REPEATS)
    errors, columns = {}, {}
    for name in NAMES:
        points = points_for(target, pool, name)
        found = [once(target, pool, name, points, seed) for seed in range(1 if name == "nested" else REPEATS)]
        good = [f for f in found if math.isfinite(f[0])]
        errors[name] = math.sqrt(np.mean([off(f[0]) ** 2 for f in good])) if good else math.nan
        ratio = errors["bridge"] / errors[name]
        seconds = np.mean([f[2] for f in found])
        columns[name] = f"{errors[name]:.4f} ({ratio:.2f}) {seconds:.1f} s" if good else "refused"
    best = errors["bridge"] <= 1.5 * min(e for e in errors.values() if math.isfinite(e))
    return Row(write.__name__, columns, "bridge at most 1.5 times the best", best)


def calibration(write: Callable[[], None], repeats: int = 200) -> Row:
    """The variance of the z-scores of each estimator."""
    target, pool, off = prepared(write, repeats)
    columns = {}
    for name in NAMES[: 3 if repeats > 50 else 4]:
        found = [once(target, pool, name, max(1_000, LEAST[name]), seed) for seed in range(repeats)]
        z = np.array([off(f[0]) / f[1] for f in found if math.isfinite(f[0])])
        columns[name] = f"{z.mean():+.2f}, {z.var():.2f} of {len(z)}"
    return Row(write.__name__, columns)


def main() -> None:
    """Print the tables."""
    if "--calibrate" in sys.argv:
        rows = [calibration(write) for write in (mean_and_variance, logistic, hierarchy)]
        show("z-scores: mean, variance", rows)
        return
    for write in MODELS:
        show(f"root mean square error in nats at {SECONDS:g} s (bridge / it)", [side_by_side(write)])


if __name__ == "__main__":
    main()
