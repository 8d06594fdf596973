"""Variable elimination: which latent variables integrate out in closed form, in which order, and why not.

Closed forms are looked for in the density as it stands (:mod:`bayeskit.elimination.search`). Where a table of the
finite variables is too long or its rows have no closed form, these are summed out first, one by one
(:mod:`bayeskit.finite.sum_out`), and the search starts anew on what is left; or last, given which all else was
integrated out (:mod:`bayeskit.elimination.given_states`), where that leaves fewer numbers.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pymc as pm

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.closed_forms import closed_forms_of, step_of, without_closed_form
from bayeskit.elimination.given_states import with_states_last
from bayeskit.elimination.search import COUPLED, Search, sentence
from bayeskit.errors import ModelError
from bayeskit.finite.sum_out import Summed, TooLarge, sum_out
from bayeskit.model.log_joint import LogJoint
from bayeskit.results.records import Refusal

__all__ = ["analyse", "with_sums"]


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
    if sums:
        return with_sums(plain)
    if plain.plan.remaining:
        return with_states_last(plain, with_sums(plain))
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
    refused = tuple(refusals.get(r.variable, without_closed_form(r, left, summed)) for r in found.plan.refusals)
    if not summed:
        return replace(plain, plan=replace(plain.plan, refusals=refused))
    eliminated = (*first.steps, *(step_of(s, joint) for s in summed), *found.plan.eliminated)
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
