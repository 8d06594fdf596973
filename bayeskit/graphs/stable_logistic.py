r"""The logarithm of a logistic function, of one class or of several, of which rounding would make log 0.

.. math:: \log \sigma(x) = -\log(1 + e^{-x}), \qquad \log(1 - \sigma(x)) = -\log(1 + e^x)
.. math:: \log \frac{e^{x_k}}{\sum_j e^{x_j}} = x_k - m - \log \sum_j e^{x_j - m}, \qquad m = \max_j x_j
.. math:: \log(\sigma(a) - \sigma(b)) = \log \sigma(a) + \log \sigma(-b) + \log(1 - e^{b - a})

Beyond x = 37 the logistic function is 1 to rounding, and what PyMC writes as log(1 − p) is −∞ for a logit of 38: a
regression with a predictor of scale 10⁴ would have no density a small step away from its start. PyTensor's own rewrites
see log(p) and, once they have brought −p to −1·p, no longer log1p(−p); of several classes they see the logarithm of all
probabilities, but not of those of the observed classes. What is a normal distribution function is told by
``stable_normal``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.scalar import basic as ps
from pytensor.scalar.math import Erf, Erfc, Sigmoid, Softplus
from pytensor.tensor.basic import Join, MakeVector
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import Max, Sum
from pytensor.tensor.special import LogSoftmax, Softmax
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

from bayeskit.graphs.nodes import applies, constant_number, without_shuffles
from bayeskit.graphs.stable_normal import half_erfc, log_half_erfc
from bayeskit.types import Graph

__all__ = ["log1mexp", "softened", "softplus", "stable_logistics"]

HALF = np.log(0.5)
MOVES = (DimShuffle, Subtensor, AdvancedSubtensor)  # entries about, and does not change them


def stable_logistics(graphs: Sequence[Variable]) -> list[Variable]:
    """The same graphs, with logarithms of logistic and normal distribution functions that hold for any real number.

    Of p = σ(x), too, what is asked of it before: whether it is in bounds, and whether p or 1 − p is zero.
    """
    if not any(v.owner and _has_logits(v.owner) for v in ancestors(graphs)):
        return list(graphs)
    memo: dict[Variable, Variable] = {}
    scores: dict[Variable, Graph] = {}
    for node in toposort(list(graphs)):
        if node.outputs[0] in memo:
            continue
        inputs = [memo.get(i, i) for i in node.inputs]
        if (stable := _stable(node, inputs, scores)) is not None:
            memo[node.outputs[0]] = stable
        elif any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            memo.update(zip(node.outputs, node.clone_with_new_inputs(inputs, strict=False).outputs, strict=True))
    return [memo.get(g, g) for g in graphs]


def _stable(node: Apply, inputs: list[Any], scores: dict[Variable, Graph]) -> Graph | None:
    """What a node is of logits or scores; None where it is not the logarithm of a probability, nor asks for zero.

    A score of which a logarithm was made is noted.
    """
    of: Graph | None = None
    if (score := _score_of_log(node, inputs)) is not None:
        of = log_half_erfc(score)
        scores[of] = score
    elif applies(node, ps.Log):
        of = _log(inputs[0])
    elif applies(node, ps.Log1p) and (of := _logit_of_negative(inputs[0])) is not None:
        of = -pt.softplus(of)
    elif applies(node, ps.EQ) and constant_number(inputs[1]) == 0.0 and (of := _logit(inputs[0])) is not None:
        of = pt.eq(of, -np.inf)
    elif _is_in_bounds(node, inputs) and (of := _logit_or_score(inputs[0])) is not None:
        of = pt.eq(of, of)  # but for what is no number
    elif applies(node, ps.Switch) and (of := _logit_of_either(*inputs[1:])) is not None:
        # As of ones and zeros: half the work.
        of = -pt.softplus(pt.switch(inputs[0], -1.0, 1.0) * of)
    elif applies(node, ps.Switch) and _are_opposite(*(scores.get(i) for i in inputs[1:])):
        of = log_half_erfc(pt.switch(inputs[0], 1.0, -1.0) * scores[inputs[1]])
    old: Any = node.outputs[0]
    same = of is not None and of.type.ndim == old.type.ndim and of.type.dtype == old.type.dtype
    return of if same else None


def _has_logits(node: Apply) -> bool:
    is_known = applies(node, Sigmoid, Erf, Erfc) or isinstance(node.op, Softmax)
    return is_known or _parts_of_softmax(node) is not None


def _score_of_log(node: Apply, inputs: list[Any]) -> Graph | None:
    """t of what is log p or log1p(−p) of p = ½ erfc(−t), or of 1 − p."""
    if applies(node, ps.Log):
        return _argument(inputs[0], half_erfc)
    negative = inputs[0].owner if applies(node, ps.Log1p) else None
    score = _argument(negative.inputs[0], half_erfc) if negative is not None and applies(negative, ps.Neg) else None
    return None if score is None else _opposite(score)


def _logit_or_score(probability: Any) -> Graph | None:
    logit = _logit(probability)
    return logit if logit is not None else _argument(probability, half_erfc)


def _opposite(x: Any) -> Any:
    return x.owner.inputs[0] if x.owner is not None and applies(x.owner, ps.Neg) else -x


def _are_opposite(one: Any, other: Any) -> bool:
    return one is not None and other is not None and (_opposite(one) is other or _opposite(other) is one)


def _log(probability: Any) -> Graph | None:
    """The logarithm of a graph that is σ(x), 1 − σ(x), σ(a) − σ(b), a softmax, or some entries of one."""
    node = probability.owner
    if (x := _logit(probability)) is not None:
        return -pt.softplus(-x)
    if (ends := _logits_of_difference(probability)) is not None:
        return _log_difference(*ends)
    if node is None or probability.type.dtype != "float64":
        return None
    if isinstance(node.op, MOVES):
        below = _log(node.inputs[0])
        return None if below is None else node.op(below, *node.inputs[1:])
    if isinstance(node.op, Softmax):
        return LogSoftmax(axis=node.op.axis)(node.inputs[0])
    if (parts := _parts_of_softmax(node)) is not None:
        return parts[0] - pt.log(parts[1])
    return None


def _logits_of_difference(difference: Any) -> tuple[Any, Any] | None:
    """a and b of a graph that is σ(a) − σ(b), some entries of it, or its axes arranged otherwise."""
    node = difference.owner
    if node is not None and isinstance(node.op, MOVES):
        ends = _logits_of_difference(node.inputs[0])
        return None if ends is None else (node.op(ends[0], *node.inputs[1:]), node.op(ends[1], *node.inputs[1:]))
    if node is None or not applies(node, ps.Sub):
        return None
    upper, lower = (_logit(i) for i in node.inputs)
    # Entries are taken from both: neither may be stretched along an axis of the other.
    alike = upper is not None and lower is not None and upper.type.broadcastable == lower.type.broadcastable
    return (upper, lower) if alike else None


def _log_difference(a: Any, b: Any) -> Graph:
    # Ends that are both infinite have no difference, and nothing between them.
    between = pt.switch(pt.eq(a, b), 0.0, b - a)
    return pt.log(-pt.expm1(between)) - pt.softplus(-a) - pt.softplus(b)


def _parts_of_softmax(node: Apply) -> tuple[Any, Any] | None:
    """y and Σ exp(y) of a softmax that is written out: exp(y)/Σ exp(y), where y is what its largest was taken from."""
    above = node.inputs[0] if applies(node, ps.TrueDiv) else None
    if above is None or above.owner is None or not applies(above.owner, ps.Exp):
        return None
    sum_of, y = without_shuffles(node.inputs[1]).owner, above.owner.inputs[0]
    is_sum = sum_of is not None and isinstance(sum_of.op, Sum) and sum_of.inputs[0] is above
    largest = without_shuffles(y.owner.inputs[1]).owner if y.owner is not None and applies(y.owner, ps.Sub) else None
    return (y, node.inputs[1]) if is_sum and largest is not None and isinstance(largest.op, Max) else None


def _is_in_bounds(node: Apply, inputs: list[Any]) -> bool:
    """Whether a node asks for what is a probability: at least zero, or at most one."""
    bound = 0.0 if applies(node, ps.GE) else 1.0 if applies(node, ps.LE) else None
    return bound is not None and constant_number(inputs[1]) == bound


def _logit(probability: Any) -> Graph | None:
    """x of a graph that is σ(x) or 1 − σ(x), some entries of it, several in a row, or its axes arranged otherwise."""
    return _argument(probability, _of_sigmoid)


def _of_sigmoid(node: Apply) -> Graph | None:
    return node.inputs[0] if applies(node, Sigmoid) and node.inputs[0].type.dtype == "float64" else None


def _argument(probability: Any, known: Callable[[Apply], Graph | None]) -> Any:
    """x of a graph that is F(x) or 1 − F(x) as above, with F(−x) = 1 − F(x) and what F is of known by its node."""
    node = probability.owner
    if node is None or (x := known(node)) is not None:
        return None if node is None else x
    if isinstance(node.op, MOVES):
        below = _argument(node.inputs[0], known)
        return None if below is None else node.op(below, *node.inputs[1:])
    if applies(node, ps.Sub) and constant_number(node.inputs[0]) == 1.0:
        below = _argument(node.inputs[1], known)
        return None if below is None or below.type.ndim != probability.type.ndim else _opposite(below)
    if isinstance(node.op, Join | MakeVector) and probability.type.dtype == "float64":
        inside = [_argument(part, known) for part in node.inputs]
        all_of = [x if x is not None else _end(part) for x, part in zip(inside, node.inputs, strict=True)]
        are_known = any(x is not None for x in inside) and all(x is not None for x in all_of)
        return node.op(*all_of) if are_known else None
    return None


def _end(part: Any) -> Graph | None:
    """−∞ or ∞, of as many entries, of what is filled with zeros or ones."""
    node = part.owner
    filled = part if node is None else node.inputs[1] if applies(node, ps.Second) else None
    number = None if filled is None else constant_number(filled)
    return pt.full_like(part, np.inf if number else -np.inf, dtype="float64") if number in (0.0, 1.0) else None


def _logit_of_either(log_one: Any, log_other: Any) -> Graph | None:
    """x of log σ(x) and log(1 − σ(x)), as they were written here."""
    first, second = softened(log_one), softened(log_other)
    opposite = first is not None and second is not None and first.owner and applies(first.owner, ps.Neg)
    return second if opposite and first.owner.inputs[0] is second else None


def softened(graph: Any) -> Any:
    """y of a graph that is −log(1 + exp y)."""
    below = graph.owner.inputs[0] if graph.owner and applies(graph.owner, ps.Neg) else None
    return below.owner.inputs[0] if below is not None and below.owner and applies(below.owner, Softplus) else None


def _logit_of_negative(negative: Any) -> Graph | None:
    """x of a graph that is −σ(x)."""
    node = negative.owner
    return _logit(node.inputs[0]) if node is not None and applies(node, ps.Neg) else None


def softplus(x: Any) -> Any:
    """log(1 + exp x) of an array, as max(x, 0) + log(1 + exp(−|x|)): three times as quick as ``logaddexp``."""
    result = np.asarray(-np.abs(x))
    np.log1p(np.exp(result, out=result), out=result)
    result += np.maximum(x, 0.0)
    return result


def log1mexp(x: Any) -> Any:
    """log(1 − exp x) of an array, by whichever of two ways is accurate, as PyTensor has it number by number."""
    return np.where(np.less(x, HALF), np.log1p(-np.exp(np.minimum(x, HALF))), np.log(-np.expm1(np.maximum(x, HALF))))
