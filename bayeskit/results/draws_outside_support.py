"""Draws that a model cannot have: a scale below zero, a probability above one, an entry out of order.

What follows from them is none of the model's, and PyTensor raises where it draws data with them. A continuous variable
is outside where PyMC's transform of it is no number (at an end of its support it is infinite), a composition where it
does not sum to one or an entry is negative, and a discrete variable where its log density is −∞. What its parents are
does not matter: a bad one is named itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors

from bayeskit.errors import DataError
from bayeskit.graphs.environment import lightly
from bayeskit.graphs.rewriting import apart_from_checks
from bayeskit.model.forward_sampling import over_draws
from bayeskit.model.transforms import forward_graphs
from bayeskit.results.tree import stacked_draws

__all__ = ["require_within_support", "support_requirement"]

REMEDY = "give draws of this model, each variable on its own scale (sigma, not log sigma)"
COMPOSITION = "SimplexTransform"
ROUNDING = 1e-4  # of a sum of entries that may have been kept in single precision
# Of graphs that cannot be vectorised over draws, or of a distribution without a density, nothing is said.
UNKNOWN = (NotImplementedError, TypeError, ValueError, np.linalg.LinAlgError)

type _Draws = Mapping[str, np.ndarray]  # by variable, first axis the draws


def require_within_support(model: pm.Model, draws: xr.Dataset) -> None:
    """A DataError that names the first free variable of which draws lie outside of its support, and how many.

    Of variables without draws nothing is said, nor of those whose ends they are.
    """
    drawn = [str(n) for n, v in draws.data_vars.items() if {"chain", "draw"} <= {*v.dims}]
    support_requirement(model)(stacked_draws(draws, [str(rv.name) for rv in model.free_RVs if rv.name in drawn]))


def support_requirement(model: pm.Model) -> Callable[[_Draws], None]:
    """The same as a function of draws, first axis the draws, made once for many sets of them."""
    rules: dict[str, Callable[[_Draws], np.ndarray]] = {}
    for rv in model.free_RVs:
        discrete = not rv.dtype.startswith("float")
        if discrete or model.rvs_to_transforms.get(rv) is not None:
            with lightly(), suppress(*UNKNOWN):
                rules[str(rv.name)] = _inside_of(model, rv, discrete)

    def require(draws: _Draws) -> None:
        for name, inside in ((n, rule) for n, rule in rules.items() if n in draws):
            found = np.ones(len(draws[name]), dtype=bool)
            with suppress(KeyError, *UNKNOWN):
                found = inside(draws)
            if outside := int(np.count_nonzero(~found.reshape(len(found), -1).all(axis=1))):
                lie = "lies" if outside == 1 else "lie"
                of = f"{outside:,} of {len(found):,} draws of {name!r} {lie} outside of its support"
                raise DataError(f"{of}: {REMEDY}")

    return require


def _inside_of(model: pm.Model, rv: Any, discrete: bool) -> Callable[[_Draws], np.ndarray]:
    """Which draws of a variable are inside its support, entry by entry."""
    name = str(rv.name)
    if type(model.rvs_to_transforms.get(rv)).__name__ == COMPOSITION:  # at whose ends the transform is no number, too
        return lambda draws: _is_composition(np.asarray(draws[name]))
    inputs, moved = forward_graphs(model, model.free_RVs)
    known = dict(zip(model.free_RVs, inputs, strict=True))
    graph = dict(zip(known, moved, strict=True))[rv]
    if discrete:
        graph = apart_from_checks(graph_replace([pm.logp(rv, known[rv])], known, strict=False)[0])[0]
    read = {*ancestors([graph])}
    evaluate = over_draws([graph], {str(v.name): i for v, i in known.items() if i in read})

    def inside(draws: _Draws) -> np.ndarray:
        own = np.asarray(draws[name])
        (found,) = evaluate(draws, len(own))
        if not discrete:
            return ~np.isnan(found)
        whole = (own == np.round(own)).reshape(len(own), -1).all(axis=1, keepdims=True)
        return (found > -np.inf).reshape(len(own), -1) & whole

    return inside


def _is_composition(values: np.ndarray) -> np.ndarray:
    return np.isclose(values.sum(axis=-1, keepdims=True), 1, atol=ROUNDING) & (values >= 0)
