r"""What a conjugate family is: its facts, stated once.

The density :math:`p(\varphi) \propto \exp(\eta \cdot t(\varphi))` of each family has a score that is linear in known
functions of the variable, the score basis, once it is multiplied by a weight that clears denominators:

.. math::

   w(\varphi) \, \partial_\varphi \log p(\varphi) = c_0 b_0(\varphi) + c_1 b_1(\varphi) + \dots

A variable of which this is proved, with coefficients :math:`c` free of it, has its conditional posterior in the family.
The coefficients are recovered from the gradient of a log density at as many anchor points as there are coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeskit.families.support_kinds import Shape, SupportKind

__all__ = ["ConjugateFamily", "GaussianScaling", "Parameters"]

Parameters = dict[str, np.ndarray]
Coefficients = list[Any]


@dataclass(frozen=True)
class GaussianScaling:
    r"""How a variable of the family may scale a Gaussian block that is integrated out before it.

    With the precision of the block proportional to :math:`\varphi^\kappa`, integrating out the :math:`d` numbers that
    an entry governs multiplies its density by :math:`\varphi^{-\kappa d/2}`, which stays in the family.
    """

    power: int  # κ: −1 for a variance, 1 for a precision
    coefficient: int  # which coefficient the block's −κd/2 is added to
    # Parameters → (degrees of freedom, squared scale) of the Student-t that the Gaussian becomes once φ is integrated
    # out; the scale is relative to the Gaussian's at φ = 1 (for a matrix, the matrix itself).
    student: Callable[[Parameters], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class ConjugateFamily:
    """One family."""

    name: str
    support: SupportKind
    priors: tuple[str, ...]  # PyMC's distributions that are members of the family, by the class of their op
    # (φ, ``numpy`` or ``sympy``) → the values of b₀, b₁, … at numbers or as SymPy expressions.
    basis: Callable[[Any, Any], tuple[Any, ...]]
    weight: Callable[[Any], Any]  # w(φ), on numbers, arrays and SymPy symbols alike
    # (shape, guess) → as many arrays as the basis has functions, around the guess, at which to take the score.
    anchors: Callable[[Shape, np.ndarray], list[np.ndarray]]
    # Coefficients → named parameters, and back; on arrays and graphs alike.
    parameters: Callable[[Coefficients], Parameters]
    coefficients: Callable[[Parameters], Coefficients]
    positive: Callable[[Parameters], tuple[Any, ...]]  # of arrays and graphs: > 0 where the density can be normalised
    centre: Callable[[Parameters], np.ndarray]  # a typical point, where cancellation is least
    # (parameters, φ) → log density, one number a variate, in extended precision where it can be; and the same for
    # parameters that are PyTensor graphs, in double precision, or None where there is none.
    log_density: Callable[[Parameters, np.ndarray], np.ndarray]
    log_density_graph: Callable[[Mapping[str, Any], Any], Any] | None
    draw: Callable[[Parameters, np.random.Generator, int], np.ndarray]  # of shape (number, …)
    frozen: Callable[[Parameters], Any]  # SciPy's marginal of each entry; of the whole matrix for a family of matrices
    # (coefficients, value now) → where Σ c · ∫ b / w is largest; the value now where it is flat. Raises `Unbounded`.
    mode: Callable[[Coefficients, np.ndarray], np.ndarray]
    advice: str  # what makes a variable of this support conjugate, for a refusal
    joint: Callable[[Parameters], Any] = lambda _: None  # SciPy's joint distribution of one variate where it has one
    gaussian: GaussianScaling | None = None  # where a variable of the family may scale a Gaussian block
    # ±1 where φ ∂/∂φ log p = A + B φ^±1, whose coefficients may be of any two sizes; 0 elsewhere.
    power: int = 0
    # (anchors, gradients) → coefficients, where the score is not one number an entry.
    solve: Callable[[list[np.ndarray], list[Any]], Coefficients] | None = None
    # (log density, guess) → coefficients, where values cost less than gradients.
    from_values: Callable[[Callable[[np.ndarray], Any], np.ndarray], Coefficients] | None = None

    @property
    def label(self) -> str:
        """Its name in words."""
        return self.name.replace("_", " ")

    def proper(self, parameters: Parameters) -> bool:
        """Whether the density can be normalised, in every entry."""
        return all(bool(np.all(v > 0)) for v in self.positive(parameters))

    def coefficients_at(self, anchors: list[np.ndarray], gradients: list[Any]) -> Coefficients:
        """c, entry by entry, from the gradients (or graphs of them) of a log density at the anchors.

        A gradient has the shape of its anchor, or more axes in front.
        """
        if self.solve is not None:
            return self.solve(anchors, gradients)
        rows = [np.stack([np.broadcast_to(b, np.shape(x)) for b in self.basis(x, np)], axis=-1) for x in anchors]
        inverse = np.linalg.inv(np.stack(rows, axis=-2))
        values = [self.weight(x) * g for x, g in zip(anchors, gradients, strict=True)]
        return [sum(inverse[..., j, k] * v for k, v in enumerate(values)) for j in range(len(values))]
