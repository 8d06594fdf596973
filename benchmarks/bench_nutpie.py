"""``infer`` against nutpie on the model as written, whole calls of 4,000 draws: models beyond conjugacy, the catalogue.

    python benchmarks/bench_nutpie.py [--only NAME ...]

Each model is a new copy, so that what either compiles for it is counted, as far as it is not in PyTensor's cache on
disk: for what nobody has met give an empty one (``PYTENSOR_FLAGS=base_compiledir=...``). Shown are the seconds, and
effective draws a second, of the variable of which there are fewest. The bar: at most a tenth slower in one of these.
``infer`` gives the log evidence besides. A model with discrete variables is sampled by PyMC's compound step. Where the
chains of nutpie have an R-hat over 1.05 its draws are not of the posterior, and it says so.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import arviz as az
import bench_catalogue
import numpy as np
import pymc as pm
from bars import Row, show
from bench_beyond_conjugacy import MODELS as BEYOND

import bayeskit as bk
from bayeskit.models import MODELS as CATALOGUE

MOST_RATIO = 1.1
MIXED = 1.05  # R-hat


def models() -> dict[str, Callable[[], pm.Model]]:
    """What makes a new copy of each model."""
    beyond: dict[str, Callable[[], pm.Model]] = {name: lambda w=write: w().model for name, write in BEYOND.items()}
    return beyond | {f"catalogue: {name}": lambda n=name: bench_catalogue.build(n) for name in CATALOGUE}  # type: ignore[misc]


def ours(model: pm.Model) -> Any:
    return bk.infer(model, draws=bench_catalogue.DRAWS, random_seed=1, progressbar=False).tree


def timed(sample: Callable[[pm.Model], Any], model: pm.Model) -> tuple[float, float, float]:
    """Seconds, effective draws a second, and the worst R-hat, of the free variables."""
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = sample(model)
        seconds = time.perf_counter() - begun
        draws = tree["posterior"].to_dataset()
        free = [rv.name for rv in model.free_RVs if rv.name in draws]
        if not free:
            return seconds, np.nan, np.nan
        least = min(float(v.min()) for v in az.ess(draws[free]).data_vars.values())
        worst = max(float(v.max()) for v in az.rhat(draws[free]).data_vars.values())
    return seconds, least / seconds, worst


def compared(name: str, write: Callable[[], pm.Model]) -> Row:
    """One model, by both."""
    (own, rate, _), (other, their_rate, worst) = timed(ours, write()), timed(bench_catalogue.sample, write())
    values = {
        "infer s": f"{own:.1f}",
        "nutpie s": f"{other:.1f}",
        "ratio": f"{own / other:.2f}",
        "infer, effective draws a second": f"{rate:.0f}",
        "nutpie, effective draws a second": f"{their_rate:.0f}",
        "its R-hat": f"{worst:.2f}" + ("" if worst < MIXED else ", not converged"),
    }
    held = own <= MOST_RATIO * other or rate * MOST_RATIO >= their_rate or worst >= MIXED
    return Row(name, values, f"<= {MOST_RATIO:g} times its seconds, or as many draws", held)


def main(arguments: Sequence[str] | None = None) -> int:
    known = models()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=known, default=list(known), metavar="NAME")
    given = parser.parse_args(arguments)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    with pm.Model() as small:
        pm.Normal("y", pm.Normal("m"), pm.HalfNormal("s"), observed=[0.0, 1.0])
    for sample in (ours, bench_catalogue.sample):
        timed(sample, small)
    held = [show(name, [compared(name, known[name])]) for name in given.only]
    return 0 if all(held) else 1


if __name__ == "__main__":
    raise SystemExit(main())
