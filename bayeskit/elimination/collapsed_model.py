"""``collapse``: a plain ``pm.Model`` over the remaining variables, and the way back to all of them.

The collapsed model has the remaining variables with their own priors and transforms, and one Potential, the log
marginal density of the data given them. Any PyMC sampler takes it. Covariates and data are reduced to constants when it
is built: after ``pm.set_data`` on the original model, collapse again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pymc.distributions import transforms
from pytensor.graph.replace import clone_replace, graph_replace

from bayeskit.arguments import RandomSeed, checked, whole_seed
from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.check_points import typical_points
from bayeskit.elimination.collapsed_density import Collapsed, collapsed_density
from bayeskit.elimination.impossible_data import require_answerable
from bayeskit.elimination.plan import analyse
from bayeskit.elimination.recovery import Recovery
from bayeskit.errors import DataError, ModelError
from bayeskit.graphs.environment import lightly
from bayeskit.graphs.rewriting import widen
from bayeskit.model.forward_sampling import deterministics
from bayeskit.results.draws_of_model import require_its_labels
from bayeskit.results.draws_outside_support import require_within_support
from bayeskit.results.tree import build_tree, draws_in, stacked_draws
from bayeskit.types import Graph

__all__ = ["collapse", "collapsed_model", "recover", "require_collapsed"]


@checked
def collapse(model: pm.Model | Analysis) -> pm.Model:
    r"""The model with everything that has a closed form integrated out.

    .. math:: \log p(y, \phi) = \log \int p(y, \theta, \phi) \, d\theta

    for the remaining variables :math:`\phi` and the eliminated ones :math:`\theta`; :func:`bayeskit.explain` shows
    which are which. The result is an ordinary PyMC model with gradients: sample it with anything, then
    :func:`bayeskit.recover` gives the eliminated variables and Deterministics.

    Parameters
    ----------
    model : pymc.Model
        Or what is known of one already, the analysis of a posterior.

    Returns
    -------
    pymc.Model
        Free variables :math:`\phi` with their own priors, transforms, dims and initial values, and the Potential
        ``log_marginal``. With nothing eliminated, the same density as the model's own.

    Raises
    ------
    ModelError
        If the model cannot be read, or nothing remains: then :func:`bayeskit.infer` has the whole answer.

    Notes
    -----
    A design that does not depend on :math:`\phi` is reduced to sufficient statistics once, so that the cost of a
    density does not grow with the number of rows; chains and plates are solved in time linear in their length.
    """
    with lightly(), explained():
        return collapsed_model(require_collapsed(model if isinstance(model, Analysis) else analyse(model)))


def require_collapsed(analysis: Analysis) -> Collapsed:
    """The collapsed density of a model that has one; a ModelError where nothing remains, or its data are at fault."""
    if not analysis.plan.remaining:
        instead = "bayeskit.infer(model).marginal(name) has mean(), ppf(0.5) and all else of its posterior"
        raise ModelError(f"nothing remains to sample or maximise: every variable has a closed form; {instead}")
    require_answerable(analysis)
    return collapsed_density(analysis)


@contextmanager
def explained() -> Iterator[None]:
    """A closed form that cannot be written as a graph, as an error for the person who asked for it."""
    try:
        yield
    except NotImplementedError as error:
        raise ModelError(f"no collapsed model: {error}; use bayeskit.infer, or sample the model as written") from error


def collapsed_model(collapsed: Collapsed, *, open_circles: bool = False) -> pm.Model:
    """The collapsed density as a ``pm.Model``, which there is none of where a discrete prior was integrated over.

    With ``open_circles`` an angle lies in (−π, π): on the line that PyMC winds around the circle it has no integral.
    """
    joint, original = collapsed.analysis.joint, collapsed.analysis.joint.model
    wide = dict(zip([rv.name for rv in original.basic_RVs], widen(list(original.basic_RVs)), strict=True))
    typical = typical_points(collapsed.analysis, 1)[0]
    made: dict[str, Graph] = {}
    with pm.Model() as model:
        for dim, labels in original.coords.items():
            length = None if labels is not None else int(original.dim_lengths[dim].eval(mode="FAST_COMPILE"))
            model.add_coord(dim, labels, length=length)
        for rv in [rv for rv in original.free_RVs if rv.name in collapsed.remaining]:
            name, initial = rv.name, original.rvs_to_initial_values.get(rv)
            if name in collapsed.priors:
                # A copy: a random variable belongs to one model. Its parents are those of the new model, not copies.
                copy, *parents = clone_replace([wide[name], *(wide[n] for n in made)], {})
                graph = graph_replace([copy], dict(zip(parents, made.values(), strict=True)), strict=False)[0]
            elif rv.dtype.startswith(("int", "uint", "bool")):
                raise NotImplementedError(f"{name!r} is discrete, and its prior depends on what is integrated out")
            else:
                # Its density is in the potential, with that of the variables it depends on.
                graph = pm.Flat.dist(shape=collapsed.analysis.shapes[name])
                initial = typical[name] if initial is None else initial
            dims, transform = original.named_vars_to_dims.get(name), original.rvs_to_transforms.get(rv)
            if open_circles and isinstance(transform, transforms.CircularTransform):
                transform = transforms.Interval(-np.pi, np.pi)
            made[name] = model.register_rv(
                graph, name, dims=dims, default_transform=None, transform=transform, initval=initial
            )
        known: Any = {joint.values[n]: v for n, v in made.items()}
        likelihood = graph_replace([collapsed.likelihood], known, strict=False)[0]
        name = "log_marginal"
        while name in original.named_vars:
            name += "_"
        pm.Potential(name, likelihood)
    return model


@checked
def recover(model: pm.Model, draws: xr.DataTree | xr.Dataset, *, random_seed: RandomSeed = None) -> xr.DataTree:
    """All variables of a model from draws of its collapsed form.

    Parameters
    ----------
    model : pymc.Model
        The original model.
    draws : xarray.DataTree or xarray.Dataset
        Posterior draws of the variables of ``collapse(model)``, as ``pymc.sample`` gives them.
    random_seed : int, sequence of int or numpy.random.Generator, optional

    Returns
    -------
    xarray.DataTree
        One draw of every variable and Deterministic for each draw given, in the same chains.

    Raises
    ------
    DataError
        If a remaining variable has no draws, or they have other labels than the model.
    """
    names = draws_in(draws, {}).data_vars
    with lightly(), explained():
        collapsed = require_collapsed(analyse(model))
        if missing := [n for n in collapsed.remaining if n not in names]:
            raise DataError(f"no draws of {', '.join(missing)}; sample bayeskit.collapse(model) first")
        posterior = draws_in(draws, {n: collapsed.analysis.shapes[n] for n in collapsed.remaining})
        require_its_labels(model, posterior, collapsed.remaining)
        require_within_support(collapsed.analysis.original.model, posterior[[*collapsed.remaining]])
        chains, length = posterior.sizes["chain"], posterior.sizes["draw"]
        remaining = stacked_draws(posterior, collapsed.remaining)
        values = Recovery(collapsed).draw(remaining, np.random.default_rng(whole_seed(random_seed)))
        values |= deterministics(collapsed.analysis.original, values)
    return build_tree(model, values, chains * length, chains=chains)
