r"""What the tests of all references say of a sampler, together.

All p-values of one sampler, over the scalars of all references, are corrected by Holm's method: a sampler that is right
on every one of them is called wrong anywhere with probability ``level`` at most. One more test goes in among them, for
faults too small for a single reference: with z̄_r the mean of the z-scores of the sds over the scalars of reference r,

.. math:: Z = \frac{1}{\sqrt{R}} \sum_{r=1}^R \bar z_r

has mean zero and a variance of at most one, whatever the dependence within a reference. It is taken over the references
whose chains mixed.

Where no test fails, the draws are right only if they are many enough and the chains agree, by the gates of
:func:`bayeskit.validation.judge`; else nothing can be told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from scipy import stats

from bayeskit.results.diagnostics import ESTIMABLE_ESS, ESTIMABLE_R_HAT
from bayeskit.validation.record import explained_test
from bayeskit.validation.statistics import holm
from bayeskit.validation.trials.outcomes import JudgedScalar, SamplerOutcome

__all__ = ["Verdict", "Verdicts", "verdicts_on"]

type Word = Literal["right", "wrong", "undecided", "failed", "not applicable"]
# Problems that are wrong whatever the number of draws.
FAULTS = ("outside the support", "the exact value is always", "draws do not sum to", "two chains have the same draws")
LEAST_POOLED = 2


@dataclass(frozen=True)
class Verdict:
    """On one sampler and one reference."""

    outcome: SamplerOutcome
    word: Word
    why: str = ""
    p_value: float = math.nan  # the smallest, not corrected


@dataclass(frozen=True)
class Verdicts:
    """On one sampler."""

    sampler: str
    of: tuple[Verdict, ...]
    pooled_z: float  # Z above; NaN where there are too few references
    pooled_wrong: bool
    comparisons: int

    @property
    def word(self) -> Word:
        """One word on the sampler: wrong if it is anywhere, right if it is somewhere and nowhere wrong."""
        words = {verdict.word for verdict in self.of}
        if self.pooled_wrong or "wrong" in words:
            return "wrong"
        for word in ("right", "undecided", "failed"):
            if word in words:
                return word
        return "not applicable"

    def number(self, word: Word) -> int:
        """How many references."""
        return sum(verdict.word == word for verdict in self.of)


def verdicts_on(sampler: str, outcomes: Sequence[SamplerOutcome], level: float) -> Verdicts:
    """The tests of one sampler's outcomes, corrected together."""
    p_values: dict[tuple[int, int, str], float] = {
        (r, k, kind): p
        for r, outcome in enumerate(outcomes)
        for k, scalar in enumerate(outcome.scalars)
        if scalar.tests.scale != "constant"
        for kind, p in scalar.tests.p_values.items()
    }
    pooled = _pooled_z(outcomes)
    numbers = [*p_values.values(), *([] if math.isnan(pooled) else [float(2 * stats.norm.sf(abs(pooled)))])]
    fails = holm(np.array(numbers, dtype=float), level)
    failed = {key for key, fail in zip(p_values, fails, strict=False) if fail}
    verdicts = tuple(
        _verdict(outcome, {key[1:]: p_values[key] for key in failed if key[0] == r})
        for r, outcome in enumerate(outcomes)
    )
    return Verdicts(sampler, verdicts, pooled, bool(not math.isnan(pooled) and fails[-1]), len(numbers))


def _verdict(outcome: SamplerOutcome, failed: dict[tuple[int, str], float]) -> Verdict:
    if outcome.ended != "drawn":
        return Verdict(outcome, outcome.ended, outcome.reason)
    every = [p for scalar in outcome.scalars for p in scalar.tests.p_values.values()]
    smallest = min(every, default=math.nan)
    faults = [s for s in outcome.scalars if any(words in s.tests.problem for words in FAULTS)]
    if faults or failed:
        said = [f"{s.name}: {s.tests.problem}" for s in faults]
        worst = sorted(failed, key=lambda key: failed[key])
        said += [_explained(outcome.scalars[k], kind) for k, kind in worst]
        more = f" (and {len(said) - 1} more)" if len(said) > 1 else ""
        return Verdict(outcome, "wrong", said[0] + more, smallest)
    doubts = [doubt for scalar in outcome.scalars if (doubt := _doubt(scalar))]
    return Verdict(outcome, "undecided" if doubts else "right", doubts[0] if doubts else "", smallest)


def _explained(scalar: JudgedScalar, kind: str) -> str:
    return f"{scalar.name}: {explained_test(kind, asdict(scalar), scalar.tests)}"


def _doubt(scalar: JudgedScalar) -> str:
    """Why draws that no test refuses cannot be called right."""
    tests = scalar.tests
    if tests.problem:
        return f"{scalar.name}: {tests.problem}"
    if tests.rhat > ESTIMABLE_R_HAT:
        return f"{scalar.name}: the chains disagree (R-hat {tests.rhat:.2f})"
    if tests.ess < ESTIMABLE_ESS:
        return f"{scalar.name}: {tests.ess:.0f} effective draws are too few to tell"
    return ""


def _pooled_z(outcomes: Sequence[SamplerOutcome]) -> float:
    means = []
    for outcome in outcomes:
        scores = [s.tests.z_sd for s in outcome.scalars if s.tests.scale != "constant"]
        if scores and not any(_doubt(s) for s in outcome.scalars):
            means.append(float(np.mean(scores)))
    return float(np.sum(means) / math.sqrt(len(means))) if len(means) >= LEAST_POOLED else math.nan
