"""The frozen record of a trial: a row a sampler, a row a reference and sampler, and what failed in words."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from bayeskit.arguments import checked
from bayeskit.results.drawn_results import DrawnResult
from bayeskit.validation.record import swapped
from bayeskit.validation.statistics import ScalarTests
from bayeskit.validation.trials.outcomes import JudgedScalar, SamplerOutcome
from bayeskit.validation.trials.verdicts import Verdict, Verdicts, verdicts_on

__all__ = ["Trial", "trial_of"]

ROWS = 20  # failures that a print has
FORMATS = {
    "z_sd_pooled": "{:+.1f}",
    "sd_ratio": "{:.3f}",
    "z_mean": "{:+.1f}",
    "z_sd": "{:+.1f}",
    "p_value": "{:.1e}",
    "r_hat": "{:.3f}",
    **dict.fromkeys(("ess_bulk", "ess_tail", "ess_bulk_per_second", "ess_tail_per_second"), "{:.0f}"),
    "seconds": "{:.1f}",
}


@dataclass(frozen=True, repr=False)
class Trial(DrawnResult):
    """Samplers against reference posteriors.

    Attributes
    ----------
    passed : bool
        Whether every sampler is right on some reference, wrong on none and failed on none.
    scores : pandas.DataFrame
        One row a sampler: ``verdict``; on how many references it was ``right``, ``wrong``, ``undecided`` (too few
        effective draws, or chains that disagree), ``failed`` and ``not_applicable``; ``z_sd_pooled`` over all
        references and ``sd_ratio``, the median of its sds over the exact ones; the median of effective draws a second,
        bulk and tail, of the worst scalar; ``divergences``; processor ``seconds``; and ``wrong_on``, by group.
    table : pandas.DataFrame
        One row a sampler and reference: ``group``, ``verdict``, ``z_mean`` and ``z_sd`` (the largest, by size),
        ``p_value`` (the smallest, not corrected), ``ess_bulk``, ``ess_tail`` and ``r_hat`` (the worst), effective draws
        a second, ``divergences``, ``seconds`` (of a processor, compilation included) and ``why``.
    scalars : pandas.DataFrame
        One row a sampler, reference and scalar, with all that was computed.
    failures : tuple of str
        What is wrong, or failed, a line each.
    level : float
        Probability that a sampler which is right on every reference is called wrong on any.
    comparisons : mapping of str to int
        Tests of each sampler, which the level was divided among.
    draws, chains, tune, random_seed : int
        What the samplers were asked for.
    time_limit : float or None
        Seconds of processor time that each had for a reference.
    notes : tuple of str
    """

    PICTURE: ClassVar[str] = "validation.trials.picture.draw_trial"
    TABLES: ClassVar[tuple[str, ...]] = ("scores", "table")
    FORMATS: ClassVar[Mapping[str, str]] = FORMATS

    passed: bool
    scores: pd.DataFrame
    table: pd.DataFrame
    scalars: pd.DataFrame
    failures: tuple[str, ...]
    level: float
    comparisons: dict[str, int]
    draws: int
    chains: int
    tune: int
    random_seed: int
    time_limit: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """A line a sampler."""
        lines = []
        for name, row in self.scores.iterrows():
            counts = [f"{row[word]} {word.replace('_', ' ')}" for word in COUNTS if row[word]]
            lines.append(f"{name}: {row['verdict'].upper()} ({', '.join(counts)})")
        return "; ".join(lines)

    def __str__(self) -> str:
        formatters = {name: form.format for name, form in FORMATS.items() if name in self.scores}
        asked = f"{self.chains} chains of {self.draws:,} draws after {self.tune:,} of warm-up"
        per = f"{asked} asked of samplers by name, seed {self.random_seed}"
        per += "" if self.time_limit is None else f", at most {self.time_limit:g} s of processor time a reference"
        lines = [f"{per}; family-wise level {self.level:g} for each sampler"]
        lines += [self.scores.to_string(formatters=formatters, na_rep="–")]
        lines += [f"  {failure}" for failure in self.failures[:ROWS]]
        if (more := len(self.failures) - ROWS) > 0:
            lines.append(f"  ... and {more} more: trial.failures has them")
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    @checked
    def report(self, path: str | PathLike[str]) -> Path:
        """Write it as one self-contained HTML page, and give its path.

        Raises
        ------
        OptionError
            If the page cannot be written there.
        """
        page: Path = import_module("bayeskit.reporting.trial_page").trial_page(self, path)
        return page

    def record(self) -> dict[str, Any]:
        """Facts, and the rows of the tables, as JSON has them: what is not finite is None."""
        asked = ("draws", "chains", "tune", "random_seed", "time_limit")
        facts = ("passed", "level", "comparisons", *asked, "failures", "notes")
        tables = {"scores": self.scores.reset_index(), "table": self.table, "scalars": self.scalars}
        rows = {
            name: json.loads(frame.to_json(orient="records", double_precision=15)) for name, frame in tables.items()
        }
        return {**{fact: getattr(self, fact) for fact in facts}, **rows}

    def to_json(self) -> str:
        """The trial as one JSON object, of what :meth:`record` gives."""
        return json.dumps(self.record(), ensure_ascii=False)


COUNTS = ("right", "wrong", "undecided", "failed", "not_applicable")
NOTES = {
    "undecided": "undecided: too few effective draws, or chains that disagree or stand still, so no test could tell",
    "exact": "exact: bayeskit's own independent draws, which are right by definition; they show what the tests allow",
}


def trial_of(outcomes: Sequence[SamplerOutcome], level: float, asked: Mapping[str, Any]) -> Trial:
    """The verdicts of every sampler, its tests corrected together."""
    samplers = list(dict.fromkeys(outcome.sampler for outcome in outcomes))
    verdicts = [verdicts_on(name, [o for o in outcomes if o.sampler == name], level) for name in samplers]
    scores = pd.DataFrame([_score(v) for v in verdicts], index=pd.Index(samplers, name="sampler"))
    rows = [_row(verdict) for of in verdicts for verdict in of.of]
    scalars = [_scalar_row(o, s) for o in outcomes for s in o.scalars]
    said = {word for of in verdicts for word in (of.sampler, *(v.word for v in of.of))}
    return Trial(
        passed=bool((scores["verdict"] == "right").all() and not scores["failed"].any()),
        scores=scores,
        table=pd.DataFrame(rows),
        scalars=pd.DataFrame(scalars, columns=SCALAR_COLUMNS),
        failures=tuple(line for of in verdicts for line in _failures(of)),
        level=level,
        comparisons={of.sampler: of.comparisons for of in verdicts},
        notes=(*(note for word, note in NOTES.items() if word in said), *_shapes(outcomes)),
        **asked,
    )


def _shapes(outcomes: Sequence[SamplerOutcome]) -> list[str]:
    """A sentence for each sampler whose chains and draws look swapped."""
    said = {outcome.sampler: note for outcome in outcomes if (note := swapped(outcome.chains, outcome.draws))}
    return [f"{sampler}: {note}" for sampler, note in said.items()]


SCALAR_COLUMNS = (
    "sampler",
    "reference",
    *(f.name for f in fields(JudgedScalar) if f.name != "tests"),
    *(f.name for f in fields(ScalarTests)),
)


def _scalar_row(outcome: SamplerOutcome, scalar: JudgedScalar) -> dict[str, Any]:
    row = asdict(scalar)
    return {"sampler": outcome.sampler, "reference": outcome.reference, **row.pop("tests"), **row}


def _row(verdict: Verdict) -> dict[str, Any]:
    outcome = verdict.outcome
    tests = [s.tests for s in outcome.scalars if s.tests.scale != "constant" and not s.tests.problem]
    bulk, tail = (min((getattr(t, n) for t in tests), default=math.nan) for n in ("ess_bulk", "ess_tail"))
    z_mean, z_sd = (max((getattr(t, n) for t in tests), key=abs, default=math.nan) for n in ("z_mean", "z_sd"))
    seconds = outcome.seconds or math.nan
    return {
        "sampler": outcome.sampler,
        "reference": outcome.reference,
        "group": outcome.group,
        "verdict": verdict.word,
        "z_mean": z_mean,
        "z_sd": z_sd,
        "p_value": verdict.p_value,
        "ess_bulk": bulk,
        "ess_tail": tail,
        "r_hat": max((t.rhat for t in tests), default=math.nan),
        "ess_bulk_per_second": bulk / seconds,
        "ess_tail_per_second": tail / seconds,
        "divergences": math.nan if outcome.divergences is None else outcome.divergences,
        "seconds": outcome.seconds,
        "why": verdict.why,
    }


def _score(of: Verdicts) -> dict[str, Any]:
    rows = pd.DataFrame([_row(verdict) for verdict in of.of])
    numbers = {word: of.number(word.replace("_", " ")) for word in COUNTS}  # type: ignore[arg-type]
    rates = {name: rows[name].median() for name in ("ess_bulk_per_second", "ess_tail_per_second")}
    return {
        "verdict": of.word,
        **numbers,
        "z_sd_pooled": of.pooled_z,
        "sd_ratio": _sd_ratio(of),
        **rates,
        "divergences": rows["divergences"].sum(min_count=1),
        "seconds": rows["seconds"].sum(),
        "wrong_on": _wrong_on(of),
    }


def _sd_ratio(of: Verdicts) -> float:
    """Over the references, the median of what is the median over the scalars."""
    medians = []
    for verdict in of.of:
        pairs = [(s.mcmc_sd, s.exact_sd) for s in verdict.outcome.scalars if s.tests.scale != "constant"]
        ratios = [own / exact for own, exact in pairs if math.isfinite(own) and 0 < exact < math.inf]
        medians += [float(np.median(ratios))] if ratios else []
    return float(np.median(medians)) if medians else math.nan


def _wrong_on(of: Verdicts) -> str:
    """The groups in which it is wrong, with how many references of how many."""
    judged = Counter(v.outcome.group for v in of.of if v.outcome.ended == "drawn")
    wrong = Counter(v.outcome.group for v in of.of if v.word == "wrong")
    return ", ".join(f"{group} {n}/{judged[group]}" for group, n in wrong.items())


def _failures(of: Verdicts) -> list[str]:
    lines = []
    if of.pooled_wrong:
        ratio = _sd_ratio(of)
        # A few references with heavy tails may move z the other way.
        agree = (of.pooled_z > 0) == (ratio > 1)
        which = ("too large" if of.pooled_z > 0 else "too small") if agree else "off"
        lines.append(
            f"{of.sampler} is WRONG over all references together: its sds are {which} "
            f"(z = {of.pooled_z:+.1f}, median ratio {ratio:.3f})"
        )
    for word in ("wrong", "failed"):
        for verdict in of.of:
            if verdict.word == word:
                lines.append(f"{of.sampler} {word.upper()} on {verdict.outcome.reference}: {verdict.why}")
    return lines
