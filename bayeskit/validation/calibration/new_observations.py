r"""Where a new observation lies in its posterior predictive distribution: are predictive intervals as wide as they say?

.. math:: \theta^\ast \sim p(\theta), \quad y, \tilde y^\ast \sim p(\cdot \mid \theta^\ast), \quad
          \tilde y_l \sim p(\cdot \mid \theta_l), \; \theta_l \sim p(\theta \mid y)

Given y, ỹ* and the ỹ_l are draws of one distribution if the posterior is right, so the randomised rank of ỹ* among L of
them is exactly uniform. Of each observed variable one entry is predicted, another one at random for each data set: the
intervals are then right over the entries, which is what a user of them counts.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayeskit.validation.calibration.probability_transform import of_draws

__all__ = ["prediction_name", "predictions"]


def prediction_name(name: str) -> str:
    """What the quantity of an observed variable is called."""
    return f"prediction of {name}"


def predictions(
    new: Mapping[str, np.ndarray],
    new_of_truth: Mapping[str, np.ndarray],
    entry_rng: np.random.Generator,
    rank_rng: np.random.Generator,
) -> dict[str, float]:
    """u of a new observation of each variable; first axis of new data the draws, of those of the truth one draw."""
    values = {}
    for name, of_truth in new_of_truth.items():
        truth = of_truth[0].ravel()
        if truth.size:
            entry = int(entry_rng.integers(truth.size))
            draws = new[name].reshape(len(new[name]), -1)[:, [entry]].astype(float)
            values[prediction_name(name)] = float(of_draws(draws, truth[entry : entry + 1].astype(float), rank_rng)[0])
    return values
