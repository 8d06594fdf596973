"""Sums of pieces in a checkpoint: a line for each, found again by the mark of the piece."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

import pymc as pm

from bayeskit.chunks.sums import ChunkSum
from bayeskit.errors import OptionError
from bayeskit.graphs.identity import digest_of
from bayeskit.jobs.checkpoint import appending
from bayeskit.jobs.pickled_lines import add_pickled, pickled_lines, unpickled

__all__ = ["SavedSums", "first_saved", "saved"]


@dataclass(frozen=True, eq=False)
class SavedSums:
    """What a checkpoint holds, by mark; without a path nothing, and nothing is kept."""

    path: Path | None
    of: Mapping[str, Any] = field(default_factory=dict)
    held: dict[str, bytes] | None = None

    @classmethod
    def from_file(cls, path: Path | None, build: Callable[[Any], pm.Model]) -> SavedSums:
        """An OptionError if the file cannot be read, is damaged, is of another builder, or if nothing tells which."""
        if path is None:
            return cls(None)
        of = {"sums of chunks": 1, "build": digest_of(build)}
        return cls(path, of, pickled_lines(path, of))

    def file(self) -> AbstractContextManager[TextIO | None]:
        """The checkpoint, open for more."""
        return nullcontext() if self.path is None else appending(self.path, self.of)

    def lacks(self, mark: str) -> bool:
        """Whether it held no such piece when it was read."""
        return mark not in (self.held or {})

    def write(self, file: TextIO | None, name: str, mark: str, found: ChunkSum) -> None:
        """Keep the sum of a piece that is not there yet; nothing without a checkpoint."""
        if file is not None and found.chunks and self.lacks(mark):
            add_pickled(file, self.of, name, mark, found)


def first_saved(held: Mapping[str, bytes], mark: str, build: Callable[[Any], pm.Model]) -> ChunkSum | None:
    """The sum of the first piece, which told what the model is; an OptionError if that was another piece."""
    if not held:
        return None
    # The sums of the others say only what they do not have in common with the first that was written down.
    if mark != next(iter(held)):
        raise OptionError(
            "the checkpoint is of other data: its first chunk is another; name another file, or remove it"
        )
    return _of_builder(unpickled(held[mark]), build)


def saved(held: Mapping[str, bytes], mark: str, build: Callable[[Any], pm.Model]) -> ChunkSum | None:
    """The sum of another piece, None where it is not there."""
    return _of_builder(unpickled(held[mark]), build) if mark in held else None


def _of_builder(found: ChunkSum, build: Callable[[Any], pm.Model]) -> ChunkSum:
    template = None if found.template is None else replace(found.template, build=build)
    return replace(found, build=build, template=template)
