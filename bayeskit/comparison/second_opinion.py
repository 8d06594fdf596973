r"""A second opinion on a log evidence: the same integral by other means, side by side.

.. math:: \log p(y) = \log \int p(y \mid \theta) \, p(\theta) \, d\theta

``exact`` and ``quadrature`` are the methods of :func:`bayeskit.infer`; the others estimate the integral of the density
that is left once everything that has a closed form is integrated out, or of the model as written where nothing is left
or nothing goes out. ``bridge``, ``importance`` and ``laplace`` start from the posterior's draws (those of a closed
form or of quadrature are independent), ``smc`` and ``nested`` from the prior: what a sampler missed they may find. All
are on one convention: normalised priors, all labellings of exchangeable components.

The harmonic mean is not offered; :mod:`bayeskit.marginal_likelihood.estimators` says why.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pymc as pm
import xarray as xr

from bayeskit.arguments import Count, RandomSeed, checked, whole_seed
from bayeskit.comparison.agreement import Estimate, SecondOpinion, side_by_side, verdict_of
from bayeskit.comparison.reasons import without_other_methods
from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.collapsed_density import collapsed_density
from bayeskit.elimination.collapsed_model import collapsed_model
from bayeskit.elimination.plan import analyse
from bayeskit.errors import BayeskitError, OptionError
from bayeskit.graphs.environment import lightly, on_one_thread
from bayeskit.inference.ladder import answer, infer
from bayeskit.marginal_likelihood.conventions import audit, audit_of_draws
from bayeskit.marginal_likelihood.estimators import ESTIMATORS, Estimator, refused
from bayeskit.marginal_likelihood.proposal import Refused
from bayeskit.marginal_likelihood.sampled import Drawn, drawn_from
from bayeskit.model.snapshot import restored
from bayeskit.model.unconstrained import Unconstrained, evaluations_counted
from bayeskit.results.diagnostics import doubts_of
from bayeskit.results.log_evidence import LogEvidence
from bayeskit.results.records import Posterior
from bayeskit.terminal import let_alarms_through

__all__ = ["evidence"]

CLOSED = ("exact", "quadrature")
ROW_OF_METHOD = {"exact": "exact", "quadrature": "quadrature", "importance": "importance", "nuts": "bridge"}
CHEAP = ("bridge", "laplace", "importance")


@checked
def evidence(
    model: pm.Model | Posterior,
    estimators: Sequence[str] | None = None,
    *,
    draws: Count = 4000,
    random_seed: RandomSeed = None,
    progressbar: bool = True,
) -> SecondOpinion:
    r"""The log evidence by several estimators, and whether they agree.

    .. math:: \log p(y) = \log \int p(y \mid \theta) \, p(\theta) \, d\theta

    Parameters
    ----------
    model : pymc.Model or Posterior
        A posterior is asked with the data that it was fitted to; its own log evidence is the row of its method.
    estimators : sequence of str, optional
        Of ``exact``, ``quadrature``, ``bridge``, ``laplace``, ``importance``, ``smc`` and ``nested``. By default that
        of the method of :func:`bayeskit.infer`, and those that need little beside its draws: ``bridge``, ``laplace``
        and ``importance``. ``nested`` needs dynesty (``pip install bayeskit[nested]``).
    draws : int, default 4000
        Posterior draws where there are none yet, proposals of ``importance``, particles of ``smc`` in all its runs, and
        eight times the live points of ``nested``.
    random_seed : int, sequence of int or numpy.random.Generator, optional
    progressbar : bool, default True
        Of NUTS, where draws are made by it.

    Returns
    -------
    SecondOpinion

    Raises
    ------
    OptionError
        If an estimator has no such name.
    ModelError, InferenceError
        As :func:`bayeskit.infer`, where the posterior has to be found.

    Notes
    -----
    The error of ``laplace`` is what its expansion leaves out, which no number of draws makes smaller. Two numbers
    disagree where they are more than four standard errors apart, bounds aside. Estimators that start from the same
    draws miss the same modes; ``smc`` and ``nested`` do not, and cost many thousands of evaluations. ``importance``
    needs draws from every mode, but not in the right proportion: it may have a number where chains go from mode to mode
    too seldom for ``bridge``.

    Sources: Meng and Wong (1996), Statistica Sinica 6; Tierney and Kadane (1986), JASA 81; Del Moral, Doucet and Jasra
    (2006), JRSS B 68; Skilling (2006), Bayesian Analysis 1.

    Examples
    --------
    >>> with pm.Model() as coin:
    ...     pm.Binomial("heads", 50, pm.Beta("p", 2, 2), observed=31)
    >>> print(bk.evidence(coin, random_seed=1).verdict)
    agree
    """
    known = [*CLOSED, *(e.name for e in ESTIMATORS)]
    if unknown := [name for name in estimators or () if name not in known]:
        raise OptionError(f"estimators has {unknown[0]!r}; it must be of {', '.join(known)}")
    return _asked(model, draws, whole_seed(random_seed), progressbar).of(list(dict.fromkeys(estimators or ())))


def _asked(model: pm.Model | Posterior, draws: int, random_seed: int, progressbar: bool) -> _Asked:
    """A posterior, and what its own evidence cost."""
    if isinstance(model, Posterior):
        return _Asked(model, Estimate(model.log_evidence, model.seconds), draws, random_seed)
    with evaluations_counted() as count:
        posterior = infer(model, draws=draws, random_seed=random_seed, progressbar=progressbar)
    return _Asked(posterior, Estimate(posterior.log_evidence, posterior.seconds, count.number), draws, random_seed)


@dataclass(frozen=True, eq=False)
class _Asked:
    """A posterior of which the evidence is asked by other means."""

    posterior: Posterior
    own: Estimate
    draws: int
    random_seed: int

    @property
    def analysis(self) -> Analysis:
        found = self.posterior.analysis
        return analyse(self.posterior.model) if found is None else found

    def of(self, names: list[str]) -> SecondOpinion:
        """The rows of some estimators, or of those that are cheap."""
        mine = ROW_OF_METHOD.get(self.posterior.method, "")
        names = names or list(dict.fromkeys([mine, *CHEAP]))
        rows: dict[str, Estimate] = {}
        density, notes = "", list[str]()
        for name in names:
            if name == mine:
                rows[name] = self.own
            elif name in CLOSED:
                rows[name] = _timed(partial(self.in_closed_form, name))
        sampled = [e for e in ESTIMATORS if e.name in names and e.name not in rows]
        if sampled:
            density, estimated = self.sampled(sampled)
            rows |= estimated
        rows = {name: rows[name] for name in names}
        table = side_by_side(rows)
        notes += doubts_of(self.posterior)
        conventions = [r.evidence.convention for r in rows.values() if math.isfinite(r.evidence.value)]
        return SecondOpinion(table, verdict_of(table), density, next((c for c in conventions if c), ""), tuple(notes))

    def in_closed_form(self, name: str) -> LogEvidence:
        """By another method of ``infer``."""
        if name == "exact" and (left := self.analysis.plan.remaining):
            return LogEvidence(math.nan, math.inf, name, f"{', '.join(left)} has no closed form: see bayeskit.explain")
        try:
            return answer(self.analysis, name, 0, self.random_seed).log_evidence
        except BayeskitError as error:
            return LogEvidence(math.nan, math.inf, name, without_other_methods(error))

    def sampled(self, estimators: list[Estimator]) -> tuple[str, dict[str, Estimate]]:
        """The density that is integrated, in words, and the rows of estimators of its integral."""
        analysis = self.analysis
        with restored(analysis.snapshot), lightly(), on_one_thread():
            density, model, weight = self.density()
            try:
                drawn = self.drawn(model, weight)
            except Refused as error:
                return density, {e.name: Estimate(refused(error)) for e in estimators}
            rows = {}
            for estimator in estimators:
                rows[estimator.name] = _timed(partial(_estimated, estimator, drawn, self.draws))
        return density, rows

    def density(self) -> tuple[str, pm.Model, int | None]:
        """What is integrated: what remains of the model, or all of it."""
        plan, analysis = self.posterior.plan, self.analysis
        if plan.eliminated and plan.remaining:
            collapsed = collapsed_density(analysis)
            try:
                gone = ", ".join(n for step in plan.eliminated for n in step.variables)
                over = f"the density of {', '.join(plan.remaining)}, {gone} integrated out"
                return over, collapsed_model(collapsed), collapsed.weight
            except NotImplementedError:
                pass
        return "the density of the model as written", analysis.original.model, None

    def drawn(self, model: pm.Model, weight: int | None) -> Drawn:
        """Draws of that density on its unconstrained scale; Refused where they give no evidence."""
        analysis, posterior = self.analysis, self.posterior
        audited = audit(analysis)
        tree = posterior.tree
        if posterior.diagnostics is None and _number_of(tree) < self.draws:
            tree = answer(analysis, posterior.method, self.draws, self.random_seed).tree
        statistics = tree["sample_stats"].to_dataset() if "sample_stats" in tree.children else xr.Dataset()
        if reason := audit_of_draws(model, audited, statistics):
            raise Refused(reason)
        space = Unconstrained(model, weight)
        dataset = tree["posterior"].to_dataset()
        shape = dataset.sizes["chain"], dataset.sizes["draw"]
        arrays = {n: dataset[n].transpose("chain", "draw", ...).to_numpy() for n in space.names}
        draws = {n: a.reshape(math.prod(shape), *a.shape[2:]) for n, a in arrays.items()}
        moved = space.layout.split(space.forward_over(draws, math.prod(shape)))
        values = zip(space.variables, space.names, strict=True)
        unconstrained = {str(v.name): moved[n].reshape(*shape, *moved[n].shape[1:]) for v, n in values}
        return drawn_from(analysis, model, unconstrained, statistics, self.random_seed, weight, audited)


def _number_of(tree: xr.DataTree) -> int:
    sizes = tree["posterior"].sizes if "posterior" in tree.children else {}
    return int(sizes.get("chain", 0) * sizes.get("draw", 0))


def _estimated(estimator: Estimator, drawn: Drawn, points: int) -> LogEvidence:
    """What an estimator says, whatever happens to it."""
    if reason := estimator.obstacle(drawn.target(points)):
        return refused(reason)
    try:
        return drawn.evidence(estimator.estimate, points, doubted=estimator.of_draws)
    except Refused as error:
        return refused(error)
    except Exception as error:  # the others are asked all the same; the type is for who mends it
        let_alarms_through(error)
        return refused(f"{estimator.title} failed ({type(error).__name__}: {error})")


def _timed(ask: Callable[[], LogEvidence]) -> Estimate:
    started = time.perf_counter()
    with evaluations_counted() as count:
        found = ask()
    return Estimate(found, time.perf_counter() - started, count.number)
