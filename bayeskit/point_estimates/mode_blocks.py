"""Which blocks of variables have a closed-form mode in Q, found from its score at random points, and its solution.

Real variables have the score ∇Q = g + H (θ − θ₀) and the mode θ₀ − H⁻¹ g; the others one of the forms of
:mod:`bayeskit.point_estimates.mode_forms`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from bayeskit.families import families_for
from bayeskit.families.modes import Unbounded
from bayeskit.gaussian.coloured_jacobians import colours_of
from bayeskit.model.transforms import Natural
from bayeskit.model.vector_layout import VectorLayout
from bayeskit.point_estimates import mode_forms
from bayeskit.point_estimates.mode_forms import ModeForm
from bayeskit.point_estimates.q_function import Expected, Score
from bayeskit.types import Point

__all__ = ["FormSearch", "ModeBlock"]

LARGEST = 512  # entries of a real block
POINTS = 8  # at which a form is recognised
FEW = 2  # that most forms are solved from
PASSES = 8

Mode = Callable[[Point, Sequence[np.ndarray], Point], Point]


@dataclass(frozen=True, eq=False)
class ModeBlock:
    """Variables and their mode given the others.

    ``described`` says how they are maximised, in words; ``mode`` takes a point inside the support, the statistics and
    the point itself.
    """

    names: tuple[str, ...]
    described: tuple[str, ...]
    mode: Mode
    forms: Mapping[str, ModeForm] = field(default_factory=dict)


class FormSearch:
    """Which variables have a closed form, at some statistics."""

    def __init__(
        self, expected: Expected, natural: Natural, statistics: Sequence[np.ndarray], rng: np.random.Generator
    ) -> None:
        self.expected, self.natural, self.statistics, self.rng = expected, natural, statistics, rng
        kinds = {n: type(natural.model[n].owner.op).__name__ for n in natural.names}
        self.matrices = [n for n, kind in kinds.items() if kind == "WishartRV"]
        self.factors = [n for n, kind in kinds.items() if kind == "_LKJCholeskyCovRV"]

    def blocks(self) -> list[ModeBlock]:
        """The blocks with a closed form, real variables first."""
        natural, blocks = self.natural, []
        real = [n for n in natural.names if natural.transform(n) is None and n not in self.matrices]
        others = [n for n in natural.names if n not in real]
        for form, names in ((self.real, real), (self.constrained, others)):
            whole = form(names) if names else None
            # Together, if each has its form whatever the others are; else one after the other.
            parts = [whole] if whole is not None else [form([n]) for n in names if len(names) > 1]
            blocks += [b for b in parts if b is not None]
        return blocks

    def random(self) -> Point:
        """A point inside the support."""
        point = self.natural.at(self.natural.start + self.rng.normal(scale=0.4, size=self.natural.size))
        for name in self.matrices:
            shape = np.shape(point[name])
            root = self.rng.normal(scale=0.3, size=shape)
            point[name] = np.eye(shape[-1]) + root @ np.swapaxes(root, -1, -2)
        return point

    def real(self, names: list[str]) -> ModeBlock | None:
        """The block of unbounded variables whose score is linear in them."""
        start = self.random()
        layout = VectorLayout({n: np.shape(start[n]) for n in names})
        size = layout.size
        if size > LARGEST:
            return None
        score = self.expected.score(names, min(size + 1, 8))
        flat = layout.ravel(start)
        steps = np.concatenate([np.zeros((1, size)), np.eye(size), self.rng.normal(size=(2, size))])
        scores = layout.ravel(score(layout.split(flat + steps), start, self.statistics))
        if not np.all(np.isfinite(scores)):
            return None
        hessian = (scores[1 : size + 1] - scores[0]).T
        expected = scores[0] + steps[-2:] @ hessian.T
        level = np.max(np.abs(scores[:1])) + np.abs(steps[-2:]) @ np.abs(hessian).T
        if np.any(np.abs(scores[-2:] - expected) > mode_forms.AGREE * level) or not np.any(hessian):
            return None
        pattern = np.abs(hessian) > 1e-12 * np.max(np.abs(hessian))
        mode = _quadratic(score, layout, pattern | pattern.T)
        return ModeBlock(tuple(names), tuple(f"{n}: normal, closed form" for n in names), mode)

    def constrained(self, names: list[str]) -> ModeBlock | None:
        """The block of variables of which each has one of the other forms."""
        drawn = [self.random() for _ in range(POINTS)]
        points = {n: np.stack([d[n] for d in drawn]) for n in names}
        score = self.expected.score(names, FEW)
        scores = score(points, self.random(), self.statistics)
        recognised = {n: self.form(n, points[n], scores[n]) for n in names}
        forms = {n: form for n, form in recognised.items() if form is not None}
        if len(forms) < len(names):
            return None
        count = max(f.number for f in forms.values())
        if count > FEW:
            score = self.expected.score(names, count)

        def mode(inside: Point, statistics: Sequence[np.ndarray], point: Point) -> Point:
            guess, found = {n: inside[n] for n in names}, {}
            for _ in range(PASSES):
                own = {n: forms[n].points(guess[n]) for n in names}
                anchors = {n: x[np.minimum(np.arange(count), len(x) - 1)] for n, x in own.items()}
                scores = score(anchors, inside, statistics)
                pending = False
                for name, form in forms.items():
                    x = own[name]
                    try:
                        found[name], again = form.solve(x, scores[name][: len(x)], point[name])
                    except Unbounded as error:
                        raise Unbounded(error.entry, name) from None
                    if again is not None:
                        guess[name], pending = again, True
                if not pending:
                    break
            # The mode of a density with one peak, where its support is cut off.
            elementwise = self.natural.elementwise
            return {n: np.clip(v, *self.natural.ends[n]) if elementwise(n) else v for n, v in found.items()}

        return ModeBlock(tuple(names), tuple(f"{n}: {forms[n].label}" for n in names), mode, forms)

    def form(self, name: str, points: np.ndarray, scores: np.ndarray) -> ModeForm | None:
        """The form of one variable."""
        if not np.all(np.isfinite(scores)) or not np.any(scores):
            return None
        if name in self.matrices:
            return mode_forms.family_form(families_for("positive_definite")[0], points, scores)
        if name in self.factors:
            return mode_forms.cholesky_form(points, scores)
        if not self.natural.elementwise(name):
            return None
        if type(self.natural.transform(name)).__name__ == "SimplexTransform":
            return mode_forms.family_form(families_for("simplex")[0], points, scores)
        return mode_forms.interval_form(*self.natural.ends[name], points, scores)


def _quadratic(score: Score, layout: VectorLayout, pattern: np.ndarray) -> Mode:
    """Newton's step, which is exact; entries with no row in common are moved together (Curtis, Powell and Reid)."""
    colours = colours_of(sparse.csr_array(pattern))
    count = int(colours.max()) + 1

    def mode(inside: Point, statistics: Sequence[np.ndarray], point: Point) -> Point:
        now = layout.ravel(inside)
        step = 1.0 + np.abs(now)
        moves = np.concatenate([np.zeros((1, len(now))), (colours == np.arange(count)[:, None]) * step])
        scores = layout.ravel(score(layout.split(now + moves), inside, statistics))
        # The step that was taken: now + step has been rounded.
        width = (now + step) - now
        hessian = np.where(pattern, (scores[1:] - scores[0])[colours].T / width, 0.0)
        try:
            moved = now + _newton(0.5 * (hessian + hessian.T), scores[0])
        except Unbounded:
            raise Unbounded((), ", ".join(layout.shapes)) from None
        return layout.split(moved)

    return mode


def _newton(hessian: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """−H⁻¹ g; nothing along directions that the density does not depend on."""
    scale = np.sqrt(np.abs(np.diag(hessian)))
    used = scale > 0
    inner = -hessian[np.ix_(used, used)] / np.outer(scale[used], scale[used])
    step = np.zeros(len(gradient))
    values, vectors = np.linalg.eigh(inner)
    if np.any(values < -1e-9):
        raise Unbounded
    kept = values > 1e-12
    projected = vectors[:, kept].T @ (gradient[used] / scale[used])
    step[used] = (vectors[:, kept] @ (projected / values[kept])) / scale[used]
    return step
