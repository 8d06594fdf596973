"""Exact inference against NUTS on every model of the catalogue that has a closed form, at its example data.

For each model, 4,000 draws by ``bayeskit.infer`` and 4,000 draws (4 chains × 1,000, after PyMC's 1,000 of warm-up each)
by ``pm.sample(nuts_sampler="nutpie")``. nutpie compiles a model before it samples, and keeps on disk what it compiled;
so its time is given for a model it has not seen (an empty cache), for one it has, and for the sampling alone. Ours is
the median over new copies of the model; it keeps nothing. Both are warmed up on another model first, so that imports
are not counted. Bars: ``infer`` at least 20 times faster than nutpie on a new model, and under 0.5 seconds. A model
with discrete variables is sampled by PyMC's compound step, which compiles anew each time. The models in which something
remains are in ``bench_remainder.py``.
"""

from __future__ import annotations

import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from bars import Row, show

DRAWS = 4000
CHAINS = 4
WARM_UP = 1000
REPEATS = 5
LEAST_RATIO = 20.0
MOST_SECONDS = 0.5


def seconds(call: Callable[..., Any], *arguments: Any) -> float:
    start = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - start


def build(name: str) -> Any:
    from bayeskit.datasets import example_data
    from bayeskit.models import load_model

    module = load_model(name)
    return module.build(example_data(module.EXAMPLE, module.VARIABLES), **module.EXAMPLE.options)


def infer(model: Any) -> None:
    import bayeskit as bk

    bk.infer(model, draws=DRAWS, random_seed=1, progressbar=False)


def sample(model: Any) -> Any:
    import pymc as pm

    # nutpie cannot sample discrete variables; PyMC's own compound step does.
    sampler = "pymc" if model.discrete_value_vars else "nutpie"
    return pm.sample(
        DRAWS // CHAINS,
        tune=WARM_UP,
        chains=CHAINS,
        nuts_sampler=sampler,
        random_seed=1,
        progressbar=False,
        model=model,
    )


def sample_compiled(compiled: Any) -> None:
    import nutpie

    nutpie.sample(compiled, draws=DRAWS // CHAINS, tune=WARM_UP, chains=CHAINS, seed=1, progress_bar=False)


def measure() -> dict[str, dict[str, float]]:
    """Seconds of each way for each model; run in a process with an empty PyTensor cache."""
    import nutpie
    import pymc as pm

    import bayeskit as bk
    from bayeskit.models import MODELS

    logging.getLogger("pymc").setLevel(logging.ERROR)
    with pm.Model() as other:
        pm.Normal("y", pm.Normal("m"), 1.0, observed=[0.0])
    infer(other)
    sample(other)
    found = {}
    for name in MODELS:
        model = build(name)
        if bk.explain(model).method != "exact":
            continue
        found[name] = {
            "infer": statistics.median(seconds(infer, build(name)) for _ in range(REPEATS)),
            "new": seconds(sample, build(name)),
            "seen": seconds(sample, build(name)),
        }
        if not model.discrete_value_vars:
            found[name]["alone"] = seconds(sample_compiled, nutpie.compile_pymc_model(build(name)))
        print(name, found[name], file=sys.stderr, flush=True)
    return found


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as cache:
        flags = ",".join(filter(None, [os.environ.get("PYTENSOR_FLAGS"), f"base_compiledir={cache}"]))
        done = subprocess.run(
            [sys.executable, __file__, "--measure"],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTENSOR_FLAGS": flags},
        )
    return [_row(name, times) for name, times in json.loads(done.stdout.splitlines()[-1]).items()]


def _row(name: str, times: dict[str, float]) -> Row:
    ours = times["infer"]
    ratio = times["new"] / ours
    return Row(
        name,
        {
            "infer s": f"{ours:.3f}",
            "nutpie, new model, s": f"{times['new']:.2f}",
            "ratio": f"{ratio:.0f}",
            "nutpie, seen before, s": f"{times['seen']:.2f}",
            "its ratio": f"{times['seen'] / ours:.0f}",
            "nutpie, sampling alone, s": f"{times['alone']:.2f}" if "alone" in times else "",
        },
        f">= {LEAST_RATIO:g} times and < {MOST_SECONDS:g} s",
        ratio >= LEAST_RATIO and ours < MOST_SECONDS,
    )


if __name__ == "__main__":
    if "--measure" in sys.argv:
        print(json.dumps(measure()))
    else:
        show("Exact inference against NUTS, 4,000 draws each", run())
