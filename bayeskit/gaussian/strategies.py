"""How a Gaussian block is integrated out at any φ, and drawn given φ: an ordered list, the first that applies.

Each has the three operations of a factorised precision (:mod:`bayeskit.gaussian.factorisation`): the integral as a
graph in φ, with gradient, and draws and moments at many φ.

=====================  =========================================================  ===================
strategy               structure                                                  cost of an integral
=====================  =========================================================  ===================
data side              fewer rows of data than entries of θ                       N² and columns
simultaneous diagonal  one number scales the prior, one the data                  D
whitened               few variables, with the prior exp(−½|Rδ + r|²)             D³
plates                 members of a plate that share one precision                as what is left
banded                 chains, plates, a few variables shared by all              D · (width + k)²
dense                  any                                                        D³/3
=====================  =========================================================  ===================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bayeskit.gaussian.conditional import BandedConditional, Conditional, DenseConditional
from bayeskit.gaussian.integral import diagonal_integral, plates_integral, solved_integral, whitened_integral
from bayeskit.gaussian.observation_space_draws import DataSideConditional
from bayeskit.gaussian.observation_space_integral import data_side_integral
from bayeskit.gaussian.quadratic_form import QuadraticForm
from bayeskit.types import Graph

__all__ = ["STRATEGIES", "Strategy", "strategy_of"]


@dataclass(frozen=True)
class Strategy:
    """One way to solve a block."""

    name: str
    applies: Callable[[QuadraticForm], bool]  # whether a form has the structure
    integral: Callable[[QuadraticForm], Graph]  # the log integral of the density without its ``rest``, a graph in φ
    conditional: Callable[[QuadraticForm], Conditional]  # θ given φ


def _on_data_side(form: QuadraticForm) -> Conditional:
    assert form.side is not None
    return DataSideConditional(form.side)


def _banded(form: QuadraticForm) -> bool:
    return form.root is None and len(BandedConditional(form).layout.inner) > 0


def _solved(form: QuadraticForm) -> Conditional:
    """Draws do not gain from coordinates that are good for the integral only."""
    return BandedConditional(form) if _banded(form) else DenseConditional(form)


STRATEGIES = (
    Strategy("data side", lambda form: form.side is not None, data_side_integral, _on_data_side),
    Strategy("simultaneous diagonal", lambda form: form.spectrum is not None, diagonal_integral, _solved),
    Strategy("whitened", lambda form: form.root is not None, whitened_integral, DenseConditional),
    Strategy("plates", lambda form: form.plates is not None, plates_integral, _solved),
    Strategy("banded", _banded, solved_integral, BandedConditional),
    Strategy("dense", lambda form: True, solved_integral, DenseConditional),
)


def strategy_of(form: QuadraticForm) -> Strategy:
    """The first strategy of the list that applies."""
    return next(s for s in STRATEGIES if s.applies(form))
