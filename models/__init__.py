"""The catalogue: one generative model a file, each the graph only.

``MODELS`` lists their names; :func:`load_model` imports one. A model module has ``VARIABLES`` (the data it needs),
``EXAMPLE`` (a shipped data set) and ``build(data, **options) -> pymc.Model``. To add a model, add its file and its
name.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from types import ModuleType

from bayeskit.errors import ModelError

__all__ = ["MODELS", "load_model"]

MODELS = (
    "beta_binomial",
    "gamma_poisson",
    "dirichlet_multinomial",
    "normal",
    "multivariate_normal",
    "linear_regression",
    "beta_binomial_groups",
    "hierarchical_normal",
    "robust_regression",
    "logistic_regression",
    "ordered_regression",
    "softmax_regression",
    "poisson_regression",
    "survival",
    "mixed_logistic_regression",
    "item_response",
    "varying_slopes",
    "poisson_changepoint",
    "structural_time_series",
    "stochastic_volatility",
    "gaussian_process",
    "neural_network",
    "probabilistic_pca",
    "gaussian_classifier",
    "naive_bayes",
    "supervised_markov",
    "gaussian_mixture",
    "binomial_mixture",
    "hidden_markov",
)


def load_model(name: str) -> ModuleType:
    """Import one model of the catalogue.

    Parameters
    ----------
    name : str
        One of ``MODELS``.

    Raises
    ------
    ModelError
        If there is no such model.
    """
    known = name if isinstance(name, str) else type(name).__name__
    if known not in MODELS:
        near = get_close_matches(known, MODELS)
        has = f"{', '.join(near)} and others, which `bayeskit models` lists" if near else ", ".join(MODELS)
        raise ModelError(f"no model {known!r} in the catalogue; it has {has}")
    return import_module(f"{__name__}.{name}")
