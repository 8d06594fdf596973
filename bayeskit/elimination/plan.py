"""Variable elimination: which latent variables integrate out in closed form, in which order, and why not.

Closed forms are looked for in the density as it stands (:mod:`bayeskit.elimination.search`). Where a table of the
finite variables is too long or its rows have no closed form, these are summed out first, one by one
(:mod:`bayeskit.finite.sum_out`), and the search starts anew on what is left.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pymc as pm

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.search import COUPLED, Search, sentence
from bayeskit.errors import ModelError
from bayeskit.finite.sum_out import Summed, TooLarge, sum_out
from bayeskit.model.log_joint import LogJoint
from bayeskit.results.records import Refusal, Step

__all__ = ["analyse", "closed_forms_of", "with_sums"]


def analyse(model: pm.Model, *, sums: bool = False, shared: tuple[str, ...] = ()) -> Analysis:
    """Find the plan for a model; computes no posterior. A ModelError if the model cannot be read.

    With ``sums``, finite variables are summed out even where a table of their values has a closed form in each row.
    Variables that are ``shared`` have an improper prior, ``Flat`` or ``HalfFlat``, whose constant is that of all models
    compared with this one (:mod:`bayeskit.comparison.shared_priors`): evidences are up to that constant.
    """
    _require_labels(model)
    try:
        return replace(_analysed(model, sums, shared), analyse=partial(analyse, shared=shared))
    except IndexError as error:
        raise ModelError(
            f"an index in the model is out of range ({str(error).splitlines()[0]}); check the arrays of indices "
            "against the lengths of what they pick from"
        ) from error


def _require_labels(model: pm.Model) -> None:
    """A ModelError for labels of several parts, which no draws of any method could be given."""
    dims = {str(dim) for dims in model.named_vars_to_dims.values() for dim in dims if dim is not None}
    for dim in sorted(dims):
        several = next((label for label in (model.coords.get(dim) or ())[:1] if isinstance(label, tuple | list)), None)
        if several is not None:
            raise ModelError(
                f"the labels of the dim {dim!r} are tuples such as {several!r}, as a pandas.MultiIndex has them, and "
                "draws have one label for each place: join them, as in "
                "[' '.join(map(str, label)) for label in index], or give the variable two dims"
            )


def _analysed(model: pm.Model, sums: bool, shared: tuple[str, ...]) -> Analysis:
    plain = closed_forms_of(LogJoint.from_model(model, shared=shared))
    finite = _finite(plain)
    if plain.plan.remaining or sums:
        return with_sums(plain)
    if all(plain.shapes[n] == () for n in finite):
        return plain
    # A table of all allocations has their joint probabilities only; sums that need none have those of each entry.
    return min(plain, with_sums(plain), key=lambda a: (bool(a.plan.remaining), a is plain))


def with_sums(plain: Analysis) -> Analysis:
    """The analysis of the same density with finite variables summed out, where it has them in a table.

    They go children before parents, and the rest is planned without them.
    """
    finite = [] if plain.summed else _finite(plain)
    if not finite:
        return plain
    first = Search(plain.joint, plain, ancestral_first=True)
    first.eliminate_ancestral()
    joint = left = plain.joint.without(first.ancestral)
    summed: list[Summed] = []
    refusals: dict[str, Refusal] = {}
    rows = 1
    for name in reversed(finite):
        values = plain.supports[name].values
        if name in first.ancestral or values is None:
            continue
        try:
            left, step = sum_out(left, name, values, plain.shapes[name], rows)
        except TooLarge as error:
            refusals[name] = Refusal(name, sentence(f"it cannot be summed out: {error}"), COUPLED)
            continue
        rows *= len(step.values) if step.kind == "joint" else 1
        summed.append(step)
    found = closed_forms_of(left, plain) if summed else plain
    refused = tuple(refusals.get(r.variable, _inside(r, left, summed)) for r in found.plan.refusals)
    if not summed:
        return replace(plain, plan=replace(plain.plan, refusals=refused))
    eliminated = (*first.steps, *(_step(s, joint) for s in summed), *found.plan.eliminated)
    return replace(
        found,
        plan=replace(found.plan, eliminated=eliminated, refusals=refused),
        shapes=plain.shapes,
        supports=plain.supports,
        ancestral=(*first.ancestral, *found.ancestral),
        summed=tuple(summed),
        whole=plain.joint,
    )


def _finite(analysis: Analysis) -> list[str]:
    left = [n for n in analysis.joint.names if n not in analysis.ancestral]
    return [n for n in left if analysis.supports[n].kind == "finite"]


def closed_forms_of(joint: LogJoint, known: Analysis | None = None) -> Analysis:
    """The closed forms of a density as it stands."""
    search = Search(joint, known)
    leaves_last = search.run()
    if not leaves_last.plan.remaining or not search.passed_over:
        return leaves_last
    # A leaf may also be drawn forward instead of joining a block; try that before giving up.
    leaves_first = Search(joint, leaves_last, ancestral_first=True).run()
    # Where something remains, a leaf in a block would be integrated out anew at every value of it.
    return min(leaves_first, leaves_last, key=lambda a: len(a.plan.remaining))


def _inside(refusal: Refusal, joint: LogJoint, summed: list[Summed]) -> Refusal:
    """Why a variable under a sum has no closed form, in the words of the model."""
    sums = [s.name for s in summed if refusal.variable in joint.scopes.get(s.factor, frozenset())]
    if not sums:
        return refusal
    names = ", ".join(sums)
    return replace(
        refusal,
        reason=f"its log density is a sum over {names}: as many terms as {names} has values, of no one family.",
        advice=f"Sample it; or observe {names}, and it may have a closed form.",
    )


def _step(summed: Summed, joint: LogJoint) -> Step:
    states, entries = len(summed.values), int(np.prod(summed.shape, dtype=int))
    around = set().union(*[s for s in joint.scopes.values() if summed.name in s]) - {summed.name}
    given = tuple(n for n in joint.names if n in around)
    if summed.kind == "chain":
        return Step((summed.name,), "markov_chain", given, f"{states} states, {entries:,} steps, summed out")
    if summed.kind == "joint":
        return Step((summed.name,), "categorical", given, f"{states:,} joint values, enumerated and summed out")
    each = f", for each of {entries:,} entries" if entries > 1 else ""
    return Step((summed.name,), "categorical", given, f"{states} values{each}, summed out")
