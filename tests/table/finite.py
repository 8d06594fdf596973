"""Finite discrete variables without structure: tables of hypotheses."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from mpmath import mp, mpf
from oracles import (
    Answer,
    exact,
    finite,
    gamma,
    log_choose,
    log_factorial,
    normal_logp,
    to_float,
)

from table.case import Case
from table.data import (
    COUNTS,
    LOOKUP,
    REAL,
    SUCCESSES,
    TRIALS,
)


def _lookup_normal() -> None:
    z = pm.Categorical("z", p=np.array([0.1, 0.2, 0.3, 0.4]))
    pm.Normal("y", pt.as_tensor(LOOKUP)[z], 1.5, observed=REAL)


def _lookup_uniform() -> None:
    z = pm.DiscreteUniform("z", lower=2, upper=6)
    pm.Poisson("y", 0.5 * z, observed=COUNTS)


def _lookup_bernoulli() -> None:
    fair = pm.Bernoulli("fair", 0.7)
    pm.Binomial("y", n=TRIALS, p=pt.switch(fair, 0.5, 0.4), observed=SUCCESSES)


def _lookup_two_tables() -> None:
    z = pm.Categorical("z", p=np.array([0.1, 0.2, 0.3, 0.4]))
    pm.Normal("y", pt.as_tensor(LOOKUP)[z], 1.5, observed=REAL)
    fair = pm.Bernoulli("fair", 0.7)
    pm.Binomial("k", n=TRIALS, p=pt.switch(fair, 0.5, 0.4), observed=SUCCESSES)


def _lookup_answer() -> Answer:
    terms = np.array([normal_logp(REAL, m, 1.5) for m in LOOKUP], dtype=object)
    return finite("z", np.arange(4), [0.1, 0.2, 0.3, 0.4], terms)


def _lookup_uniform_answer() -> Answer:
    rates = [mpf(z) / 2 for z in range(2, 7)]
    terms = [int(COUNTS.sum()) * mp.log(r) - len(COUNTS) * r - log_factorial(COUNTS) for r in rates]
    return finite("z", np.arange(2, 7), exact(np.ones(5)) / 5, np.array(terms, dtype=object))


def _lookup_bernoulli_answer() -> Answer:
    k, n = int(SUCCESSES.sum()), int(TRIALS.sum())
    terms = [k * mp.log(p) + (n - k) * mp.log(1 - p) + log_choose(TRIALS, SUCCESSES) for p in (mpf(0.4), mpf(0.5))]
    return finite("fair", np.arange(2), [1 - mpf(0.7), mpf(0.7)], np.array(terms, dtype=object))


def _switchpoint() -> None:
    early, late = pm.Exponential("early", 1.0), pm.Gamma("late", 2.0, 0.5)
    change = pm.DiscreteUniform("change", 1, 3)
    pm.Poisson("y", pm.math.switch(np.arange(len(COUNTS)) < change, early, late), observed=COUNTS)


def _switchpoint_answer() -> Answer:
    values, rates = [1, 2, 3], []
    for k in values:
        before, after = COUNTS[:k], COUNTS[k:]
        early = gamma("early", 1, 1, int(before.sum()), k)
        rates.append(early + gamma("late", 2, mpf(0.5), int(after.sum()), len(after), -log_factorial(COUNTS)))
    table = finite("change", values, exact(np.ones(3)) / 3, np.array([r.log_evidence for r in rates], dtype=object))
    weights = [to_float(mp.exp(r.log_evidence - table.log_evidence) / 3) for r in rates]
    for name in ("early", "late"):
        means, sds = np.transpose([r.moments[name] for r in rates])
        mean = weights @ means
        table.moments[name] = mean, np.sqrt(weights @ (sds**2 + (means - mean) ** 2))
    return table


FINITE = (
    Case("table", "Categorical, Normal data by index", _lookup_normal, _lookup_answer),
    Case("table", "DiscreteUniform, Poisson rate", _lookup_uniform, _lookup_uniform_answer),
    Case("table", "Bernoulli, switch", _lookup_bernoulli, _lookup_bernoulli_answer),
    Case("gamma", "switchpoint between two rates", _switchpoint, _switchpoint_answer),
    Case(
        "table",
        "two independent tables",
        _lookup_two_tables,
        lambda: _lookup_answer() + _lookup_bernoulli_answer(),
    ),
)
