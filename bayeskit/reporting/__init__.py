"""One self-contained HTML page for one analysis.

:func:`report` writes it. :mod:`~bayeskit.reporting.sections` decides what it says, as plain data, and
:mod:`~bayeskit.reporting.html` how it looks; each of the other modules says or draws one thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from bayeskit.arguments import checked
from bayeskit.comparison.comparison import Comparison
from bayeskit.errors import OptionError
from bayeskit.reporting.files import REPORT, check_writable
from bayeskit.reporting.html import render, write_page
from bayeskit.reporting.sections import build_sections
from bayeskit.results.records import Posterior
from bayeskit.validation import Validation

__all__ = ["report"]


@checked
def report(
    post: Posterior,
    path: str | PathLike[str] | None = None,
    *,
    validation: Validation | None = None,
    comparison: Comparison | None = None,
    title: str | None = None,
    about: Sequence[str] = (),
) -> Path:
    """Write a report of one posterior as a self-contained HTML page.

    The page holds the model's graph, the priors, the plan, the posterior (table and plots), a posterior predictive
    check, the evidence with its label and certificate, and what is needed to reproduce it. It needs no network and no
    script, and the same posterior gives the same bytes.

    Parameters
    ----------
    post : Posterior
        From :func:`bayeskit.inference.ladder`.
    path : path-like
        The page; its folder is made if it is missing. Only a regular file is replaced, whole or not at all.
    validation : Validation, optional
        From :func:`bayeskit.validate`: adds the sampler beside the closed form.
    comparison : Comparison, optional
        From :func:`bayeskit.compare`: adds the compared models.
    title : str, optional
        The model's name, or "Posterior report", where not given.
    about : sequence of str, optional
        Paragraphs on the data and the question, with which the page begins.

    Returns
    -------
    pathlib.Path
        Where the page is.

    Raises
    ------
    ModelError, OptionError
        If ``post`` is no posterior; if the page cannot be written there, or no path is given.

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
    sections = build_sections(post, validation=validation, comparison=comparison, about=about)
    return write_page(target, render(title or post.model.name or "Posterior report", sections))
