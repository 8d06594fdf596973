"""Chains and particles of PyMC, and of the libraries that it hands over to."""

from __future__ import annotations

from typing import Any

import pymc as pm

from bayeskit.sampling.named_samplers import Settings

__all__ = ["sample_chains", "sample_particles"]

HIDDEN: dict[str, Any] = {"cores": 1, "progressbar": False, "compute_convergence_checks": False}


def sample_chains(model: pm.Model, settings: Settings, nuts_sampler: str = "", step: str = "") -> Any:
    """The draws of ``pm.sample``: by a library's NUTS, or by one of PyMC's own steps for all variables."""
    asked = {"draws": settings.draws, "chains": settings.chains, "tune": settings.tune, "random_seed": settings.seed}
    with model:
        if step:
            return pm.sample(step=getattr(pm, step)(), **asked, **HIDDEN)
        return pm.sample(nuts_sampler=nuts_sampler, **asked, **HIDDEN)


def sample_particles(model: pm.Model, settings: Settings) -> Any:
    """The particles of ``pm.sample_smc``, a population each chain."""
    asked = {"draws": settings.draws, "chains": settings.chains, "random_seed": settings.seed}
    return pm.sample_smc(model=model, **asked, **HIDDEN)
