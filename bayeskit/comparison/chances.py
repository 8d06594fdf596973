"""How probable inequalities are, under a posterior or its prior: closed form, marginal, or draws with their error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
from arviz_stats.base import array_stats
from pytensor.tensor.random.op import RandomVariable

from bayeskit.comparison.chance_of_a_root import chance_of_root
from bayeskit.comparison.closed_form import Mixture, mixture_of
from bayeskit.comparison.closed_form_chances import Inequality, chance_of, intervals_of
from bayeskit.comparison.hypothesis_text import Expression, Relation
from bayeskit.comparison.prior_draws import AT_ONCE, prior_draws
from bayeskit.comparison.rectangle import ROUNDING, Chance, interval
from bayeskit.comparison.scalars import Scalars
from bayeskit.elimination.collapsed_density import collapsed_density
from bayeskit.elimination.plan import analyse
from bayeskit.elimination.recovery import Recovery
from bayeskit.errors import BayeskitError, ModelError
from bayeskit.graphs.environment import lightly
from bayeskit.inference.ladder import answer
from bayeskit.marginal_likelihood.prior_mass import prior_mass
from bayeskit.marginal_likelihood.relabelling import over_all_labellings
from bayeskit.model.conditioning import without_data
from bayeskit.model.support import is_improper
from bayeskit.queries.conjugate_predictive import NoClosedForm
from bayeskit.results.records import Posterior
from bayeskit.results.tree import stacked_draws

__all__ = ["PosteriorMeasure", "PriorMeasure", "Region", "standard_error"]

MARGINAL = 2e-8  # weight of the nodes that a marginal by quadrature leaves out, and its rounding
MORE = 100_000  # independent draws from a posterior
PRIOR_DRAWS = 200_000


@dataclass(frozen=True)
class Region:
    """The relations of one hypothesis, and where the numbers that they name lie."""

    text: str
    relations: tuple[Relation, ...]
    places: Mapping[str, tuple[str, int]]  # of each name: the variable, and which of its numbers

    def inequalities(self, scalars: Scalars) -> list[Inequality] | None:
        """In entries of free variables; None where a Deterministic is no sum of these."""
        found = []
        for relation in self.relations:
            total = None
            for name, coefficient in relation.excess.terms.items():
                form = scalars.form(*self.places[name])
                if form is None:
                    return None
                total = form.times(coefficient) if total is None else total + form.times(coefficient)
            if total is None or not total.terms:
                return None
            found.append(Inequality(total.shifted(relation.excess.constant), relation.strict))
        return found

    def holds(self, value: Any) -> np.ndarray:
        """Where it does, of draws of each name."""
        parts = [r.holds(_sum(r.excess, {n: value(*self.places[n]) for n in r.excess.terms})) for r in self.relations]
        return np.logical_and.reduce(parts)


def _sum(expression: Expression, values: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.asarray(sum(c * values[n] for n, c in expression.terms.items()) + expression.constant)


class PosteriorMeasure:
    """The posterior."""

    def __init__(self, scalars: Scalars, random_seed: int) -> None:
        self.scalars, self.post, self.seed = scalars, scalars.post, random_seed

    @property
    def chains(self) -> bool:
        """Whether a draw depends on the one before."""
        return self.post.diagnostics is not None

    @cached_property
    def _mixture(self) -> Mixture | None:
        return mixture_of(self.post.analysis) if self.post.method == "exact" else None

    def closed(self, region: Region) -> Chance | None:
        """In closed form or by quadrature; None where there is none."""
        inequalities = region.inequalities(self.scalars)
        if inequalities is None:
            return None
        try:
            if self._mixture is not None:
                return chance_of(self._mixture, inequalities, self.seed)
        except NoClosedForm:
            return None
        return _of_marginal(self.post, inequalities)

    def draws(self, region: Region) -> np.ndarray:
        """Whether each draw, of shape (chain, draw), is in it, or how probable that is given what was sampled."""
        if not self.chains:
            return region.holds(lambda variable, place: self.scalars.values(variable, place, self._more)).astype(float)
        known = self._averaged(region)
        return region.holds(self.scalars.values).astype(float) if known is None else known

    @cached_property
    def _more(self) -> dict[str, np.ndarray]:
        """More independent draws than the posterior has, where they cost little."""
        draws = self.scalars.draws
        numbers = sum(math.prod(v.shape[2:]) for v in draws.data_vars.values())
        number = min(AT_ONCE // max(numbers, 1), MORE)
        if number > draws.sizes["chain"] * draws.sizes["draw"]:
            more = over_all_labellings(answer(self.post.analysis, self.post.method, number, self.seed))
            draws = more.tree["posterior"].to_dataset()
        return stacked_draws(draws, map(str, draws.data_vars))

    def _averaged(self, region: Region) -> np.ndarray | None:
        """P(region | φ, y) at draws of φ, of an interval of one entry that was integrated out (Rao and Blackwell)."""
        inequalities = region.inequalities(self.scalars)
        intervals = [] if inequalities is None else intervals_of(inequalities)
        if len(intervals) != 1 or len(intervals[0].form.terms) != 1:
            return None
        (((name, place), coefficient),) = intervals[0].form.terms.items()
        remaining = self.post.plan.remaining
        if name in remaining or not self.post.plan.eliminated:
            return None
        draws = self.scalars.draws
        try:
            with lightly():
                recovery = Recovery(collapsed_density(self.post.analysis))
                known = recovery.marginals(stacked_draws(draws, remaining)).get(name)
        except NotImplementedError:
            return None
        if known is None or np.ndim(known.mean()) != len(self.post.analysis.shapes[name]) + 1:
            return None
        ends = [end / coefficient for end in (intervals[0].low, intervals[0].high)]
        below, beyond = (known.cdf(end).reshape(draws.sizes["chain"], draws.sizes["draw"], -1) for end in sorted(ends))
        return np.asarray(beyond - below)[..., place]


def _of_marginal(post: Posterior, inequalities: Sequence[Inequality]) -> Chance | None:
    """Of one entry of a variable by the distribution function that quadrature found, to the error of its integral."""
    intervals = intervals_of(inequalities)
    if post.method != "quadrature" or len(intervals) != 1 or len(intervals[0].form.terms) != 1:
        return None
    (((name, place), coefficient),) = intervals[0].form.terms.items()
    marginal = post.marginals.get(name)
    if marginal is None or not marginal.elementwise or not post.model[name].dtype.startswith("float"):
        return None

    def tails(x: float) -> tuple[float, float]:
        if math.isinf(x):
            return (0.0, 1.0) if x < 0 else (1.0, 0.0)
        below, above = (float(np.ravel(f(x / coefficient))[place]) for f in (marginal.dist.cdf, marginal.dist.sf))
        return (below, above) if coefficient > 0 else (above, below)

    found = interval(tails(intervals[0].low), tails(intervals[0].high))
    error = post.log_evidence.error if math.isfinite(post.log_evidence.error) else 0.0
    return Chance(found.inside, found.outside, error + MARGINAL, error + MARGINAL, "quadrature")


class PriorMeasure:
    """The prior of what regions name."""

    chains = False

    def __init__(self, scalars: Scalars, regions: Sequence[Region], random_seed: int) -> None:
        self.scalars, self.seed = scalars, random_seed
        self.names = {variable for region in regions for variable, _ in region.places.values()}
        self.model = without_data(scalars.post.model, self.names)
        joint = scalars.joint
        for rv in self.model.free_RVs:
            if is_improper(rv):
                above = rv.name not in self.names
                of = f"{', '.join(sorted(self.names))}, which depends on it," if above else "it"
                why = f"the prior of {rv.name!r} is improper: no region of {of} has a prior probability"
                free = ", or test a number whose prior is free of it, as delta of an effect sigma times delta" * above
                raise ModelError(f"{why}; give it a proper one{free}")
            if (mass := prior_mass(joint, str(rv.name))) is not None:
                why = mass.reason or mass.convention
                raise ModelError(f"the prior of {rv.name!r} is not that of its distribution ({why}): no probability")

    @cached_property
    def _mixture(self) -> Mixture | None:
        try:
            return mixture_of(analyse(self.model))
        except (NoClosedForm, BayeskitError):
            return None

    def closed(self, region: Region) -> Chance | None:
        """In closed form or by quadrature; None where there is none."""
        inequalities = region.inequalities(self.scalars)
        if inequalities is None:
            return None
        if (orders := _equal_orders(self.model, inequalities)) is not None:
            return Chance(1 / orders, 1 - 1 / orders, 0.0, ROUNDING, "exact")
        try:
            if self._mixture is not None:
                return chance_of(self._mixture, inequalities, self.seed)
        except NoClosedForm:
            pass
        return chance_of_root(self.model, inequalities)

    @cached_property
    def _drawn(self) -> dict[str, np.ndarray]:
        return prior_draws(self.scalars.post.model, self.names, PRIOR_DRAWS, self.seed)

    def draws(self, region: Region) -> np.ndarray:
        """Whether each draw, of shape (1, draws), is in it."""
        drawn = self._drawn
        return region.holds(lambda variable, place: self.scalars.values(variable, place, drawn)).astype(float)[None]


def _equal_orders(model: pm.Model, inequalities: Sequence[Inequality]) -> int | None:
    """K! where the inequalities order K entries of one variable that can be exchanged, whatever its parents are."""
    after: dict[Any, Any] = {}
    for inequality in inequalities:
        form = inequality.form
        if len(form.terms) != 2 or form.constant or math.fsum(form.terms.values()):
            return None
        (low, _), (high, _) = sorted(form.terms.items(), key=lambda term: term[1])
        if low in after or high in after.values():
            return None
        after[low] = high
    first = after.keys() - set(after.values())
    if len(first) != 1 or len({name for name, _ in {*after, *after.values()}}) != 1:
        return None
    (entry,) = first
    entries = [entry]
    while entry in after:
        entries.append(entry := after[entry])
    if len(entries) != len(after) + 1:  # the rest is a circle
        return None
    rv = model[entry[0]]
    if not isinstance(rv.owner.op, RandomVariable) or rv.owner.op.ndim_supp or not rv.dtype.startswith("float"):
        return None
    alike = all(all(p.type.broadcastable) for p in rv.owner.op.dist_params(rv.owner))
    return math.factorial(len(entries)) if alike else None


def standard_error(values: np.ndarray, chains: bool) -> float:
    """Of the mean of draws, of shape (chain, draw)."""
    values = np.asarray(values, dtype=float)
    if not chains or not np.ptp(values):
        return float(values.std() / math.sqrt(values.size))
    return float(array_stats.mcse(values, chain_axis=0, draw_axis=1, method="mean"))
