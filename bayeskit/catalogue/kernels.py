"""Covariance functions of Gaussian processes from a string such as ``"periodic * expquad + linear"``.

Grammar, with the usual precedence::

    sum     = product { "+" product }
    product = factor { "*" factor }
    factor  = name [ "(" argument "=" number { "," … } ")" ] | "(" sum ")"

Every term of the outermost sum gets its own amplitude; every other hyperparameter gets a prior for inputs of about unit
scale unless its value is given, ``periodic(period=12)``. Kernels are PyMC's (``pymc.gp.cov``).
"""

from __future__ import annotations

import functools
import operator
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bayeskit.errors import OptionError

if TYPE_CHECKING:
    import pymc as pm

__all__ = ["KERNELS", "Kernel", "KernelProduct", "KernelSum", "build_kernel", "parse_kernel"]

# The arguments of each kernel; those in the second tuple are numbers of the kernel itself, never given a prior.
KERNELS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "expquad": (("lengthscale",), ()),
    "matern12": (("lengthscale",), ()),
    "matern32": (("lengthscale",), ()),
    "matern52": (("lengthscale",), ()),
    "ratquad": (("lengthscale", "mixture"), ()),
    "periodic": (("period", "lengthscale"), ()),
    "linear": (("centre",), ()),
    "polynomial": (("centre", "offset"), ("degree",)),
    "constant": ((), ()),
}
TOKEN = re.compile(
    r"\s*(?:(?P<name>[A-Za-z]\w*)|(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<sign>[-+*(),=]))"
)


@dataclass(frozen=True)
class Kernel:
    """One covariance function with the hyperparameters whose values are given."""

    name: str
    arguments: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class KernelProduct:
    """A product of covariance functions."""

    factors: tuple[Any, ...]


@dataclass(frozen=True)
class KernelSum:
    """A sum of covariance functions."""

    terms: tuple[Any, ...]


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0
        self.tokens: list[tuple[str, str, int]] = []
        while self.place < len(text.rstrip()):
            match = TOKEN.match(text, self.place)
            if match is None:
                blank = len(text[self.place :]) - len(text[self.place :].lstrip())
                raise self.error(self.place + blank, "cannot read this")
            kind = str(match.lastgroup)
            self.tokens.append((kind, match.group(kind), match.start(kind)))
            self.place = match.end()
        self.at = 0

    def error(self, column: int, what: str) -> OptionError:
        marked = f"{self.text[:column]}>>>{self.text[column:]}"
        return OptionError(f"option kernel does not parse at column {column + 1}: {what}: {marked}")

    def peek(self) -> tuple[str, str, int]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "", len(self.text))

    def take(self, sign: str) -> bool:
        if self.peek()[1] == sign and self.peek()[0] == "sign":
            self.at += 1
            return True
        return False

    def require(self, sign: str) -> None:
        if not self.take(sign):
            raise self.error(self.peek()[2], f"expected {sign!r}")

    def sum(self) -> Any:
        terms = [self.product()]
        while self.take("+"):
            terms.append(self.product())
        return terms[0] if len(terms) == 1 else KernelSum(tuple(terms))

    def product(self) -> Any:
        factors = [self.factor()]
        while self.take("*"):
            factors.append(self.factor())
        return factors[0] if len(factors) == 1 else KernelProduct(tuple(factors))

    def factor(self) -> Any:
        if self.take("("):
            inner = self.sum()
            self.require(")")
            return inner
        kind, name, column = self.peek()
        if kind != "name":
            raise self.error(column, f"expected a kernel, one of {', '.join(KERNELS)}")
        if name not in KERNELS:
            raise self.error(column, f"no kernel {name!r}; there are {', '.join(KERNELS)}")
        self.at += 1
        return Kernel(name, self.arguments(name) if self.take("(") else ())

    def arguments(self, name: str) -> tuple[tuple[str, float], ...]:
        allowed = (*KERNELS[name][0], *KERNELS[name][1])
        values: dict[str, float] = {}
        while not self.take(")"):
            if values:
                self.require(",")
            kind, argument, column = self.peek()
            if kind != "name" or argument not in allowed or argument in values:
                raise self.error(column, f"{name} takes {', '.join(allowed) or 'no argument'}, each once")
            self.at += 1
            self.require("=")
            kind, number, column = self.peek()
            if kind != "number":
                raise self.error(column, "expected a number")
            values[argument] = float(number)
            if argument not in ("centre",) and values[argument] <= 0:
                raise self.error(column, f"{argument} must be above zero")
            self.at += 1
        return tuple(values.items())


def parse_kernel(text: str) -> Any:
    """The tree of a kernel string: :class:`Kernel`, :class:`KernelProduct` and :class:`KernelSum`.

    Raises
    ------
    OptionError
        If it does not parse; the message has the column.
    """
    parser = _Parser(text)
    if not parser.tokens:
        raise parser.error(0, f"expected a kernel, one of {', '.join(KERNELS)}")
    tree = parser.sum()
    kind, token, column = parser.peek()
    if kind != "end":
        raise parser.error(column, f"unexpected {token!r}")
    return tree


def build_kernel(tree: Any, columns: int) -> pm.gp.cov.Covariance:
    """The covariance function of a tree, with priors for its hyperparameters, inside a ``pm.Model`` context.

    Parameters
    ----------
    tree : Kernel, KernelProduct or KernelSum
        From :func:`parse_kernel`.
    columns : int
        Number of input columns.

    Returns
    -------
    pymc.gp.cov.Covariance
        Each term η² k of the outermost sum with η ~ HalfNormal(1); length scales and periods LogNormal(0, 1), the
        mixture of ``ratquad`` and the offset of ``polynomial`` HalfNormal(1), centres Normal(0, 1).
    """
    import pymc as pm

    taken: Counter[str] = Counter()
    terms = tree.terms if isinstance(tree, KernelSum) else (tree,)
    scaled = [pm.HalfNormal(_named("amplitude", taken), 1.0) ** 2 * _combined(term, columns, taken) for term in terms]
    return functools.reduce(operator.add, scaled)


def _named(name: str, taken: Counter[str]) -> str:
    """A name for a hyperparameter, numbered from the second of its kind on."""
    taken[name] += 1
    return name if taken[name] == 1 else f"{name}_{taken[name]}"


def _prior(name: str, taken: Counter[str]) -> Any:
    import pymc as pm

    if name in ("lengthscale", "period"):
        return pm.LogNormal(_named(name, taken), 0.0, 1.0)
    if name == "centre":
        return pm.Normal(_named(name, taken), 0.0, 1.0)
    return pm.HalfNormal(_named(name, taken), 1.0)


def _combined(tree: Any, columns: int, taken: Counter[str]) -> Any:
    """The covariance of a tree, without the amplitude of the outermost terms."""
    if isinstance(tree, Kernel):
        return _covariance(tree, columns, taken)
    product = isinstance(tree, KernelProduct)
    parts = [_combined(part, columns, taken) for part in (tree.factors if product else tree.terms)]
    return functools.reduce(operator.mul if product else operator.add, parts)


def _covariance(kernel: Kernel, columns: int, taken: Counter[str]) -> Any:
    from pymc.gp import cov

    given = dict(kernel.arguments)
    value = {a: given[a] if a in given else _prior(a, taken) for a in KERNELS[kernel.name][0]}
    match kernel.name:
        case "constant":
            return cov.Constant(1.0)
        case "linear":
            return cov.Linear(columns, c=value["centre"])
        case "polynomial":
            return cov.Polynomial(columns, c=value["centre"], d=given.get("degree", 2.0), offset=value["offset"])
        case "periodic":
            return cov.Periodic(columns, period=value["period"], ls=value["lengthscale"])
        case "ratquad":
            return cov.RatQuad(columns, alpha=value["mixture"], ls=value["lengthscale"])
    classes = {"expquad": cov.ExpQuad, "matern12": cov.Matern12, "matern32": cov.Matern32, "matern52": cov.Matern52}
    return classes[kernel.name](columns, ls=value["lengthscale"])
