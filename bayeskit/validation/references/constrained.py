"""Supports with an end: boundaries, simplexes, correlations, and positive definite matrices."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayeskit.validation.bartlett import bartlett
from bayeskit.validation.references.reference_posterior import references_of

__all__ = ["CONSTRAINED"]


def _gamma_near_zero() -> pm.Model:
    """A Gamma posterior of shape 0.1: its logarithm has a tail of ten."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 0.1, 0.5)
        pm.Poisson("events", rate, observed=[0, 0, 0])
    return model


def _beta_at_both_ends() -> pm.Model:
    """A Beta posterior of the shape of a U."""
    with pm.Model() as model:
        chance = pm.Beta("chance", 0.1, 0.1)
        pm.Binomial("heads", n=1, p=chance, observed=1)
        pm.Binomial("tails", n=1, p=1 - chance, observed=1)
    return model


def _never_in_twenty() -> pm.Model:
    """A chance at the boundary: none in twenty, and Jeffreys' prior."""
    with pm.Model() as model:
        chance = pm.Beta("chance", 0.5, 0.5)
        pm.Binomial("cases", n=20, p=chance, observed=0)
    return model


def _positive_mean_of_negative_data() -> pm.Model:
    """A positive mean and data below zero: all the mass lies at the end of the support."""
    with pm.Model() as model:
        mean = pm.HalfNormal("mean", 2.0)
        pm.Normal("y", mean, 1.0, observed=[-1.2, -0.8, -2.1])
    return model


def _mean_between_walls() -> pm.Model:
    """A uniform prior, and data beyond its upper end."""
    with pm.Model() as model:
        mean = pm.Uniform("mean", -1.0, 2.0)
        pm.Normal("y", mean, 1.0, observed=[2.8, 2.1, 1.9])
    return model


def _truncated_normal() -> pm.Model:
    """A Normal prior cut on both sides."""
    with pm.Model() as model:
        mean = pm.TruncatedNormal("mean", mu=0.0, sigma=2.0, lower=-0.5, upper=3.0)
        pm.Normal("y", mean, 2.0, observed=[-1.0, 0.7])
    return model


def _exponential_mean() -> pm.Model:
    """A mean with an exponential prior, and data about zero."""
    with pm.Model() as model:
        mean = pm.Exponential("mean", 1.0)
        pm.Normal("y", mean, 1.0, observed=[0.3, -0.4, 0.6])
    return model


def _shares() -> pm.Model:
    """A Dirichlet posterior of four shares."""
    with pm.Model() as model:
        share = pm.Dirichlet("share", np.array([1.0, 2.0, 1.0, 0.5]))
        pm.Multinomial("count", n=20, p=share, observed=[4, 11, 3, 2])
    return model


def _sparse_shares() -> pm.Model:
    """A Dirichlet posterior of ten shares, seven of them next to nothing."""
    with pm.Model() as model:
        share = pm.Dirichlet("share", np.full(10, 0.3))
        pm.Multinomial("count", n=12, p=share, observed=[7, 0, 0, 4, 0, 0, 0, 1, 0, 0])
    return model


def _shares_of_rows() -> pm.Model:
    """Three Dirichlet posteriors at once, of three shares each."""
    with pm.Model() as model:
        share = pm.Dirichlet("share", np.ones((3, 3)))
        pm.Multinomial("count", n=[12, 8, 30], p=share, observed=[[10, 1, 1], [2, 3, 3], [0, 5, 25]])
    return model


def _correlation_of_pairs() -> pm.Model:
    """The correlation of twelve pairs, near its upper end."""
    rng = np.random.default_rng(31)
    pairs = rng.multivariate_normal(np.zeros(2), [[1.0, 0.95], [0.95, 1.0]], size=12)
    with pm.Model() as model:
        rho = pm.Uniform("rho", -1.0, 1.0)
        covariance = pt.stack([pt.stack([1.0, rho]), pt.stack([rho, 1.0])])
        pm.MvNormal("pairs", np.zeros(2), covariance, observed=pairs)
    return model


def _ordered_cutpoints() -> pm.Model:
    """Two cutpoints of an ordered probit, the upper one as a gap above the lower."""
    with pm.Model() as model:
        lower = pm.Normal("lower", 0.0, 2.0)
        gap = pm.Exponential("gap", 1.0)
        below = pm.math.invprobit(pt.stack([lower, lower + gap]))
        chances = pt.stack([below[0], below[1] - below[0], 1.0 - below[1]])
        pm.Multinomial("answers", n=15, p=chances, observed=[4, 2, 9])
    return model


def _end_of_a_range() -> pm.Model:
    """The upper end of a uniform distribution: the density is largest where it ends, at the largest number."""
    with pm.Model() as model:
        above = pm.Exponential("above", 1.0)
        end = pm.Deterministic("end", 4.1 + above)
        pm.Uniform("y", 0.0, end, observed=[1.3, 4.1, 2.2, 3.7])
    return model


def _wishart(data: np.ndarray) -> pm.Model:
    size = data.shape[1]
    with pm.Model() as model:
        precision = pm.Wishart("precision", size + 2, np.eye(size) / (size + 2))
        pm.MvNormal("y", np.zeros(size), tau=precision, observed=data)
    return model


def _wishart_of_pairs() -> pm.Model:
    return _wishart(np.random.default_rng(32).normal(size=(10, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]]))


def _wishart_of_triples() -> pm.Model:
    return _wishart(np.random.default_rng(33).normal(size=(15, 3)) * [1.0, 0.3, 2.0])


def _precision_of_pairs() -> pm.Model:
    """A precision matrix of two columns, moved in Bartlett's decomposition."""
    return bartlett(_wishart_of_pairs(), "precision")


def _precision_of_triples() -> pm.Model:
    """A precision matrix of three columns, moved in Bartlett's decomposition."""
    return bartlett(_wishart_of_triples(), "precision")


CONSTRAINED = (
    *references_of(
        "constrained",
        _gamma_near_zero,
        _beta_at_both_ends,
        _never_in_twenty,
        _positive_mean_of_negative_data,
        _mean_between_walls,
        _truncated_normal,
        _exponential_mean,
        _shares,
        _sparse_shares,
        _shares_of_rows,
        _correlation_of_pairs,
        _ordered_cutpoints,
        _end_of_a_range,
    ),
    *references_of("constrained", _precision_of_pairs, solved=_wishart_of_pairs),
    *references_of("constrained", _precision_of_triples, solved=_wishart_of_triples),
)
