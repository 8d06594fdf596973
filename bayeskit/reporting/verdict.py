"""The first section of a page, a paragraph to forward: what was asked, the answer, how it was found, what to distrust.

What the other sections say against the answer is repeated here, and which of them were left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from bayeskit.model.snapshot import WrittenModel
from bayeskit.model.summed_likelihood import known_rows
from bayeskit.reporting.html import number
from bayeskit.reporting.records import Cell, Section, Table
from bayeskit.reporting.subject import Subject, data_in_words, label_variables, listed
from bayeskit.results.log_evidence import decimals_of
from bayeskit.results.records import Posterior
from bayeskit.results.tree import observed_data

__all__ = ["verdict"]

# What is wrong with chains is said in any case.
JUDGING = {"predictive": "the fit to the data", "loo": "single observations", "sensitivity": "the prior's influence"}
HEAD_OF_ERROR = {"exact": "error (rounding)", "quadrature": "error (bound)", "estimated": "error (Monte Carlo)"}
NO_DATA = "The model has no observed variable: its answer is the prior."
ANSWERS, MOST_DOUBTS = 3, 4  # parameters, and doubts, that the verdict names
DIGITS, MOST_DIGITS = 3, 12
# Where a Normal of known sd is all that is checked, its sd must be off by 59 % that eight values show it (level 0.05)
# half the time: (χ²₇ at 0.975 / χ²₇ at 0.5)^½.
FEW_VALUES = 8


def verdict(subject: Subject, others: Sequence[Section]) -> Section:
    """The paragraph, what a page is introduced with, and the table of facts."""
    found = (doubt for section in others for doubt in section.doubts)
    doubts = tuple(dict.fromkeys((*_problems(subject.post), *found)))
    looked = (section.key for section in others if section.tables or section.pictures)
    shown = {*looked} if subject.names("observed") else {*JUDGING}
    unseen = [words for key, words in JUDGING.items() if key not in shown]
    tested = [section.text.partition("\n")[0] + "." for section in subject.further if section.text]
    said = (_asked(subject), _answer(subject), *tested, _how(subject.post))
    paragraph = " ".join(filter(None, (*said, _distrust(doubts, unseen, _too_few(subject)))))
    return Section("verdict", "In short", (paragraph, *subject.about), tables=(_facts(subject.post),))


def _problems(post: Posterior) -> tuple[str, ...]:
    return () if post.diagnostics is None else tuple(post.diagnostics.problems)


def _doubt(post: Posterior) -> str:
    if not _problems(post):
        return ""
    # One chain has no R-hat, which is no sign that it did not converge.
    alone = post.diagnostics is not None and math.isnan(post.diagnostics.max_r_hat)
    return "Nothing shows that the draws converged" if alone else "The draws did not converge"


def _asked(subject: Subject) -> str:
    post = subject.post
    shapes = data_in_words(post)
    unknown = listed(str(rv.name) for rv in post.model.free_RVs)
    if not shapes:
        if rows := known_rows(post.model):
            seen = listed(f"{name} ({r.number:,} rows, added up)" for name, r in rows.items())
            return f"What do the data {seen} say about {unknown}?"
        potentials = listed(subject.names("potential"))
        return f"What do the Potentials ({potentials}) say about {unknown}?" if potentials else NO_DATA
    return (
        f"What do the data {listed(shapes)} say about {unknown}?" if unknown else f"How probable is {listed(shapes)}?"
    )


def _answer(subject: Subject) -> str:
    """Mean and interval of the first parameters; of chains that may not have converged, that these may be none."""
    if not len(rows := _headline(subject)):
        return ""
    low, high = (next(str(c) for c in rows.columns if str(c).endswith(end)) for end in ("_lb", "_ub"))
    percent = f"{low[3:-3]} %"
    words = []
    for place, (name, row) in enumerate(rows.iterrows()):
        digits = _digits(float(row[low]), float(row[high]))
        interval = f"{number(row[low], digits)} to {number(row[high], digits)}"
        what = f"{percent} interval {interval}" if place == 0 else interval
        words.append(f"{name} {number(row['mean'], digits)} ({what})")
    first = (
        f"{doubt}, so that these numbers may be wrong: posterior" if (doubt := _doubt(subject.post)) else "Posterior"
    )
    rest = _counted(subject) - len(rows)
    more = f", and {rest:,} more below" if rest else ""
    return f"{first} means {listed(words)}{more}." if len(words) > 1 else f"{first} mean {words[0]}{more}."


def _digits(low: float, high: float) -> int:
    """As many that the ends of an interval differ in two: of a million rows, 5.0003 to 5.0031 and not 5 to 5."""
    if not (math.isfinite(low) and math.isfinite(high) and high > low):
        return DIGITS
    largest, width = (math.floor(math.log10(size)) for size in (max(-low, high), high - low))
    return min(MOST_DIGITS, max(DIGITS, largest - width + 2))


def _counted(subject: Subject) -> int:
    """Scalars of the answer: not data, and entries that are missing from data once."""
    summary, free = subject.summary, set(subject.names("free"))
    completed = {name for name in subject.names("deterministic") if f"{name}_unobserved" in free}
    of = [str(label).partition("[")[0] for label in summary.index]
    return sum(name not in completed and row != "observed" for name, row in zip(of, summary["label"], strict=True))


def _headline(subject: Subject) -> pd.DataFrame:
    """The rows of the parameters that a reader asks for first.

    Weights of predictors, before an intercept and a scale of noise; scalars; else entries of the first variable.
    """
    post, summary = subject.post, subject.summary
    hidden = label_variables(post)
    free = [str(rv.name) for rv in post.model.free_RVs if str(rv.name) not in hidden]
    of = [str(label).partition("[")[0] for label in summary.index]
    scalars = [label for label in summary.index if label in free]
    leading = [name for name in free if name in _weights(post)][:1]
    first = leading or ([] if scalars else free[:1])
    entries = [label for label, name in zip(summary.index, of, strict=True) if name in first and label not in scalars]
    return summary.loc[[*entries, *scalars][:ANSWERS]]


def _weights(post: Posterior) -> set[str]:
    """The free variables with an entry for each column of a table of data, or for each function of its columns."""
    if isinstance(post.model, WrittenModel):
        return set()
    dims, coords = post.model.named_vars_to_dims, post.model.coords
    tables = [d for data in post.model.data_vars if len(d := tuple(dims.get(str(data.name), ()))) == 2]
    columns = [set(coords.get(table[1]) or ()) or {None} for table in tables]
    found = set()
    for name in (str(rv.name) for rv in post.model.free_RVs):
        own = tuple(dims.get(name, ()))
        if len(own) == 1 and any(labels <= set(coords.get(own[0]) or ()) for labels in columns):
            found.add(name)
    return found


def _how(post: Posterior) -> str:
    how = post.account or f"The posterior was found by the method “{post.method}”."
    if not math.isnan(post.certificate):
        how += f" Its certificate is {post.certificate:.1e} nats."
    if not math.isnan(post.log_evidence.value):
        how += f" Log evidence {post.log_evidence}."
    if post.diagnostics is None:
        return how
    said = str(post.diagnostics).splitlines()[0]
    return f"{how} {said[0].upper()}{said[1:]}."


def _too_few(subject: Subject) -> str:
    """That there are hardly data that could speak against a model; nothing where there are, or no observed variable."""
    sizes = [int(values.size) for values in observed_data(subject.post.tree).data_vars.values()]
    if not subject.names("observed") or (most := max(sizes, default=0)) >= FEW_VALUES:
        return ""
    if most == 0:
        return "There are no observations that could speak against it"
    if most == 1:
        return "One observed value is too few to speak against it"
    return f"Nothing that was looked at speaks against it, but {most} observed values show a gross misfit at most"


def _distrust(doubts: Sequence[str], unseen: Sequence[str], too_few: str) -> str:
    more = f"; and {len(doubts) - MOST_DOUBTS} more below" if len(doubts) > MOST_DOUBTS else ""
    said = "; ".join(doubts[:MOST_DOUBTS])
    nothing = f"{too_few or 'Nothing that was looked at speaks against it'}."
    words = [f"To distrust: {said}{more}." if doubts else nothing]
    return " ".join([*words, *([f"Not looked at: {listed(unseen)}."] if unseen else [])])


def _facts(post: Posterior) -> Table:
    evidence = post.log_evidence
    rows: list[tuple[Cell, ...]] = [("method", post.method)]
    if math.isnan(evidence.value):
        rows += [("log evidence", "not available"), ("label", evidence.label)]
    else:
        error = HEAD_OF_ERROR[evidence.label], float(f"{evidence.error:.2g}")
        told = evidence.label == "estimated" and 0 < evidence.error < math.inf
        value = round(evidence.value, decimals_of(evidence.error)) if told else evidence.value
        rows += [("log evidence", value), ("label", evidence.label), error]
    rows += [] if math.isnan(post.certificate) else [("certificate (nats)", post.certificate)]
    rows += [] if post.diagnostics is None else [("chains", str(post.diagnostics).splitlines()[0])]
    return Table(("", ""), tuple(rows), digits=10)
