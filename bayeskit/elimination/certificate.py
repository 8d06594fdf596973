"""The certificate: log p(y, θ) − log p(θ | y) must be the same number, log p(y), at every θ.

log p(y, θ) is the graph that PyMC derives, its constants widened, evaluated in extended precision where the data are
small (:mod:`bayeskit.graphs.extended_precision`) at posterior and prior draws; the tests hold both the graph and the
arithmetic to ``model.compile_logp`` over every model with a known answer. PyMC's function itself is not made for each
answer: deriving it a second time is a quarter of the time of a small model. Where θ is so far out that the density is
10⁴ nats below the posterior's, rounding alone moves the difference by more than 1e-8; there agreement is asked for
relative to the size of the terms, and the point does not count in the reported spread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bayeskit.elimination.conjugate_posterior import Component
from bayeskit.elimination.log_joint_evaluator import Evaluator
from bayeskit.errors import CertificateError

__all__ = ["certify", "certify_terms", "require"]

NEAR = 1e4  # nats
ABSOLUTE = 1e-6  # a spread over this is an error, whatever the size of the terms
RELATIVE = 1e-9


def certify(evaluator: Evaluator, component: Component, points: Iterable[Mapping[str, np.ndarray]]) -> float:
    """The spread of log p(y, θ) − log p(θ | y) over points, in nats.

    Parameters
    ----------
    evaluator : Evaluator
    component : Component
        The closed form to be proved.
    points : iterable of mapping of str to array
        Values of every variable; those outside the support by rounding are passed over.

    Raises
    ------
    CertificateError
        If the spread is more than rounding: the closed form would be wrong.
    """
    # Of D Normal variables a draw's log density is D/2 below that of the centre: 12,500 nats with 25,000 of them.
    below = 0.5 * sum(np.size(v) for v in component.centre.values())
    level = component.log_evidence + component.log_density(component.centre) - below
    spread = 0.0
    for point in points:
        if not _inside(component, point):
            continue
        log_joint = evaluator.log_joint(point)
        log_posterior = component.log_density(point)
        spread = max(spread, require(log_joint, log_posterior, component.log_evidence, level))
    return spread


def certify_terms(terms: Iterable[tuple[float, float, float]]) -> float:
    """The largest |log p(y, θ) − log p(θ | y) − log p(y)| over points, in nats, where the last is a density itself.

    Parameters
    ----------
    terms : iterable of tuple of float
        For each point log p(y, θ, φ), log p(θ | φ, y) and log p(y, φ); one outside the support, where both sides are
        −∞, is passed over. The first within it is taken for a typical one.

    Raises
    ------
    CertificateError
        If the difference is more than rounding at any of them.
    """
    spread, level = 0.0, None
    for joint, conditional, marginal in terms:
        if not np.isfinite(joint) and (not np.isfinite(marginal) or conditional == joint == -np.inf):
            continue
        level = joint if level is None else level
        spread = max(spread, require(joint, conditional, marginal, level))
    return spread


def require(log_joint: Any, log_posterior: Any, log_evidence: Any, level: Any) -> float:
    """|log p(y, θ) − log p(θ | y) − log p(y)| at one point; zero where the point is too far out to count.

    Parameters
    ----------
    log_joint, log_posterior, log_evidence : float
        The three terms.
    level : float
        log p(y, θ) at a typical point of the posterior.

    Raises
    ------
    CertificateError
        If the difference is more than rounding: the closed form would be wrong.
    """
    difference = float(abs(log_joint - log_posterior - log_evidence))
    size = float(max(1.0, abs(level), abs(log_evidence), abs(log_joint), abs(log_posterior)))
    if not difference <= max(ABSOLUTE, RELATIVE * size):
        raise CertificateError(
            f"the certificate failed: log p(y, θ) − log p(θ | y) differs by {difference:.3g} nats between "
            "two points, so the closed form is not proved; use method='nuts', and please report the model"
        )
    return difference if abs(log_joint - level) <= NEAR else 0.0


def _inside(component: Component, point: Mapping[str, np.ndarray]) -> bool:
    """Whether no draw was rounded onto the edge of its support: Beta(1.5, 0.05) gives 1.0 now and then."""
    scales = [p.scale for p in component.parts if p.scale is not None]
    return all(s.family.support.inside(np.asarray(point[s.name])) for s in scales)
