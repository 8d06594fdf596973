"""How large variables are, in the names of their dims: ``group (3) × 2``; of a prior, ``shape (3,)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pymc as pm
from pytensor.compile import Mode, function

__all__ = ["variable_sizes", "with_size", "written_axes"]

# Shapes are inferred, not computed: without rewrites PyTensor would draw every variable, and Flat cannot be drawn.
SHAPES = Mode(linker="py", optimizer="fast_compile")

type SizedAxes = tuple[tuple[str | None, int], ...]


def variable_sizes(model: pm.Model, variables: Sequence[Any]) -> dict[str, SizedAxes]:
    """The dim, where it has a name, and the length of each axis of variables, by their names."""
    shapes: dict[str, Any] = {str(v.name): v.type.shape for v in variables}
    unknown = [v for v in variables if None in v.type.shape]
    if unknown:
        found = function([], [v.shape for v in unknown], mode=SHAPES, on_unused_input="ignore")()
        shapes |= {str(v.name): shape for v, shape in zip(unknown, found, strict=True)}
    sizes = {}
    for name, shape in shapes.items():
        dims = model.named_vars_to_dims.get(name) or [None] * len(shape)
        sizes[name] = tuple((dim, int(length)) for dim, length in zip(dims, shape, strict=True))
    return sizes


def with_size(distribution: str, axes: SizedAxes) -> str:
    """A distribution with its shape, or its dims; of a number as it is."""
    if not axes:
        return distribution
    if any(dim for dim, _ in axes):
        return f"{distribution}, dims {written_axes(axes)}"
    return f"{distribution}, shape {tuple(length for _, length in axes)}"


def written_axes(axes: SizedAxes) -> str:
    """Dims with their lengths; of a dim without a name, its length."""
    return " × ".join(f"{dim} ({length})" if dim else str(length) for dim, length in axes)
