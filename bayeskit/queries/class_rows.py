"""How a model says that a row of each class is distributed: which variable is the class, and which are its features.

The *label* is an observed Categorical (or Bernoulli) variable with one entry a row. Its *features* are the observed
variables whose graph contains it (``mu[label]``), and those written one class at a time: ``x_setosa``, ``x_virginica``,
… together are the feature ``x`` where there is one for every label of the dim of classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from bayeskit.errors import ModelError
from bayeskit.graphs.nodes import evaluated_shape
from bayeskit.types import Graph

__all__ = ["NEW", "Classes", "Feature", "find_classes", "number_of_trials", "whole_rows"]

NORMAL = ("NormalRV", "MvNormalRV")
DISCRETE = ("CategoricalRV", "BernoulliRV")
NEW = "__new"  # what the name of a variable of a new row ends with


@dataclass(frozen=True)
class Feature:
    """One feature variable of the rows."""

    name: str
    strata: tuple[str, ...]  # the variables of the model that it is: itself, or one for each class
    width: int | None  # how many columns it has; None where it is one without a dim of its own
    columns: tuple[Any, ...]  # their names, where they have some
    normal: bool  # given the parameters

    @property
    def stratified(self) -> bool:
        return self.strata != (self.name,)

    def new(self, code: int) -> str:
        """The variable of a new row of this class."""
        return f"{self.name}{NEW}" + (f"_{code}" if self.stratified else "")


@dataclass(frozen=True)
class Classes:
    """The classes of a model and the features that tell them apart."""

    label: str  # the observed variable of the classes
    labels: tuple[Any, ...]  # their names; their codes where the dim of classes has no coordinates
    features: tuple[Feature, ...]
    covariates: tuple[str, ...]  # containers with a value for each row that the label or the features depend on


def find_classes(model: pm.Model, label: str | None = None) -> Classes:
    """Read from the graph what the classes of a model are; ``label`` says which variable, where several may be."""
    observed = {str(rv.name): rv for rv in model.observed_RVs}
    candidates = {n: rv for n, rv in observed.items() if rv.ndim == 1 and type(rv.owner.op).__name__ in DISCRETE}
    if label is None and len(candidates) > 1:
        above = {n: set(ancestors([rv])) for n, rv in observed.items()}
        roots = {n: rv for n, rv in candidates.items() if any(rv in above[m] for m in observed if m != n)}
        candidates = roots or {n: rv for n, rv in candidates.items() if n == "label"} or candidates
    if label is not None and label not in candidates:
        raise ModelError(f"{label!r} is no observed Categorical or Bernoulli variable with one entry a row")
    if label is None and len(candidates) != 1:
        has = f"it has several: {', '.join(candidates)}; say which is the class" if candidates else "it has none"
        needs = "an observed Categorical or Bernoulli variable with one entry a row"
        raise ModelError(f"classification needs {needs}; {has}")
    name = label if label is not None else next(iter(candidates))
    labels = _labels(model, observed[name])
    features = _features(model, observed[name], labels)
    dims: Any = model.named_vars_to_dims
    row = (dims.get(name) or (None,))[0]
    variables = [model[s] for f in features for s in f.strata]
    inside = set(ancestors([observed[name], *variables])) - {number_of_trials(v) for v in variables}
    containers = [v for v in model.data_vars if v in inside and isinstance(v, SharedVariable)]
    by_row = [str(v.name) for v in containers if (dims.get(v.name) or (None,))[0] == row]
    return Classes(name, labels, features, tuple(by_row))


def whole_rows(model: pm.Model, observed: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Observed values, with those that are written class by class put together again in the order of the rows."""
    result = {str(n): np.asarray(v) for n, v in observed.items()}
    try:
        classes = find_classes(model)
    except ModelError:
        return result
    codes = result[classes.label]
    for feature in classes.features:
        parts = {k: result[s] for k, s in enumerate(feature.strata) if feature.stratified and s in result}
        if not parts or any(np.sum(codes == k) != len(part) for k, part in parts.items()):
            continue
        whole = np.repeat(next(iter(parts.values()))[:1], codes.size, axis=0)
        for k, part in parts.items():
            whole[codes == k] = part
            del result[feature.strata[k]]
        result[feature.name] = whole
    return result


def _labels(model: pm.Model, rv: Graph) -> tuple[Any, ...]:
    if type(rv.owner.op).__name__ == "BernoulliRV":
        return (0, 1)
    (p,) = rv.owner.op.dist_params(rv.owner)
    count = p.type.shape[-1]
    dims: Any = model.named_vars_to_dims
    named = next((v for v in ancestors([p]) if v in model.basic_RVs and dims.get(v.name)), None)
    for dim in ("class", *(dims[named.name][-1:] if named is not None else ())):
        labels = model.coords.get(dim)
        if labels is not None and count in (None, len(labels)):
            return tuple(labels)
    return tuple(range(evaluated_shape(p)[-1] if count is None else count))


def _features(model: pm.Model, label: Graph, labels: tuple[Any, ...]) -> tuple[Feature, ...]:
    observed = {str(rv.name): rv for rv in model.observed_RVs}
    found = [_feature(model, n, (n,)) for n, rv in observed.items() if rv is not label and label in ancestors([rv])]
    used = set().union(*[set(ancestors([rv])) - {rv} for rv in model.basic_RVs])
    leaves = {str(rv.name) for rv in model.basic_RVs if rv not in used}
    ends = [f"_{name}".replace("/", "_") for name in labels]  # PyMC allows no slash in a name
    for end in ends:
        for name in sorted(n.removesuffix(end) for n in observed if n.endswith(end)):
            strata = tuple(f"{name}{other}" for other in ends)
            if set(strata) <= leaves and all(name != f.name for f in found):
                found.append(_feature(model, name, strata))
    return tuple(found)


def _feature(model: pm.Model, name: str, strata: tuple[str, ...]) -> Feature:
    rv = next(model[s] for s in strata if model[s] in model.observed_RVs)
    value = model.rvs_to_values[rv]
    width = (value.type.shape[1] or evaluated_shape(value)[1]) if rv.ndim > 1 else None
    dims: Any = model.named_vars_to_dims.get(rv.name) or ()
    columns = (model.coords.get(dims[1]) or ()) if len(dims) == 2 else ()
    return Feature(name, strata, width, tuple(columns), type(rv.owner.op).__name__ in NORMAL)


def number_of_trials(rv: Graph) -> Variable | None:
    """The number of trials of a Multinomial variable: the sum of its counts, whatever it is."""
    if type(rv.owner.op).__name__ != "MultinomialRV":
        return None
    total = rv.owner.op.dist_params(rv.owner)[0]
    while total.owner is not None and len(total.owner.inputs) == 1:
        total = total.owner.inputs[0]
    return total
