"""Stated errors of what is estimated from posterior draws: z-scores against known answers.

Run as ``python benchmarks/bench_errors.py``; some minutes. Each number is estimated ``REPEATS`` times, each time from
other independent draws of the closed form or of quadrature, which also knows the answer; printed are the mean and the
variance of (estimate − answer) / error, and the largest. Draws are taken for those of a sampler, so that every path
that a closed form would spare is taken.

``bench_estimators.py --calibrate`` does the same for estimators of a log evidence, ``bench_scores.py`` for
leave-one-out scores. Laplace's approximation has a bound of its systematic error and no standard error, so no z-score.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from bars import Row, of_z, show

import bayeskit as bk
from bayeskit.results.log_evidence import LogEvidence
from bayeskit.results.records import Posterior

REPEATS, DRAWS = 200, 400
Y = np.random.default_rng(3).normal(0.4, 1.0, (3, 5))
type Answers = dict[str, tuple[float, float]]  # numbers and their errors


def noisy_mean() -> pm.Model:
    """Given its sd, the mean of Normals is integrated out."""
    with pm.Model() as model:
        sd, mean = pm.HalfNormal("sd", 1.0), pm.Normal("mean", 0.0, 1.0)
        pm.Normal("y", mean, sd, observed=Y[:, 0])
    return model


def wide_mean() -> pm.Model:
    """The same under wider priors, and with less noise."""
    with pm.Model() as model:
        sd, mean = pm.HalfNormal("sd", 0.7), pm.Normal("mean", 1.0, 2.0)
        pm.Normal("y", mean, sd, observed=Y[:, 0])
    return model


def three_means() -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean", 0.0, 2.0, shape=3), 1.0, observed=Y[:, :3])
    return model


def parts(posterior: Posterior, error: float = 0.0) -> Iterator[Posterior]:
    """The posterior of so many draws at a time, as if they were a sampler's, its evidence with an error."""
    rng, whole = np.random.default_rng(11), posterior.tree["posterior"].to_dataset()
    values = {n: v.stack(s=("chain", "draw")).transpose("s", ...) for n, v in whole.data_vars.items()}
    quiet: Any = SimpleNamespace(problems=())
    for k in range(REPEATS):
        some = {
            n: (whole[n].dims, v.to_numpy()[k * DRAWS : (k + 1) * DRAWS].reshape(4, -1, *v.shape[1:]))
            for n, v in values.items()
        }
        evidence = LogEvidence(posterior.log_evidence.value + error * rng.normal(), error, "estimated")
        tree = xr.DataTree.from_dict({"posterior": xr.Dataset(some)})
        yield replace(posterior, method="nuts", marginals={}, diagnostics=quiet, log_evidence=evidence, tree=tree)


def of_posterior(model: pm.Model, asked: dict[str, Callable[[Posterior], Answers]]) -> list[Row]:
    """Of functions that give numbers with their errors; the answers are those of all of the posterior."""
    posterior = bk.infer(model, draws=DRAWS * REPEATS, random_seed=1, progressbar=False)
    some, rows = list(parts(posterior)), []
    for name, ask in asked.items():
        exact, found = ask(posterior), [ask(p) for p in some]
        for key, (value, error) in exact.items():
            assert error < 1e-3, (name, key, error)
            rows.append(of_z(f"{name} {key}", np.array([(f[key][0] - value) / f[key][1] for f in found])))
    return rows


def point(name: str, at: float) -> Callable[[Posterior], Answers]:
    def ask(posterior: Posterior) -> Answers:
        found = bk.savage_dickey(posterior, name, at=at)
        return {f"{name} = {at:g}": (found.log_bayes_factor, found.error)}

    return ask


def order(text: str) -> Callable[[Posterior], Answers]:
    def ask(posterior: Posterior) -> Answers:
        found = bk.hypothesis(posterior, text)
        return {text: (found.log_bayes_factor, found.error)}

    return ask


def slopes_of_priors(posterior: Posterior) -> Answers:
    table = bk.sensitivity(posterior).table
    return {str(n): (table.at[n, "derivative"], table.at[n, "error"]) for n in table.index}


def curve(parameter: str, value: float) -> Callable[[Posterior], Answers]:
    def ask(posterior: Posterior) -> Answers:
        found = bk.robustness({"m": posterior}, parameter, [value]).table.iloc[0]
        return {f"{parameter} = {value:g}": (float(found["log_evidence"]), float(found["error"]))}

    return ask


def averages() -> list[Row]:
    """Mean and sd of a mixture over two models whose evidences and draws have errors."""
    models = {"narrow": noisy_mean(), "wide": wide_mean()}
    # Of one seed, draws of two models would be functions of the same random numbers, and their errors add up.
    many: dict[str, Any] = {"draws": DRAWS * REPEATS, "progressbar": False}
    known = {n: bk.infer(m, random_seed=k, **many) for k, (n, m) in enumerate(models.items())}
    exact = bk.compare(known).average("mean", random_seed=1)["mixture"]
    found: dict[str, list[float]] = {"mean": [], "sd": []}
    for pair in zip(*[parts(p, 0.1 * (k + 1)) for k, p in enumerate(known.values())], strict=True):
        said = bk.compare(dict(zip(known, pair, strict=True))).average("mean", random_seed=1)["mixture"]
        for key, z in found.items():
            z.append(float((said[key] - exact[key]) / said[f"{key}_error"]))
    return [of_z(f"average over models: {key}", np.array(z)) for key, z in found.items()]


def main() -> None:
    """Print the tables."""
    one: dict[str, Callable[[Posterior], Answers]] = {
        "Savage-Dickey, average of conditionals:": point("mean", 0.0),
        "order, average of conditionals:": order("mean > 0.3"),
        "order, share of draws:": order("sd > 0.8"),
        "sensitivity:": slopes_of_priors,
        "robustness:": curve("sd.sigma", 1.3),
    }
    three: dict[str, Callable[[Posterior], Answers]] = {
        "order, share of draws:": order("mean[1] < mean[2]"),
        "sensitivity:": slopes_of_priors,
        "robustness:": curve("mean.sigma", 2.5),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model, asked in ((noisy_mean(), one), (three_means(), three)):
            show("z-scores: mean, variance, largest", of_posterior(model, asked))
        show("z-scores: mean, variance, largest", averages())


if __name__ == "__main__":
    main()
