r"""One posterior from posteriors of different rows.

.. math:: p(\theta \mid y_1, \dots, y_K) \propto p(\theta) \prod_k p(y_k \mid \theta)
   = p(\theta)^{1 - K} \prod_k p(y_k) \, p(\theta \mid y_k)

Rows that were inferred from apart, by forty workers say, count together, and the prior once.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from functools import reduce
from typing import Any

import pymc as pm
import pytensor.tensor as pt

from bayeskit.arguments import Count, RandomSeed, checked
from bayeskit.chunks.labels import KnownLabels
from bayeskit.chunks.reading import Reading, Statistics
from bayeskit.chunks.rows import ChunkRows
from bayeskit.chunks.summed_model import summed_model
from bayeskit.chunks.template import statistics_together
from bayeskit.errors import ModelError
from bayeskit.graphs.environment import lightly
from bayeskit.graphs.rewriting import substitute
from bayeskit.model.data_slots import with_constants
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.snapshot import restored
from bayeskit.model.summed_likelihood import (
    SummedRows,
    is_discounted,
    is_summed,
    known_rows,
    rows_together,
    sum_rounding,
    with_rows,
)
from bayeskit.results.records import Posterior
from bayeskit.streams.power_posterior import infer_summed
from bayeskit.streams.row_variables import require_groups
from bayeskit.streams.stream import Stream

__all__ = ["combine"]


@checked
def combine(
    posteriors: Sequence[Posterior | Stream],
    *,
    method: str = "auto",
    draws: Count = 4000,
    random_seed: RandomSeed = None,
    progressbar: bool = True,
) -> Posterior | Stream:
    """The posterior of the rows of several posteriors, whose models have the same priors, or one stream of several.

    Parameters
    ----------
    posteriors : sequence of Posterior, or of Stream
        Of different rows, which are independent given the free variables: that they are nobody can check. Streams may
        have seen other groups each, and no chunk that is known by an ``id`` twice.
    method, draws, random_seed, progressbar
        As of :func:`bayeskit.infer`.

    Returns
    -------
    Posterior or Stream
        As of one model of all rows: exact where that has a closed form. Of streams the one that has seen all of their
        rows, to go on with.

    Raises
    ------
    ModelError
        If the models differ in their free variables, the shapes, labels or priors of these, or a Potential; if the
        likelihood of one is no sum over rows, or a variable has an entry for each row; or if one posterior is there
        twice or has no model.
    DataError
        If a chunk is in two streams.

    Examples
    --------
    >>> halves = [bk.infer(build(rows)) for rows in (first, second)]
    >>> both = bk.combine(halves)
    """
    if not posteriors:
        raise ModelError("there are no posteriors to combine")
    streams = [post for post in posteriors if isinstance(post, Stream)]
    if streams and len(streams) < len(posteriors):
        raise ModelError("some are streams and some are posteriors: combine these with these, and those with those")
    if any(a is b for k, a in enumerate(streams) for b in streams[:k]):
        raise ModelError("a stream is there twice; its rows would be counted twice")
    if streams:
        return reduce(Stream.joined_by, streams[1:], copy(streams[0]))
    return _combined(
        [post for post in posteriors if isinstance(post, Posterior)],
        method=method,
        draws=draws,
        random_seed=random_seed,
        progressbar=progressbar,
    )


def _combined(posteriors: Sequence[Posterior], **options: Any) -> Posterior:
    for k, post in enumerate(posteriors):
        if any(post is other for other in posteriors[:k]):
            raise ModelError(f"posterior {k + 1} is there twice; its rows would be counted twice")
        if not isinstance(post.model, pm.Model):
            raise ModelError(f"posterior {k + 1} was loaded from a file, which has no model; infer it anew")
    with lightly():
        readings = [_read(post, f"posterior {k}") for k, post in enumerate(posteriors, 1)]
        first = readings[0]
        if len(readings) > 1:
            require_groups(readings)
        labels = KnownLabels().extended(first.labels)
        statistics: Statistics = {}
        densities: list[Any] = []
        of_rows: set[str] = set()
        for reading in readings:
            of_rows |= _require_same(first, reading)
            statistics = statistics_together(statistics, reading.statistics(labels))
            if reading is not first:
                densities += _summed_before(reading, first)
        roundings = [_rounding_before(post, first) for post in posteriors]
        model = summed_model(first, labels, statistics, of_rows, densities, roundings)
        known = [known_rows(p.model) or r.known_rows for p, r in zip(posteriors, readings, strict=True)]
        _warn_of_same_rows(known)
        discounted = any(is_discounted(post.model) for post in posteriors)
        with_rows(model, None if discounted else reduce(rows_together, known))
    return infer_summed(model, **options)


def _warn_of_same_rows(known: Sequence[Mapping[str, SummedRows]]) -> None:
    """Numbers that are the same to the last bit; of counts two tables may well have the same."""
    for k, rows in enumerate(known):
        continuous = rows and all(r.discrete is False for r in rows.values())
        if continuous and any(rows == other for other in known[:k]):
            warnings.warn(
                f"posterior {k + 1} has the observed values of one before it, to the last digit: if they are the same "
                "rows, they are counted twice",
                stacklevel=4,
            )


def _read(post: Posterior, name: str) -> Reading:
    with restored(post.snapshot):
        joint = LogJoint.from_model(with_constants(post.model, containers=False))
    return Reading(ChunkRows(None, name), joint)


def _require_same(first: Reading, other: Reading) -> set[str]:
    """The Deterministics that are not the same; a ModelError where anything else is not."""
    if list(first.latents) != list(other.latents):
        raise ModelError(
            f"{other.rows.name} has the free variables {', '.join(other.latents)}, and {first.rows.name} has "
            f"{', '.join(first.latents)}"
        )
    for name, shape in first.shapes.items():
        if other.shapes[name] != shape:
            raise ModelError(
                f"{name!r} has the shape {other.shapes[name]} in {other.rows.name} and {shape} in {first.rows.name}: "
                "where these are other groups, add the rows up with bk.Stream, which knows them by their labels"
            )
    for dim, index in first.labels.items():
        if dim not in other.labels or not index.equals(other.labels[dim]):
            raise ModelError(
                f"the dim {dim!r} has other labels in {other.rows.name} than in {first.rows.name}; add the rows up "
                "with bk.Stream"
            )
    ignored = {n for n in (*first.unobserved, *other.unobserved) if is_summed(n)}
    names = (first.unobserved.keys() | other.unobserved.keys()) - ignored
    different = {n for n in names if first.unobserved.get(n) != other.unobserved.get(n)}
    deterministics = {*first.joint.deterministics, *other.joint.deterministics}
    if wrong := sorted(different - deterministics):
        raise ModelError(
            f"{wrong[0]!r} has another density in {other.rows.name} than in {first.rows.name}: combine posteriors of "
            "the same prior"
        )
    return different


def _rounding_before(post: Posterior, first: Reading) -> Any:
    """What likelihoods that were added up before are off, as a graph of the variables of the first posterior."""
    found = sum_rounding(post.model)
    if found is None:
        return pt.constant(0.0)
    return substitute([found.graph], {found.variables[n]: v for n, v in first.latents.items()})[0]


def _summed_before(reading: Reading, first: Reading) -> list[Any]:
    """Likelihoods that were added up before, as graphs of the variables of the first posterior."""
    places = {reading.joint.values[n]: v for n, v in first.latents.items()}
    return [pt.sum(substitute([g], places)[0]) for n, g in reading.joint.factors.items() if is_summed(n)]
