"""Discrete unknowns: which coin, which state, how many, and when it changed."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayeskit.validation.references.reference_posterior import references_of

__all__ = ["DISCRETE"]


def _which_urn() -> pm.Model:
    """One of three urns, from which balls were drawn."""
    with pm.Model() as model:
        urn = pm.Categorical("urn", [0.5, 0.3, 0.2])
        pm.Binomial("red", n=8, p=pt.as_tensor([0.3, 0.5, 0.7])[urn], observed=5)
    return model


def _which_coins() -> pm.Model:
    """Two coins, and which of them was tossed is not known, five times over."""
    with pm.Model() as model:
        coin = pm.Categorical("coin", [0.4, 0.6], shape=5)
        pm.Binomial("heads", n=9, p=pt.as_tensor([0.2, 0.6])[coin], observed=[1, 4, 8, 3, 2])
    return model


def _how_many_animals() -> pm.Model:
    """The size of a population by capture and recapture: forty marked, fifty caught, eleven of them marked."""
    with pm.Model() as model:
        size = pm.DiscreteUniform("size", 79, 400)
        pm.HyperGeometric("marked", N=size, k=40, n=50, observed=11)
    return model


def _when_it_changed() -> pm.Model:
    """Coal-mining disasters of 1881-1900 (Jarrett 1979): the year of a change, and the rates before and after."""
    disasters = np.array([2, 5, 2, 2, 3, 4, 2, 1, 3, 2, 2, 1, 1, 1, 1, 3, 0, 0, 1, 0])
    with pm.Model() as model:
        change = pm.DiscreteUniform("change", 1, 19)
        before = pm.Gamma("before", 2.0, 1.0)
        after = pm.Gamma("after", 2.0, 1.0)
        rate = pm.math.switch(np.arange(20) < change, before, after)
        pm.Poisson("disasters", rate, observed=disasters)
    return model


def _labels_and_share() -> pm.Model:
    """The labels of six numbers from two known Normals, and the share of the first."""
    with pm.Model() as model:
        share = pm.Beta("share", 2.0, 2.0)
        label = pm.Bernoulli("label", share, shape=6)
        pm.Normal("y", pt.as_tensor([-1.0, 1.0])[label], 1.0, observed=[-0.7, 0.4, 1.6, 0.9, -1.8, 1.1])
    return model


def _states_of_a_chain() -> pm.Model:
    """The six hidden states of a Markov chain that likes to stay."""
    y = [0.3, 0.6, 2.1, 1.8, 0.9, -0.7]
    with pm.Model() as model:
        move = pt.as_tensor([[0.85, 0.15], [0.2, 0.8]])
        states = [pm.Categorical("state_0", [0.5, 0.5])]
        for t in range(1, 6):
            states.append(pm.Categorical(f"state_{t}", move[states[-1]]))
        pm.Normal("y", 2.0 * pt.stack(states), 1.0, observed=y)
    return model


def _three_switches() -> pm.Model:
    """Three switches, of which each depends on the one before, and a lamp that needs two."""
    with pm.Model() as model:
        first = pm.Bernoulli("first", 0.6)
        second = pm.Bernoulli("second", pm.math.switch(first, 0.8, 0.3))
        third = pm.Bernoulli("third", pm.math.switch(second, 0.7, 0.2))
        pm.Bernoulli("lamp", pm.math.switch(first + second + third >= 2, 0.95, 0.05), observed=1)
    return model


DISCRETE = references_of(
    "discrete",
    _which_urn,
    _which_coins,
    _how_many_animals,
    _when_it_changed,
    _labels_and_share,
    _states_of_a_chain,
    _three_switches,
)
