"""Forty densities of four to thirty numbers whose integral is one: what an importance sampler gets wrong unseen.

Modes apart, necks, bends, tails, edges and spikes, and beside them what is only skewed or correlated. Each is a prior
of PyMC, or a Normal of a curved function of another, so that its integral is one by its definition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pymc as pm
import pytensor.tensor as pt

__all__ = ["DENSITIES"]


def modes(size: int, centres: Sequence[float], shares: Sequence[float], scales: Sequence[float]) -> None:
    """Normals along the first axis."""
    places = [np.eye(size)[0] * c for c in centres]
    parts = [pm.MvNormal.dist(place, s**2 * np.eye(size)) for place, s in zip(places, scales, strict=True)]
    pm.Mixture("x", list(shares), parts)


def cross(size: int, long: float) -> None:
    """Two Normals, long along different axes."""
    spread = [np.diag(np.where(np.arange(size) == axis, long**2, 1.0)) for axis in (0, 1)]
    pm.Mixture("x", [0.5, 0.5], [pm.MvNormal.dist(np.zeros(size), s) for s in spread])


def banana(size: int, bend: float) -> None:
    a = pm.Normal("a", 0, 3)
    pm.Normal("c", bend * (a**2 - 9), 1)
    pm.Normal("rest", 0, 1, shape=size - 2)


def twisted(size: int, often: float) -> None:
    a = pm.Normal("a", 0, 1, shape=size)
    pm.Normal("c", pt.sin(often * a), 0.3, shape=size)


def funnel(size: int, sd: float) -> None:
    pm.Normal("x", 0, pt.exp(pm.Normal("driver", 0, sd) / 2), shape=size - 1)


def horseshoe(size: int) -> None:
    pm.Normal("b", 0, pm.HalfCauchy("whole", 1) * pm.HalfCauchy("local", 1, shape=size), shape=size)


def ring(size: int, radius: float) -> None:
    """A ridge all around: an angle that is uniform, a distance from the centre, and the rest."""
    x = pm.Flat("x", shape=2)
    distance = pt.sqrt(pt.sum(x**2))
    pm.Potential("ring", pm.logp(pm.Normal.dist(radius, 0.3), distance) - pt.log(2 * np.pi * distance))
    pm.Normal("rest", 0, 1, shape=size - 2)


def ratio(size: int) -> None:
    """Two factors of which hardly more than the product is known."""
    a, b = pm.Normal("a", 0, 1, shape=size), pm.Normal("b", 0, 1, shape=size)
    pm.Normal("c", a * b, 0.1, shape=size)


DENSITIES: dict[str, Callable[[], object]] = {
    "correlated by 0.9999": lambda: pm.MvNormal("x", np.zeros(6), 0.9999 + 1e-4 * np.eye(6)),
    "thirty numbers": lambda: pm.MvNormal("x", np.zeros(30), 0.9 + 0.1 * np.eye(30)),
    "scales of 1e-6 to 1e6": lambda: pm.Normal("x", 0, np.geomspace(1e-6, 1e6, 7), shape=7),
    "uniform": lambda: pm.Uniform("x", 0, 1, shape=6),
    "simplex": lambda: pm.Dirichlet("x", np.full(5, 2.0)),
    "simplex, at its edges": lambda: pm.Dirichlet("x", np.full(5, 0.3)),
    "Gamma(0.3)": lambda: pm.Gamma("x", 0.3, 1, shape=5),
    "Gamma(2)": lambda: pm.Gamma("x", 2, 1, shape=6),
    "Beta(5, 3)": lambda: pm.Beta("x", 5, 3, shape=6),
    "Beta(0.1, 0.1)": lambda: pm.Beta("x", 0.1, 0.1, shape=4),
    "Laplace": lambda: pm.Laplace("x", 0, 1, shape=8),
    "skewed Normal": lambda: pm.SkewNormal("x", mu=0, sigma=1, alpha=20, shape=5),
    "log-Normal": lambda: pm.LogNormal("x", 0, 2, shape=6),
    "Student t of 3 degrees": lambda: pm.MvStudentT("x", nu=3, mu=np.zeros(4), scale=np.eye(4)),
    "Student t of 2, each": lambda: pm.StudentT("x", nu=2, mu=0, sigma=1, shape=5),
    "Student t of 1.2, each": lambda: pm.StudentT("x", nu=1.2, mu=0, sigma=1, shape=4),
    "Cauchy": lambda: pm.Cauchy("x", 0, 1, shape=8),
    "half-Cauchy": lambda: pm.HalfCauchy("x", 1, shape=5),
    "inverse Gamma(0.3)": lambda: pm.InverseGamma("x", 0.3, 1, shape=4),
    "Pareto(0.7)": lambda: pm.Pareto("x", alpha=0.7, m=1, shape=4),
    "horseshoe": lambda: horseshoe(2),
    "banana, slight": lambda: banana(4, 0.03),
    "banana": lambda: banana(8, 0.1),
    "banana, sharp": lambda: banana(4, 0.5),
    "banana, a horseshoe": lambda: banana(4, 2.0),
    "twisted once": lambda: twisted(2, 1.0),
    "twisted often": lambda: twisted(4, 3.0),
    "funnel, shallow": lambda: funnel(4, 0.3),
    "funnel, sd 1": lambda: funnel(5, 1.0),
    "funnel, sd 2": lambda: funnel(8, 2.0),
    "Neal's funnel": lambda: funnel(10, 3.0),
    "factors of a product": lambda: ratio(2),
    "ring": lambda: ring(4, 6.0),
    "cross": lambda: cross(4, 12.0),
    "two modes": lambda: modes(4, (0, 3), (0.5, 0.5), (1, 1)),
    "two modes, unlike": lambda: modes(8, (0, 6), (0.9, 0.1), (1, 0.1)),
    "two modes, one hidden": lambda: modes(10, (0, 25), (0.8, 0.2), (1, 0.02)),
    "five modes": lambda: modes(4, (-20, -8, 0, 9, 30), (0.2,) * 5, (1, 0.5, 2, 1, 0.3)),
    "spike upon a slab": lambda: modes(5, (0, 0), (0.5, 0.5), (1, 0.01)),
    "slab under a spike": lambda: modes(8, (0, 0), (0.5, 0.5), (1, 10)),
}
