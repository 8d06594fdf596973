"""Rows that a model has not seen, added to a copy of it: the same distributions, with their class given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.model.fgraph import clone_model
from pytensor.compile.sharedvalue import shared
from pytensor.graph.basic import Variable
from pytensor.tensor.random import shared_rng
from pytensor.tensor.random.op import RandomVariable

from bayeskit.errors import ModelError
from bayeskit.graphs.rewriting import substitute
from bayeskit.queries.class_rows import NEW, Classes, Feature, number_of_trials
from bayeskit.types import Graph

__all__ = ["Rows", "add_rows"]


@dataclass(frozen=True, eq=False)
class Rows:
    """A model with rows that were not seen."""

    model: pm.Model  # a copy with more free variables, on which nothing depends: posterior and evidence stay
    names: list[str]  # of these variables
    code: Any  # a container of the class of the new rows of those features that are not given class by class
    inputs: dict[str, Any]  # the other containers that a new row fills: covariates, and totals by their feature


def add_rows(model: pm.Model, classes: Classes, *, number: int = 1, normal_by_class: bool) -> Rows:
    """Add to a copy of a model so many rows, ``label__new`` and ``x__new``, whose class is ``code``.

    With ``normal_by_class`` Normal features get one row of each class instead: ``x__new`` with the classes in front, or
    ``x__new_<code>`` where they are written class by class.
    """
    other = clone_model(model)
    code = shared(np.zeros(number, dtype=np.int64), shape=(number,))
    label = other[classes.label]
    inputs: dict[str, Any] = {}
    new: dict[Variable, Variable] = {}
    for name in classes.covariates:
        old = other[name]
        shape = (number, *old.get_value(borrow=True).shape[1:])
        new[old] = inputs[name] = shared(np.zeros(shape, dtype=old.type.dtype), shape=shape)
    names = [f"{classes.label}{NEW}"]
    with other:
        _register(other, names[0], label, new, number)
        for feature in classes.features:
            by_class = feature.normal and normal_by_class
            count = len(classes.labels)
            given = {label: pt.constant(np.arange(count))} if by_class else {label: code, **new}
            rows = (None if feature.stratified else count) if by_class else number
            for k, stratum in enumerate(feature.strata):
                rv = other[stratum]
                replaced = dict(given)
                if (total := number_of_trials(rv)) is not None:
                    inputs[feature.name] = shared(np.zeros(number, dtype=np.int64), shape=(number,))
                    replaced[total] = inputs[feature.name]
                names.append(feature.new(k))
                _register(other, names[-1], rv, replaced, rows, feature)
    return Rows(other, names, code, inputs)


def _register(
    model: pm.Model,
    name: str,
    like: Graph,
    replaced: Mapping[Variable, Variable],
    rows: int | None,
    feature: Feature | None = None,
) -> None:
    """A free variable with the distribution of another, some of its parameters' inputs replaced."""
    op: Any = like.owner.op
    tail = [feature.width] if feature is not None and feature.width is not None and op.ndim_supp == 0 else []
    size = [*([] if rows is None else [rows]), *tail]
    if not isinstance(op, RandomVariable):
        raise ModelError(f"{like.name!r} cannot be carried over to a new row: it is no plain random variable")
    refused = (
        f"{like.name!r} cannot be carried over to a new row: its distribution depends on numbers that belong to the "
        "rows fitted; hold them in a pm.Data container with the rows as its first dim, and give them with the new rows"
    )
    try:
        parameters = substitute(list(op.dist_params(like.owner)), replaced)
        _, rv = op(*parameters, size=size or None, rng=shared_rng(seed=0), return_next_rng=True)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise ModelError(refused) from error
    for parameter, ndim in zip(parameters, op.ndims_params, strict=True):
        batch = parameter.type.shape[: parameter.type.ndim - ndim]
        if size and len(batch) == len(size) and batch[0] not in (None, 1, size[0]):
            raise ModelError(refused)
    model.register_rv(rv, name, default_transform=None)
