r"""The logarithm of a normal distribution function, of which rounding would make log 0.

.. math:: \log \Phi(t \sqrt 2) = \log \tfrac12 \operatorname{erfc}(-t)

PyMC writes it with erfc or erf, as in ``pm.math.invprobit``. Φ(z) is 1 to rounding beyond z = 8.3, erfc(y) is no number
that a double could hold beyond y = 26.5. There it is, with an error of 2·10⁻¹³ at most in its logarithm,

.. math::

   \operatorname{erfc}(y) = \frac{e^{-y^2}}{y \sqrt \pi}
   \bigl(1 - c \bigl(1 - 3c \bigl(1 - 5c (1 - 7c)\bigr)\bigr)\bigr), \qquad c = \frac{1}{2 y^2}
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.scalar import basic as ps
from pytensor.scalar.math import Erf, Erfc

from bayeskit.graphs.nodes import applies, constant_number
from bayeskit.types import Graph

__all__ = ["half_erfc", "log_half_erfc"]

FAR = 26.0


def half_erfc(node: Apply) -> Graph | None:
    """t of what is ½ erfc(−t), which is ½ (1 + erf t)."""
    twice = _doubled(node)
    inside = None if twice is None else twice.owner
    if inside is None:
        return None
    if applies(inside, Erfc):
        y = inside.inputs[0]
        return -y if y.type.dtype == "float64" else None
    if applies(inside, ps.Add) and len(inside.inputs) == 2:
        one, other = inside.inputs if constant_number(inside.inputs[0]) is not None else inside.inputs[::-1]
        is_erf = constant_number(one) == 1.0 and other.owner is not None and applies(other.owner, Erf)
        t = other.owner.inputs[0] if is_erf else None
        return t if t is not None and t.type.dtype == "float64" and t.type.ndim == node.outputs[0].type.ndim else None
    return None


def _doubled(node: Apply) -> Any:
    """x of what is ½ x."""
    if applies(node, ps.TrueDiv):
        return node.inputs[0] if constant_number(node.inputs[1]) == 2.0 else None
    if applies(node, ps.Mul) and len(node.inputs) == 2:
        first, second = node.inputs
        return second if constant_number(first) == 0.5 else first if constant_number(second) == 0.5 else None
    return None


def log_half_erfc(t: Any) -> Graph:
    """log(½ erfc(−t)), of which neither side of a choice has a slope that is no number."""
    is_below, is_far = pt.lt(t, 0.0), pt.lt(t, -FAR)
    size = pt.switch(is_below, -t, t)
    tail = pt.erfc(pt.switch(pt.gt(size, FAR), FAR, size)) / 2.0
    far = pt.switch(is_far, -t, FAR)
    c = 0.5 / far**2
    series = 1.0 - c * (1.0 - c * (3.0 - c * (15.0 - 105.0 * c)))
    below = pt.log(pt.switch(is_far, series / (2.0 * np.sqrt(np.pi) * far), tail)) - pt.switch(is_far, far**2, 0.0)
    return pt.switch(is_below, below, pt.log1p(-tail))
