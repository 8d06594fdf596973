"""Data that are longer or shorter than what their distribution is given, said by name before anything is read.

PyTensor looks at lengths that only data containers have when the density is evaluated; the words it then has are those
of some rewritten graph.
"""

from __future__ import annotations

from itertools import dropwhile, islice, zip_longest
from typing import Any

import pymc as pm
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import graph_inputs, toposort
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type import TensorType

from bayeskit.errors import ModelError
from bayeskit.graphs.rewriting import substitute
from bayeskit.model.data_slots import held_array, sealed_in
from bayeskit.terminal import let_alarms_through

__all__ = ["require_data_fit"]

MOST_NODES = 2_000  # of a graph, above which lengths are left to PyTensor
ADVICE = "give both the same rows"

type Lengths = tuple[int | None, ...]  # None where a length is not known before the graph is evaluated


def require_data_fit(model: pm.Model) -> None:
    """A ModelError where an observed variable has other lengths than the parameters of its distribution."""
    for rv in model.observed_RVs:
        node, value = rv.owner, _with_lengths(model.rvs_to_values[rv], str(rv.name))
        if node is None or not isinstance(node.op, RandomVariable) or value is None:
            continue
        batch = value[: len(value) - node.op.ndim_supp]
        for parameter, core in zip(node.op.dist_params(node), node.op.ndims_params, strict=True):
            lengths = _with_lengths(parameter, str(rv.name))
            given = None if lengths is None else lengths[: len(lengths) - core]
            if given is not None and not _fits(batch, given):
                given = tuple(dropwhile(lambda n: n == 1, given))  # which PyMC puts in front
                column = batch[-1:] == (1,) and len(batch) > len(given)
                advice = f"{rv.name} is a column: observe it as a vector, such as frame['y']" if column else ADVICE
                raise ModelError(
                    f"the data of {rv.name!r} have shape {_words(batch)}, but a parameter of its distribution has "
                    f"shape {_words(given)}; {advice}"
                )


def _fits(data: Lengths, parameter: Lengths) -> bool:
    """Whether a parameter broadcasts to data: a length that is not known does."""
    pairs = zip_longest(reversed(data), reversed(parameter), fillvalue=1)
    return all(p in (1, None) or d in (p, None) for d, p in pairs)


def _with_lengths(graph: Any, name: str) -> Lengths | None:
    """The shape of a graph by those of the data that are held now; None where it cannot be said."""
    if sealed_in([graph]) or any(islice(toposort([graph]), MOST_NODES, None)):
        return None
    held = {v: held_array(v) for v in graph_inputs([graph]) if isinstance(v, SharedVariable)}
    known: dict[Any, Any] = {v: TensorType(a.dtype, shape=a.shape)() for v, a in held.items() if a is not None}
    try:
        shape = getattr(substitute([graph], known)[0].type, "shape", None)
    except Exception as error:  # of an operation of anybody's that does not take another type
        let_alarms_through(error)
        _, found, shapes = str(error).partition("Incompatible Elemwise input shapes ")
        if found:
            raise ModelError(f"arrays of shapes {shapes.strip('[]')} meet behind {name!r}; {ADVICE}") from error
        return None
    return None if shape is None else tuple(shape)


def _words(shape: Lengths) -> str:
    return str(tuple("?" if n is None else n for n in shape)).replace("'?'", "?")
