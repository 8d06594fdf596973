"""NUTS on the collapsed model: what has a closed form is integrated out, the sampler moves the rest.

The eliminated variables come back exactly from their conditional distribution; the log evidence is estimated by bridge
sampling on the collapsed density, which has fewer dimensions and no funnels.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pymc as pm
import xarray as xr

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.certificate import certify_collapsed
from bayeskit.elimination.collapsed_density import collapsed_density
from bayeskit.elimination.collapsed_model import collapsed_model
from bayeskit.elimination.recovery import Recovery
from bayeskit.errors import InferenceError
from bayeskit.graphs.environment import lightly, on_one_thread
from bayeskit.inference.cost import seconds_of_gradient
from bayeskit.inference.methods import Request
from bayeskit.marginal_likelihood.sampled import evidence_of_draws
from bayeskit.marginal_likelihood.symmetries import flat
from bayeskit.marginal_likelihood.unreached_tails import unreached_tail
from bayeskit.model.forward_sampling import deterministics
from bayeskit.model.shorter_model import is_long
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.results.records import LogEvidence, Posterior
from bayeskit.results.tree import build_tree, stacked_draws
from bayeskit.sampling.chains_apart import sample_chains_apart
from bayeskit.sampling.nuts import pop_unconstrained, sample_nuts
from bayeskit.terminal import let_alarms_through

__all__ = ["answer", "obstacle", "sampled_with_evidence"]

LARGE = 20_000  # numbers that a density computes with, from which its gradients may be what sampling takes
SLOWER = 32.0  # times as many steps may a sampler need in the many dimensions of a hierarchy, and still not converge


def obstacle(analysis: Analysis) -> str:
    """Nothing is integrated out, or nothing is left to sample."""
    if not analysis.plan.remaining:
        return "nothing remains to sample: every variable has a closed form; use method='exact'"
    if analysis.plan.eliminated or _rows_recur(analysis):
        return ""
    return "nothing can be integrated out: NUTS samples the model as written"


def _rows_recur(analysis: Analysis) -> bool:
    """Whether the density of the same variables has far fewer numbers in it than the model as written."""
    discrete = any(not v.type.dtype.startswith("float") for v in analysis.joint.values.values())
    if discrete or not is_long(analysis.joint):
        return False
    try:
        with lightly():
            return collapsed_density(analysis).rows_recur
    except Exception as error:  # whatever becomes of it, the model can be sampled as it is
        let_alarms_through(error)
        return False


@on_one_thread()
def answer(request: Request) -> Posterior:
    """Draws by NUTS on the collapsed density, exact recovery of the rest, and the log evidence by bridge sampling."""
    analysis, random_seed = request.analysis, request.random_seed
    with lightly():
        collapsed = collapsed_density(analysis)
        small = collapsed_model(collapsed)
        if collapsed.weight > LARGE:
            _require_worthwhile(Unconstrained(small), Unconstrained(analysis.original.model))
    sampled, evidence = sampled_with_evidence(request, small, collapsed.weight)
    posterior = sampled["posterior"]
    with lightly():
        recovery = Recovery(collapsed)
        values = recovery.draw(stacked_draws(posterior, collapsed.remaining), np.random.default_rng(random_seed))
        certificate = certify_collapsed(recovery, values, random_seed)
        values |= deterministics(analysis.original, values)
    chains, length = posterior.sizes["chain"], posterior.sizes["draw"]
    tree = build_tree(request.model, values, chains * length, chains=chains)
    tree["sample_stats"] = sampled["sample_stats"]
    tree["posterior"].attrs.update(posterior.attrs)
    return request.posterior(evidence, tree, certificate)


def _require_worthwhile(collapsed: Unconstrained, written: Unconstrained) -> None:
    """Refuse a density of which a gradient takes far longer than one of the model as written, as counted."""
    if written.model.discrete_value_vars:
        return
    seconds, as_written = (seconds_of_gradient(space) for space in (collapsed, written))
    if seconds > SLOWER * as_written:
        many = f"{seconds / as_written:.0f} times one of the model as written"
        raise InferenceError(f"a gradient of the collapsed density takes {1e3 * seconds:.1f} ms, {many}")


@on_one_thread()
def sampled_with_evidence(
    request: Request, model: pm.Model, weight: int | None = None
) -> tuple[xr.DataTree, LogEvidence]:
    """Draws of a model by NUTS, as it was written or collapsed, and the log evidence from them."""
    arguments = model, request.draws, request.random_seed
    if request.chains:
        how = "as written" if weight is None else "collapsed"
        mark = f"{how}: {', '.join(str(rv.name) for rv in model.free_RVs)}:"
        tree = sample_chains_apart(*arguments, request.sampler, request.chains, mark)
    else:
        tree = sample_nuts(*arguments, request.progressbar, unconstrained=True, sampler=request.sampler)
    unconstrained, statistics = pop_unconstrained(tree), tree["sample_stats"].to_dataset()
    drawn = request.analysis, model, unconstrained, statistics, request.random_seed, weight, request.modes
    evidence = evidence_of_draws(*drawn, audited=request.audit)
    whole = model.discrete_value_vars
    if request.heavy_tails and unconstrained and not whole and not evidence.unvisited:
        evidence = replace(evidence, unvisited=_unreached(Unconstrained(model, weight), unconstrained, request))
    return tree, evidence


def _unreached(space: Unconstrained, unconstrained: Mapping[str, np.ndarray], request: Request) -> str:
    """A tail that the chains hardly reached; none where the density cannot be followed at many points."""
    with lightly(), suppress(NotImplementedError, TypeError, ValueError, RuntimeError, AssertionError):
        return unreached_tail(space, flat(space, unconstrained), request.random_seed)
    return ""
