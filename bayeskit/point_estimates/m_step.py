r"""The M step: Q(φ) maximised one block of variables after the other, each in closed form where it has one.

Maximising over one block with the others held is a conditional M step (ECM; Meng and Rubin 1993): Q does not fall, and
neither does the likelihood. Which closed form a block has (:mod:`bayeskit.point_estimates.closed_form_modes`) is found
from the score of Q itself at random points: the coefficients of the form are solved from some, and have to give the
score at the others. What has none moves together by L-BFGS-B on PyMC's unconstrained scale, with the exact gradient and
without that scale's Jacobian.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor

from bayeskit.families.modes import Unbounded
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import silently
from bayeskit.graphs.rewriting import substitute
from bayeskit.model.ascent import climb
from bayeskit.model.transforms import Natural
from bayeskit.point_estimates.mode_blocks import ModeBlock, blocks_for
from bayeskit.point_estimates.q_function import Expected, Point

__all__ = ["Degenerate", "MStep", "m_step"]

END = 30.0  # on the unconstrained scale: e⁻³⁰ is the end of the road
SLOPE = 1e-2  # nats a unit of x with which Q still grows at the end: without bound
COLLAPSED = 1e-12  # of a variance, relative to that after the first iteration
STEPS = 15  # of L-BFGS-B in one M step: the next begins where this one ends


class Degenerate(Exception):
    """The likelihood grows without bound; the message says in what."""


@dataclass(frozen=True, eq=False)
class MStep:
    """How Q is maximised.

    Attributes
    ----------
    natural : Natural
        All variables.
    blocks : tuple of ModeBlock
        In closed form, in order.
    numerical : Numerical or None
        The rest.
    """

    natural: Natural
    blocks: tuple[ModeBlock, ...]
    numerical: Numerical | None

    def update(self, point: Point, statistics: Sequence[np.ndarray]) -> Point:
        """φ after one pass over the blocks.

        Raises
        ------
        Degenerate
        """
        point = dict(point)
        for block in self.blocks:
            try:
                found = block.mode(self.interior(point), statistics, point)
            except Unbounded as error:
                where = ", ".join(map(str, error.entry))
                raise Degenerate(f"{error.name}[{where}]" if where else error.name) from None
            point.update(found)
        if self.numerical is not None:
            inside = self.interior(point)
            point.update(self.numerical.maximise(inside, statistics))
        return point

    @property
    def described(self) -> tuple[str, ...]:
        """The blocks, in words."""
        lines = [f"{name}: {label}" for b in self.blocks for name, label in zip(b.names, b.labels, strict=True)]
        return (*lines, f"{', '.join(self.numerical.names)}: L-BFGS-B") if self.numerical else tuple(lines)

    def require_spread(self, point: Point, reference: Point) -> None:
        """That no scale is a vanishing part of what it was.

        Raises
        ------
        Degenerate
        """
        for name, form in [pair for block in self.blocks for pair in block.forms.items()]:
            if form.shrinks is None:
                continue
            left = form.shrinks(point[name], reference[name])
            if np.any(left < COLLAPSED):
                entry = ", ".join(str(i) for i in np.argwhere(left < COLLAPSED)[0])
                raise Degenerate(f"{name}[{entry}]" if entry and np.ndim(left) == np.ndim(point[name]) else name)

    def interior(self, point: Point) -> Point:
        """φ inside its support, where log 0 stands in no sum."""
        inside = {}
        for name, value in point.items():
            low, high = self.natural.ends[name]
            if not self.natural.elementwise(name):
                inside[name] = value
            else:
                room = np.where(np.isfinite(high), high - low, 1.0)
                inside[name] = np.clip(value, low + 1e-15 * room * (low != 0) + 1e-290, high - 1e-15 * room)
        return inside


class Numerical:
    """L-BFGS-B for the variables without a closed form."""

    def __init__(self, expected: Expected, model: Any, names: Sequence[str]) -> None:
        values = expected.data.values
        self.names = tuple(names)
        self.natural = Natural(model, names)
        moved = dict(zip([values[n] for n in names], self.natural.graphs, strict=True))
        (total,) = substitute([expected.total], moved)
        gradient: Any = pytensor.grad(total, self.natural.variables, disconnected_inputs="ignore")
        self.held = [n for n in values if n not in names]
        inputs = [*self.natural.variables, *[values[n] for n in self.held], *expected.inputs]
        self.function = compile_small(inputs, [total, *gradient])

    def maximise(self, point: Point, statistics: Sequence[np.ndarray]) -> Point:
        """The variables at the largest Q that a few steps find.

        Raises
        ------
        Degenerate
            If Q grows without bound.
        """
        held = [point[n] for n in self.held]

        def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
            try:
                with silently():
                    value, *slopes = self.function(*self.natural.arguments(x), *held, *statistics)
            except (ValueError, np.linalg.LinAlgError, AssertionError):
                return -np.inf, np.zeros_like(x)
            return float(value), np.concatenate([np.ravel(s) for s in slopes])

        start = self.natural.forward(point)
        ends = np.where(self.natural.bounded, END, np.inf)
        start = np.clip(np.where(np.isnan(start), 0.0, start), -ends, ends)
        before, slope = objective(start)
        if not (np.isfinite(before) and np.all(np.isfinite(slope))):
            return {n: point[n] for n in self.names}
        # On the scale of the first slope, so that the first step is not far too long.
        scale = max(1.0, float(np.max(np.abs(slope), initial=0.0)))
        bounds = list(zip(-ends, ends, strict=True))
        x, height = climb(objective, start, bounds=bounds, steps=STEPS, scale=scale, ftol=1e-15, gtol=1e-10)
        x = x if height > before else start
        at_end = self.natural.bounded & (np.abs(x) >= END)
        if np.any(at_end):
            _, slope = objective(x)
            growing = at_end & (slope * np.sign(x) > SLOPE)
            if np.any(growing):
                index = int(np.flatnonzero(growing)[0])
                name = next(n for n, s in self.natural.slices.items() if s.start <= index < s.stop)
                raise Degenerate(name)
        return self.natural.at(x)


def m_step(expected: Expected, model: Any, statistics: Sequence[np.ndarray], random_seed: int) -> MStep:
    """Find out how Q of a model is maximised.

    Parameters
    ----------
    expected : Expected
    model : pymc.Model
    statistics : sequence of array
        Of some state probabilities, all between zero and one.
    random_seed : int
        Of the points at which the forms of the scores are found.
    """
    natural = Natural(model, list(expected.data.values))
    blocks, rest = blocks_for(expected, natural, statistics, np.random.default_rng(random_seed))
    return MStep(natural, tuple(blocks), Numerical(expected, model, rest) if rest else None)
