"""What a rule over one number must not be trusted with: kinks, and peaks that show nothing of themselves.

Where a log density has a kink, the trapezoid rule converges slowly. A component of a mixture is a peak as narrow as it
likes, of which the logarithm of the sum shows nothing between the nodes: no rule that only evaluates it would know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic as ps
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Max, Sum

from bayeskit.graphs.nodes import applies, core_op, without_shuffles
from bayeskit.graphs.rewriting import depends_on

__all__ = ["why_not_smooth"]

KINKS = (ps.Abs, ps.Maximum, ps.Minimum, ps.Clip, ps.Sign, ps.Mod, ps.IntDiv)
STEPS = (ps.Floor, ps.Ceil, ps.Trunc, ps.RoundHalfToEven, ps.RoundHalfAwayFromZero)


def why_not_smooth(graphs: Iterable[Variable], variable: Variable) -> str:
    """Why the log density may have kinks or hidden peaks in a variable, by its graph; empty where it shows none."""
    graphs = list(graphs)
    depends = depends_on(graphs, [variable])
    for node in dict.fromkeys(v.owner for v in ancestors(graphs) if v.owner is not None and depends.get(v)):
        op = core_op(node)
        scalar = op.scalar_op if isinstance(op, Elemwise) else None
        if isinstance(scalar, (*KINKS, *STEPS)) or isinstance(op, Max):
            return f"its log density may have a kink (`{type(scalar or op).__name__.lower()}`)"
        if isinstance(scalar, ps.Log) and _is_sum(without_shuffles(node.inputs[0]), depends):
            return "its log density is that of a mixture, whose components may be narrow peaks between the nodes"
    return ""


def _is_sum(argument: Variable, depends: Mapping[Variable, frozenset[Variable]]) -> bool:
    """Whether several terms with the variable in them are added up, along an axis or one by one."""
    node = argument.owner
    if node is None or not depends.get(argument):
        return False
    return isinstance(node.op, Sum) or (applies(node, ps.Add) and sum(bool(depends.get(i)) for i in node.inputs) > 1)
