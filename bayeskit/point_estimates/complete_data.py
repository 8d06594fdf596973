r"""The two halves of expectation–maximisation, read from the graph of a model.

With the finite variables z summed out by their tables t_z(φ) = log p(y, z, φ) (:mod:`bayeskit.finite.sum_out`), the E
step is

.. math:: r_z = p(z \mid y, \phi_0) = \frac{e^{t_z(\phi_0)}}{\sum_{z'} e^{t_{z'}(\phi_0)}}

and the M step maximises :math:`Q(\phi) = \sum_z r_z t_z(\phi)`. For a chain, r are the smoothed probabilities of its
states and of its transitions. Where one sum stands inside another, the inner r depends on the outer state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from bayeskit.elimination.impossible_data import require_possible
from bayeskit.errors import ModelError
from bayeskit.finite.sum_out import Summed, TooLarge, sum_out
from bayeskit.graphs.rewriting import substitute, with_constant_data
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.support import support_of
from bayeskit.types import Graph

__all__ = ["CompleteData", "Sum", "complete_data", "marginal_probabilities", "weighted"]


@dataclass(frozen=True, eq=False)
class Sum:
    """One finite variable that stands in no other's sum, with the expectation in the place of every sum inside.

    ``weights`` are inputs of Q that stand for probabilities: of the states, in the shape of the terms; of a chain,
    those of the first state and the expected numbers of transitions besides. ``posterior`` is what they stand for, as
    graphs in φ.
    """

    summed: Summed
    weights: tuple[Graph, ...]
    posterior: tuple[Graph, ...]


@dataclass(frozen=True, eq=False)
class CompleteData:
    """A model split for expectation–maximisation."""

    joint: LogJoint  # as written, without leaves and with constants for shared data
    finite: tuple[Summed, ...]  # in the order in which they are summed out
    values: dict[str, Variable]  # φ: the variables to be found, on their own supports
    before: dict[str, Variable]  # φ₀, as inputs of Q where one sum stands inside another
    sums: tuple[Sum, ...]
    log_likelihood: Graph
    log_prior: Graph
    rest: dict[str, Variable]  # factors of Q that are in no sum
    priors: dict[str, Variable]  # log densities of φ
    absorbed: tuple[str, ...]  # variables whose own density depends on a finite one


def complete_data(model: pm.Model) -> CompleteData:
    """Read a model; ModelError without a finite variable, or where a discrete one cannot be summed out."""
    joint = LogJoint.from_model(model)
    require_possible(joint)
    supports = {str(rv.name): support_of(model, rv) for rv in model.free_RVs}
    shapes = joint.shapes()
    joint = _with_constants(_without_leaves(joint))
    finite = [n for n in joint.names if supports[n].kind == "finite"]
    values = {n: v for n, v in joint.values.items() if n not in finite}
    _require(finite, values)
    before: dict[str, Variable] = {n: v.type(name=f"{n}_before") for n, v in values.items()}
    true = expected = joint
    sums, summed = [], []
    rows = 1
    for name in reversed(finite):
        held = supports[name].values
        if held is None:
            raise ModelError(f"the values of {name!r} are not known beforehand; give it a constant size")
        shared = expected is true
        true, step = _sum_out(true, name, held, shapes[name], rows)
        expected, terms = (true, step) if shared else _sum_out(expected, name, held, shapes[name], rows)
        rows *= len(step.values) if step.kind == "joint" else 1
        summed.append(step)
        posterior = _posterior(step, true.factors[step.factor])
        if true.scopes[step.factor] & set(finite):
            old = {v: before[n] for n, v in values.items()}
            total = _expectation(terms, substitute(posterior, old))
            expected = replace(expected, factors={**expected.factors, step.factor: total})
        else:
            weights = tuple(g.type(name=f"{name}_weight") for g in posterior)
            sums.append(Sum(terms, weights, tuple(posterior)))
    likelihood = [g for f, g in true.factors.items() if f not in values]
    outer = {s.summed.factor for s in sums}
    return CompleteData(
        joint=joint,
        finite=tuple(summed),
        values=values,
        before=before,
        sums=tuple(sums),
        log_likelihood=pt.add(*[pt.sum(g) for g in likelihood], pt.constant(0.0)),
        log_prior=pt.add(*[pt.sum(g) for f, g in true.factors.items() if f in values], pt.constant(0.0)),
        rest={f: g for f, g in expected.factors.items() if f not in outer and f not in values},
        priors={f: g for f, g in expected.factors.items() if f in values},
        absorbed=tuple(n for n in values if n not in true.factors),
    )


def _require(finite: Sequence[str], values: dict[str, Variable]) -> None:
    if not finite:
        what = "the model has no finite latent variable to take expectations over"
        raise ModelError(f"{what}; maximise it with bayeskit.map_estimate")
    discrete = [n for n, v in values.items() if not v.type.dtype.startswith("float")]
    if discrete:
        raise ModelError(f"{', '.join(discrete)} is discrete, and not finite: observe or fix it")
    if not values:
        raise ModelError("the model has no continuous variable to maximise over; use bayeskit.infer")


def _sum_out(
    joint: LogJoint, name: str, values: np.ndarray, shape: tuple[int, ...], rows: int
) -> tuple[LogJoint, Summed]:
    try:
        return sum_out(joint, name, values, shape, rows)
    except TooLarge as error:
        raise ModelError(f"{name!r} cannot be summed out: {error}") from None


def _without_leaves(joint: LogJoint) -> LogJoint:
    """Without variables that nothing else depends on: missing observations, states of the future."""
    for name in reversed(joint.names):
        touched = [f for f, scope in joint.scopes.items() if name in scope]
        if touched == [name] and len(joint.scopes[name]) > 1:
            return _without_leaves(joint.without([name]))
    return joint


def _with_constants(joint: LogJoint) -> LogJoint:
    names = list(joint.factors)
    graphs = with_constant_data([*joint.factors.values(), *[g for pair in joint.chains.values() for g in pair]])
    factors, chains = graphs[: len(names)], graphs[len(names) :]
    pairs = dict(zip(joint.chains, zip(chains[::2], chains[1::2], strict=True), strict=True))
    return replace(joint, factors=dict(zip(names, factors, strict=True)), deterministics={}, chains=pairs)


def _posterior(step: Summed, total: Any) -> list[Any]:
    """p(z | rest) as graphs: of the states; for a chain, of the first state and the expected transitions besides."""
    if step.kind == "chain":
        inputs = [step.table, step.log_initial, step.log_transition]
        gradient: Any = pytensor.grad(pt.sum(total), inputs)
        return list(gradient)
    return [pt.exp(step.table - total)]


def _expectation(step: Summed, weights: Sequence[Graph]) -> Graph:
    """Σ r t over the states."""
    if step.kind != "chain":
        return pt.sum(weights[0] * step.table, axis=0)
    terms = [step.table, step.log_initial, step.log_transition]
    return pt.add(*[pt.sum(weighted(w, t)) for w, t in zip(weights, terms, strict=True)])


def weighted(weight: Graph, term: Graph) -> Graph:
    """r t, and 0 where r is zero, however impossible the term."""
    return pt.switch(weight > 0, weight * term, 0.0)


def marginal_probabilities(data: CompleteData) -> list[Graph]:
    """p(z entry = k | y) of every finite variable, as graphs in φ, in the shape of its terms.

    It is the derivative of the log likelihood in a number added to the term, however many sums stand around it.
    """
    joint = data.joint
    nudges: list[Any] = []
    for step in data.finite:
        joint, again = sum_out(joint, step.name, np.unique(step.values), step.shape)
        nudge = again.table.type(name=f"{step.name}_nudge")
        total = substitute([joint.factors[step.factor]], {again.table: again.table + nudge})[0]
        joint = replace(joint, factors={**joint.factors, step.factor: total})
        nudges.append(nudge)
    likelihood = pt.add(*[pt.sum(joint.factors[s.factor]) for s in data.finite if s.factor in joint.factors])
    gradient: Any = pytensor.grad(likelihood, nudges)
    return substitute(list(gradient), {n: pt.zeros(n.type.shape) for n in nudges})
