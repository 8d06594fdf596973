r"""Which class does a new row belong to? Posterior class probabilities, exact wherever the posterior is.

.. math::

   p(c \mid x, y) \propto p(c, x \mid y) = \int p(c, x \mid \theta)\, p(\theta \mid y)\, d\theta

With an exact posterior the integral has a closed form: Normal features are leaves of a Gaussian block, with a Normal or
Student-t predictive density; whatever has a score family (Categorical, Bernoulli, Poisson, Multinomial, ...) is a ratio
of its normalisers. Both are read from the graph (:mod:`bayeskit.queries.class_rows`) and the posterior, for any model
with an observed class. Otherwise the integral is averaged over posterior draws, with its Monte Carlo error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor.tensor as pt
from arviz_stats.base import array_stats
from pytensor.graph.replace import graph_replace
from scipy import special

from bayeskit.elimination.analysis import Analysis, Scale
from bayeskit.elimination.conjugate_posterior import Component, Evaluator, solve
from bayeskit.elimination.plan import analyse
from bayeskit.errors import DataError, InferenceError, ModelError, OptionError
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import lightly, on_one_thread
from bayeskit.graphs.rewriting import depends_on
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.snapshot import on_its_data
from bayeskit.queries.class_rows import NEW, Classes, Feature, add_rows, find_classes
from bayeskit.queries.conjugate_predictive import ConjugateUpdate, NoClosedForm, log_leaf_density
from bayeskit.results.tree import thinned

if TYPE_CHECKING:
    import xarray as xr

    from bayeskit.results.records import Posterior

__all__ = ["classify"]

METHODS = ("auto", "exact", "estimated")
CHUNK = 1_000_000  # numbers of new rows taken at a time
RELIABLE = 0.7  # a Pareto shape up to which averages are (Vehtari, Simpson, Gelman, Yao and Gabry 2024)
FEW = 100  # effective draws, of as many equal weights
BATCHES = 20  # of consecutive draws, from whose spread a Monte Carlo error is taken
TOLERANCE = 1e-7  # relative agreement of the evidence with that of the posterior given


@on_its_data
def classify(
    post: Posterior,
    new_data: Mapping[str, Any] | xr.Dataset,
    *,
    label: str | None = None,
    method: str = "auto",
    draws: int = 1000,
) -> xr.Dataset:
    r"""Posterior class probabilities of new rows.

    Parameters
    ----------
    post : Posterior
        Of a model with an observed Categorical (or Bernoulli) variable, the class, and features that depend on it.
    new_data : mapping of str to array, or xarray.Dataset
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
        :math:`\log p(x \mid y)`, with dims ``("row",)``; with the true classes ``log_score``,
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
    if method not in METHODS:
        raise OptionError(f"method is {method!r}; it must be one of {', '.join(METHODS)}")
    if not isinstance(draws, int | np.integer) or isinstance(draws, bool) or draws < 1:
        raise OptionError(f"draws is {draws!r}; it must be a whole number of at least 1")
    classes = find_classes(post.model, label)
    if not classes.features and not classes.covariates:
        raise ModelError(
            f"nothing tells the classes apart: no observed variable of the model depends on {classes.label!r}"
        )
    rows = _Rows(post, classes, new_data)
    why = "" if post.method == "exact" else f"the posterior is not exact but by {post.method}"
    with lightly(), on_one_thread():
        if not why and method != "estimated":
            try:
                return rows.answer(_exact(post, classes, rows), None, "exact", "")
            except NoClosedForm as error:
                why = str(error)
        if method == "exact":
            raise ModelError(f"no exact class probabilities: {why}; use method='estimated'")
        log_joint, error_of = _estimated(post, classes, rows, int(draws))
    return rows.answer(log_joint, error_of, "estimated", why or "asked for")


# -- new rows ----------------------------------------------------------------------------------------------------------


class _Rows:
    """The new rows as arrays, checked; and the answer in their terms."""

    def __init__(self, post: Posterior, classes: Classes, new_data: Mapping[str, Any] | xr.Dataset) -> None:
        names = [f.name for f in classes.features]
        known = [*names, *classes.covariates, classes.label]
        table: Any = new_data
        given = {str(n): table[n] for n in getattr(table, "data_vars", table)}
        for name in given:
            if name not in known:
                raise DataError(f"{name!r} is no feature of the model; a new row has {', '.join(known)}")
        missing = [n for n in [*names, *classes.covariates] if n not in given]
        if missing:
            raise DataError(f"the new rows lack {', '.join(missing)}; a new row has {', '.join(known)}")
        self.classes = classes
        self.values = {f.name: _values(f, given[f.name]) for f in classes.features}
        self.covariates = {n: _covariate(n, given[n], post.model[n]) for n in classes.covariates}
        self.true = _codes(classes, given[classes.label]) if classes.label in given else None
        lengths = {n: len(v) for n, v in [*self.values.items(), *self.covariates.items()]}
        if self.true is not None:
            lengths[classes.label] = len(self.true)
        if len(set(lengths.values())) > 1:
            sizes = ", ".join(f"{n} {length}" for n, length in lengths.items())
            raise DataError(f"the new rows have different numbers ({sizes}); give each the same rows")
        self.number = next(iter(lengths.values()), 0)
        if self.number == 0:
            raise DataError("there are no new rows; give at least one")
        self.coords = next(
            (np.asarray(v[v.dims[0]]) for v in given.values() if getattr(v, "coords", None) and v.dims[0] in v.coords),
            None,
        )

    def total(self, name: str) -> np.ndarray:
        """The sums of a Multinomial feature's counts."""
        return self.values[name].sum(axis=1)

    def inputs(self, names: Mapping[str, Any]) -> list[np.ndarray]:
        """What a new row fills into the containers of :class:`~bayeskit.class_rows.Rows`."""
        return [self.covariates[n] if n in self.covariates else self.total(n) for n in names]

    def answer(self, log_joint: np.ndarray, error: np.ndarray | None, label: str, reason: str) -> xr.Dataset:
        """The Dataset, from log p(c, x | y) of shape (rows, classes)."""
        import xarray as xr

        log_density = special.logsumexp(log_joint, axis=1)
        if not np.all(np.isfinite(log_density)):
            row = int(np.flatnonzero(~np.isfinite(log_density))[0])
            raise DataError(f"the new row {row + 1} has no density under any class: check its values")
        log_probability = log_joint - log_density[:, None]
        labels = np.asarray(self.classes.labels)
        predicted = log_probability.argmax(axis=1)
        variables = {
            "probability": (("row", "class"), np.exp(log_probability)),
            "error": (("row", "class"), np.zeros_like(log_joint) if error is None else error),
            "predicted": (("row",), labels[predicted]),
            "log_density": (("row",), log_density),
        }
        attributes: dict[str, Any] = {"label": label} | ({"reason": reason} if reason else {})
        if self.true is not None:
            score = log_probability[np.arange(self.number), self.true]
            variables["log_score"] = (("row",), score)
            attributes["mean_log_score"] = float(score.mean())
            attributes["accuracy"] = float(np.mean(predicted == self.true))
        coords = {"class": labels} | ({} if self.coords is None else {"row": self.coords})
        return xr.Dataset(variables, coords=coords, attrs=attributes)


def _values(feature: Feature, given: Any) -> np.ndarray:
    """The values of one feature as an array of shape (rows,) or (rows, columns)."""
    dims: Any = getattr(given, "dims", ())
    if feature.columns and len(dims) == 2 and dims[1] in given.coords:
        have = [str(c) for c in given[dims[1]].to_numpy()]
        lacking = [str(c) for c in feature.columns if str(c) not in have]
        if lacking:
            raise DataError(
                f"the new values of {feature.name!r} lack the column {lacking[0]!r}; it has {', '.join(have)}"
            )
        given = given[:, [have.index(str(c)) for c in feature.columns]]
    values = np.asarray(given)
    if values.dtype.kind not in "biuf":
        raise DataError(f"the new values of {feature.name!r} are not numbers")
    if feature.width is not None and (values.ndim != 2 or values.shape[1] != feature.width):
        raise DataError(
            f"the new values of {feature.name!r} have shape {values.shape}; the model needs one row each, with "
            f"{feature.width} column{'' if feature.width == 1 else 's'}"
        )
    if feature.width is None and values.ndim != 1:
        raise DataError(
            f"the new values of {feature.name!r} have shape {values.shape}; the model needs one number a row"
        )
    bad = ~np.isfinite(values) if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool)
    if bad.any():
        where = np.argwhere(bad)[0]
        column = f" of column {str(feature.columns[where[1]])!r}" if feature.columns and len(where) == 2 else ""
        raise DataError(
            f"the new values of {feature.name!r}, row {where[0] + 1}: the value{column} is missing or infinite; "
            "fill it in or drop the row"
        )
    return values


def _covariate(name: str, given: Any, container: Any) -> np.ndarray:
    values: Any = np.asarray(given)
    old = container.get_value(borrow=True)
    if values.dtype.kind not in "biuf" or values.shape[1:] != old.shape[1:]:
        raise DataError(f"the new values of {name!r} do not fit: the model has numbers of shape {old.shape}")
    result: np.ndarray = values.astype(old.dtype)
    return result


def _codes(classes: Classes, given: Any) -> np.ndarray:
    """The codes of true classes; compared as text, because labels may be whole numbers."""
    place = {str(c): k for k, c in enumerate(classes.labels)}
    asked = [str(v).strip() for v in np.ravel(np.asarray(given, dtype=object))]
    for row, name in enumerate(asked, start=1):
        if name not in place:
            raise DataError(
                f"the new values of {classes.label!r}, row {row}: {name!r} is a class that the model was not fitted "
                f"to; it knows {', '.join(place)}"
            )
    return np.array([place[name] for name in asked])


# -- exact -------------------------------------------------------------------------------------------------------------


def _exact(post: Posterior, classes: Classes, rows: _Rows) -> np.ndarray:
    """log p(c, x | y), of shape (rows, classes), in closed form."""
    if not classes.features:
        raise NoClosedForm("no observed variable depends on the class: it is predicted from data")
    added = add_rows(post.model, classes, normal_by_class=True)
    analysis = analyse(added.model)
    if analysis.plan.remaining or analysis.finite:
        raise NoClosedForm("with a new row added, the model has no closed form")
    component = solve(analysis, Evaluator(analysis))
    known, again = float(post.log_evidence), float(component.log_evidence)
    if abs(known - again) > TOLERANCE * max(1.0, abs(known)):
        raise InferenceError(
            f"the log evidence of the model is {again:.10g} now, and was {known:.10g} when it was fitted: its data "
            "were changed since; fit it again"
        )
    total = np.zeros((rows.number, len(classes.labels)))
    leaves, others = _leaves(classes, analysis)
    for k in range(len(classes.labels)):
        total[:, k] = _normal_features(component, leaves[k], rows)
    update, take = _update(analysis, component, added, classes, others)
    columns = sum(f.width or 1 for f in others)
    step = max(1, CHUNK // max(1, columns))
    for start in range(0, rows.number, step):
        piece = slice(start, start + step)
        for k in range(len(classes.labels)):
            total[piece, k] += update(*take(rows, k, piece))  # one number for all rows, where they are Normal
    return total


def _leaves(classes: Classes, analysis: Analysis) -> tuple[list[dict[str, tuple[str, slice]]], list[Feature]]:
    """For each class, the variable and the entries of it that are the new row's, by feature; and the other features."""
    stacked = {n for b in analysis.blocks for n in b.names}
    count = len(classes.labels)
    leaves: list[dict[str, tuple[str, slice]]] = [{} for _ in range(count)]
    others = []
    for feature in classes.features:
        if not feature.normal:
            others.append(feature)
            continue
        width = feature.width or 1
        for k in range(count):
            name = f"{feature.name}{NEW}" + (f"_{k}" if feature.stratified else "")
            size = int(np.prod(analysis.shapes[name], dtype=int))
            if name not in stacked or size != width * (1 if feature.stratified else count):
                raise NoClosedForm(f"{feature.name!r} depends on data that differ from row to row")
            start = 0 if feature.stratified else k * width
            leaves[k][feature.name] = name, slice(start, start + width)
    return leaves, others


def _normal_features(component: Component, leaves: Mapping[str, tuple[str, slice]], rows: _Rows) -> np.ndarray:
    """Σ log p(x | c, y) over the Normal features of one class."""
    total = np.zeros(rows.number)
    for part in component.parts:
        if part.gaussian is None:
            continue
        index, values = [], []
        for feature, (name, entries) in leaves.items():
            if name in part.gaussian.slices:
                start = part.gaussian.slices[name].start
                index.append(np.arange(start + entries.start, start + entries.stop))
                values.append(rows.values[feature].reshape(rows.number, -1).astype(float))
        if index:
            total += log_leaf_density(part, np.concatenate(index))(np.concatenate(values, axis=1))
    return total


def _update(
    analysis: Analysis, component: Component, added: Any, classes: Classes, others: list[Feature]
) -> tuple[ConjugateUpdate, Any]:
    """The update of everything but Normal features, and a function that takes its arguments from the rows."""
    joint = analysis.joint
    name = f"{classes.label}{NEW}"
    graphs: list[Any] = [pt.sum(joint.factors[name])]
    strata = {
        f.name: [joint.factors[f"{f.name}{NEW}_{k}"] for k in range(len(f.strata))] for f in others if f.stratified
    }
    chosen = pt.scalar("class", dtype="int64")
    for feature in others:
        if feature.stratified:
            graphs.append(pt.stack([pt.sum(g) for g in strata[feature.name]])[chosen])
        else:
            graphs.append(pt.sum(joint.factors[f"{feature.name}{NEW}"]))
    total: Any = pt.add(*graphs) if len(graphs) > 1 else graphs[0]
    stand_in = {added.code: pt.tensor("code", dtype="int64", shape=(1,))}
    stand_in |= {v: pt.tensor(dtype=v.type.dtype, shape=v.type.shape) for v in added.inputs.values()}
    (total,) = graph_replace([total], stand_in, strict=False)
    above = depends_on([total], joint.values.values()).get(total, frozenset())
    parts = {p.scale.name: p for p in component.parts if p.scale is not None}
    names = [n for n, v in joint.values.items() if v in above and not n.startswith(tuple(_new_names(classes)))]
    scales: dict[Scale, Any] = {}
    for n in names:
        scale = parts[n].scale if n in parts and parts[n].gaussian is None else None
        if scale is None or scale.family.log_density_graph is None:
            raise NoClosedForm(f"{n!r} governs features of different kinds")
        scales[scale] = parts[n].parameters
    row_values: list[Any] = []
    for feature in others:
        suffixes = [f"_{k}" for k in range(len(feature.strata))] if feature.stratified else [""]
        row_values += [joint.values[f"{feature.name}{NEW}{s}"] for s in suffixes]
    inputs = [stand_in[v] for v in added.inputs.values()]
    update = ConjugateUpdate(
        total, scales, joint.values, [*row_values, *inputs], [joint.values[name], stand_in[added.code], chosen]
    )

    def take(rows: _Rows, k: int, piece: slice) -> tuple[list[np.ndarray], list[np.ndarray]]:
        values: list[np.ndarray] = []
        for feature in others:
            one = rows.values[feature.name][piece]
            values += [one[:, None]] * (len(feature.strata) if feature.stratified else 1)
        values += [v[piece][:, None] for v in rows.inputs(added.inputs)]
        typed = [np.asarray(v, dtype=t.type.dtype) for v, t in zip(values, [*row_values, *inputs], strict=True)]
        return typed, [np.array([k], dtype=joint.values[name].type.dtype), np.array([k]), np.array(k)]

    return update, take


def _new_names(classes: Classes) -> list[str]:
    return [f"{n}{NEW}" for n in (classes.label, *(f.name for f in classes.features))]


# -- estimated ---------------------------------------------------------------------------------------------------------


def _estimated(post: Posterior, classes: Classes, rows: _Rows, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """log of the average of p(c, x | θ) over posterior draws, and the Monte Carlo error of the probabilities.

    The error is the spread of the averages of consecutive draws, which holds for draws of a Markov chain too; that of a
    ratio by its linear expansion.
    """
    added = add_rows(post.model, classes, number=rows.number, normal_by_class=False)
    joint = LogJoint.from_model(added.model)
    new = [joint.values[n] for n in joint.names if n.startswith(tuple(_new_names(classes)))]
    label = joint.values[f"{classes.label}{NEW}"]
    log_label: Any = joint.factors[f"{classes.label}{NEW}"]
    terms: list[list[Any]] = [[] for _ in classes.labels]
    for feature in classes.features:
        for k in range(len(classes.labels)):
            stratum = f"{feature.name}{NEW}" + (f"_{k}" if feature.stratified else "")
            factor: Any = joint.factors[stratum]
            terms[k].append(pt.sum(factor, axis=tuple(range(1, factor.type.ndim))))
    free = [joint.values[n] for n in joint.names if joint.values[n] not in new]
    functions = [compile_small([*free, *new], pt.add(log_label, *t) if t else log_label) for t in terms]
    for name, value in zip(added.inputs, rows.inputs(added.inputs), strict=True):
        added.inputs[name].set_value(value)
    held: dict[Any, np.ndarray] = {}
    for feature in classes.features:
        for v in new:
            if str(v.name).startswith(f"{feature.name}{NEW}"):
                held[v] = rows.values[feature.name].astype(v.type.dtype)
    chosen = thinned(post.tree, [str(v.name) for v in free], draws)
    log_joint = np.empty((len(next(iter(chosen.values()))), rows.number, len(classes.labels)))
    for s in range(len(log_joint)):
        theta = [np.asarray(chosen[str(v.name)][s], dtype=v.type.dtype) for v in free]
        for k, function in enumerate(functions):
            added.code.set_value(np.full(rows.number, k))
            held[label] = np.full(rows.number, k, dtype=label.type.dtype)
            with np.errstate(all="ignore"):
                log_joint[s, :, k] = function(*theta, *(held[v] for v in new))
    mean = special.logsumexp(log_joint, axis=0) - np.log(len(log_joint))
    top = special.logsumexp(mean, axis=1)
    weight = np.exp(log_joint - top[:, None])  # of average one over draws, classes summed
    influence = weight - np.exp(mean - top[:, None]) * weight.sum(axis=2, keepdims=True)
    parts = np.array_split(influence, min(BATCHES, len(influence)))
    batches = np.stack([p.mean(axis=0) for p in parts])
    if len(batches) == 1:
        return mean, np.full_like(mean, np.inf)
    error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    return mean, np.where(_few_decide(log_joint), np.inf, error)


def _few_decide(log_joint: np.ndarray) -> np.ndarray:
    """Whether an average of densities over draws is that of a few of them, so that its spread understates its error.

    In the Gaussian classifier, p(x | c, θ) of a row twenty standard deviations from a class is 10⁻¹² on average over
    400 draws, give or take 10⁻¹², but 10⁻¹¹ over all of them.
    """
    count = len(log_joint)
    _, shape = array_stats.psislw(np.where(np.isfinite(log_joint), log_joint, -1e300), axis=0)
    heavy = ~(shape <= min(1 - 1 / np.log10(max(count, 2)), RELIABLE))
    # A tail may look heavy that is not: probabilities themselves, averaged where there are no features, are bounded.
    share = np.exp(log_joint - special.logsumexp(log_joint, axis=0))
    return np.asarray(heavy & (np.sum(share**2, axis=0) > 1 / FEW))
