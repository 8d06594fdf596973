"""Joint distributions of sums of entries of an exact posterior, in closed form where its parts have them.

Entries of a Gaussian block are Normal together, Student-t where its scale is integrated out, and Normal again where the
scale is given, too; a variable of a conjugate family is itself; parts are independent of each other. Over a table of
finite variables all of it is a mixture, with the probabilities of the table's rows as weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.conjugate_posterior import Component, Part, hypotheses, solve_posterior
from bayeskit.elimination.log_joint_evaluator import Evaluator
from bayeskit.graphs.environment import lightly, on_one_thread
from bayeskit.model.conditioning import LinearForm
from bayeskit.queries.conjugate_predictive import NoClosedForm, log_student

__all__ = ["Elliptical", "Mixture", "SingleEntry", "mixture_of"]


@dataclass(frozen=True)
class Elliptical:
    """A vector of forms that is Normal (of infinite degrees of freedom) or Student-t."""

    rows: tuple[int, ...]  # which of the forms
    mean: np.ndarray
    scale: np.ndarray  # the covariance of a Normal
    df: float
    condition: float  # of the precision that it was solved from: what rounding is multiplied by

    def log_density(self, values: np.ndarray) -> tuple[float, float]:
        """At one point, with what rounding may have done to it."""
        deviation = (values - self.mean)[None]
        try:
            value = float(log_student(deviation, self.scale, self.df)[0])
        except np.linalg.LinAlgError:
            raise NoClosedForm("a linear relation ties these numbers to each other") from None
        distance = np.abs(deviation[0]) / np.sqrt(np.diag(self.scale))
        relative = np.finfo(float).eps * self.condition
        size = np.abs(values) / np.sqrt(np.diag(self.scale))
        slope = np.abs(distance) if np.isinf(self.df) else (self.df + 1) * distance / (self.df + distance**2)
        return value, float(relative * np.sum((slope + 1) * (size + distance + 1)))


@dataclass(frozen=True)
class SingleEntry:
    """One form that is an entry of a variable of a conjugate family, multiplied and shifted."""

    row: int
    dist: Any  # SciPy's, of all entries of the variable
    place: int
    form: LinearForm

    def _of(self, method: str, value: float) -> float:
        (coefficient,) = self.form.terms.values()
        at = np.asarray(getattr(self.dist, method)((value - self.form.constant) / coefficient))
        return float(at.reshape(-1)[self.place])

    @property
    def coefficient(self) -> float:
        """What the entry is multiplied by."""
        (coefficient,) = self.form.terms.values()
        return coefficient

    def log_density(self, value: float) -> float:
        """At a value of the form."""
        return self._of("logpdf", value) - float(np.log(abs(self.coefficient)))

    def tails(self, value: float) -> tuple[float, float]:
        """The probabilities below and above a value of the form."""
        below, above = self._of("cdf", value), self._of("sf", value)
        return (below, above) if self.coefficient > 0 else (above, below)


@dataclass(frozen=True)
class Mixture:
    """The components of an exact posterior and the log of their probabilities."""

    analysis: Analysis
    components: tuple[Component, ...]
    log_weights: np.ndarray

    def pieces(self, component: Component, forms: Sequence[LinearForm]) -> list[Elliptical | SingleEntry]:
        """Independent pieces, with each form in one of them."""
        return _pieces(component, forms, {})

    def log_density(self, forms: Sequence[LinearForm], values: np.ndarray) -> tuple[float, float]:
        """log p(forms = values), and its rounding; −∞ outside of the support."""
        found = [_log_density(c, forms, values) for c in self.components]
        terms = self.log_weights + np.array([value for value, _ in found])
        return float(special.logsumexp(terms)), max(
            (error for value, error in found if np.isfinite(value)), default=0.0
        )


def mixture_of(analysis: Analysis) -> Mixture:
    """The components of an exact posterior: one, or one for each possible value of its finite variables."""
    if analysis.plan.remaining:
        raise NoClosedForm(f"{', '.join(analysis.plan.remaining)} has no closed form")
    with lightly(), on_one_thread():
        evaluator = analysis.remembered("evaluator", lambda: Evaluator(analysis))
        found = [solve_posterior(analysis, evaluator, fixed) for fixed in hypotheses(analysis)]
    possible = [c for c in found if np.isfinite(c.log_evidence)]
    log_weights = np.array([float(c.log_evidence) for c in possible])
    return Mixture(analysis, tuple(possible), log_weights - special.logsumexp(log_weights))


def _log_density(component: Component, forms: Sequence[LinearForm], values: np.ndarray) -> tuple[float, float]:
    total, error, scales, left = 0.0, 0.0, {}, list(range(len(forms)))
    for name, rows in _by_variable(forms).items():
        if name in component.fixed:
            for row, place in rows.items():
                same = np.ravel(component.fixed[name])[place] == _entry_value(forms[row], values[row])
                total += 0.0 if same else -np.inf
                left.remove(row)
            continue
        part = next((p for p in component.parts if p.scale is not None and p.scale.name == name), None)
        if part is None:
            continue
        assert part.scale is not None
        whole = np.empty(int(np.size(part.centre()[name])))
        if len(rows) < whole.size:  # entries by themselves, each with its own marginal
            if part.scale.family.support.event and len(rows) > 1:
                raise NoClosedForm(f"some of the entries of {name!r}, and not all of them")
            continue
        for row, place in rows.items():
            whole[place] = _entry_value(forms[row], values[row])
            total -= float(np.log(abs(next(iter(forms[row].terms.values())))))
            left.remove(row)
        scales[name] = whole.reshape(np.shape(part.centre()[name]))
        with np.errstate(all="ignore"):
            density = part.scale.family.log_density(part.parameters, scales[name])
        total += float(np.sum(density))
    rest = [forms[row] for row in left]
    for piece in _pieces(component, rest, scales) if rest else []:
        if isinstance(piece, SingleEntry):
            total += piece.log_density(values[left[piece.row]])
        else:
            value, rounding = piece.log_density(values[[left[row] for row in piece.rows]])
            total, error = total + value, error + rounding
    return total, error + 4 * np.finfo(float).eps * (1 + abs(total))


def _entry_value(form: LinearForm, value: float) -> float:
    (coefficient,) = form.terms.values()
    return float((value - form.constant) / coefficient)


def _by_variable(forms: Sequence[LinearForm]) -> dict[str, dict[int, int]]:
    """Of the forms that are single entries: by variable, the places of the forms and of the entries."""
    found: dict[str, dict[int, int]] = {}
    for row, form in enumerate(forms):
        if len(form.terms) == 1:
            ((name, place),) = form.terms
            found.setdefault(name, {})[row] = place
    return found


def _pieces(
    component: Component, forms: Sequence[LinearForm], scales: Mapping[str, np.ndarray]
) -> list[Elliptical | SingleEntry]:
    """Independent pieces, given the values of some scales."""
    home: dict[str, int] = {}
    for number, part in enumerate(component.parts):
        if part.gaussian is not None:
            home |= dict.fromkeys(part.gaussian.slices, number)
    rows: dict[tuple[int, int], list[int]] = {}
    found: list[Elliptical | SingleEntry] = []
    taken: set[str] = set()
    for row, form in enumerate(forms):
        entered = {home.get(name, -1) for name in form.names}
        if len(entered) != 1:
            raise NoClosedForm("a sum of variables of which each has a distribution of its own")
        (number,) = entered
        if number < 0:
            found.append(_entry(component, row, form, taken))
            continue
        part = component.parts[number]
        group = _group(part, form) if part.scale is not None and part.scale.name not in scales else 0
        rows.setdefault((number, group), []).append(row)
        if part.multiple is not None and len({g for k, g in rows if k == number}) > 1:
            raise NoClosedForm("entries of vectors that share a Wishart matrix")
    if {p.scale.name for (k, _) in rows for p in [component.parts[k]] if p.scale is not None} & taken:
        raise NoClosedForm("a scale, and what it is the scale of")
    found += [_elliptical(component.parts[k], g, own, forms, scales) for (k, g), own in rows.items()]
    return found


def _entry(component: Component, row: int, form: LinearForm, taken: set[str]) -> SingleEntry:
    if len(form.terms) > 1:
        raise NoClosedForm("a sum of variables of which each has a distribution of its own")
    ((name, place),) = form.terms
    part = next((p for p in component.parts if p.scale is not None and p.scale.name == name), None)
    if part is None:
        raise NoClosedForm(f"{name!r} has no closed-form marginal")
    assert part.scale is not None
    event = part.scale.family.support.event
    if event > 1 or (event and name in taken):
        raise NoClosedForm(f"entries of {name!r}, which depend on each other")
    taken.add(name)
    return SingleEntry(row, part.scale.family.frozen(part.parameters), place, form)


def _group(part: Part, form: LinearForm) -> int:
    """Which entry of the scale governs all of a form."""
    assert part.gaussian is not None
    places = [part.gaussian.slices[name].start + k for name, k in form.terms]
    if part.multiple is not None:  # which vector: of those that share a Wishart matrix, one at a time is known
        groups = {place // (part.gaussian.size // len(part.multiple)) for place in places}
    else:
        assert part.group is not None
        groups = {int(part.group[place]) for place in places}
    if len(groups) > 1:
        raise NoClosedForm("a sum of Student-t variables with scales of their own")
    return groups.pop()


def _elliptical(
    part: Part, group: int, rows: Sequence[int], forms: Sequence[LinearForm], scales: Mapping[str, np.ndarray]
) -> Elliptical:
    gaussian = part.gaussian
    assert gaussian is not None
    coefficients, constant = np.zeros((gaussian.size, len(rows))), np.array([forms[row].constant for row in rows])
    for column, row in enumerate(rows):
        for (name, k), coefficient in forms[row].terms.items():
            coefficients[gaussian.slices[name].start + k, column] = coefficient
    mean, df, factor = gaussian.mean @ coefficients + constant, np.inf, 1.0
    if part.scale is not None and part.scale.name in scales:
        if part.multiple is not None:
            raise NoClosedForm("entries of vectors that share a Wishart matrix")
        coefficients = coefficients / part.stretch(scales[part.scale.name])[:, None]
    elif part.multiple is not None:
        freedom, matrix = part.student
        own = coefficients.reshape(len(part.multiple), len(matrix), -1)[group]
        scale = np.linalg.inv(part.multiple)[group, group] * own.T @ matrix @ own
        return Elliptical(tuple(rows), mean, scale, float(freedom), gaussian.precision.condition)
    elif part.scale is not None:
        df, ratio = (float(np.ravel(v)[group]) for v in part.student)
        factor = ratio * float(np.ravel(part.reference)[group]) ** part.scale.kappa
    covariance = coefficients.T @ gaussian.precision.solve(coefficients)
    scale = factor * 0.5 * (covariance + covariance.T)
    return Elliptical(tuple(rows), mean, scale, df, gaussian.precision.condition)
