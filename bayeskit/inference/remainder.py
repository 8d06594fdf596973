"""Answers for a model in which something remains: quadrature, or NUTS, on the collapsed density.

Either way the eliminated variables come back exactly from their conditional distribution, and the certificate

    log p(y, θ, φ) − log p(θ | φ, y) − log p(y, φ) = 0

is held at posterior and prior draws with PyMC's own log density on the left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import Interval, LogExpM1, LogOddsTransform, LogTransform
from pytensor.graph.traversal import ancestors

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.certificate import certify_terms
from bayeskit.elimination.collapsed_density import Collapsed, collapsed_density
from bayeskit.elimination.collapsed_model import collapsed_model
from bayeskit.elimination.conjugate_posterior import Evaluator
from bayeskit.elimination.recovery import Recovery
from bayeskit.elimination.states_of_plan import certify_states
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import lightly, silently
from bayeskit.graphs.nodes import core_op
from bayeskit.graphs.rewriting import inline
from bayeskit.marginal_likelihood.conventions import orderings_of, stated
from bayeskit.marginal_likelihood.exchangeable import exchangeable_in
from bayeskit.marginal_likelihood.sampled import evidence_of_draws
from bayeskit.model.forward_sampling import deterministics, prior_points
from bayeskit.model.unconstrained import Unconstrained, calls_of
from bayeskit.quadrature.grid_distribution import GridDensity
from bayeskit.quadrature.integrate import NotIntegrable, Quadrature, integrate
from bayeskit.quadrature.mixture_distribution import MixtureDensity
from bayeskit.results.marginals import Marginal, labelled
from bayeskit.results.records import LogEvidence, Posterior
from bayeskit.results.tree import build_tree
from bayeskit.sampling.nuts import pop_unconstrained, sample_nuts

__all__ = ["by_nuts", "by_quadrature"]

POINTS = 4  # posterior draws, and as many prior draws, at which the certificate is evaluated
TOLERANCE = {1: 1e-8, 2: 1e-8, 3: 1e-6}  # nats, by number of dimensions
WORK = 3e8  # numbers that quadrature may compute with; beyond it NUTS is quicker
CALL = 30  # numbers that handling one matrix by itself counts for
EVALUATIONS = (20_000, 2_000_000)
LEAST = 200_000  # evaluations that three dimensions take
PROBES = 40  # draws from the prior at which other modes are looked for
NEGLIGIBLE = 1e-8  # weight of the nodes left out of the marginals of eliminated variables, in all
ELEMENTWISE = (LogTransform, LogOddsTransform, Interval, LogExpM1)


def by_quadrature(model: pm.Model, analysis: Analysis, draws: int, random_seed: int) -> Posterior:
    """The posterior and log evidence by quadrature over what remains.

    Raises
    ------
    bayeskit.quadrature.NotIntegrable
        If the error bound cannot be met.
    NotImplementedError
        If the closed form of some part cannot be written as a graph.
    InferenceError
        If the certificate failed.
    """
    with lightly():
        orderings = orderings_of(analysis.joint)
        if unknown := [o.reason for o in orderings.values() if o.reason]:
            raise NotIntegrable(unknown[0])
        collapsed = collapsed_density(analysis)
        space = Unconstrained(collapsed_model(collapsed), weight(collapsed))
        work = space.weight + CALL * calls_of(collapsed.likelihood)
        budget = int(np.clip(WORK / work, *EVALUATIONS))
        if space.size == 3 and budget < LEAST:
            raise NotIntegrable("in three dimensions it would take longer than sampling")
        with silently():
            # A narrow mode far out in the tail of another is found only from within: half of the prior may lie there.
            probes = space.prior_draws(PROBES, 0)
            tolerance = TOLERANCE[min(space.size, 3)]
            result = integrate(space.log_density, space.start, probes=probes, tolerance=tolerance, budget=budget)
        rng = np.random.default_rng(random_seed)
        points = result.draw(rng, draws)
        recovery = Recovery(collapsed)
        remaining = space.backward(points)
        values = recovery.draw(remaining, rng)
        certificate = certify_collapsed(collapsed, recovery, values, random_seed)
        certificate = max(certificate, certify_states(analysis, values, random_seed))
        values |= deterministics(analysis.original, values)
        marginals = _marginals(model, collapsed, recovery, space, result)
        evidence = LogEvidence(result.log_integral, result.error + certificate, "quadrature")
        groups = [g for g in exchangeable_in(space, points, random_seed=random_seed) if g.complete]
        evidence = stated(evidence, groups, orderings.values())
    return Posterior(
        model=model,
        plan=replace(analysis.plan, method="quadrature"),
        log_evidence=evidence,
        method="quadrature",
        certificate=certificate,
        tree=build_tree(model, values, draws),
        marginals=marginals,
        random_seed=random_seed,
    )


def by_nuts(model: pm.Model, analysis: Analysis, draws: int, random_seed: int, progressbar: bool) -> Posterior:
    """Draws by NUTS on the collapsed density, exact recovery of the rest, and the log evidence by bridge sampling.

    Raises
    ------
    NotImplementedError
        If the closed form of some part cannot be written as a graph.
    InferenceError
        If the certificate failed.
    """
    with lightly():
        collapsed = collapsed_density(analysis)
        small = collapsed_model(collapsed)
    sampled = sample_nuts(small, draws=draws, random_seed=random_seed, progressbar=progressbar, unconstrained=True)
    unconstrained = pop_unconstrained(sampled)
    posterior = sampled["posterior"]
    chains, length = posterior.sizes["chain"], posterior.sizes["draw"]
    remaining = {
        n: posterior[n].transpose("chain", "draw", ...).to_numpy().reshape(chains * length, *posterior[n].shape[2:])
        for n in collapsed.remaining
    }
    with lightly():
        recovery = Recovery(collapsed)
        values = recovery.draw(remaining, np.random.default_rng(random_seed))
        certificate = certify_collapsed(collapsed, recovery, values, random_seed)
        certificate = max(certificate, certify_states(analysis, values, random_seed))
        values |= deterministics(analysis.original, values)
    statistics = sampled["sample_stats"].to_dataset()
    evidence = evidence_of_draws(analysis, small, unconstrained, statistics, random_seed, weight(collapsed))
    tree = build_tree(model, values, chains * length, chains=chains)
    tree["sample_stats"] = sampled["sample_stats"]
    tree["posterior"].attrs.update(sampled["posterior"].attrs)
    return Posterior(
        model=model,
        plan=replace(analysis.plan, method="nuts"),
        log_evidence=evidence,
        method="nuts",
        certificate=certificate,
        tree=tree,
        random_seed=random_seed,
    )


def weight(collapsed: Collapsed) -> int:
    """About how many numbers one evaluation of the collapsed density holds."""
    joint = collapsed.analysis.joint
    covariances = [
        v
        for v in ancestors(inline([collapsed.likelihood]))
        if v.owner and type(core_op(v.owner)).__name__ == "Cholesky"
    ]
    rows = max((int(np.size(o.data)) for o in joint.model.rvs_to_values.values() if hasattr(o, "data")), default=0)
    dense = rows**2 if any(v.type.shape[-1] is None or v.type.shape[-1] > 64 for v in covariances) else 0
    # On the side of the data, they are in the blocks already.
    condensed = {f for block, form in collapsed.blocks if form.side is not None for f in block.factors}
    condensed.update(collapsed.priors, collapsed.analysis.ancestral)
    data = 0 if condensed >= set(joint.factors) else joint.data_size
    return 100 + dense + data + sum(form.weight for _, form in collapsed.blocks)


def certify_collapsed(
    collapsed: Collapsed, recovery: Recovery, draws: dict[str, np.ndarray], random_seed: int
) -> float:
    """The spread of log p(y, θ, φ) − log p(θ | φ, y) − log p(y, φ), in nats.

    Raises
    ------
    InferenceError
        If it is more than rounding.
    """
    analysis = collapsed.analysis
    evaluator = Evaluator(analysis)
    total = pt.add(collapsed.likelihood, *[pt.sum(analysis.joint.factors[n]) for n in collapsed.priors])
    marginal = compile_small(collapsed.inputs, inline([total])[0])
    number = min(POINTS, len(next(iter(draws.values()))))
    points = [{n: v[k] for n, v in draws.items()} for k in range(number)]
    prior = list(prior_points(analysis.joint.model, number, random_seed))
    away = {n: np.stack([p[n] for p in prior]) for n in collapsed.remaining}
    with silently():
        far = recovery.draw(away, np.random.default_rng([random_seed, 2]), leaves=False)
    points += [{n: v[k] for n, v in far.items()} for k in range(number)]

    def terms(point: dict[str, np.ndarray]) -> tuple[float, float, float]:
        arguments = [
            np.asarray(point[n], dtype=v.type.dtype) for n, v in zip(collapsed.remaining, collapsed.inputs, strict=True)
        ]
        with silently():
            return evaluator.log_joint(point), recovery.log_density(point), float(marginal(*arguments))

    return certify_terms(map(terms, points))


def _marginals(
    model: pm.Model, collapsed: Collapsed, recovery: Recovery, space: Unconstrained, result: Quadrature
) -> dict[str, Marginal]:
    found: dict[str, tuple[Any, str]] = {}
    for rv, variable in zip(space.model.free_RVs, space.variables, strict=True):
        name, shape = str(rv.name), space.initial[str(variable.name)].shape
        functions = _transform(space.model, rv)
        if functions is None or shape != collapsed.analysis.shapes[name]:
            continue
        axes = np.empty(shape, dtype=object)
        axes.reshape(-1)[:] = result.marginals[space.slices[str(variable.name)]]
        found[name] = GridDensity(axes, *functions), "quadrature"
    points, weights = _nodes(result)
    for name, components in recovery.marginals(space.backward(points)).items():
        found[name] = MixtureDensity(weights, components), "mixture"
    return {
        n: labelled(Marginal(n, *found[n], label="quadrature"), model)
        for n in collapsed.analysis.original.names
        if n in found
    }


def _nodes(result: Quadrature) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and normalised weights of the rule, without the nodes that together weigh next to nothing."""
    run = result._runs[0]
    weights = run.lattice.weights()
    order = np.argsort(weights)
    kept = np.sort(order[np.cumsum(weights[order]) > NEGLIGIBLE * weights.sum()])
    points = run.frame.forward(run.lattice.positions(run.lattice.nodes[kept]))
    return points, weights[kept] / weights[kept].sum()


Function = Callable[[np.ndarray], np.ndarray]


def _transform(model: pm.Model, rv: Any) -> tuple[Function, Function, Function, tuple[float, float]] | None:
    """A monotone transform that acts on each entry alike: forward, backward, log |dx/dy| and the support; else None."""
    transform = model.rvs_to_transforms.get(rv)
    if transform is None:
        return (lambda y: y), (lambda x: x), np.zeros_like, (-np.inf, np.inf)
    if not isinstance(transform, ELEMENTWISE):
        return None
    others = set(model.free_RVs) - {rv}
    constants: list[Any] = []
    for parameter in rv.owner.inputs:
        if not hasattr(parameter.type, "dtype"):
            constants.append(parameter)
            continue
        if others & set(ancestors([parameter])):
            return None
        value = np.asarray(compile_small([], parameter)())
        if value.size and np.any(value != value.flat[0]):
            return None
        constants.append(pt.constant(value.flat[0] if value.size else value))
    x = pt.vector("x")
    forward = compile_small([x], transform.forward(x, *constants))
    backward = compile_small([x], transform.backward(x, *constants))
    slope = compile_small([x], -transform.log_jac_det(transform.forward(x, *constants), *constants))

    def on_any_shape(function: Any) -> Function:
        def call(values: np.ndarray) -> np.ndarray:
            values = np.asarray(values, dtype=float)
            with silently():
                return np.asarray(function(values.ravel())).reshape(values.shape)

        return call

    with silently():
        ends = np.sort(np.asarray(backward(np.array([-1e3, 1e3]))))
    support = (float(ends[0]), float(ends[1]) if ends[1] < 1e100 else np.inf)
    return on_any_shape(forward), on_any_shape(backward), on_any_shape(slope), support
