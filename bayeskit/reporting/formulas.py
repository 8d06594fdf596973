"""How a distribution and its parameters read on a page: ``Gamma(alpha=2, beta=0.5)``, ``Normal(mu=X @ w, sigma=s)``.

PyMC stores Gamma and Exponential by scale and MvNormal by covariance; here they are written as users write them. What
no rule covers is written ``f(a, b)`` with the variables it depends on, as PyMC does.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pymc as pm
from pytensor.compile import Mode, SharedVariable, function
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors, walk
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.subtensor import indices_from_subtensor

from bayeskit.graphs.compile import small_mode

__all__ = ["VariableText", "describe_distribution", "describe_expression", "describe_variables", "variable_sizes"]

MAX_LENGTH = 60  # characters of one formula; longer ones become f(...)
MAX_ARRAY = 4  # elements of an array that is written out

PARAMETERS: dict[str, tuple[str, ...]] = {
    "Bernoulli": ("p",),
    "Beta": ("alpha", "beta"),
    "BetaBinomial": ("n", "alpha", "beta"),
    "Binomial": ("n", "p"),
    "Categorical": ("p",),
    "Cauchy": ("alpha", "beta"),
    "ChiSquared": ("nu",),
    "Dirichlet": ("a",),
    "DiscreteUniform": ("lower", "upper"),
    "Exponential": ("1/lam",),
    "Gamma": ("alpha", "1/beta"),
    "Geometric": ("p",),
    "HalfCauchy": ("", "beta"),
    "HalfNormal": ("", "sigma"),
    "InverseGamma": ("alpha", "beta"),
    "Laplace": ("mu", "b"),
    "LogNormal": ("mu", "sigma"),
    "Logistic": ("mu", "s"),
    "Multinomial": ("n", "p"),
    "MultivariateNormal": ("mu", "cov"),
    "NegativeBinomial": ("n", "p"),
    "Normal": ("mu", "sigma"),
    "Pareto": ("alpha", "m"),
    "Poisson": ("mu",),
    "StudentT": ("nu", "mu", "sigma"),
    "Uniform": ("lower", "upper"),
    "Weibull": ("alpha", "beta"),
    "Wishart": ("nu", "V"),
}
"""Names of the parameters in the order of PyMC's operators; ``""`` is not shown, ``1/x`` is stored as a reciprocal."""

BINARY = {"Add": " + ", "Sub": " - ", "Mul": " * ", "TrueDiv": " / ", "Pow": " ** "}
PASSED = {
    "DimShuffle",
    "ExpandDims",
    "Cast",
    "Identity",
    "ViewOp",
    "Second",
    "Alloc",
    "SpecifyShape",
    "CheckAndRaise",
    "Assert",
}
FUNCTIONS = {
    "Sqrt",
    "Exp",
    "Log",
    "Log1p",
    "Expm1",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Abs",
    "Sin",
    "Cos",
    "Tanh",
    "Sum",
}
SHAPES = Mode(linker="py", optimizer="fast_compile")


@dataclass(frozen=True)
class VariableText:
    """One variable of a model in words: its name, role, distribution or formula, and dims with their lengths."""

    name: str
    role: str
    text: str
    dims: str


def variable_sizes(model: pm.Model) -> dict[str, tuple[tuple[str, int], ...]]:
    """(dim, length) pairs of every named variable; a dim without a name is called ``""``."""
    variables = list(model.named_vars.values())
    # Shapes are inferred, not computed: without rewrites PyTensor would draw every variable, and Flat cannot be drawn.
    shapes = function([], [v.shape for v in variables], mode=SHAPES, on_unused_input="ignore")()
    sizes = {}
    for variable, shape in zip(variables, shapes, strict=True):
        dims = model.named_vars_to_dims.get(variable.name) or [None] * len(shape)
        sizes[variable.name] = tuple((str(d or ""), int(n)) for d, n in zip(dims, shape, strict=True))
    return sizes


def describe_variables(model: pm.Model) -> tuple[VariableText, ...]:
    """Every variable of a model in the order of a reader: data, priors, Deterministics, likelihood, Potentials."""
    named = set(model.named_vars.values())
    sizes = variable_sizes(model)

    def text(variable: Variable, role: str, formula: str) -> VariableText:
        dims = " × ".join(f"{d} ({n})" if d else str(n) for d, n in sizes[str(variable.name)])
        return VariableText(str(variable.name), role, formula, dims)

    rows = [text(v, "data", "data") for v in model.data_vars]
    rows += [text(v, "prior", describe_distribution(v, named)) for v in model.free_RVs]
    rows += [text(v, "deterministic", describe_expression(v, named - {v})) for v in model.deterministics]
    rows += [text(v, "likelihood", describe_distribution(v, named)) for v in model.observed_RVs]
    rows += [text(v, "potential", describe_expression(v, named - {v})) for v in model.potentials]
    return tuple(rows)


def distribution_name(variable: Variable) -> str:
    """The name a user knows the distribution by."""
    op = variable.owner.op
    names = getattr(op, "_print_name", None)
    return str(names[0]) if names and not names[0].startswith("_") else type(op).__name__.strip("_").removesuffix("RV")


def describe_distribution(variable: Variable, named: Collection[Variable]) -> str:
    """The distribution of a random variable with its parameters, as a user would write it."""
    op, node, name = variable.owner.op, variable.owner, distribution_name(variable)
    try:
        parameters = list(op.dist_params(node))
    except Exception:  # symbolic distributions without an extended signature have no list of parameters
        parameters = [v for v in node.inputs if not isinstance(v.type, RandomType)]
    labels = PARAMETERS.get(name, ())
    if len(labels) != len(parameters):
        return f"{name}({', '.join(describe_expression(p, named) for p in parameters)})"
    shown = [_parameter(label, p, named) for label, p in zip(labels, parameters, strict=True) if label]
    return f"{name}({', '.join(shown)})"


def _parameter(label: str, variable: Variable, named: Collection[Variable]) -> str:
    inner = _through(variable, named)
    operator = _operator(inner)
    if label.startswith("1/"):
        label = label.removeprefix("1/")
        value = _constant(inner, named)
        if value is not None:
            return f"{label}={_array_text(1 / value)}"
        if operator == "Reciprocal":
            return f"{label}={describe_expression(inner.owner.inputs[0], named)}"
        return f"1/{label}={describe_expression(inner, named)}"
    if label == "V" and operator == "Cholesky":
        return f"V={describe_expression(inner.owner.inputs[0], named)}"
    if label == "cov" and operator == "MatrixInverse":
        return f"tau={describe_expression(inner.owner.inputs[0], named)}"
    return f"{label}={describe_expression(inner, named)}"


def describe_expression(variable: Variable, named: Collection[Variable]) -> str:
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
    operator = _operator(inner)
    if hasattr(inner.owner.op, "dist_params"):  # an unnamed distribution inside another one
        return describe_distribution(inner, named)
    inputs = list(inner.owner.inputs)
    if operator in {"Subtensor", "AdvancedSubtensor", "AdvancedSubtensor1"}:
        return _index(inner, named)
    parts = [_formula(v, named) for v in inputs]
    if None in parts:
        return None
    texts = [str(p) for p in parts]
    if operator in {"Dot", "MatMul"}:
        return " @ ".join(_bracket(t) for t in texts)
    if operator in {"Add", "Mul"}:  # these two may have more than two inputs
        return BINARY[operator].join(texts if operator == "Add" else [_bracket(t) for t in texts])
    if operator in BINARY and len(texts) == 2:
        return f"{texts[0] if operator == 'Sub' else _bracket(texts[0])}{BINARY[operator]}{_bracket(texts[1])}"
    if operator == "Reciprocal":
        return f"1 / {_bracket(texts[0])}"
    if operator == "Neg":
        return f"-{_bracket(texts[0])}"
    if operator == "Sqr":
        return f"{_bracket(texts[0])} ** 2"
    if operator == "MatrixInverse":
        return f"inv({texts[0]})"
    if operator in FUNCTIONS:
        return f"{operator.lower()}({texts[0]})"
    return None


def _index(variable: Variable, named: Collection[Variable]) -> str | None:
    """``base[i, :]``; None where a slice has ends or an index has no short formula."""
    op, inputs = variable.owner.op, variable.owner.inputs
    base = _formula(inputs[0], named)
    entries = indices_from_subtensor(inputs[1:], op.idx_list) if hasattr(op, "idx_list") else inputs[1:]
    texts = [(":" if e == slice(None) else None) if isinstance(e, slice) else _formula(e, named) for e in entries]
    return None if base is None or None in texts else f"{base}[{', '.join(map(str, texts))}]"


def _operator(variable: Variable) -> str:
    """Class name of the operator, with element-wise wrappers and vectorisation taken off."""
    if variable.owner is None:
        return ""
    op = variable.owner.op
    for attribute in ("core_op", "scalar_op"):
        inner = getattr(op, attribute, None)
        if inner is not None and type(op).__name__ in {"Blockwise", "Elemwise"}:
            op = inner
    return type(op).__name__


def _through(variable: Variable, named: Collection[Variable]) -> Variable:
    """The variable behind broadcasts, casts, checks and the identity that a Deterministic adds."""
    while variable.owner is not None and _operator(variable) in PASSED and variable not in named:
        inputs = variable.owner.inputs
        variable = inputs[1] if _operator(variable) == "Second" else inputs[0]
    return variable


def _constant(variable: Variable, named: Collection[Variable]) -> np.ndarray | None:
    """Value of an expression in which no named and no random variable takes part."""
    if isinstance(variable, Constant):
        return np.asarray(variable.data)
    for v in ancestors([variable]):
        if v in named or isinstance(v, SharedVariable) or isinstance(v.type, RandomType):
            return None
        if v.owner is None and not isinstance(v, Constant):
            return None
    return np.asarray(variable.eval(mode=small_mode()))


def _array_text(value: np.ndarray) -> str:
    """Numbers written out where they are few or equal, else their shape."""
    value = np.asarray(value)
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


def _bracket(text: str) -> str:
    """Brackets around anything that is not one name, number, call or index."""
    return f"({text})" if any(sign in text for sign in (" + ", " - ", " * ", " / ", " @ ")) else text
