"""The page of a trial: which samplers are right, on what they fail, and how fast they are, group by group."""

from __future__ import annotations

import math
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from bayeskit.reporting.compared_models import collection_picture
from bayeskit.reporting.files import REPORT, check_writable
from bayeskit.reporting.html import render, write_page
from bayeskit.reporting.records import Cell, Picture, Section, Table, styled
from bayeskit.validation.references.collection import REFERENCES
from bayeskit.validation.trials.scoreboard import Trial

__all__ = ["trial_page", "trial_sections"]

PACKAGES = ("bayeskit", "pymc", "pytensor", "nutpie", "pymc-extras", "arviz", "numpy", "scipy", "numpyro", "blackjax")
MARKS = "A mark for every reference, by group, and every sampler: full where it is right, a cross where it is wrong."
READING = (
    "Each sampler drew from posteriors that are known exactly, or to quadrature. Of every scalar the mean, the sd and "
    "the distribution function are tested in the draws' own Monte Carlo standard errors, and so is the draw that lies "
    "farthest out. All tests of one sampler are corrected together.",
    "“Wrong” is said of draws that do not come from the posterior, and “undecided” where the chains disagree or are "
    "worth too few independent draws for any test to tell: they are not called right. “Failed” means no draws.",
    "“z sd pooled” tests the sds of all references together, where there are enough that can be told; “sd ratio” is "
    "the median over the references of the sampler's sd over the exact one.",
    "Seconds are those of a processor, compilation included, so that effective draws a second of these small models "
    "say how long a person waits, and little of large ones.",
)
NAMED = 12  # references beyond which their list is folded
COLUMNS = ("sampler", "verdict", "z_mean", "z_sd", "ess_bulk", "ess_tail", "r_hat", "divergences", "seconds")


def trial_page(trial: Trial, path: str | PathLike[str], *, title: str = "Samplers on trial") -> Path:
    """Write a trial as one self-contained HTML page.

    Raises
    ------
    OptionError
        If the page cannot be written there.
    """
    target = Path(path)
    check_writable(target, REPORT)
    with styled():
        sections = trial_sections(trial)
    return write_page(target, render(title, sections))


def trial_sections(trial: Trial) -> tuple[Section, ...]:
    """Everything that the page says, in its order."""
    return (
        Section("verdict", "Which samplers are right", _verdict(trial), tables=_scores(trial)),
        Section("marks", "Reference by reference", tables=(), pictures=(_picture(trial),)),
        Section("reading", "How to read this", READING),
        *_failures(trial),
        *(_group(trial, str(name), rows) for name, rows in trial.table.groupby("group", sort=False)),
        _reproduction(trial),
    )


def _picture(trial: Trial) -> Picture:
    return collection_picture(trial.plot(backend="matplotlib"), MARKS)


def _verdict(trial: Trial) -> tuple[str, ...]:
    number = trial.table["reference"].nunique()
    said = [f"{len(trial.scores)} samplers were tried on {number} posteriors that are known."]
    for name, row in trial.scores.iterrows():
        told = row["right"] + row["wrong"]
        rest = [f"{row[w]} {w}" for w in ("undecided", "failed") if row[w]]
        tail = f"; {', '.join(rest)}" if rest else ""
        where = f", wrong on {row['wrong']} ({row['wrong_on']})" if row["wrong"] else ""
        said.append(f"{name}: right on {row['right']} of {told} where it can be told{where}{tail}.")
    return (*said, *trial.notes)


def _scores(trial: Trial) -> tuple[Table, ...]:
    scores = trial.scores.drop(columns=["wrong_on"]).rename(
        columns=lambda c: c.replace("_", " ").replace("ess ", "ESS ")
    )
    rows = tuple((str(name), *map(_cell, row)) for name, *row in scores.itertuples())
    note = f"Family-wise level {trial.level:g} for each sampler."
    return (Table(("sampler", *scores.columns), rows, "The scoreboard", note, digits=4),)


def _failures(trial: Trial) -> tuple[Section, ...]:
    """What is wrong, one row a sampler and reference."""
    found = trial.table[trial.table["verdict"].isin(["wrong", "failed"])]
    pooled = tuple(line for line in trial.failures if "over all references" in line)
    if found.empty and not pooled:
        return ()
    tables = []
    for name, rows in found.groupby("sampler", sort=False):
        cells = tuple(map(tuple, rows[["reference", "verdict", "why"]].itertuples(index=False, name=None)))
        tables.append(Table(("reference", "verdict", "why"), cells, str(name)))
    return (Section("failures", "What is wrong", pooled, tables=tuple(tables)),)


def _group(trial: Trial, group: str, rows: pd.DataFrame) -> Section:
    about = {reference.name: reference.about for reference in REFERENCES}
    tables = []
    for name, own in rows.groupby("reference", sort=False):
        cells = tuple(tuple(map(_cell, row)) for row in own[list(COLUMNS)].itertuples(index=False, name=None))
        said = " ".join(about.get(str(name), "").split())
        tables.append(Table(COLUMNS, cells, f"{name}: {said}" if said else str(name), digits=3))
    return Section(f"group-{group.replace(' ', '-')}", group.replace("_", " ").capitalize(), tables=tuple(tables))


def _cell(value: Any) -> Cell:
    if isinstance(value, str | bool):
        return value
    return None if math.isnan(value) else int(value) if float(value).is_integer() and abs(value) < 1e9 else float(value)


def _reproduction(trial: Trial) -> Section:
    names = ", ".join(repr(str(name)) for name in trial.scores.index)
    tried = [str(name) for name in dict.fromkeys(trial.table["reference"])]
    named = f"[{', '.join(map(repr, tried))}]"
    many = len(tried) > NAMED
    asked = f"references={'references' if many else named}, draws={trial.draws}, chains={trial.chains}"
    asked += f", tune={trial.tune}"
    asked += f", random_seed={trial.random_seed}"
    asked += "" if trial.time_limit is None else f", time_limit={trial.time_limit:g}"
    rows = tuple((package, found) for package in PACKAGES if (found := _version(package)))
    tables = (Table(("package", "version"), rows),)
    listed = Section("references", f"The {len(tried)} references by name", text=f"references = {named}")
    text = f"bk.trial([{names}], {asked})"
    return Section("versions", "To reproduce this", text=text, tables=tables, folded=(listed,) if many else ())


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
