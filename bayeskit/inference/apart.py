r"""Independent blocks answered apart, each as a model of its own, and their answers joined.

.. math:: \log p(y) = \sum_k \log p(y_k), \qquad p(\theta \mid y) = \prod_k p(\theta_k \mid y_k)

Eight independent series of three parameters each are eight integrals over three numbers, not one over 24. Each block
goes down the ladder by itself; those that nothing but a sampler answers are sampled together, for a sampler takes
seconds whatever it samples. Bounds of quadrature add, standard errors add in squares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from bayeskit.elimination.independence import Block, independent_blocks
from bayeskit.elimination.plan import analyse
from bayeskit.errors import BayeskitError, CertificateError, UnanswerableError
from bayeskit.graphs.environment import lightly
from bayeskit.inference.methods import Method, Request, ladder
from bayeskit.marginal_likelihood.conventions import Audit, audit
from bayeskit.model.forward_sampling import deterministics, draw_given
from bayeskit.model.part import NotApart, part_of
from bayeskit.results.log_evidence import sum_of
from bayeskit.results.records import Plan, Posterior
from bayeskit.results.tree import build_tree, stacked_draws
from bayeskit.sampling.options import sampler_defaults

__all__ = ["answer_apart", "plan_apart"]

type Climb = Callable[[Sequence[Method], Request], Posterior]


def plan_apart(request: Request) -> Plan | None:
    """The plan where blocks will be answered apart; None where they will not, or there is one block only."""
    planned: dict[Block, str] = {}
    for block in (blocks := independent_blocks(request.analysis)):
        try:
            analysis = _request(request, block, 0).analysis
        except NotApart:
            return None
        planned[block] = next(rung.name for rung in ladder() if not rung.obstacle(rung.seen(analysis)))
    if not blocks or all(planned[b] == "nuts" for b in blocks if b.remaining):
        return None
    plan = _plan(request, planned, ())
    first = next((rung for rung in ladder() if rung.name != "exact" and rung.name in planned.values()), None)
    return plan if first is None else replace(plan, outlook=f"{plan.outlook} {_handed_over(first)}")


def _handed_over(first: Method) -> str:
    """What becomes of a block whose method, planned by its structure alone, does not answer it."""
    others = list(dict.fromkeys(rung.title for rung in ladder()[ladder().index(first) :]))
    return f"A block that one method refuses, or would take too long for, goes to the next: {', '.join(others)}."


def answer_apart(request: Request, rungs: Sequence[Method], climb: Climb) -> Posterior | None:
    """The blocks' answers joined; None where a model is one block, or no block is answered but by a sampler.

    ``climb`` goes down some rungs for one request. Where a method was forced that does not answer a block, its error.
    """
    quick, samplers = [r for r in rungs if not r.samples], [r for r in rungs if r.samples]
    blocks = independent_blocks(request.analysis) if any(r.name != "exact" for r in quick) else ()
    try:
        # Where a method was forced, each block has the time of a model of its own.
        among = len(blocks) if samplers else 1
        asked = {block: _request(request, block, k, among) for k, block in enumerate(blocks, 1)}
    except NotApart:
        return None
    found: dict[Block, Posterior] = {}
    failures: dict[Block, BayeskitError] = {}
    for block, own in asked.items():
        try:
            found[block] = climb(quick if block.remaining else ladder("exact"), own)
        except UnanswerableError:
            raise
        except BayeskitError as error:
            error.add_note(f"this is of {_named(block)}, which the rest of the model has no bearing on")
            if not samplers:
                raise
            failures[block] = error
    if not any(block.remaining for block in found):
        return None
    if failures:
        first, *others = failures
        together = first.with_others(others)
        unproved = any(isinstance(e, CertificateError) for f in failures.values() for e in (f, f.__cause__))
        # Last, for a sampler ends what makes the building of graphs quick.
        left = [rung for rung in samplers if not (unproved and rung.closed_form)]
        heavy = any(error.heavy_tails for error in failures.values())
        modes = tuple(found for error in failures.values() for found in error.named_modes)
        asked_last = _request(request, together, len(blocks) + 1)
        found[together] = climb(left, replace(asked_last, heavy_tails=heavy, modes=modes))
    notes = [f"{_named(block)}: {str(error).splitlines()[0]}; NUTS was used" for block, error in failures.items()]
    return _joined(request, found, notes)


def _request(request: Request, block: Block, number: int, among: int = 1) -> Request:
    """What is asked of one block, with a seed of its own: of one seed, two blocks would have the same draws."""
    model = part_of(request.model, {*block.free, *block.terms})
    shared = tuple(n for n in request.analysis.original.shared if n in block.free)
    analysis = analyse(model, shared=shared)
    seed = int(np.random.SeedSequence([request.random_seed, number]).generate_state(1)[0])
    chains = int({**sampler_defaults(), **request.sampler}["chains"])  # draws of all blocks are as many as these have
    draws = -(-request.draws // chains) * chains
    # Options of a sampler are for what is sampled: the plan of another block need not say that it did not use them.
    own = replace(request, model=model, analysis=analysis, random_seed=seed, draws=draws, among=among)
    return replace(own, audit=audit(analysis))


def _named(block: Block) -> str:
    return ", ".join(block.remaining or block.free)


def _plan(request: Request, methods: Mapping[Block, str], notes: Iterable[str]) -> Plan:
    """The plan of the whole model, by the last of the methods, with what becomes of each block."""
    audited: Audit = request.audit
    way = {rung.name: rung.way for rung in ladder()}
    order = list(way)
    each = "; ".join(f"{_named(block)} {way[method]}" for block, method in methods.items())
    outlook = (
        f"The model is {len(methods)} independent blocks, each answered by itself, their log evidences added: {each}."
    )
    plan = audited.noted(replace(request.analysis.plan, method=max(methods.values(), key=order.index), outlook=outlook))
    return replace(plan, notes=(*plan.notes, *notes))


def _joined(request: Request, found: Mapping[Block, Posterior], notes: list[str]) -> Posterior:
    parts = tuple(found.values())
    about: dict[str, list[str]] = {}
    for block, post in found.items():
        for note in _own_notes(post):
            about.setdefault(note, []).append(_named(block))
    notes += [note if len(of) == len(parts) else f"{'; '.join(of)}: {note}" for note, of in about.items()]
    plan = _plan(request, {block: post.method for block, post in found.items()}, notes)
    sampled = next((post for post in parts if post.diagnostics is not None), None)
    chains = sampled.tree["posterior"].sizes["chain"] if sampled else None
    number = -(-request.draws // chains) * chains if chains else request.draws
    with lightly():
        values = _draws(request, found, number) if number else {}
        tree = build_tree(request.model, values, number, chains=chains)
    if sampled:
        tree["sample_stats"] = sampled.tree["sample_stats"]
    proofs = [post.certificate for post in parts if not math.isnan(post.certificate)]
    return Posterior(
        request.model,
        plan,
        sum_of([post.log_evidence for post in parts]),
        plan.method,
        max(proofs, default=math.nan),
        tree,
        {n: m for post in parts for n, m in post.marginals.items()},
        request.random_seed,
        account=" ".join(dict.fromkeys(["The model is independent blocks.", *(post.account for post in parts)])),
        diagnostics=sampled.diagnostics if sampled else None,
        blocks=parts,
    )


def _own_notes(post: Posterior) -> list[str]:
    """What a plan says of how a block was answered, but for what is said of the whole model."""
    common = post.analysis.plan.notes if post.analysis else ()
    return [note for note in post.plan.notes if note not in common and not note.startswith("the log evidence is")]


def _draws(request: Request, found: Mapping[Block, Posterior], number: int) -> dict[str, np.ndarray]:
    """Draws of all variables: those of independent blocks side by side, and last what depends on several."""
    joint = request.analysis.original
    values: dict[str, np.ndarray] = {}
    for block, post in found.items():
        own = stacked_draws(post.tree["posterior"], block.free)
        values |= {n: v[:number].astype(joint.values[n].type.dtype, copy=False) for n, v in own.items()}
    if left := [n for n in joint.names if n not in values]:
        rng = np.random.default_rng([request.random_seed, len(found) + 2])
        values |= draw_given(joint.model, left, values, rng, number)
    values = {n: values[n] for n in joint.names}
    return values | deterministics(joint, values)
