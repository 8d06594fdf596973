"""Hypotheses as people write them, ``mu[a] < mu[b] < mu[c]`` or ``-0.1 < delta < 0.1 and sigma > 1``, read safely.

A text is names, entries by their labels, numbers, sums, products with numbers, and comparisons joined by ``and`` or
``&``. It is read as Python's syntax tree; nothing of it is run.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from bayeskit.arguments import is_a, shown
from bayeskit.errors import ModelError, OptionError

__all__ = ["Expression", "Relation", "read"]

LONGEST = 10_000  # characters
POINT = "a point has no probability: test it by bayeskit.savage_dickey"
EXAMPLE = "write it as in 'delta > 0', 'mu[a] < mu[b] < mu[c]' or '-0.1 < delta < 0.1 and sigma > 1'"
ORDERS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
SIGNS = {"≤": "<=", "≥": ">=", "−": "-", "∧": " and ", "&": " and "}


@dataclass(frozen=True)
class Expression:
    """A weighted sum of named numbers, and a constant."""

    terms: dict[str, float] = field(default_factory=dict)
    constant: float = 0.0

    def plus(self, other: Expression, factor: float = 1.0) -> Expression:
        """This one and a multiple of another."""
        terms = dict(self.terms)
        for name, coefficient in other.terms.items():
            terms[name] = terms.get(name, 0.0) + factor * coefficient
        return Expression({n: c for n, c in terms.items() if c}, self.constant + factor * other.constant)


@dataclass(frozen=True)
class Relation:
    """An expression that is above zero, or not below it."""

    excess: Expression
    strict: bool

    def holds(self, excess: Any) -> Any:
        """Whether it does at values of the expression."""
        return excess > 0 if self.strict else excess >= 0


def read(text: str, variables: Iterable[str]) -> list[Relation]:
    """The relations that a text joins; an OptionError where it is none, with what is not understood."""
    if not text.strip() or len(text) > LONGEST:
        raise OptionError(f"the hypothesis is {shown(text)}; {EXAMPLE}")
    names: list[str] = []

    def named(found: re.Match[str]) -> str:
        if found[0] in ("and", "or", "not"):
            return found[0]
        names.append(found[0])
        return f" n_{len(names) - 1} "

    odd = sorted((re.escape(n) for n in variables if not n.isidentifier()), key=len, reverse=True)
    word = "|".join([*odd, r"[^\W\d]\w*"])
    # The number 1e-3 has a letter, and is no name.
    pattern = rf"(?<![\w.])(?:{word})(?:\s*\[[^\]]*\])?"
    plain = re.sub(pattern, named, text)
    for sign, meaning in SIGNS.items():
        plain = plain.replace(sign, meaning)
    try:
        tree = ast.parse(plain.strip(), mode="eval").body
        return _relations(tree, names, lambda why: _refused(text, why))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, OptionError | ModelError):
            raise
        equal = re.search(r"(?<![<>=!])=(?!=)", plain)
        raise _refused(text, POINT if equal else "it is no comparison of sums") from None


def _refused(text: str, why: str) -> OptionError:
    return OptionError(f"the hypothesis {shown(text)} is not understood: {why}; {EXAMPLE}")


def _relations(node: ast.AST, names: list[str], refused: Callable[[str], OptionError]) -> list[Relation]:
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return [relation for value in node.values for relation in _relations(value, names, refused)]
    if isinstance(node, ast.BoolOp | ast.UnaryOp) and isinstance(node.op, ast.Or | ast.Not):
        raise refused("hypotheses are joined by 'and' only; ask for its complement, or for each part")
    if isinstance(node, ast.Tuple):
        raise refused("a comma joins nothing: join hypotheses by 'and'")
    if not isinstance(node, ast.Compare):
        raise refused("it compares nothing")
    sides = [_expression(side, names, refused) for side in (node.left, *node.comparators)]
    found = []
    for order, left, right in zip(node.ops, sides[:-1], sides[1:], strict=True):
        sign = ORDERS.get(type(order))
        if sign is None:
            raise refused(POINT if isinstance(order, ast.Eq | ast.NotEq) else "a comparison is one of < <= > >=")
        excess = right.plus(left, -1.0) if sign[0] == "<" else left.plus(right, -1.0)
        found.append(Relation(excess, strict=len(sign) == 1))
    return found


def _expression(node: ast.AST, names: list[str], refused: Callable[[str], OptionError]) -> Expression:
    if isinstance(node, ast.Name) and node.id.startswith("n_"):
        return Expression({names[int(node.id[2:])]: 1.0})
    if isinstance(node, ast.Constant) and is_a(node.value, float) and isinstance(node.value, int | float):
        return Expression({}, float(node.value))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        inner = _expression(node.operand, names, refused)
        return Expression().plus(inner, -1.0 if isinstance(node.op, ast.USub) else 1.0)
    if not isinstance(node, ast.BinOp):
        raise refused("it has something else than names, numbers, sums and comparisons")
    left, right = _expression(node.left, names, refused), _expression(node.right, names, refused)
    if isinstance(node.op, ast.Add | ast.Sub):
        return left.plus(right, 1.0 if isinstance(node.op, ast.Add) else -1.0)
    if isinstance(node.op, ast.Mult) and not left.terms:
        return Expression().plus(right, left.constant)
    if isinstance(node.op, ast.Mult | ast.Div) and not right.terms:
        factor = right.constant
        if isinstance(node.op, ast.Div):
            factor = 1 / factor if factor else math.nan
        if not math.isfinite(factor):
            raise refused("it divides by zero")
        return Expression().plus(left, factor)
    raise refused("it has a product, a ratio or a power of variables: write that as a pm.Deterministic of the model")
