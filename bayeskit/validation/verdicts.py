"""What the tests of all scalars together say: which fail after Holm's correction, in words and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayeskit.validation.statistics import ScalarTests, holm

__all__ = ["notes_on", "table_of", "verdicts_of"]


def verdicts_of(
    rows: list[dict[str, Any]], tests: list[ScalarTests], alpha: float, min_ess: float, max_rhat: float
) -> tuple[tuple[str, ...], list[str], int]:
    """Failures, one verdict a row, and the number of tests that ``alpha`` was divided among."""
    where, kinds, p_values = [], [], []
    for i, test in enumerate(tests):
        for kind, p in test.p_values.items() if test.scale != "constant" else ():
            where.append(i)
            kinds.append(kind)
            p_values.append(p)
    rejected: Mapping[tuple[int, str], bool] = dict(
        zip(zip(where, kinds, strict=True), holm(np.array(p_values), alpha), strict=True)
    )
    failures: list[str] = []
    verdicts: list[str] = []
    for i, (row, test) in enumerate(zip(rows, tests, strict=True)):
        reasons = [(test.problem, test.problem)] if test.problem else []
        if test.ess < min_ess:
            reasons.append(("ess", f"effective sample size {test.ess:.0f}, under {min_ess:g}: draw more"))
        if test.rhat > max_rhat:
            reasons.append(("rhat", f"R-hat {test.rhat:.3f}, over {max_rhat:g}: the chains disagree"))
        reasons += [(kind, _explain(kind, row, test)) for kind in ("mean", "sd", "ecdf") if rejected.get((i, kind))]
        verdicts.append(", ".join(short for short, _ in reasons) or "agrees")
        failures += [f"{row['name']}: {long}" for _, long in reasons]
    return tuple(failures), verdicts, len(p_values)


def _explain(kind: str, row: Mapping[str, Any], test: ScalarTests) -> str:
    p = test.p_values[kind]
    if kind == "ecdf":
        return f"its distribution differs from the exact one (ECDF test, p = {p:.1e})"
    z = test.z_mean if kind == "mean" else test.z_sd
    of = "" if test.scale == "draws" else f", of the {test.scale}"
    return f"{kind} {row[f'mcmc_{kind}']:.6g}, exact {row[f'exact_{kind}']:.6g} (z = {z:+.1f}, p = {p:.1e}{of})"


def notes_on(tests: Sequence[ScalarTests]) -> tuple[str, ...]:
    notes = []
    counts = {
        scale: sum(test.scale == scale for test in tests) for scale in ("normal scores", "folded scores", "ranks")
    }
    if counts["normal scores"]:
        notes.append(
            f"{counts['normal scores']} scalar(s) are skewed or heavy-tailed: their z-scores are of the normal scores"
        )
    if counts["folded scores"]:
        notes.append(
            f"{counts['folded scores']} scalar(s) have infinite variance, so no sd to test: z_sd is of the "
            "folded normal scores, which see a change of spread"
        )
    if counts["ranks"]:
        notes.append(
            f"{counts['ranks']} scalar(s) have no closed-form marginal: they are compared with independent exact draws"
        )
    if all(np.isnan(test.rhat) for test in tests):
        notes.append("one chain only: R-hat was not computed")
    return tuple(notes)


def table_of(rows: list[dict[str, Any]], tests: Sequence[ScalarTests], verdicts: Sequence[str]) -> Any:
    import pandas as pd

    columns = ["exact_mean", "mcmc_mean", "z_mean", "exact_sd", "mcmc_sd", "z_sd", "p_ecdf", "ess", "rhat", "scale"]
    records = [
        {
            **row,
            "z_mean": test.z_mean,
            "z_sd": test.z_sd,
            "p_ecdf": test.p_ecdf,
            "ess": test.ess,
            "rhat": test.rhat,
            "scale": test.scale,
            "verdict": verdict,
        }
        for row, test, verdict in zip(rows, tests, verdicts, strict=True)
    ]
    return pd.DataFrame(records).set_index("name")[[*columns, "verdict"]].rename_axis(None)
