"""The log evidence of a model from draws by NUTS, where bridge sampling can give it; else the reason why not.

Exchangeable components are found from the density and summed over; the share of the prior that PyMC's ``ordered``
transform keeps is accounted for. Either is said in the result's ``convention``. Where the components of a mixture are
ordered, their order is taken away for the estimate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pymc as pm
import xarray as xr
from arviz_stats.base import array_stats
from pymc.distributions.transforms import (
    Interval,
    LogExpM1,
    LogOddsTransform,
    LogTransform,
    SimplexTransform,
    ZeroSumTransform,
)

from bayeskit.elimination.analysis import Analysis
from bayeskit.graphs.environment import lightly
from bayeskit.marginal_likelihood.any_order import covers, in_any_order
from bayeskit.marginal_likelihood.bridge import bridge, refused
from bayeskit.marginal_likelihood.conventions import orderings_of, stated
from bayeskit.marginal_likelihood.exchangeable import exchangeable_in
from bayeskit.marginal_likelihood.one_labelling import Matrix
from bayeskit.marginal_likelihood.ordered_prior import Ordering
from bayeskit.marginal_likelihood.other_modes import unvisited_share
from bayeskit.marginal_likelihood.permutations import (
    Exchangeable,
    convention,
    labellings,
    number_of_labellings,
    random_labelling,
)
from bayeskit.marginal_likelihood.reflections import reflections
from bayeskit.model.unconstrained import Unconstrained, weight_of
from bayeskit.results.records import LogEvidence

__all__ = ["evidence_of_draws"]

# Transforms under which priors were found to integrate to one. Not among them: those of LKJCorr and LKJCholeskyCov,
# under which PyMC's densities integrate to another number (3.9 for LKJCorr of n = 3, eta = 2); the circular one, whose
# density is periodic on the whole line; ``ordered``, whose prior is a matter of its own.
NORMALISED = (Interval, LogExpM1, LogOddsTransform, LogTransform, SimplexTransform, ZeroSumTransform)
DIVERGENT = 0.01  # share of divergent transitions beyond which the draws are not trusted
PRIOR_DRAWS = 1_000
NEGLIGIBLE, CLEARLY = 1e-6, 5.0  # nats; standard errors
CHECKED = 20  # draws at which the density must be the sampler's
LABELLINGS = 720  # that are summed over
MIXED = 1.01  # R-hat between draws and their relabelled copies, below which the chains visited all labellings alike
COPIES = 20  # labellings that it is judged by
UNVISITED = 0.05  # of the evidence that a mode away from the draws may hold by Laplace's estimate
TOLERANCE = 1e-3  # nats; single-precision constants in the sampler's graph make a little difference


def evidence_of_draws(
    analysis: Analysis,
    model: pm.Model,
    unconstrained: Mapping[str, np.ndarray],
    sample_stats: xr.Dataset,
    random_seed: int,
    weight: int | None = None,
) -> LogEvidence:
    """Estimate the log evidence from the draws of NUTS.

    Parameters
    ----------
    analysis : Analysis
        Of the model as the user wrote it.
    model : pymc.Model
        The model that was sampled: that one, or its collapsed form.
    unconstrained : mapping of str to array (chain, draw, ...)
        Draws of its value variables.
    sample_stats : xarray.Dataset
        ``diverging`` and ``logp`` of the draws, as nutpie gives them.
    random_seed : int
        Of the bridge's proposals.
    weight : int, optional
        About how many numbers the evaluation of the density at one point holds.

    Returns
    -------
    LogEvidence
        NaN with the reason where there is no evidence, or none that could be trusted.
    """
    orderings = orderings_of(analysis.joint)
    reason = _without_evidence(analysis, orderings) or _unknown_transform(model, orderings)
    if reason:
        return refused(reason)
    if model.discrete_value_vars:
        names = ", ".join(str(v.name) for v in model.discrete_value_vars)
        return refused(f"bridge sampling is for continuous variables, and {names} is discrete")
    if "diverging" in sample_stats:
        share = float(sample_stats["diverging"].mean())
        if share > DIVERGENT:
            return refused(f"{share:.1%} of the transitions diverged, so the draws may miss a part of the posterior")
    with lightly():
        space = Unconstrained(model, weight or weight_of(model))
        draws = np.concatenate([_flat(unconstrained[n]) for n in space.slices], axis=-1)
        try:
            ours = space.log_density(draws[:, :CHECKED].reshape(-1, space.size))
        except (NotImplementedError, TypeError, ValueError, RuntimeError) as error:
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            return refused(f"the density cannot be evaluated at many points at once ({first})")
        if "logp" in sample_stats:
            theirs = sample_stats["logp"].transpose("chain", "draw").to_numpy()[:, :CHECKED].ravel()
            if not np.all(np.abs(ours - theirs) <= TOLERANCE + 1e-6 * np.abs(theirs)):
                return refused("the density at the draws is not that of the sampler")
        added = 0.0
        groups: Sequence[Exchangeable] = exchangeable_in(space, draws, random_seed=random_seed)
        if orderings and (freed := in_any_order(model, orderings, unconstrained)) is not None:
            other = Unconstrained(freed[0], space.weight)
            moved = np.concatenate([_flat(freed[1][n]) for n in other.slices], axis=-1)
            found = exchangeable_in(other, moved, random_seed=random_seed)
            if covers(found, orderings):
                space, draws, groups = other, moved, found
                added = sum(o.log_orderings for o in orderings.values())
        groups = _to_sum_over(space, groups, draws, random_seed)
        if number_of_labellings(groups) > LABELLINGS:
            return refused(
                f"the integral is {convention(groups)}, too many to sum over (at most {LABELLINGS}), and the chains "
                "did not visit them alike; give the components an order"
            )
        images = [
            (image, names)
            for image, names in reflections(space, draws, random_seed=random_seed)
            if not _alike(draws, (image @ draws.reshape(-1, space.size).T).T.reshape(draws.shape))
        ]
        symmetries = _closed(labellings(space, groups), [image for image, _ in images])
        if len(symmetries) > LABELLINGS:
            return refused(
                f"the density has more than {LABELLINGS} mirror images, too many to sum over: exchanges or changes of "
                f"sign of {'; '.join(names for _, names in images)}"
            )
        evidence = bridge(
            space.log_density, draws, random_seed=random_seed, symmetries=symmetries if len(symmetries) > 1 else ()
        )
        if not math.isfinite(evidence.value):
            return evidence
        if _misses_mass(space, evidence, random_seed):
            return refused("draws from the prior find more mass than the chains did: there is another mode")
        if groups:
            share = unvisited_share(space, groups, symmetries, draws, evidence.value, random_seed)
            if share > UNVISITED + CLEARLY * evidence.error:
                return refused(
                    f"there is another mode, which holds about {share:.2g} times what the chains found, and none of "
                    "them visited it: NUTS does not move between modes this far apart"
                )
        # Of PyMC's own density, which is that of one order.
        evidence = replace(evidence, value=evidence.value - added)
        result = stated(evidence, [g for g in groups if not set(g.axes) & set(orderings)], orderings.values())
        if len(symmetries) == number_of_labellings(groups) or not math.isfinite(result.value):
            return result
        said = f"over the mirror images of {'; '.join(names for _, names in images)}"
        return replace(result, convention="; ".join([said, *([result.convention] if result.convention else [])]))


def _closed(group: Sequence[Matrix], more: Sequence[Matrix]) -> list[Matrix]:
    """The group of maps that some generate, the identity first; cut off once it is too large to sum over."""
    if not more:
        return list(group)
    found = {(np.round(one.toarray(), 6) + 0.0).tobytes(): one for one in group}
    frontier = list(found.values())
    while frontier and len(found) <= LABELLINGS:
        one = frontier.pop(0)
        for step in more:
            product = step @ one
            key = (np.round(product.toarray(), 6) + 0.0).tobytes()
            if key not in found:
                found[key] = product
                frontier.append(product)
    return list(found.values())


def _to_sum_over(
    space: Unconstrained, groups: Sequence[Exchangeable], draws: np.ndarray, random_seed: int
) -> tuple[Exchangeable, ...]:
    """The groups whose labellings count: all, but those that the chains visited alike and that no model means.

    Two schools with the same data are exchangeable, and so are many independent variables: their posterior has one
    mode, the same under every labelling, and nothing need be done or said.
    """
    rng = np.random.default_rng([random_seed, COPIES])
    kept = [g for g in groups if g.complete or not _visited_alike(space, (g,), draws, rng)]
    while number_of_labellings(kept) > LABELLINGS:
        alike = [g for g in kept if _visited_alike(space, (g,), draws, rng)]
        if not alike:
            break
        kept.remove(max(alike, key=lambda g: len(g.labels)))
    return tuple(kept)


def _visited_alike(
    space: Unconstrained, groups: Sequence[Exchangeable], draws: np.ndarray, rng: np.random.Generator
) -> bool:
    """Whether each chain is spread over all labellings as its relabelled copy is."""
    copies = draws.copy()
    which = rng.integers(COPIES, size=draws.shape[:2])
    for k in range(COPIES):
        copies[which == k] = (random_labelling(space, groups, rng) @ draws[which == k].T).T
    return _alike(draws, copies)


def _alike(draws: np.ndarray, copies: np.ndarray) -> bool:
    """Whether each chain is spread over the same places as its copy."""
    both = np.concatenate([draws, copies])
    moved = np.flatnonzero(np.any(copies != draws, axis=(0, 1)))
    return all(float(array_stats.rhat(both[..., k])) <= MIXED for k in moved)


def _misses_mass(space: Unconstrained, evidence: LogEvidence, random_seed: int) -> bool:
    """Whether the mean likelihood of draws from the prior, which is the evidence too, is clearly above an estimate.

    It finds a mode that holds a good share of the prior however narrow it is. Where data are informative it is too low
    or its error is as large as itself, and says nothing.
    """
    points = space.prior_draws(PRIOR_DRAWS, random_seed)
    if len(points) < PRIOR_DRAWS:
        return False
    log_weights = space.log_density(points) - space.log_prior(points) - evidence.value
    weights = np.exp(np.where(np.isnan(log_weights), -np.inf, log_weights).clip(max=700))
    error = math.hypot(float(weights.std(ddof=1)) / math.sqrt(len(weights)), evidence.error)
    return float(weights.mean()) - 1 > NEGLIGIBLE + CLEARLY * error


def _without_evidence(analysis: Analysis, orderings: Mapping[str, Ordering]) -> str:
    """Why the model has no evidence that bridge sampling could estimate; empty where it has."""
    joint = analysis.joint
    if joint.potentials:
        return f"the Potential {', '.join(joint.potentials)} has no normaliser"
    for name in joint.names:
        if name in orderings:
            if orderings[name].reason:
                return f"the prior of {name} is not known to be normalised ({orderings[name].reason})"
        elif not analysis.supports[name].normalised:
            return f"the prior of {name} is not known to be normalised ({analysis.supports[name].why})"
    return ""


def _unknown_transform(model: pm.Model, orderings: Mapping[str, Ordering]) -> str:
    for rv, transform in model.rvs_to_transforms.items():
        if transform is not None and rv.name not in orderings and not isinstance(transform, NORMALISED):
            name = type(transform).__name__
            return f"the density of {rv.name} under its transform {name} is not known to integrate to one"
    return ""


def _flat(values: np.ndarray) -> np.ndarray:
    return np.reshape(values, (*values.shape[:2], -1))
