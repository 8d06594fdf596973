"""``explain`` and ``infer``: look at the model, choose the first method that applies, answer with its label.

The ladder, first that applies:

1. ``exact``: every variable integrates out in closed form; log evidence exact, draws independent.
2. ``quadrature``: what remains is integrated numerically (one to three real numbers); log evidence with an error
   bound, draws independent.
3. ``nuts``: NUTS on the collapsed model, the eliminated variables recovered exactly; log evidence estimated by bridge
   sampling, with its standard error, or NaN with the reason where that cannot be trusted.
4. ``nuts`` on the model as written, where nothing can be integrated out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
from scipy import special

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.ancestral import draw_ancestral
from bayeskit.elimination.certificate import certify
from bayeskit.elimination.conjugate_posterior import Component, Evaluator, solve
from bayeskit.elimination.hypotheses import table
from bayeskit.elimination.plan import analyse
from bayeskit.elimination.positive_definite import require_positive_definite
from bayeskit.elimination.states_of_plan import certify_states, state_recovery
from bayeskit.errors import InferenceError, ModelError, OptionError
from bayeskit.finite.discrete_distribution import FiniteDensity
from bayeskit.graphs.environment import lightly, on_one_thread
from bayeskit.inference.remainder import by_nuts, by_quadrature
from bayeskit.marginal_likelihood.sampled import evidence_of_draws
from bayeskit.model.forward_sampling import deterministics, prior_points
from bayeskit.model.snapshot import Snapshot
from bayeskit.quadrature.integrate import NotIntegrable
from bayeskit.results.marginals import Marginal, labelled
from bayeskit.results.records import LogEvidence, Plan, Posterior
from bayeskit.results.tree import build_tree
from bayeskit.sampling.nuts import pop_unconstrained, sample_nuts
from bayeskit.terminal import is_terminal

__all__ = ["METHODS", "explain", "infer"]

METHODS = ("auto", "exact", "quadrature", "nuts")
HANDED_OVER = (NotIntegrable, NotImplementedError, InferenceError, ModelError)
POINTS = 4  # posterior draws, and as many prior draws, at which the certificate is evaluated
MANY_THREADS = 1_000_000  # numbers in the data from which an exact answer is computed on several threads
LARGE = 10_000_000  # numbers in the data above which one of each is enough


def explain(model: pm.Model) -> Plan:
    """What would be integrated out, in which order, by which family; what is left and why. Computes no posterior.

    Parameters
    ----------
    model : pymc.Model

    Returns
    -------
    Plan
        ``str(plan)`` is the page a person reads.

    Raises
    ------
    ModelError
        If the object is not a PyMC model or PyMC has no log density for it.
    """
    with lightly():
        return analyse(model).plan


def infer(
    model: pm.Model,
    *,
    method: str = "auto",
    draws: int = 4000,
    random_seed: int | None = None,
    progressbar: bool = True,
) -> Posterior:
    """The posterior and the log evidence of a model, exactly where a closed form exists.

    Parameters
    ----------
    model : pymc.Model
    method : {"auto", "exact", "quadrature", "nuts"}, default "auto"
        ``auto`` takes the first of the ladder that applies; the others force one.
    draws : int, default 4000
        Number of posterior draws in all, laid out as four chains where it divides by four.
    random_seed : int, optional
        The same seed gives the same draws.
    progressbar : bool, default True
        Shown on a terminal only, and only by methods that sample.

    Returns
    -------
    Posterior

    Raises
    ------
    ModelError
        If the model cannot be read, ``method="exact"`` and some variable has no closed form, or a matrix used as a
        covariance is not positive definite (its name and the jitter that would mend it are said).
    OptionError
        If an argument is out of range.
    InferenceError
        If the closed form failed its own certificate.
    """
    if method not in METHODS:
        raise OptionError(f"method is {method!r}; it must be one of {', '.join(METHODS)}")
    if not isinstance(draws, int | np.integer) or isinstance(draws, bool) or draws < 1:
        raise OptionError(f"draws is {draws!r}; it must be a whole number of at least 1")
    started = time.perf_counter()
    if random_seed is None:
        random_seed = int(np.random.SeedSequence().generate_state(1)[0])
    with ExitStack() as building:
        building.enter_context(lightly())
        analysis = analyse(model)
        require_positive_definite(analysis)
        exact = analysis.plan.method == "exact"
        if method == "exact" and not exact:
            reasons = "; ".join(str(r) for r in analysis.plan.refusals)
            raise ModelError(f"no exact answer: {reasons}")
        if not exact or method == "nuts":
            building.close()  # what follows is long, and its garbage is to be collected
        building.enter_context(nullcontext() if exact and analysis.joint.data_size >= MANY_THREADS else on_one_thread())
        post = _first_that_applies(model, analysis, method, int(draws), random_seed, progressbar and is_terminal())
    seconds = time.perf_counter() - started
    return replace(post, seconds=seconds, analysis=analysis, snapshot=Snapshot.of(model))


def _first_that_applies(
    model: pm.Model, analysis: Analysis, method: str, draws: int, random_seed: int, progressbar: bool
) -> Posterior:
    """Go down the ladder; whatever is passed over is noted in the plan."""
    if analysis.plan.method == "exact":
        if method == "quadrature":
            raise ModelError("quadrature has nothing to do: every variable has a closed form; use method='exact'")
        if method != "nuts":
            return _exact(model, analysis, draws, random_seed)
        return _as_written(model, analysis, draws, random_seed, progressbar)
    if method == "quadrature" and analysis.plan.method != "quadrature":
        raise ModelError(
            f"no quadrature over {', '.join(analysis.plan.remaining)}: it is for one to three real numbers; use "
            "method='nuts'"
        )
    if method != "nuts" and analysis.plan.method == "quadrature":
        try:
            return by_quadrature(model, analysis, draws, random_seed)
        except HANDED_OVER as error:
            if method == "quadrature":
                raise InferenceError(f"no answer by quadrature: {error}; use method='nuts'") from error
            analysis = _noted(analysis, f"quadrature handed over to NUTS: {error}")
    if analysis.plan.eliminated:
        try:
            return by_nuts(model, analysis, draws, random_seed, progressbar)
        except (NotImplementedError, InferenceError) as error:
            analysis = _noted(analysis, f"NUTS samples the model as written: {error}")
            plan = replace(analysis.plan, eliminated=(), remaining=tuple(analysis.original.names))
            analysis = replace(analysis, plan=plan)
    return _as_written(model, analysis, draws, random_seed, progressbar)


def _noted(analysis: Analysis, note: str) -> Analysis:
    plan = replace(analysis.plan, method="nuts", notes=(*analysis.plan.notes, note))
    return replace(analysis, plan=plan)


def _as_written(model: pm.Model, analysis: Analysis, draws: int, random_seed: int, progressbar: bool) -> Posterior:
    tree = sample_nuts(model, draws=draws, random_seed=random_seed, progressbar=progressbar, unconstrained=True)
    unconstrained = pop_unconstrained(tree)
    return Posterior(
        model=model,
        plan=replace(analysis.plan, method="nuts"),
        log_evidence=evidence_of_draws(analysis, model, unconstrained, tree["sample_stats"].to_dataset(), random_seed),
        method="nuts",
        certificate=math.nan,
        tree=tree,
        random_seed=random_seed,
    )


def _exact(model: pm.Model, analysis: Analysis, draws: int, random_seed: int) -> Posterior:
    evaluator = Evaluator(analysis)
    rng = np.random.default_rng(random_seed)
    components = [solve(analysis, evaluator, fixed) for fixed in table(analysis)]
    log_weights = np.array([float(c.log_evidence) for c in components])
    log_evidence = float(special.logsumexp(log_weights))
    weights = np.exp(log_weights - log_evidence)
    values = _draw(components, weights, rng, draws)
    certificate = max(
        certify(evaluator, c, _check_points(analysis, c, random_seed))
        for c in components
        if np.isfinite(c.log_evidence)
    )
    for name, recovery in state_recovery(analysis).items():
        values[name] = recovery.draw(values, draws, rng)
    values |= draw_ancestral(analysis, values, rng, draws)
    values = {n: values[n] for n in analysis.original.names}
    certificate = max(certificate, certify_states(analysis, values, random_seed))
    values |= deterministics(analysis.original, values)
    return Posterior(
        model=model,
        plan=analysis.plan,
        log_evidence=LogEvidence(log_evidence, certificate, "exact"),
        method="exact",
        certificate=certificate,
        tree=build_tree(model, values, draws),
        marginals=_marginals(model, analysis, components, weights),
        random_seed=random_seed,
    )


def _draw(components: list[Component], weights: np.ndarray, rng: np.random.Generator, draws: int) -> dict[str, Any]:
    if len(components) == 1:
        return components[0].draw(rng, draws)
    chosen = rng.choice(len(components), size=draws, p=weights / weights.sum())
    result: dict[str, np.ndarray] = {}
    for k in np.unique(chosen):
        rows = np.flatnonzero(chosen == k)
        for name, value in components[k].draw(rng, len(rows)).items():
            if name not in result:
                result[name] = np.empty((draws, *value.shape[1:]), dtype=value.dtype)
            result[name][rows] = value
    return result


def _check_points(analysis: Analysis, component: Component, random_seed: int) -> Iterator[dict[str, np.ndarray]]:
    number = 1 if analysis.joint.data_size > LARGE else POINTS
    drawn = component.draw(np.random.default_rng([random_seed, 1]), number)
    for k in range(number):
        yield {n: v[k] for n, v in drawn.items()}
    for point in prior_points(analysis.joint.model, number, random_seed):
        yield {**point, **component.fixed}


def _marginals(
    model: pm.Model, analysis: Analysis, components: list[Component], weights: np.ndarray
) -> dict[str, Marginal]:
    from bayeskit.inference.closed_form_marginals import finite_marginals, part_marginals

    found: dict[str, Any] = {}
    if len(components) == 1:
        for part in components[0].parts:
            found |= part_marginals(part)
    found |= finite_marginals(analysis, components, weights)
    for name, recovery in state_recovery(analysis).items():
        # With another finite variable among what it depends on, its marginal is a mixture.
        if len(analysis.summed) == 1 and not analysis.joint.names and recovery.summed.kind != "joint":
            ((_, probabilities),) = recovery.probabilities({}, 1)
            found[name] = FiniteDensity(recovery.summed.values, probabilities[0]), "categorical", None, True
    result = {}
    for name, (dist, family, joint, elementwise) in found.items():
        result[name] = labelled(Marginal(name, dist, family, joint=joint, elementwise=elementwise), model)
    return {n: result[n] for n in analysis.original.names if n in result}
