"""Rows that a model has not seen, added to a copy of it: the same distributions, with their class given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pytensor.compile.sharedvalue import shared
from pytensor.graph.basic import Variable
from pytensor.tensor.random import shared_rng
from pytensor.tensor.random.op import RandomVariable

from bayeskit.errors import ModelError
from bayeskit.graphs.rewriting import substitute
from bayeskit.queries.class_rows import Classes, Feature, number_of_trials
from bayeskit.types import Graph

if TYPE_CHECKING:
    import pymc as pm

__all__ = ["CODE", "NEW", "Rows", "add_rows", "new_names"]

NEW = "__new"  # what the name of a variable of a new row ends with
CODE = "label__code"


@dataclass(frozen=True, eq=False)
class Rows:
    """A model with rows that were not seen.

    Attributes
    ----------
    model : pymc.Model
        A copy with more free variables, which nothing depends on: the posterior of the others and the evidence stay.
    code : SharedVariable
        The class of the new rows of those features that are not given class by class.
    inputs : dict of str to SharedVariable
        The other containers that a new row fills: covariates, and totals by the name of their feature.
    """

    model: pm.Model
    code: Any
    inputs: dict[str, Any]


def add_rows(model: pm.Model, classes: Classes, *, number: int = 1, normal_by_class: bool) -> Rows:
    """Add to a copy of a model rows of each class that have not been seen.

    Parameters
    ----------
    model : pymc.Model
    classes : Classes
    number : int
        How many rows.
    normal_by_class : bool
        Normal features get one row of each class, as free variables ``x__new`` with the classes in front (or
        ``x__new_<code>``, where they are written class by class). All others, and Normal ones otherwise, get ``number``
        rows whose class is ``code``, like ``label__new``.

    Raises
    ------
    ModelError
        If a feature depends on the rows in a way that does not carry over to new ones.
    """
    from pymc.model.fgraph import clone_model

    other = clone_model(model)
    code = shared(np.zeros(number, dtype=np.int64), name=CODE, shape=(number,))
    every = np.arange(len(classes.labels))
    label = other[classes.label]
    inputs: dict[str, Any] = {}
    new: dict[Variable, Variable] = {}
    for name in classes.covariates:
        old = other[name]
        tail = old.get_value(borrow=True).shape[1:]
        inputs[name] = shared(
            np.zeros((number, *tail), dtype=old.type.dtype), name=f"{name}{NEW}", shape=(number, *tail)
        )
        new[old] = inputs[name]
    with other:
        _register(other, f"{classes.label}{NEW}", label, new, number)
        for feature in classes.features:
            by_class = feature.normal and normal_by_class
            given = {label: _constant(every)} if by_class else {label: code, **new}
            rows = (None if feature.stratified else len(every)) if by_class else number
            for k, stratum in enumerate(feature.strata):
                rv = other[stratum]
                replaced = dict(given)
                if (total := number_of_trials(rv)) is not None:
                    inputs[feature.name] = shared(np.zeros(number, dtype=np.int64), shape=(number,))
                    replaced[total] = inputs[feature.name]
                suffix = f"_{k}" if feature.stratified else ""
                _register(other, f"{feature.name}{NEW}{suffix}", rv, replaced, rows, feature)
    return Rows(other, code, inputs)


def _constant(values: np.ndarray) -> Any:
    import pytensor.tensor as pt

    return pt.constant(values)


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


def new_names(classes: Classes) -> list[str]:
    return [f"{n}{NEW}" for n in (classes.label, *(f.name for f in classes.features))]
