"""The prior against the posterior of every parameter: what was learned, and whether the prior had foreseen it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from bayeskit.reporting.records import Section, frame_table, interval_probability
from bayeskit.reporting.subject import Subject, listed
from bayeskit.results.marginals import scalar_labels

__all__ = ["learning_section"]

TITLE = "Prior against posterior"
SURPRISING = 0.01  # share of the prior as far out as the posterior mean or median, for all scalars together
NAMED = 3
SAID = (
    "Intervals of {:g} % before and after the data, and how many times the second is narrower. A number near one was "
    "not learned of; below one, the data left it less certain than the prior had it. The prior is known here by its "
    "draws: its intervals are theirs."
)


def learning_section(subject: Subject) -> Section | None:
    """Both intervals of each scalar; a doubt where the posterior is in the tail of its prior."""
    if not subject.names("free") or subject.written:
        return None
    if isinstance(subject.prior, str):
        return Section("learning", TITLE, (f"There is no comparison: {subject.prior}.",))
    found = list(_rows(subject))
    if not found:
        return None
    columns = ["prior: from", "to", "posterior: from", "to ", "times narrower", "as far out"]
    rows = pd.DataFrame([row for _, row in found], index=[label for label, _ in found], columns=columns)
    tail = rows.pop("as far out") * len(rows)
    surprises = [str(name) for name in tail.index[tail < SURPRISING]]
    said = [SAID.format(100 * interval_probability())]
    if potentials := subject.names("potential"):
        said.append(f"The prior is that without the Potentials ({listed(potentials)}).")
    if labels := [name for name in subject.names("free") if name in subject.many_labels]:
        said.append(f"Not compared, because they are labels: {listed(labels)}.")
    if leaves := [name for name in subject.names("free") if name in subject.many_predictions]:
        said.append(f"Not compared, because they are predictions, which no data depend on: {listed(leaves)}.")
    doubts: tuple[str, ...] = ()
    if surprises:
        more = f" and {len(surprises) - NAMED} more" if len(surprises) > NAMED else ""
        what = f"{', '.join(surprises[:NAMED])}{more}" if more else listed(surprises)
        known = np.isfinite(subject.summary.loc[surprises, "mean"].to_numpy(dtype=float)).all()
        middle = "mean" if known else "mean, or the median where there is no mean,"
        doubts = (f"the data contradict the prior of {what}: the posterior {middle} lies in its tail",)
    return Section("learning", TITLE, tuple(said), tables=(frame_table(rows, "parameter", ""),), doubts=doubts)


def _rows(subject: Subject) -> Iterator[tuple[str, list[float]]]:
    assert not isinstance(subject.prior, str)
    summary, draws = subject.summary, subject.post.tree["posterior"].to_dataset()
    ends = [str(column) for column in summary.columns if str(column).startswith("eti")]
    probability = interval_probability()
    tails = [(1 - probability) / 2, (1 + probability) / 2]
    known = dict[str, list[int]]()  # a label may be there twice
    for row, label in enumerate(summary.index):
        known.setdefault(str(label), []).append(row)
    posterior, means = summary[ends].to_numpy(dtype=float), summary["mean"].to_numpy(dtype=float)
    for name in subject.names("free"):
        if name not in draws or draws[name].dtype.kind not in "iuf" or name not in subject.prior:
            continue
        before = subject.prior[name].reshape(len(subject.prior[name]), -1).astype(float)
        lows, highs = np.quantile(before, tails, axis=0)
        flat = draws[name].to_numpy().reshape(-1, before.shape[1])
        for place, label in enumerate(scalar_labels(draws, name)):
            if place >= before.shape[1] or not (rows := known.get(str(label))):
                continue
            row = rows.pop(0)
            prior, low, high, after, mean = before[:, place], lows[place], highs[place], posterior[row], means[row]
            width = after[1] - after[0]
            # A mean that is infinite, or not known, would be as far out as can be in any prior.
            middle = mean if np.isfinite(mean) else np.median(flat[:, place])
            far = 2 * min(np.mean(prior <= middle), np.mean(prior >= middle))
            yield str(label), [low, high, *after, (high - low) / width if width > 0 else np.nan, float(far)]
