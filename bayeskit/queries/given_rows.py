"""The new rows that are to be classified: as arrays, held to the features and classes of the model; and the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy import special

from bayeskit.arguments import all_finite, numeric
from bayeskit.errors import DataError
from bayeskit.model.data_slots import uncut
from bayeskit.queries.class_rows import Classes, Feature
from bayeskit.results.records import Posterior

__all__ = ["GivenRows"]


class GivenRows:
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
        self.values = {f.name: _values(f, given[f.name], post.model[f.strata[0]].type.dtype) for f in classes.features}
        self.covariates = {n: _covariate(n, given[n], post.model[n]) for n in classes.covariates}
        self.true = _codes(classes, given[classes.label]) if classes.label in given else None
        true = {} if self.true is None else {classes.label: self.true}
        lengths = {n: len(v) for n, v in (self.values | self.covariates | true).items()}
        if len(set(lengths.values())) > 1:
            sizes = ", ".join(f"{n} {length}" for n, length in lengths.items())
            raise DataError(f"the new rows have different numbers ({sizes}); give each the same rows")
        self.number = next(iter(lengths.values()), 0)
        if self.number == 0:
            raise DataError("there are no new rows; give at least one")
        labelled = [v for v in given.values() if getattr(v, "coords", None) and v.dims[0] in v.coords]
        self.coords = np.asarray(labelled[0][labelled[0].dims[0]]) if labelled else None

    def input(self, name: str) -> np.ndarray:
        """What fills a container of :class:`~bayeskit.queries.new_rows.Rows`: a covariate, or the sums of counts."""
        return self.covariates[name] if name in self.covariates else self.values[name].sum(axis=1)

    def answer(self, log_joint: np.ndarray, error: np.ndarray | None, label: str, reason: str) -> xr.Dataset:
        """The Dataset, from log p(c, x | y) of shape (rows, classes)."""
        log_density = special.logsumexp(log_joint, axis=1)
        if not np.all(np.isfinite(log_density)):
            row = int(np.argmin(np.isfinite(log_density)))
            raise DataError(f"the new row {row + 1} has no density under any class: check its values")
        log_probability = log_joint - log_density[:, None]
        labels = np.asarray(self.classes.labels)
        predicted = log_probability.argmax(axis=1)
        variables = {
            "probability": (("row", "class"), np.exp(log_probability)),
            "error": (("row", "class"), np.zeros_like(log_joint) if error is None else error),
            "predicted": (("row",), labels[predicted]),
            "log_density": (("row",), log_density if self.classes.features else np.full(self.number, np.nan)),
        }
        attributes: dict[str, Any] = {"label": label} | ({"reason": reason} if reason else {})
        if self.true is not None:
            score = log_probability[np.arange(self.number), self.true]
            variables["log_score"] = (("row",), score)
            attributes["mean_log_score"] = float(score.mean())
            attributes["accuracy"] = float(np.mean(predicted == self.true))
        coords = {"class": labels} | ({} if self.coords is None else {"row": self.coords})
        return xr.Dataset(variables, coords=coords, attrs=attributes)


def _values(feature: Feature, given: Any, dtype: Any) -> np.ndarray:
    """The values of one feature as an array of shape (rows,) or (rows, columns)."""
    what = f"the new values of {feature.name!r}"
    dims: Any = getattr(given, "dims", ())
    if feature.columns and len(dims) == 2 and dims[1] in given.coords:
        have = [str(c) for c in given[dims[1]].to_numpy()]
        lacking = [str(c) for c in feature.columns if str(c) not in have]
        if lacking:
            raise DataError(f"{what} lack the column {lacking[0]!r}; it has {', '.join(have)}")
        given = given[:, [have.index(str(c)) for c in feature.columns]]
    values = uncut(feature.name, given, dtype)
    if feature.width is not None and (values.ndim != 2 or values.shape[1] != feature.width):
        columns = f"{feature.width} column{'' if feature.width == 1 else 's'}"
        raise DataError(f"{what} have shape {values.shape}; the model needs one row each, with {columns}")
    if feature.width is None and values.ndim != 1:
        raise DataError(f"{what} have shape {values.shape}; the model needs one number a row")
    if not np.all(np.isfinite(values)):
        where = np.argwhere(~np.isfinite(values))[0]
        column = f" of column {str(feature.columns[where[1]])!r}" if feature.columns and len(where) == 2 else ""
        entry = f"{what}, row {where[0] + 1}: the value{column}"
        raise DataError(f"{entry} is missing or infinite; fill it in or drop the row")
    return values


def _covariate(name: str, given: Any, container: Any) -> np.ndarray:
    what, old = f"the new values of {name!r}", container.get_value(borrow=True)
    values = numeric(what, given)
    if values.shape[1:] != old.shape[1:]:
        raise DataError(f"{what} do not fit: the model has numbers of shape {old.shape}")
    if not all_finite(values):
        row = int(np.argwhere(~np.isfinite(values))[0, 0])
        raise DataError(f"{what}, row {row + 1}: the value is missing or infinite; fill it in or drop the row")
    return uncut(name, values, old.dtype)


def _codes(classes: Classes, given: Any) -> np.ndarray:
    """The codes of true classes; compared as text, because labels may be whole numbers."""
    known = [str(c) for c in classes.labels]
    asked = [str(v).strip() for v in np.ravel(np.asarray(given, dtype=object))]
    codes = pd.Index(known).get_indexer(asked)
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        entry = f"the new values of {classes.label!r}, row {row + 1}: {asked[row]!r}"
        raise DataError(f"{entry} is a class that the model was not fitted to; it knows {', '.join(known)}")
    return codes
