r"""Averages over models: a quantity, or a prediction, as the mixture of what each model says of it.

With weights :math:`w_k`, and :math:`m_k` and :math:`v_k` the mean and the variance of :math:`\Delta` under model k,

.. math::
    p(\Delta \mid y) = \sum_k w_k \, p(\Delta \mid y, M_k), \qquad
    m = \sum_k w_k m_k, \qquad v = \sum_k w_k \left(v_k + (m_k - m)^2\right).

The number of draws of each model differs from its share by less than one (systematic sampling, right on average), and
no draw is taken twice. Mean and sd do not come from these draws: they are the sums above, over closed-form marginals
where there are some, and over all draws of a model otherwise.

Source: Hoeting, Madigan, Raftery, Volinsky (1999), "Bayesian model averaging: a tutorial", Statistical Science 14.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from bayeskit.arguments import RandomSeed, whole_seed
from bayeskit.comparison.model_weights import ModelWeights, model_weights
from bayeskit.errors import BayeskitError, DataError, ModelError, OptionError
from bayeskit.results.log_evidence import LABELS
from bayeskit.results.predictive import CODE
from bayeskit.results.records import Posterior
from bayeskit.results.tree import FOUR_CHAINS_FROM, chains_of, stacked_draws

if TYPE_CHECKING:
    from bayeskit.comparison.comparison import Comparison

__all__ = ["averaged", "predicted"]

DRAWS = 4000  # where there are that many
SAMPLE = ("chain", "draw")


def averaged(
    comparison: Comparison,
    quantity: str,
    *,
    weights: str,
    draws: int | None,
    missing: float | None,
    random_seed: RandomSeed,
) -> xr.DataTree:
    """The mixture over models of a quantity; see :meth:`bayeskit.Comparison.average`."""
    weighted = model_weights(comparison, weights)
    posteriors = {name: comparison.posteriors[name] for name in weighted.names}
    given = _given(posteriors, quantity, missing)
    pattern = _same(quantity, {name: values for name, values in given.items() if values is not None})
    rng = np.random.default_rng(whole_seed(random_seed))
    absent = xr.Dataset({quantity: xr.full_like(pattern, missing or 0.0, dtype=float)})
    held = {name: absent if values is None else values.to_dataset() for name, values in given.items()}
    alike = {name for name, values in given.items() if values is None}
    tree = _mixture(held, [pattern], weighted, _counts(held, weighted, draws, alike, rng), "posterior", rng)
    shape = tuple(pattern.sizes[dim] for dim in pattern.dims if dim not in SAMPLE)
    moments = {
        name: _Moments(np.full(shape, missing), np.zeros(shape), np.zeros(shape), "exact")
        if values is None
        else _moments(posteriors[name], values, shape)
        for name, values in given.items()
    }
    tree["mixture"] = xr.DataTree(_summary(weighted, moments, pattern, weights))
    return tree


def predicted(
    comparison: Comparison,
    new_data: Mapping[str, Any] | pd.DataFrame | None,
    *,
    weights: str,
    draws: int | None,
    random_seed: RandomSeed,
) -> xr.DataTree:
    """The mixture over models of their predictions; see :meth:`bayeskit.Comparison.predict`."""
    weighted = model_weights(comparison, weights)
    rng = np.random.default_rng(whole_seed(random_seed))
    data = {} if new_data is None else {str(name): column for name, column in new_data.items()}
    held, containers = {}, dict[str, None]()
    for name in weighted.names:
        posterior = comparison.posteriors[name]
        try:
            known = [str(container.name) for container in posterior.model.data_vars]
            taken = {n: v for n, v in data.items() if n in known or f"{n}{CODE}" in known}
            held[name] = posterior.predict(taken, random_seed=int(rng.integers(2**32)))
        except BayeskitError as error:
            error.args = (f"{name}: {error}",)
            raise
        containers |= dict.fromkeys(known)
    if unknown := [name for name in data if name not in containers and f"{name}{CODE}" not in containers]:
        known_names = ", ".join(containers) or "none; wrap the covariates in pm.Data"
        raise DataError(f"{unknown[0]!r} is a pm.Data container of none of the models; they have: {known_names}")
    first, *others = held
    for name in others:
        if set(held[name].data_vars) != set(held[first].data_vars):
            which = f"{', '.join(map(str, held[first].data_vars))} in {first}"
            which += f", {', '.join(map(str, held[name].data_vars))} in {name}"
            raise ModelError(f"the models predict different variables: {which}; name what they observe alike")
    names = map(str, held[first].data_vars)
    patterns = [_same(name, {model: values[name] for model, values in held.items()}) for name in names]
    counts = _counts(held, weighted, draws, set(), rng)
    tree = _mixture(held, patterns, weighted, counts, "predictions" if data else "posterior_predictive", rng)
    tree["mixture"] = xr.DataTree(_weights_of(weighted, weights))
    return tree


def _given(posteriors: Mapping[str, Posterior], quantity: str, missing: float | None) -> dict[str, xr.DataArray | None]:
    """The draws of each model; None where it lacks the quantity and is said to be without it."""
    drawn: dict[str, xr.Dataset] = {}
    for name, posterior in posteriors.items():
        if "posterior" not in posterior.tree.children:
            raise ModelError(f"{name}: it has no draws to average; infer it with draws=4000")
        drawn[name] = posterior.tree["posterior"].to_dataset()
    lacking = [name for name, draws in drawn.items() if quantity not in draws.data_vars]
    shared = [str(n) for n in next(iter(drawn.values())).data_vars if all(n in draws for draws in drawn.values())]
    share = f"the models share {', '.join(shared) or 'no variable'}"
    if len(lacking) == len(drawn):
        raise ModelError(f"no model has draws of {quantity!r}; {share}")
    if lacking and missing is None:
        advice = "where it is zero in a model that leaves it out, as a slope is, say missing=0.0"
        raise ModelError(f"{', '.join(lacking)}: there is no {quantity!r}; {share}; {advice}")
    return {name: None if name in lacking else draws[quantity] for name, draws in drawn.items()}


def _same(quantity: str, given: Mapping[str, xr.DataArray]) -> xr.DataArray:
    """One of the variables, which are numbers of the same shape and labels; a ModelError names the first difference.

    An axis to which a model gives no name goes with one of the same length that has a name elsewhere.
    """
    first = min(given, key=lambda name: sum(_nameless(quantity, str(dim)) for dim in given[name].dims))
    pattern = given[first]
    dims = [str(dim) for dim in pattern.dims if dim not in SAMPLE]
    for name, values in given.items():
        if values.dtype.kind not in "biuf":
            raise ModelError(f"{name}: {quantity!r} is no number, and has no average")
        own = [str(dim) for dim in values.dims if dim not in SAMPLE]
        fits = len(own) == len(dims) and all(
            values.sizes[a] == pattern.sizes[b] and (a == b or _nameless(quantity, a))
            for a, b in zip(own, dims, strict=True)
        )
        if not fits:
            shapes = [" × ".join(f"{d}: {v.sizes[d]}" for d in of) for v, of in ((pattern, dims), (values, own))]
            differ = f"{shapes[0] or 'one number'} in {first}, {shapes[1] or 'one number'} in {name}"
            raise ModelError(f"{quantity!r} is not the same in all models ({differ}): give it the same dims")
        for dim in set(own) & set(dims):
            if not np.array_equal(values[dim].to_numpy(), pattern[dim].to_numpy()):
                raise ModelError(f"{quantity!r} has other labels along {dim!r} in {name} than in {first}")
    return pattern


def _nameless(quantity: str, dim: str) -> bool:
    return dim.startswith(f"{quantity}_dim_")


def _counts(
    held: Mapping[str, xr.Dataset],
    weighted: ModelWeights,
    draws: int | None,
    alike: set[str],
    rng: np.random.Generator,
) -> np.ndarray:
    """How many draws are taken of each model; of those whose draws are ``alike`` as many as one likes."""
    number = {name: int(np.prod([values.sizes[dim] for dim in SAMPLE])) for name, values in held.items()}
    room = {
        name: number[name] / weight
        for name, weight in zip(weighted.names, weighted.values, strict=True)
        if weight > 0 and name not in alike
    }
    most = max(1, int(min(room.values(), default=DRAWS)))
    if draws is None:
        draws = min(most, DRAWS)
        draws -= draws % 4 if draws >= FOUR_CHAINS_FROM else 0
    elif draws > most:
        short = min(room, key=room.__getitem__)
        what = f"{draws:,} draws need more of {short} than its {number[short]:,}"
        raise OptionError(f"draws: {what}; ask for {most:,} at most, or infer it with more draws")
    places = np.append(0.0, np.cumsum(weighted.values)) * draws
    places[-1] = draws
    counts: np.ndarray = np.diff(np.floor(places + rng.random())).astype(int)
    return counts


def _mixture(
    held: Mapping[str, xr.Dataset],
    patterns: Sequence[xr.DataArray],
    weighted: ModelWeights,
    counts: np.ndarray,
    group: str,
    rng: np.random.Generator,
) -> xr.DataTree:
    """So many draws of each model, in random order, and in ``sample_stats`` the model that each came from."""
    of_model = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    chains = chains_of(of_model.size)
    lengths = chains, of_model.size // chains
    sizes = [int(np.prod([values.sizes[dim] for dim in SAMPLE])) for values in held.values()]
    chosen = [rng.choice(size, count, replace=size < count) for count, size in zip(counts, sizes, strict=True)]
    coords = {"chain": np.arange(chains), "draw": np.arange(lengths[1])}
    result = {}
    for pattern in patterns:
        name, dims = str(pattern.name), [dim for dim in pattern.dims if dim not in SAMPLE]
        parts = [stacked_draws(values, [name])[name] for values in held.values()]
        mixed = np.empty((of_model.size, *parts[0].shape[1:]), dtype=np.result_type(*parts))
        for k, (part, rows) in enumerate(zip(parts, chosen, strict=True)):
            mixed[of_model == k] = part[rows]
        result[name] = ((*SAMPLE, *dims), mixed.reshape(*lengths, *mixed.shape[1:]))
        coords |= {str(dim): pattern[dim].to_numpy() for dim in dims if dim in pattern.coords}
    names = np.array(weighted.names)[of_model].reshape(lengths)
    origin = xr.Dataset({"model": (SAMPLE, names)}, {dim: coords[dim] for dim in SAMPLE})
    return xr.DataTree.from_dict({group: xr.Dataset(result, coords), "sample_stats": origin})


class _Moments(NamedTuple):
    """Mean and sd under one model, the mean's Monte Carlo error, the label, and the draws that they are of, if any."""

    mean: np.ndarray
    sd: np.ndarray
    mean_error: np.ndarray
    label: str
    draws: xr.DataArray | None = None

    def error_of_spread(self, center: np.ndarray) -> np.ndarray:
        """The Monte Carlo error of E (Δ − m)², of mean and sd together: in a skewed posterior they err together."""
        return np.zeros_like(self.mean) if self.draws is None else _error_of_mean((self.draws - center) ** 2)


def _moments(posterior: Posterior, values: xr.DataArray, shape: Sequence[int]) -> _Moments:
    """Mean and sd under one model: of the closed form where there is one."""
    marginal = posterior.marginals.get(str(values.name))
    if marginal is not None:
        mean, sd = (np.broadcast_to(np.asarray(m, dtype=float), shape) for m in (marginal.mean(), marginal.std()))
        return _Moments(mean, sd, np.zeros(shape), marginal.label)
    numbers = values.astype(float)
    mean, spread = values.mean(SAMPLE).to_numpy(), values.std(SAMPLE, ddof=1).to_numpy()
    return _Moments(mean, spread, _error_of_mean(numbers), "estimated", numbers)


def _error_of_mean(values: xr.DataArray) -> np.ndarray:
    import arviz as az

    return np.asarray(az.mcse(values.to_dataset(name="x"), method="mean")["x"])


def _weights_of(weighted: ModelWeights, kind: str) -> xr.Dataset:
    """The weights by model; as attributes where they come from and what must be known of them."""
    given = "" if kind == "evidence" else "errors are those of draws alone: stacking weights have none of their own"
    attrs = {"weights": kind, "notes": "; ".join((*weighted.notes, *filter(None, [given])))}
    of_models = {"weight": ("model", weighted.values), "weight_error": ("model", weighted.errors)}
    return xr.Dataset(of_models, {"model": list(weighted.names)}, attrs)


def _summary(weighted: ModelWeights, moments: Mapping[str, _Moments], pattern: xr.DataArray, kind: str) -> xr.Dataset:
    """Mean and sd of the mixture and of each model, with errors to first order."""
    means, sds, mean_errors = map(np.stack, zip(*((m.mean, m.sd, m.mean_error) for m in moments.values()), strict=True))
    axes = (-1, *(1 for _ in range(means.ndim - 1)))
    mean, share = weighted.mean(means), weighted.values.reshape(axes)
    spread = sds**2 + (means - mean) ** 2
    sd = np.sqrt(weighted.mean(spread))
    sampling = np.sqrt(np.sum((share * mean_errors) ** 2, axis=0))
    # v = Σ w E_k (Δ − m)², and the error of m is none of v's: ∂v/∂m = −2 Σ w (m_k − m) = 0.
    of_spread = share * np.stack([m.error_of_spread(mean) for m in moments.values()])
    with np.errstate(divide="ignore", invalid="ignore"):
        sd_error = np.hypot(np.sqrt(np.sum(of_spread**2, axis=0)), weighted.error_of_mean(spread)) / (2 * sd)
    dims = [dim for dim in pattern.dims if dim not in SAMPLE]
    found = _weights_of(weighted, kind)
    numbers = {"mean": mean, "mean_error": np.hypot(sampling, weighted.error_of_mean(means)), "sd": sd}
    numbers["sd_error"] = np.where(sd > 0, sd_error, 0.0)
    found = found.assign({name: (dims, value) for name, value in numbers.items()})
    found = found.assign(model_mean=(("model", *dims), means), model_sd=(("model", *dims), sds))
    found = found.assign_coords({dim: pattern[dim].to_numpy() for dim in dims if dim in pattern.coords})
    labels = [*weighted.labels, *(m.label for m in moments.values())]
    return found.assign_attrs(label=max(labels, key=LABELS.index), quantity=str(pattern.name))
