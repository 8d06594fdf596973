"""A log density evaluated in extended precision (80-bit where the platform has it).

log p(y, θ) of a Poisson count of a million is the difference of terms of size 10⁷: in double precision it is off by
10⁻⁹ before anything is computed with it. NumPy's ``longdouble`` has three more digits. The graph is the same one that
PyTensor evaluates; only the arithmetic is wider. SciPy's ``gammaln`` has no such version, hence the series below.
Where ``longdouble`` is the same as double (Windows, ARM), nothing is lost but these digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pymc.logprob.utils import CheckParameterValue
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc, Join, MakeVector
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot, Sum

__all__ = ["compile_extended", "gammaln", "xlogy"]

Long = np.longdouble
HALF_LOG_TWO_PI = Long("0.91893853320467274178032973640561763986")
# B₂ₖ / (2k (2k − 1)), the coefficients of Stirling's series (Abramowitz and Stegun 6.1.41).
STIRLING = [
    Long(numerator) / Long(denominator)
    for numerator, denominator in (
        (1, 12),
        (-1, 360),
        (1, 1260),
        (-1, 1680),
        (1, 1188),
        (-691, 360360),
        (1, 156),
        (-3617, 122400),
        (43867, 244188),
        (-174611, 125400),
    )
]
SHIFT = 16  # below this, gammaln(x) = gammaln(x + 16) − log x(x+1)…(x+15); the series is good to 1e-20 from there


def gammaln(x: Any) -> np.ndarray:
    """log Γ(x) for x > 0, in extended precision."""
    x = np.asarray(x, dtype=Long)
    small = x < SHIFT
    product = np.ones_like(x)
    for k in range(SHIFT):
        product = np.where(small, product * (x + k), product)
    large = np.where(small, x + SHIFT, x)
    inverse = 1 / large
    series = np.zeros_like(x)
    for coefficient in reversed(STIRLING):
        series = series * inverse**2 + coefficient
    value = (large - Long(0.5)) * np.log(large) - large + HALF_LOG_TWO_PI + series * inverse
    return np.where(small, value - np.log(product), value)


def xlogy(x: Any, y: Any) -> np.ndarray:
    """x log y, and 0 where x is 0."""
    x, y = np.asarray(x, dtype=Long), np.asarray(y, dtype=Long)
    return np.where(x == 0, Long(0), x * np.log(np.where(x == 0, Long(1), y)))


def _elementwise(op: ps.ScalarOp, inputs: list[np.ndarray]) -> np.ndarray | None:
    if isinstance(op, ps.Switch):
        return np.where(inputs[0], inputs[1], inputs[2])
    if isinstance(op, ps.Add | ps.Mul):
        result = inputs[0]
        for value in inputs[1:]:
            result = result + value if isinstance(op, ps.Add) else result * value
        return result
    if isinstance(op, ps.Clip):
        return np.minimum(np.maximum(inputs[0], inputs[1]), inputs[2])
    if isinstance(op, ps.Cast | ps.Identity) and inputs[0].dtype == Long:
        return inputs[0]
    if isinstance(op, ps.Second):
        return np.broadcast_to(inputs[1], np.broadcast_shapes(inputs[0].shape, inputs[1].shape))
    name = type(op).__name__
    if name == "GammaLn":
        return gammaln(inputs[0])
    plain: dict[str, Callable[..., Any]] = {
        "Sub": np.subtract, "Neg": np.negative, "TrueDiv": np.true_divide, "Log": np.log, "Log1p": np.log1p,
        "Exp": np.exp, "Expm1": np.expm1, "Sqrt": np.sqrt, "Sqr": np.square, "Pow": np.power, "Abs": np.abs,
        "Reciprocal": np.reciprocal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
        "EQ": np.equal, "NEQ": np.not_equal,
    }  # fmt: skip
    return plain[name](*inputs) if name in plain else None


def _node(node: Apply, inputs: list[Any]) -> list[Any]:
    op = node.op
    wide = [np.asarray(i) for i in inputs]
    if isinstance(op, CheckParameterValue | CheckAndRaise):
        _perform(node, [_narrow(inputs[0]), *inputs[1:]])
        return [inputs[0]]
    if isinstance(op, Elemwise):
        value = _elementwise(op.scalar_op, wide)
        if value is not None:
            return [value]
    if isinstance(op, Sum):
        return [np.sum(wide[0], axis=op.axis, dtype=Long if wide[0].dtype.kind == "f" else None)]
    if isinstance(op, Dot):
        return [np.dot(wide[0], wide[1])]
    if isinstance(op, Join):
        return [np.concatenate(wide, axis=op.axis)]
    if isinstance(op, MakeVector):
        return [np.stack(wide) if wide else np.empty(0)]
    if isinstance(op, Alloc):
        return [np.broadcast_to(wide[0], tuple(int(k) for k in wide[1:]))]
    if type(op).__name__ in ("DimShuffle", "Subtensor", "AdvancedSubtensor", "Reshape", "ExtractDiag"):
        return _perform(node, inputs)
    return _perform(node, [_narrow(i) for i in inputs])


def _narrow(value: Any) -> Any:
    # A scalar result of NumPy's is a longdouble, not an array: SciPy's erfc, as PyTensor calls it, takes neither.
    return np.asarray(value, dtype=float) if isinstance(value, np.ndarray | Long) and value.dtype == Long else value


def _perform(node: Apply, inputs: list[Any]) -> list[Any]:
    storage: list[list[Any]] = [[None] for _ in node.outputs]
    node.op.perform(node, inputs, storage)
    return [s[0] for s in storage]


def compile_extended(inputs: Sequence[Variable], output: Variable) -> Callable[..., float]:
    """A function from values of ``inputs`` to the value of ``output``, in extended precision.

    Parameters
    ----------
    inputs : sequence of tensor
    output : tensor
        A scalar graph.

    Returns
    -------
    callable
        Takes one array for each input; returns a ``longdouble``.
    """
    order = list(toposort([output]))
    constants: dict[Variable, Any] = {}
    for node in order:
        for var in node.inputs:
            if isinstance(var, Constant):
                constants[var] = _widened(var.data)

    moving = set(inputs)
    once: list[Apply] = []
    always: list[Apply] = []
    for node in order:
        moves = any(i in moving or (i.owner is None and not isinstance(i, Constant)) for i in node.inputs)
        (always if moves else once).append(node)
        if moves:
            moving.update(node.outputs)

    def function(*arguments: np.ndarray) -> Any:
        # What depends on constants only, such as the log Γ of counts, is computed at the first call.
        run(once, constants)
        once.clear()
        values: dict[Variable, Any] = dict(constants)
        values.update({v: _widened(a) for v, a in zip(inputs, arguments, strict=True)})
        run(always, values)
        return np.asarray(values[output])[()]

    def run(nodes: list[Apply], values: dict[Variable, Any]) -> None:
        for node in nodes:
            read = [values[i] if i in values else _widened(_shared(i)) for i in node.inputs]
            values.update(zip(node.outputs, _node(node, read), strict=True))

    return function


def _shared(var: Variable) -> Any:
    if not isinstance(var, SharedVariable):
        raise KeyError(f"no value for {var}")
    return var.get_value(borrow=True)


def _widened(value: Any) -> Any:
    return value.astype(Long) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value
