r"""Simulation-based calibration: does a method give the posterior that it says, over data sets that the model makes?

.. math:: \theta^\ast \sim p(\theta), \quad y \sim p(y \mid \theta^\ast) \;\Longrightarrow\;
          \theta^\ast \mid y \sim p(\theta \mid y)

so that F(θ* | y) is uniform whatever the model. :func:`calibrate` draws many such pairs, has each posterior computed,
and tests the values for uniformity. Where the marginal posterior has a closed form there is no Monte Carlo noise in
them; else they are ranks among independent draws.

``simuk`` does this for ``pymc.sample``: a compilation and a run of NUTS for each data set, in one process. Here a
closed form answers in milliseconds, compiled functions are shared, ranks and their tests are exact, and a run can be
interrupted.

Beside the free variables three quantities of all of them together are ranked, for they see what each alone does not
(:mod:`bayeskit.validation.calibration.likelihood_quantities`), and a new observation of each observed variable, for the
intervals that are predicted (:mod:`bayeskit.validation.calibration.new_observations`). The tests of location, spread
and distribution are exact for every number of data sets; all of them together are corrected by Holm's method. What they
cannot see: a dependence between parameters that is wrong while each alone is right (name a difference, or a product, in
``quantities``), and an error where the prior hardly ever goes.

Cost: a Beta–Binomial model 10 to 20 ms a data set, a regression 25 ms, quadrature over one number 100 ms, NUTS seconds.

Source: Cook, Gelman and Rubin (2006), JCGS 15; Talts et al. (2018), arXiv:1804.06788; Modrák et al. (2025), Bayesian
Analysis 20.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import pymc as pm

from bayeskit.arguments import Count, Probability, RandomSeed, Range, checked, whole_seed
from bayeskit.errors import InferenceError, OptionError
from bayeskit.graphs.copies import CopyEnded, can_copy, in_copies
from bayeskit.inference.methods import method_names
from bayeskit.jobs.checkpoint import add_line, appending, finished
from bayeskit.jobs.clients import current_client, require_client
from bayeskit.jobs.on_cluster import on_cluster, willing_client
from bayeskit.model.mark import mark_of
from bayeskit.terminal import interruptible, watched
from bayeskit.validation.calibration.experiment import Experiment, Repeated, Repetition
from bayeskit.validation.calibration.record import Calibration, calibration_of
from bayeskit.validation.calibration.repeated_comparison import RepeatedComparison
from bayeskit.validation.calibration.repeated_inference import RepeatedInference
from bayeskit.validation.prepared_processes import in_prepared_processes

__all__ = ["calibrate"]


@checked
def calibrate(
    model: pm.Model | Mapping[str, pm.Model],
    *,
    method: str | Callable[..., Any] = "auto",
    datasets: Annotated[int, Range(2, 10**6)] = 200,
    draws: Count | None = None,
    quantities: Mapping[str, Callable[..., Any]] | None = None,
    generator: pm.Model | None = None,
    alpha: Probability = 0.01,
    processes: Annotated[int, Range(1, 1024)] = 1,
    client: Any = None,
    checkpoint: str | Path | None = None,
    random_seed: RandomSeed = None,
    progressbar: bool = True,
) -> Calibration:
    """Calibrate a method on data sets drawn from a model: are its posteriors right on average?

    Parameters
    ----------
    model : pymc.Model, or mapping of str to pymc.Model
        With proper priors. Missing entries stay missing, ``pm.Data`` keep their values, predictions of observations
        are left out. Of several models by name, of the same variables, the model probabilities are calibrated.
    method : str or callable, default "auto"
        A method of :func:`bayeskit.infer`, or ``sampler(model, seed)``: of a plain model of one data set, the draws.
    datasets : int, default 200
        N. A posterior whose sd is wrong by 10 % shows from some 500.
    draws : int, optional
        Of each posterior: by default 200 independent ones, or 1,000 of a sampler, thinned to their effective size.
    quantities : mapping of str to callable, optional
        Functions of a Dataset of draws, Deterministics among them: ``{"ratio": lambda d: d["a"] / d["b"]}``.
    generator : pymc.Model, optional
        What parameters and data are drawn from, where it is another: an analysis whose assumptions are wrong.
    alpha : float, default 0.01
        Probability that a right method fails any test of any quantity.
    processes, client : int, default 1, and dask.distributed.Client, optional
        Who takes the data sets: processes, in a script under ``if __name__ == "__main__":``, or workers, of the current
        client where there is one. The numbers do not depend on it.
    checkpoint : path, optional
        A file that each result is written to. Run again, what is in it is not computed again.
    random_seed : int, sequence of int or numpy.random.Generator, optional
        Data set k depends on it and on k only: more data sets go on where fewer ended.
    progressbar : bool, default True

    Raises
    ------
    ModelError
        If the model's density is not that of what PyMC draws: improper priors, Potentials, transforms that cut a prior.
    OptionError
        If an argument is out of range, or the checkpoint is of another run.
    InferenceError
        If no data set had an answer.

    Examples
    --------
    >>> bk.calibrate(model, method=lambda m, seed: pm.sample(model=m, random_seed=seed)).passed  # doctest: +SKIP
    """
    if isinstance(method, str) and method not in method_names():
        raise OptionError(f"method is {method!r}; it must be one of {', '.join(method_names())}, or a function")
    experiment = Experiment(model, generator, method, draws, dict(quantities or {}), whole_seed(random_seed))
    return _calibrated(experiment, datasets, alpha, require_client(client) or processes, checkpoint, progressbar)


def _require_arguments(sampler: Callable[..., Any]) -> None:
    """That a sampler can be called with a model and a seed; what has no signature is called."""
    known = None
    with suppress(ValueError):
        known = signature(sampler)
    try:
        if known is not None:
            known.bind(None, 0)
    except TypeError as error:
        raise OptionError(f"method is called as method(model, seed), and cannot be: {error}") from error


def _calibrated(
    experiment: Experiment, datasets: int, alpha: float, side: Any, checkpoint: str | Path | None, bar: bool
) -> Calibration:
    path = None if checkpoint is None else Path(checkpoint)
    if callable(experiment.method):
        _require_arguments(experiment.method)
    with interruptible():
        repeated = _repeated(experiment)
        header = {} if path is None else {**repeated.fingerprint(), "models": _marks(experiment)}
        done = [] if path is None else [r for r in _read_from(path, header) if r.dataset < datasets]
        left = sorted(set(range(datasets)) - {r.dataset for r in done})
        # The processes are there before the bar is, which has a thread of its own.
        file_of = nullcontext() if path is None else appending(path, header)
        with file_of as file, _results(repeated, left, side) as results:
            for repetition in watched(results, "data sets", bar, len(left)):
                if file is not None:
                    add_line(file, repetition.written())
                done.append(repetition)
    done.sort(key=lambda r: r.dataset)
    if all(r.failure for r in done):
        raise InferenceError(f"none of {datasets} data sets had an answer; of the first: {done[0].failure}")
    chains = repeated.of_chains if any(r.method == "nuts" for r in done) else []
    return calibration_of(done, alpha, experiment.random_seed, [*repeated.notes, *chains])


def _marks(experiment: Experiment) -> list[str]:
    """Of the models that are drawn from and inferred: what acts in some data sets only is no part of the first one."""
    given = experiment.model
    models = [*given.values()] if isinstance(given, Mapping) else [given]
    return [mark_of(m) for m in [*models, experiment.generator] if m is not None]


def _read_from(path: Path, header: Mapping[str, Any]) -> list[Repetition]:
    """What a checkpoint holds, each data set once: two runs may have written to it."""
    found: dict[int, Repetition] = {}
    for line, row in enumerate(finished(path, header), 2):
        try:
            repetition = Repetition.read(row)
        except ValueError as error:
            raise OptionError(
                f"the checkpoint {path}, line {line}: {error}; remove it, or name another file"
            ) from error
        found.setdefault(repetition.dataset, repetition)
    return list(found.values())


def _repeated(experiment: Experiment) -> Repeated:
    several = isinstance(experiment.model, Mapping)
    return RepeatedComparison(experiment) if several else RepeatedInference(experiment)


@contextmanager
def _results(repeated: Repeated, left: list[int], side: Any) -> Iterator[Iterator[Repetition]]:
    """What is still to be computed, as it comes: by a number of processes, or by the workers of a client."""
    client = None if isinstance(side, int) else side
    processes = side if isinstance(side, int) else 1
    if client is None and processes == 1 and len(left) > 1:
        client = willing_client(current_client(), (_repetition_of, repeated.of))
    if client is not None and len(left) > 1:
        yield on_cluster(client, _repetition_of, repeated.of, left, "bayeskit-data-set")
    elif processes == 1 or len(left) < 2:
        yield map(repeated.repetition, left)
    elif can_copy():
        try:
            with in_copies(repeated.repetition, left, processes) as results:
                yield results
        except CopyEnded as error:
            raise InferenceError(f"{error}: if memory was short, use fewer processes") from error
    else:
        yield in_prepared_processes(_repetition_of, repeated.of, left, processes, repeated.repetition)


def _repetition_of(experiment: Experiment) -> Callable[[int], Repetition]:
    return _repeated(experiment).repetition
