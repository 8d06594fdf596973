"""The records a model file states its data and its options with.

A model declares ``VARIABLES: dict[str, Variable]`` (the data it needs), ``EXAMPLE: Example`` (a shipped data set), and
a ``build`` function whose keyword-only parameters, typed and defaulted, are its options. Nothing here computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_type_hints

from bayeskit.arguments import PLAIN, Positive, Range, hold
from bayeskit.errors import OptionError

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

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            hold(name, getattr(self, name), hint)
        if len(self.dims) not in (1, 2):
            raise OptionError(f"dims is {self.dims}; it must name the rows, and at most one dim of columns")


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

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            hold(name, getattr(self, name), hint)


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
            words = PLAIN[self.type] if self.range is None else f"{PLAIN[self.type]} {self.range}"
        return f"{words}, or none" if self.optional else words
