"""Points instead of distributions for what remains: type-II maximum likelihood, and the mode of the posterior.

Everything with a closed form given φ is integrated out first; φ is then moved by its exact gradient on PyMC's
unconstrained scale, x. Neither objective contains the Jacobian of that scale, so the maximum does not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bayeskit.elimination.collapsed_density import Collapsed, collapsed_density
from bayeskit.elimination.collapsed_model import collapsed_model, explained
from bayeskit.elimination.impossible_data import require_possible
from bayeskit.elimination.plan import analyse
from bayeskit.elimination.positive_definite import require_positive_definite
from bayeskit.elimination.recovery import Recovery
from bayeskit.errors import InferenceError, ModelError
from bayeskit.graphs.environment import lightly, on_one_thread
from bayeskit.graphs.rewriting import widen
from bayeskit.model.ascent import climb, value_and_gradient
from bayeskit.model.unconstrained import Objective, Unconstrained, negative_hessian
from bayeskit.results.records import LogEvidence, Plan
from bayeskit.types import Graph

if TYPE_CHECKING:
    import pymc as pm

__all__ = ["PointEstimate", "map_estimate", "maximize_evidence"]

FAR = 12.0  # on the unconstrained scale, from where a maximum counts as lying at the end of the support
END = 30.0
STARTS = 6
FLAT = 1e-5  # gradient, in nats a unit of x, below which a point is a maximum


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
        Its inverse, or pseudo-inverse where entries sum to one; NaN where a maximum lies at the end of the support.
    names : tuple of str
        The scalar entries of φ.
    log_evidence : LogEvidence
        Laplace's approximation; its error is the difference between the approximations in φ and in x, which agree as
        the posterior becomes Normal. An indication, not a bound.
    gradient : float
        Largest entry of the gradient at φ̂, on the unconstrained scale.
    converged : bool
    at_boundary : tuple of str
        Variables whose maximum is at the end of their support (a scale of zero, say), where nothing is a local maximum.
    plan : Plan
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

    def draw(self, number: int = 1000, *, random_seed: int | None = None) -> dict[str, np.ndarray]:
        """Exact draws of the eliminated variables given φ̂, first axis the draws."""
        fixed = {n: np.broadcast_to(v, (number, *np.shape(v))) for n, v in self.point.items()}
        with lightly():
            values = Recovery(self._collapsed).draw(fixed, np.random.default_rng(random_seed))
        return {n: v for n, v in values.items() if n not in self.point}

    def __str__(self) -> str:
        sd = np.sqrt(np.diag(self.covariance))
        flat = np.concatenate([np.ravel(v) for v in self.point.values()])
        lines = [f"{n}: {v:.6g} (sd {s:.3g})" for n, v, s in zip(self.names, flat, sd, strict=True)]
        if self.at_boundary:
            lines.append(f"at the end of the support: {', '.join(self.at_boundary)}; there is no local maximum")
        lines.append(f"objective: {self.log_density:.8g}; log evidence: {self.log_evidence}")
        return "\n".join(lines)


def maximize_evidence(model: pm.Model, *, random_seed: int | None = None) -> PointEstimate:
    r"""Type-II maximum likelihood (empirical Bayes): the remaining variables at the maximum of the evidence.

    .. math:: \hat\phi = \arg\max_\phi \log \int p(y, \theta \mid \phi) \, d\theta

    The priors of :math:`\phi` do not enter the maximum, only the Laplace evidence
    :math:`\log p(y \mid \hat\phi) + \log p(\hat\phi) + \tfrac k2 \log 2\pi - \tfrac12 \log |H|`.

    Parameters
    ----------
    model : pymc.Model
    random_seed : int, optional
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
    return _maximum(model, random_seed, with_prior=False)


def map_estimate(model: pm.Model, *, random_seed: int | None = None) -> PointEstimate:
    r"""The mode of :math:`p(\phi \mid y)`, with everything that has a closed form integrated out.

    The density is that of the variables as the model has them, without the Jacobian of a transform, as in
    :func:`pymc.find_MAP`.

    Parameters
    ----------
    model : pymc.Model
    random_seed : int, optional
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
    return _maximum(model, random_seed, with_prior=True)


def _maximum(model: pm.Model, random_seed: int | None, *, with_prior: bool) -> PointEstimate:
    """The maximum of log p(y | φ), or of log p(y, φ), with what is known around it."""
    with lightly(), explained(), on_one_thread():
        collapsed = _collapsed_for(model, with_prior)
        small = collapsed_model(collapsed)
        space = Unconstrained(small)
        densities = [
            small.logp(vars=small.free_RVs, jacobian=False, sum=True),
            small.logp(vars=small.potentials, jacobian=False, sum=True),
            small.logp(jacobian=True, sum=True),
        ]
        graphs: list[Graph] = widen(densities)
        prior, likelihood, with_jacobian = graphs
        objective = value_and_gradient(space, likelihood + prior if with_prior else likelihood)
        best, far = _to_the_end(objective, space, _climb(objective, space, np.random.default_rng(random_seed)))
        hessian = negative_hessian(objective, best)
        value, gradient = objective(best)
        singular = bool(np.any(far)) or not np.all(np.linalg.eigvalsh(hessian) > 0)
        curvature, covariance = _of_entries(hessian, _jacobian(space, best), singular)
        evidence = LogEvidence(np.nan, np.inf, "estimated")
        if not singular:
            whole = value_and_gradient(space, with_jacobian)
            # |H| in φ is |H| in x over |dφ/dx|², whose root is the Jacobian, taken in as many entries as are free.
            in_phi = float(whole(best)[0]) + _gauss(hessian)
            mode = _climb(whole, space, np.random.default_rng(random_seed), first=best)
            in_x = float(whole(mode)[0]) + _gauss(negative_hessian(whole, mode))
            evidence = LogEvidence(in_phi, abs(in_phi - in_x), "estimated")
    natural = space.at(best)
    names: list[str] = []
    for name, entry in natural.items():
        inside = [", ".join(map(str, i)) for i in np.ndindex(np.shape(entry))]
        names += [f"{name}[{i}]" if i else name for i in inside]
    boundary = [name for name, block in space.slices.items() if np.any(far[block])]
    largest = float(np.max(np.abs(gradient)))
    return PointEstimate(
        point=natural,
        log_density=float(value),
        curvature=curvature,
        covariance=covariance,
        names=tuple(names),
        log_evidence=evidence,
        gradient=largest,
        converged=largest < FLAT * (1 + abs(value) * 1e-3) and not boundary,
        at_boundary=tuple(boundary),
        plan=collapsed.analysis.plan,
        _collapsed=collapsed,
    )


def _collapsed_for(model: pm.Model, with_prior: bool) -> Collapsed:
    """The collapsed density of a model whose remaining variables can be maximised over."""
    analysis = analyse(model)
    plan = analysis.plan
    if not plan.remaining:
        raise ModelError("nothing remains to be maximised: every variable has a closed form; use bayeskit.infer")
    discrete = [n for n in plan.remaining if not analysis.joint.values[n].type.dtype.startswith("float")]
    if discrete:
        raise ModelError(f"{', '.join(discrete)} is discrete and has no gradient; sum it out first")
    require_possible(analysis.original)
    require_positive_definite(analysis)
    collapsed = collapsed_density(analysis)
    mixed = [n for n in plan.remaining if n not in collapsed.priors]
    if mixed and not with_prior:
        raise ModelError(
            f"the prior of {', '.join(mixed)} depends on variables that are integrated out, so that there is no "
            "likelihood without it; use bayeskit.map_estimate"
        )
    return collapsed


def _climb(
    objective: Objective, space: Unconstrained, rng: np.random.Generator, first: np.ndarray | None = None
) -> np.ndarray:
    """The best of several local maxima, polished by Newton steps."""
    starts = [space.start if first is None else first]
    starts += [space.start + rng.normal(scale=1.5, size=space.size) for _ in range(STARTS - 1)]
    # A scale may run to zero: −30 is e⁻³⁰, and the end of the road.
    bounds = [(-END, END) if b else (None, None) for b in space.bounded]
    tops = [climb(objective, start, bounds=bounds) for start in starts if np.isfinite(objective(start)[0])]
    if not tops:
        raise InferenceError("the log density is not finite at any starting point; give the variables an initval")
    x = max(tops, key=lambda top: top[1])[0]
    for _ in range(20):
        value, gradient = objective(x)
        if np.max(np.abs(gradient)) < 1e-9 or np.any(np.abs(x) > FAR):
            break
        hessian = negative_hessian(objective, x)
        if not np.all(np.linalg.eigvalsh(hessian) > 0):
            break
        tried = x + np.linalg.solve(hessian, gradient)
        if not objective(tried)[0] >= value - 1e-9 * (1 + abs(value)):
            break
        x = tried
    return x


def _to_the_end(objective: Objective, space: Unconstrained, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Move entries along which the objective does not fall to the end of their support, and say which."""
    value, moved = objective(x)[0], x.copy()
    far = np.abs(x) > FAR
    for j in np.flatnonzero(space.bounded):
        for sign in (-1.0, 1.0):
            tried = moved.copy()
            tried[j] += 5 * sign
            if objective(tried)[0] > value - FLAT * (1 + 1e-3 * abs(value)):
                moved[j], far[j] = sign * END, True
                break
    return (moved, far) if objective(moved)[0] >= value - 1e-3 else (x, far)


def _jacobian(space: Unconstrained, x: np.ndarray, step: float = 1e-4) -> np.ndarray:
    """dφ/dx."""
    points = np.concatenate([x + k * step * np.eye(len(x)) for k in (1, -1, 2, -2)])
    flat = np.concatenate([v.reshape(len(points), -1) for v in space.backward(points).values()], axis=1)
    one, minus, two, less = flat.reshape(4, len(x), -1)
    return ((8 * (one - minus) - (two - less)) / (12 * step)).T


def _of_entries(hessian: np.ndarray, jacobian: np.ndarray, singular: bool) -> tuple[np.ndarray, np.ndarray]:
    """Curvature and covariance of the entries of φ, from H and dφ/dx; NaN where there are none.

    The entries of a simplex are one more than their coordinates. Both matrices are then singular, each the other's
    pseudo-inverse.
    """
    if singular:
        unknown = np.full((len(jacobian), len(jacobian)), np.nan)
        return unknown, unknown
    inverse = np.linalg.inv(jacobian) if len(jacobian) == len(hessian) else np.linalg.pinv(jacobian)
    return inverse.T @ hessian @ inverse, jacobian @ np.linalg.inv(hessian) @ jacobian.T


def _gauss(curvature: np.ndarray) -> float:
    """log ∫ exp(−½ xᵀHx) dx."""
    return float(0.5 * len(curvature) * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(curvature)[1])
