"""What the command line prints: aligned tables for people, one JSON object for machines."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import pandas as pd

    from bayeskit.results.records import Posterior

__all__ = ["frame_records", "json_alone", "posterior_record", "print_frame", "print_json", "print_table"]

# Piped output is not a screen: no line may be broken or cut to fit one.
UNLIMITED_WIDTH = 10_000
JSON_STREAM: ContextVar[TextIO | None] = ContextVar("JSON_STREAM", default=None)  # None is standard output


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Sequence[str] = ()) -> None:
    """Print rows under their headings, some columns aligned right; long cells wrap on a terminal, never in a pipe."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(_shown, row))
    width = None if sys.stdout.isatty() else UNLIMITED_WIDTH
    console = Console(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)
    with console.capture() as capture:
        console.print(table)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))


def print_frame(frame: pd.DataFrame, *, index: str) -> None:
    """Print a table of results; its index becomes the first column, under the heading ``index``."""
    numeric = [str(column) for column in frame if frame[column].dtype.kind in "iuf"]
    print_table([index, *map(str, frame.columns)], frame.itertuples(name=None), right=numeric)


def frame_records(frame: pd.DataFrame, *, index: str) -> list[dict[str, Any]]:
    """The rows of a table as dictionaries, the index under the key ``index``."""
    records: list[dict[str, Any]] = frame.reset_index(names=index).to_dict("records")
    return records


def posterior_record(posterior: Posterior) -> dict[str, Any]:
    """What a posterior is and how it was got, as a dictionary; draws are not in it."""
    found = posterior.diagnostics
    return {
        "method": posterior.method,
        "log_evidence": asdict(posterior.log_evidence),
        "certificate": posterior.certificate,
        "diagnostics": found and {**asdict(found), "converged": found.converged, "problems": found.problems},
        "plan": asdict(posterior.plan),
        "summary": frame_records(posterior.summary(), index="variable"),
        "seed": posterior.random_seed,
        "seconds": posterior.seconds,
    }


def _shown(value: Any) -> str:
    """A cell as text: numbers to six significant digits, ``-`` for what there is not."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


@contextmanager
def json_alone() -> Iterator[None]:
    """Let nothing but the JSON object reach standard output: what a model file prints goes to standard error."""
    reset = JSON_STREAM.set(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        JSON_STREAM.reset(reset)


def print_json(record: Mapping[str, Any]) -> None:
    """Print one JSON object; NaN and infinities, which JSON does not have, become null."""
    print(json.dumps(_plain(record), ensure_ascii=False, allow_nan=False), file=JSON_STREAM.get())


def _plain(value: Any) -> Any:
    """JSON's own types only: NumPy scalars and arrays, tuples and paths are converted."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Path):
        return value.as_posix()
    raise TypeError(f"no JSON for a {type(value).__name__}")
