r"""What is known of finite latent variables: the states of a hidden Markov model, the allocations of a mixture.

Given parameters φ these are exact sums (:mod:`bayeskit.finite.conditional`, :mod:`bayeskit.finite.hmm`). On a fitted
posterior they are averaged over its draws,

.. math:: p(z \mid y) = \int p(z \mid y, \phi) \, p(\phi \mid y) \, d\phi \approx
          \frac1S \sum_s p(z \mid y, \phi_s)

with the labels of exchangeable components made to agree first, and the Monte Carlo error of the average beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm

from bayeskit.arguments import Count
from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.plan import analyse, with_sums
from bayeskit.elimination.recovery import needed_for, state_recovery
from bayeskit.errors import DataError, ModelError, OptionError
from bayeskit.families import support_kinds
from bayeskit.graphs.environment import lightly
from bayeskit.inference.quadrature_marginals import NEGLIGIBLE
from bayeskit.marginal_likelihood.relabelling import under_one_labelling
from bayeskit.model.data_slots import uncut
from bayeskit.model.snapshot import Snapshot, on_its_data
from bayeskit.queries.state_answers import States
from bayeskit.results.records import Posterior
from bayeskit.results.tree import dims_of, thinned

__all__ = ["States", "states"]

MOST = 400  # draws of a posterior over which is averaged: enough for an error of 0.025 at the worst


@on_its_data
def states(
    source: Posterior | pm.Model,
    variable: str | None = None,
    *,
    at: Mapping[str, Any] | None = None,
    draws: Count = MOST,
) -> States:
    """The states of a finite latent variable, on a fitted posterior or at fixed parameters.

    Parameters
    ----------
    source : Posterior or pymc.Model
        A posterior of :func:`bayeskit.inference.ladder`; or a model, with ``at``.
    variable : str, optional
        The finite variable; may be left out where there is one.
    at : mapping of str to array, optional
        A value of every other variable that the states depend on: then nothing is averaged, and every answer is exact.
    draws : int, default 400
        How many draws of the posterior are averaged over at most, evenly spaced.

    Returns
    -------
    States
        Ask it for :meth:`~States.responsibilities`, :meth:`~States.smooth`, :meth:`~States.filter`,
        :meth:`~States.predict`, :meth:`~States.viterbi`, :meth:`~States.occupancy`, :meth:`~States.next_observation` or
        :meth:`~States.log_likelihood`.

    Raises
    ------
    ModelError
        If the model has no such variable, or it cannot be summed out.
    DataError
        If a parameter is missing from ``at``, or has another shape.
    """
    model = source.model if isinstance(source, Posterior) else source
    if at is None and not isinstance(source, Posterior):
        raise OptionError("the states of a model need parameters: give at={...}, or a posterior of bayeskit.infer")
    with lightly():
        analysis = (
            with_sums(_before_sums(source.analysis)) if isinstance(source, Posterior) else analyse(model, sums=True)
        )
    name = _variable(analysis, variable)
    recovery = state_recovery(analysis)[name]
    others = [n for n in analysis.original.names if n in needed_for(analysis, name)]
    if at is not None or not isinstance(source, Posterior):
        values, known = {n: _value(analysis, n, at or {})[None] for n in others}, None
    else:
        continuous = any(analysis.supports[n].kind != "finite" for n in others)
        tree = under_one_labelling(source)[0] if continuous else source.tree
        values = thinned(tree, others, draws)
        known = _known(source, name, recovery.states) if tree is source.tree else None
    number = len(next(iter(values.values()), [None]))
    dims = dims_of(model, name, len(analysis.shapes[name]))
    coords = {
        d: np.arange(n) if (labels := model.coords.get(d)) is None else list(labels)
        for d, n in zip(dims, analysis.shapes[name], strict=True)
    }
    fixed = at is not None or not others
    return States(name, recovery, values, number, analysis, (dims, coords), Snapshot.of(model), fixed, known)


def _before_sums(analysis: Analysis) -> Analysis:
    """Where all joint values were summed, the analysis without: given draws of the rest, entries go one by one."""
    return analysis if analysis.given_states is None else analysis.given_states.analysis


def _known(post: Posterior, name: str, states: np.ndarray) -> tuple[np.ndarray, float, str] | None:
    """The marginal probabilities of a finite variable, over all labellings, where known; their error and its label."""
    if name not in post.marginals:
        return None
    marginal = post.marginals[name]
    probabilities = np.stack([np.asarray(marginal.pmf(k)) for k in states], axis=-1)
    return probabilities, 0.0 if marginal.label == "exact" else post.log_evidence.error + NEGLIGIBLE, marginal.label


def _variable(analysis: Analysis, name: str | None) -> str:
    known = [s.name for s in analysis.summed]
    if not known:
        reasons = "; ".join(map(str, analysis.plan.refusals))
        why = f" ({reasons})" if reasons else ""
        raise ModelError(f"the model has no finite latent variable that can be summed out{why}")
    if name is None and len(known) > 1:
        raise OptionError(f"say which variable: the model has {', '.join(known)}")
    if name is not None and name not in known:
        raise ModelError(f"{name!r} was not summed out; the finite variables that were are {', '.join(known)}")
    return known[0] if name is None else name


def _value(analysis: Analysis, name: str, at: Mapping[str, Any]) -> np.ndarray:
    if name not in at:
        raise DataError(f"at has no value for {name!r}; the states depend on it")
    value = uncut(name, at[name], analysis.original.values[name].type.dtype)
    if value.shape != analysis.shapes[name]:
        raise DataError(f"at[{name!r}] has shape {value.shape}; the variable has {analysis.shapes[name]}")
    kind = support_kinds().get(analysis.supports[name].kind)
    low, high = (-np.inf, np.inf) if kind is None else kind.bounds or (0.0 if kind.positive else -np.inf, np.inf)
    # A probability may be 0 or 1; a rate or a scale of zero, or of infinity, has no density.
    inside = (value > low) & (value < high) | np.isin(value, (low, high)) & bool(kind and kind.bounds)
    if (kind is not None and kind.event < 2 and not np.all(inside)) or not np.all(np.isfinite(value)):
        raise DataError(f"at[{name!r}] is outside the support of the variable: {np.array2string(value, threshold=8)}")
    return value
