r"""The likelihood of a model of rows that came in chunks, as the sums that are all it takes from them.

.. math:: \log p(y_{1:n} \mid \theta) = \sum_{\text{chunks}} \log p(y_c \mid \theta)
   = \sum_t f_t(\theta)^\top \sum_{\text{chunks}} s_t(y_c)

What a chunk gives is :math:`s_t`, as many numbers as there are distinct arguments of :math:`f_t`; the sums of all
chunks make a Potential in the place of the observed variables, and what is inferred from that model is what would be
inferred from all rows at once.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pymc as pm

from bayeskit.chunks.labels import KnownLabels
from bayeskit.chunks.reading import Statistics, read_rows
from bayeskit.chunks.recurring_rows import recurring, with_some_of
from bayeskit.chunks.rows import ChunkRows, column_kinds
from bayeskit.chunks.template import Template, statistics_together, without_wholes
from bayeskit.chunks.tried_rows import first_rows, is_tried_apart
from bayeskit.errors import DataError
from bayeskit.graphs.environment import lightly, on_one_thread
from bayeskit.model.derivation import Derivations
from bayeskit.model.summed_likelihood import SummedRows, rows_together, with_rows
from bayeskit.row_sums.terms import NotAdditive

__all__ = ["ChunkSum"]


@dataclass(frozen=True, eq=False)
class ChunkSum:
    """Sums of the chunks so far; it does not change, so that a chunk that fails leaves what was added before it."""

    build: Callable[[Any], pm.Model]
    template: Template | None = None
    statistics: Statistics = field(default_factory=dict, repr=False)
    rows: int = 0
    chunks: int = 0
    ids: frozenset[Any] = frozenset()
    known_rows: Mapping[str, SummedRows] | None = field(default_factory=dict, repr=False)  # None of discounted ones
    kinds: Mapping[str, str] = field(default_factory=dict, repr=False)
    fixed: Mapping[str, Any] = field(default_factory=dict, repr=False)
    tried: frozenset[str] = field(default=frozenset(), repr=False)  # the statistics that were held against rows
    before: int = 0  # chunks that others add, of which this one has what it knows
    seen: ChunkRows | None = field(default=None, repr=False)  # some rows of the chunks before
    changes: tuple[str, ...] = ()  # why the prior of the labels before is another one, for each chunk where it is

    def with_chunk(self, rows: ChunkRows, identity: Any = None) -> ChunkSum:
        """The sums with those of another chunk.

        Raises
        ------
        DataError
            If the chunk has no rows, lacks a column, has one of another kind, missing values or impossible data, or if
            a chunk of its ``identity`` was added before. The chunk is named.
        NotAdditive
            If what its rows add depends on which rows come with them, or what is added is no sum over rows at all.
        """
        if identity is not None and identity in self.ids:
            raise DataError(f"the chunk {identity!r} was added before; it is not counted twice")
        try:
            return self._with_chunk(rows, identity)
        finally:
            gc.collect(1)  # graphs are in cycles, and hold the data of the chunk

    def _with_chunk(self, rows: ChunkRows, identity: Any) -> ChunkSum:
        # Two threads add up a product in two parts: a worker of Dask has one, and its digits would be others.
        with lightly(), on_one_thread():
            if self.template is not None:
                rows.require_held_like(self.template.rows)
            rows.require_like(self.kinds)
            known = Derivations() if self.template is None else self.template.known
            reading = read_rows(self.build, rows, known)
            template = self.template or Template.of(self.build, rows.take(first_rows(rows)), KnownLabels(), known)
            template.rows.require_same_constants(rows)
            template = template.with_labels_of(reading, self.before + self.chunks)
            statistics = reading.statistics(template.labels)
            template.require_additive(reading, statistics, self.before + self.chunks)
            tried = is_tried_apart(self.before + self.chunks)
            if found := recurring(self.seen, rows) if tried and self.seen is not None else None:
                template.require_apart(*found, rows.name)
            fixed = reading.fixed(statistics, template.labels)
            self._require_fixed(fixed, template.reading.fixed(statistics, template.labels), rows.name)
            if not statistics.keys() <= self.tried:
                reading.require_equal(statistics, template.labels)
        return replace(
            self,
            template=template,
            statistics=statistics_together(self.statistics, without_wholes(statistics)),
            rows=self.rows + len(rows),
            chunks=self.chunks + 1,
            ids=self.ids if identity is None else self.ids | {identity},
            known_rows=rows_together(self.known_rows, reading.known_rows) if self.known_rows is not None else None,
            kinds=self.kinds or column_kinds(rows),
            fixed=dict(self.fixed) | fixed,
            tried=self.tried | statistics.keys(),
            seen=with_some_of(self.seen, rows),
            changes=self._changes(template),
        )

    def _changes(self, template: Template) -> tuple[str, ...]:
        new = self.template is not None and template is not self.template and template.changed
        return (*self.changes, template.changed) if new else self.changes

    def with_sum(self, other: ChunkSum) -> ChunkSum:
        """The sums of the chunks of both.

        Raises
        ------
        DataError
            If a chunk is known to both.
        NotAdditive
            If their builders are not the same, as far as the rows show that are kept.
        """
        if self.template is None or other.template is None:
            return replace(other, changes=()) if self.template is None else self
        if twice := sorted(map(str, self.ids & other.ids)):
            raise DataError(f"the chunk {twice[0]!r} is in both; it is not counted twice")
        template, own = self.template, other.statistics
        if template.mark == other.template.mark:
            self._require_fixed(dict(other.fixed), other.fixed, "the other sum")
        else:
            with lightly():
                template, own = self._relabelled(other, other.template)
                fixed = template.reading.fixed(own, template.labels)
                self._require_fixed(dict(other.fixed), fixed, "the other sum")
        known = self.known_rows is None or other.known_rows is None
        return replace(
            self,
            template=template,
            statistics=statistics_together(self.statistics, own),
            rows=self.rows + other.rows,
            chunks=self.chunks + other.chunks,
            ids=self.ids | other.ids,
            known_rows=None if known else rows_together(self.known_rows or {}, other.known_rows or {}),
            fixed=dict(self.fixed) | dict(other.fixed),
            tried=self.tried | other.tried,
            changes=self._changes(template),
        )

    def _relabelled(self, other: ChunkSum, template: Template) -> tuple[Template, Statistics]:
        """A template with the labels of both, and the sums of the other one as it numbers them."""
        assert self.template is not None
        reading = self.template.require_same_builder(template)
        both = self.template.with_labels_of(reading, self.before + self.chunks)
        packing = template.labels.packing(reading.model, reading.shapes)
        return both, {
            sign: s.relabelled(lambda name, packed: packing.translated(name, packed, both.labels))
            for sign, s in other.statistics.items()
        }

    def emptied(self, before: int) -> ChunkSum:
        """With what is known of the chunks so far, and none of them: what comes is the ``before``-th and later."""
        return replace(self, statistics={}, rows=0, chunks=0, ids=frozenset(), known_rows={}, before=before)

    def known_by(self, identity: Any) -> ChunkSum:
        """With what the last chunk is known by."""
        return replace(self, ids=self.ids | {identity})

    @property
    def size(self) -> int:
        """Bytes that the sums take."""
        held = [a for s in self.statistics.values() for a in (s.keys, s.total, s.mean, s.scatter) if a is not None]
        return sum(a.nbytes for a in held)

    def scaled(self, factor: float) -> ChunkSum:
        """As of rows that count ``factor`` times each."""
        scaled = {sign: s.scaled(factor) for sign, s in self.statistics.items()}
        return replace(self, statistics=scaled, known_rows=self.known_rows if factor == 1 or not self.rows else None)

    def model(self) -> pm.Model:
        """The model of all rows so far."""
        if self.template is None:
            raise DataError("there is no chunk yet: what the model is, the first one tells")
        with lightly():
            return with_rows(self.template.model(self.statistics), self.known_rows)

    def _require_fixed(self, own: Mapping[str, Any], kept: Mapping[str, Any], name: str) -> None:
        for variable, now in own.items():
            before = self.fixed.get(variable, now)
            for other in (before, kept[variable]):
                lengths = [(a, b) for a, b in zip(now, other, strict=True) if a is not None and b is not None]
                if any(a != b for a, b in lengths):
                    raise NotAdditive(
                        f"{variable!r} has another length or other labels in {name} than in the chunks before it, and "
                        "no labels tell which of its entries are which; give it dims whose coords are the labels"
                    )
