r"""``relabel``: posterior draws of exchangeable components under one labelling, so that their summaries mean something.

The posterior of a mixture is the same under all K! labellings: the mean of the first component's mean over all of it
is that of any other. Each draw is therefore permuted to agree with the others. The method is that of Stephens (2000),
section 4, with a Normal for each component: a permutation :math:`\pi_t` for each draw t and a Normal for each label k
are chosen in turn to increase

.. math:: \sum_t \sum_k \log N(s(\theta_{t, \pi_t(k)}) \mid m_k, \mathrm{diag}(v_k)),

s being what belongs to one component (its mean, the logarithms of its weight and scale, its probability of staying);
the permutation step is an assignment problem, solved exactly for any K. The start is pivotal: each draw is permuted to
be nearest to the draw of highest posterior density (Marin, Mengersen and Robert 2005); or, if that ends higher, each
chain keeps the labelling it has, and the chains are matched to the first.

Relabelled draws are for summaries. They are no longer draws of the posterior but of one labelling's part of it, which
for components that overlap depends on the method.

Sources: Stephens (2000), Dealing with label switching in mixture models, Journal of the Royal Statistical Society B 62,
795-809; Papastamoulis (2016), label.switching, Journal of Statistical Software 69, code snippet 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.collapsed_model import collapse
from bayeskit.errors import DataError, ModelError, OptionError
from bayeskit.graphs.environment import lightly, silently
from bayeskit.marginal_likelihood.exchangeable import exchangeable
from bayeskit.marginal_likelihood.label_assignment import agreed_orders
from bayeskit.marginal_likelihood.permutations import Exchangeable
from bayeskit.model.forward_sampling import deterministics
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.snapshot import on_its_data
from bayeskit.model.support import support_of
from bayeskit.results.records import Posterior
from bayeskit.results.tree import draws_in, stacked_draws

__all__ = ["groups_without_order", "over_all_labellings", "relabel", "under_one_labelling"]

METHOD = "iterated Normal assignment (Stephens 2000) from a pivot (Marin, Mengersen and Robert 2005)"
AT_RANDOM = 0x1ABE15
PIVOTS = 200  # draws of which the one of highest density is the pivot, where the sampler did not say
type Labels = str | Sequence[str] | Mapping[str, str]


@on_its_data
def relabel(
    draws: Posterior | xr.DataTree | xr.Dataset,
    model: pm.Model | None = None,
    *,
    labels: str | Sequence[str] | Mapping[str, str] = (),
    groups: Sequence[Exchangeable] | None = None,
) -> xr.DataTree:
    """Posterior draws with the labels of exchangeable components made to agree from draw to draw.

    Parameters
    ----------
    draws : Posterior, xarray.DataTree or xarray.Dataset
        As :func:`bayeskit.inference.ladder` or ``pymc.sample`` give them.
    model : pymc.Model, optional
        The model they are draws of; a Posterior has it.
    labels : sequence of str, or mapping of str to str, optional
        Variables whose values are labels (allocations, hidden states); by default the finite variables with as many
        values as there are components. With several groups of components, a mapping from each to any variable with an
        entry for each of the components that it chooses from.
    groups : sequence of bayeskit.permutations.Exchangeable, optional
        The exchangeable components; looked for in the model by default.

    Returns
    -------
    xarray.DataTree
        A copy in which every variable with component axes is permuted draw by draw, and Deterministics are computed
        anew. Labels are numbered in increasing order of the quantity that tells the components apart best.
        ``sample_stats["labelling"]`` holds for each draw and new label the old one (``labelling_<variable>`` for the
        second group and those after it); ``posterior.attrs["relabelling"]`` names the method.

    Raises
    ------
    ModelError
        If the model has no exchangeable components.
    DataError
        If the draws hold none of their variables.
    OptionError
        If ``labels`` names no variable of the draws, or no group.

    Notes
    -----
    Time is linear in the number of draws and cubic in the number of components.
    """
    known: Analysis | None = None
    if isinstance(draws, Posterior):
        known = draws.analysis if model in (None, draws.model) else None
        model, draws = model or draws.model, draws.tree
    if model is None:
        raise OptionError("relabel needs the model that the draws are from: relabel(draws, model)")
    tree = draws.copy() if isinstance(draws, xr.DataTree) else xr.DataTree.from_dict({"posterior": draws})
    if looked_for := groups is None:
        of, look = model, lambda: exchangeable(_without_labels(of, known), None if known is None else tree)
        groups = look() if known is None else known.remembered_of(of, "exchangeable", look)
    if not groups:
        raise ModelError("the model has no exchangeable components: exchanging labels changes its density")
    joint = LogJoint.from_model(model) if known is None else known.original
    if looked_for:
        names = draws_in(tree, {}).data_vars
        draws_in(tree, {n: shape for n, shape in joint.shapes().items() if n in names})
    return _relabelled(tree, joint, tuple(groups), labels)


def over_all_labellings(post: Posterior) -> Posterior:
    """A posterior whose draws have every labelling of exchangeable components equally often.

    That is what the posterior has, whatever the chains did: two that stay in one labelling agree with each other, and
    their mean of one component's weight, of which the evidence depends on the prior, is that of one mode of several.
    """
    if post.method not in ("nuts", "importance") or "posterior" not in post.tree.children or post.analysis is None:
        return post
    if not (groups := groups_without_order(post.model, post.analysis)):
        return post
    tree = _relabelled(post.tree.copy(), post.analysis.original, groups, (), np.random.default_rng(AT_RANDOM))
    return replace(post, tree=tree)


def groups_without_order(model: pm.Model, known: Analysis) -> tuple[Exchangeable, ...]:
    """The exchangeable components of a model, found once; none where a discrete variable cannot be summed out."""
    try:
        return tuple(known.remembered_of(model, "exchangeable", lambda: exchangeable(_without_labels(model, known))))
    except ModelError:
        return ()


def _relabelled(
    tree: xr.DataTree,
    joint: LogJoint,
    groups: tuple[Exchangeable, ...],
    labels: Labels,
    rng: np.random.Generator | None = None,
) -> xr.DataTree:
    """The draws with each group of components permuted draw by draw: to agree, or with a generator at random."""
    posterior = draws_in(tree, {})
    as_given = {name: values.dims for name, values in posterior.data_vars.items()}
    posterior = posterior.transpose("chain", "draw", ...)
    chosen = _labels_of_groups(labels or _allocations(joint.model, groups, posterior), groups, posterior)
    pivot = _pivot(tree, joint, posterior) if rng is None else (0, 0)
    permutations = {}
    for number, group in enumerate(groups):
        present = {n: a for n, a in group.axes.items() if n in posterior}
        if not present:
            raise DataError(f"the draws hold none of {', '.join(group.axes)}")
        if rng is None:
            orders = agreed_orders(_features(posterior, present, group.labels), pivot)
        else:
            orders = _balanced_orders(posterior.sizes["chain"], posterior.sizes["draw"], len(group.labels), rng)
        full = np.tile(np.arange(group.size), (*orders.shape[:-1], 1))
        full[..., list(group.labels)] = np.asarray(group.labels)[orders]
        for name, axes in present.items():
            posterior[name] = _permuted(posterior[name], axes, full)
        for name in (n for n, g in chosen.items() if g is group):
            posterior[name] = _renamed(posterior[name], np.argsort(full, axis=-1))
        permutations["labelling" if number == 0 else f"labelling_{next(iter(group.axes))}"] = full
    posterior.attrs["relabelling"] = METHOD + _recompute(posterior, joint, groups)
    posterior = posterior.assign({name: v.transpose(*as_given[name]) for name, v in posterior.data_vars.items()})
    return _rebuilt(tree, posterior, permutations)


def _balanced_orders(chains: int, draws: int, labels: int, rng: np.random.Generator) -> np.ndarray:
    """A permutation for each draw: in every ``labels`` draws each label stands once in each place."""
    blocks = rng.permuted(np.tile(np.arange(labels), (chains, -(-draws // labels), 1)), axis=-1)
    shifts = (np.arange(labels)[:, None] + np.arange(labels)) % labels
    return blocks[..., shifts].reshape(chains, -1, labels)[:, :draws]


def under_one_labelling(post: Posterior) -> tuple[xr.DataTree, bool]:
    """A posterior's draws relabelled, where it has exchangeable components, and whether they had exchanged labels."""
    try:
        tree = relabel(post)
    except ModelError:  # no exchangeable components
        return post.tree, False
    orders = [v.to_numpy() for n, v in tree["sample_stats"].data_vars.items() if str(n).startswith("labelling")]
    return tree, any(bool(np.any(order != order[0, 0])) for order in orders)


def _without_labels(model: pm.Model, known: Analysis | None) -> pm.Model:
    """The model with finite variables, labels for example, summed out."""
    if not model.discrete_value_vars:
        return model
    try:
        return collapse(model if known is None else known)
    except ModelError:
        return model


def _allocations(model: pm.Model, groups: Sequence[Exchangeable], posterior: xr.Dataset) -> dict[str, str]:
    """The finite variables with as many values as a group has components, where it is the only one of its size."""
    found = {}
    for rv in model.free_RVs:
        values = support_of(model, rv).values
        sized = [g for g in groups if values is not None and np.array_equal(values, np.arange(g.size))]
        if len(sized) == 1 and rv.name in posterior:
            found[str(rv.name)] = next(iter(sized[0].axes))
    return found


def _labels_of_groups(labels: Labels, groups: Sequence[Exchangeable], posterior: xr.Dataset) -> dict[str, Exchangeable]:
    """The group that each label variable chooses from."""
    names = [labels] if isinstance(labels, str) else list(labels)
    for name in names:
        if name not in posterior:
            raise OptionError(f"labels names {name!r}, which is no variable of the draws")
    if not isinstance(labels, Mapping):
        if len(groups) > 1 and names:
            which, name = "; ".join(map(str, groups)), names[0]
            raise OptionError(f"there are several groups ({which}): say labels={{{name!r}: a variable of its group}}")
        return dict.fromkeys(names, groups[0])
    for name in names:
        if not any(labels[name] in g.axes for g in groups):
            raise OptionError(f"labels says that {name!r} chooses a component of a variable that has none")
    return {n: next(g for g in groups if labels[n] in g.axes) for n in names}


def _pivot(tree: xr.DataTree, joint: LogJoint, posterior: xr.Dataset) -> tuple[int, int]:
    """Chain and draw of high posterior density."""
    shape = posterior.sizes["chain"], posterior.sizes["draw"]
    stats: Any = tree["sample_stats"] if "sample_stats" in tree.children else {}
    name = next((n for n in ("lp", "logp") if n in stats), None)
    if name is not None:
        best = np.nanargmax(stats[name].transpose("chain", "draw").to_numpy())
        return divmod(int(best), shape[1])
    if not all(n in posterior for n in joint.names):
        return 0, shape[1] - 1
    values = stacked_draws(posterior, joint.names)
    places = np.linspace(0, np.prod(shape) - 1, PIVOTS).astype(int)
    heights = [joint.logp({n: v[place] for n, v in values.items()}) for place in places]
    return divmod(int(places[np.argmax(heights)]), shape[1])


def _features(posterior: xr.Dataset, axes_of: Mapping[str, tuple[int, ...]], labels: Sequence[int]) -> np.ndarray:
    """What belongs to each component: shape (chain, draw, labels, p)."""
    parts = []
    for name, axes in axes_of.items():
        values = posterior[name].to_numpy().astype(float)
        # The skewed quantities are those that cannot be negative: scales, weights, rates.
        values = np.log(values) if np.all(values > 0) else values
        # Of a matrix with a label on both sides, the diagonal: it is permuted as a vector is.
        own = axes[0] + 2
        places = [own if place - 2 in axes else place for place in range(values.ndim)]
        values = np.einsum(values, places, [0, 1, own, *(p for p in places[2:] if p != own)])[:, :, list(labels)]
        parts.append(values.reshape(*values.shape[:3], -1))
    return np.concatenate(parts, axis=-1)


def _permuted(values: xr.DataArray, axes: Sequence[int], orders: np.ndarray) -> xr.DataArray:
    """Draws of one variable with its component axes permuted draw by draw."""
    result = values.to_numpy()
    for axis in axes:
        others = tuple(place for place in range(2, result.ndim) if place != axis + 2)
        result = np.take_along_axis(result, np.expand_dims(orders, others), axis=axis + 2)
    return values.copy(data=result)


def _renamed(values: xr.DataArray, names: np.ndarray) -> xr.DataArray:
    """Draws of labels, each under its new name."""
    old = values.to_numpy()
    new = np.take_along_axis(names, old.reshape(*old.shape[:2], -1).astype(int), axis=2).reshape(old.shape)
    return values.copy(data=new.astype(old.dtype))


def _recompute(posterior: xr.Dataset, joint: LogJoint, groups: Sequence[Exchangeable]) -> str:
    """Compute the Deterministics anew, or leave out those that might follow the old labels; what was left out."""
    names = [n for n in joint.deterministics if n in posterior]
    if not names:
        return ""
    if all(n in posterior for n in joint.names):
        with lightly(), silently():
            values = deterministics(joint, stacked_draws(posterior, joint.names))
        for name in names:
            posterior[name] = posterior[name].copy(data=np.reshape(values[name], posterior[name].shape))
        return ""
    name_of = {v: n for n, v in joint.values.items()}
    moved = {n for g in groups for n in g.axes}
    stale = [n for n in names if {name_of[v] for v in joint.dependence.get(joint.deterministics[n], ())} & moved]
    for name in stale:
        del posterior[name]
    return f"; left out, because the draws do not hold what they depend on: {', '.join(stale)}" if stale else ""


def _rebuilt(tree: xr.DataTree, posterior: xr.Dataset, permutations: Mapping[str, np.ndarray]) -> xr.DataTree:
    """The tree with the new draws and the permutations that made them."""
    found: dict[str, Any] = {n: g.to_dataset() for n, g in tree.children.items() if "unconstrained" not in n}
    stats = found.get("sample_stats", xr.Dataset(coords={n: posterior[n] for n in ("chain", "draw")}))
    stats = stats.assign({n: (("chain", "draw", f"{n}_label"), v) for n, v in permutations.items()})
    return xr.DataTree.from_dict({**found, "posterior": posterior, "sample_stats": stats})
