"""Draws from densities that were fitted: variational inference, Pathfinder, Laplace's approximation.

They are independent draws of the wrong density, unless the posterior has the form that is fitted: that is what a trial
shows. They are given as one chain; there is nothing that chains could disagree on.
"""

from __future__ import annotations

from typing import Any

import pymc as pm

from bayeskit.sampling.named_samplers import Settings

__all__ = ["sample_laplace", "sample_pathfinder", "sample_variational"]


def sample_variational(model: pm.Model, settings: Settings, method: str) -> Any:
    """PyMC's ADVI at its defaults."""
    fitted = pm.fit(method=method, model=model, random_seed=settings.seed, progressbar=False)
    return fitted.sample(settings.draws * settings.chains, random_seed=settings.seed)


def sample_pathfinder(model: pm.Model, settings: Settings) -> Any:
    """Multi-path Pathfinder of pymc-extras, a path each chain."""
    from pymc_extras.inference import fit_pathfinder

    number = settings.draws * settings.chains
    asked = {"num_paths": settings.chains, "num_draws": number, "num_draws_per_path": number}
    return fit_pathfinder(model, **asked, random_seed=settings.seed, parallel=False, progressbar=False)


def sample_laplace(model: pm.Model, settings: Settings) -> Any:
    """A normal density at the mode, on the unconstrained scale, of pymc-extras."""
    from pymc_extras.inference import fit_laplace

    number = settings.draws * settings.chains
    return fit_laplace(model=model, draws=number, random_seed=settings.seed, progressbar=False)
