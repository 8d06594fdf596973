"""The certificate of a collapsed density, where something remains.

    log p(y, θ, φ) − log p(θ | φ, y) − log p(y, φ) = 0

is held at posterior and prior draws, with PyMC's own log density on the left.
"""

from __future__ import annotations

import numpy as np

from bayeskit.elimination.certificate import certify_terms
from bayeskit.elimination.collapsed_density import Collapsed
from bayeskit.elimination.log_joint_evaluator import Evaluator
from bayeskit.elimination.recovery import Recovery
from bayeskit.graphs.environment import silently
from bayeskit.model.forward_sampling import prior_sampler

__all__ = ["certify_collapsed"]

POINTS = 4  # posterior draws, and as many prior draws, at which it is evaluated


def certify_collapsed(
    collapsed: Collapsed, recovery: Recovery, draws: dict[str, np.ndarray], random_seed: int
) -> float:
    """The spread of log p(y, θ, φ) − log p(θ | φ, y) − log p(y, φ), in nats.

    Raises
    ------
    CertificateError
        If it is more than rounding.
    """
    analysis = collapsed.analysis
    evaluator = analysis.remembered("evaluator", lambda: Evaluator(analysis))
    sampler = analysis.remembered("prior", lambda: prior_sampler(analysis.joint.model))
    number = min(POINTS, len(next(iter(draws.values()))))
    points = [{n: v[k] for n, v in draws.items()} for k in range(number)]
    prior = list(sampler(number, random_seed))
    away = {n: np.stack([p[n] for p in prior]) for n in collapsed.remaining}
    with silently():
        far = recovery.draw(away, np.random.default_rng([random_seed, 2]), leaves=False)
    points += [{n: v[k] for n, v in far.items()} for k in range(number)]

    def terms(point: dict[str, np.ndarray]) -> tuple[float, float, float]:
        arguments = [
            np.asarray(point[n], dtype=v.type.dtype) for n, v in zip(collapsed.remaining, collapsed.inputs, strict=True)
        ]
        with silently():
            return evaluator.log_joint(point), recovery.log_density(point), float(collapsed.log_density(*arguments))

    return certify_terms(map(terms, points))
