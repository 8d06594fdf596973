"""Covariance functions of Gaussian processes from a string such as ``"periodic * expquad + linear"``.

Grammar, with the usual precedence::

    sum     = product { "+" product }
    product = factor { "*" factor }
    factor  = name [ "(" argument "=" number { "," … } ")" ] | "(" sum ")"

Every term of the outermost sum gets its own amplitude; every other hyperparameter gets a prior for inputs of about unit
scale unless its value is given, ``periodic(period=12)``. Kernels are PyMC's (``pymc.gp.cov``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bayeskit.errors import OptionError

if TYPE_CHECKING:
    import pymc as pm

__all__ = ["KERNELS", "Kernel", "Product", "Sum", "build_kernel", "parse_kernel"]

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
class Product:
    """A product of covariance functions."""

    factors: tuple[Any, ...]


@dataclass(frozen=True)
class Sum:
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
        return terms[0] if len(terms) == 1 else Sum(tuple(terms))

    def product(self) -> Any:
        factors = [self.factor()]
        while self.take("*"):
            factors.append(self.factor())
        return factors[0] if len(factors) == 1 else Product(tuple(factors))

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
        found: dict[str, float] = {}
        while not self.take(")"):
            if found:
                self.require(",")
            kind, argument, column = self.peek()
            if kind != "name" or argument not in allowed or argument in found:
                raise self.error(column, f"{name} takes {', '.join(allowed) or 'no argument'}, each once")
            self.at += 1
            self.require("=")
            kind, number, column = self.peek()
            if kind != "number":
                raise self.error(column, "expected a number")
            found[argument] = float(number)
            if argument not in ("centre",) and found[argument] <= 0:
                raise self.error(column, f"{argument} must be above zero")
            self.at += 1
        return tuple(found.items())


def parse_kernel(text: str) -> Any:
    """The tree of a kernel string: :class:`Kernel`, :class:`Product` and :class:`Sum`.

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
    tree : Kernel, Product or Sum
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

    taken: dict[str, int] = {}

    def named(name: str) -> str:
        taken[name] = taken.get(name, 0) + 1
        return name if taken[name] == 1 else f"{name}_{taken[name]}"

    def prior(name: str) -> Any:
        if name in ("lengthscale", "period"):
            return pm.LogNormal(named(name), 0.0, 1.0)
        if name == "centre":
            return pm.Normal(named(name), 0.0, 1.0)
        return pm.HalfNormal(named(name), 1.0)

    def one(kernel: Kernel) -> Any:
        given = dict(kernel.arguments)
        value = {a: given[a] if a in given else prior(a) for a in KERNELS[kernel.name][0]}
        cov = pm.gp.cov
        if kernel.name == "constant":
            return cov.Constant(1.0)
        if kernel.name == "linear":
            return cov.Linear(columns, c=value["centre"])
        if kernel.name == "polynomial":
            return cov.Polynomial(columns, c=value["centre"], d=given.get("degree", 2.0), offset=value["offset"])
        if kernel.name == "periodic":
            return cov.Periodic(columns, period=value["period"], ls=value["lengthscale"])
        if kernel.name == "ratquad":
            return cov.RatQuad(columns, alpha=value["mixture"], ls=value["lengthscale"])
        classes = {"expquad": cov.ExpQuad, "matern12": cov.Matern12, "matern32": cov.Matern32, "matern52": cov.Matern52}
        return classes[kernel.name](columns, ls=value["lengthscale"])

    def combine(node: Any) -> Any:
        if isinstance(node, Kernel):
            return one(node)
        parts = [combine(n) for n in (node.factors if isinstance(node, Product) else node.terms)]
        result = parts[0]
        for part in parts[1:]:
            result = result * part if isinstance(node, Product) else result + part
        return result

    total = None
    for term in tree.terms if isinstance(tree, Sum) else (tree,):
        amplitude = pm.HalfNormal(named("amplitude"), 1.0)
        scaled = amplitude**2 * combine(term)
        total = scaled if total is None else total + scaled
    return total
