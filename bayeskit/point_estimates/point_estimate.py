"""Points instead of distributions for what remains: type-II maximum likelihood, and the mode of the posterior.

Everything with a closed form given φ is integrated out first; φ is then moved by its exact gradient on PyMC's
unconstrained scale, x. Neither objective contains the Jacobian of that scale, so the maximum does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
import pymc as pm

from bayeskit.arguments import Count, RandomSeed, checked, whole_seed
from bayeskit.chunks.given import given_model
from bayeskit.elimination.collapsed_density import Collapsed
from bayeskit.elimination.collapsed_model import collapsed_model, explained, require_collapsed
from bayeskit.elimination.plan import analyse
from bayeskit.elimination.recovery import Recovery
from bayeskit.errors import ModelError
from bayeskit.graphs.environment import lightly, on_one_thread
from bayeskit.graphs.rewriting import widen
from bayeskit.marginal_likelihood.conventions import Audit, audit, stated
from bayeskit.marginal_likelihood.exchangeable import exchangeable_in
from bayeskit.marginal_likelihood.laplace import next_order
from bayeskit.marginal_likelihood.permutations import labellings, number_of_labellings
from bayeskit.model.ascent import value_and_gradient
from bayeskit.model.maximum import FLAT, Maximum, maximum, maximum_near
from bayeskit.model.unconstrained import Objective, Unconstrained
from bayeskit.results.records import LogEvidence, Plan
from bayeskit.types import Graph

__all__ = ["PointEstimate", "map_estimate", "maximize_evidence"]


@dataclass(frozen=True, eq=False)
class PointEstimate:
    """A maximum over the remaining variables φ.

    Attributes
    ----------
    point : dict of str to array
        φ̂ on its own support.
    log_density : float
        The objective there: log p(y | φ̂), or log p(y, φ̂).
    curvature : numpy.ndarray
        Negative Hessian of the objective in φ, entries in the order of ``names``.
    covariance : numpy.ndarray
        Its inverse, or pseudo-inverse where entries sum to one; NaN where a maximum lies at the end of the support, and
        for entries that a flat direction moves.
    names : tuple of str
        The scalar entries of φ.
    log_evidence : LogEvidence
        Laplace's approximation; its error is the difference between the approximations in φ and in x, and what the
        next term of the expansion adds along each axis by itself; both vanish as the posterior becomes Normal. An
        indication, not a bound; infinite where φ is x, of which there is but one approximation.
    gradient : float
        Largest entry of the gradient at φ̂, each for a step that changes the objective by about a nat.
    converged : bool
    at_boundary : tuple of str
        Variables whose maximum is at the end of their support (a scale of zero, say), where nothing is a local maximum.
    plan : Plan
    flat : tuple of str
        Variables that move along a direction in which the objective is constant, as loadings do that may be rotated: φ̂
        is one of many maxima.
    """

    point: dict[str, np.ndarray]
    log_density: float
    curvature: np.ndarray
    covariance: np.ndarray
    names: tuple[str, ...]
    log_evidence: LogEvidence
    gradient: float
    converged: bool
    at_boundary: tuple[str, ...]
    plan: Plan
    _collapsed: Collapsed = field(repr=False)
    flat: tuple[str, ...] = ()

    @checked
    def draw(self, number: Count = 1000, *, random_seed: RandomSeed = None) -> dict[str, np.ndarray]:
        """Exact draws of the eliminated variables given φ̂, first axis the draws."""
        fixed = {n: np.broadcast_to(v, (number, *np.shape(v))) for n, v in self.point.items()}
        with lightly():
            values = Recovery(self._collapsed).draw(fixed, np.random.default_rng(whole_seed(random_seed)))
        return {n: v for n, v in values.items() if n not in self.point}

    def __str__(self) -> str:
        sd = np.sqrt(np.diag(self.covariance))
        flat = np.concatenate([np.ravel(v) for v in self.point.values()])
        lines = [f"{n}: {v:.6g} (sd {s:.3g})" for n, v, s in zip(self.names, flat, sd, strict=True)]
        if self.at_boundary:
            lines.append(f"at the end of the support: {', '.join(self.at_boundary)}; there is no local maximum")
        if self.flat:
            lines.append(f"flat in a direction of {', '.join(self.flat)}: this is one of many maxima")
        lines.append(f"objective: {self.log_density:.8g}; log evidence: {self.log_evidence}")
        return "\n".join(lines)


@checked
def maximize_evidence(
    model: pm.Model | Callable[[Any], pm.Model],
    *,
    chunks: Any = None,
    dim: str | None = None,
    client: Any = None,
    checkpoint: str | PathLike[str] | None = None,
    random_seed: RandomSeed = None,
) -> PointEstimate:
    r"""Type-II maximum likelihood (empirical Bayes): the remaining variables at the maximum of the evidence.

    .. math:: \hat\phi = \arg\max_\phi \log \int p(y, \theta \mid \phi) \, d\theta

    The priors of :math:`\phi` do not enter the maximum, only the Laplace evidence
    :math:`\log p(y \mid \hat\phi) + \log p(\hat\phi) + \tfrac k2 \log 2\pi - \tfrac12 \log |H|`.

    Parameters
    ----------
    model : pymc.Model
        Or with ``chunks`` a function that builds the model of the rows of one.
    chunks, dim, client, checkpoint
        As of :func:`bayeskit.infer`: the rows are read once, and what is maximised is a function of their sums.
    random_seed : int, sequence of int or numpy.random.Generator, optional
        Of the starting points.

    Returns
    -------
    PointEstimate

    Raises
    ------
    ModelError
        If nothing remains, a remaining variable is discrete, or its prior is not separate from the likelihood.
    InferenceError
        If the objective is not finite at any starting point.
    """
    whole = given_model(model, chunks, dim, client, checkpoint)
    return _maximum(whole, random_seed, with_prior=False)


@checked
def map_estimate(
    model: pm.Model | Callable[[Any], pm.Model],
    *,
    chunks: Any = None,
    dim: str | None = None,
    client: Any = None,
    checkpoint: str | PathLike[str] | None = None,
    random_seed: RandomSeed = None,
) -> PointEstimate:
    r"""The mode of :math:`p(\phi \mid y)`, with everything that has a closed form integrated out.

    The density is that of the variables as the model has them, without the Jacobian of a transform, as in
    :func:`pymc.find_MAP`.

    Parameters
    ----------
    model : pymc.Model
        Or with ``chunks`` a function that builds the model of the rows of one.
    chunks, dim, client, checkpoint
        As of :func:`bayeskit.infer`: the rows are read once, and what is maximised is a function of their sums.
    random_seed : int, sequence of int or numpy.random.Generator, optional
        Of the starting points.

    Returns
    -------
    PointEstimate

    Raises
    ------
    ModelError
        If nothing remains or a remaining variable is discrete.
    InferenceError
        If the objective is not finite at any starting point.
    """
    whole = given_model(model, chunks, dim, client, checkpoint)
    return _maximum(whole, random_seed, with_prior=True)


def _maximum(model: pm.Model, random_seed: RandomSeed, *, with_prior: bool) -> PointEstimate:
    """The maximum of log p(y | φ), or of log p(y, φ), with what is known around it."""
    seed = whole_seed(random_seed)
    with lightly(), explained(), on_one_thread():
        collapsed = _collapsed_for(model, with_prior)
        small = collapsed_model(collapsed)
        space = Unconstrained(small, collapsed.weight)
        densities = [small.logp(vars=of, jacobian=False, sum=True) for of in (small.free_RVs, small.potentials)]
        graphs: list[Graph] = widen([*densities, small.logp(jacobian=True, sum=True)])
        prior, likelihood, with_jacobian = graphs
        objective = value_and_gradient(space, likelihood + prior if with_prior else likelihood)
        top = maximum(objective, space, np.random.default_rng(seed))
        curvature, covariance, moved = _of_entries(top, _jacobian(space, top))
        natural = space.at(top.x)
        flat = np.split(moved, np.cumsum([np.size(v) for v in natural.values()])[:-1])
        flat_names = tuple(n for n, m in zip(natural, flat, strict=True) if np.any(m))
        reason = f"the objective is flat in a direction of {', '.join(flat_names)}" if flat_names else ""
        if not reason and not top.converged:
            reason = "no local maximum was found to approximate it at"
        evidence = LogEvidence(np.nan, np.inf, "estimated", reason)
        if not reason:
            evidence = _laplace(value_and_gradient(space, with_jacobian), space, top, audit(collapsed.analysis))
    names: list[str] = []
    for name, entry in natural.items():
        inside = [", ".join(map(str, i)) for i in np.ndindex(np.shape(entry))]
        names += [f"{name}[{i}]" if i else name for i in inside]
    return PointEstimate(
        point=natural,
        log_density=float(top.value),
        curvature=curvature,
        covariance=covariance,
        names=tuple(names),
        log_evidence=evidence,
        gradient=float(np.max(np.abs(top.gradient))),
        converged=top.converged,
        at_boundary=tuple(name for name, block in space.slices.items() if np.any(top.far[block])),
        plan=collapsed.analysis.plan,
        _collapsed=collapsed,
        flat=flat_names,
    )


def _laplace(whole: Objective, space: Unconstrained, top: Maximum, audited: Audit) -> LogEvidence:
    """Laplace's approximation at a maximum, counted once for every labelling of exchangeable components."""
    # |H| in φ is |H| in x over |dφ/dx|², whose root is the Jacobian, taken in as many entries as are free.
    in_phi = float(whole(top.x)[0]) + top.log_gauss()
    mode = maximum_near(whole, space, top.x, top.units)
    in_x = mode.value + mode.log_gauss()
    groups = [g for g in exchangeable_in(space, top.x[None]) if g.complete]
    images = np.array([m @ top.x for m in labellings(space, groups)])
    same = np.sum(np.all(np.abs(images - top.x) < FLAT * top.units, axis=1))
    copies = np.log(number_of_labellings(groups) / same)
    error = abs(in_phi - in_x) + next_order(whole, mode) if np.any(space.bounded) else np.inf
    return stated(LogEvidence(float(in_phi + copies), error, "estimated"), groups, audited)


def _collapsed_for(model: pm.Model, with_prior: bool) -> Collapsed:
    """The collapsed density of a model whose remaining variables can be maximised over."""
    analysis = analyse(model)
    remaining = analysis.plan.remaining
    discrete = [n for n in remaining if not analysis.joint.values[n].type.dtype.startswith("float")]
    if discrete:
        raise ModelError(f"{', '.join(discrete)} is discrete and has no gradient; sum it out first")
    collapsed = require_collapsed(analysis)
    mixed = [n for n in remaining if n not in collapsed.priors]
    if mixed and not with_prior:
        why = "so that there is no likelihood without it; use bayeskit.map_estimate"
        raise ModelError(f"the prior of {', '.join(mixed)} depends on variables that are integrated out, {why}")
    return collapsed


def _jacobian(space: Unconstrained, top: Maximum, step: float = 1e-4) -> np.ndarray:
    """dφ/dx, for x in units of its own."""
    points = np.concatenate([top.x + k * step * np.diag(top.units) for k in (1, -1, 2, -2)])
    flat = np.concatenate([v.reshape(len(points), -1) for v in space.backward(points).values()], axis=1)
    one, minus, two, less = flat.reshape(4, len(top.x), -1)
    return ((8 * (one - minus) - (two - less)) / (12 * step)).T


def _of_entries(top: Maximum, jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Curvature and covariance of the entries of φ, from H and dφ/dx, and which of them a flat direction moves.

    The entries of a simplex are one more than their coordinates. Both matrices are then singular, each the other's
    pseudo-inverse. Both are NaN where there is no maximum; the covariance is for what a flat direction moves.
    """
    if not top.regular:
        unknown = np.full((len(jacobian), len(jacobian)), np.nan)
        return unknown, unknown, np.zeros(len(jacobian), dtype=bool)
    eigenvalues, axes = top.spectrum
    inverse = np.linalg.inv(jacobian) if len(jacobian) == len(top.x) else np.linalg.pinv(jacobian)
    turned = jacobian @ axes
    moved = np.any(np.abs(turned[:, eigenvalues == 0]) > FLAT * np.linalg.norm(jacobian, axis=1)[:, None], axis=1)
    curved = turned[:, eigenvalues > 0]
    covariance = (curved / eigenvalues[eigenvalues > 0]) @ curved.T
    covariance[moved], covariance[:, moved] = np.nan, np.nan
    return inverse.T @ top.hessian @ inverse, covariance, moved
