"""Rows taken once have the sum and slopes of all rows, whatever their likelihood: in plates, and as one density."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from bayeskit.model.log_joint import LogJoint
from bayeskit.plates.entry_terms import entry_factors
from bayeskit.plates.recurring_rows import each_row_once
from bayeskit.row_sums.distinct_rows import over_distinct_rows

N, GROUPS = 1_500, 5
RNG = np.random.default_rng(3)
GROUP, FLAG = RNG.integers(0, GROUPS, N), RNG.integers(0, 2, N)
COUNTS = RNG.poisson(2, N)
TRIALS = COUNTS + RNG.integers(0, 3, N)
ROUND = np.round(RNG.normal(size=N), 0)
DAYS = np.round(RNG.exponential(size=N) * 3) + 1
KINDS = RNG.integers(0, 3, N)


def effect() -> Any:
    return pm.Normal("effect", 0, 1, dims="group")[GROUP]


def eta(flag: Any = FLAG) -> Any:
    return effect() + pm.Normal("slope") * flag


def rate() -> Any:
    return pt.exp(eta())


LIKELIHOODS: dict[str, Callable[[], Any]] = {
    "negative binomial": lambda: pm.NegativeBinomial("y", mu=rate(), alpha=2.5, observed=COUNTS),
    "binomial": lambda: pm.Binomial("y", TRIALS, logit_p=eta(), observed=COUNTS),
    "binomial by p": lambda: pm.Binomial("y", TRIALS, pm.math.sigmoid(eta()), observed=COUNTS),
    "probit": lambda: pm.Bernoulli("y", pm.math.invprobit(eta()), observed=FLAG),
    "more zeros": lambda: pm.ZeroInflatedPoisson("y", 0.7, rate(), observed=COUNTS),
    "more zeros, overdispersed": lambda: pm.ZeroInflatedNegativeBinomial("y", 0.7, rate(), 2.0, observed=COUNTS),
    "hurdle": lambda: pm.HurdlePoisson("y", 0.7, rate(), observed=COUNTS),
    "ordered probit": lambda: pm.OrderedProbit("y", eta(), np.array([-0.5, 0.7]), observed=KINDS),
    "categories": lambda: pm.Categorical(
        "y", logit_p=pt.stack([eta(), pt.zeros(N), pt.ones(N) * pm.Normal("level")], axis=1), observed=KINDS
    ),
    "normal": lambda: pm.Normal("y", eta(), 0.8, observed=ROUND),
    "Student t": lambda: pm.StudentT("y", 4, mu=eta(), sigma=1.0, observed=ROUND),
    "gamma": lambda: pm.Gamma("y", 2.0, rate(), observed=DAYS),
    "Weibull": lambda: pm.Weibull("y", 1.5, rate(), observed=DAYS),
    "censored": lambda: pm.Censored(
        "y", pm.Exponential.dist(rate()), lower=None, upper=5.0, observed=np.minimum(DAYS, 5.0)
    ),
    "truncated": lambda: pm.Truncated("y", pm.Poisson.dist(rate()), lower=1, observed=np.maximum(COUNTS, 1)),
    "geometric": lambda: pm.Geometric("y", pm.math.sigmoid(eta()), observed=COUNTS + 1),
    "mixture": lambda: pm.Mixture("y", [0.3, 0.7], [pm.Poisson.dist(rate()), pm.Poisson.dist(5.0)], observed=COUNTS),
    "directions": lambda: pm.VonMises("y", eta(), 2.0, observed=0.3 * ROUND),
    "beta-binomial": lambda: pm.BetaBinomial("y", rate(), 2.0, TRIALS, observed=COUNTS),
    "bytes": lambda: pm.Poisson("y", pt.exp(eta(FLAG.astype("int8"))), observed=COUNTS),
    "single precision": lambda: pm.Poisson("y", pt.exp(eta(FLAG.astype("float32"))), observed=COUNTS),
    "a switch": lambda: pm.Poisson(
        "y", pt.exp(effect() + pm.math.switch(FLAG == 1, pm.Normal("slope"), 0.3)), observed=COUNTS
    ),
    "slopes": lambda: pm.Poisson("y", pt.exp(pm.Normal("level") + effect() * FLAG), observed=COUNTS),
    "discrete Weibull": lambda: pm.DiscreteWeibull("y", pm.math.sigmoid(eta()), 1.2, observed=COUNTS),
}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_rows_taken_once_have_the_same_sum_and_slopes(name: str) -> None:
    with pm.Model(coords={"group": list("abcde")}) as model:
        LIKELIHOODS[name]()
    joint = LogJoint.from_model(model)
    shapes, variable, inputs = joint.shapes(), joint.values["effect"], list(joint.values.values())
    (factor,) = entry_factors(joint, ["y"])
    once = each_row_once(
        factor, variable, shapes["effect"], {v: shapes[n] for n, v in joint.values.items() if n != "effect"}
    )
    whole = over_distinct_rows(pt.sum(joint.factors["y"]), {v: shapes[n] for n, v in joint.values.items()})
    assert once.type.shape[0] * 4 <= N
    assert whole is not None
    sums = [pt.sum(factor), pt.sum(once), whole]
    function = pytensor.function(
        inputs, [*sums, *(pytensor.grad(s, variable) for s in sums)], mode="FAST_COMPILE", on_unused_input="ignore"
    )
    rng = np.random.default_rng(1)
    for _ in range(3):
        found = function(*[rng.normal(size=shapes[n]) for n in joint.values])
        for k in (1, 2):
            np.testing.assert_allclose(found[k], found[0], rtol=1e-11, atol=1e-9)
            np.testing.assert_allclose(found[3 + k], found[3], rtol=1e-10, atol=1e-9)
