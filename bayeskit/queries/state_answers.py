"""What can be asked of a finite latent variable at draws of everything else, each answer averaged over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from scipy import special

from bayeskit.arguments import Count, RandomSeed
from bayeskit.elimination.analysis import Analysis
from bayeskit.errors import ModelError
from bayeskit.finite import hmm
from bayeskit.finite.conditional import StateRecovery
from bayeskit.finite.forecasting import observe_next
from bayeskit.model.markov_chain import is_chain
from bayeskit.model.snapshot import Snapshot, on_its_data

__all__ = ["States"]


@dataclass(frozen=True)
class States:
    """A finite latent variable with the parameters at which it is asked about.

    Every probability is an :class:`xarray.Dataset` with ``probability`` and ``error``, its Monte Carlo standard error:
    zero where it is exact, at fixed parameters or where there are no others, and the error bound of the evidence where
    the posterior is by quadrature and the probability too. ``attrs["label"]`` says which.

    Attributes
    ----------
    variable : str
    draws : int
        Over how many draws of the parameters is averaged.
    snapshot : Snapshot
        The data that the model had: every answer is given them.
    exact : bool
        Whether the answers are exact.
    """

    variable: str
    _recovery: StateRecovery = field(repr=False)
    _parameters: Mapping[str, np.ndarray] = field(repr=False)
    draws: int
    _analysis: Analysis = field(repr=False)
    _layout: tuple[tuple[str, ...], dict[str, Any]] = field(repr=False)
    snapshot: Snapshot = field(repr=False)
    exact: bool = True
    _known: tuple[np.ndarray, float, str] | None = field(repr=False, default=None)  # the marginals, if not by draws

    @property
    def kind(self) -> str:
        """``independent`` for allocations, ``chain`` for a Markov chain."""
        return self._recovery.summed.kind

    @on_its_data
    def responsibilities(self) -> xr.Dataset:
        r""":math:`p(z_i = k \mid y)`: the probability that each entry is in each state, given all data."""
        dims = (*self._layout[0], "state")
        return self._averaged(self._marginals(), dims) if self._known is None else self._labelled(*self._known, dims)

    @on_its_data
    def smooth(self) -> xr.Dataset:
        r""":math:`p(z_t = k \mid y_{1:T})`: the states of a chain given all observations."""
        self._require_chain("smooth")
        return self.responsibilities()

    @on_its_data
    def filter(self) -> xr.Dataset:
        r""":math:`p(z_t = k \mid y_{1:t})`: the states of a chain given the observations up to each."""
        self._require_chain("filter")
        return self._averaged(self._of_chain(hmm.filter_states), (*self._layout[0], "state"))

    @on_its_data
    def predict(self, steps: Count = 1) -> xr.Dataset:
        r""":math:`p(z_{T+h} = k \mid y_{1:T})` for :math:`h = 1 \ldots` ``steps`` after the last observation.

        Raises
        ------
        OptionError
            If ``steps`` is not a positive whole number.
        ModelError
            If the transitions vary with time.
        """
        self._require_chain("predict")
        self._recovery.require_steady()
        found = self._of_chain(partial(hmm.forecast_states, steps=steps))
        return self._averaged(found, (*self._layout[0][:-1], "step_ahead", "state"))

    @on_its_data
    def viterbi(self) -> xr.Dataset:
        """The most probable path of a chain, with the log of its posterior probability.

        On a posterior: at the draw of the parameters, of those averaged over, that gives the data the largest
        likelihood; a path made of averages would be no path.

        Returns
        -------
        xarray.Dataset
            ``state``, and for each sequence ``log_probability``, log p(z* | y, φ).
        """
        self._require_chain("viterbi")
        evidence = np.concatenate([np.atleast_1d(e) for _, e in self._log_likelihoods()])
        best = int(np.argmax(evidence.reshape(self.draws, -1).sum(axis=1)))
        one = {n: v[best : best + 1] for n, v in self._parameters.items()}
        ((_, (table, initial, transition)),) = self._recovery.terms(one, 1)
        path = hmm.most_likely_states(initial, transition, table)
        log_evidence = hmm.log_evidence(initial, transition, table)
        dims, coords = self._layout
        found = {"state": (dims, self._recovery.summed.values[path.states[0]])}
        found["log_probability"] = dims[:-1], (path.log_probability - log_evidence)[0]
        label = "exact" if self.exact else "at the draw of the largest likelihood"
        return xr.Dataset(found, coords=coords, attrs={"label": label})

    @on_its_data
    def occupancy(self) -> xr.Dataset:
        r"""The expected number of entries, or of steps, in each state, :math:`\sum_t p(z_t = k \mid y)`."""
        if not self._layout[0]:
            return self.responsibilities().rename(probability="expected")
        dims = (*self._layout[0][:-1], "state")
        if self._known is not None:
            probabilities, error, label = self._known
            entries = probabilities.shape[-2]
            return self._labelled(probabilities.sum(axis=-2), error * entries, label, dims, "expected")
        found = ((rows, p.sum(axis=-2)) for rows, p in self._marginals())
        return self._averaged(found, dims, name="expected")

    @on_its_data
    def next_observation(self, steps: Count = 1, *, random_seed: RandomSeed = None) -> xr.Dataset:
        r"""Draws from the predictive distribution of what is observed next, :math:`p(y_{T+h} \mid y_{1:T})`.

        One draw for each draw of the parameters: of a chain, a path of the states after the last, and the observations
        along it; of a mixture, a new entry. Covariates are those of the last entry.

        Parameters
        ----------
        steps : int, default 1
            How many steps ahead, h = 1 … ``steps``; new entries of a mixture.
        random_seed : int, sequence of int or numpy.random.Generator, optional

        Returns
        -------
        xarray.Dataset
            The finite variable and each observed variable that depends on it, with dims ``sample`` and ``step_ahead``.

        Raises
        ------
        OptionError
            If ``steps`` is not a positive whole number.
        ModelError
            If the observed variables do not follow the entries of the finite one.
        """
        return observe_next(
            self._analysis.original, self._recovery, self._parameters, self.draws, self._layout[0], steps, random_seed
        )

    @on_its_data
    def log_likelihood(self) -> xr.Dataset:
        r""":math:`\log p(y \mid \phi)`, the states summed out: of each entry of a mixture, of each sequence of a chain.

        On a posterior, the average over its draws.
        """
        dims = self._layout[0] if self.kind == "independent" else self._layout[0][:-1]
        return self._averaged(self._log_likelihoods(), dims, name="log_likelihood")

    # -- how ---------------------------------------------------------------------------------------------------------
    def _require_chain(self, what: str) -> None:
        if self.kind == "chain":
            return
        said = f"{self.variable!r} is not a Markov chain, and {what} is for those"
        if is_chain(self._analysis.original.model[self.variable]):
            why = ", because other variables couple its steps or it looks back more than one"
            said = f"the chain {self.variable!r} was enumerated as a whole{why}, and {what} is for chains that are not"
        raise ModelError(f"{said}; ask for responsibilities")

    def _marginals(self) -> Iterator[tuple[slice, np.ndarray]]:
        return self._recovery.probabilities(self._parameters, self.draws)

    def _of_chain(self, function: Callable[..., np.ndarray]) -> Iterator[tuple[slice, np.ndarray]]:
        for rows, (table, initial, transition) in self._recovery.terms(self._parameters, self.draws):
            yield rows, function(initial, transition, table)

    def _log_likelihoods(self) -> Iterator[tuple[slice, np.ndarray]]:
        if self.kind == "chain":
            yield from self._of_chain(hmm.log_evidence)
            return
        for rows, (table, *_) in self._recovery.terms(self._parameters, self.draws):
            yield rows, special.logsumexp(table, axis=1)

    def _averaged(
        self, parts: Iterator[tuple[slice, np.ndarray]], dims: tuple[str, ...], *, name: str = "probability"
    ) -> xr.Dataset:
        """The mean over the draws of the parameters, and its standard error."""
        total: Any = 0.0
        square: Any = 0.0
        for _, values in parts:
            total = total + values.sum(axis=0)
            square = square + (values**2).sum(axis=0)
        mean = total / self.draws
        variance = np.maximum(square / self.draws - mean**2, 0.0) if self.draws > 1 else np.zeros_like(mean)
        error = np.sqrt(variance / max(self.draws - 1, 1))
        return self._labelled(mean, error, "exact" if self.exact else "estimated", dims, name)

    def _labelled(
        self, mean: np.ndarray, error: Any, label: str, dims: tuple[str, ...], name: str = "probability"
    ) -> xr.Dataset:
        coords = {"state": self._recovery.states} | self._layout[1]
        if "step_ahead" in dims:
            coords["step_ahead"] = np.arange(1, mean.shape[dims.index("step_ahead")] + 1)
        known = {d: c for d, c in coords.items() if d in dims}
        errors = np.broadcast_to(error, mean.shape)
        return xr.Dataset({name: (dims, mean), "error": (dims, errors)}, coords=known, attrs={"label": label})
