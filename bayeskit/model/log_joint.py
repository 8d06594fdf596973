"""A ``pm.Model`` as one log joint density log p(y, θ) in untransformed space, in true float64.

The density is the one PyMC itself derives (``pymc.logprob``); nothing is pattern-matched. Each random variable and each
Potential contributes one *factor*, a tensor whose sum is its share of log p(y, θ). Transforms are left out: θ lives on
its own support, so no Jacobian enters.

PyTensor keeps Python floats such as 15.0 as float32 when that is exact and small integers as int8, and then computes
log(15.0) or gammaln(2.0) in single precision: off by 1e-8 to 1e-7. Here every such constant is widened first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.basic import conditional_logp
from pymc.logprob.utils import (
    ParameterValueError,
    replace_rvs_by_values,
)
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import MergeOptimizer
from pytensor.graph.traversal import graph_inputs

from bayeskit.errors import ModelError
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.rewriting import depends_on, inline, substitute, wide_leaf, widen
from bayeskit.model.data_slots import DataSlot, unsealed
from bayeskit.model.markov_chain import chain_parameters, is_chain

__all__ = ["LogJoint"]

LARGE = 100_000  # numbers in a constant


@dataclass(frozen=True, eq=False)
class LogJoint:
    """log p(y, θ) of one model, factor by factor.

    Attributes
    ----------
    model : pymc.Model
    values : dict of str to tensor
        For each free random variable, the symbolic value θ on its own support.
    factors : dict of str to tensor
        For each random variable and Potential, the graph of its log density (its sum counts).
    deterministics : dict of str to tensor
        The model's Deterministics as functions of ``values``.
    potentials : tuple of str
        Names of the factors that are Potentials.
    chains : dict of str to (tensor, tensor)
        For each free ``DiscreteMarkovChain`` of first order, log p(z₁ = k), of shape (*batch, K), and the log of its
        transition matrix.
    facts : list of (callable, answer)
        What proofs have asked of data in slots: they hold for other data of which the same is true.
    """

    model: pm.Model
    values: dict[str, Variable]
    factors: dict[str, Variable]
    deterministics: dict[str, Variable]
    potentials: tuple[str, ...]
    chains: dict[str, tuple[Variable, Variable]] = field(default_factory=dict)
    facts: list[tuple[Callable[[], Any], Any]] = field(default_factory=list, repr=False)

    @classmethod
    def from_model(cls, model: pm.Model) -> LogJoint:
        """Read a model.

        Raises
        ------
        ModelError
            If the object is not a PyMC model, has no random variable, or PyMC cannot derive a log density.
        """
        _require_readable(model)
        fresh = {rv: rv.clone(name=rv.name) for rv in model.basic_RVs}
        # Merging equal nodes reads and hashes every constant; a design matrix of a million rows is set aside for that.
        large: dict[Variable, Variable] = {
            v: v.type() for v in graph_inputs(model.basic_RVs) if isinstance(v, Constant) and np.size(v.data) > LARGE
        }
        # Widened before PyMC derives the density too, because it folds constants: 1/float32(3) would stay wrong.
        widened = widen(substitute(list(model.basic_RVs), large))
        wide = dict(zip(widened, fresh.values(), strict=True))
        try:
            logps = conditional_logp(wide, warn_rvs=False)
        except (NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            raise ModelError(f"PyMC has no log density for this model: {str(error).splitlines()[0]}") from error
        data = {fresh[rv]: model.rvs_to_values[rv] for rv in model.observed_RVs}
        set_aside = {stand_in: constant for constant, stand_in in large.items()} | data
        small = {v: d for v, d in data.items() if not (isinstance(d, Constant) and np.size(d.data) > LARGE)}
        names = [rv.name for rv in model.basic_RVs]
        graphs = [logps[fresh[rv]] for rv in model.basic_RVs]
        others = [*model.potentials, *model.deterministics]
        replaced = replace_rvs_by_values(
            [pt.as_tensor(o) for o in others],
            rvs_to_values={rv: fresh[rv] for rv in model.basic_RVs},
        )
        values = {rv.name: fresh[rv] for rv in model.free_RVs}
        chains = {rv.name: chain_parameters(w) for rv, w in zip(model.basic_RVs, widened, strict=True) if is_chain(rv)}
        known = {n: p for n, p in chains.items() if p is not None and n in values}
        of_chains = replace_rvs_by_values([g for pair in known.values() for g in pair], rvs_to_values=wide)
        graphs = substitute([*graphs, *substitute(replaced, large), *of_chains], small)
        graphs = widen(inline(graphs))
        fgraph = FunctionGraph(outputs=graphs, clone=False)
        MergeOptimizer().rewrite(fgraph)
        graphs = substitute(list(fgraph.outputs), {v: wide_leaf(d) for v, d in set_aside.items()})
        potential_names = tuple(p.name for p in model.potentials)
        n_factors = len(names) + len(potential_names)
        of_chains = graphs[len(graphs) - 2 * len(known) :]
        return cls(
            model=model,
            values=values,
            factors=dict(zip([*names, *potential_names], graphs[:n_factors], strict=True)),
            deterministics=dict(zip([d.name for d in model.deterministics], graphs[n_factors:], strict=False)),
            potentials=potential_names,
            chains=dict(zip(known, zip(of_chains[::2], of_chains[1::2], strict=True), strict=True)),
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
    def total(self) -> Variable:
        """log p(y, θ), a scalar graph."""
        return pt.add(*[pt.sum(g) for g in self.factors.values()], pt.constant(0.0))

    @cached_property
    def _compiled(self) -> Any:
        return compile_small(list(self.values.values()), self.total)

    def logp(self, point: Mapping[str, Any]) -> float:
        """log p(y, θ) at one point, with PyMC's own density; −inf outside the support.

        Parameters
        ----------
        point : mapping of str to array
            A value for each free random variable, on its own support.
        """
        arguments = [np.asarray(point[n], dtype=v.type.dtype) for n, v in self.values.items()]
        try:
            with np.errstate(all="ignore"):
                return float(self._compiled(*arguments))
        except (ParameterValueError, np.linalg.LinAlgError):
            return -np.inf

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each free random variable."""
        if self._symbolic_shapes:
            try:
                found = compile_small([], [pt.shape(self.model[n]) for n in self.values])()
            except ValueError as error:
                raise ModelError(f"a variable's shape cannot be computed: {str(error).splitlines()[0]}") from error
            return {n: tuple(int(k) for k in s) for n, s in zip(self.values, found, strict=True)}
        return {n: tuple(v.type.shape) for n, v in self.values.items()}

    @property
    def _symbolic_shapes(self) -> bool:
        return any(None in v.type.shape for v in self.values.values())


def _require_readable(model: Any) -> None:
    if not isinstance(model, pm.Model):
        raise ModelError(f"expected a pymc.Model, got {type(model).__name__}; build one with `with pm.Model() as m:`")
    if not model.basic_RVs and not model.potentials:
        raise ModelError("the model has no random variables; add at least one prior and one observed variable")
    for rv in model.observed_RVs:
        if rv.owner is not None and type(rv.owner.op).__name__ == "MinibatchRandomVariable":
            raise ModelError(
                f"{rv.name!r} has a total_size, which multiplies its log density: what is left is no posterior of "
                "these data; leave total_size out"
            )
