r"""Whether densities that a model's author wrote integrate to one over the data: a Jacobian may be missing.

The density of log y, taken for one of y, has no normaliser that other models share. What ``pm.CustomDist`` gives is
therefore integrated over each value of the data, the others held, at draws from the posterior,

.. math:: \int p(y_i \mid \theta) \, dy_i = \int p(y_i^{\text{obs}} \pm e^u) \, e^u \, du,

by the trapezoidal rule: what is observed lies within a few widths of where the density is. More than one is no density;
less than one may be what values with a probability of their own leave.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.custom import CustomDistRV
from pytensor.graph.traversal import ancestors

from bayeskit.errors import ModelError
from bayeskit.graphs.compile import compile_stacked
from bayeskit.graphs.environment import silently
from bayeskit.graphs.rewriting import substitute
from bayeskit.model.data_slots import held_array
from bayeskit.model.snapshot import on_its_data
from bayeskit.results.records import Posterior

__all__ = ["require_normalised"]

DRAWS = 2
NODES = np.linspace(-26.0, 8.0, 6801)  # logarithms of distances from what was observed, in units of the data's spread
MOST, BATCH = 3_000, 2_000_000  # numbers in the data that are looked at, and at once
OFF, SETTLED = 0.02, 0.005  # of an integral that is one, and by which every second node may give another


@on_its_data
def require_normalised(posterior: Posterior, name: str) -> list[str]:
    """Refuse a density of observed values that integrates to more than one; a note where it is less."""
    if not isinstance(posterior.model, pm.Model):
        return []
    notes = []
    for rv in posterior.model.observed_RVs:
        masses = _masses(posterior, rv)
        if not masses.size:
            continue
        least, most = float(np.min(masses)), float(np.max(masses))
        if most > 1 + OFF:
            raise ModelError(
                f"{name}: its author's density of {rv.name} integrates to {most:.3g} over a value of it, so that it is "
                "no density of these data: a normaliser, or the Jacobian of a transformation, is missing"
            )
        if least < 1 - OFF:
            less = f"its author's density of {rv.name} integrates to {least:.3g} over a value of it"
            notes.append(f"{name}: {less}: right only if other values of it have a probability of their own")
    return notes


def _masses(posterior: Posterior, rv: Any) -> np.ndarray:
    """∫ p(y_i | θ) dy_i at a few draws; none where a density is not the author's own, or of values together."""
    model, nothing = posterior.model, np.empty(0)
    draws = posterior.tree["posterior"].to_dataset() if "posterior" in posterior.tree.children else {}
    values = held_array(model.rvs_to_values[rv])
    others = [v for v in ancestors([rv]) if v in model.free_RVs]
    if not isinstance(rv.owner.op, CustomDistRV) or values is None or any(v.name not in draws for v in others):
        return nothing
    if rv.dtype.startswith(("int", "uint", "bool")) or rv.owner.op.ndim_supp or not 0 < values.size <= MOST:
        return nothing
    given, x = {v: v.type() for v in others}, pt.as_tensor(values).type()
    try:
        function = compile_stacked([x, *given.values()], pm.logp(substitute([rv], given)[0], x))
        points = [draws[v.name].stack(sample=("chain", "draw")).transpose("sample", ...).to_numpy() for v in others]
        number = min([DRAWS, *map(len, points)])
        with silently():
            found = [_integrated(function, values, [p[-1 - k] for p in points]) for k in range(number)]
        return np.concatenate(found)
    except (ArithmeticError, AssertionError, NotImplementedError, TypeError, ValueError):  # it takes no other values
        return nothing


def _integrated(function: Any, values: np.ndarray, point: list[np.ndarray]) -> np.ndarray:
    """Of the entries at which a coarser rule gives the same."""
    unit = float(np.ptp(values)) or max(1.0, float(np.max(np.abs(values))))
    steps = unit * np.exp(NODES)
    fine, coarse, most = np.zeros(values.shape), np.zeros(values.shape), max(1, BATCH // values.size)
    for start in range(0, len(steps), most):
        some = steps[start : start + most].reshape(-1, *[1] * values.ndim)
        given = [np.broadcast_to(p, (len(some), *p.shape)) for p in point]
        density = sum(np.nan_to_num(np.exp(function(values + s * some, *given)), posinf=0.0) for s in (-1.0, 1.0))
        if density.shape[1:] != values.shape:
            raise ValueError("a density of several values together")
        fine += np.sum(density * some, axis=0)
        coarse += 2 * np.sum((density * some)[start % 2 :: 2], axis=0)
    width = NODES[1] - NODES[0]
    return np.asarray(fine[np.abs(fine - coarse) * width < SETTLED] * width)
