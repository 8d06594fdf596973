"""The workspace of a program of loops: where each array lies, its constants, and the loops written so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pytensor.graph.basic import Variable

from bayeskit.sampling.codegen.strided_view import Place

__all__ = ["DATA", "FAILED", "WORK", "Call", "NoLoops", "Workspace"]

WORK, DATA = "w", "c"  # the workspace, and the constants
FAILED = 0  # the first number of the workspace: not zero where an assertion of the model's author fails
LINES = 80  # of a function, about: numba takes longer for one of a thousand lines than for ten of a hundred
MOST_DATA = 50_000_000  # constants


class NoLoops(Exception):
    """The graph has a node for which there is no loop."""


@dataclass(frozen=True)
class Call:
    """A compiled function that a source calls, by a key that says what it is.

    The key is PyTensor's; None if the function is of this process only (it calls Python back).
    """

    function: Any = field(compare=False)
    key: str | None


@dataclass
class Workspace:
    """What is known of a program while it is written.

    Attributes
    ----------
    title, first
        Its name among several programs, and where its constants begin among theirs.
    values : dict
        The values of the arrays that the inputs do not move.
    size : int
        Numbers in the workspace so far.
    blocks : list of list of str
        Nests of loops, in order.
    """

    title: str
    first: int
    shapes: dict[Variable, tuple[int, ...]]
    values: dict[Variable, np.ndarray]
    size: int = 1
    places: dict[Variable, Place] = field(default_factory=dict)
    data: list[np.ndarray] = field(default_factory=list)
    calls: dict[str, Call] = field(default_factory=dict)
    blocks: list[list[str]] = field(default_factory=list)
    names: int = 0

    def new(self, var: Variable) -> Place:
        """Room for an array."""
        self.places[var] = self.space(self.shapes[var])
        return self.places[var]

    def space(self, shape: Sequence[int]) -> Place:
        """Room for an array that is no variable of the graph."""
        place = Place.row_major(WORK, self.size, shape)
        self.size += place.size
        return place

    def constant(self, value: np.ndarray) -> Place:
        """Room for a constant."""
        before = sum(d.size for d in self.data)
        if before + value.size > MOST_DATA:
            raise NoLoops(f"more than {MOST_DATA} constants")
        place = Place.row_major(DATA, self.first + before, value.shape)
        self.data.append(np.ascontiguousarray(value, dtype=np.float64).ravel())
        return place

    def constants(self) -> np.ndarray:
        """All constants, one after the other."""
        return np.concatenate([np.zeros(0), *self.data])

    def place(self, var: Variable) -> Place:
        """Where an array lies; that of a constant is found when it is first asked for."""
        if var not in self.places:
            self.places[var] = self.constant(self.values[var])
        return self.places[var]

    def contiguous(self, var: Variable) -> Place:
        """The place of an array without gaps, copied if need be."""
        place = self.place(var)
        return place if place.contiguous else self.copied(place)

    def copied(self, place: Place) -> Place:
        """The same numbers without gaps."""
        to = self.space(place.shape)
        self.copy(place, to)
        return to

    def copy(self, place: Place, to: Place) -> None:
        """Copy numbers to another place, spread over it if need be."""
        self.loop(to.shape, [place, to], lambda at: [f"{at(to)} = {at(place)}"])

    def name(self, letter: str) -> str:
        """A name that is not in use."""
        self.names += 1
        return f"{letter}{self.names}"

    def call(self, function: Any, key: str | None) -> str:
        """The name by which the source calls a compiled function."""
        name = f"{self.title}_{self.name('f')}"
        self.calls[name] = Call(function, key)
        return name

    def loop(
        self,
        shape: Sequence[int],
        places: Sequence[Place],
        body: Callable[[Callable[[Place], str]], list[str]],
        before: Sequence[str] = (),
        after: Sequence[str] = (),
    ) -> None:
        """Write a nest of loops over a shape, the last axis fastest, with lines ahead of it and behind it.

        ``places`` are what the loops read and write, spread over the shape; ``body`` makes the innermost lines from a
        function that gives the source of the entry of a place.
        """
        spread = {id(p): p.seen(np.broadcast_to(p.addresses, shape)) for p in places}
        axes = [k for k, n in enumerate(shape) if n != 1]
        if any(shape[k] == 0 for k in axes):
            self.blocks.append([*before, *after])
            return
        # Neighbouring axes that lie one after the other in every array are one axis.
        merged: list[list[int]] = []
        for k in axes:
            if merged and all(p.strides[merged[-1][-1]] == p.strides[k] * shape[k] for p in spread.values()):
                merged[-1].append(k)
            else:
                merged.append([k])
        names = [self.name("i") for _ in merged]
        counts = [int(np.prod([shape[k] for k in group])) for group in merged]

        def at(place: Place) -> str:
            own = spread[id(place)]
            terms = [str(own.offset)]
            for name, group in zip(names, merged, strict=True):
                if stride := own.strides[group[-1]]:
                    terms.append(name if stride == 1 else f"{name} * {stride}")
            return f"{own.array}[{' + '.join(terms)}]"

        lines, indent = list(before), ""
        for name, count in zip(names, counts, strict=True):
            lines.append(f"{indent}for {name} in range({count}):")
            indent += "    "
        lines += [indent + line for line in body(at)]
        self.blocks.append([*lines, *after])

    def functions(self) -> tuple[list[str], ...]:
        """The loops as bodies of functions, none of them long."""
        functions: list[list[str]] = [[]]
        for block in self.blocks:
            if functions[-1] and len(functions[-1]) + len(block) > LINES:
                functions.append([])
            functions[-1] += block
        return tuple(f for f in functions if f)
