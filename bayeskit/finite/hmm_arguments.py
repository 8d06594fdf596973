"""The arguments of :mod:`bayeskit.finite.hmm`: checked, and brought into the form that the recursions take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bayeskit.errors import DataError, ModelError

__all__ = ["Chains", "read_chains", "stacked_chains"]

TOLERANCE = 1e-6  # of a sum of probabilities that should be one: they may have been computed in single precision


@dataclass(frozen=True)
class Chains:
    """Stacks of the distinct values of each argument, the three indices of each sequence, and the leading axes."""

    stacks: tuple[np.ndarray, np.ndarray, np.ndarray]
    index: np.ndarray
    batch: tuple[int, ...]

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        return *self.stacks, self.index

    def shaped(self, values: np.ndarray) -> np.ndarray:
        """What was found of each sequence, with the leading axes of the arguments."""
        return values.reshape((*self.batch, *values.shape[1:]))

    def require_possible(self, outcomes: np.ndarray) -> None:
        """Refuse sequences that cannot be observed, by the outcomes of their forward passes."""
        if not np.any(outcomes >= 0):
            return
        n = int(np.argmax(outcomes >= 0))
        where = f" of sequence {n + 1} of {len(outcomes)}" if len(outcomes) > 1 else ""
        raise DataError(
            f"the observation at step {outcomes[n] + 1}{where} is impossible in every state that the chain can be in "
            "then, so that the states have no posterior; correct it, or give it or the transitions a probability"
        )


def read_chains(log_initial: ArrayLike, log_transition: ArrayLike, log_likelihood: ArrayLike) -> Chains:
    """The arguments of every query, as the recursions take them.

    Raises
    ------
    ModelError, DataError
        Probabilities that do not sum to one; shapes that do not fit; a log likelihood that is NaN or +inf.
    """
    stacks = [np.asarray(values, dtype=np.float64) for values in (log_initial, log_transition, log_likelihood)]
    initial, transition, likelihood = stacks
    if likelihood.ndim < 2 or 0 in likelihood.shape[-2:]:
        raise DataError(f"log_likelihood has shape {likelihood.shape}; it must end in (steps, states)")
    steps, states = likelihood.shape[-2:]
    matrices = 1 if transition.shape[-3:-2] == (1,) else steps - 1
    for name, values, core in (
        ("log_initial", initial, (states,)),
        ("log_transition", transition, (matrices, states, states)),
    ):
        if values.shape[-len(core) :] != core:
            wanted = f"for {steps} steps and {states} states it must end in {core}"
            raise ModelError(f"{name} has shape {values.shape}; {wanted}")
    if not np.max(likelihood, initial=-np.inf) < np.inf:
        *_, step, state = np.argwhere(~(likelihood < np.inf))[0]
        value = likelihood[~(likelihood < np.inf)][0]
        raise DataError(
            f"the log likelihood of the observation at step {step + 1} in state {state} is {value}; it must be a "
            "number or −inf, and zero in every state for a missing observation"
        )
    _require_distributions(initial, "distribution of the first state")
    _require_distributions(transition, "transition matrix")
    return stacked_chains(initial, transition, likelihood)


def stacked_chains(initial: np.ndarray, transition: np.ndarray, likelihood: np.ndarray) -> Chains:
    """The arguments as the recursions take them, unchecked; ModelError where leading axes do not broadcast."""
    stacks = (initial, transition, likelihood)
    batches = [v.shape[: v.ndim - c] for v, c in zip(stacks, (1, 3, 2), strict=True)]
    try:
        batch = np.broadcast_shapes(*batches)
    except ValueError:
        shapes = ", ".join(map(str, batches))
        raise ModelError(
            f"the leading axes {shapes} do not broadcast; they must be the same sequences or draws"
        ) from None
    columns = [np.broadcast_to(np.arange(int(np.prod(b))).reshape(b), batch).ravel() for b in batches]
    # Writable, though nothing is written: numba would compile everything again for an array that is not.
    first, second, third = (
        np.require(v.reshape(int(np.prod(b)), *v.shape[len(b) :]), requirements=["C", "W"])
        for v, b in zip(stacks, batches, strict=True)
    )
    return Chains((first, second, third), np.stack(columns, axis=-1).astype(np.int64), batch)


def _require_distributions(logarithms: np.ndarray, what: str) -> None:
    """Refuse logarithms of probabilities that do not sum to one over the last axis."""
    with np.errstate(over="ignore"):
        sums = np.sum(np.exp(logarithms), axis=-1)
    wrong = ~(np.abs(sums - 1) <= TOLERANCE)
    if np.any(wrong):
        row = np.argwhere(wrong)[0]
        where = f"row {row[-1]} of the {what}" if "matrix" in what else f"the {what}"
        raise ModelError(f"{where} sums to {sums[wrong][0]:.6g}; probabilities must sum to one")
