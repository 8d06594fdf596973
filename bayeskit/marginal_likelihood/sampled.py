"""The log evidence of a model from draws by NUTS, where an estimator can give it; else the reason why not.

Four stages, each of which may refuse: audit (has the model an evidence), symmetries (what the draws of one mode stand
for), estimate (:mod:`bayeskit.marginal_likelihood.estimators`), doubts (is there a mode that no chain visited, away
from the draws or so narrow that none stepped into it).
Exchangeable components are summed over; the share of the prior that PyMC's ``ordered`` transform keeps is accounted
for. Either is said in the result's ``convention``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pymc as pm
import xarray as xr

from bayeskit.elimination.analysis import Analysis
from bayeskit.graphs.compile import has_loops
from bayeskit.graphs.environment import lightly
from bayeskit.marginal_likelihood.conventions import Audit, audit, audit_of_draws, stated
from bayeskit.marginal_likelihood.endless_tails import endless_tail
from bayeskit.marginal_likelihood.estimators import Target, first_estimate, refused
from bayeskit.marginal_likelihood.known_modes import unvisited_mode
from bayeskit.marginal_likelihood.narrow_modes import narrow_mass
from bayeskit.marginal_likelihood.other_modes import Away, unvisited_mass
from bayeskit.marginal_likelihood.permutations import labellings
from bayeskit.marginal_likelihood.proposal import Refused, Unvisited, finds_more
from bayeskit.marginal_likelihood.symmetries import Symmetric, flat, symmetries_of
from bayeskit.model.left_out import bound_of_left_out
from bayeskit.model.named_numbers import named_numbers
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.results.records import LogEvidence
from bayeskit.sampling.native import compile_for_nutpie, objective_of

__all__ = ["Drawn", "drawn_from", "evidence_of_draws"]

PRIOR_DRAWS = 1_000
LOOKED_AT = "that the posterior is proper was looked at along each coordinate, and not proved"
CHECKED = 20  # draws at which the density must be the sampler's
UNVISITED, CLEARLY = 0.05, 5.0  # of the evidence that a mode away may hold by Laplace's estimate; standard errors
REAL = 2.0  # standard errors from which on what a smaller mode holds is added
SMALL = 20  # numbers, up to which other modes are looked for where no components are exchangeable
TOLERANCE = 1e-3  # nats; single-precision constants in the sampler's graph make a little difference


def evidence_of_draws(
    analysis: Analysis,
    model: pm.Model,
    unconstrained: Mapping[str, np.ndarray],
    sample_stats: xr.Dataset,
    random_seed: int,
    weight: int | None = None,
    modes: Sequence[Mapping[str, np.ndarray]] = (),
    audited: Audit | None = None,
) -> LogEvidence:
    """The log evidence from the draws of NUTS, or NaN with the reason where none could be trusted.

    ``model`` was sampled: that of the analysis, as the user wrote it, or its collapsed form. ``unconstrained`` has the
    draws of its value variables, axes (chain, draw, ...), ``sample_stats`` their ``diverging`` and ``logp``; ``weight``
    is about how many numbers the evaluation of the density at one point holds. ``modes`` are known beforehand, sets of
    them by value variable (rows): draws that did not visit each of a set are in doubt, whatever the evidence.
    """
    audited = audit(analysis) if audited is None else audited
    if reason := audit_of_draws(model, audited, sample_stats):
        space = Unconstrained(model, weight)
        missing = _missing_mode(analysis, space, unconstrained, sample_stats, random_seed)
        return replace(refused(reason), unvisited=missing or _unvisited(modes, unconstrained))
    with lightly():
        try:
            drawn = drawn_from(analysis, model, unconstrained, sample_stats, random_seed, weight, audited)
        except Refused as error:
            result = refused(error)
            return replace(result, unvisited=result.unvisited or _unvisited(modes, unconstrained))
        try:
            if unvisited := _unvisited(modes, unconstrained, drawn.symmetry):
                raise Unvisited(unvisited)
            return drawn.evidence(first_estimate)
        except Refused as error:
            return refused(error)


def _unvisited(
    modes: Sequence[Mapping[str, np.ndarray]],
    unconstrained: Mapping[str, np.ndarray],
    symmetry: Symmetric | None = None,
) -> str:
    """What the first of some sets of modes that the chains did not visit makes doubtful; empty if there is none."""
    return next((said for each in modes if (said := unvisited_mode(each, unconstrained, symmetry))), "")


@dataclass(frozen=True, eq=False)
class Drawn:
    """Draws from a density whose integral is asked for, and what is known of both."""

    analysis: Analysis
    audited: Audit
    symmetry: Symmetric
    random_seed: int

    def target(self, points: int | None = None) -> Target:
        """For an estimator."""
        symmetry = self.symmetry
        maps = symmetry.maps if len(symmetry.maps) > 1 else ()
        mass = self.audited.log_mass_of_priors(symmetry.space.model)
        target = Target(symmetry.space, self.random_seed, symmetry.draws, maps, self.analysis, mass)
        return target if points is None else replace(target, points=points)

    def evidence(
        self, estimate: Callable[[Target], LogEvidence], points: int | None = None, *, doubted: bool = True
    ) -> LogEvidence:
        """By some estimator, with what it is taken over; Refused where the draws, if it rests on them, are in doubt."""
        symmetry, audited = self.symmetry, self.audited
        evidence = estimate(self.target(points))
        if not math.isfinite(evidence.value):
            return evidence
        if doubted:
            evidence = _without_doubt(self.analysis, symmetry, evidence, self.random_seed, audited)
        # Of PyMC's own density, which is that of one order.
        left_out = bound_of_left_out(symmetry.space, symmetry.draws.reshape(-1, symmetry.space.size))
        evidence = replace(evidence, value=evidence.value - symmetry.added, error=evidence.error + left_out)
        result = stated(evidence, [g for g in symmetry.groups if not set(g.axes) & set(audited.one_ordering)], audited)
        if audited.shared:
            result = replace(result, convention=f"{result.convention}; {LOOKED_AT}")
        if symmetry.only_labels:
            return result
        said = f"over the mirror images of {'; '.join(dict.fromkeys(symmetry.mirrored))}"
        unvisited = ""
        if symmetry.apart:
            names = "; ".join(dict.fromkeys(symmetry.apart))
            unvisited = f"the posterior has mirror images that the chains did not visit alike: fix a sign among {names}"
        convention = "; ".join([said, *([result.convention] if result.convention else [])])
        return replace(result, convention=convention, unvisited=unvisited)


def drawn_from(
    analysis: Analysis,
    model: pm.Model,
    unconstrained: Mapping[str, np.ndarray],
    sample_stats: xr.Dataset,
    random_seed: int,
    weight: int | None,
    audited: Audit,
) -> Drawn:
    """As :func:`evidence_of_draws`, before anything is estimated; Refused where the density is not the draws'."""
    space = Unconstrained(model, weight)
    if has_loops([space.graph]):  # no points together: by what was compiled for the sampler
        space = Unconstrained(model, weight, objective_of(compile_for_nutpie(model, set())))
    draws = flat(space, unconstrained)
    _require_the_same_density(space, draws, sample_stats)
    if audited.shared and (reason := endless_tail(space, draws)):
        raise Refused(reason)
    symmetry = symmetries_of(space, draws, audited.one_ordering, unconstrained, random_seed)
    return Drawn(analysis, audited, symmetry, random_seed)


def _missing_mode(
    analysis: Analysis,
    space: Unconstrained,
    unconstrained: Mapping[str, np.ndarray],
    sample_stats: xr.Dataset,
    random_seed: int,
) -> str:
    """What the integral of a density finds missing in its draws: for that, its prior need not be normalised."""
    if space.model.discrete_value_vars or not unconstrained:
        return ""
    with lightly():
        draws = flat(space, unconstrained)
        try:
            _require_the_same_density(space, draws, sample_stats)
        except Refused:
            return ""
        evidence = first_estimate(Target(space, random_seed, draws))
        alone = Symmetric(space, draws, (), labellings(space, (), []), (), (), 0.0)
        try:
            if math.isfinite(evidence.value):
                _with_narrow_modes(analysis, alone, evidence, random_seed)
            if math.isfinite(evidence.value) and space.size <= SMALL:
                _mass_away(alone, evidence, random_seed)
        except Unvisited as error:
            return str(error)
        return evidence.unvisited


def _require_the_same_density(space: Unconstrained, draws: np.ndarray, sample_stats: xr.Dataset) -> None:
    """Refuse a density that cannot be evaluated for many points, or that is not the one that was sampled."""
    try:
        ours = space.log_density(draws[:, :CHECKED].reshape(-1, space.size))
    except (NotImplementedError, TypeError, ValueError, RuntimeError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise Refused(f"the density cannot be evaluated at many points at once ({first})") from error
    if "logp" in sample_stats:
        theirs = sample_stats["logp"].transpose("chain", "draw").to_numpy()[:, :CHECKED].ravel()
        if not np.all(np.abs(ours - theirs) <= TOLERANCE + 1e-6 * np.abs(theirs)):
            raise Refused("the density at the draws is not that of the sampler")


def _without_doubt(
    analysis: Analysis, symmetry: Symmetric, evidence: LogEvidence, random_seed: int, audited: Audit
) -> LogEvidence:
    """With what a small mode holds that no chain visited; refused where such a mode is large."""
    space = symmetry.space
    points = space.prior_draws(PRIOR_DRAWS, random_seed)
    # The mean likelihood of draws from the prior is the evidence too. It finds a mode that holds a good share of the
    # prior however narrow it is.
    if len(points) == PRIOR_DRAWS:
        log_mass = audited.log_mass_of_priors(space.model)
        log_weights = space.log_density(points) - space.log_prior(points) - (evidence.value - log_mass)
        if finds_more(log_weights, evidence.error):
            raise Unvisited("draws from the prior find more mass than the chains did: there is another mode")
    evidence = _with_narrow_modes(analysis, symmetry, evidence, random_seed)
    if not symmetry.groups and space.size > SMALL:
        return evidence
    away = _mass_away(symmetry, evidence, random_seed)
    if not away.mass > REAL * away.error:
        return evidence
    # All of it is in doubt: a region that is missed once may have others beside it.
    return replace(
        evidence,
        value=evidence.value + math.log1p(away.mass),
        error=math.hypot(evidence.error, away.mass, away.error),
    )


def _with_narrow_modes(analysis: Analysis, symmetry: Symmetric, evidence: LogEvidence, random_seed: int) -> LogEvidence:
    """With what narrow modes among the draws hold that no chain stepped into; refused where that is much."""
    enough = UNVISITED + CLEARLY * evidence.error
    numbers = named_numbers(analysis.joint.factors.values())
    try:
        narrow = narrow_mass(symmetry, numbers, evidence.value, enough, random_seed)
    except (NotImplementedError, TypeError, ValueError, AssertionError, np.linalg.LinAlgError):
        return evidence  # the density has no gradient, or no curvature
    if narrow.mass - CLEARLY * narrow.error > enough:
        # Along the axes a mode may be as wide as the draws, and narrow across them, or in entries of a simplex.
        where = narrow.where or "in several numbers together"
        raise Unvisited(
            f"the posterior has a narrow mode ({where}), which holds about {narrow.mass:.2g} times what the "
            "chains found, and hardly any draw is in it: NUTS does not step into modes this narrow"
        )
    if not narrow.mass > REAL * narrow.error:
        return evidence
    error = math.hypot(evidence.error, narrow.mass, narrow.error)
    return replace(evidence, value=evidence.value + math.log1p(narrow.mass), error=error)


def _mass_away(symmetry: Symmetric, evidence: LogEvidence, random_seed: int) -> Away:
    """What no chain visited; refused where a mode there is large."""
    try:
        away = unvisited_mass(symmetry, evidence.value, random_seed)
    except (NotImplementedError, ValueError, AssertionError, np.linalg.LinAlgError):
        return Away()  # the density has no gradient, or no curvature, where it was climbed
    share = max(away.largest, away.mass - CLEARLY * away.error)
    if share > UNVISITED + CLEARLY * evidence.error:
        raise Unvisited(
            f"there is another mode, which holds about {share:.2g} times what the chains found, and none of "
            "them visited it: NUTS does not move between modes this far apart"
        )
    return away
