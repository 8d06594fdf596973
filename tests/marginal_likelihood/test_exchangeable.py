"""Exchangeable components: which labels can be permuted, the evidence over all labellings, and relabelled draws.

The oracle of the evidence is a conjugate mixture summed over all K^N allocations, which gives independent draws of the
posterior as well: nothing is sampled by MCMC but in one test from end to end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from pymc.distributions import transforms
from pytensor.raise_op import Assert
from scipy import linalg, special, stats

import bayeskit as bk
import bayeskit.marginal_likelihood.exchangeable as exchangeable_module
from bayeskit.elimination.plan import analyse
from bayeskit.errors import DataError, ModelError, OptionError
from bayeskit.marginal_likelihood.exchangeable import exchangeable
from bayeskit.marginal_likelihood.permutations import Exchangeable, convention, labellings, number_of_labellings
from bayeskit.marginal_likelihood.prior_mass import prior_mass
from bayeskit.marginal_likelihood.reflections import reflections
from bayeskit.marginal_likelihood.sampled import evidence_of_draws
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.results.records import LogEvidence

DATA = np.array([-2.3, -1.9, -1.6, -2.4, 1.8, 2.2, 2.5, 0.4])


# --- finding them -----------------------------------------------------------------------------------------------------


def normal_mixture(size: int, *, mean: Any = 0.0, concentration: Any = 1.0, scale: Any = None) -> pm.Model:
    with pm.Model(coords={"component": range(size)}) as model:
        w = pm.Dirichlet("w", concentration * np.ones(size), dims="component")
        mu = pm.Normal("mu", mean, 3.0, dims="component")
        sigma = pm.InverseGamma("sigma", 3.0, 2.0, dims="component") if scale is None else scale
        pm.NormalMixture("y", w=w, mu=mu, sigma=sigma, observed=DATA)
    return model


def multivariate_mixture() -> pm.Model:
    with pm.Model() as model:
        w, mu = pm.Dirichlet("w", np.ones(3)), pm.Normal("mu", 0.0, 3.0, shape=(3, 3))
        parts = [pm.MvNormal.dist(mu[k], np.eye(3)) for k in range(3)]
        pm.Mixture("y", w, parts, observed=DATA[:6].reshape(2, 3))
    return model


def hierarchical_means() -> pm.Model:
    """The means have a common unknown centre; the weights are as PyMC's potential has them."""
    with pm.Model() as model:
        centre, spread = pm.Normal("centre"), pm.HalfNormal("spread")
        mu = pm.Normal("mu", centre, spread, shape=4)
        w = pm.Dirichlet("w", np.ones(4))
        log_densities = pm.logp(pm.Normal.dist(mu, 0.5), DATA[:, None]) + pt.log(w)
        pm.Potential("likelihood", pt.logsumexp(log_densities, axis=1).sum())
    return model


def collapsed(*, different: bool = False) -> pm.Model:
    """As the library's own collapsed models: no prior of its own, everything in one potential."""
    with pm.Model() as model:
        mu = pm.Flat("mu", shape=3)
        scale = pm.Flat("scale", shape=3, transform=transforms.log)
        each = -0.5 * (DATA[:, None] - mu) ** 2 / scale**2 - pt.log(scale)
        # Weights that are not all the same belong to no permutation.
        each = each + np.log([0.5, 0.25, 0.25] if different else [1 / 3] * 3)
        pm.Potential("log_marginal", pt.logsumexp(each, axis=1).sum() - 0.5 * pt.sum(mu**2) - pt.sum(scale))
    return model


def two_mixtures() -> pm.Model:
    with pm.Model() as model:
        for name, size in (("a", 2), ("b", 2), ("c", 3)):
            w = pm.Dirichlet(f"w_{name}", np.ones(size))
            mu = pm.Normal(f"mu_{name}", 0.0, 3.0, shape=size)
            pm.NormalMixture(f"y_{name}", w=w, mu=mu, sigma=1.0, observed=DATA)
    return model


def hidden_markov(size: int = 2) -> pm.Model:
    """The states summed out by the forward recursion, written out."""
    with pm.Model() as model:
        transition = pm.Dirichlet("transition", np.ones((size, size)))
        start = pm.Dirichlet("start", np.ones(size))
        mu = pm.Normal("mu", 0.0, 3.0, shape=size)
        density = pm.logp(pm.Normal.dist(mu, 1.0), DATA[:, None])
        forward = pt.log(start) + density[0]
        for t in range(1, len(DATA)):
            forward = pt.logsumexp(forward[:, None] + pt.log(transition), axis=0) + density[t]
        pm.Potential("likelihood", pt.logsumexp(forward))
    return model


def independent_rows() -> pm.Model:
    """A matrix whose rows and columns can be permuted apart, and a vector of sum zero: several groups."""
    with pm.Model() as model:
        pm.Normal("matrix", shape=(3, 3))
        pm.ZeroSumNormal("effect", shape=4)
        pm.Normal("y", 0.0, 1.0, observed=DATA)
    return model


def plain_means(data: list[float]) -> pm.Model:
    with pm.Model() as model:
        theta = pm.Normal("theta", pm.Normal("mu"), 1.0, shape=len(data))
        pm.StudentT("y", nu=4.0, mu=theta, sigma=1.0, observed=data)
    return model


def separate_bounds() -> pm.Model:
    """On the unconstrained scale both are logistic; on their own they are not the same."""
    with pm.Model() as model:
        pm.Uniform("x", [0.0, 5.0], [1.0, 6.0])
        pm.Normal("y", 0.0, 1.0, observed=DATA)
    return model


Found = list[tuple[dict[str, tuple[int, ...]], tuple[int, ...]]]
ALL = {"w": (0,), "mu": (0,), "sigma": (0,)}
CASES: dict[str, tuple[Callable[[], pm.Model], Found]] = {
    "mixture of two": (lambda: normal_mixture(2), [(ALL, (0, 1))]),
    "mixture of five": (lambda: normal_mixture(5), [(ALL, (0, 1, 2, 3, 4))]),
    "vectors": (multivariate_mixture, [({"w": (0,), "mu": (0,)}, (0, 1, 2))]),
    "hierarchical means": (hierarchical_means, [({"w": (0,), "mu": (0,)}, (0, 1, 2, 3))]),
    "collapsed": (collapsed, [({"mu": (0,), "scale": (0,)}, (0, 1, 2))]),
    "hidden Markov": (hidden_markov, [({"transition": (0, 1), "start": (0,), "mu": (0,)}, (0, 1))]),
    "three mixtures": (
        two_mixtures,
        [({f"w_{n}": (0,), f"mu_{n}": (0,)}, tuple(range(k))) for n, k in (("a", 2), ("b", 2), ("c", 3))],
    ),
    "independent rows": (
        independent_rows,
        [({"matrix": (0,)}, (0, 1, 2)), ({"matrix": (1,)}, (0, 1, 2)), ({"effect": (0,)}, (0, 1, 2, 3))],
    ),
    # Near misses.
    "means with different priors": (lambda: normal_mixture(2, mean=[0.0, 5.0]), []),
    "means with nearly the same prior": (lambda: normal_mixture(2, mean=[0.0, 1e-4]), []),
    "unequal concentrations": (lambda: normal_mixture(2, concentration=np.array([1.0, 2.0])), []),
    "known scales that differ": (lambda: normal_mixture(2, scale=np.array([1.0, 1.1])), []),
    "data along the axis": (lambda: plain_means([0.3, -0.5, 1.2]), []),
    "bounds that differ": (separate_bounds, []),
    # Some labels only.
    "one component differs": (lambda: normal_mixture(3, concentration=np.array([2.0, 1.0, 1.0])), [(ALL, (1, 2))]),
    "one known weight differs": (lambda: collapsed(different=True), [({"mu": (0,), "scale": (0,)}, (1, 2))]),
    "two equal observations": (lambda: plain_means([0.3, -0.5, 0.3]), [({"theta": (0,)}, (0, 2))]),
}


@cache
def found_in(name: str) -> tuple[pm.Model, tuple[Exchangeable, ...]]:
    model = CASES[name][0]()
    return model, exchangeable(model)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_exchangeable_components(name: str) -> None:
    expected, (_, groups) = CASES[name][1], found_in(name)
    found = [(dict(g.axes), g.labels) for g in groups]
    assert len(found) == len(expected) and all(e in found for e in expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixture of five", "hidden Markov", "three mixtures", "one component differs"])
def test_labellings_are_a_group_of_symmetries(name: str) -> None:
    """As many different maps as there are labellings; each leaves the density unchanged, with a determinant of ±1."""
    model, groups = found_in(name)
    space = Unconstrained(model)
    maps = labellings(space, groups)
    points = np.random.default_rng(1).normal(size=(3, space.size))
    level = space.log_density(points)
    assert len({m.toarray().tobytes() for m in maps}) == len(maps) == number_of_labellings(groups)
    assert np.array_equal(maps[0].toarray(), np.eye(space.size))
    moved = space.log_density(np.concatenate([(m @ points.T).T for m in maps]))
    assert moved.reshape(len(maps), -1) == pytest.approx(np.tile(level, (len(maps), 1)), rel=1e-10)
    assert np.abs(np.linalg.det([m.toarray() for m in maps])) == pytest.approx(1.0)


@pytest.mark.slow
def test_labellings_permute_the_variables_themselves() -> None:
    model = hidden_markov(3)
    space = Unconstrained(model)
    point = np.random.default_rng(1).normal(size=space.size)
    before = {n: v[0] for n, v in space.backward(point).items()}
    seen = set()
    for m in labellings(space, exchangeable(model)):
        after = {n: v[0] for n, v in space.backward(m @ point).items()}
        order = [int(np.argmin(np.abs(before["mu"] - x))) for x in after["mu"]]
        assert after["start"] == pytest.approx(before["start"][order])
        assert after["transition"] == pytest.approx(before["transition"][np.ix_(order, order)])
        seen.add(tuple(order))
    assert seen == set(itertools.permutations(range(3)))


def test_an_assertion_that_fails_somewhere_does_not_stop_the_search() -> None:
    with pm.Model() as model:
        mu = pm.Normal("mu", shape=2)
        checked = Assert("mu is far out")(mu, pt.all(pt.abs(mu) < 1.0))
        pm.NormalMixture("y", w=[0.5, 0.5], mu=checked, sigma=1.0, observed=DATA)
    assert [dict(g.axes) for g in exchangeable(model)] == [{"mu": (0,)}]


def test_nothing_is_climbed_to_once_no_candidate_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points near the one at which all components coincide settle it; a mixture's candidates ask for more."""
    climbs = []

    def stays(objective: Any, start: np.ndarray, **_: Any) -> tuple[np.ndarray, float]:
        climbs.append(start)
        return start, 0.0

    monkeypatch.setattr(exchangeable_module, "climb", stays)
    for name in ("data along the axis", "unequal concentrations", "bounds that differ"):
        assert exchangeable(CASES[name][0]()) == () and not climbs
    assert exchangeable(CASES["mixture of two"][0]()) and len(climbs) == 1


def test_convention_says_what_is_summed_over() -> None:
    groups = exchangeable(normal_mixture(3))
    assert convention(groups) == "over all 3! = 6 labellings of the components (w, mu, sigma)"
    both = (*groups, Exchangeable(4, {"x": (0,)}, (0, 2)))
    assert convention(both).startswith("over all 3! × 2! = 12 labellings of the components (w, mu, sigma) and ")
    assert convention(both).endswith(" components 0 and 2 of 4 (x)")
    assert convention(()) == ""


def test_a_discrete_variable_must_be_summed_out_first() -> None:
    with pytest.raises(ModelError, match="z is discrete; sum it out"):
        exchangeable(allocated())


# --- the evidence -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Conjugate:
    """y_i ~ Σ_k w_k N(mu_k, 1), mu_k ~ N(0, 3²), w ~ Dirichlet(α); summed over all K^N allocations."""

    size: int
    data: np.ndarray
    concentration: tuple[float, ...] = ()

    @property
    def alpha(self) -> np.ndarray:
        return np.array(self.concentration or [1.0] * self.size)

    @property
    def allocations(self) -> np.ndarray:
        return np.array(list(itertools.product(range(self.size), repeat=len(self.data))))

    def terms(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log p(y, z) of every allocation z, and of each component the number and the sum of its observations."""
        members = self.allocations[..., None] == np.arange(self.size)
        count, total = members.sum(axis=1), np.einsum("zik,i->zk", members, self.data)
        prior = special.gammaln(self.alpha + count).sum(axis=1) - special.gammaln(self.alpha).sum()
        prior += special.gammaln(self.alpha.sum()) - special.gammaln(self.alpha.sum() + len(self.data))
        likelihood = -0.5 * np.log1p(9.0 * count) + 0.5 * total**2 * 9 / (1 + 9 * count)
        constant = stats.norm.logpdf(self.data).sum()
        return prior + likelihood.sum(axis=1) + constant, count, total

    @property
    def log_evidence(self) -> float:
        return float(special.logsumexp(self.terms()[0]))

    def draw(self, rng: np.random.Generator, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Independent posterior draws of w and mu; every labelling is equally probable."""
        weights, count, total = self.terms()
        chosen = rng.choice(len(weights), size=number, p=special.softmax(weights))
        gamma = rng.gamma(self.alpha + count[chosen])
        precision = 1 / 9 + count[chosen]
        mu = total[chosen] / precision + rng.normal(size=precision.shape) / np.sqrt(precision)
        return gamma / gamma.sum(axis=1, keepdims=True), mu

    def model(self, transform: Any = None) -> pm.Model:
        with pm.Model() as model:
            w = pm.Dirichlet("w", self.alpha)
            options: dict[str, Any] = {"transform": transform, "initval": np.arange(self.size)} if transform else {}
            mu = pm.Normal("mu", 0.0, 3.0, shape=self.size, **options)
            pm.NormalMixture("y", w=w, mu=mu, sigma=1.0, observed=self.data)
        return model


def simplex(w: np.ndarray) -> np.ndarray:
    log_w = np.log(w)
    return np.asarray(log_w[..., :-1] - log_w.mean(axis=-1, keepdims=True))


def in_order(w: np.ndarray, mu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(mu, axis=-1)
    return np.take_along_axis(w, order, axis=-1), np.take_along_axis(mu, order, axis=-1)


analysis_of = cache(analyse)  # of one model, which several sets of draws are from


def evidence(model: pm.Model, w: np.ndarray, mu: np.ndarray, seed: int = 1) -> LogEvidence:
    """From draws (n, K) as four chains."""
    values = {str(v.name): v for v in model.value_vars}
    draws = {"w_simplex__": simplex(w), "mu": mu}
    if "mu_ordered__" in values:
        draws["mu_ordered__"] = np.concatenate([mu[:, :1], np.log(np.diff(mu, axis=1))], axis=1)
    chains = {n: draws[n].reshape(4, -1, draws[n].shape[-1]) for n in values}
    return evidence_of_draws(analysis_of(model), model, chains, xr.Dataset(), seed)


@pytest.mark.slow
def test_evidence_of_a_mixture_against_all_allocations() -> None:
    """Chains that are in one labelling, and each in another; and the ordered spelling of the same model."""
    size = 3
    oracle = Conjugate(size, DATA)
    one_w, one_mu = in_order(*oracle.draw(np.random.default_rng(size), 1200))
    orders = [list(p) for p in itertools.permutations(range(size))]
    which = [orders[c % len(orders)] for c in range(4) for _ in range(300)]
    each_w, each_mu = np.take_along_axis(one_w, np.array(which), 1), np.take_along_axis(one_mu, np.array(which), 1)
    model = oracle.model()
    estimates = [evidence(model, *draws) for draws in ((one_w, one_mu), (each_w, each_mu))]
    for estimate in estimates:
        assert abs(estimate.value - oracle.log_evidence) < 4 * estimate.error < 0.2
        count = math.factorial(size)
        assert estimate.convention == f"over all {size}! = {count} labellings of the components (w, mu)"
        assert estimate.convention in str(estimate)
    ordered = evidence(oracle.model(transforms.ordered), one_w, one_mu)
    assert abs(ordered.value - oracle.log_evidence) < 4 * ordered.error < 0.3
    assert ordered.convention == f"ordered: log {size}! added for the restriction of the prior of mu"
    # By the same estimator: without the order, and so without the tails that it makes where two means come close.
    assert ordered.value == pytest.approx(estimates[0].value, abs=1e-6)


@pytest.mark.slow
def test_components_of_which_only_some_are_exchangeable() -> None:
    """The first has a prior weight of its own; the chains know one of the two labellings of the others."""
    oracle = Conjugate(3, np.array([-5.2, -4.6, -5.1, 0.3, 5.2, 5.0, 4.4]), (2.0, 1.0, 1.0))
    w, mu = oracle.draw(np.random.default_rng(1), 2000)
    w[:, 1:], mu[:, 1:] = in_order(w[:, 1:], mu[:, 1:])
    estimate = evidence(oracle.model(), w, mu)
    assert abs(estimate.value - oracle.log_evidence) < 4 * estimate.error < 0.4
    assert estimate.convention == "over all 2! = 2 labellings of components 1 and 2 of 3 (w, mu)"


def test_too_many_labellings() -> None:
    """Seven independent effects need no relabelling; seven components that each chain has labelled its own way do."""
    rng = np.random.default_rng(1)
    with pm.Model() as model:
        pm.Normal("x", shape=7)
        pm.StudentT("y", nu=4.0, mu=0.0, sigma=1.0, observed=[0.3])
    draws = rng.normal(size=(4, 500, 7))
    estimate = evidence_of_draws(analyse(model), model, {"x": draws}, xr.Dataset(), 1)
    assert abs(estimate.value - stats.t(4).logpdf(0.3)) < 4 * estimate.error
    assert estimate.convention == ""
    stuck = evidence_of_draws(analyse(model), model, {"x": np.sort(draws, axis=-1)}, xr.Dataset(), 1)
    assert "over all 7! = 5040 labellings" in stuck.reason and "too many" in stuck.reason


def test_two_equal_observations_are_no_components() -> None:
    """Their effects can be exchanged, but they have one mode: nothing to sum over, and nothing to say."""
    data = np.array([0.3, -0.5, 0.3])
    with pm.Model() as model:
        theta = pm.Normal("theta", shape=3)
        pm.Normal("y", theta, 1.0, observed=data)
    draws = data / 2 + np.random.default_rng(1).normal(size=(4, 500, 3)) / math.sqrt(2)
    estimate = evidence_of_draws(analyse(model), model, {"theta": draws}, xr.Dataset(), 1)
    assert abs(estimate.value - stats.norm(0, math.sqrt(2)).logpdf(data).sum()) < 4 * estimate.error + 1e-9
    assert estimate.convention == ""


# As many as are too many for a table of all allocations, in which every row has a closed form.
THIRTEEN = np.array([-2.3, -1.9, -2.6, -1.1, -1.7, -2.2, -2.0, 1.8, 2.4, 2.9, 1.2, 2.1, 1.6])


def mixture_without_an_axis(spelling: str) -> pm.Model:
    with pm.Model() as model:
        z = pm.Bernoulli("z", pm.Beta("w", 1, 2 if spelling == "asymmetric" else 1), shape=THIRTEEN.size)
        if spelling == "two names":
            mean: Any = pt.switch(z, pm.Normal("low", 0, 3), pm.Normal("high", 0, 3))
        else:
            mean = pm.Normal("mu", 0, 3, shape=2)[z]
        pm.Normal("y", mean, 1, observed=THIRTEEN)
    return model


@pytest.mark.parametrize(
    ("spelling", "expected"), {"one name": ["w, mu"], "two names": ["w, low, high"], "asymmetric": []}.items()
)
def test_mirror_images(spelling: str, expected: list[str]) -> None:
    space = Unconstrained(bk.collapse(mixture_without_an_axis(spelling)))
    draws = np.random.default_rng(5).normal(size=(2, 50, space.size))
    found = reflections(space, draws)
    assert [names for _, names in found] == expected
    for image, _ in found:
        np.testing.assert_allclose((image @ image).toarray(), np.eye(space.size))
        moved = (image @ draws[0].T).T
        np.testing.assert_allclose(space.log_density(moved), space.log_density(draws[0]), rtol=1e-10)


def test_signs_of_labels_change_one_by_one() -> None:
    """Of a hidden layer: the sign of what goes into a unit is that of what comes out; the scale has none to change."""
    with pm.Model() as model:
        into, out = pm.Normal("into", 0, 1, shape=(2, 3)), pm.Normal("out", 0, 1, shape=3)
        scale = pm.HalfNormal("scale", 1, shape=3)
        mean = (scale * out * pt.tanh(THIRTEEN[:, None] * into[0] + into[1])).sum(axis=1)
        pm.Normal("y", mean, 1, observed=THIRTEEN)
    space = Unconstrained(model)
    draws = np.random.default_rng(5).normal(size=(2, 50, space.size))
    found = reflections(space, draws)
    assert {names for _, names in found} == {"into, out"}
    unit = {"into": np.eye(6), "out": np.eye(3), "scale": np.eye(3)}
    for label in range(3):
        changed = unit | {"into": np.diag(np.tile(np.where(np.arange(3) == label, -1.0, 1.0), 2))}
        changed["out"] = np.diag(np.where(np.arange(3) == label, -1.0, 1.0))
        expected = linalg.block_diag(*(changed[n] for n in space.slices))
        assert any(np.array_equal(image.toarray(), expected) for image, _ in found)
    (group,) = exchangeable(model)
    assert len(labellings(space, [group], [image for image, _ in found])) == 2**3 * math.factorial(3)


def test_evidence_counts_mirror_images() -> None:
    """From chains that stay in one image each, as those of NUTS do."""
    model, oracle = mixture_without_an_axis("two names"), Conjugate(2, THIRTEEN)
    w, mu = (v.reshape(4, -1, 2) for v in in_order(*oracle.draw(np.random.default_rng(1), 2000)))
    w[::2], mu[::2] = w[::2, :, ::-1].copy(), mu[::2, :, ::-1].copy()
    # z = 1, of probability w, is the low mean.
    draws = {"w_logodds__": np.log(w[..., 1] / w[..., 0]), "low": mu[..., 1], "high": mu[..., 0]}
    found = evidence_of_draws(analyse(model), bk.collapse(model), draws, xr.Dataset(), 1)
    assert "mirror images" in found.convention
    assert abs(found.value - oracle.log_evidence) < 5 * found.error < 0.1


@pytest.mark.slow
def test_quadrature_says_what_it_integrates_over() -> None:
    """Two means in two dimensions, each weight a half: the sum over allocations is in closed form."""
    data = DATA[[0, 1, 5]]
    count, total = Conjugate(2, data).terms()[1:]
    each = -0.5 * np.log1p(9.0 * count) + 0.5 * total**2 * 9 / (1 + 9 * count)
    exact = special.logsumexp(each.sum(axis=1)) + stats.norm.logpdf(data).sum() - len(data) * math.log(2)
    options: dict[str, Any]
    for options, said in (
        ({}, "over all 2! = 2 labellings of the components (mu)"),
        (
            {"transform": transforms.ordered, "initval": [-1.0, 1.0]},
            "ordered: log 2! added for the restriction of the prior of mu",
        ),
    ):
        with pm.Model() as model:
            mu = pm.Normal("mu", 0.0, 3.0, shape=2, **options)
            pm.NormalMixture("y", w=[0.5, 0.5], mu=mu, sigma=1.0, observed=data)
        found = bk.infer(model, method="quadrature", draws=100, random_seed=1, progressbar=False).log_evidence
        assert abs(found.value - exact) < found.error + 1e-9
        assert found.convention == said


@pytest.mark.slow
def test_a_mode_that_no_chain_visited_is_found() -> None:
    """Two components on three groups of data: one of them has the middle group, and NUTS would not change which."""
    data = np.array([-7.1, -7.0, -6.9, -0.3, 0.0, 0.2, 6.9, 7.0, 7.2])
    oracle = Conjugate(2, data)
    weights, mean = in_order(*oracle.draw(np.random.default_rng(0), 12_000))
    left = mean[:, 1] > 5.0  # the middle belongs to the first
    assert 0.2 < left.mean() < 0.8
    model = oracle.model()
    both = evidence(model, weights[:2000], mean[:2000])
    assert abs(both.value - oracle.log_evidence) < 4 * both.error < 0.3
    chosen = np.flatnonzero(left)[:2000]
    alone = evidence(model, weights[chosen], mean[chosen])
    assert math.isnan(alone.value)
    assert alone.reason.startswith("there is another mode, which holds about ")


@pytest.mark.slow
def test_positive_components_in_order() -> None:
    """Rates that are ordered on the scale of their logarithm: the transform of each entry stays."""
    counts = np.array([0, 1, 1, 2, 7, 9, 12])
    with pm.Model() as model:  # PyMC chains the order to the logarithm
        rate = pm.Gamma("rate", 2.0, 0.4, shape=2, initval=[1.0, 9.0], transform=transforms.ordered)
        pm.Mixture("y", [0.5, 0.5], pm.Poisson.dist(rate), observed=counts)
    # Independent draws: an allocation by its probability, and given it the rates, which are Gamma.
    members = np.array(list(itertools.product(range(2), repeat=counts.size)))[..., None] == np.arange(2)
    shape, scale = 2.0 + np.einsum("zik,i->zk", members, counts), 1 / (0.4 + members.sum(axis=1))
    log_weights = (special.gammaln(shape) + shape * np.log(scale)).sum(axis=1)
    rng = np.random.default_rng(1)
    chosen = rng.choice(len(members), size=2000, p=special.softmax(log_weights))
    logs = np.log(np.sort(rng.gamma(shape[chosen], scale[chosen]), axis=1))
    (value,) = model.value_vars
    draws = np.stack([logs[:, 0], np.log(logs[:, 1] - logs[:, 0])], axis=1).reshape(4, -1, 2)
    found = evidence_of_draws(analyse(model), model, {str(value.name): draws}, xr.Dataset(), 1)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    nodes, weights = 20.0 * (nodes + 1), 20.0 * weights
    each = stats.poisson.pmf(counts[:, None], nodes)
    joint = np.prod(0.5 * each[:, :, None] + 0.5 * each[:, None, :], axis=0)
    prior = weights * stats.gamma.pdf(nodes, 2.0, scale=2.5)
    exact = math.log(prior @ joint @ prior)
    assert abs(found.value - exact) < 4 * found.error < 0.1


# --- PyMC's ordered transform -----------------------------------------------------------------------------------------


def ordered_models() -> dict[str, tuple[Callable[[], Any], float]]:
    """Priors of an ordered pair, and the log of the number of orderings that each is one of."""
    descending, positive = transforms.Ordered(ascending=False), transforms.Ordered(positive=True)
    return {
        "real": (lambda: pm.Normal("x", 0.0, 1.0, shape=2, transform=transforms.ordered), math.log(2)),
        "descending": (lambda: pm.Normal("x", 0.0, 1.0, shape=2, transform=descending), math.log(2)),
        "positive": (
            lambda: pm.Gamma("x", 3.0, 1.0, shape=2, transform=positive, default_transform=None),
            math.log(2),
        ),
        # PyMC puts the ordering after the distribution's own transform.
        "after a logarithm": (lambda: pm.Gamma("x", 3.0, 1.0, shape=2, transform=transforms.ordered), math.log(2)),
        "correlated": (
            lambda: pm.MvNormal("x", np.zeros(2), [[1.0, 0.5], [0.5, 1.0]], transform=transforms.ordered),
            math.log(2),
        ),
        "rows": (lambda: pm.Normal("x", [[0.0], [3.0]], shape=(2, 3), transform=transforms.ordered), 2 * math.log(6)),
        "unknown centre": (
            lambda: pm.Normal("x", pm.Normal("centre"), 1.0, shape=3, transform=transforms.ordered),
            math.log(6),
        ),
    }


@pytest.mark.parametrize("name", ordered_models())
def test_share_of_an_ordered_prior(name: str) -> None:
    build, expected = ordered_models()[name]
    with pm.Model() as model:
        build()
    share = prior_mass(LogJoint.from_model(model), "x")
    assert share is not None and share.exchangeable and not share.reason and share.error == 0
    assert -share.log_mass == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["real", "descending", "positive", "after a logarithm", "correlated"])
def test_share_of_an_ordered_pair_by_integration(name: str) -> None:
    """The integral of PyMC's density over its unconstrained scale, by the trapezoidal rule."""
    build, expected = ordered_models()[name]
    with pm.Model() as model:
        build()
    space = Unconstrained(model)
    assert space.size == 2
    grid = np.linspace(-12.0, 8.0, 201)
    points = np.array(list(itertools.product(grid, grid)))
    # Far out, where a variable overflows, the density is not a number instead of zero.
    integral = np.nansum(np.exp(space.log_density(points))) * (grid[1] - grid[0]) ** 2
    assert math.log(integral) == pytest.approx(-expected, abs=1e-4)


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (
            lambda: pm.Normal("x", pm.math.stack([pm.Normal("centre"), 1.0]), transform=transforms.ordered),
            "not exchangeable in its entries, and its integral may depend on centre",
        ),
        (
            lambda: pm.Normal("x", pm.Normal("centre"), shape=2, transform=transforms.Ordered(True)),
            "restricts it to positive values",
        ),
        (lambda: pm.Flat("x", shape=2, transform=transforms.ordered), "improper"),
        (
            lambda: pm.GaussianRandomWalk("x", init_dist=pm.Normal.dist(), steps=2, transform=transforms.ordered),
            "not exchangeable in its entries",
        ),
    ],
)
def test_ordered_priors_whose_share_is_not_known(build: Callable[[], Any], reason: str) -> None:
    with pm.Model() as model:
        build()
    share = prior_mass(LogJoint.from_model(model), "x")
    assert share is not None and reason in share.reason and math.isnan(share.log_mass)


def test_other_transforms_order_nothing() -> None:
    with pm.Model() as model:
        pm.Gamma("x", 1.0, 1.0, shape=2)
        pm.Dirichlet("w", np.ones(2))
    joint = LogJoint.from_model(model)
    assert prior_mass(joint, "x") is None and prior_mass(joint, "w") is None


# --- relabelled draws -------------------------------------------------------------------------------------------------

CENTRES, SPREAD, WEIGHTS = np.array([[-4.0, 1.0], [0.0, 2.0], [5.0, 1.5]]), 0.3, np.array([0.2, 0.5, 0.3])


def allocated() -> pm.Model:
    """The mixture with its allocations z, and what is computed from the components."""
    with pm.Model(coords={"component": list("abc"), "axis": list("xy")}) as model:
        w = pm.Dirichlet("w", np.ones(3), dims="component")
        mu = pm.Normal("mu", 0.0, 5.0, dims=("component", "axis"))
        pm.Dirichlet("moves", np.ones((3, 3)))
        z = pm.Categorical("z", w, shape=4)
        pm.Deterministic("norm", pt.sqrt(pt.sum(mu**2, axis=1)), dims="component")
        pm.Deterministic("total", pt.sum(mu))
        pm.Deterministic("where", mu[z])
        pm.Normal("y", mu[z], 1.0, observed=np.zeros((4, 2)))
    return model


GROUP = Exchangeable(3, {"w": (0,), "mu": (0,), "moves": (0, 1)}, (0, 1, 2))


def scrambled() -> tuple[dict[str, np.ndarray], np.ndarray, xr.DataTree]:
    """Draws under one labelling, a random permutation for each, and the draws so permuted."""
    rng = np.random.default_rng(1)
    shape = (2, 300)
    z = rng.integers(3, size=(*shape, 4))
    truth = {
        "w": rng.dirichlet(50 * WEIGHTS, size=shape),
        "mu": CENTRES + SPREAD * rng.normal(size=(*shape, 3, 2)),
        "moves": np.stack([rng.dirichlet(1 + 30 * row, size=shape) for row in np.eye(3)[[0, 2, 1]]], axis=2),
        "z": z,
    }
    orders = rng.permuted(np.tile(np.arange(3), (*shape, 1)), axis=-1)
    mixed = {
        n: np.take_along_axis(truth[n], orders.reshape(*shape, 3, *[1] * (truth[n].ndim - 3)), 2) for n in GROUP.axes
    }
    mixed["moves"] = np.take_along_axis(mixed["moves"], orders[:, :, None, :], 3)
    mixed["z"] = np.take_along_axis(np.argsort(orders, axis=-1), z, axis=2)
    dims = {"w": ["component"], "mu": ["component", "axis"], "moves": ["from", "to"], "z": ["item"]}
    variables = {n: (("chain", "draw", *dims[n]), v) for n, v in mixed.items()}
    variables["norm"] = (("chain", "draw", "component"), np.sqrt(np.sum(mixed["mu"] ** 2, axis=-1)))
    variables["total"] = (("chain", "draw"), mixed["mu"].sum(axis=(2, 3)))
    where = np.take_along_axis(mixed["mu"], mixed["z"][..., None], axis=2)
    variables["where"] = (("chain", "draw", "item", "axis"), where)
    return truth, orders, xr.DataTree.from_dict({"posterior": xr.Dataset(variables, attrs={"source": "test"})})


def test_relabelled_draws_are_those_before_they_were_scrambled() -> None:
    truth, orders, tree = scrambled()
    result = bk.relabel(tree, allocated(), labels=["z"], groups=[GROUP])
    posterior = result["posterior"]
    for name, values in truth.items():
        assert np.array_equal(posterior[name], values), name
    assert posterior["norm"].to_numpy() == pytest.approx(np.sqrt(np.sum(truth["mu"] ** 2, axis=-1)))
    # What does not depend on the labels is as it was.
    for name in ("total", "where"):
        assert posterior[name].to_numpy() == pytest.approx(tree["posterior"][name].to_numpy())
    # The old label of each new one undoes the scrambling.
    undone = np.take_along_axis(orders, result["sample_stats"]["labelling"].to_numpy(), axis=-1)
    assert np.array_equal(undone, np.broadcast_to(np.arange(3), undone.shape))
    assert posterior["mu"].dims == tree["posterior"]["mu"].dims
    assert "Stephens 2000" in posterior.attrs["relabelling"] and posterior.attrs["source"] == "test"
    # The draws that were given are left alone.
    assert not np.array_equal(tree["posterior"]["mu"], truth["mu"])


@pytest.mark.slow
@pytest.mark.parametrize("chains", [1, 3])
def test_chains_that_keep_their_labelling_keep_it(chains: int) -> None:
    """Few draws of components that differ in two of four quantities, which the others vary as much as."""
    for seed in range(4):
        noise = 0.03 * np.random.default_rng(seed).normal(size=(chains, 12, 3, 4))
        truth = np.array([[0.25, 1.5, 1.0, 1.0], [1.35, 4.3, 1.0, 1.0], [2.0, 5.6, 1.0, 1.0]]) * np.exp(noise)
        orders = np.stack([np.arange(3), [2, 0, 1], [1, 0, 2]])[:chains, None]
        mixed = np.take_along_axis(truth, orders[..., None], axis=2)
        given = xr.Dataset({"mu": (("chain", "draw", "component", "axis"), mixed)})
        group = Exchangeable(3, {"mu": (0,)}, (0, 1, 2))
        posterior = bk.relabel(given, allocated(), groups=[group])["posterior"]
        assert np.array_equal(posterior["mu"], truth)


def test_deterministics_that_cannot_be_computed_anew_are_left_out() -> None:
    _, _, tree = scrambled()
    given = tree["posterior"].to_dataset().drop_vars("z")
    posterior = bk.relabel(given, allocated(), groups=[GROUP])["posterior"]
    assert "norm" not in posterior and "left out" in posterior.attrs["relabelling"]


def test_labels_that_do_not_take_part_stay_where_they_are() -> None:
    truth, _, _ = scrambled()
    swapped = truth["mu"].copy()
    swapped[:, ::2, [0, 2]] = swapped[:, ::2, [2, 0]]
    given = xr.Dataset({"mu": (("chain", "draw", "component", "axis"), swapped)})
    result = bk.relabel(given, allocated(), groups=[Exchangeable(3, {"mu": (0,)}, (0, 2))])
    assert np.array_equal(result["posterior"]["mu"], truth["mu"])


@pytest.mark.slow
def test_what_cannot_be_relabelled() -> None:
    _, _, tree = scrambled()
    with pytest.raises(OptionError, match="needs the model"):
        bk.relabel(tree)
    with pytest.raises(ModelError, match="z is discrete"):
        bk.relabel(tree, allocated())  # its components have known parameters: nothing remains after the sum
    with pytest.raises(ModelError, match="no exchangeable components"):
        bk.relabel(tree, normal_mixture(2, mean=[0.0, 5.0]))
    with pytest.raises(OptionError, match="'zz', which is no variable"):
        bk.relabel(tree, allocated(), groups=[GROUP], labels=["zz"])
    with pytest.raises(DataError, match="none of beta"):
        bk.relabel(tree, allocated(), groups=[Exchangeable(3, {"beta": (0,)}, (0, 1, 2))])
    several = [Exchangeable(3, {"w": (0,)}, (0, 1, 2)), Exchangeable(3, {"mu": (0,)}, (0, 1, 2))]
    with pytest.raises(OptionError, match="several groups"):
        bk.relabel(tree, allocated(), groups=several, labels=["z"])
    with pytest.raises(OptionError, match="has none"):
        bk.relabel(tree, allocated(), groups=several, labels={"z": "norm"})


# --- from end to end --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_infer_and_relabel_a_mixture() -> None:
    """Chains that found different labellings: the evidence is that of all, and the summary is of the components."""
    data = np.array([-3.1, -2.6, -3.4, -2.9, 2.8, 3.3, 3.1, 2.4, 3.6, 2.9])
    oracle = Conjugate(2, data)
    post = bk.infer(oracle.model(), method="nuts", draws=1200, random_seed=1, progressbar=False)
    estimate = post.log_evidence
    assert abs(estimate.value - oracle.log_evidence) < 4 * estimate.error < 0.2
    assert "2! = 2 labellings" in str(estimate)
    w, mu = in_order(*oracle.draw(np.random.default_rng(1), 20_000))
    relabelled = bk.relabel(post)["posterior"]
    for name, exact in (("mu", mu), ("w", w)):
        mean = relabelled[name].mean(("chain", "draw")).to_numpy()
        assert mean == pytest.approx(exact.mean(axis=0), abs=6 * exact.std() / math.sqrt(400))


@pytest.mark.parametrize("number", [3, 5])
def test_draws_whose_squares_overflow_are_refused(number: int) -> None:
    rng = np.random.default_rng(0)
    draws = rng.permuted(np.arange(number) + rng.normal(size=(2, 100, number)) * 0.15, axis=-1)
    draws[0, 5, 0] = 1e200
    with pm.Model() as model:
        means = pm.Normal("mu", 0.0, 5.0, shape=number)
        pm.NormalMixture("y", np.ones(number) / number, means, 0.3, observed=rng.normal(size=20))
    tree = xr.DataTree.from_dict({"/posterior": xr.Dataset({"mu": (("chain", "draw", "k"), draws)})})
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(DataError, match="have no square"):
        bk.relabel(tree, model)
