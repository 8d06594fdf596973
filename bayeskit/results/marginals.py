"""Closed-form marginal posteriors: frozen SciPy distributions that keep the dims of their variable."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["ArrayDistribution", "LaterMarginals", "Marginal", "labels_of", "summarise"]


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
        import xarray as xr

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
        return self._labelled(self.dist.ppf(q))

    def __repr__(self) -> str:
        return (
            f"Marginal({self.name}: {self.family.replace('_', ' ')}{', dims ' + str(self.dims) if self.dims else ''})"
        )


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


def summarise(draws: xr.Dataset, marginals: Mapping[str, Marginal], ci_prob: float) -> pd.DataFrame:
    """Mean, sd and equal-tailed interval of every scalar: from the closed form where there is one, else from draws.

    Parameters
    ----------
    draws : xarray.Dataset
        Posterior draws with dims chain and draw.
    marginals : mapping of str to Marginal
    ci_prob : float
        Probability of the interval.
    """
    import arviz as az
    import pandas as pd

    percent = f"{100 * ci_prob:g}"
    low, high = (1 - ci_prob) / 2, (1 + ci_prob) / 2
    tables = []
    for name, values in draws.data_vars.items():
        labels = [s for _, _, s in _scalars(draws[[name]])]
        marginal = marginals.get(str(name))
        if marginal is not None and marginal.elementwise:
            columns = {
                "mean": np.ravel(marginal.dist.mean()),
                "sd": np.ravel(marginal.dist.std()),
                f"eti{percent}_lb": np.ravel(marginal.dist.ppf(low)),
                f"eti{percent}_ub": np.ravel(marginal.dist.ppf(high)),
                "mcse_mean": np.zeros(len(labels)),
            }
            label = marginal.label
        else:
            flat = np.moveaxis(values.values.reshape(-1, *values.shape[2:]), 0, -1).reshape(len(labels), -1)
            error = az.mcse(draws[[name]], method="mean")
            mean, sd = flat.mean(-1), flat.std(-1, ddof=1)
            mcse, label = np.ravel(error[name].values), "estimated"
            if marginal is not None:
                mean, sd, mcse = np.ravel(marginal.mean()), np.ravel(marginal.std()), np.zeros(len(labels))
                label = "exact moments, estimated interval"
            columns = {
                "mean": mean,
                "sd": sd,
                f"eti{percent}_lb": np.quantile(flat, low, axis=-1),
                f"eti{percent}_ub": np.quantile(flat, high, axis=-1),
                "mcse_mean": mcse,
            }
        size = len(labels)
        tables.append(
            pd.DataFrame({k: np.broadcast_to(v, size) for k, v in columns.items()} | {"label": label}, index=labels)
        )
    return pd.concat(tables) if tables else pd.DataFrame(columns=["mean", "sd", "mcse_mean", "label"])


def _scalars(dataset: xr.Dataset) -> list[tuple[str, dict[str, Any], str]]:
    """Every scalar of a dataset of draws with the name that ArviZ gives it: ``w[slope]``, ``theta[0, 1]``."""
    from arviz_base import xarray_sel_iter

    result = []
    for name, selection, _ in xarray_sel_iter(dataset, skip_dims={"chain", "draw"}):
        inside = ", ".join(str(v) for v in selection.values())
        result.append((str(name), dict(selection), f"{name}[{inside}]" if inside else str(name)))
    return result
