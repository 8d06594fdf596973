"""Short ways to write a linear-Gaussian oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oracles import Answer, GaussianGraph


def graph_answer(write: Callable[[GaussianGraph], Any]) -> Answer:
    """Known variances."""
    graph = GaussianGraph()
    write(graph)
    return graph.answer()


def one_mean(prior_mean: Any, prior_sd: Any, noise: Any, y: Any) -> Answer:
    """mu ~ N(prior_mean, prior_sd²), y ~ N(mu, noise²)."""

    def write(g: GaussianGraph) -> None:
        g.observe(g.normal("mu", prior_mean, prior_sd), noise, y)

    return graph_answer(write)


def scaled_answer(
    write: Callable[[GaussianGraph], Any], name: str, a: Any, b: Any, *, precision: bool = False
) -> Answer:
    """Every variance of the graph times v ~ InverseGamma(a, b), or divided by τ ~ Gamma(a, b)."""
    graph = GaussianGraph()
    write(graph)
    return graph.answer_scaled(name, a, b, precision=precision)
