"""One row of the table: a model and its independent closed form."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
from oracles import Answer


@dataclass(frozen=True)
class Case:
    """A model with a known answer.

    Attributes
    ----------
    family : str
        The conjugate family that the row belongs to.
    spelling : str
        What is particular about how it is written.
    body : callable
        Creates the model's variables; called inside the model's context.
    oracle : callable
        The independent closed form.
    coords : mapping, optional
        Coordinates of the model.
    """

    family: str
    spelling: str
    body: Callable[[], Any]
    oracle: Callable[[], Answer]
    coords: Mapping[str, Sequence[Any]] | None = None

    @property
    def name(self) -> str:
        return f"{self.family}: {self.spelling}"

    def build(self) -> pm.Model:
        """A fresh model."""
        with pm.Model(coords=self.coords) as model, warnings.catch_warnings():
            # PyMC announces every imputation; a row about missing values means it
            warnings.simplefilter("ignore", pm.exceptions.ImputationWarning)
            self.body()
        return model

    def answer(self) -> Answer:
        """The closed form, computed once."""
        return _answer(self.oracle)

    def log_evidence(self) -> float:
        return float(self.answer().log_evidence)

    def moments(self) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
        """Exact posterior mean and standard deviation of every variable."""
        return self.answer().moments

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(self.moments())


@cache
def _answer(oracle: Callable[[], Answer]) -> Answer:
    return oracle()
