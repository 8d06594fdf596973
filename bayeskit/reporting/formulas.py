"""How a distribution and its parameters read on a page: ``Gamma(alpha=2, beta=0.5)``, ``Normal(mu=X @ w, sigma=s)``.

PyMC stores Gamma and Exponential by scale and MvNormal by covariance; here they are written as users write them. What
no rule covers is written ``f(a, b)`` with the variables it depends on, as PyMC does.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from pymc.distributions.distribution import Distribution
from pytensor.compile import Mode, ViewOp, function
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors, walk
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar.basic import Cast, Identity, ScalarOp, Second
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.special import Softmax
from pytensor.tensor.subtensor import indices_from_subtensor

from bayeskit.graphs.compile import small_mode
from bayeskit.graphs.nodes import core_op
from bayeskit.model.snapshot import written_down

__all__ = ["VariableText", "describe_variables"]

MAX_LENGTH = 60  # characters of one formula; longer ones become f(...)
MAX_ARRAY = 4  # elements of an array that is written out

# What users call a parameter that PyMC's density calls otherwise; ``1/x`` is stored as a reciprocal.
WRITTEN = {("Gamma", "scale"): "1/beta", ("Exponential", "mu"): "1/lam", ("Wishart", "scale_chol"): "V"}
# A parameter and the operation that PyMC gets it by: what users call that of which it is taken.
UNDONE = {
    ("1/beta", "Reciprocal"): "beta",
    ("1/lam", "Reciprocal"): "lam",
    ("V", "Cholesky"): "V",
    ("cov", "MatrixInverse"): "tau",
}
SIGNS = {"Add": " + ", "Sub": " - ", "Mul": " * ", "TrueDiv": " / ", "Pow": " ** ", "Dot": " @ ", "MatMul": " @ "}
INFIX = (" + ", " - ", " * ", " / ", " @ ", " · ")
POSTFIX = (*INFIX, " ** ", " -")  # what an index or a power would cut in two
PATTERNS = {"Reciprocal": "1 / {}", "Neg": "-{}", "Sqr": "{} ** 2"}
PASSED = (Alloc, Cast, CheckAndRaise, DimShuffle, Identity, Second, SpecifyShape, ViewOp)
SHAPES = Mode(linker="py", optimizer="fast_compile")


@dataclass(frozen=True)
class VariableText:
    """A variable in words: its name, its role, its distribution or formula, and its dims with their lengths."""

    name: str
    role: str
    text: str
    dims: str

    @property
    def random(self) -> bool:
        """Whether it has a distribution."""
        return self.role in ("free", "observed")

    @property
    def kind(self) -> str:
        """What it is: the name of its distribution, or its role."""
        return self.text.partition("(")[0] if self.random else self.role.capitalize()


@written_down
def describe_variables(model: pm.Model) -> tuple[VariableText, ...]:
    """Every variable of a model in the order of a reader: data, priors, Deterministics, likelihood, Potentials."""
    named, sizes = set(model.named_vars.values()), _sizes(model)
    rows = [(v, "data", "data") for v in model.data_vars]
    rows += [(v, "free", _distribution(v, named)) for v in model.free_RVs]
    rows += [(v, "deterministic", _expression(v, named - {v})) for v in model.deterministics]
    rows += [(v, "observed", _distribution(v, named)) for v in model.observed_RVs]
    rows += [(v, "potential", _expression(v, named - {v})) for v in model.potentials]
    return tuple(VariableText(str(v.name), role, text, sizes[str(v.name)]) for v, role, text in rows)


def _sizes(model: pm.Model) -> dict[str, str]:
    """The dims of every named variable with their lengths; of a dim without a name, its length."""
    variables = list(model.named_vars.values())
    # Shapes are inferred, not computed: without rewrites PyTensor would draw every variable, and Flat cannot be drawn.
    shapes = function([], [v.shape for v in variables], mode=SHAPES, on_unused_input="ignore")()
    sizes = {}
    for variable, shape in zip(variables, shapes, strict=True):
        dims = model.named_vars_to_dims.get(variable.name) or [None] * len(shape)
        sizes[variable.name] = " × ".join(f"{d} ({n})" if d else str(n) for d, n in zip(dims, shape, strict=True))
    return sizes


def _distribution(variable: Variable, named: Collection[Variable]) -> str:
    """The distribution of a random variable with its parameters, as a user would write it."""
    op, node = variable.owner.op, variable.owner
    names = getattr(op, "_print_name", None)
    name = str(names[0]) if names and not names[0].startswith("_") else type(op).__name__.strip("_").removesuffix("RV")
    try:
        parameters = list(op.dist_params(node))
    except (AttributeError, ValueError):  # symbolic distributions without an extended signature have no list of them
        parameters = [v for v in node.inputs if not isinstance(v.type, RandomType)]
    labels = _labels(op)
    if len(labels) != len(parameters):
        return f"{name}({', '.join(_expression(p, named) for p in parameters)})"
    pairs = [(WRITTEN.get((name, label), label), p) for label, p in zip(labels, parameters, strict=True)]
    return f"{name}({', '.join(_parameter(label, p, named) for label, p in pairs if label != 'loc')})"


def _labels(op: Any) -> list[str]:
    """What PyMC calls the parameters of an operation: the arguments of its density, in their order."""
    known = (d for d in vars(pm.distributions).values() if isinstance(d, type) and issubclass(d, Distribution))
    densities = [vars(d)["logp"] for d in known if isinstance(op, d) and "logp" in vars(d)]
    return list(inspect.signature(densities[0]).parameters)[1:] if densities else []


def _parameter(label: str, variable: Variable, named: Collection[Variable]) -> str:
    inner = _through(variable, named)
    value = _constant(inner, named) if label.startswith("1/") else None
    if value is not None:
        return f"{label[2:]}={_array_text(1 / value)}"
    if written := UNDONE.get((label, type(_operation(inner)).__name__)):
        label, inner = written, inner.owner.inputs[0]
    return f"{label}={_expression(inner, named)}"


def _expression(variable: Variable, named: Collection[Variable]) -> str:
    """A short formula for an expression in named variables; ``f(a, b)`` where it would be long or has no rule."""
    formula = _formula(variable, named)
    if formula is not None and len(formula) <= MAX_LENGTH:
        return formula

    def stop(v: Variable) -> list[Variable]:
        return [] if v in named or v.owner is None else list(reversed(v.owner.inputs))

    used = dict.fromkeys(str(v.name) for v in walk([variable], stop, bfs=False) if v in named)
    return f"f({', '.join(used)})"


def _formula(variable: Variable, named: Collection[Variable]) -> str | None:
    if variable in named:
        return str(variable.name)
    value = _constant(variable, named)
    if value is not None:
        return _array_text(value)
    inner = _through(variable, named)
    if inner is not variable:
        return _formula(inner, named)
    if inner.owner is None:
        return None
    op = _operation(inner)
    operator = type(op).__name__
    if hasattr(inner.owner.op, "dist_params"):  # an unnamed distribution inside another one
        return _distribution(inner, named)
    if operator in {"Subtensor", "AdvancedSubtensor", "AdvancedSubtensor1"}:
        return _index(inner, named)
    parts = [_formula(v, named) for v in inner.owner.inputs]
    if None in parts:
        return None
    first, *others = map(str, parts)
    if operator in ("Pow", "Sqr"):
        first = _bracket(first, POSTFIX)
    if operator == "Add":
        return " + ".join([first, *others])
    if operator in SIGNS:
        return SIGNS[operator].join([first if operator == "Sub" else _bracket(first), *map(_bracket, others)])
    if operator in PATTERNS:
        return PATTERNS[operator].format(_bracket(first))
    # PyMC gets sigma from tau with a sign, which no user wrote.
    if isinstance(op, ScalarOp | Softmax | Sum) and not others and operator != "Sign":
        return f"{operator.lower()}({first})"
    return f"inv({first})" if operator == "MatrixInverse" else None


def _index(variable: Variable, named: Collection[Variable]) -> str | None:
    """``base[i, :]``; None where a slice has ends or an index has no short formula."""
    op, inputs = variable.owner.op, variable.owner.inputs
    base = _formula(inputs[0], named)
    if _through(inputs[0], named).type.ndim == 0:  # one number for all entries
        return base
    entries = indices_from_subtensor(inputs[1:], op.idx_list) if hasattr(op, "idx_list") else inputs[1:]
    texts = [(":" if e == slice(None) else None) if isinstance(e, slice) else _formula(e, named) for e in entries]
    return None if base is None or None in texts else f"{_bracket(base, POSTFIX)}[{', '.join(map(str, texts))}]"


def _operation(variable: Variable) -> Any:
    """What computes a variable, with element-wise wrappers and vectorisation taken off."""
    op = core_op(variable.owner) if variable.owner is not None else None
    return op.scalar_op if isinstance(op, Elemwise) else op


def _through(variable: Variable, named: Collection[Variable]) -> Variable:
    """The variable behind broadcasts, casts, checks and the identity that a Deterministic adds."""
    while isinstance(op := _operation(variable), PASSED) and variable not in named:
        variable = variable.owner.inputs[1 if isinstance(op, Second) else 0]
    return variable


def _constant(variable: Variable, named: Collection[Variable]) -> np.ndarray | None:
    """Value of an expression in which no named and no random variable takes part."""
    if any(v in named or (v.owner is None and not isinstance(v, Constant)) for v in ancestors([variable])):
        return None
    return np.asarray(variable.data if isinstance(variable, Constant) else variable.eval(mode=small_mode()))


def _array_text(value: np.ndarray) -> str:
    """Numbers written out where they are few or equal, else their shape."""
    if value.dtype.kind not in "biuf":
        return "constant"
    if value.size == 1:
        return f"{value.item():.6g}"
    shape = "×".join(map(str, value.shape))
    if value.size and np.all(value == value.flat[0]):
        return f"{value.flat[0]:.6g} ({shape} times)" if value.ndim == 1 else f"{value.flat[0]:.6g} ({shape})"
    if value.ndim == 2 and value.shape[0] == value.shape[1] and np.array_equal(value, value[0, 0] * np.eye(len(value))):
        scale = f"{value[0, 0]:.6g} · " if value[0, 0] != 1 else ""
        return f"{scale}identity ({shape})"
    if value.ndim == 1 and value.size <= MAX_ARRAY:
        return "[" + ", ".join(f"{v:.6g}" for v in value) + "]"
    return f"array ({shape})"


def _bracket(text: str, signs: tuple[str, ...] = INFIX) -> str:
    """Brackets around a formula of which one of these signs is an operator, outside of brackets that it has."""
    outside, shorter = "", text
    while shorter != outside:
        outside, shorter = shorter, re.sub(r"\([^()\[\]]*\)|\[[^()\[\]]*\]", "", shorter)
    return f"({text})" if any(sign in f" {outside}" for sign in signs) else text
