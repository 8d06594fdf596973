"""One self-contained HTML page for one analysis.

:func:`report` writes it. :mod:`~bayeskit.reporting.sections` decides what it says, as plain data, and
:mod:`~bayeskit.reporting.html` how it looks; each of the other modules says or draws one thing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from bayeskit.arguments import checked
from bayeskit.comparison.comparison import Comparison
from bayeskit.errors import OptionError
from bayeskit.reporting.compared_models import comparison_sections
from bayeskit.reporting.files import REPORT, check_writable
from bayeskit.reporting.html import render, write_page
from bayeskit.reporting.records import Section, styled
from bayeskit.reporting.result_sections import result_sections
from bayeskit.reporting.sections import build_sections, versions_section
from bayeskit.results.records import Posterior
from bayeskit.validation import Validation

__all__ = ["report"]


@checked
def report(
    post: Posterior | Comparison,
    path: str | PathLike[str] | None = None,
    *,
    validation: Validation | None = None,
    comparison: Comparison | None = None,
    results: Mapping[str, Any] | Sequence[Any] = (),
    title: str | None = None,
    about: Sequence[str] = (),
) -> Path:
    """Write a report of one posterior, or of a comparison of models, as a self-contained HTML page.

    The page holds the model's graph, the priors, the plan, the posterior (table and plots), a posterior predictive
    check, the evidence with its label and certificate, and what is needed to reproduce it; that of a comparison the
    evidences (table and plots), the priors that they depend on, and how each was found. It needs no network and no
    script, and the same posterior gives the same bytes.

    Parameters
    ----------
    post : Posterior or Comparison
        From :func:`bayeskit.infer` or :func:`bayeskit.compare`.
    path : path-like
        The page; its folder is made if it is missing. Only a regular file is replaced, whole or not at all.
    validation : Validation, optional
        From :func:`bayeskit.validate`: adds the sampler beside the closed form.
    comparison : Comparison, optional
        From :func:`bayeskit.compare`: adds the compared models.
    results : sequence or mapping of str, optional
        What else was asked, as of :func:`bayeskit.evidence`, :func:`bayeskit.sequential` or
        :func:`bayeskit.savage_dickey`: each a section with its picture, under the title that it is given.
    title : str, optional
        The model's name, "Posterior report" or "Models compared", where not given.
    about : sequence of str, optional
        Paragraphs on the data and the question, with which the page begins.

    Returns
    -------
    pathlib.Path
        Where the page is.

    Raises
    ------
    ModelError, OptionError
        If ``post`` is neither; if the page cannot be written there, or no path is given; if a result has no section.

    Notes
    -----
    Posterior predictive draws are made with the posterior's own seed if there are none yet, and are then kept in
    ``post.tree``. Of a large model, at most 40 graph nodes, 12 densities, 40 intervals a variable and 30 table rows are
    shown, and the page says how many are not. A page takes one to a few seconds.
    """
    if path is None:
        raise OptionError("a report needs the path of its page, as in report(posterior, 'line.html')")
    target = Path(path)
    check_writable(target, REPORT)  # before the pictures are made
    with styled():
        further = result_sections(results)
        name, sections = _sections(post, validation, comparison, about)
    return write_page(target, render(title or name, (*sections[:-1], *further, sections[-1])))


def _sections(
    post: Posterior | Comparison, validation: Validation | None, comparison: Comparison | None, about: Sequence[str]
) -> tuple[str, tuple[Section, ...]]:
    """The page's title, where none is given, and its sections, of which the last says how to reproduce it."""
    if isinstance(post, Posterior):
        title = post.model.name or "Posterior report"
        return title, build_sections(post, validation=validation, comparison=comparison, about=about)
    if validation is not None or comparison is not None:
        raise OptionError("the page of a comparison has neither a validation nor another comparison; leave it out")
    best = post.posteriors[str(post.table.index[0])]
    return "Models compared", (*comparison_sections(post, about), versions_section(best))
