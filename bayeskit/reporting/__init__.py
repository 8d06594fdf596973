"""One self-contained HTML page for one analysis.

:func:`report` writes it, :func:`report_section` gives one of its sections to a notebook.
:mod:`~bayeskit.reporting.sections` decides what it says, as plain data, and :mod:`~bayeskit.reporting.html` how it
looks; each of the other modules says or draws one thing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pymc as pm

from bayeskit.arguments import checked
from bayeskit.comparison.comparison import Comparison
from bayeskit.errors import ModelError, OptionError
from bayeskit.graphs.environment import lightly, on_one_thread
from bayeskit.reporting.compared_models import comparison_sections
from bayeskit.reporting.evidence_sections import comparison_versions_section
from bayeskit.reporting.files import REPORT, check_writable
from bayeskit.reporting.given_draws import posterior_of_draws
from bayeskit.reporting.html import render, write_page
from bayeskit.reporting.records import Section, styled
from bayeskit.reporting.result_sections import result_sections
from bayeskit.reporting.sections import build_sections, chosen_sections
from bayeskit.results.records import Posterior
from bayeskit.validation import Validation

__all__ = ["Section", "report", "report_section"]


@checked
@lightly()
@on_one_thread()  # its matrices are small: threads wait for each other, for two thirds of the time of a mixture's page
def report(
    post: Any,
    path: str | PathLike[str] | None = None,
    *,
    model: pm.Model | None = None,
    validation: Validation | None = None,
    comparison: Comparison | None = None,
    results: Mapping[str, Any] | Sequence[Any] = (),
    sections: Sequence[str | Section] | None = None,
    title: str | None = None,
    about: Sequence[str] = (),
) -> Path:
    """Write a report of a posterior, or of a comparison, as one HTML page without scripts that begins with a verdict.

    Parameters
    ----------
    post : Posterior, Comparison, xarray.DataTree or xarray.Dataset
        From :func:`bayeskit.infer` or :func:`bayeskit.compare`; or draws of any sampler, as of :func:`pymc.sample`.
    path : path-like
        The page; its folder is made if it is missing. Only a regular file is replaced, whole or not at all.
    model : pymc.Model, optional
        That draws are of, with the data that they saw: any that PyMC can sample.
    validation, comparison : Validation, Comparison, optional
        Add the sampler beside the closed form, and the compared models.
    results : sequence or mapping of str, optional
        What else was asked, as of :func:`bayeskit.evidence` or :func:`bayeskit.savage_dickey`: each a section, under
        the title that it is given.
    sections : sequence of str or Section, optional
        Names of the sections to show, as of :func:`bayeskit.report_section`, or with ``~`` of those to leave out; a
        :class:`Section` of your own is added. The verdict says which judgements were left out.
    title, about : str, sequence of str, optional
        Its heading, and paragraphs on the data and the question.

    Raises
    ------
    ModelError, DataError, OptionError
        If ``post`` is none of these, or draws are not of the model: a variable is missing, has another shape or other
        labels, the observed data are others; if the page cannot be written; if a result or section is not known.

    Notes
    -----
    Posterior predictive draws are made with the posterior's own seed, and kept in ``post.tree``. Of a large model at
    most 40 graph nodes, 12 densities, 40 intervals a variable and 500 rows are shown. It takes about a second.
    The same posterior gives the same bytes.

    Examples
    --------
    >>> bk.report(tree, "reports/page.html", model=model, sections=["~graph"])  # doctest: +SKIP
    """
    if path is None:
        raise OptionError("a report needs the path of its page, as in report(posterior, 'line.html')")
    chosen_sections(sections)
    asked, target = _asked(post, model), Path(path)
    check_writable(target, REPORT)  # before the pictures are made
    with styled():
        further = result_sections(results)
        name, found = _contents(asked, validation, comparison, about, further, sections)
    return write_page(target, render(title or name, found, _facts(asked, found)))


def _contents(
    asked: Posterior | Comparison,
    validation: Validation | None,
    comparison: Comparison | None,
    about: Sequence[str],
    further: tuple[Section, ...],
    chosen: Sequence[str | Section] | None,
) -> tuple[str, tuple[Section, ...]]:
    """The page's title, where none is given, and its sections."""
    if isinstance(asked, Posterior):
        options: dict[str, Any] = {"validation": validation, "comparison": comparison, "about": about}
        found = build_sections(asked, **options, further=further, chosen=chosen)
        return asked.model.name or "Posterior report", found
    if validation is not None or comparison is not None:
        raise OptionError("the page of a comparison has neither a validation nor another comparison; leave it out")
    return "Models compared", _compared(asked, about, further, chosen)


@checked
@lightly()
@on_one_thread()
def report_section(
    post: Any,
    name: str,
    *,
    model: pm.Model | None = None,
    validation: Validation | None = None,
    comparison: Comparison | None = None,
) -> Section:
    """One section of a posterior's report, which a notebook shows.

    Parameters
    ----------
    post : Posterior, xarray.DataTree or xarray.Dataset
        As of :func:`bayeskit.report`.
    name : str
        "verdict", "posterior", "learning" (the prior against the posterior), "sampler", "predictive", "loo",
        "sensitivity" (to priors), "gradient" (of the evidence in the priors; on a page only where it is named),
        "graph", "priors", "plan", "evidence", "validation", "comparison" or "versions".
    model : pymc.Model, optional
        Of draws.
    validation : Validation, optional
        For the section "validation".
    comparison : Comparison, optional
        For the section "comparison".

    Returns
    -------
    Section
        Its paragraphs, tables and pictures, as data.

    Raises
    ------
    ModelError, DataError, OptionError
        If draws are not of the model; if there is no such section, or it has nothing to say of this posterior.

    Notes
    -----
    The verdict is made of all the others, and takes as long as a page; another section some tenths of a second.

    Examples
    --------
    >>> bk.report_section(post, "sampler")  # doctest: +SKIP
    """
    asked = _asked(post, model)
    if not isinstance(asked, Posterior):
        raise ModelError("a comparison has no sections by name; show the comparison itself")
    chosen_sections([name] if not name.startswith("~") else ["", name])
    chosen = None if name == "verdict" else [name]
    found = build_sections(asked, validation=validation, comparison=comparison, chosen=chosen)
    if (section := next((s for s in found if s.key == name), None)) is None:
        raise OptionError(f"the section {name!r} has nothing to say of this posterior")
    return section


def _asked(post: Any, model: pm.Model | None) -> Posterior | Comparison:
    """What a page is of: draws become a posterior."""
    if not isinstance(post, Posterior | Comparison):
        return posterior_of_draws(post, model)
    if model is not None:
        raise OptionError(f"a {type(post).__name__} has its model; leave model=... out")
    return post


def _facts(asked: Posterior | Comparison, found: Sequence[Section]) -> dict[str, Any]:
    """What an index says of the page."""
    doubts = dict.fromkeys(doubt for section in found for doubt in section.doubts)
    if not isinstance(asked, Posterior):
        return {"method": "comparison", "log_evidence": None, "doubts": [*doubts, *asked.notes]}
    problems = () if asked.diagnostics is None else asked.diagnostics.problems
    evidence = asked.log_evidence.value
    known = None if math.isnan(evidence) else evidence
    return {"method": asked.method, "log_evidence": known, "doubts": [*dict.fromkeys((*problems, *doubts))]}


def _compared(
    comparison: Comparison, about: Sequence[str], further: tuple[Section, ...], chosen: Sequence[str | Section] | None
) -> tuple[Section, ...]:
    if any(isinstance(one, str) for one in chosen or ()):
        raise OptionError("sections names those of a posterior's page; to that of a comparison your own can be added")
    own = [one for one in chosen or () if isinstance(one, Section)]
    return (*comparison_sections(comparison, about), *further, *own, comparison_versions_section(comparison))
