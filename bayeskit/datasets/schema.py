"""The records a model file states its data and its options with.

A model declares ``VARIABLES: dict[str, Variable]`` (the data it needs), ``EXAMPLE: Example`` (a shipped data set), and
a ``build`` function whose keyword-only parameters, typed and defaulted, are its options. Nothing here computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

__all__ = ["Example", "Option", "Positive", "Range", "Variable"]


@dataclass(frozen=True)
class Variable:
    """One variable of the data a model needs.

    Attributes
    ----------
    dims : tuple of str
        Its dims, the rows first: ``("row",)`` is one column of a table, ``("row", "feature")`` one or several.
    kind : {"real", "positive", "count", "binary", "category"}
        ``real``: any finite number; ``positive``: a finite number above zero; ``count``: a whole number from zero;
        ``binary``: zero or one; ``category``: a label, which is text or a whole number.
    required : bool
        Whether the model needs it.
    doc : str
        What it is, for the catalogue.
    at_most : str or None
        Another variable of the same dims that this one cannot exceed, row by row.
    min_columns : int
        The smallest number of columns, for a variable of two dims.
    missing : bool
        Whether entries may be missing (NaN), as long as one is not: a variable with missing entries is float64,
        whatever its kind.
    """

    dims: tuple[str, ...] = ("row",)
    kind: Literal["real", "positive", "count", "binary", "category"] = "real"
    required: bool = True
    doc: str = ""
    at_most: str | None = None
    min_columns: int = 1
    missing: bool = False


@dataclass(frozen=True)
class Example:
    """A shipped data set, and how a model reads it.

    Attributes
    ----------
    dataset : str
        A name of :func:`bayeskit.datasets.list_examples`.
    columns : mapping of str to str or tuple of str
        The column or columns of each model variable; the key ``row`` names a column of row labels.
    options : mapping of str to value
        Options of the model's ``build`` that suit these data.
    """

    dataset: str
    columns: Mapping[str, str | tuple[str, ...]]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Range:
    """The numbers an option may take, written ``Annotated[float, Range(0, 1)]``; None is no end."""

    low: float | None = None
    high: float | None = None
    closed: Literal["both", "left", "right", "neither"] = "both"  # the ends that belong to it

    def __contains__(self, value: float) -> bool:
        above = self.low is None or value > self.low or (value == self.low and self.closed in ("both", "left"))
        below = self.high is None or value < self.high or (value == self.high and self.closed in ("both", "right"))
        return above and below

    def __str__(self) -> str:
        if self.low is None and self.high is None:
            return "any number"
        if self.high is None:
            return f"at least {self.low:g}" if self.closed in ("both", "left") else f"above {self.low:g}"
        if self.low is None:
            return f"at most {self.high:g}" if self.closed in ("both", "right") else f"below {self.high:g}"
        ends = {"both": "", "left": f", {self.high:g} excluded", "right": f", {self.low:g} excluded"}
        return f"from {self.low:g} to {self.high:g}{ends.get(self.closed, ', both excluded')}"


Positive = Annotated[float, Range(low=0, closed="neither")]
"""A number above zero."""


@dataclass(frozen=True)
class Option:
    """One option of a model's ``build``, as its signature and docstring state it."""

    name: str
    type: type  # bool, int, float or str
    default: Any
    choices: tuple[Any, ...] = ()  # of a Literal
    range: Range | None = None
    optional: bool = False  # whether None (on the command line: none) is a value
    doc: str = ""

    @property
    def allowed(self) -> str:
        """What the option may be, in words."""
        if self.choices:
            words = "one of " + ", ".join(str(choice) for choice in self.choices)
        else:
            words = {bool: "true or false", int: "a whole number", float: "a finite number", str: "text"}[self.type]
            if self.range is not None:
                words += f" {self.range}"
        return f"{words}, or none" if self.optional else words
