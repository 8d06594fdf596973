r"""The first proposal: a Student t at each mode, weighted by Laplace's estimate of its mass, and one for each slab.

A slab around a spike may have no mode of its own. Along rays from the highest mode, in the coordinates z in which it is
round, the mass of the shell of radius r is proportional to :math:`r^D f`; where that rises again beyond the mode, a
wider t is added.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator
from scipy import special

from bayeskit.marginal_likelihood.mixture_proposal import MixtureProposal
from bayeskit.marginal_likelihood.proposal import Proposal
from bayeskit.marginal_likelihood.quasi_monte_carlo.adaptation import NoProposal
from bayeskit.marginal_likelihood.quasi_monte_carlo.modes import FLAT, LocalMode, SearchedDensity, modes_of
from bayeskit.marginal_likelihood.quasi_monte_carlo.skewed_coordinates import SkewedCoordinates, coordinates_at
from bayeskit.marginal_likelihood.quasi_monte_carlo.weighted_mixture import balanced
from bayeskit.types import Array

__all__ = ["first_proposal"]

NO_PEAK = (
    "the density is not rounded at its highest point, as where an sd can go to zero together with the effects that it "
    "scales (a funnel): effects written as the sd times standard Normals leave none"
)
NEGLIGIBLE = 1e-9  # share of the largest mode's mass
DEGREES = 8.0  # of freedom
RAYS, RADII = 48, np.geomspace(1.0, 1e5, 21)  # in sqrt(D) standard deviations
RISE, SHELL = 3.0, 1e-7  # nats from the valley between two shells; share of the mass that a shell may hold unseen


def first_proposal(space: SearchedDensity, rng: Generator) -> tuple[SkewedCoordinates, MixtureProposal]:
    """Coordinates of the highest mode, and a proposal in them; NoProposal where there is no mode."""
    modes = modes_of(space, rng)
    if not modes:
        raise NoProposal("no mode of the density was found")
    highest, *others = modes
    coordinates = coordinates_at(space.log_density, highest.point, highest.hessian)
    if coordinates is None:
        raise NoProposal(NO_PEAK)
    if not np.abs(space.value_and_gradient(highest.point)[1] @ coordinates.root).max() < FLAT:
        raise NoProposal("the climb to a mode of the density does not end")
    central = Proposal(np.zeros(space.size), np.eye(space.size), DEGREES)
    made = [(highest.height + float(np.linalg.slogdet(coordinates.root)[1]), central)]
    made += [found for mode in others if (found := _component(coordinates, mode)) is not None]
    made += _slabs(space, coordinates, made[0][0], rng)
    masses = np.array([mass for mass, _ in made])
    if not np.all(np.isfinite(masses)):
        raise NoProposal("the density is infinite somewhere")
    kept = masses >= masses.max() + math.log(NEGLIGIBLE)
    components = tuple(component for keep, (_, component) in zip(kept, made, strict=True) if keep)
    return coordinates, balanced(special.softmax(masses[kept]), components)


def _component(coordinates: SkewedCoordinates, mode: LocalMode) -> tuple[float, Proposal] | None:
    """log of the mass of another mode, to a constant, and a t there."""
    there = coordinates.backward(mode.point[None])
    try:
        root = coordinates.root_at(mode.point, mode.hessian)
    except np.linalg.LinAlgError:
        return None
    mass = mode.height + float(coordinates.forward(there)[1][0]) + float(np.log(np.diag(root)).sum())
    found = math.isfinite(mass) and bool(np.all(np.isfinite(there)))
    return (mass, Proposal(there[0], root, DEGREES)) if found else None


def _slabs(
    space: SearchedDensity, coordinates: SkewedCoordinates, mass: float, rng: Generator
) -> list[tuple[float, Proposal]]:
    """Wider t's about the mode, where shells beyond it hold mass again."""
    size = space.size
    directions = rng.standard_normal((RAYS, size))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    points = (math.sqrt(size) * RADII[:, None, None] * directions).reshape(-1, size)
    x, volume = coordinates.forward(points)
    values = space.log_density(x) + volume
    values = np.where(np.isnan(values), -np.inf, values).reshape(len(RADII), RAYS)
    log_mean: Array = special.logsumexp(values, axis=1) - math.log(RAYS)
    shells = log_mean + size * np.log(RADII)
    found, lowest = [], math.inf
    for before, here, after, radius, density in zip(
        shells, shells[1:], [*shells[2:], -math.inf], RADII[1:], log_mean[1:], strict=False
    ):
        lowest = min(lowest, before)
        if here >= after and here > lowest + RISE and math.isfinite(here):
            # As of a Normal whose shell is highest at this radius, where it is down by D / 2 nats.
            at_centre = density + size / 2 + size * math.log(radius)
            if at_centre > mass + math.log(SHELL):
                found.append((at_centre, Proposal(np.zeros(size), radius * np.eye(size), DEGREES)))
            lowest = here
    return found
