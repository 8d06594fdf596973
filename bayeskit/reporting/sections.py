"""What a report says, as plain data: sections of paragraphs, tables and pictures. No markup; :mod:`html` renders it.

A section is a name and a function of the :class:`~bayeskit.reporting.subject.Subject` that gives it, or None where it
has nothing to say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bayeskit.comparison.comparison import Comparison
from bayeskit.errors import OptionError
from bayeskit.model.snapshot import on_its_data
from bayeskit.reporting.compared_models import comparison_section
from bayeskit.reporting.evidence_sections import evidence_section, validation_section, versions_section
from bayeskit.reporting.learning import learning_section
from bayeskit.reporting.model_sections import graph_section, plan_section, priors_section
from bayeskit.reporting.posterior_section import posterior_section
from bayeskit.reporting.predictive_section import predictive_section
from bayeskit.reporting.prior_dependence import gradient_section, prior_dependence_section
from bayeskit.reporting.records import Section, styled
from bayeskit.reporting.sampler import sampler_section
from bayeskit.reporting.single_observations import loo_section
from bayeskit.reporting.subject import Subject
from bayeskit.reporting.verdict import verdict
from bayeskit.results.records import Posterior
from bayeskit.validation import Validation

__all__ = ["SECTIONS", "build_sections", "chosen_sections"]

VERDICT, LAST = "verdict", "versions"
ASKED_FOR = {"gradient"}  # takes as long as the rest of a page, and is on it where it is named


@on_its_data
def build_sections(
    post: Posterior,
    *,
    validation: Validation | None = None,
    comparison: Comparison | None = None,
    about: Sequence[str] = (),
    further: Sequence[Section] = (),
    chosen: Sequence[str | Section] | None = None,
) -> tuple[Section, ...]:
    """Everything a report says about one posterior, in the order of the page; the options are those of ``report``."""
    names, own = chosen_sections(chosen)
    subject = Subject(post, validation, comparison, about, tuple(further))
    with styled():
        made = {name: SECTIONS[name](subject) for name in SECTIONS if name in names}
        found = [section for section in made.values() if section is not None]
        others = [*found, *further, *own]
        first = [verdict(subject, others)] if VERDICT in names else []
    last = [section for section in found if section.key == LAST]
    return (*first, *(s for s in others if s.key != LAST), *last)


def chosen_sections(chosen: Sequence[str | Section] | None) -> tuple[set[str], tuple[Section, ...]]:
    """The names of the sections to make, and the user's own; an OptionError where one is not known."""
    every = {VERDICT, *SECTIONS}
    own = tuple(one for one in chosen or () if isinstance(one, Section))
    names = [one for one in chosen or () if isinstance(one, str)]
    if unknown := [name for name in names if name.removeprefix("~") not in every]:
        raise OptionError(f"there is no section {unknown[0]!r}; there are {', '.join((VERDICT, *SECTIONS))}")
    without = {name[1:] for name in names if name.startswith("~")}
    if without and len(without) < len(set(names)):
        raise OptionError("sections names some to show and, with ~, others to leave out; do one of both")
    if taken := [one.key for one in own if one.key in every]:
        raise OptionError(f"a section of your own has the key {taken[0]!r}, which is a page's; give it another")
    return set(names) if names and not without else every - without - ASKED_FOR, own


def _comparison(subject: Subject) -> Section | None:
    return None if subject.comparison is None else comparison_section(subject.comparison)


# In the order of a page; the verdict, which is made of them, comes first.
SECTIONS: dict[str, Callable[[Subject], Section | None]] = {
    "posterior": posterior_section,
    "learning": learning_section,
    "sampler": sampler_section,
    "predictive": predictive_section,
    "loo": loo_section,
    "sensitivity": prior_dependence_section,
    "gradient": gradient_section,
    "graph": graph_section,
    "priors": priors_section,
    "plan": plan_section,
    "evidence": evidence_section,
    "validation": validation_section,
    "comparison": _comparison,
    "versions": versions_section,
}
