"""The judge of draws: it must refuse draws that are a little wrong and pass right ones, for every kind of marginal."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from scipy import signal, special, stats
from statsmodels.stats.multitest import multipletests

from bayeskit import BayeskitError
from bayeskit.errors import DataError, ModelError, OptionError
from bayeskit.inference.ladder import infer
from bayeskit.results.marginals import Marginal
from bayeskit.validation import assert_matches_exact, judge, one_step_ahead, statistics, validate
from bayeskit.validation.record import probability_words
from bayeskit.validation.scalars import probability_of
from bayeskit.validation.statistics import compare_with_distribution, compare_with_draws, holm

# One in a thousand right sets of draws is refused: two of 60, for one kind, in one run of 600. Were a kind refused one
# time in twelve, it would be found in 95 runs of 100.
SEEDS = 30
ALLOWED_ALARMS = 0  # of a rate that is too large one is found no less often than two of sixty would be

MARGINALS = {
    "normal": stats.norm(3.0, 2e-6),
    "beta": stats.beta(8.0, 4.0),
    "dirichlet element": stats.beta(2.0, 30.0),
    "gamma": stats.gamma(3.0, scale=1e5),
    "inverse gamma": stats.invgamma(3.0),
    "skewed beta": stats.beta(0.3, 20.0),
    "student 5": stats.t(5.0),
    "student 12": stats.t(12.0),
    "student 2, infinite variance": stats.t(2.0),
    "binomial": stats.binom(5, 0.3),
}
SCORED = ("dirichlet element", "gamma", "inverse gamma", "skewed beta", "student 5")


@dataclass(frozen=True)
class Closed:
    """What the judge needs of a closed-form marginal."""

    dist: Any
    elementwise: bool = True


@dataclass(frozen=True)
class Exact:
    """What the judge needs of an exact posterior, from SciPy alone."""

    tree: xr.DataTree
    marginals: Mapping[str, Closed] = field(default_factory=dict)
    certificate: float = 0.0
    model: Any = None


def exact_of(dist: Any, *, shape: tuple[int, ...] = (), **kwargs: Any) -> Exact:
    draws = dist.rvs(size=(4, 250, *shape), random_state=5)
    dims = ("chain", "draw", *(f"dim_{i}" for i in range(draws.ndim - 2)))
    dataset = xr.Dataset({"theta": (dims, draws)}, **kwargs)
    return Exact(xr.DataTree.from_dict({"posterior": dataset}), {"theta": Closed(dist)})


def autocorrelated(rng: np.random.Generator, rho: float, chains: int = 4, draws: int = 1000) -> np.ndarray:
    """Stationary AR(1) chains with standard normal marginals: effective sample size draws · (1 − rho) / (1 + rho)."""
    start = rng.normal(size=(chains, 1))
    noise = rng.normal(size=(chains, draws))
    return signal.lfilter([np.sqrt(1 - rho**2)], [1, -rho], noise, axis=1, zi=rho * start)[0]


def alarms(dist: Any, draws: np.ndarray) -> int:
    """How many of the last axis' sets of draws, each judged as if alone, are refused.

    At level 0.001 for each of them, the whole is judged at 0.001 times their number: Holm's first step is then each
    one's own level, and the later steps can only add alarms.
    """
    exact = exact_of(dist, shape=draws.shape[2:])
    validation = judge(exact, {"theta": draws}, alpha=1e-3 * draws.shape[2], random_seed=1)
    return int((validation.table["verdict"] != "agrees").sum())


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in MARGINALS if kind not in SCORED])
def test_right_draws_pass(kind: str) -> None:
    assert alarms(MARGINALS[kind], MARGINALS[kind].rvs(size=(4, 1000, SEEDS), random_state=11)) <= ALLOWED_ALARMS


def test_right_draws_of_which_only_the_scores_are_judged_pass() -> None:
    """What is judged of them has one distribution whatever the marginal: they are sets of draws of one experiment."""
    dists = [MARGINALS[kind] for kind in SCORED]
    assert sum(alarms(d, d.rvs(size=(4, 1000, SEEDS // 4), random_state=11)) for d in dists) <= ALLOWED_ALARMS
    for dist in dists:
        (scale,) = judge(exact_of(dist), {"theta": dist.rvs(size=(4, 1000), random_state=12)}).table["scale"]
        assert scale == "normal scores"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "rho"),
    [("normal", 0.8), ("inverse gamma", 0.6), ("student 2, infinite variance", 0.8), ("skewed beta", -0.5)],
    ids=["normal, ess 440", "inverse gamma, ess 1000", "infinite variance, ess 440", "skewed beta, antithetic"],
)
def test_right_autocorrelated_draws_pass(kind: str, rho: float) -> None:
    rng = np.random.default_rng(13)
    chains = autocorrelated(rng, rho, chains=4 * SEEDS).reshape(SEEDS, 4, 1000)
    draws = MARGINALS[kind].ppf(special.ndtr(np.moveaxis(chains, 0, -1)))
    assert alarms(MARGINALS[kind], draws) <= ALLOWED_ALARMS


@pytest.mark.parametrize("upside_down", [False, True])
def test_a_number_to_which_much_of_a_distribution_rounds_is_spread_over_that(upside_down: bool) -> None:
    """A third of Beta(1, 0.03) is nearer to one than 1e-16, a third of Beta(0.0015, 1) below every number but zero."""
    dist = stats.beta(0.0015, 1.0) if upside_down else stats.beta(1.0, 0.03)
    marginal = Marginal("b", dist, "beta")
    rng = np.random.default_rng(3)
    draws = dist.rvs(size=4000, random_state=rng)
    end = 0.0 if upside_down else 1.0
    assert 0.1 < np.mean(draws == end) < 0.6
    values = probability_of(marginal, draws, rng)
    assert stats.ks_1samp(values, stats.uniform.cdf).pvalue > 1e-3
    far = Marginal("b", stats.norm(0.0, 1.0), "normal")
    np.testing.assert_array_equal(probability_of(far, np.array([-50.0, 50.0]), rng), [0.0, 1.0])


def test_right_draws_without_closed_form_pass() -> None:
    """An element of a Wishart matrix of six degrees of freedom."""
    root = np.linalg.cholesky([[1.0, 0.7], [0.7, 2.0]])
    refused = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        sample = (rng.normal(size=(14_000, 6, 2)) @ root.T).prod(axis=2).sum(axis=1)
        tests = compare_with_draws(sample[:4000].reshape(4, 1000), sample[4000:], rng)
        refused += min(tests.p_values.values()) <= 1e-3 / 3
    assert refused <= 1


def wrong(dist: Any, how: str, seed: int) -> np.ndarray:
    """4,000 draws with the mean off by 0.2 sd or the sd off by 10 %; about the median where there is no mean or sd."""
    draws = dist.rvs(size=(4, 1000), random_state=seed)
    mean, sd = dist.mean(), dist.std()
    if not np.isfinite(sd):
        mean, sd = dist.median(), (dist.ppf(special.ndtr(1.0)) - dist.ppf(special.ndtr(-1.0))) / 2
    return {
        "mean high": draws + 0.2 * sd,
        "mean low": draws - 0.2 * sd,
        "sd high": mean + 1.1 * (draws - mean),
        "sd low": mean + 0.9 * (draws - mean),
    }[how]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["mean high", "mean low", "sd high", "sd low"])
@pytest.mark.parametrize("kind", [kind for kind in MARGINALS if kind != "binomial"])
def test_wrong_draws_fail(kind: str, how: str) -> None:
    exact = exact_of(MARGINALS[kind])
    seeds = range(3)
    caught = sum(not judge(exact, {"theta": wrong(MARGINALS[kind], how, seed)}).passed for seed in seeds)
    # Infinite variance: an sd that is off by 10 % is a spread that is; no test has full power against it.
    assert caught >= (2 if "infinite" in kind else 3)


@pytest.mark.parametrize("how", ["mean high", "sd high", "sd low"])
def test_wrong_draws_fail_without_closed_form(how: str) -> None:
    dist = stats.gamma(4.0)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        tests = compare_with_draws(wrong(dist, how, seed), dist.rvs(size=10_000, random_state=rng), rng)
        assert min(tests.p_values.values()) <= 1e-3 / 3


def test_wrong_scalar_is_found_among_many() -> None:
    dist = stats.norm(np.zeros(60), np.linspace(1e-6, 1e6, 60))
    exact = exact_of(dist, shape=(60,))
    draws = dist.rvs(size=(4, 1000, 60), random_state=1)
    draws[..., 17] *= 1.1
    validation = judge(exact, {"theta": draws})
    assert list(validation.table.index[validation.table["verdict"] != "agrees"]) == ["theta[17]"]
    assert validation.comparisons == 240


def test_wrong_discrete_draws_fail() -> None:
    exact = exact_of(MARGINALS["binomial"])
    assert not judge(exact, {"theta": stats.binom(5, 0.35).rvs(size=(4, 1000), random_state=1)}, random_seed=1).passed


def test_wrong_shape_with_right_mean_and_sd_fails() -> None:
    """Only the ECDF sees it: a uniform with the mean and the sd of the standard normal."""
    draws = stats.uniform(-np.sqrt(3), 2 * np.sqrt(3)).rvs(size=(4, 1000), random_state=1)
    validation = judge(exact_of(stats.norm()), {"theta": draws})
    assert validation.table.at["theta", "verdict"] == "ecdf"


def test_z_scores_are_in_monte_carlo_standard_errors() -> None:
    """For a normal marginal and independent draws, by the textbook formulas."""
    rng = np.random.default_rng(3)
    draws = rng.normal(10.0, 3.0, size=(4, 5000))
    row = judge(exact_of(stats.norm(10.0, 3.0)), {"theta": draws}).table.loc["theta"]
    assert row["z_mean"] == pytest.approx((draws.mean() - 10) / (3 / np.sqrt(draws.size)), rel=0.1)
    assert row["z_sd"] == pytest.approx((draws.std() - 3) / (3 / np.sqrt(2 * draws.size)), rel=0.1)
    assert row["p_ecdf"] == pytest.approx(stats.kstest(draws.ravel(), stats.norm(10, 3).cdf).pvalue, rel=0.5)


def test_scores_are_uniform_whatever_the_marginal() -> None:
    """Normal scores make the z-scores of a skewed marginal those of the normal one."""
    normal = autocorrelated(np.random.default_rng(1), 0.5)
    uniform = special.ndtr(normal)
    results = [
        compare_with_distribution(dist.ppf(uniform), uniform, (np.nan,) * 2 + (9.0, 9.0))
        for dist in (stats.expon(), stats.invgamma(2.5))
    ]
    assert results[0] == results[1]


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_the_kolmogorov_distance_is_scipys(size: int) -> None:
    values = np.random.default_rng(size).beta(0.9, 1.1, size=size)
    assert statistics.kolmogorov_distance(values) == stats.ks_1samp(values, stats.uniform.cdf).statistic


def test_holm_agrees_with_statsmodels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "collect", lambda: 0)  # statsmodels calls it: a second for all that earlier tests left
    rng = np.random.default_rng(2)
    for size in (1, 5, 40):
        p_values = rng.beta(0.1, 1.0, size=size)
        for alpha in (1e-3, 0.05):
            np.testing.assert_array_equal(holm(p_values, alpha), multipletests(p_values, alpha, method="holm")[0])
    assert holm(np.array([]), 0.05).size == 0


# --- gates ------------------------------------------------------------------------------------------------------------


def normal_draws(seed: int = 1, shape: tuple[int, ...] = (4, 1000)) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def failing(draws: np.ndarray, dist: Any = None, **options: Any) -> str:
    validation = judge(exact_of(dist or stats.norm()), {"theta": draws}, **options)
    assert not validation.passed
    assert len(validation.failures) >= 1
    return "\n".join(validation.failures)


def test_chains_that_disagree_fail_by_rhat() -> None:
    assert "R-hat" in failing(normal_draws() + np.array([[-1.0], [1.0], [-1.0], [1.0]]))


def test_too_few_effective_draws_fail() -> None:
    assert "effective sample size" in failing(normal_draws(shape=(4, 15)))
    assert "effective sample size" in failing(autocorrelated(np.random.default_rng(1), 0.99))
    assert judge(exact_of(stats.norm()), {"theta": normal_draws(shape=(4, 15))}, min_ess=20).passed


def test_draws_that_are_all_equal_fail() -> None:
    assert "equal" in failing(np.zeros((4, 1000)))
    assert "at least 4" in failing(np.zeros((4, 3)))


def test_draws_that_are_all_equal_and_far_out_are_told_to_lie_there() -> None:
    """The most extreme draw needs no effective size; of a skewed marginal all scores out there are the same, too."""
    constant = judge(exact_of(stats.norm(3.0, 1.0)), {"theta": np.full((4, 500), 40.0)})
    assert constant.table.at["theta", "verdict"] == "all draws are equal, extreme"
    near = judge(exact_of(stats.norm(3.0, 1.0)), {"theta": np.full((4, 500), 3.5)})
    assert near.table.at["theta", "verdict"] == "all draws are equal"
    unequal = 1e6 + np.random.default_rng(1).normal(size=(4, 500))
    beyond = judge(exact_of(stats.gamma(2.0)), {"theta": unequal}).table.at["theta", "verdict"]
    assert beyond == "all draws lie where the exact posterior has next to no mass, extreme"


def test_chains_that_are_copies_of_each_other_fail() -> None:
    """As of one seed for all chains: four times as many draws as there are, which no test of one scalar sees."""
    one = np.random.default_rng(1).normal(3.0, 2e-6, size=(1, 1000))
    verdict = judge(exact_of(MARGINALS["normal"]), {"theta": np.repeat(one, 4, axis=0)})
    assert "two chains have the same draws" in verdict.failures[0]
    few = judge(exact_of(stats.bernoulli(0.999)), {"theta": np.ones((4, 200))})
    assert not any("same draws" in failure for failure in few.failures)


@pytest.mark.parametrize("off", [1e-3, -1e-3])
def test_draws_of_a_composition_that_do_not_sum_to_one_fail(off: float) -> None:
    with pm.Model() as model:
        share = pm.Dirichlet("share", np.ones(3))
        pm.Multinomial("count", n=9, p=share, observed=[4, 3, 2])
    draws = np.random.default_rng(3).dirichlet([5.0, 4.0, 3.0], size=(4, 1000))
    exact = infer(model, random_seed=1, progressbar=False)
    assert judge(exact, {"share": draws.astype(np.float32)}).passed
    draws[0, :7] *= 1 + off
    verdict = judge(exact, {"share": draws})
    assert verdict.failures[0] == "share[0]: 7 draws do not sum to 1"


def test_more_chains_than_draws_are_noted() -> None:
    draws = np.random.default_rng(1).normal(3.0, 2e-6, size=(1000, 4))
    assert any(
        "1,000 chains of 4 draws" in note for note in judge(exact_of(MARGINALS["normal"]), {"theta": draws}).notes
    )
    assert not judge(exact_of(MARGINALS["normal"]), {"theta": draws.T}).notes


def test_a_chain_that_never_moves_fails() -> None:
    draws = normal_draws()
    draws[2] = 0.1
    assert not judge(exact_of(stats.norm()), {"theta": draws}).passed


def test_draws_that_are_not_finite_fail() -> None:
    draws = normal_draws()
    draws[0, :2] = np.nan, np.inf
    assert "theta: 2 draws are not finite" in failing(draws)


def test_draws_outside_the_support_fail() -> None:
    draws = stats.gamma(2).rvs(size=(4, 1000), random_state=1)
    draws[1, 5] = -1e-9
    assert "1 draws lie outside the support [0, inf]" in failing(draws, stats.gamma(2))


def test_one_chain_is_judged_without_rhat() -> None:
    validation = judge(exact_of(stats.norm()), {"theta": normal_draws(shape=(1, 4000))})
    assert validation.passed
    assert np.isnan(validation.table.at["theta", "rhat"])
    assert any("R-hat" in note for note in validation.notes)


def test_infinite_variance_is_recorded() -> None:
    draws = stats.t(2).rvs(size=(4, 1000), random_state=1)
    validation = judge(exact_of(stats.t(2)), {"theta": draws})
    assert validation.passed
    assert validation.table.at["theta", "scale"] == "folded scores"
    assert any("infinite variance" in note for note in validation.notes)


def test_constant_scalars_are_compared_as_numbers() -> None:
    """A Deterministic such as the sum of a simplex, or the zeros of a triangular matrix."""
    dataset = xr.Dataset({"theta": (("chain", "draw", "k"), np.full((4, 250, 2), [0.0, 1.0]))})
    exact = Exact(xr.DataTree.from_dict({"posterior": dataset}))
    right = np.full((4, 1000, 2), [0.0, 1.0])
    assert judge(exact, {"theta": right}).passed
    assert "always 1" in judge(exact, {"theta": right * [1.0, 1.1]}).failures[0]


# --- what the draws may look like -------------------------------------------------------------------------------------


def labelled() -> tuple[Exact, xr.Dataset]:
    dist = stats.norm([0.0, 5.0, 9.0], [1.0, 2.0, 3.0])
    exact = exact_of(dist, shape=(3,), coords={"dim_0": ["a", "b", "c"]})
    values = dist.rvs(size=(4, 1000, 3), random_state=2)
    return exact, xr.Dataset({"theta": (("chain", "draw", "dim_0"), values)}, coords={"dim_0": ["a", "b", "c"]})


def test_draws_may_come_in_any_container_and_order() -> None:
    exact, draws = labelled()
    values = draws["theta"].to_numpy()
    reference = judge(exact, draws).table
    assert list(reference.index) == ["theta[a]", "theta[b]", "theta[c]"]
    for same in (
        xr.DataTree.from_dict({"posterior": draws}),
        draws.transpose("dim_0", "draw", "chain"),
        draws.sel(dim_0=["c", "a", "b"]),
        draws.rename(dim_0="another").drop_vars("another"),
        {"theta": values},
    ):
        np.testing.assert_allclose(judge(exact, same).table["z_mean"], reference["z_mean"])
    assert judge(exact, {"theta": values.reshape(4000, 3)}).passed


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        ({"other": np.zeros((4, 10, 3))}, "no draws of theta: the draws hold other"),
        ({"theta": np.zeros((4, 10, 2))}, r"theta: its draws have shape \(4, 10, 2\); \(chain, draw, 3\) is needed"),
        ({"theta": np.full((4, 10, 3), "x")}, "numbers are needed"),
        ([1, 2], "draws are a list"),
        (3, "draws are an int: give"),
        (xr.DataTree.from_dict({"prior": xr.Dataset()}), "no group 'posterior'"),
        (xr.Dataset({"theta": (("sample", "dim_0"), np.zeros((9, 3)))}), "'chain' and 'draw' are needed"),
        (
            xr.Dataset({"theta": (("chain", "draw", "dim_0"), np.zeros((4, 9, 3)))}, coords={"dim_0": ["a", "b", "z"]}),
            "theta: along 'dim_0' the draws have labels",
        ),
    ],
)
def test_draws_that_do_not_fit_are_refused(draws: Any, message: str) -> None:
    exact, _ = labelled()
    with pytest.raises(DataError, match=message):
        judge(exact, draws)


def test_options_are_checked() -> None:
    exact, draws = labelled()
    with pytest.raises(OptionError, match="alpha is 2"):
        judge(exact, draws, alpha=2)
    with pytest.raises(OptionError, match="no variable 'phi' in the exact posterior, which has theta"):
        judge(exact, draws, var_names=["phi"])
    with pytest.raises(OptionError, match="var_names is empty"):
        judge(exact, draws, var_names=[])


def test_validation_is_readable() -> None:
    exact, draws = labelled()
    text = str(judge(exact, draws))
    assert "agrees with the closed form" in text
    assert "theta[a]" in text
    wrong_draws = draws.copy(deep=True)
    wrong_draws["theta"][..., 1] += 1.0
    text = str(judge(exact, wrong_draws))
    assert "does NOT agree" in text
    assert "FAILED theta[b]: mean" in text


def test_long_table_shows_the_failures_first() -> None:
    dist = stats.norm(np.zeros(90), 1.0)
    draws = dist.rvs(size=(4, 250, 90), random_state=1)
    draws[..., 88] += 1.0
    text = str(judge(exact_of(dist, shape=(90,)), {"theta": draws}))
    assert "theta[88]" in text
    assert "50 rows more" in text


# --- with the whole of bayeskit ---------------------------------------------------------------------------------------


def coin(successes: int = 7, trials: int = 10) -> pm.Model:
    with pm.Model() as model:
        p = pm.Beta("p", 2.0, 3.0)
        pm.Binomial("y", n=trials, p=p, observed=successes)
    return model


def test_assert_matches_exact_on_a_model() -> None:
    right = stats.beta(9.0, 6.0)
    validation = assert_matches_exact(coin(), {"p": right.rvs(size=(4, 1000), random_state=1)}, random_seed=1)
    assert validation.passed
    assert validation.certificate < 1e-8
    with pytest.raises(AssertionError, match="p: mean") as error:
        assert_matches_exact(coin(), {"p": right.rvs(size=(4, 1000), random_state=1) * 0.95})
    assert "mcmc_mean" in str(error.value)


def test_models_without_a_closed_form_are_refused() -> None:
    with pm.Model() as model:
        slope = pm.Normal("slope", shape=4)  # too many for quadrature
        pm.Bernoulli("y", logit_p=slope.sum() * np.array([1.0, 2.0]), observed=[0, 1])
    with pytest.raises(ModelError, match=r"no closed form to judge draws against.*slope"):
        assert_matches_exact(model, {"slope": np.zeros((4, 100, 4))})
    with pytest.raises(BayeskitError, match="slope"):
        validate(model, draws=100, progressbar=False)


def test_draws_are_judged_against_quadrature() -> None:
    """A logistic slope has no closed form, but a marginal density by quadrature; here its draws come from a grid."""
    with pm.Model() as model:
        slope = pm.Normal("slope")
        pm.Bernoulli("y", logit_p=slope * np.array([1.0, 2.0]), observed=[0, 1])
    grid = np.linspace(-8, 8, 40_001)
    density = stats.norm().pdf(grid) / (1 + np.exp(grid)) / (1 + np.exp(-2 * grid))
    draws = np.random.default_rng(1).choice(grid, p=density / density.sum(), size=(4, 2000))
    assert_matches_exact(model, {"slope": draws}, random_seed=1)
    with pytest.raises(AssertionError, match="slope: mean"):
        assert_matches_exact(model, {"slope": draws + 0.2}, random_seed=1)


def hypotheses() -> pm.Model:
    with pm.Model() as model:
        k = pm.Categorical("k", [0.3, 0.5, 0.2])
        pm.Normal("y", mu=1.0 * k, sigma=1.0, observed=0.3)
    return model


def test_discrete_draws_are_judged() -> None:
    weights = np.array([0.3, 0.5, 0.2]) * stats.norm(np.arange(3), 1.0).pdf(0.3)
    weights /= weights.sum()
    rng = np.random.default_rng(1)
    assert_matches_exact(hypotheses(), {"k": rng.choice(3, p=weights, size=(4, 1000))}, random_seed=1)
    with pytest.raises(AssertionError, match=r"k: mean"):
        assert_matches_exact(hypotheses(), {"k": rng.choice(3, p=[0.3, 0.5, 0.2], size=(4, 1000))}, random_seed=1)


@pytest.mark.slow
def test_validate_draws_discrete_variables_by_gibbs() -> None:
    validation = validate(hypotheses(), draws=2000, random_seed=2, progressbar=False)
    assert validation.passed, str(validation)
    assert validation.method == "Gibbs and NUTS steps"


@pytest.mark.slow
def test_validate_with_nuts() -> None:
    validation = validate(coin(), draws=2000, random_seed=1, progressbar=False)
    assert validation.passed, str(validation)
    assert validation.divergences == 0
    assert validation.random_seed == 1
    assert list(validation.table.index) == ["p"]


def test_prequential_identity() -> None:
    """log p(y) is the sum of one-step-ahead log predictive densities; each is a beta-binomial with one trial."""
    flips = np.array([1, 1, 0, 1, 0, 0, 1])

    def model(n: int) -> pm.Model:
        with pm.Model() as nested:
            p = pm.Beta("p", 2.0, 3.0)
            pm.Bernoulli("y", p, observed=flips[:n])
        return nested

    terms = one_step_ahead([model(n) for n in range(1, flips.size + 1)])
    ones = np.concatenate([[0], np.cumsum(flips)[:-1]])
    expected = [
        stats.betabinom(1, 2 + k, 3 + n - k).logpmf(y) for n, (y, k) in enumerate(zip(flips, ones, strict=True))
    ]
    np.testing.assert_allclose(terms, expected, atol=1e-10)
    with pytest.raises(ModelError, match="no models"):
        one_step_ahead([])


def test_finite_variables_are_judged_by_their_closed_forms() -> None:
    """Two coins, and which one was tossed is not known."""
    with pm.Model() as model:
        z = pm.Categorical("z", [0.3, 0.7], shape=3)
        pm.Binomial("y", 9, pt.as_tensor([0.2, 0.6])[z], observed=[1, 4, 8])
    post = infer(model, draws=4000, random_seed=1)
    dist = post.marginal("z").dist
    p = stats.bernoulli(dist.pmf(1))
    np.testing.assert_allclose(dist.stats("mvsk"), p.stats("mvsk"), rtol=1e-9)
    assert dist.support() == (0, 1)
    assert judge(post, post.tree, random_seed=2).passed
    wrong = post.tree.posterior.to_dataset().assign(z=lambda d: d["z"] * 0)
    assert not judge(post, wrong, random_seed=2).passed


@pytest.mark.slow
def test_no_probability_is_zero() -> None:
    assert probability_words(0.0) == "p < 1e-300" and probability_words(4.4e-5) == "p = 4.4e-05"
