"""Closed-form marginal posteriors: frozen SciPy distributions that keep the dims of their variable."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayeskit.arguments import numeric, shown
from bayeskit.errors import OptionError
from bayeskit.graphs.environment import silently
from bayeskit.model.snapshot import WrittenModel
from bayeskit.results.moments import moments_from_draws, moments_where_unknown
from bayeskit.results.notebook_html import marginal_html

__all__ = [
    "ArrayDistribution",
    "LaterMarginals",
    "Marginal",
    "labels_of",
    "not_free",
    "scalar_labels",
    "summarise",
    "with_known_entries",
]


class ArrayDistribution(ABC):
    """What distributions that are not SciPy's, entry by entry over an array, share with its frozen ones."""

    @abstractmethod
    def ppf(self, q: Any) -> Any:
        """Quantiles."""

    @abstractmethod
    def var(self) -> Any:
        """Variance."""

    def median(self) -> Any:
        """The 0.5 quantile."""
        return self.ppf(0.5)

    def interval(self, confidence: float) -> tuple[Any, Any]:
        """Equal-tailed interval."""
        return self.ppf((1 - confidence) / 2), self.ppf((1 + confidence) / 2)

    def std(self) -> Any:
        """Standard deviation."""
        return np.sqrt(self.var())


@dataclass(frozen=True)
class Marginal:
    """The marginal posterior of one variable, in closed form or by quadrature over closed forms.

    Every method of the frozen ``scipy.stats`` distribution is available (``mean``, ``std``, ``pdf``, ``cdf``, ``ppf``,
    ``interval``, ``rvs``, …) and acts entry by entry over the shape of the variable. ``mean``, ``std``, ``var`` and
    ``ppf`` of a variable that has dims come back as an ``xarray.DataArray`` with those dims and coords.

    Attributes
    ----------
    name : str
    dist : scipy frozen distribution
        Elementwise, except for a Wishart matrix, whose entries have no closed form of their own: then it is
        ``scipy.stats.wishart`` itself.
    family : str
        ``normal``, ``student_t``, ``beta``, ``gamma``, ``inverse_gamma``, ``dirichlet``, ``wishart``, ``categorical``.
    dims : tuple of str
    coords : mapping of str to sequence
    joint : scipy frozen distribution or None
        The joint distribution of the entries, where SciPy has one.
    elementwise : bool
    label : {"exact", "quadrature"}
        Whether the distribution is a closed form or integrated numerically over what remains.
    """

    name: str
    dist: Any
    family: str
    dims: tuple[str, ...] = ()
    coords: Mapping[str, Any] = field(default_factory=dict)
    joint: Any = None
    elementwise: bool = True
    label: str = "exact"

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__") or attribute == "dist":
            raise AttributeError(attribute)
        return getattr(self.dist, attribute)

    def _labelled(self, values: Any) -> Any:
        if not self.dims or np.ndim(values) != len(self.dims):
            return float(values) if np.ndim(values) == 0 else values
        lengths = [len(self.coords.get(dim, range(n))) for dim, n in zip(self.dims, np.shape(values), strict=True)]
        if np.shape(values) != tuple(lengths):  # quantiles at several probabilities, of one entry
            return values
        return xr.DataArray(values, dims=self.dims, coords=dict(self.coords), name=self.name)

    def mean(self) -> Any:
        """Posterior mean."""
        return self._labelled(self.dist.mean())

    def var(self) -> Any:
        """Posterior variance."""
        return self._labelled(self.dist.var())

    def std(self) -> Any:
        """Posterior standard deviation."""
        return self._labelled(np.sqrt(self.dist.var()) if not self.elementwise else self.dist.std())

    def ppf(self, q: Any) -> Any:
        """Quantiles; for one probability ``q`` with the dims of the variable."""
        return self._labelled(self.dist.ppf(_probabilities("the probabilities", q)))

    def interval(self, confidence: Any) -> tuple[Any, Any]:
        """Equal-tailed interval of this probability: its lower and its upper ends, over the shape of the variable."""
        return tuple(self.dist.interval(_probabilities("confidence", confidence)))

    def __repr__(self) -> str:
        dims = f", dims {self.dims}" if self.dims else ""
        return f"Marginal({self.name}: {self.family.replace('_', ' ')}{dims})"

    def _repr_html_(self) -> str:
        return marginal_html(self, self._labels())

    def _labels(self) -> list[str]:
        """Of each entry, as a summary names it."""
        values = np.asarray(self.dist.mean())
        dims = self.dims if len(self.dims) == values.ndim else tuple(f"{self.name}_dim_{k}" for k in range(values.ndim))
        coords = {dim: labels for dim, labels in self.coords.items() if dim in dims}
        return scalar_labels(xr.Dataset({self.name: (dims, values)}, coords), self.name)


def _probabilities(what: str, given: Any) -> np.ndarray:
    """What was given as an array; an OptionError where it is not between zero and one: a percentage is a slip."""
    values = numeric(what, given)
    if values.size and not np.all((values >= 0) & (values <= 1)):
        raise OptionError(f"{what} is {shown(given)}; it must be from 0 to 1, 0.95 for 95 %")
    return values


class LaterMarginals(Mapping[str, Marginal]):
    """Marginals that are made when the first of them is asked for."""

    def __init__(self, make: Callable[[], Mapping[str, Marginal]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Mapping[str, Marginal]:
        return self._make()

    def __getitem__(self, name: str) -> Marginal:
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def labels_of(name: str, model: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The dims and coords that a variable has in the model."""
    dims = tuple(model.named_vars_to_dims.get(name, ()) or ())
    known = {d: list(c) for d in dims if d is not None and (c := model.coords.get(d)) is not None}
    return dims if all(d is not None for d in dims) else (), known


def not_free(name: str, model: Any, tree: xr.DataTree) -> str:
    """Why a variable has no marginal posterior: it is another than the free ones, or there is none of this name."""
    free = [str(rv.name) for rv in model.free_RVs]
    held = {group: {str(n) for n in node.data_vars} for group, node in tree.children.items()}
    if not isinstance(model, WrittenModel):
        roles = {"posterior": model.deterministics, "observed_data": model.observed_RVs}
        roles |= {"constant_data": model.data_vars, "potentials": model.potentials}
        held |= {group: {str(v.name) for v in variables} for group, variables in roles.items()}
    where = next((group for group, names in held.items() if name in names), "")
    if where == "posterior":
        what = f"{name!r} is a Deterministic, which has no marginal in closed form"
        return f"{what}: its draws are in tree['posterior'][{name!r}]"
    if where == "observed_data":
        what = f"{name!r} is observed, and has no posterior"
        return f"{what}: draws of new values like it are in posterior_predictive()[{name!r}]"
    if where:
        what = "a Potential" if where == "potentials" else "data"
        return f"{name!r} is {what}, and has no posterior; the model's free variables are {', '.join(free)}"
    of = name.partition("[")[0]
    draws, whole = f"its draws are in tree['posterior'][{of!r}]", f"where it has a marginal, marginal({of!r})"
    entry = f"; {draws}; {whole} is that of its entries, with its dims: .mean().sel(...)" if of in free else ""
    return f"no variable {name!r}: the model's free variables are {', '.join(free)}{entry}"


def _mcse_of_mean(draws: xr.Dataset, name: str) -> np.ndarray:
    from arviz_stats import mcse  # with half of SciPy, which a summary of closed forms can do without

    return np.asarray(mcse(draws[[name]], method="mean")[name].values)


def summarise(draws: xr.Dataset, marginals: Mapping[str, Marginal], ci_prob: float) -> pd.DataFrame:
    """Mean, sd and equal-tailed interval of every scalar: from the closed form where there is one, else from draws."""
    percent, tails = f"{100 * ci_prob:g}", ((1 - ci_prob) / 2, (1 + ci_prob) / 2)
    tables = [pd.DataFrame(columns=["mean", "sd", "mcse_mean", "label"])] if not draws.data_vars else []
    draws = draws.map(lambda v: v.astype(float) if v.dtype == bool else v)  # true and false have a mean, too
    with silently():  # draws of a Deterministic may be infinite, and so are their moments then
        for name, values in draws.data_vars.items():
            marginal = marginals.get(str(name))
            if marginal is not None and marginal.elementwise:
                low, high = (marginal.dist.ppf(q) for q in tails)
            else:
                sample = values.transpose("chain", "draw", ...).to_numpy()
                low, high = np.quantile(sample, tails, axis=(0, 1))
            if marginal is not None:
                mean, sd = marginal.mean(), marginal.std()
                mcse: Any = 0.0
                label: Any = marginal.label if marginal.elementwise else "exact moments, estimated interval"
                if np.any(np.isnan(mean) | np.isnan(sd)):
                    mean, sd, mcse, label = moments_where_unknown(mean, sd, values, label)
            else:
                mean, sd = sample.mean((0, 1)), sample.std((0, 1), ddof=1)
                mcse = _mcse_of_mean(draws, str(name))
                mean, sd, mcse, label = moments_from_draws(mean, sd, mcse, values)
            labels = scalar_labels(draws, str(name))
            ends = {f"eti{percent}_lb": low, f"eti{percent}_ub": high}
            columns = {"mean": mean, "sd": sd, **ends, "mcse_mean": mcse}
            flat = {k: np.broadcast_to(np.ravel(v), len(labels)) for k, v in {**columns, "label": label}.items()}
            tables.append(pd.DataFrame(flat, index=labels))
    return pd.concat(tables)


def with_known_entries(table: pd.DataFrame, draws: xr.Dataset, partly_observed: Collection[str]) -> pd.DataFrame:
    """A table of :func:`summarise` without the spread that rounding gives to a number that is the same in all draws.

    Of a variable that was observed in part such entries are data, and their label is "observed".
    """
    table, first = table.copy(), 0
    places = {name: table.columns.get_loc(name) for name in ("mean", "sd", "mcse_mean", "label")}
    for name, values in draws.data_vars.items():
        size = int(np.prod([n for d, n in values.sizes.items() if d not in ("chain", "draw")], dtype=int))
        rows, first = np.arange(first, first + size), first + size
        if not size or not table["label"].iloc[rows[0]].startswith("estimated"):  # closed forms need no draws
            continue
        sample = values.transpose("chain", "draw", ...).to_numpy().reshape(-1, size)
        same = np.all(sample == sample[:1], axis=0)
        table.iloc[rows[same], places["mean"]] = sample[0, same]
        table.iloc[rows[same], [places["sd"], places["mcse_mean"]]] = 0.0
        if name in partly_observed:
            table.iloc[rows[same], places["label"]] = "observed"
    return table


def scalar_labels(draws: xr.Dataset, name: str) -> list[str]:
    """The name of each scalar of a variable, in C order, as ArviZ writes it: ``weight[density]``."""
    from arviz_base import xarray_sel_iter
    from arviz_base.labels import BaseLabeller

    scalars = xarray_sel_iter(draws[[name]], skip_dims={"chain", "draw"})
    return [BaseLabeller().make_label_flat(name, selection, place) for _, selection, place in scalars]
