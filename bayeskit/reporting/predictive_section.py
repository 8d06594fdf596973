"""Data replicated from the posterior beside those observed: pictures, test statistics, and what is not reproduced."""

from __future__ import annotations

from dataclasses import replace

from bayeskit.errors import ModelError
from bayeskit.reporting.checks import check_pictures
from bayeskit.reporting.curve import curve_picture, fitted_curve
from bayeskit.reporting.records import Section, frame_table
from bayeskit.reporting.subject import Subject, listed
from bayeskit.validation.predictive_checks.against_replicated import posterior_check

__all__ = ["predictive_section"]

TITLE = "Posterior predictive check"
IGNORED = (
    "They know nothing of the Potentials ({}): what these say of the parameters is in the posterior, but what they say "
    "of data, of censored values perhaps, is in no replicated value, and a difference may be due to that."
)
HEADS = {"median": "replicated median", "below": "share below", "tail": "tail probability"}
MEANING = (
    "Share below: of the replicated data sets, those whose statistic is below the observed one, with half of those "
    "where it is equal. Tail probability: twice the smaller of the shares at or below and at or above it, for data may "
    "vary more and less than the model says; of PIT, a distance, the share at or above. The data are used twice, to "
    "fit and to check: of a right model it is too large rather than too small, and what lies in no tail is not proved."
)


def predictive_section(subject: Subject) -> Section | None:
    """Would the fitted model produce data like these? Each misfit is a doubt in words."""
    post, written = subject.post, subject.written
    if not subject.names("observed"):
        return None
    potentials = listed(subject.names("potential"))
    if written and "posterior_predictive" not in post.tree.children:
        absent = "There are no replicated data: the posterior was loaded without its model, which would draw them."
        return Section("predictive", TITLE, (absent,))
    try:
        pictures = check_pictures(post, f"The replicated data know nothing of {potentials}." if potentials else "")
        found = posterior_check(post, random_seed=post.random_seed)
    except ModelError as error:
        return Section("predictive", TITLE, (f"There are no replicated data: {error}.",))
    if not written and (curve := fitted_curve(post)) is not None:
        pictures = (curve_picture(curve), *pictures)
    asked = "Would the fitted model produce data like these?"
    how = "Replicated data are drawn from the posterior predictive distribution."
    said = [f"{asked} {how}", *((IGNORED.format(potentials),) if potentials else ())]
    said += [f"{words[:1].upper()}{words[1:]}." for words in (found.verdict, *found.notes)]
    table = found.table.set_index("variable").drop(columns=["error"]).rename(columns=HEADS)
    statistics = frame_table(table, "variable", "Test statistics of the data and of replicated ones")
    tables = (replace(statistics, note=f"{statistics.note} {MEANING}".strip()),) if len(table) else ()
    doubts = (found.verdict,) if found.passed and found.too_few else found.sentences
    return Section("predictive", TITLE, tuple(said), "", tables, pictures, doubts)
