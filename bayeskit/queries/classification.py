r"""Which class does a new row belong to? Posterior class probabilities, exact wherever the posterior is.

.. math::

   p(c \mid x, y) \propto p(c, x \mid y) = \int p(c, x \mid \theta)\, p(\theta \mid y)\, d\theta

With an exact posterior the integral has a closed form: Normal features are leaves of a Gaussian block, with a Normal or
Student-t predictive density; whatever has a score family (Categorical, Bernoulli, Poisson, Multinomial, ...) is a ratio
of its normalisers. Both are read from the graph (:mod:`bayeskit.queries.class_rows`) and the posterior, for any model
with an observed class. Otherwise the integral is averaged over posterior draws, with its Monte Carlo error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.replace import graph_replace

from bayeskit.arguments import Count
from bayeskit.elimination.analysis import Analysis, Scale
from bayeskit.elimination.conjugate_posterior import Component, solve_posterior
from bayeskit.elimination.log_joint_evaluator import Evaluator
from bayeskit.elimination.plan import analyse
from bayeskit.errors import InferenceError, ModelError
from bayeskit.graphs.environment import lightly, on_one_thread
from bayeskit.graphs.rewriting import depends_on
from bayeskit.model.snapshot import on_its_data
from bayeskit.queries.class_averages import averaged_over_draws
from bayeskit.queries.class_rows import NEW, Classes, Feature, find_classes
from bayeskit.queries.conjugate_predictive import ConjugateUpdate, NoClosedForm, log_leaf_density
from bayeskit.queries.given_rows import GivenRows
from bayeskit.queries.new_rows import Rows, add_rows
from bayeskit.results.records import Posterior

__all__ = ["classify"]

CHUNK = 1_000_000  # numbers of new rows taken at a time
TOLERANCE = 1e-7  # relative agreement of the evidence with that of the posterior given


@on_its_data
def classify(
    post: Posterior,
    new_data: Mapping[str, Any] | pd.DataFrame | xr.Dataset,
    *,
    label: str | None = None,
    method: Literal["auto", "exact", "estimated"] = "auto",
    draws: Count = 1000,
) -> xr.Dataset:
    r"""Posterior class probabilities of new rows.

    Parameters
    ----------
    post : Posterior
        Of a model with an observed Categorical (or Bernoulli) variable, the class, and features that depend on it.
    new_data : mapping of str to array, pandas.DataFrame or xarray.Dataset
        The features of the new rows by the names that the model's data have, rows first (``{"x": array}``), and any
        data container that has an entry for each row. With the class itself (labels), the answer is scored. The columns
        of a labelled DataArray are put in the order of the model's.
    label : str, optional
        The variable of the classes, where a model has several that may be.
    method : {"auto", "exact", "estimated"}
        ``exact``: by closed forms, for posteriors that are exact; ``estimated``: the average over posterior draws, for
        any; ``auto``: the first of them that applies.
    draws : int
        How many posterior draws an estimate averages over, spread evenly over all of them.

    Returns
    -------
    xarray.Dataset
        ``probability`` :math:`p(c \mid x, y)` with dims ``("row", "class")``, its ``error`` (zero where exact; a Monte
        Carlo standard error where estimated, infinite where a few draws decide, by the Pareto shape of their weights:
        as a rule for classes of very small probability), ``predicted``, the most probable class, and ``log_density``
        :math:`\log p(x \mid y)`, NaN where the model has no density of features (a logistic regression), with dims
        ``("row",)``; with the true classes ``log_score``,
        :math:`\log p(c_\mathrm{true} \mid x, y)` in nats, and in ``.attrs`` the ``mean_log_score`` and the
        ``accuracy``. ``.attrs["label"]`` is ``exact`` or ``estimated``, with the reason.

    Raises
    ------
    DataError
        If a feature is missing, has another shape or kind, or a class is unknown to the model.
    ModelError
        If the model has no class, or ``method="exact"`` and there is no closed form.

    Notes
    -----
    Each new row is judged by itself, given the data the model was fitted to: O(rows · classes · features²) for full
    covariances, and less otherwise.
    """
    if isinstance(new_data, pd.DataFrame):
        new_data = {str(name): column.to_numpy() for name, column in new_data.items()}
    classes = find_classes(post.model, label)
    if not classes.features and not classes.covariates:
        why = f"no observed variable of the model depends on {classes.label!r}, and no pm.Data comes before it"
        raise ModelError(f"nothing tells the classes apart: {why}; keep what it is predicted from in a pm.Data")
    return _classified(post, classes, GivenRows(post, classes, new_data), method, draws)


def _classified(post: Posterior, classes: Classes, rows: GivenRows, method: str, draws: int) -> xr.Dataset:
    why = "" if post.method == "exact" else f"the posterior is not exact but by {post.method}"
    with lightly(), on_one_thread():
        if not why and method != "estimated":
            try:
                return rows.answer(_exact(post, classes, rows), None, "exact", "")
            except NoClosedForm as error:
                why = str(error)
        is_known = not post.model.free_RVs  # all that there is to average over
        if method == "exact" and not is_known:
            raise ModelError(f"no exact class probabilities: {why}; use method='estimated'")
        log_joint, error_of = averaged_over_draws(post, classes, rows, draws)
    if is_known:
        return rows.answer(log_joint, None, "exact", "")
    return rows.answer(log_joint, error_of, "estimated", why or "asked for")


def _exact(post: Posterior, classes: Classes, rows: GivenRows) -> np.ndarray:
    """log p(c, x | y), of shape (rows, classes), in closed form."""
    if not classes.features:
        raise NoClosedForm("no observed variable depends on the class: it is predicted from data")
    added = add_rows(post.model, classes, normal_by_class=True)
    analysis = analyse(added.model)
    if analysis.plan.remaining or analysis.finite:
        raise NoClosedForm("with a new row added, the model has no closed form")
    component = solve_posterior(analysis, Evaluator(analysis))
    known, again = float(post.log_evidence), float(component.log_evidence)
    if abs(known - again) > TOLERANCE * max(1.0, abs(known)):
        changed = f"the log evidence of the model is {again:.10g} now, and was {known:.10g} when it was fitted"
        raise InferenceError(f"{changed}: its data were changed since; fit it again")
    features = [f for f in classes.features if f.normal]
    total = _normal_features(component, features, len(classes.labels), rows)
    others = [f for f in classes.features if not f.normal]
    update, take = _update(analysis, component, added, classes, others)
    step = max(1, CHUNK // max(1, sum(f.width or 1 for f in others)))
    for start in range(0, rows.number, step):
        piece = slice(start, start + step)
        for k in range(len(classes.labels)):
            total[piece, k] += update(*take(rows, k, piece))  # one number for all rows, where they are Normal
    return total


def _normal_features(component: Component, features: Sequence[Feature], count: int, rows: GivenRows) -> np.ndarray:
    """Σ log p(x | c, y) over the Normal features, of shape (rows, classes)."""
    total = np.zeros((rows.number, count))
    blocks = [(number, part.gaussian) for number, part in enumerate(component.parts) if part.gaussian is not None]
    places = {name: (number, own) for number, block in blocks for name, own in block.slices.items()}
    for k in range(count):
        leaves: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
        for feature in features:
            name, width = feature.new(k), feature.width or 1
            number, own = places.get(name, (-1, slice(0, 0)))
            if own.stop - own.start != width * (1 if feature.stratified else count):
                raise NoClosedForm(f"{feature.name!r} depends on data that differ from row to row")
            start = own.start + (0 if feature.stratified else k * width)
            index = np.arange(start, start + width)
            values = rows.values[feature.name].reshape(rows.number, width).astype(float)
            leaves.setdefault(number, []).append((index, values))
        for number, found in leaves.items():
            index, values = (np.concatenate(v, axis=-1) for v in zip(*found, strict=True))
            total[:, k] += log_leaf_density(component.parts[number], index, values)
    return total


def _update(
    analysis: Analysis, component: Component, added: Rows, classes: Classes, features: Sequence[Feature]
) -> tuple[ConjugateUpdate, Any]:
    """The update of everything but Normal features, and a function that takes its arguments from the rows."""
    joint, label = analysis.joint, f"{classes.label}{NEW}"
    terms: list[Any] = [pt.sum(joint.factors[label])]
    chosen = pt.scalar("class", dtype="int64")
    by_row: list[Any] = []
    for feature in features:
        names = [feature.new(k) for k in range(len(feature.strata))]
        strata = [pt.sum(joint.factors[n]) for n in names]
        terms.append(pt.stack(strata)[chosen] if feature.stratified else strata[0])
        by_row += [joint.values[n] for n in names]
    total = pt.add(*terms) if len(terms) > 1 else terms[0]
    stand_in = {added.code: pt.tensor("code", dtype="int64", shape=(1,))}
    stand_in |= {v: pt.tensor(dtype=v.type.dtype, shape=v.type.shape) for v in added.inputs.values()}
    by_row += [stand_in[v] for v in added.inputs.values()]
    (total,) = graph_replace([total], stand_in, strict=False)
    above = depends_on([total], joint.values.values()).get(total, frozenset())
    parts = {p.scale.name: p for p in component.parts if p.scale is not None and p.gaussian is None}
    scales: dict[Scale, Any] = {}
    for name in (n for n, v in joint.values.items() if v in above and n not in added.names):
        scale = parts[name].scale if name in parts else None
        if scale is None or scale.family.log_density_graph is None:
            raise NoClosedForm(f"{name!r} governs features of different kinds")
        scales[scale] = parts[name].parameters
    update = ConjugateUpdate(total, scales, joint.values, by_row, [joint.values[label], stand_in[added.code], chosen])

    def take(rows: GivenRows, k: int, piece: slice) -> tuple[list[np.ndarray], list[np.ndarray]]:
        values = [rows.values[f.name] for f in features for _ in f.strata] + [rows.input(n) for n in added.inputs]
        typed = [v[piece][:, None].astype(t.type.dtype) for v, t in zip(values, by_row, strict=True)]
        return typed, [np.array([k], dtype=joint.values[label].type.dtype), np.array([k]), np.array(k)]

    return update, take
