"""What pictures of mixtures and hidden Markov models show: probabilities of the states, and what each state emits.

Averages are over posterior draws, some hundred of them: probabilities given each draw are exact. Draws that
exchange the labels of components are relabelled first; otherwise all components would look like their average.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors

from bayeskit.elimination.recovery import state_recovery
from bayeskit.finite.axis_dependence import EntriesMixed, connection
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import silently
from bayeskit.graphs.rewriting import apart_from_checks
from bayeskit.marginal_likelihood.relabelling import under_one_labelling
from bayeskit.reporting.records import COLOURS
from bayeskit.results.records import Posterior
from bayeskit.results.tree import thinned

__all__ = ["LatentStates", "latent_states"]

MAX_DRAWS = 200
MAX_NUMBERS = 20_000_000  # of all draws' probabilities
SUMS = ("categorical", "markov_chain")


@dataclass(frozen=True)
class LatentStates:
    """One finite variable that was summed out, behind one observed variable."""

    name: str  # of the finite variable
    observed: str  # the other's name
    labels: tuple[str, ...]  # of the states, as the tables of the page have them
    kind: str  # "independent" or "chain"
    family: str  # of the observed variable, as PyMC names its operation
    probabilities: np.ndarray  # (*shape, K): p(state of an entry = k | y)
    entries: np.ndarray  # the flat index of the entry that each row of the observed variable depends on
    parameters: list[np.ndarray]  # (draws, K, ...): of the observed variable in each state, for some posterior draws
    weights: np.ndarray | None  # (draws, K): prior, where the states are independent and these the same for all entries
    y: np.ndarray  # the observed values, the rows first
    relabelled: bool  # whether the draws had to be brought under one labelling


def latent_states(post: Posterior) -> LatentStates | None:
    """The states of a mixture or of a hidden Markov model.

    None where not exactly one finite variable was summed out, of at most ten states, for one observed variable
    whose rows have an entry of it each and whose parameters depend on nothing else that changes from row to row.
    """
    model = post.model
    if len(model.observed_RVs) != 1 or not any(s.family in SUMS for s in post.plan.eliminated):
        return None
    analysis = post.analysis
    if len(analysis.summed) != 1:
        return None
    (summed,) = analysis.summed
    if summed.kind == "joint" or not 2 <= len(summed.values) <= len(COLOURS) or summed.values[0] != 0:
        return None
    observed = model.observed_RVs[0]
    z = analysis.original.values[summed.name]
    factor, _, _ = apart_from_checks(analysis.original.factors[str(observed.name)])
    try:
        axes, _ = connection(factor, z, summed.shape)
    except EntriesMixed:
        return None
    if not axes or axes[0] is None or {a for x in axes if x is not None for a in x.all} != set(axes[0].all):
        return None
    tree, relabelled = under_one_labelling(post)
    # One labelling throughout is as good as another, and the one that the tables of the page have.
    tree = tree if relabelled else post.tree
    wanted = min(MAX_DRAWS, max(1, MAX_NUMBERS // (int(np.prod(summed.shape)) * len(summed.values))))
    draws = thinned(tree, [rv.name for rv in model.free_RVs if rv.name in tree["posterior"].data_vars], wanted)
    number = len(draws[summed.name])
    parts = state_recovery(analysis)[summed.name].probabilities(draws, number)
    probabilities = np.asarray(sum(np.sum(found, axis=0) for _, found in parts)) / number
    states = len(summed.values)
    try:
        parameters = _by_state(model, summed.name, states, observed.owner.op.dist_params(observed.owner), draws)
        rv = model[summed.name]
        priors = rv.owner.op.dist_params(rv.owner) if summed.kind == "independent" else []
        weights = [w[:, 0].reshape(len(w), -1) for w in _by_state(model, summed.name, states, priors, draws)]
    except ValueError:  # something in the parameters has a value for each row
        return None
    return LatentStates(
        name=summed.name,
        observed=str(observed.name),
        labels=_labels(model, summed.name, states),
        kind=summed.kind,
        family=type(observed.owner.op).__name__.removesuffix("RV"),
        probabilities=probabilities,
        entries=axes[0].indices(axes[0].length(summed.shape)),
        parameters=parameters,
        weights=next((w for w in weights if w.shape[1] == states), None),
        y=np.asarray(post.tree["observed_data"][observed.name]),
        relabelled=relabelled,
    )


def _labels(model: pm.Model, name: str, states: int) -> tuple[str, ...]:
    """What the dim of the states calls them, if the other variables have but one of that length; else their numbers."""
    others = [rv.name for rv in model.free_RVs if rv.name != name]
    dims = {dim for other in others for dim in model.named_vars_to_dims.get(other) or ()}
    known = {tuple(map(str, labels)) for dim in dims if (labels := model.coords.get(dim)) is not None}
    found = [labels for labels in known if len(labels) == states]
    return found[0] if len(found) == 1 else tuple(map(str, range(states)))


def _by_state(
    model: pm.Model, name: str, states: int, graphs: list[Variable], draws: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    """Graphs of the model with the finite variable in each state everywhere, for each draw: (draws, K, ...).

    ValueError if one that depends on the finite variable changes from row to row all the same.
    """
    free = {rv: rv.type(name=rv.name) for rv in model.free_RVs}
    found = clone_replace(list(graphs), free, rebuild_strict=False)
    function = compile_small(list(free.values()), [pt.as_tensor_variable(g) for g in found])
    shape = np.shape(draws[name])[1:]
    every = [np.full(shape, k, dtype=draws[name].dtype) for k in range(states)]
    with silently():
        rows = [
            [function(*(z if v.name == name else draws[v.name][n] for v in free)) for z in every]
            for n in range(len(draws[name]))
        ]
    result = [np.stack([np.stack([k[i] for k in row]) for row in rows]) for i in range(len(graphs))]
    for i, graph in enumerate(graphs):
        if model[name] in set(ancestors([graph])):
            if not np.array_equal(result[i], np.broadcast_to(result[i][:, :, :1], result[i].shape), equal_nan=True):
                raise ValueError(f"row by row parameters of {name!r}")
            result[i] = result[i][:, :, 0]
    return result
