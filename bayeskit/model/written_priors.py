"""How a distribution reads, with all its numbers: ``Gamma(alpha=2, beta=0.5)``, ``Normal(mu=X @ w, sigma=10 * s)``.

PyMC stores Gamma and Exponential by scale, a precision as a standard deviation and MvNormal by covariance; here they
are written as users write them. A prior is written out whole. Elsewhere what is long, or covered by no rule, is written
``f(a, b)`` with the variables it depends on, as PyMC does.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.distribution import Distribution
from pytensor.compile import ViewOp
from pytensor.compile.sharedvalue import SharedVariable
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

from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.nodes import core_op
from bayeskit.model.variable_sizes import variable_sizes, with_size

__all__ = [
    "Parameter",
    "constant_value",
    "distribution_name",
    "is_missing_data",
    "operation",
    "parameters_of",
    "through",
    "written_array",
    "written_distribution",
    "written_expression",
    "written_priors",
]

MAX_LENGTH = 60  # characters of one formula; longer ones become f(...)
WHOLE = 400  # characters of one that is written out whole
MAX_ARRAY = 4  # elements of an array that is written out
FIRST = 2  # elements of a longer one that are

# What users call a parameter that PyMC stores otherwise: the label in its density, the operation it is stored by, and
# the users' label for what that operation is taken of.
UNDONE = {
    ("Gamma", "scale", "Reciprocal"): "beta",
    ("Exponential", "mu", "Reciprocal"): "lam",
    ("Wishart", "scale_chol", "Cholesky"): "V",
    ("MultivariateNormal", "cov", "MatrixInverse"): "tau",
}
WRITTEN = {("Exponential", "mu"): "scale"}
# The parameters of distributions whose density PyMC derives from how they are drawn; the last is repeated.
DERIVED = {
    "_LKJCholeskyCovRV": ("n", "eta", "sd_dist"),
    "DiscreteMarkovChainRV": ("P", "steps", "init_dist"),
    "AutoRegressiveRV": ("rho", "sigma", "init_dist", "steps"),
    "MixtureRV": ("w", "comp_dists"),
    "RandomWalkRV": ("init_dist", "innovation_dist", "steps"),
    "ZeroSumNormalRV": ("sigma", "support_shape"),
}
SIGNS = {"Add": " + ", "Sub": " - ", "Mul": " * ", "TrueDiv": " / ", "Pow": " ** ", "Dot": " @ ", "MatMul": " @ "}
INFIX = (" + ", " - ", " * ", " / ", " @ ", " · ")
POSTFIX = (*INFIX, " ** ", " -")  # what an index or a power would cut in two
PATTERNS = {"Reciprocal": "1 / {}", "Neg": "-{}", "Sqr": "{} ** 2"}
PASSED = (Alloc, Cast, CheckAndRaise, DimShuffle, Identity, Second, SpecifyShape, ViewOp)


class Parameter(NamedTuple):
    """A parameter of a distribution as users call it, and the graph of its value."""

    label: str  # empty where it has no name
    value: Variable
    ndim: int  # of one of its values: 1 for a vector such as the concentrations of a Dirichlet, 2 for a matrix


@dataclass(frozen=True)
class _Writer:
    """What is known by name, and how long a formula may be."""

    named: Collection[Variable]
    whole: bool  # no formula is cut short

    @property
    def longest(self) -> int:
        return WHOLE if self.whole else MAX_LENGTH


def written_priors(model: pm.Model) -> dict[str, str]:
    """Of each free variable its prior, ``tau ~ HalfCauchy(beta=5), shape (3,)``; none of missing data."""
    named = set(model.named_vars.values())
    priors, sizes = {}, variable_sizes(model, model.free_RVs)
    for rv in model.free_RVs:
        if is_missing_data(model, rv):
            continue
        text = with_size(written_distribution(rv, named, whole=True), sizes[str(rv.name)])
        held = [v for v in _mentioned(rv, named) if isinstance(v, SharedVariable)]
        values = [f"{v.name} = {written_array(np.asarray(v.get_value(borrow=True)))}" for v in held]
        priors[str(rv.name)] = ", ".join([f"{rv.name} ~ {text}", *values])
    return priors


def is_missing_data(model: pm.Model, rv: Variable) -> bool:
    """Whether a free variable is the missing entries of data, of which PyMC makes one: its prior is the likelihood."""
    name = str(rv.name)
    return name.endswith("_unobserved") and f"{name.removesuffix('_unobserved')}_observed" in model.named_vars


def _mentioned(rv: Variable, named: Collection[Variable]) -> list[Variable]:
    """The named variables that stand in the distribution of one."""

    def above(v: Variable) -> list[Variable]:
        return [] if v.owner is None or (v in named and v is not rv) else list(reversed(v.owner.inputs))

    return list(dict.fromkeys(v for v in walk([rv], above, bfs=False) if v in named and v is not rv))


def written_distribution(rv: Variable, named: Collection[Variable], *, whole: bool = False) -> str:
    """The distribution of a random variable with its parameters, as a user would write it."""
    return _distribution(rv, _Writer(named, whole))


def written_expression(variable: Variable, named: Collection[Variable]) -> str:
    """A short formula for an expression in named variables; ``f(a, b)`` where it would be long or has no rule."""
    return _expression(variable, _Writer(named, whole=False))


def _distribution(rv: Variable, writer: _Writer) -> str:
    parameters = [(p.label, _expression(p.value, writer)) for p in parameters_of(rv, writer.named)]
    return f"{distribution_name(rv)}({', '.join(f'{label}={text}' if label else text for label, text in parameters)})"


def distribution_name(rv: Variable) -> str:
    """What PyMC calls the distribution of a random variable."""
    op = rv.owner.op
    names = getattr(op, "_print_name", None)
    return str(names[0]) if names and not names[0].startswith("_") else type(op).__name__.strip("_").removesuffix("RV")


def parameters_of(rv: Variable, named: Collection[Variable]) -> Iterator[Parameter]:
    """The parameters of a random variable as users call them; a location that is zero by construction is none."""
    op, node = rv.owner.op, rv.owner
    try:
        values = list(op.dist_params(node))
    except (AttributeError, ValueError):  # symbolic distributions without an extended signature have no list of them
        values = [v for v in node.inputs if not isinstance(v.type, RandomType)]
    labels = _labels(op, len(values))
    ndims = list(getattr(op, "ndims_params", None) or [0] * len(values))
    for label, value, ndim in zip(labels, values, ndims, strict=False):
        if label != "loc":
            yield _as_users_call_it(distribution_name(rv), label, through(value, named), ndim, named)


def _labels(op: Any, number: int) -> list[str]:
    """What PyMC calls the parameters of an operation: the arguments of its density, in their order."""
    if derived := DERIVED.get(type(op).__name__):
        return [derived[min(k, len(derived) - 1)] for k in range(number)]
    known = (d for d in vars(pm.distributions).values() if isinstance(d, type) and issubclass(d, Distribution))
    densities = [vars(d)["logp"] for d in known if isinstance(op, d) and "logp" in vars(d)]
    labels = list(inspect.signature(densities[0]).parameters)[1:] if densities else []
    return labels if len(labels) == number else [""] * number


def _as_users_call_it(kind: str, label: str, value: Variable, ndim: int, named: Collection[Variable]) -> Parameter:
    name = type(operation(value)).__name__ if value not in named else ""
    if written := UNDONE.get((kind, label, name)):
        return Parameter(written, through(value.owner.inputs[0], named), ndim)
    if label == "sigma" and name == "Mul" and (precision := _precision(value, named)) is not None:
        return Parameter("lam" if kind == "StudentT" else "tau", precision, ndim)
    return Parameter(WRITTEN.get((kind, label), label), value, ndim)


def _precision(sigma: Variable, named: Collection[Variable]) -> Variable | None:
    """τ of a standard deviation that PyMC gets from it as |τ| ** −½ · sign(τ)."""
    power, sign = ([*sigma.owner.inputs, sigma][k] for k in (0, 1))
    if type(operation(power)).__name__ != "Pow" or type(operation(sign)).__name__ != "Sign":
        return None
    return through(sign.owner.inputs[0], named)


def _expression(variable: Variable, writer: _Writer) -> str:
    formula = _formula(variable, writer)
    if formula is not None and len(formula) <= writer.longest:
        return formula

    def stop(v: Variable) -> list[Variable]:
        return [] if v in writer.named or v.owner is None else list(reversed(v.owner.inputs))

    used = dict.fromkeys(str(v.name) for v in walk([variable], stop, bfs=False) if v in writer.named)
    return f"f({', '.join(used)})"


def _formula(variable: Variable, writer: _Writer) -> str | None:
    if variable in writer.named:
        return str(variable.name)
    value = constant_value(variable, writer.named)
    if value is not None:
        return written_array(value)
    inner = through(variable, writer.named)
    if inner is not variable:
        return _formula(inner, writer)
    if inner.owner is None:
        return None
    op = operation(inner)
    operator = type(op).__name__
    if hasattr(inner.owner.op, "dist_params"):  # an unnamed distribution inside another one
        return _distribution(inner, writer)
    if operator in {"Subtensor", "AdvancedSubtensor", "AdvancedSubtensor1"}:
        return _index(inner, writer)
    parts = [_formula(v, writer) for v in inner.owner.inputs if not isinstance(v.type, RandomType)]
    if None in parts or not parts:
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
    if operator == "MatrixInverse":
        return f"inv({first})"
    return f"{operator.lower()}({', '.join([first, *others])})" if writer.whole else None


def _index(variable: Variable, writer: _Writer) -> str | None:
    """``base[i, :]``; None where a slice has ends or an index has no short formula."""
    op, inputs = variable.owner.op, variable.owner.inputs
    base = _formula(inputs[0], writer)
    if through(inputs[0], writer.named).type.ndim == 0:  # one number for all entries
        return base
    entries = indices_from_subtensor(inputs[1:], op.idx_list) if hasattr(op, "idx_list") else inputs[1:]
    texts = [(":" if e == slice(None) else None) if isinstance(e, slice) else _formula(e, writer) for e in entries]
    return None if base is None or None in texts else f"{_bracket(base, POSTFIX)}[{', '.join(map(str, texts))}]"


def operation(variable: Variable) -> Any:
    """What computes a variable, with element-wise wrappers and vectorisation taken off."""
    op = core_op(variable.owner) if variable.owner is not None else None
    return op.scalar_op if isinstance(op, Elemwise) else op


def through(variable: Variable, named: Collection[Variable]) -> Variable:
    """The variable behind broadcasts, casts, checks and the identity that a Deterministic adds."""
    while isinstance(op := operation(variable), PASSED) and variable not in named:
        variable = variable.owner.inputs[1 if isinstance(op, Second) else 0]
    return variable


def constant_value(variable: Variable, named: Collection[Variable]) -> np.ndarray | None:
    """Value of an expression in which no named and no random variable takes part; the length of a dim has no name."""
    above = list(ancestors([variable]))
    leaves = [v for v in above if v.owner is None and not isinstance(v, Constant)]
    known = all(isinstance(v, SharedVariable) and v.type == pt.lscalar for v in leaves)
    size = np.prod([n or 1 for n in getattr(variable.type, "shape", ())], dtype=float)
    if not known or size > 1e8 or any(v in named for v in above):  # a matrix that a process never makes
        return None
    return np.asarray(variable.data if isinstance(variable, Constant) else compile_small([], variable)())


def written_array(value: np.ndarray) -> str:
    """Numbers written out where they are few or equal, else the first of them and how many there are."""
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
    return f"[{', '.join(f'{v:.6g}' for v in value.flat[:FIRST])}, …] ({shape} numbers)"


def _bracket(text: str, signs: tuple[str, ...] = INFIX) -> str:
    """Brackets around a formula of which one of these signs is an operator, outside of brackets that it has."""
    outside, shorter = "", text
    while shorter != outside:
        outside, shorter = shorter, re.sub(r"\([^()\[\]]*\)|\[[^()\[\]]*\]", "", shorter)
    return f"({text})" if any(sign in f" {outside}" for sign in signs) else text
