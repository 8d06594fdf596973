"""Importance sampling at quasi-random points: its stated errors, and its speed beside nutpie.

Run as ``python benchmarks/bench_importance.py``; hours for 200 seeds a density (``--seeds 20`` for fewer). The
densities (:mod:`hard_densities`) have integral one; printed are the mean and the variance of the log integral over its
error, the largest, and how often the answer was refused. Speed is the whole of ``bk.infer`` against nutpie's
compilation and its chains with as many draws.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np
import nutpie
import pymc as pm
from bars import Row, of_z, show
from hard_densities import DENSITIES
from scipy import special

import bayeskit as bk
from bayeskit.graphs.environment import lightly, on_one_thread, silently
from bayeskit.marginal_likelihood.quasi_monte_carlo.adaptation import NoProposal
from bayeskit.marginal_likelihood.quasi_monte_carlo.integral import Wanted, importance_integral
from bayeskit.model.unconstrained import Unconstrained

SEEDS, DRAWS = 200, 4_000


def calibration(seeds: int) -> list[Row]:
    rows = []
    for name, build in DENSITIES.items():
        with pm.Model() as model:
            build()
        z, refused = [], 0
        with lightly(), on_one_thread(), silently():
            space = Unconstrained(model)
            for seed in range(seeds):
                try:
                    found = importance_integral(space, Wanted(DRAWS, 400_000), np.random.default_rng(seed))
                except NoProposal:
                    refused += 1
                else:
                    z.append(found.value / found.error)
        row = of_z(name, np.array(z)) if len(z) > 1 else Row(name, {"z": "–"})
        rows.append(Row(name, {**row.values, "refused": str(refused)}, row.bar, row.holds))
    return rows


def logistic(rows: int, columns: int) -> pm.Model:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, columns))
    y = rng.binomial(1, special.expit(x @ np.linspace(-1, 1, columns)))
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=x @ pm.Normal("w", 0, 2.5, shape=columns), observed=y)
    return model


def robust() -> pm.Model:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 3))
    with pm.Model() as model:
        mean = x @ pm.Normal("w", 0, 5, shape=3)
        scale, nu = pm.HalfNormal("scale", 2), pm.Gamma("nu", 2, 0.1)
        pm.StudentT("y", nu=nu, mu=mean, sigma=scale, observed=x @ [1, 2, 3] + rng.standard_t(3, size=60))
    return model


MODELS: dict[str, Callable[[], pm.Model]] = {
    "logistic, 532 x 5": lambda: logistic(532, 5),
    "logistic, 10,000 x 10": lambda: logistic(10_000, 10),
    "robust regression, 60 x 3": robust,
}


def speed() -> list[Row]:
    rows = []
    for name, build in MODELS.items():
        model = build()
        bk.explain(model)  # imported
        started = time.process_time()
        post = bk.infer(model, random_seed=1, progressbar=False)
        ours = time.process_time() - started
        started = time.process_time()
        compiled = nutpie.compile_pymc_model(build())
        nutpie.sample(compiled, draws=DRAWS // 4, chains=4, seed=1, progress_bar=False)
        theirs = time.process_time() - started
        values = {
            "by": post.method,
            "error": f"{post.log_evidence.error:.1e}",
            "CPU s": f"{ours:.2f}",
            "nutpie": f"{theirs:.2f}",
            "ratio": f"{theirs / ours:.1f}",
        }
        rows.append(Row(name, values))
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    given = parser.parse_args(arguments)
    show("Whole call, with compilation, against nutpie with as many draws", speed())
    return 0 if show("Stated errors", calibration(given.seeds)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
