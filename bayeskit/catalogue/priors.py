"""Priors that several models offer by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pymc as pm

__all__ = ["half_prior"]


def half_prior(name: str, kind: str, scale: float, **options: Any) -> pm.Distribution:
    """A scale with a half-Cauchy, half-Normal or exponential prior, inside a ``pm.Model`` context.

    Parameters
    ----------
    name : str
        Of the variable.
    kind : {"half_cauchy", "half_normal", "exponential"}
    scale : float
        Its scale; of an exponential, its mean.
    **options
        Passed on, ``dims`` for example.
    """
    import pymc as pm

    if kind == "half_cauchy":
        return pm.HalfCauchy(name, scale, **options)
    if kind == "half_normal":
        return pm.HalfNormal(name, scale, **options)
    return pm.Exponential(name, scale=scale, **options)
