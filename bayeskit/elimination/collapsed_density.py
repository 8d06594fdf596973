"""The density of what remains: log p(y, φ) as a graph, with everything that has a closed form given φ integrated out.

Equation by equation, in the order of the plan:

* a Gaussian block θ: log ∫ p(y, θ, φ) dθ by :mod:`bayeskit.gaussian.quadratic_form` and
  :mod:`bayeskit.gaussian.strategies`;
* a score family's variable s: with the coefficients of its posterior as graphs in φ, taken from the score at anchors,
  log p(y, φ) = log p(y, s₀, φ) − log p(s₀ | y, φ) for any s₀ (the candidate's formula), best at its centre given φ;
* a variable that nothing depends on: its density integrates to one.

The prior of a remaining variable that depends on remaining variables only is kept apart as its own factor, so that a
sampler that needs prior and likelihood (SMC) has both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors

from bayeskit.elimination.analysis import Analysis, Scale
from bayeskit.elimination.check_points import typical_points
from bayeskit.elimination.conjugate_posterior import solve_posterior
from bayeskit.elimination.log_joint_evaluator import Evaluator
from bayeskit.families import ConjugateFamily
from bayeskit.gaussian.block import GaussianBlock
from bayeskit.gaussian.integral_at_mean import integral_terms
from bayeskit.gaussian.quadratic_form import QuadraticForm, quadratic_form
from bayeskit.gaussian.setting import reduced
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.condensing import condensed
from bayeskit.graphs.constant_factors import constants_in_front
from bayeskit.graphs.gradient import without_log_of_zero
from bayeskit.graphs.mvnormal_gradients import cheap_gradients
from bayeskit.graphs.nodes import core_op
from bayeskit.graphs.rewriting import depends_on, inline, with_constant_data, with_known_shapes
from bayeskit.model.data_slots import sealed_in
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.shorter_model import shorter_density
from bayeskit.types import Graph, Point

__all__ = ["Collapsed", "collapsed_density"]

FAR = np.float64(1e100)  # φ^±1 at which only the larger term of a score is left
ROUNDED = 1e-6  # share of a score's sum below which a term of it has lost digits
LARGE = 1_000  # numbers in the data from which a factor without eliminated variables is reduced as well


type _Solved = tuple[tuple[Scale, dict[str, Graph]], ...]


@dataclass(frozen=True, eq=False)
class Collapsed:
    """log p(y, φ) and what is needed to draw the eliminated variables given φ."""

    analysis: Analysis
    remaining: tuple[str, ...]  # φ
    inputs: list[Graph]  # the values of φ on their own support
    priors: tuple[str, ...]  # the remaining variables whose prior density is not part of ``likelihood``
    likelihood: Graph  # log p(y, φ) without the priors named, a scalar
    blocks: tuple[tuple[GaussianBlock, QuadraticForm], ...]
    # As eliminated, each with the parameters of its conditional posterior, which may depend on those eliminated later.
    scales: _Solved
    rows_recur: bool  # whether sums are taken over distinct rows: of other data these are others

    @cached_property
    def log_density(self) -> Any:
        """log p(y, φ) with all of its priors, compiled: a function of ``inputs``."""
        total = pt.add(self.likelihood, *[pt.sum(self.analysis.joint.factors[n]) for n in self.priors])
        return compile_small(self.inputs, inline([total])[0])

    @property
    def weight(self) -> int:
        """About how many numbers one evaluation of the density computes with."""
        return self._apart_from_entries + sum(plate.weight for plate in self.analysis.plates)

    @property
    def held(self) -> int:
        """About how many of them are there at the same time: integrals over entries are taken some at a time."""
        return self._apart_from_entries + sum(plate.terms.length for plate in self.analysis.plates)

    @cached_property
    def _apart_from_entries(self) -> int:
        joint = self.analysis.joint
        above = list(ancestors(inline([self.likelihood])))
        computed = [v for v in above if v.owner]
        covariances = [v for v in computed if type(core_op(v.owner)).__name__ == "Cholesky"]
        rows = max((int(np.size(o.data)) for o in joint.model.rvs_to_values.values() if hasattr(o, "data")), default=0)
        dense = rows**2 if any(v.type.shape[-1] is None or v.type.shape[-1] > 64 for v in covariances) else 0
        # On the side of the data, they are in the blocks already.
        condensed = {f for block, form in self.blocks if form.side is not None for f in block.factors}
        condensed.update(self.priors, self.analysis.ancestral)
        data = 0 if condensed >= set(joint.factors) else joint.data_size
        if not any(isinstance(v, SharedVariable) for v in above):  # as they are, or fewer: sums over distinct rows
            data = min(data, sum(int(np.size(v.data)) for v in above if isinstance(v, Constant)))
        return 100 + dense + data + sum(form.weight for _, form in self.blocks)


def collapsed_density(analysis: Analysis) -> Collapsed:
    """Integrate out everything that has a closed form given the rest φ, of which something remains.

    A NotImplementedError where a part of the model has a closed form that cannot be written as a graph.
    """
    joint = analysis.joint
    remaining = analysis.plan.remaining
    points = typical_points(analysis, 2)
    absorbed = {f for b in analysis.blocks for f in b.factors}
    scaled = {s.name for s in analysis.scales}
    active = [f for f in joint.factors if f not in analysis.ancestral]
    # Missing entries of a vector have no density but that of the whole vector.
    missing = {rv.name for rv in joint.model.free_RVs if type(rv.owner.op).__name__ == "PartialObservedRV"}
    alone = [n for n in remaining if n not in absorbed and n not in missing]
    priors = tuple(n for n in alone if n in active and not joint.scopes[n] & scaled)
    terms: list[Any] = []
    blocks = []
    reference = points[0]
    if analysis.scales or joint.shared:  # the eliminated variables at their conditional posterior's centre
        fixed = {n: reference[n] for n in remaining}
        reference = reference | solve_posterior(analysis, Evaluator(analysis), fixed).centre
    for block in analysis.blocks:
        form = quadratic_form(block, [reference, *points[1:]])
        blocks.append((block, form))
        terms += integral_terms(block, form)
    others = [f for f in active if f not in absorbed and f not in priors]
    # A sum over finite variables, or an integral, has no statistics that the data could be reduced to; rows may recur.
    sums = {s.factor for s in analysis.summed} | {p.factor for p in analysis.plates}
    written = [pt.sum(joint.factors[f]) for f in others if f in sums]
    plain = _plain_sum(joint, [f for f in others if f not in sums])
    shorter = [shorter_density(total, joint, analysis.shapes, reference) for total in (*written, plain)]
    *more, plain = (
        cheap_gradients(total if s is None else s) for total, s in zip((*written, plain), shorter, strict=True)
    )
    terms += more
    # More rows than entries leave a residual, which informs their scale.
    informed = {block for block, form in blocks if form.side is None}
    total: Graph | None = None
    solved: _Solved = ()
    if any(np.prod(analysis.shapes[n], dtype=int) >= LARGE for n in scaled):
        # Entries that were integrated out, of which many may have the same data.
        total, solved = _without_scales(analysis, [*terms, plain], reference, informed)
        shorter.append(total := shorter_density(total, joint, analysis.shapes, reference))
    if total is None:
        plain = plain if joint.data_size < LARGE else reduced(plain, joint, reference, analysis.shapes)
        total, solved = _without_scales(analysis, [*terms, plain], reference, informed)
    inputs = [joint.values[n] for n in remaining]
    recur = any(s is not None for s in shorter)
    return Collapsed(analysis, remaining, inputs, priors, total, tuple(blocks), solved, recur)


def _plain_sum(joint: LogJoint, factors: list[str]) -> Graph:
    # First the covariances: reduced to statistics, a multivariate Normal would no longer be recognised.
    # And the data as they are, so that their lengths are known; what is sealed, of known lengths, may stay a symbol.
    total: Graph = pt.add(*[pt.sum(joint.factors[f]) for f in factors], pt.constant(0.0))
    symbols = [v for v in sealed_in([total]) if None not in v.type.shape]
    return constants_in_front(with_constant_data([total], symbols)[0])


def _without_scales(
    analysis: Analysis, terms: list[Graph], reference: Point, informed: Collection[GaussianBlock]
) -> tuple[Graph, _Solved]:
    total: Any = pt.add(*terms) if len(terms) > 1 else terms[0]
    solved = []
    for scale in analysis.scales:
        total, parameters = _integrate_scale(analysis.joint, scale, total, reference, scale.block not in informed)
        solved.append((scale, parameters))
    return total, tuple(solved)


def _integrate_scale(
    joint: LogJoint, scale: Scale, total: Any, reference: Point, far: bool
) -> tuple[Any, dict[str, Graph]]:
    family = scale.family
    if family.log_density_graph is None:
        raise NotImplementedError(f"{scale.name!r}, of the {family.label} family, given other variables")
    variable = joint.values[scale.name]
    centre: Any = np.asarray(reference[scale.name], dtype=float)
    gradient: Any = pytensor.grad(without_log_of_zero(total, depends_on([total], [variable])), variable)
    # They are copied to every anchor, and what comes of that is copied again for the next scale.
    total, gradient = condensed(with_known_shapes([total, gradient]))

    def at(point: Any, graph: Any) -> Any:
        fixed: Graph = pt.as_tensor(point)
        return graph_replace([graph], {variable: fixed}, strict=False)[0]

    coefficients = _coefficients(family, centre, lambda point: at(point, gradient), far)
    parameters: dict[str, Any] = family.parameters(coefficients)
    # Anywhere else the two would be huge, and their difference rounding, where a rate is.
    if family.power:
        given: Any = pt.specify_shape(family.centre(parameters), centre.shape)
        centre = pt.switch((given > 0) & (given < np.inf), given, centre)  # PyMC raises where a parameter is nan
    value = at(centre, total) - pt.sum(family.log_density_graph(parameters, centre))
    # An improper conditional has no integral; the normaliser's formula would go on giving numbers.
    proper = [pt.all(p > 0) for p in family.positive(parameters)]
    value = pt.switch(pt.all(pt.stack(proper)), value, -np.inf) if proper else value
    value, *solved = condensed(with_known_shapes([value, *parameters.values()]))
    return value, dict(zip(parameters, solved, strict=True))


def _coefficients(family: ConjugateFamily, centre: np.ndarray, score: Callable[[Any], Any], far: bool) -> list[Any]:
    if not family.power:
        anchors = family.anchors(centre.shape, centre)
        return family.coefficients_at(anchors, [score(anchor) for anchor in anchors])

    def weighted(t: Any) -> Any:
        """A + B t, at t = φ^±1."""
        return score(t**family.power) * t**family.power

    # B may be e²⁰⁰: A is told where B t is about one, by the first of two anchors.
    t = 2.0 * centre**family.power
    value = weighted(t)
    small = t / (2.0 + pt.switch(pt.abs(value) < np.inf, pt.abs(value), 0.0))
    at_small = weighted(small)
    slope = (value - at_small) / (t - small)
    level = at_small - slope * small
    if far:  # B may be e⁻²⁰⁰, the rate of a Gamma that no data inform: it is told where A has no part in the sum
        afar = (weighted(np.full_like(t, FAR)) - level) / FAR
        rounded = pt.abs(slope * t) < ROUNDED * (1.0 + pt.abs(level))
        slope = pt.switch(rounded & (pt.abs(afar) < np.inf), afar, slope)
    return [level, slope][:: family.power]
