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

from collections.abc import Callable, Hashable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd
import pymc as pm
import xarray as xr

from bayeskit.arguments import Count, RandomSeed, checked
from bayeskit.chunks.sources import chunks_of
from bayeskit.chunks.sums import ChunkSum
from bayeskit.errors import DataError, OptionError
from bayeskit.inference.ladder import answer, infer
from bayeskit.results.log_evidence import LogEvidence, sum_of
from bayeskit.results.records import Posterior
from bayeskit.streams.forecasts import forecast
from bayeskit.streams.saved_stream import read_stream, write_stream

__all__ = ["Stream"]

POWER = "the integral of a power of the likelihood: discounted rows count less"
PENDING = 200_000_000  # bytes of sums that are kept for scores which nobody asked for yet


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
    takes 0.1 to 0.6 seconds beside the time that the rows themselves take, so that chunks of thousands of rows are
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
        # The integrals before and after each chunk, of which the difference is its score; sums until they are needed.
        self._names: list[str] = []
        self._before: list[ChunkSum | LogEvidence] = []
        self._after: list[ChunkSum | LogEvidence] = []
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
        if not isinstance(id, Hashable):
            raise OptionError(f"id is {type(id).__name__}; it must be a text, a number or a date")
        if id is not None and id in now.ids:
            raise DataError(f"the chunk {id!r} was added before; it is not counted twice")
        name = f"chunk {len(self._names) + 1}" if id is None else str(id)
        for rows, own in chunks_of(chunk, self._dim, name):
            now = now.with_chunk(rows, own)
        if now is self._sum:
            raise DataError(f"{name} is empty: it has no rows; leave it out")
        if id is not None:
            now = now.known_by(id)
        self._names.append(str(chunk) if id is None and isinstance(chunk, str | PathLike) else name)
        self._before.append(self._sum)
        self._after.append(now)
        self._sum = now
        self._answers = {}
        if sum(s.size for s in self._after if isinstance(s, ChunkSum)) > PENDING:
            self._settle()

    @checked
    def joined_by(self, other: Stream) -> Stream:
        """A stream of the rows of both, which forecasts those of the other at once; see :func:`bayeskit.combine`."""
        result = Stream(self._sum.build, dim=self._dim)
        result.__dict__.update(self.__dict__ | {"_answers": {}})
        result._names = [*self._names, f"a stream of {other.chunks:,} chunks"]
        result._sum = self._sum.with_sum(other._sum)
        result._before, result._after = [*self._before, self._sum], [*self._after, result._sum]
        return result

    @checked
    def discount(self, factor: float) -> None:
        """Let all rows so far count ``factor`` times, 0 < factor ≤ 1, before the next chunk comes."""
        if not 0 < factor <= 1:
            raise OptionError(f"factor is {factor}; it must be above 0 and at most 1")
        self._sum = self._sum.scaled(factor)
        self._answers = {}

    @property
    def posterior(self) -> Posterior:
        """The posterior of all rows so far, as :func:`bayeskit.infer` gives it with ``random_seed=0``."""
        return self.infer(random_seed=0)

    @checked
    def infer(
        self, *, method: str = "auto", draws: Count = 4000, random_seed: RandomSeed = None, progressbar: bool = True
    ) -> Posterior:
        """The posterior of all rows so far; the arguments are those of :func:`bayeskit.infer`."""
        key = (method, draws, random_seed)
        if key not in self._answers or random_seed is None:
            post = infer(
                self._sum.model(), method=method, draws=draws, random_seed=random_seed, progressbar=progressbar
            )
            if self._sum.known_rows is None:
                post = replace(post, log_evidence=replace(post.log_evidence, convention=POWER))
            self._answers[key] = post
        return self._answers[key]

    @property
    def log_evidence(self) -> LogEvidence:
        """log p of all rows so far: the integral, or with discounts the sum of the scores."""
        if not self.chunks:
            raise DataError("there is no chunk yet: what the model is, the first one tells")
        if all(b is a for b, a in zip(self._before[1:], self._after, strict=False)):
            return self._integral(self._after, -1)
        total = sum_of(self._scores())
        return replace(total, convention="the sum of scores of forecasts from discounted posteriors")

    @property
    def score(self) -> float:
        """The log predictive density of the last chunk before it was seen."""
        if not self.chunks:
            raise DataError("there is no chunk yet, so that nothing was forecast")
        return float(self.scores["score"].iloc[-1])

    @property
    def scores(self) -> pd.DataFrame:
        """Of each chunk ``score``, log p(chunk | those before it), with its ``error`` and ``label``.

        Their sum is the log evidence. What has no closed form is integrated or sampled once for each chunk.
        """
        found = self._scores()
        columns = {name: [getattr(score, name) for score in found] for name in ("value", "error", "label")}
        return pd.DataFrame({"chunk": self._names, **columns}).rename(columns={"value": "score"})

    def _scores(self) -> list[LogEvidence]:
        pairs = [(self._integral(self._before, k), self._integral(self._after, k)) for k in range(len(self._names))]
        return [sum_of([after, replace(before, value=-before.value)]) for before, after in pairs]

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
        return write_stream(self.__dict__ | {"_answers": {}}, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Stream:
        """A stream from a file.

        Raises
        ------
        bayeskit.errors.DataError
            If there is no such file, it is none of a stream, of another version, or damaged.
        """
        stream = cls.__new__(cls)
        stream.__dict__.update(read_stream(path))
        return stream

    def _settle(self) -> None:
        """Put integrals in the place of the sums that were kept for them."""
        for held in (self._before, self._after):
            for k in range(len(held)):
                self._integral(held, k)

    def _integral(self, held: list[ChunkSum | LogEvidence], place: int) -> LogEvidence:
        found = held[place]
        if isinstance(found, LogEvidence):
            return found
        if found.template is None:
            value = LogEvidence(0.0, 0.0, "exact")
        else:
            value = answer(found.model(), random_seed=0).log_evidence
        for both in (self._before, self._after):
            both[:] = [value if one is found else one for one in both]
        return value
