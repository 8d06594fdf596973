"""New rows drawn from the posterior of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from bayeskit.arguments import RandomSeed
from bayeskit.chunks.labels import latent_labels
from bayeskit.chunks.reading import read_rows
from bayeskit.chunks.rows import ChunkRows, column_kinds
from bayeskit.chunks.sources import chunks_of
from bayeskit.chunks.template import Template
from bayeskit.errors import BayeskitError, DataError
from bayeskit.graphs.environment import lightly
from bayeskit.graphs.fingerprint import fingerprint
from bayeskit.results.predictive import predict
from bayeskit.results.records import Posterior

__all__ = ["forecast"]

MOST = 20  # values of a column that is left out which are tried in its place


def forecast(template: Template, post: Posterior, data: Any, dim: str | None, random_seed: RandomSeed) -> xr.Dataset:
    """Draws of the observed variables at new rows.

    Columns that are not given are filled; a DataError unless what is drawn is the same whatever they are filled with.
    """
    pieces = [rows for rows, _ in chunks_of(data, dim, "the new data")]
    if not pieces:
        raise DataError("the new data are empty: they have no rows")
    rows = reduce(ChunkRows.followed_by, pieces)
    known = template.rows
    missing = [c for c in column_kinds(known) if c not in column_kinds(rows)]
    for name in missing:
        rows = rows.with_column(known.key(name), known.value(name))
    with lightly():
        model = read_rows(template.build, rows, twice=False).model
        for name in missing:
            _require_unused(template, rows, name, model)
        tree = xr.DataTree.from_dict({"posterior": _of_labels(post, model)})
        drawn = predict(model, tree, {}, random_seed=random_seed)
    if (faults := rows.faults()) and any(np.any(np.isnan(v)) for v in drawn.values() if v.dtype.kind == "f"):
        raise DataError(f"the new data have no forecast: {faults}; leave such rows out")
    return drawn


def _require_unused(template: Template, rows: ChunkRows, name: str, model: pm.Model) -> None:
    value = np.asarray(template.rows.value(name))
    known = template.rows.columns().get(name, np.empty(0))
    others: list[Any] = (
        [value + 1, value - 1, 1 - value] if value.dtype.kind in "iuf" else [~value] if value.dtype.kind == "b" else []
    )
    others += [f"{value}_"] if value.dtype.kind in "OSUT" else []
    others += list(pd.unique(pd.Series(known[known != value])))[:MOST]
    tried = 0
    for other in others:
        try:
            changed = read_rows(template.build, rows.with_column(template.rows.key(name), other), twice=False).model
        except BayeskitError:
            continue
        tried += 1
        if _drawn_from(changed) != _drawn_from(model):
            tried = 0
            break
    if tried:
        return
    raise DataError(f"the new data have no column {name!r}, which the forecast depends on: give it")


def _drawn_from(model: pm.Model) -> list[str]:
    """What tells the distributions of observed variables apart, their values aside: of the first of several groups, or
    of another one that is the first then."""
    names: Mapping[Any, str] = {rv: str(rv.name) for rv in model.free_RVs}
    found = [f"{dim}: {list(labels)}" for dim, labels in latent_labels(model).items()]
    for rv in model.observed_RVs:
        parameters = [i for i in rv.owner.inputs if hasattr(i.type, "dtype")]
        found.append(f"{rv.name}: {[fingerprint(i, dict(names)) for i in parameters]}")
    return found


def _of_labels(post: Posterior, model: pm.Model) -> xr.Dataset:
    """The draws of the entries that the model of the new rows has, in its order."""
    draws = post.tree["posterior"].to_dataset()[[str(rv.name) for rv in model.free_RVs]]
    for dim, labels in latent_labels(model).items():
        index = pd.Index(draws[dim].to_numpy())
        places = index.get_indexer(labels)
        if np.any(places < 0):
            unknown = labels[places < 0][0]
            raise DataError(
                f"the new data have the {dim} {unknown!r}, of which no rows were seen: add rows of it first"
            )
        draws = draws.isel({dim: places})
    return draws
