"""What a calibration repeats, and what becomes of one data set of it.

What becomes of data set k depends on the seed and on k only, whatever was done before it, and in which process.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pymc as pm
import xarray as xr

from bayeskit.errors import BayeskitError, OptionError
from bayeskit.graphs.environment import on_one_thread
from bayeskit.terminal import logged_from, quiet
from bayeskit.validation.calibration.simulated_data import Simulated

__all__ = [
    "MODEL",
    "Experiment",
    "Quantity",
    "Repeated",
    "Repetition",
    "Sampler",
    "answered",
    "drawn_numbers",
    "streams",
]

type Sampler = Callable[[pm.Model, int], Any]
type Quantity = Callable[[xr.Dataset], Any]
MODEL = "model"  # the quantity of a comparison
FIRST = 20  # numbers of each variable that a fingerprint has


@dataclass(frozen=True)
class Repetition:
    """What one data set says: u for each quantity, or why there is none."""

    dataset: int
    values: Mapping[str, float] = field(default_factory=dict)
    exact: tuple[str, ...] = ()  # the variables whose u is F(θ*) of a closed form
    method: str = ""
    rhat: float | None = None
    seconds: float = 0.0
    failure: str = ""
    ranked: int | None = None  # draws that truths were ranked among; None where all values are F(θ*)
    probabilities: tuple[float, ...] = ()  # of the models of a comparison

    def written(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Repetition:
        """From what :meth:`written` gave; a ValueError where it is something else."""
        try:
            probabilities = tuple(written.get("probabilities", ()))
            found = cls(**{**written, "exact": tuple(written["exact"]), "probabilities": probabilities})
            right = all(0 <= u <= 1 or math.isnan(u) for u in (*found.values.values(), *probabilities))
            if not (right and isinstance(found.dataset, int) and found.dataset >= 0 and found.seconds >= 0):
                raise ValueError("its numbers are none of a calibration")
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"it is no result ({error})") from error
        return found


@dataclass(frozen=True, eq=False)
class Experiment:
    """What a calibration repeats: inference in one model, or the comparison of several."""

    model: pm.Model | Mapping[str, pm.Model]
    generator: pm.Model | None
    method: str | Sampler
    draws: int | None
    quantities: Mapping[str, Quantity]
    random_seed: int


class Repeated(Protocol):
    """An experiment with everything compiled that its data sets share."""

    of: Experiment
    notes: list[str]
    of_chains: list[str]  # what a reader must know where chains answered for some data sets

    def fingerprint(self) -> dict[str, Any]:
        """What tells this experiment from another."""

    def repetition(self, dataset: int) -> Repetition:
        """The data set of this number."""


def streams(random_seed: int, dataset: int) -> list[np.random.SeedSequence]:
    """Four streams of random numbers that are a data set's own."""
    return np.random.SeedSequence(random_seed, spawn_key=(dataset,)).spawn(4)


def answered(dataset: int, find: Callable[[], Repetition]) -> Repetition:
    """What is found, with its seconds; where that is an error, what it says.

    What is wrong with an option, a function that was given among them, is raised at the first data set: it will be at
    the others.
    """
    started = time.perf_counter()
    try:
        # What did not converge is counted, not said for each of them.
        with on_one_thread(), quiet(), logged_from("bayeskit", logging.CRITICAL):
            found = find()
    except BayeskitError as error:
        if dataset == 0 and isinstance(error, OptionError):
            raise
        found = Repetition(dataset, failure=str(error).partition("\n")[0])
    return replace(found, seconds=time.perf_counter() - started)


def drawn_numbers(simulated: Simulated) -> dict[str, list[float]]:
    """The first numbers of what was drawn, without the digits that a machine may round in its own way."""
    drawn = {**simulated.parameters, **simulated.data}
    return {n: [float(f"{x:.9g}") for x in np.ravel(v)[:FIRST]] for n, v in drawn.items()}
