r"""A posterior that goes on as data arrive: each posterior is the prior of the next chunk.

.. math:: p(\theta \mid y_{1:c}) \propto p(\theta \mid y_{1:c-1}) \, p(y_c \mid \theta), \qquad
   \log p(y_{1:n}) = \sum_c \log p(y_c \mid y_{1:c-1})

What is kept of the chunks are the sums that the likelihood takes from them (:mod:`bayeskit.chunks.sums`), so that the
posterior after the last is that of all rows at once, and the evidence is the sum of the scores of forecasts that were
made before each chunk was seen (Dawid, 1984, "Statistical theory: the prequential approach", JRSS A 147).

With a discount :math:`\delta` before chunk c the likelihood of all rows before it counts :math:`\delta` times, a power
prior (Ibrahim and Chen, 2000, "Power prior distributions for regression models", Statistical Science 15) that forgets
at the rate :math:`\delta^k`; each score is then that of the forecast from the discounted posterior.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd
import pymc as pm
import xarray as xr

from bayeskit.arguments import Count, RandomSeed, checked, shown
from bayeskit.chunks.sources import chunks_of
from bayeskit.chunks.sums import ChunkSum
from bayeskit.errors import DataError, ModelError, OptionError
from bayeskit.results.log_evidence import LogEvidence, sum_of, with_convention
from bayeskit.results.records import Posterior
from bayeskit.streams.forecasts import forecast
from bayeskit.streams.power_posterior import infer_summed
from bayeskit.streams.saved_stream import read_stream, write_stream
from bayeskit.streams.sequential_scores import SequentialScores

__all__ = ["Stream"]

SUM = "the sum of scores of forecasts from discounted posteriors"


class Stream:
    """The posterior of rows that come in chunks.

    Parameters
    ----------
    build : callable
        ``build(chunk)`` returns the PyMC model of the rows of a chunk, as it would of all of them. A chunk is a
        ``pandas.DataFrame``, an ``xarray.Dataset``, a mapping of arrays or an array, whichever is given to
        :meth:`update`. Rows are independent given the free variables. Variables of groups have a dim whose coords are
        the labels of the groups in the chunk; new ones may come with later chunks.
    dim : str, optional
        The dim of the rows of a Dataset, where it does not show.

    Notes
    -----
    A model is built of each chunk, and of its rows between some of those before, which tries whether they add up. That
    takes 0.1 to 0.8 seconds beside the time that the rows themselves take, so that chunks of thousands of rows are
    better than chunks of one.

    All rows of a chunk of up to 20,000 are tried, many of the first two chunks, and some of each larger one. What
    nobody can see from here are rows that ``build`` leaves out: which ones must not depend on the others.

    Whatever adds up has an answer: of a Normal likelihood the sums of squares and products, of one with groups those of
    each group, and of a model without sufficient statistics (logistic regression) one number for each distinct row of
    covariates. Where rows do not add up (chains, Gaussian processes over rows, variables of each row) an error says so.

    Examples
    --------
    >>> import numpy as np, pymc as pm, bayeskit as bk
    >>> def build(successes):
    ...     with pm.Model() as model:
    ...         rate = pm.Beta("rate", 1, 1)
    ...         pm.Bernoulli("y", rate, observed=successes)
    ...     return model
    >>> stream = bk.Stream(build)
    >>> stream.update(np.array([1, 0, 1]))
    >>> stream.update(np.array([1, 1]))
    >>> round(stream.log_evidence.value, 4)  # log B(5, 2)
    -3.4012
    """

    @checked
    def __init__(self, build: Callable[[Any], pm.Model], *, dim: str | None = None) -> None:
        self._dim = dim
        self._sum = ChunkSum(build)
        self._scores = SequentialScores()
        self._changed = False  # whether the sum is not what it was after the last chunk
        self._answers: dict[Any, Posterior] = {}

    def __repr__(self) -> str:
        return f"Stream({self.rows:,} rows in {self.chunks:,} chunks)"

    @property
    def rows(self) -> int:
        """How many rows were added."""
        return self._sum.rows

    @property
    def chunks(self) -> int:
        """How many chunks were added; a file that is read in parts has several."""
        return self._sum.chunks

    @checked
    def update(self, chunk: Any, *, id: Any = None) -> None:
        """Add the rows of a chunk.

        Parameters
        ----------
        chunk : pandas.DataFrame, xarray.Dataset, mapping of str to array, numpy.ndarray, or path
            Or the path of a Parquet file or Zarr store, which is read in parts.
        id : hashable, optional
            What the chunk is known by: it is then refused a second time. That of a file is its path.

        Raises
        ------
        bayeskit.errors.DataError
            If the chunk is empty, was added before, lacks a column, has one of another kind, missing values or values
            that are impossible under the model, or cannot be read; the message names it, and the stream is as it was.
        bayeskit.errors.ModelError
            If no model can be built of the chunk, or its rows do not add up.
        """
        now = self._sum
        _require_identity(id)
        if id is not None and id in now.ids:
            raise DataError(f"the chunk {id!r} was added before; it is not counted twice")
        named = id if isinstance(id, str) else f"chunk {id}"
        name = f"chunk {len(self._scores.names) + 1}" if id is None else named
        for rows, own in chunks_of(chunk, self._dim, name):
            now = now.with_chunk(rows, own)
        if now is self._sum:
            raise DataError(f"{name} is empty: it has no rows; leave it out")
        if id is not None:
            now = now.known_by(id)
        self._add(str(chunk) if id is None and isinstance(chunk, str | PathLike) else name, now)

    @checked
    def joined_by(self, other: Stream) -> Stream:
        """A stream of the rows of both, which forecasts those of the other at once; see :func:`bayeskit.combine`."""
        result = copy(self)
        discounted = other.chunks and other._sum.known_rows is None
        why = "its rows were discounted" if discounted else ""
        result._add(f"a stream of {other.chunks:,} chunks", self._sum.with_sum(other._sum), why)
        return result

    def __copy__(self) -> Stream:
        """A stream that has seen the same, and goes on by itself."""
        result = Stream(self._sum.build, dim=self._dim)
        result.__dict__.update(self.__dict__ | {"_scores": self._scores.copy(), "_answers": {}})
        return result

    def _add(self, name: str, now: ChunkSum, why: str = "") -> None:
        """Go on with another sum; ``why`` its score would be none."""
        changes = now.changes[len(self._sum.changes) :]
        before = self._sum if self._changed or not self._scores.names else None
        self._scores.add(name, before, now, why or "; ".join(dict.fromkeys(changes)))
        self._sum, self._changed, self._answers = now, False, {}

    @checked
    def discount(self, factor: float) -> None:
        """Let all rows so far count ``factor`` times, 0 < factor ≤ 1, before the next chunk comes."""
        if not 0 < factor <= 1:
            raise OptionError(f"factor is {factor}; it must be above 0 and at most 1")
        self._sum = self._sum.scaled(factor)
        self._changed, self._answers = self._changed or factor != 1, {}

    @property
    def posterior(self) -> Posterior:
        """The posterior of all rows so far, as :func:`bayeskit.infer` gives it with ``random_seed=0``."""
        return self.infer(random_seed=0)

    @checked
    def infer(
        self, *, method: str = "auto", draws: Count = 4000, random_seed: RandomSeed = None, progressbar: bool = True
    ) -> Posterior:
        """The posterior of all rows so far; the arguments are those of :func:`bayeskit.infer`."""
        # A generator of numbers is another seed each time that it is asked.
        key = (method, draws, random_seed) if isinstance(random_seed, int) else None
        if key is None or key not in self._answers:
            post = infer_summed(
                self._sum.model(), method=method, draws=draws, random_seed=random_seed, progressbar=progressbar
            )
            if key is None:
                return post
            self._answers[key] = post
        return self._answers[key]

    @property
    def log_evidence(self) -> LogEvidence:
        """log p of all rows so far: the integral, or with discounts the sum of the scores."""
        if not self.chunks:
            raise DataError("there is no chunk yet: what the model is, the first one tells")
        if self._sum.known_rows is not None:
            return self._scores.last_integral
        return with_convention(sum_of(self._scores.all()), SUM)

    @property
    def score(self) -> float:
        """The log predictive density of the last chunk before it was seen; a ModelError where it has none."""
        if not self.chunks:
            raise DataError("there is no chunk yet, so that nothing was forecast")
        last = self._scores.score(-1)
        if last.reason:
            raise ModelError(f"{self._scores.names[-1]} has no score: {last.reason}")
        return last.value

    @property
    def scores(self) -> pd.DataFrame:
        """Of each chunk ``score``, log p(chunk | those before it), with its ``error`` and ``label``.

        Their sum is the log evidence; of a model with a Potential the first is that of the joint density as written.
        What has no closed form is integrated or sampled once for each chunk.

        A chunk is not forecast, and its score NaN, where the prior of the labels before it is another one than the
        marginal of that with its own (a random walk over days, one of which comes between others), or where it is a
        stream whose rows were discounted: a column ``reason`` then says so.
        """
        found = self._scores.all()
        wanted = ["value", "error", "label", *(["reason"] if any(score.reason for score in found) else [])]
        columns = {name: [getattr(score, name) for score in found] for name in wanted}
        return pd.DataFrame({"chunk": self._scores.names, **columns}).rename(columns={"value": "score"})

    @checked
    def predict(self, data: Any, *, draws: Count = 4000, random_seed: RandomSeed = None) -> xr.Dataset:
        """Draws of the observed variables at new rows, from the posterior predictive distribution.

        Parameters
        ----------
        data : as the chunks
            The new rows. Columns that are only observed may be left out.
        draws : int, default 4000
        random_seed : int, optional

        Returns
        -------
        xarray.Dataset
            With ``chain`` and ``draw`` before the dims of the observed variables.
        """
        if self._sum.template is None:
            raise DataError("there is no chunk yet: what the model is, the first one tells")
        post = self.infer(draws=draws, random_seed=random_seed, progressbar=False)
        return forecast(self._sum.template, post, data, self._dim, random_seed)

    @checked
    def save(self, path: str | PathLike[str]) -> Path:
        """Write the stream to a file, whole or not at all; ``Stream.load(path)`` goes on with the same digits.

        The file holds ``build`` itself, as cloudpickle has it: load only files that you trust.
        """
        return write_stream(self.__dict__ | {"_answers": {}}, self._sum, path)

    @classmethod
    @checked
    def load(cls, path: str | PathLike[str]) -> Stream:
        """A stream from a file. Of a ``build`` in a module the file has the name, and what is there now is asked.

        Raises
        ------
        bayeskit.errors.DataError
            If there is no such file, it is none of a stream, of another version, or damaged.
        bayeskit.errors.ModelError
            If ``build`` does not give the rows that were kept the model that they had.
        """
        stream = cls.__new__(cls)
        stream.__dict__.update(read_stream(path))
        return stream


def _require_identity(identity: Any) -> None:
    """An OptionError where something cannot be told again: it has no hash, or is not equal to itself."""
    try:
        again = hash(identity) is not None and bool(identity == identity)
    except (TypeError, ValueError):
        again = False
    if not again:
        raise OptionError(f"id is {shown(identity)}; it must be a text, a number or a date")
