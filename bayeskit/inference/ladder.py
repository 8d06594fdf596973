"""``explain`` and ``infer``: look at the model, take the first method that applies, answer with its label.

The ladder (:mod:`bayeskit.inference.methods`):

1. ``exact``: every variable integrates out in closed form; log evidence exact, draws independent.
2. ``quadrature``: what remains is integrated numerically (one to three real numbers; four, where entries that are
   independent given them are integrated one by one); log evidence with an error bound, draws independent.
3. ``importance``: what remains, at most some forty real numbers, is integrated by importance sampling at quasi-random
   points; log evidence with a standard error, draws independent.
4. ``importance`` with entries integrated: the same, where entries that are independent given such numbers are
   integrated one by one.
5. ``importance`` of a latent Gaussian: hundreds of numbers that are Normal before the data are seen are integrated by
   importance sampling from their Gaussian approximation; log evidence with a standard error, draws independent.
6. ``nuts``: NUTS on the collapsed model, the eliminated variables recovered exactly; log evidence estimated by bridge
   sampling, with its standard error, or NaN with the reason where that cannot be trusted.
7. ``nuts`` on the model as written, where nothing can be integrated out.

Independent blocks of variables go down it apart (:mod:`bayeskit.inference.apart`), each as far as it needs to.

A method that fails hands over to the next, and the plan says so. A closed form that failed its certificate is used by
no later method. Where the model itself is at fault, an improper posterior say, the ladder ends: a sampler would give
draws from nothing.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from os import PathLike
from typing import Any

import pymc as pm

from bayeskit.arguments import Count, RandomSeed, checked, whole_seed
from bayeskit.chunks.given import given_model
from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.check_points import typical_points
from bayeskit.elimination.impossible_data import entry_at_fault, require_answerable
from bayeskit.elimination.plan import analyse
from bayeskit.errors import BayeskitError, CertificateError, ModelError, OptionError, UnanswerableError
from bayeskit.graphs.environment import lightly
from bayeskit.inference.apart import answer_apart, plan_apart
from bayeskit.inference.convergence import with_diagnostics
from bayeskit.inference.failures import no_answer, said_of_failure
from bayeskit.inference.methods import Method, Request, ladder, method_names
from bayeskit.jobs.work import Work
from bayeskit.marginal_likelihood.conventions import Audit, audit
from bayeskit.model.index_range import require_indices_inside
from bayeskit.model.snapshot import Snapshot, restored
from bayeskit.model.unconstrained import evaluations_counted
from bayeskit.results.records import Plan, Posterior
from bayeskit.results.tails_of_draws import doubted_moments
from bayeskit.sampling.chains_apart import work_of_chains
from bayeskit.sampling.options import checked_options
from bayeskit.terminal import counted_aloud, interruptible, is_terminal, let_alarms_through

__all__ = ["explain", "infer"]

PATIENCE = 10.0  # times as long as sampling that a method may take which was asked for by name


@checked
def explain(model: pm.Model | Analysis) -> Plan:
    """What would be integrated out, in which order, by which family; what is left and why. Computes no posterior.

    Parameters
    ----------
    model : pymc.Model
        Or what is known of one already, the analysis of a posterior.

    Returns
    -------
    Plan
        ``str(plan)`` is the page a person reads.

    Raises
    ------
    ModelError
        If the object is not a PyMC model or PyMC has no log density for it.
    """
    with lightly(), ExitStack() as data:
        analysis = model if isinstance(model, Analysis) else analyse(model)
        data.enter_context(restored(analysis.snapshot))
        model, audited = analysis.original.model, audit(analysis)
        plan = plan_apart(Request(model, analysis, 0, 0, audited)) or _plan_in_time(analysis, audited)
        try:
            require_answerable(analysis)
        except BayeskitError as error:
            return replace(plan, outlook=f"bayeskit.infer will refuse: {error}.")
    return plan


def _plan_in_time(analysis: Analysis, audited: Audit) -> Plan:
    """The plan of the first method that applies and is not known to take longer than sampling."""
    dear: list[str] = []
    for method in ladder():
        if method.obstacle(seen := method.seen(analysis)):
            continue
        if not (reason := method.too_dear(seen)):
            break
        dear.append(f"{method.title} will not do: {reason}")
    plan = method.planned(seen, audited)
    return replace(plan, notes=(*plan.notes, *dear))


@checked
def infer(
    model: pm.Model | Analysis | Callable[[Any], pm.Model],
    *,
    chunks: Any = None,
    dim: str | None = None,
    client: Any = None,
    checkpoint: str | PathLike[str] | None = None,
    method: str = "auto",
    draws: Count = 4000,
    random_seed: RandomSeed = None,
    progressbar: bool = True,
    sampler: Mapping[str, Any] | None = None,
) -> Posterior:
    """The posterior and the log evidence of a model, exactly where a closed form exists.

    Parameters
    ----------
    model : pymc.Model
        Or the analysis of a posterior, with the data of that posterior (others by its ``with_data``). With ``chunks``,
        a function that builds the model of the rows of one (:class:`bayeskit.Stream` says more).
    chunks : DataFrame, Dataset, path, or an iterable of these, optional
        Data that are read one after another and added up: tables, Datasets, mappings of arrays, Parquet files or a
        folder or pattern of these, Zarr stores, data of Dask (where they lie), or a generator. Memory is that of one.
    dim, client, checkpoint : str, dask.distributed.Client and path, optional
        The dim of the rows of Datasets; whose workers add chunks up, or make the chains of NUTS; a file from which a
        run that was cut off goes on. Chains that are made so are seeded one by one: other draws than without.
    method : {"auto", "exact", "quadrature", "importance", "nuts"}, default "auto"
        ``auto`` takes the first of the ladder that applies, and the next where that fails; the others force one.
    draws : int, default 4000
        Number of posterior draws in all, laid out as four chains where it divides by four.
    random_seed : int, sequence of int or numpy.random.Generator, optional
        The same seed gives the same draws.
    progressbar : bool, default True
        Shown on a terminal only, and only by methods that sample.
    sampler : mapping of str, optional
        Options of NUTS: ``tune`` (1000), ``chains`` (4), ``target_accept`` (0.9), ``init`` ("jitter+adapt_diag", or
        "adapt_diag" for starts without jitter), ``cores``, ``adaptation`` and nutpie's settings, such as ``maxdepth``.

    Returns
    -------
    Posterior
        Its ``plan`` names every method that failed before the one that answered. Draws of a sampler come with
        ``diagnostics``; what is wrong with them is a warning of the logger ``bayeskit``.

    Raises
    ------
    ModelError
        If the model cannot be read, or a variable has no closed form under ``method="exact"``.
    OptionError
        If an argument is out of range, or ``sampler`` is given for a method that does not sample.
    InferenceError
        If no method answered.
    """
    chains = None
    if chunks is None and not (client is None and checkpoint is None):
        chains, client, checkpoint = Work(client, checkpoint), None, None
    options = _options(method, sampler, chains)
    model = given_model(model, chunks, dim, client, checkpoint, progressbar)
    return answer(model, method, draws, random_seed, progressbar, options, chains)


def _options(method: str, sampler: Mapping[str, Any] | None, chains: Work | None) -> dict[str, Any]:
    """Those of the sampler; an OptionError for what a method does not take."""
    if method not in method_names():
        raise OptionError(f"method is {method!r}; it must be one of {', '.join(method_names())}")
    options = checked_options(sampler)
    for name, given in (("sampler", options or None), ("client or checkpoint, without chunks,", chains)):
        if given is not None and not any(rung.samples for rung in ladder(method)):
            raise OptionError(f"{name} is for methods that sample, and method is {method!r}: leave one of them out")
    return options


def answer(
    model: pm.Model | Analysis,
    method: str = "auto",
    draws: int = 0,
    random_seed: RandomSeed = None,
    progressbar: bool = False,
    sampler: Mapping[str, Any] | None = None,
    chains: Work | None = None,
) -> Posterior:
    """As :func:`infer`; without draws the tree is empty, and all else as it is. ``chains`` may be made at work."""
    started = time.perf_counter()
    random_seed = whole_seed(random_seed)
    # Two stacks: a rung that samples ends the building early, but goes on with the data of the analysis.
    with interruptible(), ExitStack() as data, ExitStack() as building:
        building.enter_context(lightly())
        analysis = model if isinstance(model, Analysis) else analyse(model)
        written = analysis.original.model
        snapshot = analysis.snapshot or Snapshot.of(written, borrow=False)
        data.enter_context(restored(analysis.snapshot))
        require_answerable(analysis)
        shown = progressbar and is_terminal()
        patience = 1.0 if method == "auto" else PATIENCE
        if chains is not None:
            chains = work_of_chains(chains, written, draws, random_seed, sampler or {}, shown)
        given = (written, analysis, draws, random_seed, audit(analysis), shown, sampler or {})
        request = Request(*given, chains=chains, patience=patience)

        def climb(rungs: Sequence[Method], request: Request) -> Posterior:
            begun = time.perf_counter()
            rung, post = _first_that_answers(rungs, request, building)
            own = snapshot if request.model is written else Snapshot.of(request.model, borrow=False)
            seen = replace(rung.seen(request.analysis), snapshot=own)
            post = replace(post, account=rung.account, analysis=seen, snapshot=own)
            post = _with_noted_tails(with_diagnostics(post) if rung.samples else post)
            return replace(post, seconds=time.perf_counter() - begun)

        post = answer_apart(request, ladder(method), climb)
        if post is None:
            post = climb(ladder(method), request)
        else:
            post = replace(post, analysis=replace(analysis, snapshot=snapshot), snapshot=snapshot)
    return replace(post, seconds=time.perf_counter() - started)


def _with_noted_tails(post: Posterior) -> Posterior:
    """With a note on what was drawn from no closed form and has no mean or variance that its draws tell."""
    if not post.tree.children:
        return post
    draws = post.tree["posterior"].to_dataset()
    said = doubted_moments(draws, [n for n in post.plan.remaining if n in draws and n not in post.marginals])
    return replace(post, plan=replace(post.plan, notes=(*post.plan.notes, *said))) if said else post


def _first_that_answers(rungs: Sequence[Method], request: Request, building: ExitStack) -> tuple[Method, Posterior]:
    """Go down the ladder; what was tried and failed is noted in the plan."""
    obstacles: list[str] = []
    failures: dict[Method, Exception] = {}
    unproved: Exception | None = None
    for rung in rungs:
        if unproved and rung.closed_form:
            continue
        try:
            if obstacle := rung.obstacle(rung.seen(request.analysis)):
                obstacles.append(obstacle)
                continue
            if rung.samples:
                building.close()  # what follows is long, and its garbage is to be collected
            planned = replace(request, analysis=_planned(rung, request, failures))
            with _told(rung, request.progressbar):
                post = rung.answer(planned)
        except UnanswerableError:
            raise
        except Exception as error:
            let_alarms_through(error)
            # Whatever its type: a slow answer is better than none. The note keeps the type for who mends it.
            failures[rung] = error
            heavy = request.heavy_tails or getattr(error, "heavy_tails", False)
            request = replace(request, modes=(*request.modes, *getattr(error, "named_modes", ())), heavy_tails=heavy)
            unproved = unproved or (error if isinstance(error, CertificateError) else None)
            continue
        if unproved:
            warnings.warn(f"{rung.title} was used, for {unproved}", stacklevel=4)  # where infer was called
        return rung, post
    if not failures:
        raise ModelError(obstacles[0])
    require_indices_inside(request.model)  # of other data than those that were read
    at_fault = entry_at_fault(request.analysis, typical_points(request.analysis, 1)[0])
    raise no_answer(failures, at_fault, request)


@contextmanager
def _told(rung: Method, bar: bool) -> Iterator[None]:
    """How often the density was evaluated so far, of what has no bar of its own and takes long."""
    with evaluations_counted() as count:
        told = bar and not rung.samples
        with counted_aloud(rung.title, lambda: count.number, "evaluations of the density", told):
            yield


def _planned(rung: Method, request: Request, failures: dict[Method, Exception]) -> Analysis:
    """The analysis with the plan that a rung carries out after others failed."""
    analysis = rung.seen(request.analysis)
    plan = rung.planned(analysis, request.audit)
    notes = [
        f"{failed.title} was tried: {said_of_failure(error)}; {rung.title} was used"
        for failed, error in failures.items()
    ]
    if request.sampler and not rung.samples:
        notes.append(f"no sampler was needed: its options {', '.join(request.sampler)} were not used")
    if request.chains and not rung.samples:
        notes.append("no chains were needed: there was nothing for a client or a checkpoint")
    return replace(analysis, plan=replace(plan, notes=(*plan.notes, *notes)))
