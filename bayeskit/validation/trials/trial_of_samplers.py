r"""A sampler against every reference posterior: does it draw from the posteriors that are known?

.. math:: z = \frac{\hat s - s}{\mathrm{mcse}(\hat s)}

Each scalar of each reference gets the tests of :func:`bayeskit.validation.judge`, against closed-form marginals: mean,
sd and distribution function in the draws' own Monte Carlo standard errors, and its most extreme draw. All tests of one
sampler are corrected together (:mod:`bayeskit.validation.trials.verdicts`), and with them one of all references
together, which sees an sd that is off by one per cent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from bayeskit.arguments import Count, Positive, Probability, RandomSeed, Range, checked, shown, whole_seed
from bayeskit.errors import OptionError
from bayeskit.graphs.identity import digest_of
from bayeskit.jobs.checkpoint import add_line, appending, finished
from bayeskit.jobs.clients import current_client, require_client
from bayeskit.jobs.on_cluster import on_cluster, willing_client
from bayeskit.sampling.named_samplers import NamedSampler, Settings, contenders
from bayeskit.terminal import interruptible, watched
from bayeskit.validation.prepared_processes import in_prepared_processes
from bayeskit.validation.references.collection import reference_posteriors
from bayeskit.validation.references.reference_posterior import ReferencePosterior
from bayeskit.validation.trials.outcomes import SamplerOutcome, outcome_of
from bayeskit.validation.trials.scoreboard import Trial, trial_of

__all__ = ["trial"]


@checked
def trial(
    sampler: Any,
    *,
    references: str | Sequence[Any] | None = None,
    draws: Annotated[int, Range(4, 10**7)] = 1000,
    chains: Annotated[int, Range(1, 1000)] = 4,
    tune: Count = 1000,
    level: Probability = 0.01,
    time_limit: Positive | None = None,
    processes: Annotated[int, Range(1, 1024)] = 1,
    client: Any = None,
    checkpoint: str | Path | None = None,
    random_seed: RandomSeed = None,
    progressbar: bool = True,
) -> Trial:
    """Try samplers on posteriors that are known exactly, or to quadrature.

    Parameters
    ----------
    sampler : str, callable, or a sequence or mapping by name of them
        A name: ``exact`` (independent draws of bayeskit, right by definition), ``nuts`` (PyMC's), ``nutpie``,
        ``numpyro``, ``blackjax``, ``metropolis``, ``slice``, ``demetropolisz``, ``smc``, ``advi``, ``fullrank_advi``,
        ``pathfinder``, ``laplace``; ``module:function``; or a function ``sampler(model, seed)`` of a plain PyMC model,
        which gives draws as a DataTree, a Dataset or a mapping of arrays (chain, draw, ...).
    references : str or sequence, optional
        Names, groups, or :class:`ReferencePosterior` objects; by default all.
    draws, chains, tune : int, default 1000, 4 and 1000
        What samplers by name are asked for, draws and warm-up of each chain; what fits a density gives as many
        independent draws of it.
    level : float, default 0.01
        Probability that a sampler which is right on every reference is called wrong on any.
    time_limit : float, optional
        Seconds of processor time that a sampler may take on one reference; beyond them it has failed there.
    processes, client : int, default 1, and dask.distributed.Client, optional
        Who draws: processes, in a script under ``if __name__ == "__main__":``, or workers, of the current client where
        there is one and no ``time_limit``. The draws do not depend on it.
    checkpoint : path, optional
        A file that each result is written to as it comes. Run again, what is in it is not drawn again.
    random_seed : int, sequence of int or numpy.random.Generator, optional
        The draws of a sampler on a reference depend on it and on these two only.
    progressbar : bool, default True

    Raises
    ------
    OptionError
        If a sampler or a reference is not known, what it needs is not installed, or the checkpoint is of another run.

    Notes
    -----
    A verdict is right, wrong, undecided (too few effective draws to tell), failed or not applicable. It costs what the
    samplers cost: for NUTS of PyMC mostly compilation, some seconds a reference. It cannot see a wrong dependence
    between scalars that are all right alone.

    Examples
    --------
    >>> print(bk.trial(["nutpie", "metropolis"], references="funnels", random_seed=1))  # doctest: +SKIP
    """
    settings = Settings(draws, chains, tune, whole_seed(random_seed))
    work = _Work(contenders(sampler), _references(references), settings, time_limit)
    return work.run(level, require_client(client) or processes, checkpoint, progressbar)


type Job = tuple[str, str]  # a sampler and a reference


@dataclass(frozen=True, eq=False)
class _Work:
    """What is to be drawn."""

    samplers: tuple[NamedSampler, ...]
    references: tuple[ReferencePosterior, ...]
    settings: Settings
    time_limit: float | None

    @property
    def asked(self) -> dict[str, Any]:
        """What the outcomes depend on."""
        limit = {} if self.time_limit is None else {"time_limit": self.time_limit}
        return asdict(self.settings) | limit

    @property
    def jobs(self) -> list[Job]:
        """One reference after the other, so that its answer is found once."""
        return [(s.name, r.name) for r in self.references for s in self.samplers]

    def outcome(self, job: Job) -> SamplerOutcome:
        (sampler,) = (s for s in self.samplers if s.name == job[0])
        (reference,) = (r for r in self.references if r.name == job[1])
        return outcome_of(sampler, reference, self.settings, self.time_limit)

    def run(self, level: float, side: Any, checkpoint: str | Path | None, bar: bool) -> Trial:
        outcomes = self.outcomes(side, None if checkpoint is None else Path(checkpoint), bar)
        order = {job: number for number, job in enumerate(self.jobs)}
        outcomes.sort(key=lambda outcome: order[outcome.sampler, outcome.reference])
        asked = {"random_seed" if name == "seed" else name: value for name, value in self.asked.items()}
        return trial_of(outcomes, level, asked)

    def outcomes(self, side: Any, path: Path | None, bar: bool) -> list[SamplerOutcome]:
        """All of them, those of a checkpoint first."""
        header = {"trial": str(import_module("bayeskit").__version__), **self.asked}
        marks = {} if path is None else self.marks()
        done = {} if path is None else _read_from(path, header, marks)
        done = {job: done[job] for job in self.jobs if job in done}
        left = [job for job in self.jobs if job not in done]
        found = list(done.values())
        with interruptible(), nullcontext() if path is None else appending(path, header) as file:
            for outcome in watched(self._drawn(left, side), "samplers on references", bar, len(left)):
                if file is not None:
                    add_line(file, {"mark": marks[outcome.sampler, outcome.reference], **outcome.written()})
                found.append(outcome)
        return found

    def marks(self) -> dict[Job, str]:
        """By what each sampler and reference are known again; of users' own by what they are made of."""
        samplers = {s.name: digest_of(s.made_of) for s in self.samplers}
        references = {r.name: digest_of((r.build, r.solved)) for r in self.references}
        return {(s, r): f"{samplers[s]} {references[r]}" for s, r in self.jobs}

    def _drawn(self, left: list[Job], side: Any) -> Iterator[SamplerOutcome]:
        """By a number of processes, or by the workers of a client."""
        client = None if isinstance(side, int) else side
        if self.time_limit is not None and client is not None:
            raise OptionError("time_limit is for processes of this machine; leave it or client out")
        if side == 1 and self.time_limit is None and len(left) > 1:
            client = willing_client(current_client(), (_outcome_of, self))
        if client is not None and len(left) > 1:
            return on_cluster(client, _outcome_of, self, left, "bayeskit-trial")
        if side == 1 or len(left) < 2:
            return map(self.outcome, left)
        return in_prepared_processes(_outcome_of, self, left, side)


def _outcome_of(work: _Work) -> Callable[[Job], SamplerOutcome]:
    return work.outcome


def _read_from(path: Path, header: dict[str, Any], marks: dict[Job, str]) -> dict[Job, SamplerOutcome]:
    """What a checkpoint holds of samplers and references as they are now: one may have been changed since."""
    found: dict[Job, SamplerOutcome] = {}
    for line, row in enumerate(finished(path, header), 2):
        try:
            mark = row.pop("mark")
            outcome = SamplerOutcome.read(row)
        except (AttributeError, KeyError, ValueError) as error:
            what = f"the checkpoint {path}, line {line}: {error}"
            raise OptionError(f"{what}; remove it, or name another file") from error
        if marks.get((outcome.sampler, outcome.reference)) == mark:
            found[outcome.sampler, outcome.reference] = outcome
    return found


def _references(given: str | Sequence[Any] | None) -> tuple[ReferencePosterior, ...]:
    """Those that are named, of the groups that are named, and those that are given."""
    if given is None:
        return reference_posteriors()
    asked = (given,) if isinstance(given, str) else tuple(given)
    every = reference_posteriors()
    groups = dict.fromkeys(r.group for r in every)
    found: dict[str, ReferencePosterior] = {}
    for one in asked:
        named = [r for r in every if isinstance(one, str) and one in (r.name, r.group)]
        chosen = [one] if isinstance(one, ReferencePosterior) else named
        if not chosen:
            near = get_close_matches(str(one), [*groups, *(r.name for r in every)], 3)
            known = f"did you mean {' or '.join(near)}? " if near else ""
            known += (
                f"{'The' if near else 'the'} groups are {', '.join(groups)}; `bayeskit reference list` has the names"
            )
            raise OptionError(f"references: no reference or group {shown(one)}: {known}")
        for reference in chosen:
            if found.setdefault(reference.name, reference) is not reference:
                raise OptionError(f"references: two are called {reference.name!r}; give each a name of its own")
    if not found:
        raise OptionError("references is empty: name at least one, or leave it out to try all of them")
    return tuple(found.values())
