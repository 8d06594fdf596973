r"""What a sampler's draws are worth: a table of the parameters, worst first, one of the chains, and where they diverge.

What is wrong is said by :mod:`bayeskit.results.diagnostics`, which has the thresholds; this shows where to look. A
divergence points at the part of the posterior that the chains could not enter: of each scalar the divergent draws are
held against all of them, by the two-sample Kolmogorov–Smirnov distance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_stats.base import array_stats
from scipy import stats

from bayeskit.reporting.chain_pictures import chain_pictures
from bayeskit.reporting.records import Cell, Section, Table, frame_table
from bayeskit.reporting.subject import Subject
from bayeskit.results.diagnostics import MOST_R_HAT, convergence_table
from bayeskit.results.marginals import scalar_labels
from bayeskit.results.records import Posterior

__all__ = ["sampler_section"]

TITLE = "The sampler"
NONE = (
    "There is nothing to diagnose: the draws are independent, and were made from the {} after it was found. Chains, "
    "R-hat and effective sample sizes say nothing of them."
)
CERTIFIED = (
    "What takes their place is the certificate, the largest spread of log p(y, θ) − log p(θ | y) over posterior and "
    "prior draws: {:.1e} nats."
)
WEIGHTS = (
    "They were taken from {:,} quasi-random points by importance weights, of which {:.0%} are effective; the tail of "
    "the weights has a Pareto k of {:.2f}, where up to 0.5 is trusted. A wider proposal found the same integral and "
    "moments."
)
LARGE = 400  # scalars beyond which divergences are not located in each
LEAST = 3  # divergences that can have a place
PICTURED = 4
APART = 0.5  # distance of distributions from which on the divergences are somewhere
BY_CHANCE = 0.05  # probability of the largest distance of all parameters, above which it says nothing
FEW = 20  # divergences below which nine in ten of them are not a count
HEADS = ("parameter", "distance", "divergent: 5 %", "95 %", "all draws: 5 %", "95 %")
HEADS_OF_FEW = ("parameter", "distance", "divergent: from", "to", "all draws: 5 %", "95 %")


def sampler_section(subject: Subject) -> Section:
    """How the chains mixed; of independent draws, that there is nothing to diagnose."""
    post = subject.post
    if post.diagnostics is None:
        proved = post.plan.eliminated and not math.isnan(post.certificate)
        certified = () if not proved else (CERTIFIED.format(post.certificate),)
        what = "closed form" if post.method == "exact" else "posterior"
        return Section("sampler", TITLE, (NONE.format(what), *_of_weights(post), *certified))
    names = [n for n in post.plan.remaining if n in post.tree["posterior"]]
    worst = _worst_first(post.tree["posterior"].to_dataset(), names)
    said = [str(post.diagnostics).splitlines()[0] + "."]
    if post.plan.eliminated:
        said.append("What is recovered given these draws is exact, and is not judged.")
    tables = [frame_table(worst, "parameter", "Parameters, the worst first")]
    tables += _of_chains(post)
    located, where = _divergences(post, names)
    tables += located
    shown = list(worst.index[:PICTURED])
    pictures = chain_pictures(post, names, shown)
    return Section("sampler", TITLE, (*said, *where), "", tuple(tables), pictures, post.diagnostics.problems)


def _of_weights(post: Posterior) -> tuple[str, ...]:
    """What importance sampling has in place of chains: its weights."""
    facts = {} if "posterior" not in post.tree.children else post.tree["posterior"].attrs
    if "importance_points" not in facts:
        return ()
    return (WEIGHTS.format(facts["importance_points"], facts["effective_share"], facts["pareto_k"]),)


def _worst_first(draws: xr.Dataset, names: Sequence[str]) -> pd.DataFrame:
    """Diagnostics of each scalar with the Monte Carlo error of its mean and sd."""
    table = convergence_table(draws, names)
    means, errors, of_sd = [], [], []
    for name in names:
        values = draws[name].transpose("chain", "draw", ...).to_numpy().astype(float)
        values = values.reshape(*values.shape[:2], -1)
        with np.errstate(all="ignore"):
            means.append(values.mean((0, 1)))
            errors.append(array_stats.mcse(values, method="mean", chain_axis=0, draw_axis=1))
            of_sd.append(values.std((0, 1), ddof=1))
    columns = {"mean": means, "sd": of_sd, "mcse_mean": errors}
    table = table.assign(**{name: np.concatenate([np.ravel(v) for v in parts]) for name, parts in columns.items()})
    # By R-hat where it says something, else by what the draws are worth.
    rank = np.maximum(table["r_hat"].fillna(np.inf), MOST_R_HAT).to_numpy()
    worth = table[["ess_bulk", "ess_tail"]].min(axis=1).fillna(0.0).to_numpy()
    return table.iloc[np.lexsort((worth, -rank))]


def _of_chains(post: Posterior) -> list[Table]:
    """What each chain did."""
    if "sample_stats" not in post.tree.children:
        return []
    found = post.tree["sample_stats"].to_dataset()
    columns: dict[str, np.ndarray] = {}
    if "diverging" in found:
        columns["divergences"] = found["diverging"].sum("draw").to_numpy().astype(int)
    if "energy" in found and found.sizes["draw"] > 3:
        with np.errstate(all="ignore"):
            energy = found["energy"].transpose("chain", "draw").to_numpy()
            columns["E-BFMI"] = array_stats.bfmi(energy, chain_axis=0, draw_axis=1)
    for name, head in (("tree_depth", "mean tree depth"), ("acceptance_rate", "mean acceptance")):
        if name in found:
            columns[head] = found[name].mean("draw").to_numpy().astype(float)
    if "reached_max_treedepth" in found:
        columns["at maximum depth"] = found["reached_max_treedepth"].sum("draw").to_numpy().astype(int)
    if "step_size" in found:
        columns["step size"] = found["step_size"].isel(draw=-1).to_numpy().astype(float)
    if not columns:
        return []
    frame = pd.DataFrame({n: np.ravel(v) for n, v in columns.items()}, index=[str(c) for c in found["chain"].values])
    return [frame_table(frame, "chain", "Chains")]


def _divergences(post: Posterior, names: Sequence[str]) -> tuple[list[Table], list[str]]:
    """Where the divergent draws lie, in the parameters that tell them apart best."""
    if "sample_stats" not in post.tree.children or "diverging" not in post.tree["sample_stats"]:
        return [], []
    diverging = post.tree["sample_stats"]["diverging"].transpose("chain", "draw").to_numpy().astype(bool).ravel()
    if diverging.sum() < LEAST:
        return [], []
    draws = post.tree["posterior"].to_dataset()
    number, few = int(diverging.sum()), diverging.sum() < FEW
    ends = (0, 1) if few else (0.05, 0.95)
    rows: list[tuple[Any, ...]] = []
    for name in names:
        values = draws[name].transpose("chain", "draw", ...).to_numpy().astype(float)
        values = values.reshape(diverging.size, -1)
        for label, of in zip(scalar_labels(draws, name), values.T[: LARGE - len(rows)], strict=False):
            inside = of[diverging]
            distance = float(stats.ks_2samp(inside, of[~diverging]).statistic) if not diverging.all() else 0.0
            rows.append((label, distance, *np.quantile(inside, ends), *np.quantile(of, (0.05, 0.95))))
    rows.sort(key=lambda row: -row[1])
    cells: tuple[tuple[Cell, ...], ...] = tuple((str(n), *map(float, row)) for n, *row in rows[:8])
    return [Table(HEADS_OF_FEW if few else HEADS, cells, "Where the divergent draws lie")], [
        _where(rows[0], len(rows), number, diverging.size)
    ]


def _where(apart: tuple[Any, ...], parameters: int, number: int, draws: int) -> str:
    """In which corner the divergent draws lie, if there is one: of few of them, if it is not one by chance."""
    label, distance, low, high, least, most = apart
    pairs = max(1, round(number * (draws - number) / draws))
    if distance > APART and parameters * stats.kstwo.sf(distance, pairs) < BY_CHANCE:
        they, share = ("they have", "nine in ten of ") if number < FEW else ("nine in ten have", "of ")
        return (
            f"The {number} divergent transitions are told from the others best by {label}: {they} it between {low:.3g} "
            f"and {high:.3g}, {share}all draws between {least:.3g} and {most:.3g}."
        )
    if number < FEW:
        return f"The {number} divergent transitions are too few to say in which part of the posterior they lie."
    return "The divergent transitions lie all over the posterior, in no parameter's corner."
