"""The log densities that PyMC derives of a model, as graphs of what stands for its values, data and large constants.

They rest on the types of data and not on the numbers in them: of chunks that are alike in that, PyMC derives them once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.basic import conditional_logp
from pymc.logprob.rewriting import logprob_rewrites_db
from pymc.logprob.utils import replace_rvs_by_values
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import MergeOptimizer
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.traversal import graph_inputs, toposort
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.random.type import RandomType

from bayeskit.errors import ModelError
from bayeskit.graphs.rewriting import inline, substitute, widen
from bayeskit.model.kronecker_normal import with_gradients_on_grids
from bayeskit.model.markov_chain import chain_parameters, is_chain
from bayeskit.model.matern_normal import without_matern_matrices
from bayeskit.model.matrix_normal import where_alone
from bayeskit.model.matrix_sizes import require_room
from bayeskit.model.toeplitz_normal import without_toeplitz_matrices

__all__ = ["LARGE", "Derivations", "Derived", "SetAside", "derive"]

LARGE = 100_000  # numbers in a constant
MOST = 16  # derivations that are kept: of chunks no two of which have as many rows, none is needed again


@dataclass(frozen=True, eq=False)
class SetAside:
    """The data of a model, and its large constants with what stands for each."""

    data: dict[str, Any]  # by observed variable
    constants: dict[Any, Any]
    limits: tuple[int, int]  # real and whole numbers in a constant, above which it is large

    @classmethod
    def of(cls, model: pm.Model, limits: tuple[int, int]) -> SetAside:
        """Those that the random variables read."""
        data = {str(rv.name): model.rvs_to_values[rv] for rv in model.observed_RVs}
        large = {v: v.type() for v in graph_inputs(model.basic_RVs) if _is_large(v, limits)}
        return cls(data, large, limits)

    @property
    def small_data(self) -> dict[str, Any]:
        """Data that graphs are made with: no others of their type may be put in their place."""
        return {n: d for n, d in self.data.items() if not _is_large(d, self.limits)}

    def read_by(self, derived: Derived) -> dict[Any, Any]:
        """What graphs read in the place of what stands for it."""
        return dict(zip(derived.constants, self.constants, strict=True)) | {
            derived.values[n]: d for n, d in self.data.items()
        }


@dataclass(frozen=True, eq=False)
class Derived:
    """What PyMC derives, and what stands in it for values of random variables and for large constants."""

    values: dict[str, Variable]
    constants: tuple[Variable, ...]
    # Log densities of all random variables, the Potentials, the Deterministics, and the two graphs of each chain.
    graphs: tuple[Variable, ...]
    chains: tuple[str, ...]


def derive(model: pm.Model, aside: SetAside) -> Derived:
    """What PyMC derives; a ModelError where it cannot."""
    fresh: dict[Any, Any] = {rv: rv.clone(name=rv.name) for rv in model.basic_RVs}
    # Widened before PyMC derives the density too, because it folds constants: 1/float32(3) would stay wrong.
    widened = widen(substitute(list(model.basic_RVs), aside.constants))
    observed = {w: aside.data[rv.name] for rv, w in zip(fresh, widened, strict=True) if rv.name in aside.data}
    cheaper = without_toeplitz_matrices(without_matern_matrices(widened, observed, widened), observed, widened)
    widened = where_alone(widened, with_gradients_on_grids(cheaper, observed))
    named = {str(rv.name): w for rv, w in zip(fresh, widened, strict=True)}
    require_room(
        named,
        "only Matérn processes at the entries of one column, or any at evenly spaced ones, with noise, need none",
    )
    wide = dict(zip(widened, fresh.values(), strict=True))
    try:
        logps = conditional_logp(wide, warn_rvs=False, ir_rewriter=_measurable_form())
    except (NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        raise ModelError(f"PyMC has no log density for this model: {str(error).splitlines()[0]}") from error
    others = [pt.as_tensor(o) for o in (*model.potentials, *model.deterministics)]
    written = substitute(list(replace_rvs_by_values(others, rvs_to_values=fresh)), aside.constants)
    read = {rv.name: chain_parameters(w) for rv, w in zip(fresh, widened, strict=True) if is_chain(rv)}
    chains = {rv.name: pair for rv in model.free_RVs if (pair := read.get(rv.name)) is not None}
    of_chains = replace_rvs_by_values([g for pair in chains.values() for g in pair], rvs_to_values=wide)
    values = {str(rv.name): value for rv, value in fresh.items()}
    small = {values[n]: d for n, d in aside.small_data.items()}
    graphs = [*(logps[value] for value in fresh.values()), *written, *of_chains]
    fgraph = FunctionGraph(outputs=widen(inline(substitute(graphs, small))), clone=False)
    MergeOptimizer().rewrite(fgraph)
    return Derived(values, tuple(aside.constants.values()), tuple(fgraph.outputs), tuple(chains))


@dataclass(frozen=True, eq=False)
class Derivations:
    """What was derived of models by one builder, for others that differ from them by the numbers in data only."""

    known: dict[tuple[Any, ...], Derived] = field(default_factory=dict, repr=False)

    def of(self, model: pm.Model, aside: SetAside) -> Derived:
        """What PyMC derives, where it was not derived before of the same graphs, data of the same types and shapes."""
        if (key := _key(model, aside)) is None:
            return derive(model, aside)
        if (found := self.known.get(key)) is None:
            found = derive(model, aside)
            if len(self.known) >= MOST:
                self.known.pop(next(iter(self.known)), None)  # the oldest
            self.known[key] = found
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {"known": {}}  # derived again where it is unpickled


def _key(model: pm.Model, aside: SetAside) -> tuple[Any, ...] | None:
    """What two models share that are the same but for what is set aside; None where more than that may matter.

    Operations are the same where PyTensor has them equal. What is small or in a container is part of what is derived,
    and so are lengths, which a vector of them that is set aside gives to a type.
    """
    graphs = [*model.basic_RVs, *model.potentials, *model.deterministics]
    leaves = list(graph_inputs(graphs))
    if aside.small_data or any(_is_read_as_a_whole(v) for v in leaves if v not in aside.constants):
        return None
    places: dict[Any, Any] = {v: (k, v.type, None if v in aside.constants else _told(v)) for k, v in enumerate(leaves)}
    nodes = []
    for number, node in enumerate(toposort(graphs)):
        nodes.append((node.op, tuple(places[i] for i in node.inputs), tuple(out.type for out in node.outputs)))
        places.update((out, (number, k)) for k, out in enumerate(node.outputs))
    data = [(n, d.type) for n, d in aside.data.items()]
    return *nodes, *data, *[(v.name, places[v]) for v in graphs]


def _is_read_as_a_whole(leaf: Any) -> bool:
    """Data in a container; or a sparse matrix that no random variable reads, of which its text says the shape only."""
    container = isinstance(leaf, SharedVariable) and not isinstance(leaf.type, RandomType)
    return container or isinstance(leaf.type, SparseTensorType)


def _told(leaf: Any) -> tuple[Any, ...]:
    if not isinstance(leaf, Constant):
        return ()
    value = np.asarray(leaf.data)
    return (value.shape, repr(leaf.data) if value.dtype == object else value.tobytes())


@cache
def _measurable_form() -> Any:
    """What PyMC rewrites a model by before it derives densities; made once, it remembers what applies to which node."""
    return logprob_rewrites_db.query(RewriteDatabaseQuery(include=["basic"]))


def _is_large(var: Any, limits: tuple[int, int]) -> bool:
    if isinstance(var.type, SparseTensorType):  # two that differ by 1e-6 an entry are equal to PyTensor, and merged
        return isinstance(var, Constant)
    value = var.data if isinstance(var, Constant) else ()
    of_reals, of_whole_numbers = limits
    return np.size(value) > (of_reals if np.asarray(value).dtype.kind == "f" else of_whole_numbers)
