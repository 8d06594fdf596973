"""Pieces and their builder on the workers of a Dask cluster: sent, computed where they lie, and known as the same."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pymc as pm

from bayeskit.chunks.lazy_data import computed
from bayeskit.chunks.pieces import Piece
from bayeskit.errors import OptionError
from bayeskit.graphs.identity import digest_of
from bayeskit.jobs.clients import is_lazy
from bayeskit.jobs.on_cluster import pickled

__all__ = ["computed_piece", "require_told", "sent_piece", "told_of_builder"]


def sent_piece(client: Any, piece: Piece) -> tuple[bytes, Any]:
    """What a task unpacks, and of data of Dask the future of their values: tasks of theirs compute these first."""
    if not is_lazy(piece.source):
        return pickled(piece), None
    return pickled(replace(piece, source=None)), client.compute(piece.source)


def computed_piece(piece: Piece, values: Any = None) -> Piece:
    """A piece of which nothing is left to be computed: with the ``values`` that came to its task, or with its own."""
    if piece.is_file and values is None:
        return piece
    source = piece.source if values is None else values
    if is_lazy(source):
        source = computed(source, piece.name)
    if values is not None:
        # What came over a connection lies anywhere in it, and PyTensor takes only arrays that are aligned.
        source = copy.deepcopy(source)
    return replace(piece, source=source, lazy=values is not None or is_lazy(piece.source) or piece.lazy)


def told_of_builder(build: Callable[[Any], pm.Model]) -> str:
    """A digest of a builder: where it holds what nothing tells from another, of the rest of it."""
    return digest_of(build, refuse=False)


def require_told(build: Callable[[Any], pm.Model], told: str) -> None:
    """An OptionError where the builder of a worker is another than the one that was told of."""
    if told_of_builder(build) != told:
        raise OptionError(
            "client: the workers have other values of what build uses than this process has, of a module that "
            "was changed after it was imported, say; give build what it needs as arguments, or enclose it"
        )
