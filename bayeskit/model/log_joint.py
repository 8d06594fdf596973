"""A ``pm.Model`` as one log joint density log p(y, θ) in untransformed space, in true float64.

The density is the one PyMC itself derives (``pymc.logprob``); nothing is pattern-matched. Each random variable and each
Potential contributes one *factor*, a tensor whose sum is its share of log p(y, θ). Transforms are left out: θ lives on
its own support, so no Jacobian enters.
PyTensor would compute some of it in single precision: every such constant is widened first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.utils import ParameterValueError
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import graph_inputs, toposort
from pytensor.sparse.type import SparseTensorType

from bayeskit.errors import ModelError
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.constant_matrices import with_constant_matrices
from bayeskit.graphs.rewriting import depends_on, shapes_of, substitute, wide_leaf
from bayeskit.model.areal_fields import require_neighbours
from bayeskit.model.data_shapes import require_data_fit
from bayeskit.model.data_slots import DataSlot, sealed_in, unsealed
from bayeskit.model.derivation import LARGE, Derivations, SetAside, derive
from bayeskit.model.index_range import require_indices_inside
from bayeskit.model.summed_likelihood import is_summed

__all__ = ["LogJoint"]


@dataclass(frozen=True, eq=False)
class LogJoint:
    """log p(y, θ) of one model, factor by factor; a factor's sum counts."""

    model: pm.Model
    values: dict[str, Variable]  # of each free random variable the symbolic value θ on its own support
    factors: dict[str, Variable]  # of each random variable and Potential the graph of its log density
    deterministics: dict[str, Variable]  # as functions of ``values``
    potentials: tuple[str, ...]  # the factors that are Potentials, but those which are sums of a likelihood
    # Of each free ``DiscreteMarkovChain`` of first order, log p(z₁ = k), of shape (*batch, K), and the log of its
    # transition matrix.
    chains: dict[str, tuple[Variable, Variable]] = field(default_factory=dict)
    # What proofs have asked of data in slots, and the answers: they hold for other data of which the same is true.
    facts: list[tuple[Callable[[], Any], Any]] = field(default_factory=list, repr=False)
    shared: tuple[str, ...] = ()  # variables with a constant density that compared models share, with its constant

    @classmethod
    def from_model(
        cls,
        model: pm.Model,
        *,
        fold: int = LARGE,
        shared: Sequence[str] = (),
        as_they_are: bool = False,
        known: Derivations | None = None,
    ) -> LogJoint:
        """Read a model; a ModelError if it is none, has no random variable, or PyMC cannot derive a log density.

        Arrays of more than ``fold`` real numbers are not computed with, and ``as_they_are`` none of more than one: a
        column that happens to be one everywhere stays a column. The density of a ``Flat`` variable is the
        number it is, on which no variable has a bearing. What is ``known`` of models that differ by the numbers in
        their data only need not be derived again.
        """
        _require_readable(model)
        require_indices_inside(model)
        require_data_fit(model)
        require_neighbours(model)
        # Merging equal nodes reads and hashes every constant; a design matrix of a million rows is set aside for that.
        aside = SetAside.of(model, (1, 1) if as_they_are else (fold, LARGE))
        derived = derive(model, aside) if known is None else known.of(model, aside)
        read = aside.read_by(derived)
        leaves = {v: _widened_later(d) if as_they_are else wide_leaf(d) for v, d in read.items()}
        written_out = with_constant_matrices(substitute(list(derived.graphs), leaves), always=as_they_are)
        _require_dense(written_out)
        found = iter(written_out)
        factors = dict(zip([v.name for v in (*model.basic_RVs, *model.potentials)], found, strict=False))
        factors |= {rv.name: pt.constant(0.0) for rv in model.free_RVs if type(rv.owner.op).__name__ == "FlatRV"}
        return cls(
            model=model,
            values={rv.name: derived.values[rv.name] for rv in model.free_RVs},
            factors=factors,
            deterministics=dict(zip([d.name for d in model.deterministics], found, strict=False)),
            potentials=tuple(p.name for p in model.potentials if not is_summed(p.name)),
            shared=tuple(shared),
            chains=dict(zip(derived.chains, zip(found, found, strict=True), strict=True)),
        )

    def ask(self, graph: Variable, question: Callable[[], Any]) -> Any:
        """The answer to a question about a graph, on record where that has data in slots."""
        slots = [v for v in graph_inputs([graph]) if isinstance(v, DataSlot)]
        with unsealed(slots):
            answer = question()
        if slots:
            self.facts.append((question, answer))
        return answer

    def without(self, names: Sequence[str]) -> LogJoint:
        """The density without variables that nothing else depends on."""
        return replace(
            self,
            values={n: v for n, v in self.values.items() if n not in names},
            factors={f: g for f, g in self.factors.items() if f not in names},
            chains={n: c for n, c in self.chains.items() if n not in names},
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the free random variables, in the order in which the model declares them."""
        return tuple(self.values)

    @cached_property
    def data_size(self) -> int:
        """How many numbers the factors read: data, covariates and constants."""
        leaves = list(graph_inputs(list(self.factors.values())))
        with unsealed([i for i in leaves if isinstance(i, DataSlot)]):
            return sum(
                np.size(i.data if isinstance(i, Constant) else i.get_value(borrow=True))
                for i in leaves
                if isinstance(i, Constant | SharedVariable)
            )

    @cached_property
    def dependence(self) -> dict[Variable, frozenset[Variable]]:
        """Which latent values each node of the factors depends on."""
        return depends_on([*self.factors.values(), *self.deterministics.values()], self.values.values())

    @cached_property
    def scopes(self) -> dict[str, frozenset[str]]:
        """Names of the latent variables that each factor depends on."""
        name_of = {v: n for n, v in self.values.items()}
        return {f: frozenset(name_of[v] for v in self.dependence.get(g, ())) for f, g in self.factors.items()}

    @cached_property
    def loose_potentials(self) -> tuple[str, ...]:
        """The Potentials that are no part of what compared models share; what went into a sum over states is none."""
        shared = frozenset(self.shared)
        return tuple(p for p in self.potentials if not (scope := self.scopes.get(p)) or not scope <= shared)

    @cached_property
    def total(self) -> Variable:
        """log p(y, θ), a scalar graph."""
        return pt.add(*[pt.sum(g) for g in self.factors.values()], pt.constant(0.0))

    @cached_property
    def _compiled(self) -> Any:
        return compile_small(list(self.values.values()), self.total)

    def arguments(self, point: Mapping[str, Any]) -> list[np.ndarray]:
        """The values of a point, of the types and in the order of ``values``."""
        return [np.asarray(point[n], dtype=v.type.dtype) for n, v in self.values.items()]

    def logp(self, point: Mapping[str, Any]) -> float:
        """log p(y, θ) at one point, values on their own supports, with PyMC's own density; −inf outside the support."""
        try:
            with np.errstate(all="ignore"):
                return float(self._compiled(*self.arguments(point)))
        except (ParameterValueError, np.linalg.LinAlgError):
            return -np.inf

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each free random variable."""
        shapes = {n: v.type.shape for n, v in self.values.items()}
        if any(None in shape for shape in shapes.values()):
            try:
                drawn = [self.model[n] for n in self.values]
                # Drawn, variables show whether the lengths of their parameters agree; sealed data cannot be drawn with.
                lengths = shapes_of(drawn) if sealed_in(drawn) else [pt.shape(v) for v in drawn]
                try:
                    found = compile_small([], lengths)()
                except NotImplementedError:  # of pm.Flat there are no draws
                    found = compile_small([], shapes_of(drawn))()
            except ValueError as error:
                raise ModelError(self._not_drawn(error)) from error
            shapes = {n: tuple(int(k) for k in s) for n, s in zip(self.values, found, strict=True)}
        if negative := next((n for n, shape in shapes.items() if any(k < 0 for k in shape)), None):
            raise ModelError(f"{negative!r} has the shape {shapes[negative]}: a length cannot be negative")
        return shapes

    def _not_drawn(self, error: ValueError) -> str:
        """What is said where the variables cannot be drawn together: the first that cannot be by itself, and why."""
        for name in self.values:
            try:
                compile_small([], [pt.shape(self.model[name])])()
            except NotImplementedError:  # of pm.Flat, which stands above: it says nothing
                continue
            except ValueError as own:
                why = str(own).splitlines()[0].rstrip(".")
                remedy = "check the numbers of its parameters, and their lengths"
                return f"{name!r} has no shape, for it cannot be drawn: {why}; {remedy}"
        return f"a variable's shape cannot be computed: {str(error).splitlines()[0]}"


def _require_dense(graphs: list[Variable]) -> None:
    """A ModelError where something sparse is left that is no constant which is multiplied."""
    for node in toposort(graphs):
        if any(isinstance(v.type, SparseTensorType) for v in (*node.inputs, *node.outputs)):
            raise ModelError(
                f"{node.op} of a sparse matrix: only pytensor.sparse.dot(X, b) of a constant sparse X and a dense b "
                "can be read, not X @ b; multiply b or the product rather than X, or give X as a dense array"
            )


def _widened_later(var: Variable) -> Variable:
    """A matrix of single precision is widened by whoever computes with it, if it has to be as a whole."""
    narrow = var.type.dtype == "float32" and var.type.ndim == 2 and not isinstance(var.type, SparseTensorType)
    return pt.cast(var, "float64") if narrow and isinstance(var, Constant) else wide_leaf(var)


def _require_readable(model: Any) -> None:
    if not isinstance(model, pm.Model):
        kind = type(model).__name__
        own = isinstance(getattr(model, "model", None), pm.Model)
        remedy = f"give the {kind}'s model, its .model" if own else "build one with `with pm.Model() as m:`"
        raise ModelError(f"expected a pymc.Model, got {kind}; {remedy}")
    if not model.basic_RVs and not model.potentials:
        raise ModelError("the model has no random variables; add at least one prior and one observed variable")
    for leaf in graph_inputs([*model.basic_RVs, *model.potentials]):
        if isinstance(leaf, SharedVariable) and isinstance(leaf.type, SparseTensorType):
            raise ModelError(
                "a sparse matrix is shared, and could change under its posterior: give it as a constant, "
                "pytensor.sparse.as_sparse_variable(X)"
            )
    for rv in (*model.basic_RVs, *model.deterministics):
        if rv.name in ("chain", "draw"):
            raise ModelError(f"a variable is named {rv.name!r}, as an axis of the draws is: give it another name")
        if rv.owner is not None and type(rv.owner.op).__name__.startswith("Simulator"):
            raise ModelError(f"{rv.name!r} is a pm.Simulator, which has no density; sample it with pm.sample_smc")
    for rv in model.observed_RVs:
        masked = rv.owner is not None and type(rv.owner.op).__name__ == "PartialObservedRV"
        if masked and rv.dtype.startswith(("int", "uint")) and getattr(rv.owner.inputs[0].owner.op, "ndim_supp", 0):
            raise ModelError(
                f"{rv.name!r} has rows of counts of which some entries are masked, and no density for what is left of "
                "them: mask such rows as a whole, or leave them out"
            )
        if rv.owner is not None and type(rv.owner.op).__name__ == "MinibatchRandomVariable":
            raise ModelError(
                f"{rv.name!r} has a total_size, which multiplies its log density: what is left is no posterior of "
                "these data; leave total_size out"
            )
