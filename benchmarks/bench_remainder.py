"""Models in which something remains: NUTS on the collapsed density against NUTS on the model as written, and more.

Effective draws a second of sampling and compiling together, of the same variables, by the same sampler (nutpie); the
time of quadrature on eight schools; and the cost of a local level model's density and gradient from 10³ to 10⁶ steps.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from bars import Row, show

REGRESSION_ROWS, REGRESSION_COLUMNS = 100_000, 20
LEAST_REGRESSION, LEAST_SCHOOLS = 20.0, 5.0
MOST_SECONDS = 1.0


def regression() -> Any:
    import pymc as pm

    rng = np.random.default_rng(1)
    design = rng.standard_normal((REGRESSION_ROWS, REGRESSION_COLUMNS))
    y = design @ rng.standard_normal(REGRESSION_COLUMNS) + rng.standard_normal(REGRESSION_ROWS)
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 1.0)
        weights = pm.Normal("weights", 0.0, 1.0, shape=REGRESSION_COLUMNS)
        pm.Normal("y", design @ weights, sigma, observed=y)
    return model


def schools() -> Any:
    import pymc as pm

    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, 5.0), pm.HalfCauchy("tau", 5.0)
        theta = pm.Normal("theta", mu, tau, shape=8)
        error = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
        pm.Normal("y", theta, error, observed=np.array([28.0, 8, -3, 7, -1, 1, 18, 12]))
    return model


def local_level(steps: int) -> Any:
    import pymc as pm

    rng = np.random.default_rng(1)
    y = np.cumsum(rng.standard_normal(steps)) + rng.standard_normal(steps)
    with pm.Model() as model:
        move, noise = pm.HalfNormal("move", 1.0), pm.HalfNormal("noise", 1.0)
        first = pm.Normal.dist(0.0, 10.0)
        state = pm.GaussianRandomWalk("state", sigma=move, init_dist=first, steps=steps - 1)
        pm.Normal("y", state, noise, observed=y)
    return model


def effective(tree: Any, names: list[str]) -> float:
    """The smallest effective sample size, bulk, of the variables named."""
    import arviz as az

    ess = az.ess(tree, var_names=names)
    return min(float(np.min(v)) for v in ess.data_vars.values())


def rates(tree: Any, names: list[str], seconds: float) -> dict[str, float]:
    """Effective draws a second of sampling alone, and of everything from the model to the draws."""
    draws = effective(tree, names)
    sampling = float(tree["posterior"].attrs.get("sampling_time", np.nan))
    return {"sampling": draws / sampling, "all": draws / seconds}


def against_plain(model: Any, least: float) -> list[Row]:
    import bayeskit as bk
    from bayeskit.sampling.nuts import sample_nuts

    names = [rv.name for rv in model.free_RVs]
    measured = {}
    start = time.perf_counter()
    tree = sample_nuts(model, draws=4000, random_seed=1)
    measured["nutpie, as written"] = rates(tree, names, time.perf_counter() - start)
    post = bk.infer(model, method="nuts", draws=4000, random_seed=1, progressbar=False)
    measured["nutpie, collapsed"] = rates(post.tree, names, post.seconds)
    post = bk.infer(model, draws=4000, random_seed=1, progressbar=False)
    measured[f"infer: {post.method}"] = rates(post.tree, names, post.seconds)
    plain = measured["nutpie, as written"]
    rows = []
    for name, rate in measured.items():
        shown = {
            "sampling alone": f"{rate['sampling']:.0f}" if np.isfinite(rate["sampling"]) else "",
            "ratio": f"{rate['sampling'] / plain['sampling']:.1f}" if np.isfinite(rate["sampling"]) else "",
            "with compilation": f"{rate['all']:.0f}",
            "its ratio": f"{rate['all'] / plain['all']:.1f}",
        }
        # Collapsing is judged by the sampling, as compiling takes either of them seconds; infer by everything.
        judged = {"nutpie, collapsed": "sampling"}.get(name, "all")
        held = None if rate is plain else rate[judged] >= least * plain[judged]
        rows.append(Row(name, shown, "" if rate is plain else f">= {least:g} times", held))
    return rows


def quadrature() -> list[Row]:
    import bayeskit as bk

    bk.infer(local_level(5), draws=4, random_seed=1, progressbar=False)
    times = []
    for _ in range(3):
        model = schools()
        start = time.perf_counter()
        bk.infer(model, draws=4000, random_seed=1, progressbar=False)
        times.append(time.perf_counter() - start)
    seconds = sorted(times)[1]
    return [Row("eight schools", {"s": f"{seconds:.2f}"}, f"<= {MOST_SECONDS:g} s", seconds <= MOST_SECONDS)]


def moves(steps: int) -> Any:
    """The local level model with its moves for variables."""
    import pymc as pm

    rng = np.random.default_rng(1)
    y = np.cumsum(rng.standard_normal(steps)) + rng.standard_normal(steps)
    with pm.Model() as model:
        move, noise = pm.HalfNormal("move", 1.0), pm.HalfNormal("noise", 1.0)
        z = pm.Normal("z", 0.0, 1.0, shape=steps - 1)
        state = pm.Normal("first", 0.0, 10.0) + pm.math.concatenate([[0.0], pm.math.cumsum(move * z)])
        pm.Normal("y", state, noise, observed=y)
    return model


def ridge(rows: int, weights: int, intercept: bool) -> Any:
    """A regression whose weights have a scale that is not known."""
    import pymc as pm

    rng = np.random.default_rng(1)
    design = rng.standard_normal((rows, weights))
    y = design @ rng.standard_normal(weights) + rng.standard_normal(rows)
    with pm.Model() as model:
        scale, noise = pm.HalfNormal("scale", 1.0), pm.HalfNormal("noise", 1.0)
        level: Any = pm.Normal("level", 0.0, 10.0) if intercept else 0.0
        pm.Normal("y", level + design @ pm.Normal("w", 0.0, scale, shape=weights), noise, observed=y)
    return model


def spellings() -> list[Row]:
    """What one model takes by quadrature in two spellings, or with an intercept, which has a scale of its own."""
    import bayeskit as bk

    rows = []
    for name, plain, other in (
        ("moves of 100 steps, and their sums", local_level(100), moves(100)),
        ("100 weights, 1,000 rows: an intercept", ridge(1_000, 100, False), ridge(1_000, 100, True)),
    ):
        seconds = []
        for model in (plain, plain, other):  # the first has something to compile
            start = time.perf_counter()
            post = bk.infer(model, draws=4000, random_seed=1, progressbar=False)
            assert post.method == "quadrature"
            seconds.append(time.perf_counter() - start)
        ratio = seconds[2] / seconds[1]
        shown = {"s": f"{seconds[1]:.1f}", "and": f"{seconds[2]:.1f}", "ratio": f"{ratio:.1f}"}
        rows.append(Row(name, shown, "<= 2 times", ratio <= 2))
    return rows


def chains() -> list[Row]:
    import bayeskit as bk
    from bayeskit.model.unconstrained import Unconstrained

    rows, first = [], 0.0
    for steps in (1_000, 10_000, 100_000, 1_000_000):
        space = Unconstrained(bk.collapse(local_level(steps)))
        space.value_and_gradient(space.start)
        start = time.perf_counter()
        for _ in range(3):
            space.value_and_gradient(space.start)
        seconds = (time.perf_counter() - start) / 3
        first = first or seconds / steps
        last = steps == 1_000_000
        growth = seconds / steps / first
        rows.append(
            Row(
                f"{steps:,} steps",
                {"ms": f"{1e3 * seconds:.2f}", "ns a step": f"{1e9 * seconds / steps:.0f}"},
                "cost a step does not grow (< 3 times)" if last else "",
                growth < 3 if last else None,
            )
        )
    return rows


def show_all() -> bool:
    """Print every table; True if every bar holds."""
    title = f"NUTS on a regression of {REGRESSION_ROWS:,} rows and {REGRESSION_COLUMNS} columns"
    held = [
        show("Quadrature, after import", quadrature()),
        show("Local level model: density and gradient", chains()),
        show("Spellings of one model, by quadrature", spellings()),
        show("NUTS on eight schools", against_plain(schools(), LEAST_SCHOOLS)),
        show(title, against_plain(regression(), LEAST_REGRESSION)),
    ]
    return all(held)


def main() -> None:
    show_all()


if __name__ == "__main__":
    main()
