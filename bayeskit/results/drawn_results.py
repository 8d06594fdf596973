"""What results of several rooms share: a picture, and what a notebook shows of them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from inspect import getdoc
from typing import Any, ClassVar

from bayeskit.arguments import checked
from bayeskit.results.notebook_html import notebook_html, table_html
from bayeskit.types import Backend

__all__ = ["DrawnResult", "TabledResult"]


class TabledResult:
    """A result of tables, or of a few printed lines, and notes; the first line of its class says what it is."""

    TABLES: ClassVar[tuple[str, ...]] = ("table",)
    FORMATS: ClassVar[Mapping[str, str]] = {}

    def __repr__(self) -> str:
        if not self.TABLES:
            return f"{type(self).__name__}({str(self).partition(chr(10))[0]})"
        return (
            f"{type(self).__name__}({', '.join(f'{name} of {len(getattr(self, name))} rows' for name in self.TABLES)})"
        )

    def _shown(self, name: str) -> Any:
        """A table as it is read."""
        return getattr(self, name)

    def _repr_html_(self) -> str:
        heading = (getdoc(type(self)) or "").partition("\n")[0]
        tables = [table_html(self._shown(name), self.FORMATS) for name in self.TABLES]
        notes = getattr(self, "notes", ())
        printed = [line for line in str(self).splitlines() if not line.startswith("note: ")]
        lines = filter(None, [getattr(self, "verdict", "")]) if tables else printed
        return notebook_html(heading, lines=lines, tables=tables, notes=notes)


class DrawnResult(TabledResult):
    """A result that has a picture."""

    PICTURE: ClassVar[str]  # the function that draws it, by its module in the library

    @checked
    def plot(self, *, backend: Backend | None = None) -> Any:
        """Draw it, as a collection of arviz-plots: ``.savefig(path)`` writes it.

        Parameters
        ----------
        backend : {"matplotlib", "bokeh", "plotly", "none"}, optional
            By default that of the ``rcParams`` of arviz-plots.

        Raises
        ------
        OptionError
            If the backend is not installed.
        """
        module, _, function = self.PICTURE.rpartition(".")
        return getattr(import_module(f"bayeskit.{module}"), function)(self, backend)
