"""E steps in a checkpoint: a line for each, found again by the point that it is at.

An M step needs no row, so that the iterations of a run that was cut off are gone through again, to the same digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from bayeskit.graphs.identity import digest_of
from bayeskit.jobs.checkpoint import appending
from bayeskit.jobs.pickled_lines import add_pickled, pickled_lines, unpickled
from bayeskit.point_estimates.chunk_steps import Build
from bayeskit.point_estimates.em_problem import Expectation
from bayeskit.types import Point

__all__ = ["SavedExpectations"]


@dataclass(eq=False)
class SavedExpectations:
    """What a checkpoint holds, by point; it has to be of the same builder, objective and data."""

    path: Path
    of: Mapping[str, Any]
    held: dict[str, bytes] = field(default_factory=dict)
    file: TextIO | None = None

    @classmethod
    def from_file(cls, path: Path, build: Build, objective: str, marks: Sequence[str]) -> SavedExpectations:
        """An OptionError if the file cannot be read, is damaged, is of another run, or if nothing tells which."""
        of = {"EM over chunks": 1, "build": digest_of(build), "objective": objective, "data": digest_of(list(marks))}
        return cls(path, of, pickled_lines(path, of))

    @contextmanager
    def opened(self) -> Iterator[None]:
        """With the file open for more."""
        with appending(self.path, self.of) as self.file:
            yield
        self.file = None

    def at(self, point: Point, found: Callable[[Point], Expectation]) -> Expectation:
        """The E step at a point, which is made if it is not there, and then written down."""
        mark = digest_of({name: np.asarray(value) for name, value in point.items()})
        if mark in self.held:
            known: Expectation = unpickled(self.held[mark])
            return known
        made = found(point)
        if self.file is not None:
            add_pickled(self.file, self.of, "an E step", mark, made)
        return made
