"""Variables that nothing depends on: they integrate to one, and are drawn from their own distribution."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayeskit.elimination.analysis import Analysis
from bayeskit.model.forward_sampling import draw_given

__all__ = ["draw_ancestral"]


def draw_ancestral(
    analysis: Analysis, draws: Mapping[str, np.ndarray], rng: np.random.Generator, number: int
) -> dict[str, np.ndarray]:
    """Variables that nothing depends on, drawn from their own distribution given the others, one draw for each draw."""
    if not analysis.ancestral:
        return {}
    return draw_given(analysis.joint.model, analysis.ancestral, draws, rng, number)
