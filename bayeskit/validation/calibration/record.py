"""The frozen record of a calibration: a row a quantity, what is not calibrated, and in which way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pandas as pd
import xarray as xr

from bayeskit.results.drawn_results import DrawnResult
from bayeskit.results.notebook_html import notebook_html, table_html
from bayeskit.validation.calibration.detectable_faults import detectable_log_evidence, detectable_sds
from bayeskit.validation.calibration.experiment import MODEL, Repetition
from bayeskit.validation.calibration.uniformity import Uniformity, uniformity
from bayeskit.validation.record import probability_words
from bayeskit.validation.statistics import holm

__all__ = ["Calibration", "calibration_of"]

FORMATS = {"z_mean": "{:+.2f}", "z_sd": "{:+.2f}", "p_ecdf": "{:.2g}", "inside_50": "{:.3f}", "inside_90": "{:.3f}"}
UNANSWERED = 0.02  # share of data sets without an answer above which those that have one may be a selection
UNMIXED, SHARE_UNMIXED = 1.05, 0.05  # R-hat, and the share of runs above it that a note is for
MOST_LARGE = 10.0  # times the right sd: beyond it no number is given
TELLING = 0.5  # an sd that is half the right one must be found half the time, else that nothing was found says nothing


@dataclass(frozen=True, repr=False)
class Calibration(DrawnResult):
    """Where the true values lie in their posteriors, over data sets drawn from the model.

    Attributes
    ----------
    passed : bool
        Whether no test of any quantity failed, and next to every data set had an answer.
    table : pandas.DataFrame
        One row a quantity: ``z_mean`` (positive where the posterior lies too low), ``z_sd`` (positive where it is too
        narrow), ``p_ecdf``, the shares of truths inside central 50 % and 90 % intervals, ``values`` (``exact`` values
        of a closed form, or ``ranks`` among draws) and ``verdict``.
    failures : tuple of str
        What is not calibrated and in which way, a line each.
    pit : xarray.Dataset
        The values u, a variable a quantity, over ``dataset``: uniform on (0, 1) if the posterior is right.
    datasets : int
        Data sets with an answer.
    methods : mapping of str to int
        How many of them were answered by which method.
    alpha : float
        Family-wise error rate of all tests.
    comparisons : int
        Number of tests.
    random_seed : int
    seconds : float
        Processor seconds of all data sets together, those read from a checkpoint included.
    notes : tuple of str
    detectable_sds : tuple of float
        The sds of a posterior, the right one being one, below and above which the test of its width would fail half the
        time: 0.84 and 1.2 of 200 data sets with 20 tests at level 0.01. Zero, and infinite, where it would not.
    detectable_log_evidence : float
        Of a comparison, how many nats off the log evidence of the first model must be for the test of location to fail
        half the time. Infinite where it would not; NaN of a single model.
    """

    PICTURE: ClassVar[str] = "validation.calibration.picture.draw_calibration"
    FORMATS: ClassVar[Mapping[str, str]] = FORMATS

    passed: bool
    table: pd.DataFrame
    failures: tuple[str, ...]
    pit: xr.Dataset
    datasets: int
    methods: dict[str, int]
    alpha: float
    comparisons: int
    random_seed: int
    seconds: float
    notes: tuple[str, ...] = field(default=())
    detectable_sds: tuple[float, float] = (0.0, np.inf)
    detectable_log_evidence: float = np.nan

    @property
    def too_few(self) -> bool:
        """Whether there are too few data sets, or draws of each posterior, for that nothing was found to say much."""
        return self.detectable_sds[0] < TELLING

    @property
    def found_half_the_time(self) -> str:
        """How wrong the sd of a posterior, or a log evidence, must be for these data sets to show it.

        Empty where something was found: the fault speaks for itself.
        """
        below, above = self.detectable_sds
        if not self.passed:
            return ""
        if list(self.table.index) == [MODEL]:
            nats = self.detectable_log_evidence
            if np.isnan(nats):
                return ""
            if np.isinf(nats):
                return (
                    "they would not show half the time that the log evidence of the first model is off, by however much"
                )
            return f"half the time they would show that the log evidence of the first model is off by {nats:.2g} nats"
        if not below:
            return "no sd of a posterior is so small that they would show it half the time"
        large = f"or {_percent(above - 1)} too large" if above < MOST_LARGE else "and none that is too large"
        return f"half the time they would show a posterior's sd that is {_percent(1 - below)} too small, {large}"

    @property
    def verdict(self) -> str:
        """One line."""
        how = ", ".join(f"{n} by {method}" for method, n in self.methods.items())
        of = f"{self.comparisons} tests at family-wise level {self.alpha:g}, {self.datasets} data sets ({how})"
        said = "calibrated, as far as these data sets show" if self.passed else "NOT calibrated"
        if self.passed and self.too_few:
            enough = detectable_sds(self.datasets, self.alpha / self.comparisons, None)[0] >= TELLING
            said = f"too few {'draws of each posterior' if enough else 'data sets'} to say whether it is calibrated"
        return f"{said}: {of}"

    def __str__(self) -> str:
        lines = [self.verdict, *([f"  {found}"] if (found := self.found_half_the_time) else [])]
        lines += [f"  FAILED {failure}" for failure in self.failures]
        lines += [f"  note: {note}" for note in self.notes]
        formatters = {name: form.format for name, form in FORMATS.items()}
        return "\n".join([*lines, self.table.to_string(formatters=formatters, max_rows=60)])

    def __repr__(self) -> str:
        return f"Calibration({self.verdict})"

    def _repr_html_(self) -> str:
        lines = [self.verdict, *filter(None, [self.found_half_the_time]), *self.failures]
        return notebook_html("Calibration", lines=lines, tables=[table_html(self.table, FORMATS)], notes=self.notes)


def calibration_of(
    repetitions: Sequence[Repetition], alpha: float, random_seed: int, notes: Sequence[str]
) -> Calibration:
    """The tests of every quantity, corrected together by Holm's method."""
    answered = [r for r in repetitions if not r.failure]
    names = list(dict.fromkeys(name for r in answered for name in r.values))
    values = {name: np.array([r.values.get(name, np.nan) for r in answered]) for name in names}
    tests = {name: uniformity(of) for name, of in values.items()}
    rejected = _rejected(tests, alpha)
    failures = [f"{name}: {_explained(tests[name], kinds)}" for name, kinds in rejected.items() if kinds]
    if (lost := len(repetitions) - len(answered)) > UNANSWERED * len(repetitions):
        failures.append(f"{lost} of {len(repetitions)} data sets had no answer, so that the others are a selection")
    comparisons = sum(len(t.p_values) for t in tests.values())
    ranked = [r.ranked for r in answered if r.ranked is not None]
    detectable = (0.0, np.inf)
    if comparisons:
        detectable = detectable_sds(len(answered), alpha / comparisons, int(np.median(ranked)) if ranked else None)
    # Lines of a checkpoint of an earlier version have none.
    probabilities = np.array([r.probabilities for r in answered if r.probabilities])
    several = bool(comparisons and probabilities.size)
    return Calibration(
        passed=not failures,
        table=_table(tests, rejected, answered),
        failures=tuple(failures),
        pit=xr.Dataset({n: ("dataset", v) for n, v in values.items()}, {"dataset": [r.dataset for r in answered]}),
        datasets=len(answered),
        methods=dict(Counter(r.method for r in answered)),
        alpha=alpha,
        comparisons=comparisons,
        random_seed=random_seed,
        seconds=sum(r.seconds for r in repetitions),
        notes=(*notes, *_notes(repetitions)),
        detectable_sds=detectable,
        detectable_log_evidence=detectable_log_evidence(probabilities, alpha / comparisons) if several else np.nan,
    )


def _percent(share: float) -> str:
    """Two digits, and of more than a hundred per cent all, for "6e+02 %" is no number to read."""
    return f"{100 * share:.0f} %" if share >= 1 else f"{100 * share:.2g} %"


def _rejected(tests: dict[str, Uniformity], alpha: float) -> dict[str, list[str]]:
    """The tests that failed, by quantity."""
    p_values = {(name, kind): p for name, test in tests.items() for kind, p in test.p_values.items()}
    fails = dict(zip(p_values, holm(np.array([*p_values.values()]), alpha), strict=True))
    return {
        name: ["problem"] if test.problem else [kind for kind in test.p_values if fails[name, kind]]
        for name, test in tests.items()
    }


def _explained(test: Uniformity, kinds: Sequence[str]) -> str:
    if test.problem:
        return test.problem
    where = "its posterior lies too low" if test.z_mean > 0 else "its posterior lies too high"
    width = "its posterior is too narrow" if test.z_sd > 0 else "its posterior is too wide"
    words = {
        "mean": f"{where} (z = {test.z_mean:+.1f}, {probability_words(test.p_mean)})",
        "sd": f"{width} (z = {test.z_sd:+.1f}, {probability_words(test.p_sd)})",
        "ecdf": f"where the truths lie in it is not uniform ({probability_words(test.p_ecdf)})",
    }
    return "; ".join(words[kind] for kind in kinds)


def _table(
    tests: dict[str, Uniformity], rejected: dict[str, list[str]], answered: Sequence[Repetition]
) -> pd.DataFrame:
    exact = set(answered[0].exact).intersection(*(r.exact for r in answered)) if answered else set()
    rows = [
        {
            "z_mean": test.z_mean,
            "z_sd": test.z_sd,
            "p_ecdf": test.p_ecdf,
            "inside_50": test.inside_50,
            "inside_90": test.inside_90,
            "values": "exact" if name.partition("[")[0] in exact else "ranks",
            "verdict": ", ".join(rejected[name]) or "calibrated",
        }
        for name, test in tests.items()
    ]
    return pd.DataFrame(rows, index=list(tests))


def _notes(repetitions: Sequence[Repetition]) -> list[str]:
    notes = []
    failed = Counter(r.failure for r in repetitions if r.failure)
    notes += [f"{n} data set(s) without an answer: {why}" for why, n in failed.most_common(3)]
    unmixed = [r for r in repetitions if (r.rhat or 0) > UNMIXED]
    if len(unmixed) > SHARE_UNMIXED * len(repetitions):
        notes.append(f"{len(unmixed)} of {len(repetitions)} runs have an R-hat above {UNMIXED}: the chains disagree")
    return notes
