"""The sampler that is right by definition: independent draws of the closed form, or of quadrature."""

from __future__ import annotations

import pymc as pm
import xarray as xr

from bayeskit.errors import ModelError
from bayeskit.inference.ladder import infer
from bayeskit.sampling.named_samplers import Settings

__all__ = ["draw_exactly"]


def draw_exactly(model: pm.Model, settings: Settings) -> xr.DataTree:
    """Draws of :func:`bayeskit.infer`, as many as of all chains; a ModelError where they would be a sampler's."""
    number = settings.draws * settings.chains
    post = infer(model, draws=number, random_seed=settings.seed, progressbar=False)
    if post.log_evidence.label == "estimated":
        raise ModelError(f"the posterior has no closed form: {post.method} would answer")
    return post.tree
