"""Laws that hold for every model of a family, on models that hypothesis makes up.

- A random directed graph of Normal and MvNormal nodes agrees with the dense closed form of the same description.
- A random conjugate pair agrees with its closed form.
- Updating one observation at a time, each posterior being the next prior, gives the batch evidence and posterior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from numpy.testing import assert_allclose
from oracles import (
    Affine,
    Answer,
    GaussianGraph,
    beta,
    dirichlet,
    gamma,
    inverse_gamma,
    log_choose,
    log_factorial,
    sum_log,
    total,
)

import bayeskit as bk


def assert_exact(model: pm.Model, answer: Answer) -> None:
    """Evidence to 1e-10 and moments to 1e-9 of the closed form."""
    post = bk.infer(model, draws=40, random_seed=1, progressbar=False)
    truth = float(answer.log_evidence)
    assert post.method == "exact", post.plan
    assert abs(post.log_evidence.value - truth) <= 1e-10 * max(1.0, abs(truth))
    assert post.certificate < 1e-8
    for name, (mean, sd) in answer.moments.items():
        marginal = post.marginal(name)
        assert np.all(np.abs(marginal.mean() - mean) <= 1e-9 * np.maximum(np.abs(mean), sd)), name
        assert_allclose(marginal.std(), sd, rtol=1e-9, err_msg=name)


# --- random linear-Gaussian graphs -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Term:
    """One parent's part of a mean: scale · parent[index], or matrix @ parent."""

    parent: int
    matrix: np.ndarray | None
    index: np.ndarray | None
    scale: float


@dataclass(frozen=True)
class Node:
    """A Normal vector whose mean is a sum of terms and an offset."""

    spelling: str
    offset: np.ndarray
    sd: np.ndarray
    terms: tuple[Term, ...]
    data: np.ndarray | None

    @property
    def size(self) -> int:
        return len(self.offset)

    def covariance(self) -> np.ndarray:
        """Equicorrelated where the node is multivariate, diagonal otherwise."""
        correlation = 0.4 if self.spelling in ("cov", "chol") else 0.0
        matrix = np.full((self.size, self.size), correlation) + (1 - correlation) * np.eye(self.size)
        return matrix * np.outer(self.sd, self.sd)


SPELLINGS = ("sigma", "tau", "cov", "chol")


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Node, ...]:
    """Two to four latent nodes and one or two observed ones; every node may lean on any earlier latent node."""
    latents = draw(st.integers(2, 4))
    observed = draw(st.integers(1, 2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    nodes: list[Node] = []
    for i in range(latents + observed):
        is_data = i >= latents
        size = draw(st.integers(1, 6 if is_data else 3))
        candidates = list(range(min(i, latents)))
        least = 1 if is_data else 0
        parents = draw(st.lists(st.sampled_from(candidates), min_size=least, max_size=3, unique=True)) if i else []
        terms = []
        for parent in parents:
            by_index = draw(st.booleans())
            width = nodes[parent].size
            terms.append(
                Term(
                    parent,
                    None if by_index else rng.normal(size=(size, width)),
                    rng.integers(0, width, size=size) if by_index else None,
                    float(rng.normal()),
                )
            )
        nodes.append(
            Node(
                draw(st.sampled_from(SPELLINGS)),
                rng.normal(size=size),
                10.0 ** rng.uniform(-1, 1, size=size),
                tuple(terms),
                3 * rng.normal(size=size) if is_data else None,
            )
        )
    return tuple(nodes)


def pymc_graph(nodes: tuple[Node, ...]) -> pm.Model:
    """The description as a user would write it."""
    with pm.Model() as model:
        made: list[Any] = []
        for i, node in enumerate(nodes):
            mean = pt.as_tensor(node.offset)
            for term in node.terms:
                parent = made[term.parent]
                mean = mean + (term.matrix @ parent if term.index is None else term.scale * parent[term.index])
            name = f"n{i}"
            if node.spelling == "sigma":
                made.append(pm.Normal(name, mean, sigma=node.sd, observed=node.data))
            elif node.spelling == "tau":
                made.append(pm.Normal(name, mean, tau=1 / node.sd**2, observed=node.data))
            elif node.spelling == "cov":
                made.append(pm.MvNormal(name, mean, cov=node.covariance(), observed=node.data))
            else:
                root = np.linalg.cholesky(node.covariance())
                made.append(pm.MvNormal(name, mean, chol=root, observed=node.data))
    return model


def dense_graph(nodes: tuple[Node, ...]) -> Answer:
    """The description as one joint Gaussian."""
    graph = GaussianGraph()
    made: list[Affine] = []
    for i, node in enumerate(nodes):
        mean: Any = node.offset
        for term in node.terms:
            parent = made[term.parent]
            part = term.matrix @ parent if term.index is None else term.scale * parent[term.index]
            mean = part + mean
        if node.data is None:
            made.append(graph.mvnormal(f"n{i}", mean, node.covariance()))
        else:
            graph.observe_mv(mean, node.covariance(), node.data)
    return graph.answer()


@pytest.mark.slow
@settings(max_examples=12)
@given(nodes=graphs())
def test_random_linear_gaussian_graph(nodes: tuple[Node, ...]) -> None:
    assert_exact(pymc_graph(nodes), dense_graph(nodes))


# --- random conjugate pairs --------------------------------------------------------------------------------------

positive = st.floats(0.05, 50.0)
counts = st.lists(st.integers(0, 200), min_size=1, max_size=8)
amounts = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=8)
reals = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=8)


def _beta_binomial(a: float, b: float, ks: list[int]) -> tuple[Callable[[], Any], Answer]:
    n = max(ks) + 3
    k = np.array(ks)
    return (
        lambda: pm.Binomial("y", n=n, p=pm.Beta("p", a, b), observed=k),
        beta("p", a, b, int(k.sum()), int((n - k).sum()), log_choose(n, k)),
    )


def _beta_negative_binomial(a: float, b: float, ks: list[int]) -> tuple[Callable[[], Any], Answer]:
    k = np.array(ks)
    return (
        lambda: pm.NegativeBinomial("y", n=3, p=pm.Beta("p", a, b), observed=k),
        beta("p", a, b, 3 * len(k), int(k.sum()), log_choose(k + 2, k)),
    )


def _gamma_poisson(a: float, b: float, ks: list[int]) -> tuple[Callable[[], Any], Answer]:
    k = np.array(ks)
    base = -log_factorial(k) + int(k.sum()) * mp.log(1.5)
    return (
        lambda: pm.Poisson("y", 1.5 * pm.Gamma("rate", a, b), observed=k),
        gamma("rate", a, b, int(k.sum()), 1.5 * len(k), base),
    )


def _dirichlet_multinomial(a: float, b: float, ks: list[int]) -> tuple[Callable[[], Any], Answer]:
    k = np.array([*ks, 1])
    alpha = np.linspace(a, a + b, len(k))
    return (
        lambda: pm.Multinomial("y", n=int(k.sum()), p=pm.Dirichlet("theta", a=alpha), observed=k),
        dirichlet("theta", alpha, k, log_factorial(k.sum()) - log_factorial(k)),
    )


@pytest.mark.slow
@settings(max_examples=12)
@given(
    pair=st.sampled_from([_beta_binomial, _beta_negative_binomial, _gamma_poisson, _dirichlet_multinomial]),
    a=positive,
    b=positive,
    ks=counts,
)
def test_random_pair_with_counts(pair: Callable[..., Any], a: float, b: float, ks: list[int]) -> None:
    body, answer = pair(a, b, ks)
    with pm.Model() as model:
        body()
    assert_exact(model, answer)


def _gamma_exponential(a: float, b: float, ys: np.ndarray) -> tuple[Callable[[], Any], Answer]:
    return (
        lambda: pm.Exponential("y", pm.Gamma("rate", a, b), observed=ys),
        gamma("rate", a, b, len(ys), total(ys)),
    )


def _inverse_gamma_exponential(a: float, b: float, ys: np.ndarray) -> tuple[Callable[[], Any], Answer]:
    return (
        lambda: pm.Exponential("y", scale=pm.InverseGamma("v", a + 2, b), observed=ys),
        inverse_gamma("v", a + 2, b, len(ys), total(ys)),
    )


def _gamma_lognormal(a: float, b: float, ys: np.ndarray) -> tuple[Callable[[], Any], Answer]:
    half = total([mp.log(mpf(float(y))) ** 2 for y in ys]) / 2
    base = -len(ys) * mp.log(2 * mp.pi) / 2 - sum_log(ys)
    return (
        lambda: pm.LogNormal("y", 0.0, tau=pm.Gamma("tau", a, b), observed=ys),
        gamma("tau", a, b, mpf(len(ys)) / 2, half, base),
    )


def _gamma_gamma(a: float, b: float, ys: np.ndarray) -> tuple[Callable[[], Any], Answer]:
    base = mpf(1.5) * sum_log(ys) - len(ys) * mp.loggamma(2.5)
    return (
        lambda: pm.Gamma("y", 2.5, pm.Gamma("rate", a, b), observed=ys),
        gamma("rate", a, b, 2.5 * len(ys), total(ys), base),
    )


@pytest.mark.slow
@settings(max_examples=12)
@given(
    pair=st.sampled_from([_gamma_exponential, _inverse_gamma_exponential, _gamma_lognormal, _gamma_gamma]),
    a=positive,
    b=positive,
    ys=amounts,
)
def test_random_pair_with_amounts(pair: Callable[..., Any], a: float, b: float, ys: list[float]) -> None:
    body, answer = pair(a, b, np.array(ys))
    with pm.Model() as model:
        body()
    assert_exact(model, answer)


@pytest.mark.slow
@settings(max_examples=8)
@given(a=positive, b=positive, kappa=positive, centre=st.floats(-10, 10), ys=reals, precision=st.booleans())
def test_random_normal_inverse_gamma(
    a: float, b: float, kappa: float, centre: float, ys: list[float], precision: bool
) -> None:
    y, a = np.array(ys), a + 2
    with pm.Model() as model:
        if precision:
            tau = pm.Gamma("s", a, b)
            pm.Normal("y", pm.Normal("mu", centre, tau=kappa * tau), tau=tau, observed=y)
        else:
            v = pm.InverseGamma("s", a, b)
            pm.Normal("y", pm.Normal("mu", centre, pt.sqrt(v / kappa)), pt.sqrt(v), observed=y)
    graph = GaussianGraph()
    graph.observe(graph.normal("mu", centre, 1 / mp.sqrt(mpf(kappa))), 1, y)
    assert_exact(model, graph.answer_scaled("s", a, b, precision=precision))


# --- the prequential identity ------------------------------------------------------------------------------------

_Prior = tuple[float, ...]


def _mean_and_variance(post: bk.Posterior, name: str) -> tuple[float, float]:
    marginal = post.marginal(name)
    return float(marginal.mean()), float(marginal.std()) ** 2


def _beta_from(post: bk.Posterior) -> _Prior:
    mean, variance = _mean_and_variance(post, "p")
    size = mean * (1 - mean) / variance - 1
    return mean * size, (1 - mean) * size


def _gamma_from(post: bk.Posterior) -> _Prior:
    mean, variance = _mean_and_variance(post, "rate")
    return mean**2 / variance, mean / variance


def _normal_from(post: bk.Posterior) -> _Prior:
    mean, variance = _mean_and_variance(post, "mu")
    return mean, variance**0.5


def _normal_inverse_gamma_from(post: bk.Posterior) -> _Prior:
    mean, variance = _mean_and_variance(post, "v")
    a = mean**2 / variance + 2
    centre, spread = _mean_and_variance(post, "mu")
    return a, mean * (a - 1), centre, mean / spread


def _write_beta(prior: _Prior, y: np.ndarray) -> None:
    pm.Geometric("y", pm.Beta("p", *prior), observed=y)


def _write_gamma(prior: _Prior, y: np.ndarray) -> None:
    pm.Poisson("y", 2 * pm.Gamma("rate", *prior), observed=y)


def _write_normal(prior: _Prior, y: np.ndarray) -> None:
    pm.Normal("y", pm.Normal("mu", *prior), 1.5, observed=y)


def _write_normal_inverse_gamma(prior: _Prior, y: np.ndarray) -> None:
    a, b, centre, kappa = prior
    v = pm.InverseGamma("v", a, b)
    pm.Normal("y", pm.Normal("mu", centre, pt.sqrt(v / kappa)), pt.sqrt(v), observed=y)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "posterior_as_prior", "prior", "y"),
    [
        (_write_beta, _beta_from, (2.0, 3.0), np.array([1, 4, 2, 2, 9])),
        (_write_gamma, _gamma_from, (2.0, 1.0), np.array([3, 0, 5, 2, 7])),
        (_write_normal, _normal_from, (0.0, 15.0), np.array([0.3, -1.2, 2.2, 0.1, 0.9])),
        (
            _write_normal_inverse_gamma,
            _normal_inverse_gamma_from,
            (3.0, 2.0, 0.5, 0.25),
            np.array([0.3, -1.2, 2.2, 0.1, 0.9]),
        ),
    ],
    ids=["Beta and Geometric", "Gamma and Poisson", "Normal", "normal-inverse-gamma"],
)
def test_one_step_ahead_densities_add_up_to_the_evidence(
    write: Callable[[_Prior, np.ndarray], None],
    posterior_as_prior: Callable[[bk.Posterior], _Prior],
    prior: _Prior,
    y: np.ndarray,
) -> None:
    """log p(y) = Σ log p(y_t | y_<t), each term the evidence of one row under the posterior of those before."""

    def infer(belief: _Prior, rows: np.ndarray) -> bk.Posterior:
        with pm.Model() as model:
            write(belief, rows)
        return bk.infer(model, draws=40, random_seed=1, progressbar=False)

    batch = infer(prior, y)
    belief, log_densities = prior, []
    for row in y:
        step = infer(belief, np.array([row]))
        log_densities.append(step.log_evidence.value)
        belief = posterior_as_prior(step)
    assert_allclose(sum(log_densities), batch.log_evidence.value, rtol=1e-9)
    assert_allclose(belief, posterior_as_prior(batch), rtol=1e-8)
