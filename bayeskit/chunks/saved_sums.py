"""Sums of pieces in a checkpoint: a line for each, found again by the mark of the piece."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

import pymc as pm

from bayeskit.chunks.pieces import Piece
from bayeskit.chunks.sums import ChunkSum
from bayeskit.chunks.terms import NotAdditive
from bayeskit.errors import OptionError
from bayeskit.jobs.checkpoint import appending
from bayeskit.jobs.pickled_lines import add_pickled, pickled_lines, unpickled

__all__ = ["SavedSums"]

HEADER = {"sums of chunks": 1}


@dataclass(frozen=True, eq=False)
class SavedSums:
    """What a checkpoint holds, by mark; without a path nothing, and nothing is kept."""

    path: Path | None
    held: dict[str, bytes] = field(default_factory=dict)
    first: str = ""  # the mark of the piece that told what the model is

    @classmethod
    def of(cls, path: Path | None) -> SavedSums:
        """An OptionError if the file cannot be read, is damaged, or is of something else."""
        if path is None:
            return cls(None)
        held = pickled_lines(path, HEADER)
        return cls(path, held, next(iter(held), ""))

    def mark(self, piece: Piece) -> str:
        """What a piece is found by; nothing is known of it without a checkpoint."""
        return "" if self.path is None else piece.mark

    def file(self) -> AbstractContextManager[TextIO | None]:
        """The checkpoint, open for more."""
        return nullcontext() if self.path is None else appending(self.path, HEADER)

    def write(self, file: TextIO | None, piece: Piece, mark: str, found: ChunkSum) -> None:
        """Keep the sum of a piece; nothing without a checkpoint."""
        if file is not None:
            add_pickled(file, piece.name, mark, found)

    def start(self, build: Callable[[Any], pm.Model], mark: str) -> ChunkSum | None:
        """The sum of the first piece; an OptionError if it was another piece, or another model."""
        if not self.held:
            return None
        if mark != self.first:
            raise OptionError(
                f"the checkpoint {self.path} is of other data: its first chunk is another; name another file, or "
                "remove it"
            )
        found = self.sum_of(mark)
        assert found is not None and found.template is not None
        template = replace(found.template, build=build)
        try:
            found.template.require_same_builder(template)
        except NotAdditive as error:
            raise OptionError(
                f"the checkpoint {self.path} is of another model: {error}; name another file, or remove it"
            ) from error
        return replace(found, build=build, template=template)

    def sum_of(self, mark: str) -> ChunkSum | None:
        """The sum of a piece, None where it is not there."""
        held = self.held.get(mark)
        return None if held is None else unpickled(held, self.path)
