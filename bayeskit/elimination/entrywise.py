"""Plans in which variables without a closed form are integrated numerically, entry by entry, before all else.

Of the variables that remain, the largest go first: of abilities and difficulties, each independent given the others,
the fewer numbers are left. The search for closed forms starts anew on what is left.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pymc as pm

from bayeskit.elimination.analysis import Analysis, numbers_left, size_of
from bayeskit.elimination.closed_forms import closed_forms_of
from bayeskit.elimination.plan import analyse
from bayeskit.finite.axis_dependence import EntriesMixed
from bayeskit.model.log_joint import LogJoint
from bayeskit.plates.entry_integral import COARSE, FINE, EntryRule
from bayeskit.plates.integrate_out import NotAPlate, integrate_out
from bayeskit.plates.plate import Plate
from bayeskit.results.plan import ENTRYWISE, Refusal, Step

__all__ = ["with_plates"]

FEW = 3  # numbers, which are integrated over as they are
SEVERAL = 4  # numbers, up to which they are integrated over more coarsely, and each entry with them


def with_plates(plain: Analysis) -> Analysis | None:
    """The analysis with variables integrated out entry by entry, if that leaves fewer numbers; None otherwise."""
    # Which rows belong to an entry is read from the data, in containers too.
    found: Analysis | None = plain.remembered_of(plain.original.model, "plates", lambda: _with_plates(plain))
    return found and replace(found, snapshot=plain.snapshot)


def _with_plates(plain: Analysis) -> Analysis | None:
    before = numbers_left(plain)
    if before <= FEW or plain.plates or any(plain.supports[n].kind == "finite" for n in plain.plan.remaining):
        return None
    found = _integrated(plain, FINE)
    if found is not None and FEW < numbers_left(found) <= SEVERAL:
        found = _integrated(plain, COARSE)
    return found


def _integrated(plain: Analysis, rule: EntryRule) -> Analysis | None:
    left = plain.joint.without(plain.ancestral)
    plates: list[Plate] = []
    for name in sorted(plain.plan.remaining, key=lambda n: -size_of(plain, n)):
        try:
            left, plate = integrate_out(left, name, plain.shapes, plain.supports[name], rule)
        except (EntriesMixed, NotAPlate):
            continue
        plates.append(plate)
    if not plates:
        return None
    found = closed_forms_of(left, plain)
    if not found.plan.remaining or numbers_left(found) >= numbers_left(plain):
        return None
    first = [s for s in plain.plan.eliminated if s.family == "ancestral" or s.variables[0] in _summed(plain)]
    return replace(
        found,
        plan=replace(
            found.plan,
            eliminated=(*first, *map(_step, plates), *found.plan.eliminated),
            refusals=tuple(_inside(refusal, left, plates) for refusal in found.plan.refusals),
        ),
        shapes=plain.shapes,
        supports=plain.supports,
        ancestral=(*plain.ancestral, *found.ancestral),
        summed=plain.summed,
        given_states=plain.given_states,
        plates=tuple(plates),
        whole=plain.original,
        without_plates=plain,
        analyse=partial(_anew, shared=plain.original.shared),
    )


def _anew(model: pm.Model, *, shared: tuple[str, ...]) -> Analysis:
    found = with_plates(analyse(model, shared=shared))
    if found is None:
        raise NotAPlate("with these data nothing is integrated entry by entry")
    return found


def _summed(analysis: Analysis) -> set[str]:
    return {s.name for s in analysis.summed}


def _step(plate: Plate) -> Step:
    note = f"{plate.terms.size:,} integrals over one number each, by the trapezoid rule about its own mode"
    if plate.one_each is not None:
        note += f"; entries with equal data are integrated once, which leaves {plate.one_each.terms.size:,}"
    return Step((plate.name,), ENTRYWISE, plate.given, note)


def _inside(refusal: Refusal, joint: LogJoint, plates: list[Plate]) -> Refusal:
    """Why a variable that integrals depend on has no closed form, in the words of the model."""
    names = [p.name for p in plates if refusal.variable in joint.scopes.get(p.factor, frozenset())]
    if not names:
        return refusal
    of = ", ".join(names)
    reason = f"its log density has the integrals over the entries of {of} in it, which are of no one family."
    return replace(refusal, reason=reason, advice=f"It has a closed form at best where {of} has one given it.")
