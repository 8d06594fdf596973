"""The one walk with which every analysis follows a graph of PyTensor.

An analysis asks one question of every node: of which degree it is in θ, what its Jacobian is, along which axes it
depends on z. It is a *lattice*, the answers a node may have, and a few *rules* that give the answer of a node from
those of its inputs (Cousot and Cousot's abstract interpretation). The rules are per kind of operation
(:mod:`bayeskit.graphs.operations`). What has no rule is ``unknown``, the answer that claims nothing.

Which nodes are sure to be positive where x is::

    class Positive(GraphAnalysis[bool]):
        def constant(self, var):             # a node that does not depend on the leaves
            return isinstance(var, Constant) and bool(np.all(var.data > 0))

        def unknown(self, out, values):      # no rule: nothing is claimed
            return False

        def product(self, out, values):
            return all(values)

        def move(self, out, values):         # entries are moved, never changed; later inputs are indices or shapes
            return values[0]

    Positive({x: True}).walk([graph])[graph]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytensor.graph.traversal import toposort
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.shape import Shape, Shape_i

from bayeskit.graphs.nodes import core_op
from bayeskit.graphs.operations import kind_of
from bayeskit.types import Graph

__all__ = ["GraphAnalysis"]


class GraphAnalysis[V]:
    """A walk over graphs that gives every node a value; to be subclassed with the rules of one question.

    A rule is a method with the name of a :class:`Kind`. It takes an output of a node and the values of the node's
    inputs, and gives the output's value. It is called only where an input depends on the leaves. A kind without a rule
    is ``unknown``.

    ``leaves`` are the variables in question (any nodes; nothing above them is visited for them) with their values.
    ``values`` are those of all nodes visited; a node that is not among them does not depend on the leaves.
    """

    def __init__(self, leaves: Mapping[Graph, V]) -> None:
        self.values: dict[Graph, V] = dict(leaves)

    def walk(self, graphs: Iterable[Graph]) -> dict[Graph, V]:
        """Visit everything below some graphs, inputs before outputs, and give the values of all nodes visited."""
        for node in toposort(list(graphs)):
            # A shape does not depend on what it is the shape of.
            if isinstance(node.op, Shape | Shape_i) or not any(i in self.values for i in node.inputs):
                continue
            values = [self.value(i) for i in node.inputs]
            for out in node.outputs:
                if out not in self.values:
                    self.values[out] = self.transfer(out, values)
        return self.values

    def value(self, var: Graph) -> V:
        """The value of a node that was visited, or that does not depend on the leaves."""
        return self.values[var] if var in self.values else self.constant(var)

    def transfer(self, out: Graph, values: list[V]) -> V:
        """The value of an output of a node: the rule for its kind of operation, ``elementwise`` for the first four."""
        kind = kind_of(out.owner)
        general = self.elementwise if isinstance(core_op(out.owner), Elemwise) else self.unknown
        result: V = getattr(self, kind, general)(out, values)
        return result

    def constant(self, var: Graph) -> V:
        """The value of a node that does not depend on the leaves."""
        raise NotImplementedError

    def unknown(self, out: Graph, values: list[V]) -> V:
        """The value that claims nothing (or an exception that ends the walk)."""
        raise NotImplementedError

    def elementwise(self, out: Graph, values: list[V]) -> V:
        """Where the kind of elementwise operation has no rule of its own."""
        return self.unknown(out, values)
