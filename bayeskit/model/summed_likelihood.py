"""A likelihood that was added up over rows, as a factor of a model, and what is still known of the rows.

In PyMC's terms it is a Potential. It is the log density of data that were observed, normalised as those of the observed
variables were which it stands for, and so no Potential whose normaliser nobody knows; its name says which it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pymc as pm
from pytensor.graph.basic import Variable

__all__ = [
    "ADDED_UP",
    "SumRounding",
    "SummedRows",
    "is_discounted",
    "is_summed",
    "known_rows",
    "rows_together",
    "sum_rounding",
    "summed_name",
    "with_rounding",
    "with_rows",
]

ADDED_UP = "the rows of the model were added up, and none of them can be looked at or left out"
END = "__summed"
HELD = "summed_rows"
ROUNDED = "sum_rounding"
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd: columns that are exchanged give another digest


def summed_name(number: int) -> str:
    """The name of a part of a likelihood that was added up."""
    return f"rows_{number}{END}"


def is_summed(name: str | None) -> bool:
    """Whether a factor of this name is a likelihood that was added up."""
    return str(name).endswith(END)


@dataclass(frozen=True)
class SummedRows:
    """Observed values that were added up: how many rows, and a digest that does not depend on their order or chunks."""

    number: int
    digest: int
    discrete: bool | None  # whether they have a probability and not a density; None where that is not known

    @classmethod
    def of(cls, values: np.ndarray, discrete: bool | None) -> SummedRows:
        """Of the values of a variable, whose rows lie along the first axis."""
        numbers = (
            np.asarray(values, dtype=float).reshape(len(values), -1) if np.ndim(values) else np.reshape(values, (1, 1))
        )
        total = np.zeros(len(numbers), dtype=np.uint64)
        with np.errstate(over="ignore"):
            for column in numbers.T:
                total = total * MULTIPLIER + pd.util.hash_array(np.ascontiguousarray(column) + 0.0)
            return cls(len(numbers), int(np.sum(total, dtype=np.uint64)), discrete)

    def __add__(self, other: SummedRows) -> SummedRows:
        discrete = self.discrete if self.discrete == other.discrete else None
        return SummedRows(self.number + other.number, (self.digest + other.digest) % 2**64, discrete)

    @property
    def numbers(self) -> np.ndarray:
        """What two of the same rows have in common."""
        return np.array([self.number, self.digest >> 32, self.digest % 2**32], dtype=float)


def rows_together(a: Mapping[str, SummedRows], b: Mapping[str, SummedRows]) -> dict[str, SummedRows]:
    """What is known of the rows of both."""
    names = dict.fromkeys((*a, *b))
    return {n: a[n] + b[n] if n in a and n in b else a[n] if n in a else b[n] for n in names}


def with_rows(model: pm.Model, rows: Mapping[str, SummedRows] | None) -> pm.Model:
    """The model, which holds what is known of the rows that were added up; None where they were discounted."""
    setattr(model, HELD, None if rows is None else dict(rows))
    return model


def known_rows(model: pm.Model) -> dict[str, SummedRows]:
    """What is known of the rows that were added up, by observed variable; nothing of other models."""
    return dict(vars(model).get(HELD) or {})


@dataclass(frozen=True, eq=False)
class SumRounding:
    """How much a log density may be off for the rounding of the sums in it, as a graph of free variables by name."""

    variables: Mapping[str, Variable]
    graph: Variable


def with_rounding(model: pm.Model, rounding: SumRounding) -> pm.Model:
    """The model, which holds how much its sums are rounded."""
    setattr(model, ROUNDED, rounding)
    return model


def sum_rounding(model: pm.Model) -> SumRounding | None:
    """How much the sums of a model are rounded; None where rows were not added up."""
    found: SumRounding | None = vars(model).get(ROUNDED)
    return found


def is_discounted(model: pm.Model) -> bool:
    """Whether the rows that were added up count less than once."""
    return vars(model).get(HELD, {}) is None
