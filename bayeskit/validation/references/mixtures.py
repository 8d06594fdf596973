"""Finite mixtures, the labels summed out: weights, locations that are ordered, and labels that switch."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayeskit.validation.references.reference_posterior import references_of

__all__ = ["MIXTURES"]

TWO_CLUSTERS = np.array([-1.9, -2.4, -1.2, -2.1, -1.6, 1.4, 2.3, 1.8, 2.6, 1.1, 1.9, 2.2])


def _mixture_weight() -> pm.Model:
    """The share of one of two known Normals that overlap."""
    with pm.Model() as model:
        share = pm.Beta("share", 1.0, 1.0)
        weights = pt.stack([share, 1.0 - share])
        pm.NormalMixture("y", weights, [-1.0, 1.0], 1.0, observed=TWO_CLUSTERS / 2)
    return model


def _contaminated_mean() -> pm.Model:
    """A mean of numbers of which one in ten has ten times the error."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, 5.0)
        pm.NormalMixture("y", [0.9, 0.1], mean, [1.0, 10.0], observed=[0.4, -0.7, 1.2, 0.1, 7.9, -0.2])
    return model


def _ordered_means() -> pm.Model:
    """Two locations in order: the lower one, and a gap above zero."""
    with pm.Model() as model:
        lower = pm.Normal("lower", 0.0, 3.0)
        gap = pm.HalfNormal("gap", 4.0)
        pm.NormalMixture("y", [0.4, 0.6], pt.stack([lower, lower + gap]), 0.7, observed=TWO_CLUSTERS)
    return model


def _switching_labels() -> pm.Model:
    """Two exchangeable locations: the posterior has the same mode twice."""
    with pm.Model() as model:
        location = pm.Normal("location", 0.0, 2.0, shape=2)
        pm.NormalMixture("y", [0.5, 0.5], location, 1.5, observed=TWO_CLUSTERS[[0, 1, 5, 6]])
    return model


def _ordered_means_and_share() -> pm.Model:
    """Two locations in order and the share of the lower one."""
    with pm.Model() as model:
        lower = pm.Normal("lower", 0.0, 3.0)
        gap = pm.HalfNormal("gap", 4.0)
        share = pm.Beta("share", 2.0, 2.0)
        weights = pt.stack([share, 1.0 - share])
        pm.NormalMixture("y", weights, pt.stack([lower, lower + gap]), 0.7, observed=TWO_CLUSTERS)
    return model


def _zeros_in_excess() -> pm.Model:
    """Counts with more zeros than a Poisson has: a share and a rate."""
    with pm.Model() as model:
        share = pm.Beta("share", 1.0, 1.0)
        rate = pm.Gamma("rate", 2.0, 1.0)
        pm.ZeroInflatedPoisson("y", share, rate, observed=[0, 0, 3, 0, 1, 0, 2, 0, 0, 4, 1, 0])
    return model


def _two_coins() -> pm.Model:
    """Tosses of two coins, and which of them was tossed is not known: two chances in order."""
    with pm.Model() as model:
        low = pm.Beta("low", 2.0, 5.0)
        high = pm.Beta("high", 5.0, 2.0)
        heads = np.array([5, 9, 8, 4, 7])
        coins = [pm.Binomial.dist(n=10, p=low, shape=5), pm.Binomial.dist(n=10, p=high, shape=5)]
        pm.Mixture("heads", [0.5, 0.5], coins, observed=heads)
    return model


MIXTURES = references_of(
    "mixtures",
    _mixture_weight,
    _contaminated_mean,
    _ordered_means,
    _switching_labels,
    _ordered_means_and_share,
    _zeros_in_excess,
    _two_coins,
)
