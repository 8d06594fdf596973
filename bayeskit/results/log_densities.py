"""The log likelihood and the log prior of every draw, entry by entry, as LOO and prior sensitivity read them.

    log_likelihood[c, d, i] = log p(y_i | θ_cd),        log_prior[c, d, j] = log p(θ_cd,j | its parents)

Both are factors of the log joint density in untransformed space, at all draws at once: their graphs are vectorised over
the draws and run in NumPy. Names, dims and coords are those of :func:`pymc.stats.compute_log_likelihood` and
:func:`pymc.stats.compute_log_prior`, which go from draw to draw, and which answer where a graph cannot be vectorised.
Like theirs, the groups leave Potentials out, and entries that were missing in the data count to the prior.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from arviz_base import dict_to_dataset
from pymc.backends.arviz import coords_and_dims_for_inferencedata
from pymc.stats.log_density import compute_log_likelihood, compute_log_prior
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors

from bayeskit.errors import ModelError
from bayeskit.graphs.compile import compile_small, stacked
from bayeskit.graphs.environment import lightly, silently
from bayeskit.graphs.rewriting import substitute, with_constant_data, without_checks
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.summed_likelihood import ADDED_UP, known_rows
from bayeskit.results.tree import stacked_draws

__all__ = ["log_densities", "with_log_densities"]

HELD = 5_000_000  # numbers of the largest part of a graph held at once
KEPT = 125_000_000  # numbers of a group, 8 bytes each
GROUPS = {"log_likelihood": compute_log_likelihood, "log_prior": compute_log_prior}


def with_log_densities(model: pm.Model, tree: xr.DataTree, joint: LogJoint | None = None) -> xr.DataTree:
    """A tree of the same draws with ``log_likelihood`` and ``log_prior``, too; ``joint`` is the model's, if known."""
    if "posterior" not in tree.children:
        raise ModelError("there are no draws, so they have no log likelihood; infer with draws=4000")
    if not (absent := [group for group in GROUPS if group not in tree.children]):
        return tree
    if known_rows(model):
        raise ModelError(ADDED_UP)
    if not (model.free_RVs and model.observed_RVs):
        missing = "observed" if model.free_RVs else "free"
        raise ModelError(f"the model has no {missing} variable, so there is no log likelihood of a draw")
    result = tree.copy(deep=False)
    found = log_densities(model, tree["posterior"].to_dataset(), absent, joint)
    result.update({group: xr.DataTree(of) for group, of in found.items()})
    return result


def log_densities(
    model: pm.Model, draws: xr.Dataset, groups: Iterable[str] = tuple(GROUPS), joint: LogJoint | None = None
) -> dict[str, xr.Dataset]:
    """log p(y_i | θ) and log p(θ_j) of each entry of the variables, at draws with the dims ``chain`` and ``draw``."""
    with lightly():
        joint = LogJoint.from_model(model) if joint is None else joint
    rvs = {"log_likelihood": model.observed_RVs, "log_prior": model.free_RVs}
    names = {group: [str(rv.name) for rv in rvs[group]] for group in groups}
    return {group: _log_densities(joint, draws, of, group) for group, of in names.items() if of}


def _log_densities(joint: LogJoint, draws: xr.Dataset, names: Sequence[str], group: str) -> xr.Dataset:
    """The log densities of some variables at each draw, as a group of the ArviZ schema."""
    lengths = draws.sizes["chain"], draws.sizes["draw"]
    read = [n for n in joint.names if any(n in joint.scopes[name] for name in names)]
    points = {n: v.astype(joint.values[n].type.dtype, copy=False) for n, v in stacked_draws(draws, read).items()}
    with lightly(), silently():
        inputs, factors = _graphs(joint, points, names)
        size = math.prod(lengths) * sum(_size(f) for f in factors)
        if size > KEPT:
            size_of = f"the {group} of {math.prod(lengths):,} draws is {size:,} numbers"
            raise ModelError(f"{size_of}, and at most {KEPT:,} are kept; infer with fewer draws")
        values = None
        with suppress(NotImplementedError, TypeError, ValueError):  # PyMC answers, or says what is wrong
            values = _over_draws(inputs, factors, list(points.values()), math.prod(lengths))
    if values is None:
        tree = xr.DataTree.from_dict({"posterior": draws})
        options = {"model": joint.model, "extend_inferencedata": False, "progressbar": False}
        # Compiling costs more than a few thousand evaluations of a small graph, so few rewrites.
        result: xr.Dataset = GROUPS[group](tree, **options, compile_kwargs={"mode": "FAST_COMPILE"})[list(names)]
    else:
        laid_out = {n: v.reshape(*lengths, *v.shape[1:]) for n, v in zip(names, values, strict=True)}
        coords, dims = coords_and_dims_for_inferencedata(joint.model)
        result = dict_to_dataset(laid_out, coords=coords, dims=dims, skip_event_dims=True)
    return result.assign_coords(chain=draws["chain"], draw=draws["draw"])


def _graphs(
    joint: LogJoint, points: Mapping[str, np.ndarray], names: Sequence[str]
) -> tuple[list[Variable], list[Variable]]:
    """Inputs of the shape of a draw, and the log densities in them, −∞ where a parameter is not valid."""
    inputs = {joint.values[n]: pt.TensorType(joint.values[n].type.dtype, v.shape[1:])(n) for n, v in points.items()}
    # With data and draws of known lengths the graphs say how much they hold.
    known = substitute(with_constant_data([joint.factors[n] for n in names]), inputs)
    return list(inputs.values()), without_checks(known)


def _size(graph: Variable) -> int:
    return math.prod(1 if n is None else n for n in getattr(graph.type, "shape", ()))


def _over_draws(
    inputs: Sequence[Variable], graphs: Sequence[Variable], points: Sequence[np.ndarray], draws: int
) -> list[np.ndarray]:
    """Graphs at every draw, first axis the draws; a ValueError if they are not what they are at one draw."""
    batched = stacked(inputs)
    function = compile_small(list(batched.values()), vectorize_graph(list(graphs), batched))
    one = compile_small(inputs, list(graphs))(*(v[0] for v in points))
    step = max(1, HELD // max(1, *map(_size, ancestors(graphs))))
    result = [np.empty((draws, *o.shape)) for o in one]
    for start in range(0, draws, step):
        rows = slice(start, start + step)
        for filled, values in zip(result, function(*(v[rows] for v in points)), strict=True):
            filled[rows] = values  # what depends on no variable has no axis of the draws, and is spread over them
    if not all(np.allclose(v[0], o, rtol=1e-6, atol=1e-6, equal_nan=True) for v, o in zip(result, one, strict=True)):
        raise ValueError("vectorised, the graphs say something else")
    return result
