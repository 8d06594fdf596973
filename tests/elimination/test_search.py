"""The order in which variables are eliminated, the families, and refusals by name with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from table.data import COUNTS, FLIPS, GROUP, POSITIVE, REAL, X

from bayeskit.elimination.search import Search
from bayeskit.model.log_joint import LogJoint

Steps = list[tuple[tuple[str, ...], str]]


def searched(build: Callable[[], Any]) -> Any:
    with pm.Model() as model:
        build()
    return Search(LogJoint.from_model(model)).run()


def _scaled_regression() -> None:
    v = pm.InverseGamma("v", 3.0, 2.0)
    w = pm.Normal("w", 0.0, 2.0 * pt.sqrt(v), shape=3)
    pm.Normal("y", X @ w, pt.sqrt(v), observed=REAL)


def _hierarchy() -> None:
    centre = pm.Normal("centre", 0.0, 5.0)
    mu = pm.Normal("mu", centre, 2.0, shape=3)
    pm.Normal("y", mu[GROUP], 1.0, observed=REAL)


def _two_parts() -> None:
    p, rate = pm.Beta("p", 1.0, 1.0), pm.Gamma("rate", 2.0, 1.0)
    pm.Bernoulli("flips", p, observed=FLIPS)
    pm.Poisson("counts", rate, observed=COUNTS)
    pm.Normal("y", pm.Normal("mu"), 1.0, observed=REAL)


def _forward() -> None:
    rate = pm.Gamma("rate", 2.0, 1.0)
    pm.Poisson("y", rate, observed=COUNTS)
    pm.Poisson("next", rate)


def _children_first() -> None:
    b = pm.Gamma("b", 2.0, 1.0)
    pm.Exponential("y", pm.Gamma("rate", 2.0, b), observed=POSITIVE)


def _table() -> None:
    pm.Normal("y", pt.as_tensor(np.array([-1.0, 2.0]))[pm.Bernoulli("z", 0.3)], 1.0, observed=REAL)


def _semi_conjugate() -> None:
    v = pm.InverseGamma("v", 3.0, 2.0)
    pm.Normal("y", pm.Normal("mu", 0.0, 5.0), pt.sqrt(v), observed=REAL)


def _switchpoint() -> None:
    early, late = pm.Exponential("early", 1.0), pm.Gamma("late", 2.0, 1.0)
    change = pm.DiscreteUniform("change", 0, len(COUNTS))
    pm.Poisson("y", pm.math.switch(np.arange(len(COUNTS)) < change, early, late), observed=COUNTS)


def _product_of_rates() -> None:
    a, b = pm.Gamma("a", 2.0, 1.0), pm.Gamma("b", 2.0, 1.0)
    pm.Poisson("y", a * b, observed=COUNTS)


def _rate_that_chooses() -> None:
    early, late = pm.Gamma("early", 2.0, 1.0), pm.Gamma("late", 2.0, 1.0)
    pm.Poisson("y", pt.switch(early > 3.0, late, 2.0 * late), observed=COUNTS)


def _rate_that_picks() -> None:
    early, late = pm.Gamma("early", 2.0, 1.0), pm.Gamma("late", 2.0, 1.0)
    pm.Poisson("y", pt.stack([late, 2.0 * late])[pt.cast(early > 3.0, "int64")], observed=COUNTS)


CHILD = "once {} is integrated out, its log density is no longer of a conjugate family"

CASES: dict[str, tuple[Callable[[], Any], Steps, dict[str, str]]] = {
    "a Gaussian block before its scale": (_scaled_regression, [(("w",), "normal"), (("v",), "inverse_gamma")], {}),
    "connected variables are one block": (_hierarchy, [(("centre", "mu"), "normal")], {}),
    "independent parts, the last declared first": (
        _two_parts,
        [(("mu",), "normal"), (("rate",), "gamma"), (("p",), "beta")],
        {},
    ),
    "what nothing depends on is drawn forward": (_forward, [(("next",), "ancestral"), (("rate",), "gamma")], {}),
    "children before parents": (
        _children_first,
        [(("rate",), "gamma")],
        {"b": CHILD.format("rate")},
    ),
    "rates between which a finite variable chooses": (
        _switchpoint,
        [(("late",), "gamma"), (("early",), "gamma"), (("change",), "categorical")],
        {},
    ),
    "rates that are multiplied": (_product_of_rates, [(("b",), "gamma")], {"a": CHILD.format("b")}),
    "a rate that chooses what another does": (
        _rate_that_chooses,
        [(("late",), "gamma")],
        {"early": CHILD.format("late")},
    ),
    "a rate that picks what another does": (_rate_that_picks, [(("late",), "gamma")], {"early": CHILD.format("late")}),
    "a table of what is finite": (_table, [(("z",), "categorical")], {}),
    "a scale that its block is not scaled by": (
        _semi_conjugate,
        [(("mu",), "normal")],
        {"v": "the density of 'mu' depends on mu in a way that is not scaled by v"},
    ),
    "a link that is not linear": (
        lambda: pm.Poisson("y", pt.exp(pm.Normal("mu")), observed=COUNTS),
        [],
        {"mu": "it enters the log density of 'y' through `exp`, which is not quadratic in it"},
    ),
    "a prior that is not Normal": (
        lambda: pm.Normal("y", pm.Laplace("mu", 0.0, 1.0), 1.0, observed=REAL),
        [],
        {"mu": "its own log density is not quadratic (it goes through `abs`): its prior is not Normal"},
    ),
    "a bound inside the support": (
        lambda: pm.Poisson("y", pm.Uniform("rate", 0.0, 5.0), observed=COUNTS),
        [],
        {"rate": "a Uniform prior that is not on (0, 1) cuts the support off inside it"},
    ),
    "a parameter that leaves its range": (
        lambda: pm.Bernoulli("y", 2.0 * pm.Beta("p", 1.0, 1.0), observed=[1, 1]),
        [],
        {"p": "in the log density of 'y', a parameter leaves its allowed range inside the support"},
    ),
    "a kink": (
        lambda: pm.Poisson("y", abs(pm.Gamma("rate", 2.0, 1.0) - 1.0) + 0.1, observed=COUNTS),
        [],
        {"rate": "in the log density of 'y', it enters through the sign or absolute value of something that changes"},
    ),
    "another family": (
        lambda: pm.Poisson("y", pm.Gamma("rate", 2.0, 1.0) ** 2, observed=COUNTS),
        [],
        {"rate": "the log density of 'y' is not that of a gamma variable in it"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_order_families_and_refusals(name: str) -> None:
    build, steps, refusals = CASES[name]
    plan = searched(build).plan
    assert [(s.variables, s.family) for s in plan.eliminated] == steps
    assert plan.remaining == tuple(refusals)
    for refusal in plan.refusals:
        assert refusal.reason.startswith(refusals[refusal.variable])
        assert refusal.reason.endswith(".") and refusal.advice.strip().endswith(".")


@pytest.mark.parametrize("power", [0.5, -0.5])
def test_what_would_make_a_scale_conjugate_does(power: float) -> None:
    """Of a prior that is not in units of the noise; where the noise of some data is known, no prior is to blame."""

    def build(unit: bool, known: bool = False) -> None:
        v = pm.InverseGamma("v", 3.0, 2.0) if power > 0 else pm.Gamma("v", 3.0, 2.0)
        a, b = (pm.Normal(name, 0.0, 5.0 * (v**power if unit else 1.0)) for name in "ab")
        pm.Normal("y", a + b * np.arange(len(REAL)), v**power, observed=REAL)
        if known:
            pm.Normal("z", a, 1.0, observed=REAL)

    (refusal,) = searched(lambda: build(False)).plan.refusals
    said = f"Priors of a, b in units of it would be conjugate: write the sd as s * v**{power:g}."
    assert refusal.advice == said
    assert searched(lambda: build(True)).plan.remaining == ()
    (refusal,) = searched(lambda: build(False, known=True)).plan.refusals
    assert "in units of it" not in refusal.advice and refusal.advice.startswith("A Gamma, Exponential")


def test_a_scale_takes_its_block_along() -> None:
    analysis = searched(_scaled_regression)
    (scale,) = analysis.scales
    assert scale.block is analysis.blocks[0]
    assert scale.kappa == -1
    assert np.array_equal(scale.group, [0, 0, 0])


def test_each_entry_of_a_scale_governs_its_own_entries() -> None:
    def build() -> None:
        tau = pm.Gamma("tau", 3.0, 2.0, shape=2)
        mu = pm.Normal("mu", 0.0, tau=0.5 * tau[np.array([1, 0, 1])], shape=3)
        for k in range(3):
            pm.Normal(f"y{k}", mu[k], tau=tau[1 - k % 2], observed=REAL)

    (scale,) = searched(build).scales
    assert (scale.name, scale.kappa) == ("tau", 1)
    assert np.array_equal(scale.group, [1, 0, 1])
