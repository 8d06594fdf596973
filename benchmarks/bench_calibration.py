"""Calibration: how long a data set takes, what a second process brings, and how often a right method is failed.

Run as ``python benchmarks/bench_calibration.py``; some minutes. ``--catalogue`` calibrates every model of the catalogue
that has a closed form or is integrated by quadrature, by its own method, and prints a row each; ``--sampled`` those
that are answered by importance sampling, with NUTS where that gives up, some minutes each.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pymc as pm
from bars import Row, show

import bayeskit as bk
from bayeskit.datasets import example_data
from bayeskit.models import MODELS, load_model

DATASETS, SEEDS, FEW = 1000, 300, 40
ALPHA = 0.01
CATALOGUE_DATASETS, SAMPLED_DATASETS = 100, 24


def coin() -> pm.Model:
    with pm.Model() as model:
        pm.Binomial("y", 10, pm.Beta("theta", 2.0, 3.0), observed=3)
    return model


def regression() -> pm.Model:
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 3.0, 2.0)
        w = pm.Normal("w", 0.0, 3.0 * pm.math.sqrt(variance), shape=2)
        pm.Normal("y", w[0] + w[1] * np.linspace(0.0, 1.0, 17), pm.math.sqrt(variance), observed=np.zeros(17))
    return model


def seconds(model: pm.Model, processes: int = 1) -> float:
    started = time.perf_counter()
    bk.calibrate(model, datasets=DATASETS, random_seed=1, processes=processes, progressbar=False)
    return time.perf_counter() - started


def speed() -> list[Row]:
    rows = []
    for name, write, bar in (("Beta–Binomial", coin, 30.0), ("regression of 17 rows", regression, 180.0)):
        one, two = seconds(write()), seconds(write(), processes=2)
        figures = {"one process": f"{one:.1f} s", "two": f"{two:.1f} s", "ratio": f"{one / two:.2f}"}
        rows.append(Row(f"{name}, {DATASETS:,} data sets", figures, f"{bar:g} s", one <= bar))
    return rows


def alarms() -> list[Row]:
    """Seeds at which a right method is failed."""
    model = coin()
    failed = sum(
        not bk.calibrate(model, datasets=FEW, alpha=ALPHA, random_seed=seed, progressbar=False).passed
        for seed in range(SEEDS)
    )
    shown = {"failed": f"{failed} of {SEEDS}"}
    return [Row(f"a right method, {FEW} data sets", shown, f"{ALPHA:.0%}", failed <= ALPHA * SEEDS)]


def catalogue(sampled: bool, datasets: int) -> list[Row]:
    """Every model by its own method, where that draws, or does not."""
    rows = []
    for name in MODELS:
        module = load_model(name)
        model = module.build(example_data(module.EXAMPLE, module.VARIABLES), **module.EXAMPLE.options)
        if (bk.explain(model).method in ("importance", "nuts")) != sampled:
            continue
        started = time.process_time()
        try:
            found = bk.calibrate(model, datasets=datasets, random_seed=1, progressbar=False)
        except bk.BayeskitError as error:
            rows.append(Row(name, {"refused": str(error)[:100]}, "", True))
            continue
        each = (time.process_time() - started) / datasets
        smallest = float(found.table["p_ecdf"].min())
        shown = {"tests": f"{found.comparisons}", "ms": f"{1e3 * each:.0f}", "smallest p": f"{smallest:.2g}"}
        rows.append(Row(name, shown, "passed", found.passed))
        print(rows[-1], found.failures, found.notes, flush=True)
    return rows


def main() -> None:
    for asked, number in (("--catalogue", CATALOGUE_DATASETS), ("--sampled", SAMPLED_DATASETS)):
        if asked in sys.argv:
            rows = catalogue(asked == "--sampled", number)
            show(f"Calibration of the catalogue, {number} data sets each", rows)
            return
    show("Calibration", speed())
    show("False alarms", alarms())


if __name__ == "__main__":
    main()
