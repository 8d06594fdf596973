"""What a conjugate family with a linear score is: its facts, stated once.

The density p(φ) ∝ exp(c · t(φ)) of each family has, after multiplication with a weight w, a polynomial score:

    w(φ) ∂/∂φ log p(φ) = c₀ + c₁ φ.

The coefficients are recovered from the gradient of a log density at as many anchor points as there are coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

__all__ = ["Parameters", "ScoreFamily", "solve_coefficients"]

Parameters = dict[str, np.ndarray]


@dataclass(frozen=True)
class ScoreFamily:
    """One family.

    Attributes
    ----------
    name : str
    support : str
        The kind of support (:class:`bayeskit.model.support.Support`).
    weight : callable
        w(φ), on numbers, arrays and SymPy symbols alike.
    order : int
        Degree of the polynomial w(φ)·score.
    anchors : callable
        (shape, guess) → list of ``order + 1`` arrays at which to take the score, around ``guess``.
    start : callable
        shape → a first guess.
    parameters : callable
        List of coefficient arrays → named parameters.
    proper : callable
        Parameters → whether each entry's density can be normalised.
    centre : callable
        Parameters → a typical point, where cancellation is least.
    log_density : callable
        (parameters, φ) → log density, one number a variable entry (or a vector, for Dirichlet).
    log_density_graph : callable
        The same for parameters that are PyTensor graphs, in double precision.
    draw : callable
        (parameters, generator, number) → draws of shape (number, …).
    frozen : callable
        Parameters → the frozen ``scipy.stats`` marginal, elementwise.
    joint : callable
        Parameters → the frozen joint distribution where SciPy has one, else None.
    advice : str
        What makes a variable of this support conjugate, for a refusal.
    """

    name: str
    support: str
    weight: Callable[[Any], Any]
    order: int
    anchors: Callable[[tuple[int, ...], np.ndarray], list[np.ndarray]]
    start: Callable[[tuple[int, ...]], np.ndarray]
    parameters: Callable[[list[np.ndarray]], Parameters]
    proper: Callable[[Parameters], bool]
    centre: Callable[[Parameters], np.ndarray]
    log_density: Callable[[Parameters, np.ndarray], np.ndarray]
    log_density_graph: Callable[[Mapping[str, Any], Any], Any]
    draw: Callable[[Parameters, np.random.Generator, int], np.ndarray]
    frozen: Callable[[Parameters], Any]
    joint: Callable[[Parameters], Any]
    advice: str

    def symbolic_weight(self, symbol: sympy.Symbol) -> sympy.Expr:
        """w as a SymPy expression."""
        return sympy.sympify(self.weight(symbol))


def solve_coefficients(points: list[np.ndarray], values: list[np.ndarray]) -> list[np.ndarray]:
    """c₀, c₁ of the line through two points, or c₀ through one, entry by entry."""
    if len(points) == 1:
        return [values[0]]
    (x0, x1), (f0, f1) = points, values
    slope = (f1 - f0) / (x1 - x0)
    return [f0 - slope * x0, slope]
