"""Kinds of support that conjugate families live on, and what proofs and numbers ask of each, stated once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import sympy

__all__ = ["POSITIVE", "POSITIVE_DEFINITE", "SIMPLEX", "UNIT", "SupportKind", "representable"]

Shape = tuple[int, ...]


@dataclass(frozen=True)
class SupportKind:
    """One kind of support."""

    name: str  # the kind of :class:`bayeskit.model.support.Support`
    start: Callable[[Shape], np.ndarray]  # a point inside it, a first guess of anything
    typical: Callable[[Shape, np.random.Generator], np.ndarray]  # generic values inside it: no zeros, no ties
    edges: Callable[[Shape], list[np.ndarray]]  # points all over it, near its edges too
    inside: Callable[[np.ndarray], bool]  # whether all entries are; a draw may have been rounded onto an edge
    # (guess, centre) → the centre, made usable as the next guess of a posterior, and how far it is from the guess.
    # Far from the posterior one coefficient drowns in the rounding of another and the centre may be of the wrong sign
    # or not a number; its size still says in which direction to go.
    recentred: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, float]]
    signs: Callable[[sympy.Symbol], tuple[sympy.Expr, ...]]  # expressions in φ that are positive for every φ in it
    positive: bool = True  # φ > 0, so that log φ is real
    bounds: tuple[float, float] | None = None  # its ends, if bounded: a Uniform variable between them lives on it
    event: int = 0  # how many trailing axes one variate has


def representable(draws: np.ndarray) -> np.ndarray:
    """Draws of a positive variable; those beyond floating-point numbers, as half of Gamma(1e-3, 1e-3), at their end.

    Zero is not in the support, and infinity times zero would be no number. What is not a number stays so.
    """
    return np.clip(draws, np.finfo(float).tiny, np.finfo(float).max)


def _recentred_positive(guess: np.ndarray, centre: np.ndarray) -> tuple[np.ndarray, float]:
    centre = np.where(np.isnan(centre) | (centre == 0), guess * 1e-8, np.abs(centre))
    centre = np.clip(centre, guess * 1e-15, guess * 1e15)
    return centre, float(np.max(np.abs(np.log(centre / guess)), initial=0.0))


def _recentred_unit(guess: np.ndarray, centre: np.ndarray) -> tuple[np.ndarray, float]:
    centre = np.clip(np.where(np.isfinite(centre), centre, 0.5), 1e-14, 1 - 1e-14)
    return centre, float(np.max(np.abs(centre - guess) / np.minimum(centre, 1 - centre), initial=0.0))


def _recentred_matrix(guess: np.ndarray, centre: np.ndarray) -> tuple[np.ndarray, float]:
    """The same along the principal axes of the centre as seen from the guess."""
    root = np.linalg.cholesky(guess)
    half = np.linalg.solve(root, np.where(np.isfinite(centre), centre, guess * 1e-8))
    ratios, axes = np.linalg.eigh(np.linalg.solve(root, np.swapaxes(half, -1, -2)))
    ratios = np.clip(np.abs(ratios), 1e-6, 1e6)
    half = root @ axes * np.sqrt(ratios)[..., None, :]
    return half @ np.swapaxes(half, -1, -2), float(np.max(np.abs(np.log(ratios)), initial=0.0))


def _unit_edges(shape: Shape) -> list[np.ndarray]:
    edges = 10.0 ** np.arange(-12.0, 0.0)
    return [np.full(shape, v) for v in np.concatenate([edges, np.linspace(0.05, 0.95, 37), 1 - edges])]


def _matrices(shape: Shape, rng: np.random.Generator) -> np.ndarray:
    # Off the diagonal 1/size: with entries of order one the condition grows as 2^size, and thirty features fail.
    root = np.tril(rng.normal(size=shape) / shape[-1], -1) + np.eye(shape[-1]) * rng.uniform(0.8, 1.6, shape)
    return root @ np.swapaxes(root, -1, -2)


POSITIVE = SupportKind(
    name="positive",
    start=np.ones,
    typical=lambda shape, rng: np.exp(rng.normal(scale=0.3, size=shape)),
    edges=lambda shape: [np.full(shape, v) for v in 10.0 ** np.arange(-12.0, 12.5, 0.5)],
    inside=lambda value: bool(np.all(value > 0)),
    recentred=_recentred_positive,
    signs=lambda phi: (phi,),
)
UNIT = SupportKind(
    name="unit",
    start=lambda shape: np.full(shape, 0.5),
    typical=lambda shape, rng: rng.uniform(0.2, 0.8, size=shape),
    edges=_unit_edges,
    inside=lambda value: bool(np.all((value > 0) & (value < 1))),
    recentred=_recentred_unit,
    signs=lambda phi: (phi, 1 - phi),
    bounds=(0.0, 1.0),
)
SIMPLEX = SupportKind(
    name="simplex",
    start=lambda shape: np.full(shape, 1.0 / shape[-1]),
    typical=lambda shape, rng: rng.dirichlet(np.full(shape[-1], 5.0), size=shape[:-1]),
    edges=lambda shape: list(np.random.default_rng(0).dirichlet(np.full(shape[-1], 0.3), size=(40, *shape[:-1]))),
    inside=UNIT.inside,
    recentred=_recentred_unit,
    signs=UNIT.signs,
    event=1,
)
POSITIVE_DEFINITE = SupportKind(
    name="positive_definite",
    start=lambda shape: np.broadcast_to(np.eye(shape[-1]), shape),
    typical=_matrices,
    edges=lambda shape: [k * np.broadcast_to(np.eye(shape[-1]), shape) for k in (1e-6, 1.0, 1e6)],
    inside=lambda value: True,  # a matrix of rank less than full has density zero on either side
    recentred=_recentred_matrix,
    signs=lambda phi: (),
    event=2,
)
