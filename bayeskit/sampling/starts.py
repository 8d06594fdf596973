"""Where chains start: as the model says, with jitter, but where there is a density and no farther than it is followed.

Jitter of one on the unconstrained scale is 10⁵ posterior sds for the coefficient of a predictor of scale 10⁴. A Poisson
rate of it overflows, and where it does not, the chain starts from a point whose curvature says nothing of others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
from nutpie.compile_pymc import CompiledPyMCModel
from pymc.initial_point import make_initial_point_fn

from bayeskit.errors import InferenceError
from bayeskit.graphs.environment import lightly
from bayeskit.model.step_scales import step_scales
from bayeskit.sampling.native import objective_of

__all__ = ["jittered_to_scale", "require_a_start"]

STARTS = 500  # points that a chain of nutpie tries
TRIED = 8  # jittered points, one of which without a density has the scales looked at
MANY = 200  # numbers beyond which looking at each scale would take as long as sampling


def jittered_to_scale(compiled: CompiledPyMCModel, model: pm.Model) -> CompiledPyMCModel:
    """The same density with less jitter along axes of a small scale, if with all of it there is none at some starts."""
    first, objective = compiled.initial_point_func, objective_of(compiled)
    if compiled.n_dim > MANY or all(np.isfinite(objective(first(seed))[0]) for seed in range(TRIED)):
        return compiled
    with lightly():
        start = make_initial_point_fn(model=model, jitter_rvs=set(), return_transformed=True)(0)
    centre = np.concatenate([np.ravel(start[model.rvs_to_values[rv].name]) for rv in model.free_RVs]).astype(float)
    if not np.isfinite(objective(centre)[0]):
        return compiled
    share = np.minimum(step_scales(lambda points: np.array([objective(p)[0] for p in points]), centre), 1.0)

    def nearer(seed: Any) -> np.ndarray:
        return centre + share * (first(seed) - centre)

    return replace(compiled, initial_point_func=nearer)


def require_a_start(compiled: CompiledPyMCModel) -> None:
    """Refuse a density that is zero or not a number wherever a chain would try to start.

    nutpie ends at its first chain that cannot start, and lets the others try on: Python would crash if it ended then.
    """
    objective = objective_of(compiled)
    if all(objective(compiled.initial_point_func(seed))[0] == -np.inf for seed in range(STARTS)):
        raise InferenceError(
            "NUTS could not start: no density at any point; check the data and the support of the priors"
        )
