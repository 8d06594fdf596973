"""Few rows that stand for all: they have every label, so that the model of them has every latent variable."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd
import pymc as pm

from bayeskit.chunks.grown_priors import prior_that_changed
from bayeskit.chunks.labels import KnownLabels
from bayeskit.chunks.reading import Reading, Statistics, read_rows
from bayeskit.chunks.rows import ChunkRows
from bayeskit.chunks.summed_model import summed_model
from bayeskit.chunks.tried_rows import is_tried_apart, tried_rows
from bayeskit.errors import BayeskitError
from bayeskit.graphs.environment import lightly
from bayeskit.model.derivation import Derivations
from bayeskit.row_sums.statistics import merged
from bayeskit.row_sums.terms import NotAdditive

__all__ = ["Template", "of_rows_only", "statistics_together", "without_wholes"]

LARGEST = 200_000  # rows that are kept for their labels


@dataclass(frozen=True, eq=False)
class Template:
    """Rows kept, what was read of them, and which Deterministics are of rows and not of the model.

    That rows add up is tried, not believed: of the rows kept and some of a chunk, the sums have to be those of the one
    and of the other. Standardised columns, chains, Gaussian processes over rows, and groups that are numbered anew in
    every chunk, or of which something is computed, do not stand that.
    """

    build: Callable[[Any], pm.Model]
    rows: ChunkRows
    labels: KnownLabels
    of_rows: frozenset[str] = frozenset()
    mark: str = ""  # of its own: what was read of the same rows, and has the same labels in the same order
    known: Derivations = field(default_factory=Derivations)
    changed: str = ""  # why the prior is not, for the labels before, what it was with fewer rows

    @classmethod
    def of(cls, build: Callable[[Any], pm.Model], rows: ChunkRows, labels: KnownLabels, known: Derivations) -> Template:
        """A NotAdditive error names what would be different with one row more: a prior, a length, a Potential."""
        reading = read_rows(build, rows, known)
        labels = labels.extended(reading.labels)
        more = read_rows(build, rows.followed_by(rows.take([0, 0])), known)
        found = cls(build, rows, labels, of_rows_only(reading, more), uuid4().hex, known)
        found.__dict__.update(reading=reading, statistics=reading.statistics(labels))
        return found

    @cached_property
    def reading(self) -> Reading:
        """What was read of the rows; again where they came from a file or another process."""
        with lightly():
            return read_rows(self.build, self.rows, self.known)

    @cached_property
    def statistics(self) -> Statistics:
        """The sums of the rows."""
        with lightly():
            return self.reading.statistics(self.labels)

    def with_labels_of(self, chunk: Reading, number: int) -> Template:
        """With rows of a chunk that have the labels, or the variables, which are missing here.

        What the rows before it have added, ``number`` chunks of them, must not depend on labels that come later: of
        indicators without the first level, that level is another one then.
        """
        missing = self._missing(chunk)
        if not missing:
            return self
        for places in _rows_with(chunk.rows, missing):
            rows = self.rows.followed_by(chunk.rows.take(places))
            if len(rows) > LARGEST:
                break
            found = Template.of(self.build, rows, self.labels.extended(chunk.labels), self.known)
            if not found._missing(chunk):
                if number:
                    new = read_rows(self.build, chunk.rows.take(places), self.known).statistics(found.labels)
                    if not _are_same(found.statistics, statistics_together(self.statistics, new)):
                        raise NotAdditive(
                            f"what rows have added depends on which labels come later, those of {chunk.rows.name}: "
                            "make the same columns and numbers of a label whichever others there are"
                        )
                    return found.with_change(prior_that_changed(self.reading, found.reading))
                return found
        what, labels = next(iter(missing.items()))
        lost = f"the dim {what!r} has the label {labels[0]!r}" if len(labels) else f"there is a variable {what!r}"
        raise NotAdditive(
            f"{lost} in {chunk.rows.name}, and none beside other rows: give dims labels, and make variables, that are "
            "the same whichever rows there are, such as the values of a column"
        )

    def with_change(self, why: str) -> Template:
        """The same, with why a prior changed."""
        found = replace(self, changed=why)
        found.__dict__.update(reading=self.reading, statistics=self.statistics)
        return found

    @property
    def told(self) -> tuple[list[str], dict[str, str], Statistics]:
        """What tells the builder from others: the variables, their priors and what the rows kept add."""
        return list(self.reading.latents), self.reading.unobserved, self.statistics

    def other_than(self, told: tuple[list[str], dict[str, str], Statistics]) -> str:
        """What the builder gives the rows kept that it did not give them then; empty if nothing."""
        latents, unobserved, statistics = told
        try:
            now = self.told
        except BayeskitError as error:
            return str(error)
        if different := sorted({*latents} ^ {*now[0]}):
            return f"only one of the two has the variable {different[0]!r}"
        if different := sorted(n for n in unobserved if now[1].get(n) != unobserved[n]):
            return f"the prior of {different[0]!r} is another one"
        return "" if _are_same(statistics, now[2]) else "the rows that were kept have another likelihood"

    def require_same_builder(self, other: Template) -> Reading:
        """The rows that another template keeps, read by this one's builder; NotAdditive if they give it other sums."""
        own = read_rows(self.build, other.rows, self.known)
        if one_only := sorted({*own.latents, *own.observed} ^ {*other.reading.latents, *other.reading.observed}):
            raise NotAdditive(f"the builders of these sums are not the same: only one has the variable {one_only[0]!r}")
        found, expected = own.statistics(other.labels), other.statistics
        if found.keys() != expected.keys() or not all(found[s].is_close(expected[s]) for s in found):
            raise NotAdditive("the builders of these sums are not the same: rows of one give other sums with the other")
        if different := sorted(n for n, text in own.unobserved.items() if other.reading.unobserved.get(n) != text):
            raise NotAdditive(f"{different[0]!r} has another density with the one builder than with the other")
        return own

    def _missing(self, chunk: Reading) -> dict[str, pd.Index]:
        """The labels that are missing here by dim, and the variables, of which there are no labels."""
        variables = [*chunk.latents, *chunk.observed]
        known = {*self.reading.latents, *self.reading.observed}
        return KnownLabels(self.reading.labels).missing(chunk.labels) | {
            v: pd.Index([]) for v in variables if v not in known
        }

    def require_additive(self, chunk: Reading, statistics: Statistics, number: int) -> None:
        """Try the rows of a chunk beside those kept: sums, priors and shapes have to be as of each alone.

        ``number`` is that of chunks before it. All rows are tried of chunks that are not large, and many of the first
        ones: what depends on one row outside of a sample, a mean or a largest value, shows with that row only.
        """
        own = self.reading.labels
        same = chunk.shapes == self.reading.shapes and chunk.labels.keys() == own.keys()
        if same and all(index.equals(own[dim]) for dim, index in chunk.labels.items()):
            of_rows_only(self.reading, chunk)
        places = tried_rows(chunk.rows, number)
        if len(places) < len(chunk.rows):
            chunk = read_rows(self.build, chunk.rows.take(places), self.known)
            statistics = chunk.statistics(self.labels)
        together: Statistics = {}
        for rows in self._beside_kept(chunk.rows, apart=is_tried_apart(number)):
            both = read_rows(self.build, rows, self.known)
            of_rows_only(self.reading, both)
            together = statistics_together(together, both.statistics(self.labels))
        apart = statistics_together(statistics_together(self.statistics, statistics), self.statistics)
        if not _are_same(together, apart):
            raise _depends_on_others(chunk.observed, chunk.rows.name)

    def require_apart(self, earlier: ChunkRows, rows: ChunkRows, name: str) -> None:
        """Try rows of earlier chunks and of one that have a customer in common, say: what each adds, both have to."""
        one, two = self._with_kept(earlier), self._with_kept(rows)
        both = read_rows(self.build, self.rows.followed_by(earlier).followed_by(rows), self.known)
        together = statistics_together(both.statistics(self.labels), self.statistics)
        if not _are_same(together, statistics_together(one, two)):
            raise _depends_on_others(both.observed, name)

    def _with_kept(self, rows: ChunkRows) -> Statistics:
        return read_rows(self.build, self.rows.followed_by(rows), self.known).statistics(self.labels)

    def _beside_kept(self, rows: ChunkRows, apart: bool) -> Iterator[ChunkRows]:
        """Rows between those that are kept; or ``apart``, every second of them after these, and the others before.

        A chunk may end within a group. What a builder makes of a group, its mean or the days since its first row, is
        the same of all rows of the chunk and of those kept, and another one of every second row.
        """
        if apart and len(rows) > 1:
            yield self.rows.followed_by(rows.take(np.arange(0, len(rows), 2)))
            yield replace(rows.take(np.arange(1, len(rows), 2)).followed_by(self.rows), name=rows.name)
        else:
            yield self.rows.followed_by(rows).followed_by(self.rows)

    def model(self, statistics: Statistics) -> pm.Model:
        """The model with sums in the place of its observed variables."""
        conditions = {sign: s for sign, s in self.statistics.items() if s.is_condition}
        return summed_model(self.reading, self.labels, conditions | statistics, self.of_rows)

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}  # what is read of the rows is read again


def _depends_on_others(observed: Iterable[str], name: str) -> NotAdditive:
    return NotAdditive(
        f"the log density of {', '.join(map(repr, observed))} does not add up over rows: what it has of {name} depends "
        "on which rows come with them; number groups by labels that stay, standardise by numbers that stay, compute "
        "what is of a group (its mean, the days since its first row) from the whole table before, as a column, or give "
        "the model its rows at once, bk.infer(build(data))"
    )


def statistics_together(a: Statistics, b: Statistics) -> Statistics:
    """The sums of the rows of both."""
    shared = {sign: merged(s, b[sign]) for sign, s in a.items() if sign in b}
    return {**a, **b, **shared}


def without_wholes(statistics: Statistics) -> Statistics:
    """Without conditions on whole variables, which are of the labels in a chunk: probabilities of the classes that it
    has need not sum to one. The rows that are kept have all labels, and these conditions of theirs are the model's."""
    return {sign: s for sign, s in statistics.items() if not (s.is_condition and s.recipe.whole)}


def of_rows_only(few: Reading, more: Reading, summed: Collection[str] = ()) -> frozenset[str]:
    """The Deterministics that are different with more rows; NotAdditive where anything else is.

    ``summed`` are variables that the rows may have of their own, as they are summed out.
    """
    for name, shape in few.shapes.items():
        if name not in summed and (found := more.shapes.get(name)) != shape:
            raise NotAdditive(
                f"{name!r} has the shape {shape} for {len(few.rows)} rows and {found} for {len(more.rows)}: what each "
                "row or chunk has of its own does not add up; give it dims whose coords are the labels of groups, each "
                "once, and look entries up by np.unique(labels, return_inverse=True), or infer from all rows"
            )
    if list(few.shapes) != list(more.shapes) or list(few.observed) != list(more.observed):
        raise NotAdditive("the model has other variables with more rows")
    potentials = {*few.joint.potentials}
    different = {n for n, text in few.unobserved.items() if more.unobserved.get(n) != text}
    for name in different - {*few.joint.deterministics} - {*summed}:
        what = "the Potential" if name in potentials else "the prior of"
        remedy = (
            "write it as an observed variable, of pm.CustomDist say"
            if name in potentials
            else "a prior that is made from the data cannot be found in chunks; give it numbers that stay"
        )
        raise NotAdditive(f"{what} {name!r} is another one with more rows: {remedy}")
    return frozenset(different)


def _rows_with(rows: ChunkRows, missing: Mapping[str, pd.Index]) -> list[np.ndarray]:
    """Places of rows that may have labels: those in columns of these values; then one of each value; then all."""
    columns = {k: pd.Series(v) for k, v in rows.discrete().items()}
    exact, found = [], set()
    for dim, labels in missing.items():
        for values in columns.values():
            first = values[~values.duplicated()]
            hits = first[first.isin(labels)]
            if len(labels) and len(hits) == len(labels):
                found.add(dim)
                exact.append(hits.index.to_numpy())
    firsts = [np.flatnonzero(~v.duplicated()) for v in columns.values()]
    tries = []
    if len(found) == len(missing):
        tries.append(np.unique(np.concatenate(exact)))
    if firsts:
        tries.append(np.unique(np.concatenate(firsts)))
    return [*tries, np.arange(len(rows))]


def _are_same(one: Statistics, two: Statistics) -> bool:
    """Whether sums are the same to rounding, conditions on whole variables aside."""
    a, b = without_wholes(one), without_wholes(two)
    return a.keys() == b.keys() and all(a[sign].is_close(b[sign]) for sign in a)
