r"""The M step: Q(φ) maximised one block of variables after the other, each in closed form where it has one.

Maximising over one block with the others held is a conditional M step (ECM; Meng and Rubin 1993): Q does not fall, and
neither does the likelihood. Which closed form a block has (:mod:`bayeskit.point_estimates.mode_blocks`) is found from
the score of Q itself at random points: the coefficients of the form are solved from some, and have to give the score at
the others. What has none moves together by L-BFGS-B on PyMC's unconstrained scale, with the exact gradient and without
that scale's Jacobian.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayeskit.families.modes import Unbounded
from bayeskit.graphs.rewriting import substitute
from bayeskit.model.ascent import climb, value_and_gradient
from bayeskit.model.transforms import Natural
from bayeskit.point_estimates.mode_blocks import FormSearch, ModeBlock
from bayeskit.point_estimates.q_function import Expected
from bayeskit.types import Point

__all__ = ["Degenerate", "MStep"]

END = 30.0  # on the unconstrained scale: e⁻³⁰ is the end of the road
SLOPE = 1e-2  # nats a unit of x with which Q still grows at the end: without bound
COLLAPSED = 1e-12  # of a variance, relative to that after the first iteration
STEPS = 15  # of L-BFGS-B in one M step: the next begins where this one ends


class Degenerate(Exception):
    """The likelihood grows without bound; the message says in what."""


class MStep:
    """How Q of a model is maximised: the blocks in closed form, in order, and the rest by L-BFGS-B.

    The forms are looked for at the statistics of some state probabilities, all between zero and one.
    """

    def __init__(self, expected: Expected, model: Any, statistics: Sequence[np.ndarray]) -> None:
        self.natural = Natural(model, list(expected.data.values))
        self.blocks = FormSearch(expected, self.natural, statistics, np.random.default_rng(0)).blocks()
        found = {n for b in self.blocks for n in b.names}
        if rest := [n for n in self.natural.names if n not in found]:
            self.blocks.append(_numerical(expected, model, rest))

    def update(self, point: Point, statistics: Sequence[np.ndarray]) -> Point:
        """φ after one pass over the blocks; raises Degenerate."""
        point = dict(point)
        for block in self.blocks:
            try:
                point.update(block.mode(self.interior(point), statistics, point))
            except Unbounded as error:
                where = ", ".join(map(str, error.entry))
                raise Degenerate(f"{error.name}[{where}]" if where else error.name) from None
        return point

    @property
    def described(self) -> tuple[str, ...]:
        """The blocks, in words."""
        return tuple(line for b in self.blocks for line in b.described)

    def require_spread(self, point: Point, reference: Point) -> None:
        """That no scale is a vanishing part of what it was; else raises Degenerate."""
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


def _numerical(expected: Expected, model: Any, names: Sequence[str]) -> ModeBlock:
    """Variables without a closed form, moved by a few steps of L-BFGS-B."""
    values, natural = expected.data.values, Natural(model, names)
    (total,) = substitute([expected.total], dict(zip([values[n] for n in names], natural.graphs, strict=True)))
    held = [n for n in values if n not in names]
    of_all = value_and_gradient(natural, total, [*[values[n] for n in held], *expected.inputs])
    ends = np.where(natural.bounded, END, np.inf)

    def mode(inside: Point, statistics: Sequence[np.ndarray], point: Point) -> Point:
        given = [*[inside[n] for n in held], *statistics]

        def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
            return of_all(x, *given)

        start = natural.forward(inside)
        start = np.clip(np.where(np.isnan(start), 0.0, start), -ends, ends)
        before, slope = objective(start)
        if not np.isfinite(before):
            return {n: inside[n] for n in names}
        # On the scale of the first slope, so that the first step is not far too long.
        scale = max(1.0, float(np.max(np.abs(slope), initial=0.0)))
        bounds = list(zip(-ends, ends, strict=True))
        x, height = climb(objective, start, bounds=bounds, steps=STEPS, scale=scale, ftol=1e-15, gtol=1e-10)
        x = x if height > before else start
        at_end = natural.bounded & (np.abs(x) >= END)
        if np.any(at_end):
            growing = at_end & (objective(x)[1] * np.sign(x) > SLOPE)
            for name, block in natural.slices.items():
                if np.any(growing[block]):
                    raise Unbounded((), name)
        return natural.at(x)

    return ModeBlock(tuple(names), (f"{', '.join(names)}: L-BFGS-B",), mode)
