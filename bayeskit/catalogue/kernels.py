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
from typing import Any

import pymc as pm
from pymc.gp import cov

from bayeskit.errors import OptionError

__all__ = ["Kernel", "KernelProduct", "KernelSum", "build_kernel", "parse_kernel"]

# PyMC's class of each kernel, and the name that it has for each argument.
KERNELS: dict[str, tuple[type, dict[str, str]]] = {
    "expquad": (cov.ExpQuad, {"lengthscale": "ls"}),
    "matern12": (cov.Matern12, {"lengthscale": "ls"}),
    "matern32": (cov.Matern32, {"lengthscale": "ls"}),
    "matern52": (cov.Matern52, {"lengthscale": "ls"}),
    "ratquad": (cov.RatQuad, {"lengthscale": "ls", "mixture": "alpha"}),
    "periodic": (cov.Periodic, {"period": "period", "lengthscale": "ls"}),
    "linear": (cov.Linear, {"centre": "c"}),
    "polynomial": (cov.Polynomial, {"centre": "c", "offset": "offset", "degree": "d"}),
    "constant": (cov.Constant, {}),
}
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
TOKEN = re.compile(rf"[A-Za-z]\w*|{NUMBER}|\S")


@dataclass(frozen=True)
class Kernel:
    """One covariance function with the hyperparameters whose values are given."""

    name: str
    arguments: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class KernelProduct:
    """A product of covariance functions."""

    parts: tuple[Any, ...]


@dataclass(frozen=True)
class KernelSum:
    """A sum of covariance functions."""

    parts: tuple[Any, ...]


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [*((match.start(), match.group()) for match in TOKEN.finditer(text)), (len(text), "")]

    def error(self, what: str) -> OptionError:
        column = self.tokens[0][0]
        marked = f"{self.text[:column]}>>>{self.text[column:]}"
        return OptionError(f"option kernel does not parse at column {column + 1}: {what}: {marked}")

    def peek(self) -> str:
        return self.tokens[0][1]

    def take(self, *wanted: str) -> str:
        """The next token if it is one of these, else nothing."""
        return self.tokens.pop(0)[1] if self.peek() in wanted else ""

    def require(self, sign: str) -> None:
        if not self.take(sign):
            raise self.error(f"expected {sign!r}")

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
        name = self.take(*KERNELS)
        if not name:
            wrong = (
                f"no kernel {self.peek()!r}; there are" if self.peek().isidentifier() else "expected a kernel, one of"
            )
            raise self.error(f"{wrong} {', '.join(KERNELS)}")
        return Kernel(name, tuple(self.arguments(name).items()) if self.take("(") else ())

    def arguments(self, name: str) -> dict[str, float]:
        _, allowed = KERNELS[name]
        values: dict[str, float] = {}
        while not self.take(")"):
            if values:
                self.require(",")
            argument = self.take(*(a for a in allowed if a not in values))
            if not argument:
                raise self.error(f"{name} takes {', '.join(allowed) or 'no argument'}, each once")
            self.require("=")
            if not re.fullmatch(NUMBER, self.peek()):
                raise self.error("expected a number")
            if float(self.peek()) <= 0 and argument != "centre":
                raise self.error(f"{argument} must be above zero")
            values[argument] = float(self.take(self.peek()))
        return values


def parse_kernel(text: str) -> Any:
    """The tree of a kernel string: :class:`Kernel`, :class:`KernelProduct` and :class:`KernelSum`."""
    parser = _Parser(text)
    tree = parser.sum()
    if parser.peek():
        raise parser.error(f"unexpected {parser.peek()!r}")
    return tree


def build_kernel(tree: Any, columns: int) -> pm.gp.cov.Covariance:
    """The covariance function of a tree over so many input columns, inside a ``pm.Model`` context.

    Each term of the outermost sum is η² k with η ~ HalfNormal(1); length scales and periods are LogNormal(0, 1), the
    mixture of ``ratquad`` and the offset of ``polynomial`` HalfNormal(1), centres Normal(0, 1).
    """
    taken: Counter[str] = Counter()
    terms = tree.parts if isinstance(tree, KernelSum) else (tree,)
    scaled = [pm.HalfNormal(_named("amplitude", taken), 1.0) ** 2 * _combined(term, columns, taken) for term in terms]
    return functools.reduce(operator.add, scaled)


def _named(name: str, taken: Counter[str]) -> str:
    """A name for a hyperparameter, numbered from the second of its kind on."""
    taken[name] += 1
    return name if taken[name] == 1 else f"{name}_{taken[name]}"


def _prior(name: str, taken: Counter[str]) -> Any:
    if name == "degree":  # a number of the kernel itself
        return 2.0
    if name in ("lengthscale", "period"):
        return pm.LogNormal(_named(name, taken), 0.0, 1.0)
    return pm.Normal(_named(name, taken), 0.0, 1.0) if name == "centre" else pm.HalfNormal(_named(name, taken), 1.0)


def _combined(tree: Any, columns: int, taken: Counter[str]) -> Any:
    """The covariance of a tree, without the amplitude of the outermost terms."""
    if not isinstance(tree, Kernel):
        together = operator.mul if isinstance(tree, KernelProduct) else operator.add
        return functools.reduce(together, [_combined(part, columns, taken) for part in tree.parts])
    if tree.name == "constant":
        return cov.Constant(1.0)
    given = dict(tree.arguments)
    function, names = KERNELS[tree.name]
    return function(columns, **{theirs: given[a] if a in given else _prior(a, taken) for a, theirs in names.items()})
