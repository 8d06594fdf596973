r"""The prequential identity: the log evidence is the sum of one-step-ahead log predictive densities.

.. math:: \log p(y_{1:N}) = \sum_{n=1}^{N} \log p(y_n \mid y_{1:n-1})

So a model's log evidence is a score of its forecasts, each made before the observation was seen; and, because each term
is a ratio of two evidences, it checks a closed form against itself: any error that grows with the data shows.

Source: Dawid (1984), "Statistical theory: the prequential approach", JRSS A 147.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pymc as pm
from numpy.typing import NDArray

from bayeskit.arguments import checked
from bayeskit.errors import ModelError
from bayeskit.inference.ladder import infer

__all__ = ["one_step_ahead"]


@checked
def one_step_ahead(models: Sequence[pm.Model]) -> NDArray[np.float64]:
    """Log predictive density of each batch of observations, given those before it.

    Parameters
    ----------
    models : sequence of pymc.Model
        The same model with nested data: ``models[n]`` has the observations of ``models[n - 1]`` and some more.

    Returns
    -------
    array, shape (len(models),)
        log p(y₁), log p(y₂ | y₁), …; their sum is the log evidence of the last model.

    Raises
    ------
    ModelError
        If there are no models, or one of them has no exact log evidence.

    Notes
    -----
    Cost: one exact inference a model.
    """
    if not models:
        raise ModelError("no models: give the same model with nested data, the fewest observations first")
    evidence = []
    for position, model in enumerate(models):
        posterior = infer(model, draws=16, random_seed=0, progressbar=False)
        if posterior.log_evidence.label != "exact":
            raise ModelError(f"models[{position}] has no exact log evidence: {posterior.plan.method} is its method")
        evidence.append(posterior.log_evidence.value)
    return np.diff(evidence, prepend=0.0)
