"""Every model with a known answer, crossed with every property that an exact answer must have.

The inference of a case is run once and shared by all its properties.
"""

from __future__ import annotations

import math
import warnings
from functools import cache

import arviz as az
import mpmath as mp
import numpy as np
import pymc as pm
import pytest
from cases import CASES, Case
from numpy.testing import assert_allclose
from oracles import Answer, finite
from scipy import special, stats
from table.data import GAPS, REAL
from table.describe import one_mean

import bayeskit as bk
from bayeskit.elimination.analysis import Analysis
from bayeskit.graphs.compile import small_mode

DRAWS = 400
SEED = 20260
#: A mean of independent draws further than this many standard errors off is a fault: 6e-7 for each comparison.
Z_LIMIT = 5.0

BY_NAME = {case.name: case for case in CASES}
every_case = pytest.mark.parametrize("name", BY_NAME)

# Rows that have, or lack, what a property is about. `test_rows_are_listed_for_what_they_have` holds these lists to the
# models themselves, so that a property is asked of every row that has it and of no other.
MILLIONS = frozenset(n for n in BY_NAME if "million" in n)
WITH_DETERMINISTICS = frozenset(
    (
        "beta: Binomial groups by index, Deterministic, pm.Data, dims",
        "uniform: Binomial of the complement, Deterministic",
        "gamma: Poisson, exposures and groups by index, dims",
        "exponential: Weibull, Deterministic scale",
        "gamma: Pareto, Deterministic of the reciprocal",
        "inverse gamma: Normal variance, groups by index, Deterministic, dims",
        "dirichlet: Categorical and Multinomial share the simplex",
        "normal: one mean, Deterministic",
        "normal: three levels, non-centred",
        "normal: random walk by cumsum",
        "normal: latent GP, rotated",
        "normal inverse gamma: precision by mu and sigma, Deterministic sd",
        "normal inverse gamma: variance by mu and sigma, kappa from pm.Data, Deterministic",
        "wishart: MvNormal, cov = inverse, Deterministic",
        "normal wishart: three dimensions, kappa from pm.Data, Deterministic",
        "von mises: measured from another axis, the other way round, Deterministic",
    )
)
GAUSSIAN = frozenset(n for n, case in BY_NAME.items() if case.family in ("normal", "mvnormal"))
WITHOUT_JOINT = frozenset(  # oracles that work from sums have no joint covariance
    ("normal: regression, a million rows", "mvnormal: hierarchy of vectors")
)
ALL_IMPUTED = frozenset(
    (
        "normal: missing values in a regression",
        "normal: missing values in a matrix",
        "normal inverse gamma: missing values",
    )
)


@cache
def result(name: str) -> tuple[Case, bk.Posterior]:
    """The case and its posterior, computed once for all properties."""
    case = BY_NAME[name]
    return case, bk.infer(case.build(), draws=DRAWS, random_seed=SEED, progressbar=False)


def flat_draws(post: bk.Posterior, name: str) -> np.ndarray:
    """Draws of one variable as (draw, element)."""
    values = post.tree["posterior"][name].to_numpy()
    return values.reshape(values.shape[0] * values.shape[1], -1).astype(float)


def z_score(values: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """Distance of the average of independent values from its expectation, in its own standard error."""
    return (values.mean(axis=0) - np.ravel(mean)) / (np.ravel(sd) / math.sqrt(len(values)))


def imputed_of(model: pm.Model) -> set[str]:
    """Variables of which a part was seen: PyMC gives that part a name of its own."""
    return {rv.name.removesuffix("_observed") for rv in model.observed_RVs if rv.name.endswith("_observed")}


def deterministics_of(model: pm.Model) -> list[str]:
    """Those of the author: a variable that PyMC imputed is put together by one too."""
    return [d.name for d in model.deterministics if d.name not in imputed_of(model)]


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(CASES)


def test_no_row_is_lost() -> None:
    assert len(CASES) >= 153
    assert len(MILLIONS) >= 7
    assert len(GAUSSIAN - WITHOUT_JOINT) >= 36
    assert set(BY_NAME) >= WITH_DETERMINISTICS | WITHOUT_JOINT | ALL_IMPUTED


@every_case
def test_rows_are_listed_for_what_they_have(name: str) -> None:
    case, post = result(name)
    assert bool(deterministics_of(post.model)) is (name in WITH_DETERMINISTICS)
    assert all(rv.name.endswith("_observed") for rv in post.model.observed_RVs) is (name in ALL_IMPUTED)
    if name in GAUSSIAN:
        assert (case.answer().joint is None) is (name in WITHOUT_JOINT)


@every_case
def test_plan_leaves_nothing(name: str) -> None:
    case, post = result(name)
    assert post.plan.remaining == ()
    assert post.plan.refusals == ()
    assert post.method == post.plan.method == "exact"
    gone = [v for step in post.plan.eliminated for v in step.variables]
    assert sorted(gone) == sorted(case.variables)


@every_case
def test_log_evidence(name: str) -> None:
    case, post = result(name)
    truth = case.log_evidence()
    assert abs(post.log_evidence.value - truth) <= 1e-10 * max(1.0, abs(truth))
    assert post.log_evidence.label == "exact"


@every_case
def test_certificate(name: str) -> None:
    _, post = result(name)
    assert 0 <= post.certificate < 1e-8
    assert post.log_evidence.error < 1e-8


@every_case
def test_marginal_moments(name: str) -> None:
    case, post = result(name)
    for variable, (mean, sd) in case.moments().items():
        marginal = post.marginal(variable)
        # relative to the sd where the mean is small against it: a mean that is zero has no relative error
        assert np.all(np.abs(marginal.mean() - mean) <= 1e-9 * np.maximum(np.abs(mean), sd)), variable
        assert_allclose(marginal.std(), sd, rtol=1e-9, err_msg=variable)


@every_case
def test_draws_have_the_exact_mean(name: str) -> None:
    case, post = result(name)
    for variable, (mean, sd) in case.moments().items():
        values = flat_draws(post, variable)
        varies = np.ravel(sd) > 0
        z = z_score(values[:, varies], np.ravel(mean)[varies], np.ravel(sd)[varies])
        assert np.all(np.abs(z) < Z_LIMIT), (variable, z)


def uniform_of_draws(post: bk.Posterior, variable: str) -> np.ndarray:
    """F(draw) of every scalar as (draw, element), uniform if the draws follow the marginal.

    A step of F is crossed at a random height. Of a Wishart matrix, Wᵢᵢ / Vᵢᵢ is χ² with its degrees of freedom.
    """
    marginal = post.marginal(variable)
    values = post.tree["posterior"][variable].to_numpy()
    values = values.reshape(DRAWS, *values.shape[2:])
    if marginal.family == "wishart":
        diagonal = np.diagonal(values, axis1=-2, axis2=-1)
        return stats.chi2(marginal.dist.df).cdf(diagonal / np.diag(marginal.dist.scale))
    u = marginal.cdf(values)
    if marginal.family == "categorical":
        u = u - np.random.default_rng([SEED, 1]).random(u.shape) * marginal.pmf(values)  # not the draws' own stream
    return u.reshape(DRAWS, -1)


@every_case
def test_draws_follow_the_marginal(name: str) -> None:
    """u = F(draw) is uniform: its mean is 1/2 (variance 1/12), and the mean of (2u − 1)² is 1/3 (variance 4/45)."""
    case, post = result(name)
    for variable in case.variables:
        u = uniform_of_draws(post, variable)
        one = np.ones(u.shape[1])
        assert np.all(np.abs(z_score(u, one / 2, one / math.sqrt(12))) < Z_LIMIT), variable
        assert np.all(np.abs(z_score((2 * u - 1) ** 2, one / 3, one * math.sqrt(4 / 45))) < Z_LIMIT), variable


def joint_z(post: bk.Posterior, answer: Answer) -> float:
    """z-score of the mean Mahalanobis distance of the draws, which is χ² with as many degrees as elements."""
    assert answer.joint is not None
    names, mean, cov = answer.joint
    values = np.concatenate([flat_draws(post, n) for n in names], axis=1) - mean
    scale = np.sqrt(np.diagonal(cov))
    distance = np.sum((values / scale) * np.linalg.solve(cov / np.outer(scale, scale), (values / scale).T).T, axis=1)
    size = len(mean)
    return float(z_score(distance[:, None], np.array([size]), np.array([math.sqrt(2 * size)]))[0])


@pytest.mark.parametrize("name", sorted(GAUSSIAN - WITHOUT_JOINT))
def test_draws_have_the_exact_correlations(name: str) -> None:
    case, post = result(name)
    assert abs(joint_z(post, case.answer())) < Z_LIMIT


@every_case
def test_draws_are_laid_out_as_arviz_expects(name: str) -> None:
    _, post = result(name)
    group = post.tree["posterior"].to_dataset()
    assert dict(group.sizes)["chain"] * group.sizes["draw"] == DRAWS
    for rv in post.model.free_RVs:
        dims = post.model.named_vars_to_dims.get(rv.name, ())
        assert group[rv.name].dims[:2] == ("chain", "draw")
        assert group[rv.name].dtype == np.dtype(rv.dtype)
        if dims:
            assert group[rv.name].dims[2:] == tuple(dims)
        for dim in dims:
            if post.model.coords.get(dim) is not None:
                assert list(group.coords[dim].to_numpy()) == list(post.model.coords[dim])


@pytest.mark.parametrize("name", [n for n in BY_NAME if n not in ALL_IMPUTED])
def test_observed_data_are_kept(name: str) -> None:
    _, post = result(name)
    kept = post.tree["observed_data"].to_dataset()
    # What was seen of an imputed variable has a name of its own in the model; ArviZ shows the variable whole.
    whole = [rv for rv in post.model.observed_RVs if not rv.name.endswith("_observed")]
    assert whole
    for rv in whole:
        assert np.array_equal(kept[rv.name].to_numpy(), post.model.rvs_to_values[rv].data)


@pytest.mark.parametrize("name", {case.family: case.name for case in CASES}.values())
def test_arviz_summarises(name: str) -> None:
    case, post = result(name)
    table = az.summary(post.tree, var_names=list(case.variables), round_to="none")
    assert len(table) == sum(np.size(mean) for mean, _ in case.moments().values())


@every_case
def test_exact_summary(name: str) -> None:
    case, post = result(name)
    table = post.summary()
    exact_rows = table[table["label"].str.startswith("exact")]
    moments = [case.moments()[str(v)] for v in post.tree["posterior"].data_vars if v in case.moments()]
    mean, sd = (np.concatenate([np.ravel(pair[i]) for pair in moments]) for i in (0, 1))
    assert np.all(np.abs(exact_rows["mean"] - mean) <= 1e-9 * np.maximum(np.abs(mean), sd))
    assert_allclose(exact_rows["sd"], sd, rtol=1e-9)
    assert np.all(exact_rows["mcse_mean"] == 0)


def assert_same_draws(post: bk.Posterior, source: pm.Model | Analysis) -> None:
    again = bk.infer(source, draws=DRAWS, random_seed=SEED, progressbar=False)
    assert again.log_evidence.value == post.log_evidence.value
    for name, values in post.tree["posterior"].data_vars.items():
        assert np.array_equal(again.tree["posterior"][name], values), name


# A million rows are the same code as their neighbours, at a hundred times their cost.
@pytest.mark.parametrize("name", [n for n in BY_NAME if n not in MILLIONS][::3])
def test_the_same_seed_gives_the_same_draws(name: str) -> None:
    """Of one analysis; of a model built again in the next test, and in `tests/elimination/test_other_data.py`."""
    _, post = result(name)
    assert_same_draws(post, post.analysis)


@pytest.mark.parametrize("name", {case.family: case.name for case in CASES if case.name not in MILLIONS}.values())
def test_the_same_model_built_again_gives_the_same_draws(name: str) -> None:
    case, post = result(name)
    assert_same_draws(post, case.build())


@pytest.mark.parametrize("name", sorted(WITH_DETERMINISTICS))
def test_deterministics_are_recomputed_from_the_draws(name: str) -> None:
    _, post = result(name)
    drawn = post.tree["posterior"].to_dataset()
    names = deterministics_of(post.model)  # PyMC draws the seen part of an imputed variable anew here: see below
    assert names
    free = drawn[[rv.name for rv in post.model.free_RVs]]
    options = {"compile_kwargs": {"mode": small_mode()}, "progressbar": False}
    expected = pm.compute_deterministics(free, var_names=names, model=post.model, **options)
    for deterministic in names:
        # a million times rounding: the factor of a smooth kernel depends that much on the order of its operations
        assert_allclose(drawn[deterministic], expected[deterministic], rtol=1e-9, err_msg=deterministic)
        assert drawn[deterministic].dims[:2] == ("chain", "draw")


def test_an_imputed_variable_keeps_what_was_seen() -> None:
    _, post = result("normal: missing values in a regression")
    whole = post.tree["posterior"]["y"].to_numpy()
    seen = ~np.isnan(GAPS)
    assert np.array_equal(whole[..., seen], np.broadcast_to(GAPS[seen], whole[..., seen].shape))
    imputed = post.tree["posterior"]["y_unobserved"].to_numpy()
    assert np.array_equal(whole[..., ~seen], imputed)


def test_another_seed_gives_other_draws() -> None:
    name = "beta: Bernoulli p"
    case, post = result(name)
    other = bk.infer(case.build(), draws=DRAWS, random_seed=SEED + 1, progressbar=False)
    assert not np.array_equal(other.tree["posterior"]["p"], post.tree["posterior"]["p"])
    assert other.log_evidence.value == post.log_evidence.value


def test_the_model_is_left_as_it_was() -> None:
    case = BY_NAME["normal: regression X @ w with intercept, pm.Data, dims"]
    model = case.build()
    names = [v.name for v in (*model.free_RVs, *model.observed_RVs, *model.deterministics, *model.potentials)]
    point = model.initial_point()
    before = model.compile_logp(mode=small_mode())(point)
    post = bk.infer(model, draws=40, random_seed=1, progressbar=False)
    assert post.model is model
    assert names == [v.name for v in (*model.free_RVs, *model.observed_RVs, *model.deterministics, *model.potentials)]
    assert model.compile_logp(mode=small_mode())(point) == before


def test_float32_constants_lose_nothing() -> None:
    """PyTensor stores 15.0 as float32 and then takes log(15.0) in float32, off by 1e-8."""
    for name in ("beta: Bernoulli p", "normal: one mean, sd"):
        case, post = result(name)
        assert abs(post.log_evidence.value - case.log_evidence()) < 1e-11


def test_a_conjugate_block_given_a_table() -> None:
    """p(y) = Σ_z P(z) p(y | z), each term a closed form; the marginal of the mean is then a mixture and has none."""
    prior, centres = np.array([0.2, 0.3, 0.5]), np.array([-1.0, 0.0, 4.0])
    with pm.Model() as model:
        z = pm.Categorical("z", p=prior)
        mu = pm.Normal("mu", centres, 2.0, shape=3)
        pm.Normal("y", mu[z], 1.0, observed=REAL)
    terms = np.array([one_mean(c, 2, 1, REAL).log_evidence for c in centres], dtype=object)
    truth = finite("z", np.arange(3), prior, terms)
    post = bk.infer(model, draws=DRAWS, random_seed=SEED, progressbar=False)
    assert post.method == "exact"
    assert abs(post.log_evidence.value - float(truth.log_evidence)) < 1e-10 * abs(float(truth.log_evidence))
    assert_allclose(post.marginal("z").mean(), truth.moments["z"][0], rtol=1e-9)
    with pytest.raises(bk.BayeskitError, match="mu"):
        post.marginal("mu")
    means = np.array([one_mean(c, 2, 1, REAL).moments["mu"][0] for c in centres])
    weights = prior * np.exp((terms - truth.log_evidence).astype(float))
    expected = weights * means + (1 - weights) * centres
    values = flat_draws(post, "mu")
    assert np.all(np.abs(values.mean(axis=0) - expected) < Z_LIMIT * values.std(axis=0) / math.sqrt(DRAWS))


def test_a_model_without_latent_variables_has_its_likelihood_as_evidence() -> None:
    with pm.Model() as model:
        pm.Normal("y", 1.0, 2.0, observed=REAL)
    post = bk.infer(model, draws=DRAWS, random_seed=SEED, progressbar=False)
    assert_allclose(post.log_evidence.value, stats.norm(1.0, 2.0).logpdf(REAL).sum(), rtol=1e-14)
    assert post.summary().empty


def test_a_missing_count_is_drawn_forward_and_leaves_the_rest_exact() -> None:
    counts = np.ma.masked_values([1, 2, -1, 4], -1)
    with pm.Model() as model, warnings.catch_warnings():
        warnings.simplefilter("ignore", pm.exceptions.ImputationWarning)
        rate = pm.Gamma("rate", 2.0, 1.0)
        pm.Poisson("y", rate, observed=counts)
    post = bk.infer(model, draws=4000, random_seed=SEED, progressbar=False)
    seen = np.array([1, 2, 4])
    a, b = 2.0 + seen.sum(), 1.0 + len(seen)
    evidence = special.gammaln(a) - a * math.log(b) - special.gammaln(2.0) - special.gammaln(seen + 1).sum()
    assert_allclose(post.log_evidence.value, evidence, rtol=1e-12)
    assert [step.family for step in post.plan.eliminated] == ["ancestral", "gamma"]
    assert_allclose(post.marginal("rate").mean(), a / b, rtol=1e-12)
    predictive = stats.nbinom(a, b / (b + 1))
    drawn = flat_draws(post, "y_unobserved")
    assert np.all(np.abs(z_score(drawn, predictive.mean(), predictive.std())) < Z_LIMIT)


def test_a_likelihood_multiplied_by_total_size_is_refused() -> None:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=REAL, total_size=1000)
    with pytest.raises(bk.BayeskitError, match="total_size"):
        bk.explain(model)


@pytest.mark.parametrize(("prior_sd", "noise_sd"), [(10.0, 1.0), (1e3, 1e-3)])
def test_collinear_and_constant_columns_are_answered(prior_sd: float, noise_sd: float) -> None:
    """Λ has condition 1e12 in the second case: only its square root keeps enough digits."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=6)
    columns = np.column_stack([np.ones(6), np.ones(6), x, 2 * x])
    y = 1 + x + noise_sd * rng.normal(size=6)
    with pm.Model() as model:
        w = pm.Normal("w", 0.0, prior_sd, shape=4)
        pm.Normal("y", columns @ w, noise_sd, observed=y)
    post = bk.infer(model, draws=DRAWS, random_seed=SEED, progressbar=False)
    with mp.workdps(60):
        design, data = mp.matrix(columns.tolist()), mp.matrix(y.tolist())
        covariance = design * design.T * mp.mpf(prior_sd) ** 2 + mp.eye(6) * mp.mpf(noise_sd) ** 2
        square = (data.T * mp.lu_solve(covariance, data))[0]
        evidence = float(-square / 2 - mp.log(mp.det(covariance)) / 2 - 3 * mp.log(2 * mp.pi))
        inverse = design.T * design / mp.mpf(noise_sd) ** 2 + mp.eye(4) / mp.mpf(prior_sd) ** 2
        posterior = mp.inverse(inverse)
        mean = posterior * (design.T * data) / mp.mpf(noise_sd) ** 2
        expected = np.array([float(m) for m in mean])
        sd = np.array([float(mp.sqrt(posterior[i, i])) for i in range(4)])
    assert_allclose(post.log_evidence.value, evidence, rtol=1e-10)
    assert_allclose(np.asarray(post.marginal("w").std()), sd, rtol=1e-9)
    assert np.all(np.abs(np.asarray(post.marginal("w").mean()) - expected) < 1e-9 * sd)


@pytest.mark.parametrize("name", [n for n in BY_NAME if n.startswith("table: ") and "million" not in n])
def test_a_table_agrees_with_pymc_extras(name: str) -> None:
    from pymc_extras import marginalize

    case, post = result(name)
    model = case.build()
    collapsed = marginalize(model, [rv.name for rv in model.free_RVs])
    evidence = collapsed.compile_logp(mode="FAST_COMPILE")({})
    # PyMC evaluates log(1.5) in float32 there, which is off by 1e-8; the rows of the table hold the exact value.
    assert_allclose(post.log_evidence.value, evidence, rtol=1e-7)
