"""A log density evaluated in extended precision (80-bit where the platform has it).

log p(y, θ) of a Poisson count of a million is the difference of terms of size 10⁷: in double precision it is off by
10⁻⁹ before anything is computed with it. NumPy's ``longdouble`` has three more digits. The graph is the same one that
PyTensor evaluates; only the arithmetic is wider. SciPy's ``gammaln`` has no such version, hence the series below.
Where ``longdouble`` is the same as double (Windows, ARM), nothing is lost but these digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
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
STEPS = np.arange(SHIFT, dtype=Long)
FEW = 1_000  # values up to which all sixteen factors of each are held at once


def gammaln(x: Any) -> np.ndarray:
    """log Γ(x) for x > 0, in extended precision."""
    x = np.asarray(x, dtype=Long)
    small = x < SHIFT
    if x.size <= FEW:
        product = np.where(small, np.prod(x[..., None] + STEPS, axis=-1), Long(1))
    else:
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


PLAIN: dict[str, Callable[..., Any]] = {
    "Sub": np.subtract, "Neg": np.negative, "TrueDiv": np.true_divide, "Log": np.log, "Log1p": np.log1p,
    "Exp": np.exp, "Expm1": np.expm1, "Sqrt": np.sqrt, "Sqr": np.square, "Pow": np.power, "Abs": np.abs,
    "Reciprocal": np.reciprocal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
    "EQ": np.equal, "NEQ": np.not_equal, "GammaLn": gammaln, "Switch": np.where,
    "AND": np.bitwise_and, "OR": np.bitwise_or,
    "Add": lambda *terms: reduce(np.add, terms), "Mul": lambda *factors: reduce(np.multiply, factors),
    "Clip": lambda value, low, high: np.minimum(np.maximum(value, low), high),
    "Second": lambda model, value: np.broadcast_to(value, np.broadcast_shapes(np.shape(model), np.shape(value))),
}  # fmt: skip
AS_THEY_ARE = ("DimShuffle", "Subtensor", "AdvancedSubtensor", "Reshape", "ExtractDiag")

_Rule = Callable[[list[Any]], list[Any]]


def _rule(node: Apply) -> _Rule:
    """What a node does to the list of its arguments, looked up once."""
    op: Any = node.op
    if isinstance(op, CheckParameterValue | CheckAndRaise):
        return lambda a: [a[0]] if _perform(node, [_narrow(a[0]), *a[1:]]) else []
    if isinstance(op, Elemwise):
        if (function := PLAIN.get(type(op.scalar_op).__name__)) is not None:
            return lambda a: [function(*a)]
        if isinstance(op.scalar_op, ps.Cast | ps.Identity):
            return lambda a: a if a[0].dtype == Long else _perform(node, a)
    if isinstance(op, Sum):
        return lambda a: [np.sum(a[0], axis=op.axis, dtype=Long if a[0].dtype.kind == "f" else None)]
    if isinstance(op, Dot):
        return lambda a: [np.dot(a[0], a[1])]
    if isinstance(op, Join):
        return lambda a: [np.concatenate(a, axis=op.axis)]
    if isinstance(op, MakeVector):
        return lambda a: [np.stack(a) if a else np.empty(0)]
    if isinstance(op, Alloc):
        return lambda a: [np.broadcast_to(a[0], tuple(int(k) for k in a[1:]))]
    if type(op).__name__ in AS_THEY_ARE:
        return lambda a: _perform(node, a)
    return lambda a: _perform(node, [_narrow(i) for i in a])


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
    constants: dict[Variable, Any] = {}
    shared: dict[Variable, Any] = {}  # with the values that ``of_data`` was computed from
    moving, read = set(inputs), set()
    once: list[tuple[Apply, _Rule]] = []
    data: list[tuple[Apply, _Rule]] = []
    always: list[tuple[Apply, _Rule]] = []
    for node in toposort([output]):
        for var in node.inputs:
            if isinstance(var, Constant):
                constants[var] = _widened(var.data)
            elif var.owner is None and var not in moving:
                shared[var] = None
                read.add(var)
        of = moving if any(i in moving for i in node.inputs) else read if any(i in read for i in node.inputs) else None
        (always if of is moving else data if of is read else once).append((node, _rule(node)))
        if of is not None:
            of.update(node.outputs)
    of_data: dict[Variable, Any] = {}

    def function(*arguments: np.ndarray) -> Any:
        # What depends on constants only, such as the log Γ of counts, is computed at the first call; what depends on
        # shared variables, when they have been given other arrays.
        run(once, constants)
        once.clear()
        now = {v: _shared(v) for v in shared}
        if not of_data or any(now[v] is not shared[v] for v in shared):
            shared.update(now)
            of_data.clear()
            of_data.update(constants)
            of_data.update({v: _widened(a) for v, a in now.items()})
            run(data, of_data)
        values = dict(of_data)
        values.update({v: _widened(a) for v, a in zip(inputs, arguments, strict=True)})
        run(always, values)
        return np.asarray(values[output])[()]

    def run(nodes: list[tuple[Apply, _Rule]], values: dict[Variable, Any]) -> None:
        for node, rule in nodes:
            values.update(zip(node.outputs, rule([values[i] for i in node.inputs]), strict=True))

    return function


def _shared(var: Variable) -> Any:
    if not isinstance(var, SharedVariable):
        raise KeyError(f"no value for {var}")
    return var.get_value(borrow=True)


def _widened(value: Any) -> Any:
    return value.astype(Long) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value
