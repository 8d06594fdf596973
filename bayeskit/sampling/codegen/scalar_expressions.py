"""Scalar functions of PyTensor as expressions for numba.

Numbers are double precision throughout, truth values are truth values; integers are doubles too, exact up to 2⁵³.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply

__all__ = ["PATTERNS", "REDUCTIONS", "expression", "literal", "loaded", "stored"]

# By the name of PyTensor's scalar class.
PATTERNS = {
    "Sub": "{0} - {1}",
    "TrueDiv": "{0} / {1}",
    "Neg": "-{0}",
    "Sqr": "{0} * {0}",
    "Reciprocal": "1.0 / {0}",
    "Abs": "abs({0})",
    "Exp": "math.exp({0})",
    "Expm1": "math.expm1({0})",
    "Log": "math.log({0})",
    "Log1p": "math.log1p({0})",
    "Log2": "math.log({0}) * 1.4426950408889634",
    "Log10": "math.log10({0})",
    "Sqrt": "math.sqrt({0})",
    "Pow": "{0} ** {1}",
    "Sin": "math.sin({0})",
    "Cos": "math.cos({0})",
    "Tan": "math.tan({0})",
    "ArcTan": "math.atan({0})",
    "Sinh": "math.sinh({0})",
    "Cosh": "math.cosh({0})",
    "Tanh": "math.tanh({0})",
    "Erf": "math.erf({0})",
    "Erfc": "math.erfc({0})",
    "GammaLn": "math.lgamma({0})",
    "Sigmoid": "1.0 / (1.0 + math.exp(-{0}))",
    "Softplus": "softplus({0})",
    "Log1mexp": "log1mexp({0})",
    # Comparisons with a number that is none are false: it is passed on, as NumPy passes it on.
    "Maximum": "{0} if {0} >= {1} or {0} != {0} else {1}",
    "Minimum": "{0} if {0} <= {1} or {0} != {0} else {1}",
    "Clip": "{1} if {0} < {1} else ({2} if {0} > {2} else {0})",
    "GT": "{0} > {1}",
    "GE": "{0} >= {1}",
    "LT": "{0} < {1}",
    "LE": "{0} <= {1}",
    "EQ": "{0} == {1}",
    "NEQ": "{0} != {1}",
    "IsInf": "math.isinf({0})",
    "IsNan": "math.isnan({0})",
}
OF_TRUTH_VALUES = {"AND": "{0} and {1}", "OR": "{0} or {1}", "XOR": "{0} != {1}", "Invert": "not {0}"}
# The start of a sum, and how a term is added to it.
REDUCTIONS = {
    "Add": ("0.0", "plus({0}, {1})"),
    "Mul": ("1.0", "{0} * {1}"),
    "Maximum": ("(-INF)", PATTERNS["Maximum"]),
    "Minimum": ("INF", PATTERNS["Minimum"]),
    "AND": ("True", OF_TRUTH_VALUES["AND"]),
    "OR": ("False", OF_TRUTH_VALUES["OR"]),
}


def literal(value: float) -> str:
    """A number as source."""
    value = float(value)
    if np.isfinite(value):
        return repr(value) if value >= 0 and not np.signbit(value) else f"({value!r})"
    return "NAN" if np.isnan(value) else ("INF" if value > 0 else "(-INF)")


def expression(node: Apply, arguments: Sequence[str]) -> str | None:
    """The source of one elementwise node, given names or numbers for its arguments; None where there is none here.

    An argument of truth values is the name of a truth value.
    """
    name = type(node.op.scalar_op).__name__
    kinds = [i.type.dtype for i in node.inputs]
    numbers = [f"(1.0 if {a} else 0.0)" if k == "bool" else a for a, k in zip(arguments, kinds, strict=True)]
    if name in OF_TRUTH_VALUES and len(arguments) <= 2:
        return OF_TRUTH_VALUES[name].format(*arguments) if set(kinds) == {"bool"} else None
    if name == "Switch":
        test = arguments[0] if kinds[0] == "bool" else f"{arguments[0]} != 0.0"
        return None if node.outputs[0].type.dtype == "bool" else f"{numbers[1]} if {test} else {numbers[2]}"
    if name in ("Add", "Mul"):
        if node.outputs[0].type.dtype == "bool":
            return (" or " if name == "Add" else " and ").join(arguments) if set(kinds) == {"bool"} else None
        return (" + " if name == "Add" else " * ").join(numbers)
    if name in ("Second", "Identity"):
        return arguments[-1]
    if name == "Cast":
        return _cast(kinds[0], node.outputs[0].type.dtype, arguments[0], numbers[0])
    return PATTERNS[name].format(*numbers) if name in PATTERNS else None


def _cast(old: str, new: str, argument: str, number: str) -> str | None:
    if new == "bool":
        return argument if old == "bool" else f"{number} != 0.0"
    if new.startswith(("int", "uint")) and old.startswith("float"):
        return None
    # Single precision is where PyTensor puts a small constant; rounding to it would lose digits.
    return number


def loaded(source: str, var: Any) -> str:
    """The value of an entry of the workspace, where truth values are zero or one."""
    return f"{source} != 0.0" if var.type.dtype == "bool" else source


def stored(source: str, var: Any) -> str:
    """What is put into the workspace for a value."""
    return f"1.0 if {source} else 0.0" if var.type.dtype == "bool" else source
