"""The prior against the posterior at the point that was tested: the Bayes factor is the ratio of their heights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bayeskit.comparison.canvas import Canvas, NamedCurve
from bayeskit.comparison.closed_form import NoClosedForm, mixture_of
from bayeskit.comparison.point_density import prior_density
from bayeskit.errors import BayeskitError, ModelError
from bayeskit.graphs.environment import silently
from bayeskit.model.conditioning import LinearForm
from bayeskit.model.snapshot import restored
from bayeskit.results.picture_style import MUTED, SAFE, picture_style
from bayeskit.results.records import Posterior
from bayeskit.results.tree import stacked_draws

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

    from bayeskit.comparison.point_null import PointNull

__all__ = ["draw_point_null"]

SIZE = (6.2, 3.0)  # inches
POINTS, BINS = 81, 40
TAIL = 0.001  # of the draws on each side that need not be seen


def draw_point_null(null: PointNull, backend: str | None) -> PlotCollection:
    """Both densities along the number that was tested, and their values at the point, which have no error of a curve.

    The posterior is drawn in closed form or by quadrature where it has such a marginal, else as a histogram of its
    draws, which is no density estimate and decides nothing.
    """
    if null.tested is None:
        names = ", ".join(null.at)
        raise ModelError(f"{names} were tested together, which no curve shows; test one of them to draw it")
    ((label, at),) = null.at.items()
    post, form = null.tested
    with restored(post.snapshot):
        draws = _draws_of(post, form)
        whole = draws.dtype.kind in "biu"
        low, high = np.quantile(draws, [TAIL, 1 - TAIL])
        low, high = min(low, at), max(high, at)
        room = 0.05 * (high - low) or 1.0
        x = np.arange(np.floor(low), np.ceil(high) + 1) if whole else np.linspace(low - room, high + room, POINTS)
        prior = np.array([_height(post, form, value) for value in x])
        after = _posterior(post, form, x)
    lines = [NamedCurve("prior", prior, np.zeros(x.size), 1)]
    histogram = "" if after is not None else "; posterior: histogram of draws"
    if after is None:
        edges = np.linspace(low, high, BINS + 1)
        heights, _ = np.histogram(draws, edges, density=True)
        after = np.interp(x, (edges[1:] + edges[:-1]) / 2, heights, left=0.0, right=0.0)
    lines.append(NamedCurve("posterior", after, np.zeros(x.size), 0))
    canvas = Canvas(("density",), SIZE, backend)
    (panel,) = canvas.panels
    with picture_style():
        panel.curves(x, lines, logarithmic=False)
        heights = np.exp([null.log_prior_density, null.log_posterior_density])
        panel.marks.line([at, at], heights, panel.target, color=MUTED, linestyle=":", width=1.2)
        for height, number in zip(heights, (1, 0), strict=True):
            panel.marks.scatter([at], [height], panel.target, color=SAFE[number], size=36)
        factor = f"log Bayes factor {null.log_bayes_factor:.3g} ({null.label})".replace("-", "−")
        panel.name(f"{label} = {at:g}: {factor}", x=f"{label}{histogram}", y="probability" if whole else "density")
    return canvas.collection


def _draws_of(post: Posterior, form: LinearForm) -> np.ndarray:
    draws = stacked_draws(post.tree["posterior"], {name for name, _ in form.terms})
    parts = [c * draws[n].reshape(len(draws[n]), -1)[:, place] for (n, place), c in form.terms.items()]
    whole = all(values.dtype.kind in "biu" for values in draws.values())
    total: np.ndarray = form.constant + np.sum(parts, axis=0)
    return total.round().astype(int) if whole else total


def _height(post: Posterior, form: LinearForm, value: float) -> float:
    """The prior density; zero where there is none, outside of the support."""
    try:
        return float(np.exp(prior_density(post, [form], np.array([value])).value))
    except BayeskitError:
        return 0.0


def _posterior(post: Posterior, form: LinearForm, x: np.ndarray) -> np.ndarray | None:
    """The posterior density along the number, where it is known."""
    if post.method == "exact":
        try:
            mixture = mixture_of(post.analysis)
            with silently():
                return np.exp([mixture.log_density([form], np.array([value]))[0] for value in x])
        except NoClosedForm:
            pass
    if len(form.terms) == 1:
        (((name, place), coefficient),) = form.terms.items()
        marginal = post.marginals.get(name)
        if marginal is not None and marginal.elementwise and post.tree["posterior"][name].dtype.kind == "f":
            shape = post.tree["posterior"][name].shape[2:]
            at = (x - form.constant) / coefficient
            found = np.asarray(marginal.dist.pdf(at.reshape(-1, *(1 for _ in shape)))).reshape(x.size, -1)
            return np.asarray(found[:, place if found.shape[1] > 1 else 0] / abs(coefficient))
    return None
