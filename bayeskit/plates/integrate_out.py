r"""Variables integrated out of a log joint density entry by entry, as a graph in everything else.

The density that is left is again a :class:`bayeskit.model.log_joint.LogJoint`, with one factor in the place of those of
the variable, the log integrals of its entries (:mod:`bayeskit.plates.plate_op`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import support_point
from pymc.logprob.utils import replace_rvs_by_values
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import graph_inputs

from bayeskit.graphs.rewriting import apart_from_checks, inline, widen
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.support import Support
from bayeskit.plates.entry_integral import FINE, EntryRule
from bayeskit.plates.entry_terms import entry_factors, entry_terms, given_by
from bayeskit.plates.equal_entries import EqualEntries, equal_entries
from bayeskit.plates.plate import LINES, Plate
from bayeskit.plates.plate_op import log_integrals
from bayeskit.plates.recurring_rows import each_row_once
from bayeskit.plates.smoothness import why_not_smooth
from bayeskit.types import Graph

__all__ = ["NotAPlate", "integrate_out"]

LARGEST = 5_000_000  # rows of the factors of one variable


class NotAPlate(Exception):
    """The entries of a variable cannot be integrated one by one; the message says why."""


def integrate_out(
    joint: LogJoint, name: str, shapes: Mapping[str, tuple[int, ...]], support: Support, rule: EntryRule = FINE
) -> tuple[LogJoint, Plate]:
    """The density of everything else, in which one factor stands for the integrals over the entries of a variable.

    EntriesMixed where a factor depends on several entries at once, NotAPlate for another reason.
    """
    shape = shapes[name]
    if support.kind not in LINES or not support.normalised or int(np.prod(shape, dtype=int)) < 2:
        raise NotAPlate("it is no vector of real, positive or unit numbers with a proper prior of its own")
    if name in joint.shared or name not in joint.factors:
        raise NotAPlate("it has no proper prior of its own")
    variable = joint.values[name]
    touched = [f for f in joint.factors if name in joint.scopes[f]]
    around = given_by(joint, name, touched)
    known = {v: shapes[n] for n, v in joint.values.items() if v in around}
    factors = [each_row_once(factor, variable, shape, known) for factor in entry_factors(joint, touched)]
    terms = entry_terms(factors, touched, variable, shape, around)
    if any(not v.type.dtype.startswith("float") for v in terms.given):
        raise NotAPlate("it depends on whole numbers that remain")
    if terms.length > LARGEST:
        raise NotAPlate(f"its factors have {terms.length:,} rows")
    graphs = [joint.factors[f] for f in touched]
    if why := why_not_smooth(inline([apart_from_checks(g)[0] for g in graphs]), variable):
        raise NotAPlate(why)
    outside, within = [], []
    for factor in touched:
        _, conditions, operations = apart_from_checks(joint.factors[factor])
        for operation, condition in zip(operations, conditions, strict=True):
            if variable in joint.dependence.get(condition, ()):
                within.append(condition)
            else:
                outside.append((operation, condition))
    given = tuple(n for n in joint.names if joint.values[n] in terms.given)
    checks = vectorize_graph(within, {variable: terms.places}) if within else ()
    start = _centre_of_prior(joint, name, shape, set(given))
    plate = Plate(
        name, support.kind, terms, given, f"integral over {name}", start, tuple(checks), rule.of_entries(terms.size)
    )
    if (equal := equal_entries(factors, variable, shape, known)) is not None:
        plate = replace(plate, copies=equal.of, one_each=_one_each(plate, equal, touched))
    total = log_integrals(plate)
    for operation, condition in outside:
        total = operation(total, condition)
    factor = plate.factor
    left = replace(
        joint,
        values={n: v for n, v in joint.values.items() if n != name},
        factors={factor if f in touched else f: total if f in touched else g for f, g in joint.factors.items()},
        deterministics={n: g for n, g in joint.deterministics.items() if variable not in joint.dependence.get(g, ())},
    )
    return left, plate


def _one_each(plate: Plate, equal: EqualEntries, factors: list[str]) -> Plate:
    """The plate of one entry of each class."""
    variable: Any = equal.variable
    terms = entry_terms(equal.graphs, factors, variable, variable.type.shape, plate.terms.given)
    centre: Any = plate.start
    start = None if centre is None else centre[equal.first]
    return replace(plate, terms=terms, start=start, checks=())


def _centre_of_prior(joint: LogJoint, name: str, shape: tuple[int, ...], given: set[str]) -> Graph | None:
    """PyMC's initial point of the variable as a graph in those that it is given; None if that takes others."""
    known = {joint.model[n]: v for n, v in joint.values.items()}
    try:
        centre = pt.broadcast_to(support_point(joint.model[name]), shape)
    except NotImplementedError:
        return None
    graph = inline(widen(list(replace_rvs_by_values([centre], rvs_to_values=known))))[0]
    of = {v for n, v in joint.values.items() if n in given}
    others = [v for v in graph_inputs([graph]) if not isinstance(v, Constant | SharedVariable) and v not in of]
    return None if others else graph
