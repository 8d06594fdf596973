"""A log density evaluated in extended precision (80-bit where the platform has it).

log p(y, θ) of a Poisson count of a million is the difference of terms of size 10⁷: in double precision it is off by
10⁻⁹ before anything is computed with it. NumPy's ``longdouble`` has three more digits. The graph is the same one that
PyTensor evaluates, run by the same machine (:mod:`bayeskit.graphs.interpreter`); only the arithmetic is wider. SciPy's
``gammaln`` has no such version, hence the series below.
Where ``longdouble`` is the same as double (Windows, ARM), nothing is lost but these digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache, partial, reduce
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc, Join, MakeVector
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot, Sum

from bayeskit.graphs.clipping import clip
from bayeskit.graphs.instructions import Instruction, instructions_of, performed, read_by, spread
from bayeskit.graphs.interpreter import evaluator
from bayeskit.graphs.nodes import applies

__all__ = ["compile_extended", "compile_rounding", "gammaln", "xlogy"]

Long = np.longdouble
HALF_LOG_TWO_PI = Long("0.91893853320467274178032973640561763986")
# B₂ₖ / (2k (2k − 1)), the coefficients of Stirling's series (Abramowitz and Stegun 6.1.41).
NUMERATORS = [1, -1, 1, -1, 1, -691, 1, -3617, 43867, -174611]
DENOMINATORS = [12, 360, 1260, 1680, 1188, 360360, 156, 122400, 244188, 125400]
STIRLING = np.array(NUMERATORS, dtype=Long) / np.array(DENOMINATORS, dtype=Long)
SHIFT = 16  # below this, gammaln(x) = gammaln(x + 16) − log x(x+1)…(x+15); the series is good to 1e-20 from there
STEPS = np.arange(SHIFT, dtype=Long)
REMEMBERED = 64  # values up to which those of other calls are looked up
FEW = 1_000  # values up to which all sixteen factors of each are held at once
SAMPLES = 5
ONE, TWO, HALF = np.uint64(1), np.uint64(2), np.uint64(2**63)


def gammaln(x: Any) -> np.ndarray:
    """log Γ(x) for x > 0, in extended precision; of a few values it is remembered, as a density's normaliser."""
    x = np.asarray(x, dtype=Long)
    return _gammaln_of_few(x.tobytes(), x.shape) if x.size <= REMEMBERED else _gammaln(x)


@lru_cache(maxsize=256)
def _gammaln_of_few(values: bytes, shape: tuple[int, ...]) -> np.ndarray:
    found = np.asarray(_gammaln(np.frombuffer(values, dtype=Long).reshape(shape)))
    found.flags.writeable = False
    return found


def _gammaln(x: np.ndarray) -> np.ndarray:
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
    "Clip": clip,
}  # fmt: skip
AS_THEY_ARE = ("DimShuffle", "Subtensor", "AdvancedSubtensor", "Reshape", "ExtractDiag")
EXACT = (*AS_THEY_ARE, "Switch", "Second", "Alloc", "Cast", "Neg", "Abs", "Join", "MakeVector", "CheckAndRaise")

_Call = Callable[[list[Any]], Any]


def _extended(node: Apply, of_inner: Callable[..., Any]) -> Iterator[Instruction]:
    reads = tuple(read_by(node))
    if reads:
        yield Instruction(_call(node), reads, tuple(node.outputs))
    else:  # a length that the type tells
        yield from instructions_of(node, of_inner)


def _call(node: Apply) -> _Call:
    """What a node does to the list of its arguments."""
    op: Any = node.op
    if isinstance(op, Alloc) or applies(node, ps.Second):
        return spread(node)
    if isinstance(op, Elemwise) and (function := PLAIN.get(type(op.scalar_op).__name__)) is not None:
        return lambda a: function(*a)
    if isinstance(op, Sum):
        return lambda a: np.sum(a[0], axis=op.axis, dtype=Long if a[0].dtype.kind == "f" else None)
    if isinstance(op, Dot):
        return lambda a: np.dot(a[0], a[1])
    if isinstance(op, Join):
        return lambda a: np.concatenate(a, axis=op.axis)
    if isinstance(op, MakeVector):
        return lambda a: np.stack(a) if a else np.empty(0)
    theirs = performed(node)
    if isinstance(op, CheckAndRaise):
        return lambda a: a[0] if theirs([_narrow(a[0]), *a[1:]]) is not None else None
    if applies(node, ps.Cast, ps.Identity) and node.outputs[0].type.dtype == "float64":
        return lambda a: a[0] if a[0].dtype == Long else theirs(a)
    return theirs if type(op).__name__ in AS_THEY_ARE else lambda a: theirs([_narrow(i) for i in a])


def _narrow(value: Any) -> Any:
    # A scalar result of NumPy's is a longdouble, not an array: SciPy's erfc, as PyTensor calls it, takes neither.
    return np.asarray(value, dtype=float) if isinstance(value, np.ndarray | Long) and value.dtype == Long else value


def compile_extended(inputs: Sequence[Variable], output: Variable) -> Callable[..., Any]:
    """A function from values of ``inputs`` to the value of ``output``, a scalar graph, as a ``longdouble``."""
    function = evaluator(inputs, [output], rules=_extended, loaded=_widened)
    return lambda *arguments: function(*arguments)[0][()]


def compile_rounding(inputs: Sequence[Variable], output: Variable) -> Callable[..., float]:
    """How far a value of a graph is from what the graph gives where every operation rounds at random.

    A function of the value and of those of ``inputs``. Monte Carlo arithmetic (Parker 1997): what cancels within, and
    the condition of matrices, show in the differences. Equal entries are rounded alike, as they are in earnest.
    """
    sample = pt.lscalar()
    rules = partial(_rounded_at_random, sample, np.random.default_rng(0))
    function = evaluator([*inputs, sample], [output], rules=rules, loaded=_widened)

    def rounding(value: Any, *arguments: Any) -> float:
        differences = [np.finfo(float).eps * (1 + abs(value))]  # and of parameters, 1/β of a rate β
        for k in range(SAMPLES):
            # A probability of one, rounded upward, is none.
            with suppress(ValueError, AssertionError, np.linalg.LinAlgError):
                differences.append(abs(function(*arguments, k)[0][()] - value))
                if (8 if k else 64) * max(differences[1:]) < differences[0]:
                    break  # nothing cancels
        if len(differences) == 1:
            with suppress(ValueError, AssertionError, np.linalg.LinAlgError):
                differences.append(abs(compile_extended(inputs, output)(*arguments) - value))
        return 4 * float(np.nanmax(differences))

    return rounding


def _rounded_at_random(
    sample: Variable, rng: np.random.Generator, node: Apply, of_inner: Callable[..., Any]
) -> Iterator[Instruction]:
    def rounded(call: _Call, odd: np.ndarray, size: np.ndarray, arguments: list[Any]) -> Any:
        *arguments, k = arguments
        result = call(arguments)
        several = isinstance(result, list | tuple)
        return [shifted(v, odd[k], size[k]) for v in result] if several else shifted(result, odd[k], size[k])

    def shifted(value: Any, odd: Any, size: Any) -> Any:
        if value.dtype.kind != "f":
            return value
        if value.size > 1:
            size = np.where(odd * value.astype(float).view(np.uint64) < HALF, 1, -1)
        # A number in the place of an array is refused by some operations, as if it were no value.
        return np.asarray(value + value * (np.finfo(value.dtype).eps * size))

    real = getattr(node.outputs[0].type, "dtype", "float64").startswith("float")
    for step in _extended(node, of_inner):
        if real and type(getattr(node.op, "scalar_op", node.op)).__name__ not in EXACT:
            odd = rng.integers(2**63, size=SAMPLES, dtype=np.uint64) * TWO + ONE
            step.call = partial(rounded, step.call, odd, rng.uniform(-1, 1, size=SAMPLES))
            step.inputs = (*step.inputs, sample)
        yield step


def _widened(value: Any) -> Any:
    return value.astype(Long) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value
