"""Beta and Uniform(0, 1) priors: Bernoulli, Binomial, Geometric, negative binomial."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from mpmath import mpf
from oracles import (
    Answer,
    beta,
    exact,
    log_choose,
    total,
)

from table.case import Case
from table.data import (
    COUNTS,
    EXPOSURE,
    FLIPS,
    GROUP,
    GROUPS,
    MILLION,
    SUCCESSES,
    TRIALS,
    WAITS,
    grid,
    million_flips,
    outcomes,
)


def _binomial(name: str, a: float, b: float, n: Any, k: Any) -> Answer:
    return beta(name, a, b, int(np.sum(k)), int(np.sum(np.asarray(n) - k)), log_choose(n, k))


def _beta_data_through_deterministic() -> None:
    trials = pm.Data("trials", TRIALS)
    p = pm.Beta("p", 2.0, 3.0, dims="group")
    odds = pm.Deterministic("odds", p / (1 - p), dims="group")
    pm.Binomial("y", trials, (odds / (1 + odds))[GROUP], observed=SUCCESSES)


def _beta_shared() -> None:
    p = pm.Beta("p", 1.5, 2.5)
    pm.Bernoulli("flips", p, observed=FLIPS)
    pm.Geometric("waits", p, observed=WAITS)
    pm.NegativeBinomial("runs", n=3, p=p, observed=COUNTS)


def _beta_potential() -> None:
    p = pm.Beta("p", 2.0, 2.0)
    pm.Bernoulli("y", p, observed=FLIPS)
    pm.Potential("bonus", 3.5 * pt.log(p) + pt.log1p(-p))


def _beta_logit() -> None:
    p = pm.Beta("p", 2.0, 3.0)
    pm.Bernoulli("y", logit_p=pm.math.logit(p), observed=FLIPS)


def _beta_categorical() -> None:
    p = pm.Beta("p", 2.0, 3.0)
    pm.Categorical("y", p=pt.stack([1 - p, p]), observed=FLIPS)


def _uniform_deterministic() -> None:
    miss = pm.Uniform("miss", 0.0, 1.0)
    hit = pm.Deterministic("hit", 1 - miss)
    pm.Binomial("y", n=TRIALS, p=hit, observed=SUCCESSES)


def _beta_group_answer(a: float, b: float) -> Answer:
    k, n = np.array(grid(SUCCESSES)), np.array(grid(TRIALS))
    return beta("p", a, b, k, n - k, log_choose(TRIALS, SUCCESSES))


BETA = (
    Case(
        "beta",
        "Bernoulli p",
        lambda: pm.Bernoulli("y", pm.Beta("p", 2.0, 3.0), observed=FLIPS),
        lambda: beta("p", 2, 3, *outcomes(FLIPS)),
    ),
    Case("beta", "Bernoulli logit_p", _beta_logit, lambda: beta("p", 2, 3, *outcomes(FLIPS))),
    Case(
        "beta",
        "Bernoulli, Jeffreys prior, all successes",
        lambda: pm.Bernoulli("y", pm.Beta("p", 0.5, 0.5), observed=np.ones(7, dtype=int)),
        lambda: beta("p", 0.5, 0.5, 7, 0),
    ),
    Case(
        "beta",
        "Bernoulli, one row",
        lambda: pm.Bernoulli("y", pm.Beta("p", 0.1, 0.3), observed=[1]),
        lambda: beta("p", 0.1, 0.3, 1, 0),
    ),
    Case("beta", "Categorical of two", _beta_categorical, lambda: beta("p", 2, 3, *outcomes(FLIPS))),
    Case(
        "beta",
        "Binomial vector of trials",
        lambda: pm.Binomial("y", n=TRIALS, p=pm.Beta("p", 2.0, 3.0), observed=SUCCESSES),
        lambda: _binomial("p", 2, 3, TRIALS, SUCCESSES),
    ),
    Case(
        "beta",
        "Binomial groups by index, Deterministic, pm.Data, dims",
        _beta_data_through_deterministic,
        lambda: _beta_group_answer(2, 3),
        {"group": GROUPS},
    ),
    Case(
        "beta",
        "Binomial, mu and sigma",
        lambda: pm.Binomial("y", n=20, p=pm.Beta("p", mu=0.3, sigma=0.1), observed=7),
        lambda: beta("p", *_beta_from_moments(0.3, 0.1), 7, 13, log_choose(20, 7)),
    ),
    Case(
        "beta",
        "Binomial, mu and nu",
        lambda: pm.Binomial("y", n=20, p=pm.Beta("p", mu=0.3, nu=7.0), observed=7),
        lambda: beta("p", mpf(0.3) * 7, (1 - mpf(0.3)) * 7, 7, 13, log_choose(20, 7)),
    ),
    Case(
        "beta",
        "Binomial, matrix of probabilities",
        lambda: pm.Binomial(
            "y",
            n=10,
            p=pm.Beta("p", np.array([1.0, 2.5]), 3.0, dims=("group", "side")),
            observed=[[3, 4], [0, 10], [5, 7]],
            dims=("group", "side"),
        ),
        lambda: beta(
            "p",
            np.array([1.0, 2.5]),
            3,
            [[3, 4], [0, 10], [5, 7]],
            [[7, 6], [10, 0], [5, 3]],
            log_choose(10, [[3, 4], [0, 10], [5, 7]]),
        ),
        {"group": GROUPS, "side": ["left", "right"]},
    ),
    Case(
        "beta",
        "Binomial, a million trials",
        lambda: pm.Binomial("y", n=MILLION, p=pm.Beta("p", 2.0, 3.0), observed=[123_456, 499_999]),
        lambda: _binomial("p", 2, 3, [MILLION, MILLION], [123_456, 499_999]),
    ),
    Case(
        "beta",
        "Bernoulli, a million rows",
        lambda: pm.Bernoulli("y", pm.Beta("p", 2.0, 3.0), observed=million_flips()),
        lambda: beta("p", 2, 3, *outcomes(million_flips())),
    ),
    Case(
        "beta",
        "Geometric",
        lambda: pm.Geometric("y", pm.Beta("p", 2.0, 3.0), observed=WAITS),
        lambda: beta("p", 2, 3, len(WAITS), int(np.sum(WAITS - 1))),
    ),
    Case(
        "beta",
        "negative binomial n, p",
        lambda: pm.NegativeBinomial("y", n=4, p=pm.Beta("p", 2.0, 3.0), observed=COUNTS),
        lambda: beta("p", 2, 3, 4 * len(COUNTS), int(COUNTS.sum()), log_choose(COUNTS + 3, COUNTS)),
    ),
    Case(
        "beta",
        "negative binomial, real n from pm.Data",
        lambda: pm.NegativeBinomial("y", n=pm.Data("size", EXPOSURE), p=pm.Beta("p", 2.0, 3.0), observed=COUNTS),
        lambda: beta("p", 2, 3, total(EXPOSURE), int(COUNTS.sum()), log_choose(COUNTS + exact(EXPOSURE) - 1, COUNTS)),
    ),
    Case(
        "beta",
        "three likelihoods share p",
        _beta_shared,
        lambda: beta(
            "p",
            1.5,
            2.5,
            outcomes(FLIPS)[0] + len(WAITS) + 3 * len(COUNTS),
            outcomes(FLIPS)[1] + int((WAITS - 1).sum()) + int(COUNTS.sum()),
            log_choose(COUNTS + 2, COUNTS),
        ),
    ),
    Case(
        "beta",
        "a Potential with a linear score",
        _beta_potential,
        lambda: beta("p", 2, 2, outcomes(FLIPS)[0] + 3.5, outcomes(FLIPS)[1] + 1),
    ),
    Case(
        "uniform",
        "Bernoulli",
        lambda: pm.Bernoulli("y", pm.Uniform("p", 0, 1), observed=FLIPS),
        lambda: beta("p", 1, 1, *outcomes(FLIPS)),
    ),
    Case(
        "uniform",
        "Binomial of the complement, Deterministic",
        _uniform_deterministic,
        lambda: beta(
            "miss",
            1,
            1,
            int(TRIALS.sum() - SUCCESSES.sum()),
            int(SUCCESSES.sum()),
            log_choose(TRIALS, SUCCESSES),
        ),
    ),
    Case(
        "uniform",
        "Geometric groups by index",
        lambda: pm.Geometric("y", pm.Uniform("p", 0.0, 1.0, shape=3)[GROUP], observed=WAITS),
        lambda: beta("p", 1, 1, np.bincount(GROUP), grid(WAITS - 1)),
    ),
    Case(
        "uniform",
        "negative binomial",
        lambda: pm.NegativeBinomial("y", n=2.5, p=pm.Uniform("p"), observed=COUNTS),
        lambda: beta("p", 1, 1, 2.5 * len(COUNTS), int(COUNTS.sum()), log_choose(COUNTS + 1.5, COUNTS)),
    ),
)


def _beta_from_moments(mu: float, sigma: float) -> tuple[Any, Any]:
    size = mpf(mu) * (1 - mpf(mu)) / mpf(sigma) ** 2 - 1
    return mpf(mu) * size, (1 - mpf(mu)) * size
