"""The posterior: a table of every scalar, marginals, intervals, and what models of some kinds have to show."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pandas as pd

from bayeskit.reporting.classes import class_picture, class_plane
from bayeskit.reporting.components import allocation_picture, component_picture, gaussian_components, same_component
from bayeskit.reporting.decoding import decoded_series, decoding_picture
from bayeskit.reporting.figures import interval_pictures, marginal_picture, split_variables, variable_order
from bayeskit.reporting.latent_states import latent_states
from bayeskit.reporting.projection import latent_projection, projection_picture
from bayeskit.reporting.records import Picture, Section, frame_table
from bayeskit.reporting.states import state_picture, state_series
from bayeskit.reporting.subject import Subject, listed
from bayeskit.results.records import Posterior
from bayeskit.results.tails_of_draws import doubted_moments

__all__ = ["posterior_section"]

FOLDED = 20  # entries from which on the table of a variable is folded
RELABELLED = " The draws exchange labels and were relabelled first, unlike those of the table."
# Of models of some kinds: what there is to see, and its picture.
PICTURES = ((class_plane, class_picture), (state_series, state_picture), (latent_projection, projection_picture))


def posterior_section(subject: Subject) -> Section:
    """What is known of every scalar now; the tables of long variables are folded."""
    post = subject.post
    summary = _in_model_order(subject.summary, post)
    names = [str(label).partition("[")[0] for label in summary.index]
    rows = Counter(names)
    long = [name for name in dict.fromkeys(names) if rows[name] > FOLDED]
    short = [name not in long for name in names]
    caption = "Mean, standard deviation and equal-tailed interval of every scalar"
    tables = (frame_table(summary[short], "variable", caption),) if any(short) else ()
    folded = tuple(_folded(name, summary[[n == name for n in names]]) for name in long)
    panels, intervals, hidden = split_variables(post)
    marginals = marginal_picture(post, panels, subject.validation, subject.prior)
    pictures = () if subject.written else _pictures_of_model(post)
    pictures += (*((marginals,) if marginals else ()), *interval_pictures(post, intervals))
    labels = "Rows labelled exact come from the closed form and those labelled quadrature from numerical integration, "
    data = "those labelled observed are data; " if "observed" in set(summary["label"]) else ""
    paragraphs = [f"{labels}without Monte Carlo error; {data}the others come from draws."]
    if summary["label"].str.startswith("estimated").all():
        paragraphs = ["All rows are estimated from draws."]
    if hidden:
        paragraphs.append(f"Not drawn, because there are many: {listed(hidden[:8])}{' …' if len(hidden) > 8 else ''}.")
    draws = post.tree["posterior"].to_dataset()
    doubts = doubted_moments(draws, [str(name) for name in draws.data_vars if name not in post.marginals])
    return Section("posterior", "The posterior", tuple(paragraphs), "", tables, pictures, doubts, folded=folded)


def _folded(name: str, rows: pd.DataFrame) -> Section:
    title = f"{name}: {len(rows):,} entries"
    return Section(f"posterior-{name}", title, tables=(frame_table(rows, "variable", ""),))


def _pictures_of_model(post: Posterior) -> tuple[Picture, ...]:
    found: list[tuple[Any, Any]] = [(draw, find(post)) for find, draw in PICTURES]
    return (*(draw(data) for draw, data in found if data is not None), *_state_pictures(post))


def _state_pictures(post: Posterior) -> tuple[Picture, ...]:
    """Pictures of mixtures and hidden Markov models."""
    states = latent_states(post)
    pictures: tuple[Picture, ...] = ()
    if states is not None and (components := gaussian_components(post, states)) is not None:
        pictures = (component_picture(components),)
    elif states is not None:
        pictures = tuple(map(decoding_picture, decoded_series(post, states)))
    if states is not None and pictures:
        return tuple(replace(p, caption=p.caption + RELABELLED) for p in pictures) if states.relabelled else pictures
    pairs = same_component(post)
    return (allocation_picture(*pairs),) if pairs is not None else ()


def _in_model_order(summary: pd.DataFrame, post: Posterior) -> pd.DataFrame:
    """Rows in the order of the model: free variables first."""
    order = {name: i for i, name in enumerate(variable_order(post))}
    position = [order.get(str(label).partition("[")[0], len(order)) for label in summary.index]
    return summary.iloc[sorted(range(len(position)), key=position.__getitem__)]
