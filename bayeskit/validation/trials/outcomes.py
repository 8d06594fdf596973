"""One sampler on one reference posterior: its draws, tested scalar by scalar, or why there are none."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

import numpy as np
import xarray as xr

from bayeskit.arguments import seed_of
from bayeskit.errors import DataError
from bayeskit.graphs.environment import on_one_thread
from bayeskit.sampling.named_samplers import NamedSampler, Settings
from bayeskit.terminal import let_alarms_through, quiet
from bayeskit.validation.against_exact import scalar_tests
from bayeskit.validation.references.reference_posterior import ReferencePosterior
from bayeskit.validation.statistics import ScalarTests
from bayeskit.validation.trials.time_limit import at_most

__all__ = ["JudgedScalar", "SamplerOutcome", "judged_draws", "outcome_of"]

Ended = Literal["drawn", "failed", "not applicable"]
NOT_FINITE = "not finite"
DISCRETE = "it has discrete parameters"
LONGEST = 300  # letters of what a sampler says


@dataclass(frozen=True)
class JudgedScalar:
    """One scalar of a reference: its moments, exact and drawn, and the tests."""

    name: str
    exact_mean: float
    mcmc_mean: float
    exact_sd: float
    mcmc_sd: float
    tests: ScalarTests


@dataclass(frozen=True)
class SamplerOutcome:
    """What one sampler did on one reference."""

    sampler: str
    reference: str
    group: str
    ended: Ended
    reason: str = ""  # why there are no draws
    scalars: tuple[JudgedScalar, ...] = ()
    chains: int = 0
    draws: int = 0  # of each chain
    divergences: int | None = None
    seconds: float = 0.0

    def written(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> SamplerOutcome:
        """From what :meth:`written` gave; a ValueError where it is something else."""
        try:
            scalars = [JudgedScalar(**{**row, "tests": ScalarTests(**row["tests"])}) for row in written["scalars"]]
            found = cls(**{**written, "scalars": tuple(scalars)})
        except (KeyError, TypeError) as error:
            raise ValueError(f"it is no result of a trial ({error})") from error
        numbers = [getattr(s.tests, f.name) for s in scalars for f in fields(ScalarTests) if f.type == "float"]
        if found.ended not in get_args(Ended) or not all(isinstance(x, int | float) for x in numbers):
            raise ValueError("it is no result of a trial")
        return found


def outcome_of(
    sampler: NamedSampler, reference: ReferencePosterior, settings: Settings, time_limit: float | None = None
) -> SamplerOutcome:
    """Have a sampler draw from a reference; whatever it raises is an outcome, and so is too long a time.

    The seed is that of the trial, of this sampler and of this reference, whatever else is tried.
    """
    found = SamplerOutcome(sampler.name, reference.name, reference.group, "not applicable", DISCRETE)
    if reference.discrete and not sampler.discrete:
        return found
    posterior = reference.posterior  # before the clock starts, and an error here is no sampler's
    seed = seed_of(settings.seed, sampler.name, reference.name)
    started = _processor_seconds()
    try:
        with on_one_thread(), quiet(logging.CRITICAL), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a sampler warns of is no verdict
            model = posterior.model if sampler.of_answer else reference.build()
            with at_most(time_limit):
                given = sampler.sample(model, replace(settings, seed=seed))
    except (Exception, SystemExit) as error:  # whatever a sampler of somebody else's raises, also to end the program
        let_alarms_through(error)
        said = " ".join(str(error).split())[:LONGEST]
        seconds = _processor_seconds() - started
        return replace(found, ended="failed", reason=f"{type(error).__name__}: {said}", seconds=seconds)
    found = replace(found, ended="drawn", reason="", seconds=_processor_seconds() - started)
    return judged_draws(found, reference, given, seed)


def judged_draws(found: SamplerOutcome, reference: ReferencePosterior, draws: Any, seed: int) -> SamplerOutcome:
    """An outcome with its draws tested, or why they are none."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numbers that overflow are said below
            rows, tests, (chains, number) = scalar_tests(reference.posterior, draws, None, seed)
    except DataError as error:
        return replace(found, ended="failed", reason=str(error)[:LONGEST])
    scalars = tuple(
        JudgedScalar(str(row.pop("name")), **{n: float(x) for n, x in row.items()}, tests=test)
        for row, test in zip(rows, tests, strict=True)
    )
    for scalar in scalars:
        if NOT_FINITE in scalar.tests.problem or "draws a chain" in scalar.tests.problem:
            return replace(found, ended="failed", reason=f"{scalar.name}: {scalar.tests.problem}")
    return replace(found, scalars=scalars, chains=chains, draws=number, divergences=_divergences(draws))


def _divergences(draws: Any) -> int | None:
    """How many, where it is said."""
    if not isinstance(draws, xr.DataTree) or "sample_stats" not in draws.children:
        return None
    stats = draws["sample_stats"]
    told = "diverging" in stats and stats["diverging"].dtype.kind in "biuf"
    return int(stats["diverging"].sum()) if told else None


def _processor_seconds() -> float:
    """Of this process and of those that it started, and that have ended."""
    return sum(os.times()[:4])
