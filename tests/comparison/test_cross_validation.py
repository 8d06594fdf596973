"""Observations left out, against closed forms of what is left: refits by formula, forward recursions, integrals."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pymc as pm
import pymc_extras as pmx
import pytensor.tensor as pt
import pytest
import xarray as xr
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.sharedvar import TensorSharedVariable
from scipy import signal, special, stats

import bayeskit as bk
from bayeskit.comparison.cross_validation import CrossValidation, cross_validate
from bayeskit.comparison.evidence_of_subsets import SubsetEvidence
from bayeskit.comparison.folds import Fold, FoldLayout
from bayeskit.comparison.left_out_scores import scores_from_draws, scores_from_evidence
from bayeskit.comparison.posteriors_of_subsets import NoSubsetAnswer, SubsetPosteriors
from bayeskit.comparison.smoothed_loo import error_of_draws, mean_over_draws, smoothed_loo
from bayeskit.errors import DataError, InferenceError, ModelError, OptionError
from bayeskit.results.log_evidence import LogEvidence

RNG = np.random.default_rng(11)
X = np.column_stack([np.ones(14), np.linspace(-1.0, 1.0, 14)])
Y = X @ [0.4, 0.9] + RNG.normal(0.0, 0.6, size=14)
TIMES = np.linspace(0.0, 3.0, 9)
SERIES = np.sin(TIMES) + RNG.normal(0.0, 0.2, size=9)
MOVES = np.array([[0.9, 0.1], [0.25, 0.75]])


def line(columns: int = 2) -> pm.Model:
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 3.0, 1.0)
        slopes = pm.Normal("slopes", 0.0, 2.0 * pm.math.sqrt(variance), shape=columns)
        pm.Normal("y", X[:, :columns] @ slopes, pm.math.sqrt(variance), observed=Y)
    return model


def line_evidence(at: np.ndarray, columns: int = 2) -> float:
    """A multivariate t: the Normal-inverse-gamma prior integrated out."""
    x = X[at, :columns]
    shape = (1.0 / 3.0) * (np.eye(len(at)) + 4.0 * x @ x.T)
    return float(stats.multivariate_t(shape=shape, df=6.0).logpdf(Y[at]))


def by_refits(layout: FoldLayout, columns: int = 2, seed: int = 1) -> np.ndarray:
    scores = np.empty(14)
    for fold in layout.of(14, np.random.default_rng(seed)):
        seen = np.flatnonzero(fold.seen)
        for i in fold.scored:
            before = line_evidence(seen, columns) if seen.size else 0.0
            scores[i] = line_evidence(np.append(seen, i), columns) - before
    return scores


@pytest.fixture(scope="module")
def posterior() -> bk.Posterior:
    return bk.infer(line(), random_seed=1)


@pytest.fixture(scope="module")
def evidence(posterior: bk.Posterior) -> SubsetEvidence:
    return SubsetEvidence("line", posterior, None, 1)


@pytest.fixture(scope="module")
def loo(posterior: bk.Posterior) -> CrossValidation:
    return cross_validate({"line": posterior, "level": line(1)}, random_seed=1)


@pytest.mark.slow
def test_leave_one_out_is_that_of_refits(loo: CrossValidation) -> None:
    for name, columns in (("line", 2), ("level", 1)):
        scores = by_refits(FoldLayout("loo"), columns)
        assert np.max(np.abs(loo.pointwise[name] - scores)) < 1e-10
        assert abs(loo.table.at[name, "elpd"] - scores.sum()) < 1e-10
        assert abs(loo.table.at[name, "se"] - np.sqrt(14) * scores.std(ddof=1)) < 1e-10
        assert abs(loo.table.at[name, "psis_elpd"] - scores.sum()) < 0.2
    assert (loo.table["error"] < 1e-9).all()
    assert (loo.table["label"] == "exact").all()


def test_differences_are_of_pairs(loo: CrossValidation) -> None:
    assert list(loo.table.index) == ["line", "level"]
    apart = by_refits(FoldLayout("loo"), 1) - by_refits(FoldLayout("loo"), 2)
    assert abs(loo.table.at["level", "difference"] - apart.sum()) < 1e-9
    assert abs(loo.table.at["level", "difference_se"] - np.sqrt(14) * apart.std(ddof=1)) < 1e-9
    assert loo.table.at["line", "difference"] == 0.0
    assert "14 observations (entry) in 14 folds" in str(loo)


GROUPS = np.array(list("abcabcabcabcab"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "layout",
    [
        FoldLayout("stratified", 3, GROUPS),
        FoldLayout("grouped", None, GROUPS),
        FoldLayout("leave_future_out"),
    ],
    ids=lambda of: of.method,
)
def test_folds_are_those_of_refits(evidence: SubsetEvidence, layout: FoldLayout) -> None:
    folds = layout.of(14, np.random.default_rng(1))
    found = scores_from_evidence(evidence, folds, False)
    numbers = np.concatenate([fold.scored for fold in folds])
    assert np.max(np.abs(found.values - by_refits(layout)[numbers])) < 1e-10
    assert np.max(found.errors) < 1e-9


def test_scores_are_in_the_order_of_the_observations(posterior: bk.Posterior) -> None:
    found = cross_validate(posterior, method="kfold", folds=4, random_seed=1)
    assert found.pointwise.index.tolist() == list(range(14))
    assert np.max(np.abs(found.pointwise["model"] - by_refits(FoldLayout("kfold", 4)))) < 1e-10
    assert found.table["psis_elpd"].isna().all()


def test_a_joint_score_is_of_the_fold(posterior: bk.Posterior) -> None:
    found = cross_validate(posterior, method="grouped", groups=GROUPS, joint=True, random_seed=1)
    for k, name in enumerate("abc"):
        seen = np.flatnonzero(name != GROUPS)
        score = line_evidence(np.arange(14)) - line_evidence(np.append(seen, []).astype(int))
        assert abs(found.pointwise["model"].iloc[k] - score) < 1e-10
    assert any("joint density" in note for note in found.notes)


def of_variance(effect: bool) -> pm.Model:
    with pm.Model() as model:
        sigma2 = pm.HalfFlat("sigma2")
        pm.Potential("jeffreys", -pt.log(sigma2))
        mean = pm.Normal("effect", 0.0, pt.sqrt(sigma2)) if effect else 0.0
        pm.Normal("y", mean, pt.sqrt(sigma2), observed=Y[:5])
    return model


@pytest.mark.slow
def test_under_shared_priors_scores_are_ratios_of_evidences() -> None:
    """Of y with covariance σ² V, and σ² of density 1/σ² integrated out."""

    def by_formula(at: np.ndarray, effect: bool) -> float:
        n, v = len(at), np.eye(len(at)) + effect
        rest = Y[at] @ np.linalg.solve(v, Y[at])
        return float(special.gammaln(n / 2) - 0.5 * np.linalg.slogdet(v)[1] - n / 2 * np.log(np.pi * rest))

    models = {"null": of_variance(False), "effect": of_variance(True)}
    compared = bk.compare(models, shared=("sigma2",), loo=False, random_seed=1)
    found = cross_validate(dict(compared.posteriors), random_seed=1)
    assert (found.table["label"] == "exact").all()
    for name, effect in (("null", False), ("effect", True)):
        whole, numbers = by_formula(np.arange(5), effect), np.arange(5)
        scores = [whole - by_formula(numbers[numbers != i], effect) for i in numbers]
        assert np.max(np.abs(found.pointwise[name] - scores)) < 1e-10
    ahead = cross_validate(models["effect"], shared=("sigma2",), method="leave_future_out", initial=1, random_seed=1)
    scores = np.diff([by_formula(np.arange(n), True) for n in range(1, 6)])
    assert np.max(np.abs(ahead.pointwise["model"] - scores)) < 1e-10
    with pytest.raises(InferenceError, match=r"the prior of sigma2 is improper.*a larger initial"):
        cross_validate(compared, method="leave_future_out", initial=0, random_seed=1)


def test_layouts() -> None:
    rng = np.random.default_rng(0)
    dealt = FoldLayout("stratified", 4, GROUPS).of(14, rng)
    for label in "abc":
        shares = [np.sum(GROUPS[fold.scored] == label) for fold in dealt]
        assert max(shares) - min(shares) <= 1
    whole = FoldLayout("grouped", 2, GROUPS).of(14, rng)
    assert sorted(len(fold.scored) for fold in whole) == [5, 9]
    assert all(not set(GROUPS[f.scored]) & set(GROUPS[f.seen]) for f in whole)
    later = FoldLayout("leave_future_out", 3, None, 8).of(14, rng)
    assert [fold.scored.tolist() for fold in later] == [[8, 9], [10, 11], [12, 13]]
    assert [fold.seen.sum() for fold in later] == [8, 10, 12]
    everything = np.sort(np.concatenate([fold.scored for fold in FoldLayout("kfold").of(14, rng)]))
    assert everything.tolist() == list(range(14))


WRONG = [
    ({"method": "loo", "folds": 3}, OptionError),
    ({"method": "kfold", "folds": 15}, OptionError),
    ({"method": "kfold", "groups": GROUPS}, OptionError),
    ({"method": "grouped"}, OptionError),
    ({"method": "grouped", "groups": GROUPS[1:]}, DataError),
    ({"method": "grouped", "groups": ["a"] * 14}, OptionError),
    ({"method": "grouped", "groups": [None] * 14}, DataError),
    ({"method": "kfold", "initial": 3}, OptionError),
    ({"method": "leave_future_out", "initial": 14}, OptionError),
]


@pytest.mark.parametrize(("options", "error"), WRONG)
def test_what_does_not_fit(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        FoldLayout(**options).of(14, np.random.default_rng(1))


@pytest.mark.parametrize("options", [{"joint": True}, {"observations": "row"}, {"method": "kfold", "folds": 15}])
def test_what_does_not_fit_the_model(posterior: bk.Posterior, options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        cross_validate(posterior, random_seed=1, **options)


def kernel(scale: float) -> np.ndarray:
    return np.exp(-0.5 * (TIMES[:, None] - TIMES) ** 2 / scale**2)


@pytest.mark.slow
def test_the_future_of_a_gaussian_process() -> None:
    """Latent and marginal form, whose scale is known, and one whose scale is integrated over."""
    known = pm.gp.cov.ExpQuad(1, ls=1.2)
    with pm.Model() as latent:
        f = pm.gp.Latent(cov_func=known).prior("f", TIMES[:, None], reparameterize=False)
        pm.Normal("y", f, 0.2, observed=SERIES)
    with pm.Model() as marginal:
        level = pm.gp.mean.Constant(pm.Normal("level", 0.0, 1.0))
        pm.gp.Marginal(mean_func=level, cov_func=known).marginal_likelihood("y", TIMES[:, None], SERIES, sigma=0.2)
    noise = 0.04 * np.eye(9)
    for model, covariance, tolerance in (
        (latent, kernel(1.2) + noise, 1e-5),  # PyMC adds a jitter of 1e-6 to the covariance
        (marginal, kernel(1.2) + noise + 1.0, 1e-5),
    ):
        found = cross_validate(model, method="leave_future_out", initial=6, random_seed=1)
        evidence = [stats.multivariate_normal(cov=covariance[:n, :n]).logpdf(SERIES[:n]) for n in range(6, 10)]
        assert np.max(np.abs(found.pointwise["model"] - np.diff(evidence))) < tolerance
        assert (found.table["label"] == "exact").all()


@pytest.mark.slow
def test_the_future_of_a_gaussian_process_of_unknown_scale() -> None:
    with pm.Model() as model:
        scale = pm.InverseGamma("scale", 3.0, 3.0)
        cov = pm.gp.cov.ExpQuad(1, ls=scale)
        pm.gp.Marginal(cov_func=cov).marginal_likelihood("y", TIMES[:, None], SERIES, sigma=0.2, jitter=0.0)
    found = cross_validate(model, method="leave_future_out", initial=8, random_seed=1)
    grid = np.exp(np.linspace(np.log(0.02), np.log(2e3), 1001))
    prior = stats.invgamma(3.0, scale=3.0).logpdf(grid) + np.log(grid)
    covariance = np.stack([kernel(s) + 0.04 * np.eye(9) for s in grid])
    evidence = []
    for n in range(8, 10):
        part = covariance[:, :n, :n]
        fit = SERIES[:n] @ np.linalg.solve(part, SERIES[:n, None])[..., 0].T
        terms = prior - 0.5 * (fit + np.linalg.slogdet(part)[1] + n * np.log(2 * np.pi))
        evidence.append(special.logsumexp(terms) + np.log(np.log(grid[1] / grid[0])))
    assert np.max(np.abs(found.pointwise["model"] - np.diff(evidence))) < 1e-6 + found.errors["model"].max()
    assert (found.table["label"] == "quadrature").all()


def forward(y: np.ndarray, means: np.ndarray) -> float:
    """log p(y) of a hidden Markov chain by the forward recursion."""
    log_alpha = np.log([0.5, 0.5])
    for t, value in enumerate(y):
        if t:
            log_alpha = special.logsumexp(log_alpha[:, None] + np.log(MOVES), axis=0)
        log_alpha = log_alpha + stats.norm(means, 0.8).logpdf(value)
    return float(special.logsumexp(log_alpha))


@pytest.mark.slow
def test_the_future_of_a_hidden_markov_chain() -> None:
    y = np.where(np.arange(8) % 6 < 4, -1.0, 1.2) + RNG.normal(0.0, 0.8, size=8)
    with pm.Model(coords={"time": range(2000, 2008)}) as model:
        first = pm.Categorical.dist([0.5, 0.5])
        z = pmx.DiscreteMarkovChain("z", P=MOVES, init_dist=first, shape=(8,))
        pm.Normal("y", pt.as_tensor([-1.0, 1.2])[z], 0.8, observed=y, dims="time")
    found = cross_validate(model, method="leave_future_out", initial=5, random_seed=1)
    ahead = np.diff([forward(y[:n], np.array([-1.0, 1.2])) for n in range(5, 9)])
    assert np.max(np.abs(found.pointwise["model"] - ahead)) < 1e-10
    assert found.pointwise.index.tolist() == list(range(2005, 2008))


def test_from_draws_where_there_is_no_evidence() -> None:
    """A flat prior: log p(y_i | the others) is Normal about their mean."""
    y = Y[:8]
    with pm.Model() as model:
        pm.Normal("y", pm.Flat("mu"), 1.0, observed=y)
    post = bk.infer(model, random_seed=3)
    assert np.isnan(post.log_evidence.value)
    found = cross_validate(post, random_seed=3)
    rest = (y.sum() - y) / 7
    by_formula = stats.norm(rest, np.sqrt(1 + 1 / 7)).logpdf(y)
    assert np.max(np.abs(found.pointwise["model"] - by_formula) / found.errors["model"]) < 5
    assert found.table.at["model", "label"] == "estimated"
    halves = cross_validate(post, method="grouped", groups=[0, 1] * 4, random_seed=3)
    mean = np.where(np.arange(8) % 2 == 0, y[1::2].mean(), y[::2].mean())
    by_formula = stats.norm(mean, np.sqrt(1 + 1 / 4)).logpdf(y)
    assert np.max(np.abs(halves.pointwise["model"] - by_formula) / halves.errors["model"]) < 5
    subsets, seen = SubsetPosteriors("model", post, None, 3), np.arange(8) % 2 == 1
    both = scores_from_draws(subsets, [Fold(np.flatnonzero(~seen), seen)], True)
    joint = stats.multivariate_normal(np.full(4, y[1::2].mean()), np.eye(4) + 1 / 4).logpdf(y[::2])
    assert abs(both.values[0] - joint) / both.errors[0] < 5


def test_an_observation_of_high_pareto_k_is_left_out_in_a_run_of_its_own() -> None:
    """The exact answer, taken for draws of a sampler: the outlier's own effect is seen by no draw without it.

    As one vector the effects are not integrated one by one.
    """
    y = np.array([0.1, -0.2, 9.0])
    with pm.Model() as model:
        effect = pm.MvNormal("effect", np.zeros(3), 9.0 * np.eye(3))
        pm.Normal("y", effect, 0.5, observed=y)
    exact = bk.infer(model, random_seed=2)
    sampled = replace(exact, log_evidence=LogEvidence(np.nan, np.inf, "estimated", "taken away"))
    doubtful: Any = SimpleNamespace(problems=("the chains disagree",))
    found = cross_validate(replace(sampled, diagnostics=doubtful), random_seed=2)
    assert "model: its draws are not to be relied on: the chains disagree" in found.notes
    by_formula = stats.norm(0.0, np.sqrt(9.25)).logpdf(y)
    assert found.table.at["model", "high_pareto_k"] > 0
    assert any("runs of their own" in note for note in found.notes)
    again = found.errors["model"].to_numpy() > 0
    assert np.max((np.abs(found.pointwise["model"] - by_formula) / found.errors["model"])[again]) < 5


def test_where_some_observations_leave_no_evidence_the_scores_are_from_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise NoSubsetAnswer("m: given 5 of 6 observations", "no answer")

    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0.0, 1.0), 1.0, observed=Y[:6])
    post = bk.infer(model, random_seed=5)
    exact = cross_validate(post, random_seed=5)
    monkeypatch.setattr("bayeskit.comparison.cross_validation.scores_from_evidence", none)
    found = cross_validate(post, random_seed=5)
    assert found.table.at["model", "label"] == "estimated"
    assert any("no answer; its scores are from draws" in note for note in found.notes)
    apart = (found.pointwise["model"] - exact.pointwise["model"]) / found.errors["model"]
    assert np.max(np.abs(apart)) < 5
    monkeypatch.setattr(SubsetEvidence, "__call__", none)
    assert cross_validate(post, random_seed=5).table.at["model", "label"] == "estimated"


def test_scores_that_few_draws_carry_are_called_doubtful() -> None:
    """A far outlier under a flat prior: only draws at the end of the posterior reach it."""
    y = np.array([0.0, 0.3, -0.2, 14.0])
    with pm.Model() as model:
        pm.Normal("y", pm.Flat("mu"), 1.0, observed=y)
    found = cross_validate(bk.infer(model, random_seed=2), method="grouped", groups=[0, 0, 0, 1], random_seed=2)
    assert any("rest on fewer than 50 draws" in note for note in found.notes)


def test_a_time_series_is_scored_ahead_and_not_one_by_one() -> None:
    with pm.Model() as model:
        start = pm.Normal.dist(0.0, 1.0)
        pm.AR("y", [pm.Normal("rho", 0.0, 0.5)], 0.8, init_dist=start, observed=SERIES)
    found = cross_validate(model, method="leave_future_out", initial=5, random_seed=1)
    for n in range(5, 9):
        past, precision = SERIES[: n - 1], 4.0 + SERIES[: n - 1] @ SERIES[: n - 1] / 0.64
        mean = (past @ SERIES[1:n] / 0.64) / precision
        ahead = stats.norm(mean * SERIES[n - 1], np.sqrt(0.64 + SERIES[n - 1] ** 2 / precision))
        assert abs(found.pointwise.loc[n, "model"] - ahead.logpdf(SERIES[n])) < 1e-9
    with pytest.raises(ModelError, match="depends on those before it"):
        cross_validate(model, random_seed=1)


def test_labels_that_have_seen_the_data_are_no_leave_one_out() -> None:
    with pm.Model() as model:
        z = pm.Bernoulli("z", 0.4, shape=4)
        pm.Normal("y", pt.as_tensor([-1.0, 1.0])[z], 0.7, observed=Y[:4])
    exact = bk.infer(model, random_seed=2)
    sampled = replace(exact, log_evidence=LogEvidence(np.nan, np.inf, "estimated", "taken away"))
    with pytest.raises(ModelError, match="no leave-one-out from its draws"):
        cross_validate(sampled, random_seed=2)
    by_formula = np.log(0.6 * stats.norm(-1, 0.7).pdf(Y[:4]) + 0.4 * stats.norm(1, 0.7).pdf(Y[:4]))
    assert np.max(np.abs(cross_validate(exact, random_seed=2).pointwise["model"] - by_formula)) < 1e-10
    by_draws = cross_validate(sampled, method="kfold", folds=2, random_seed=2)
    assert np.max(np.abs(by_draws.pointwise["model"] - by_formula) / by_draws.errors["model"]) < 5


@pytest.mark.slow
def test_stated_errors_of_both_means_and_of_sums_are_calibrated() -> None:
    """Chains of a Normal mean: 120 estimates of three scores and of their sum, whose z-scores vary by about one."""
    y, rng = np.array([-0.5, 0.3, 0.4]), np.random.default_rng(4)
    of_loo = stats.norm((y.sum() - y) / 3, np.sqrt(1 + 1 / 3)).logpdf(y)  # the prior is Normal(0, 1)
    of_new = stats.norm(y.sum() / 4, np.sqrt(1 + 1 / 4)).logpdf(y)
    all_of_them, z = np.ones(3, dtype=bool), []
    for _ in range(120):
        noise = rng.normal(size=(4, 400))
        noise[:, 1:] *= 0.8
        mu = y.sum() / 4 + 0.5 * signal.lfilter([1.0], [1.0, -0.6], noise)  # autocorrelations of powers of 0.6
        terms = stats.norm(mu[..., None], 1.0).logpdf(y)
        draws = xr.Dataset({"mu": (("chain", "draw"), mu)})
        smoothed, (mean, influence, _) = smoothed_loo(terms, draws, None), mean_over_draws(terms)
        together = np.sum(smoothed.elpd - of_loo) / smoothed.error_of(all_of_them)
        z.append([*(smoothed.elpd - of_loo) / smoothed.error, *(mean - of_new) / error_of_draws(influence), together])
    variance = np.square(z).mean(axis=0)
    assert np.all((variance > 0.7) & (variance < 1.4)), variance


def test_a_pareto_k_that_may_be_high_is_doubtful() -> None:
    """Weights of two rows under p(θ) ∝ exp(−θ): exp(0.3 θ) and exp(0.6 θ), of k = 0.3 and 0.6 exactly."""
    theta = np.random.default_rng(3).exponential(size=(4, 4000))
    pointwise = -np.array([0.3, 0.6]) * theta[..., None]
    found = smoothed_loo(pointwise, xr.Dataset({"theta": (("chain", "draw"), theta)}), 1.0)
    assert np.max(np.abs(found.k - [0.3, 0.6])) < 0.15
    assert not found.high.any()
    assert found.doubtful.tolist() == [False, True]


def test_finitely_many_hypotheses_have_weights_without_a_tail() -> None:
    """ArviZ refuses a tail whose values are all the same; the weights are bounded, and the mean is a plain one."""
    chances = np.array([0.5, 0.9, 0.2])
    which = RNG.choice(3, size=(2, 500), p=[0.3, 0.5, 0.2])
    flips = np.array([1, 0, 1, 1])
    each = np.where(flips, np.log(chances[which])[..., None], np.log1p(-chances[which])[..., None])
    found = smoothed_loo(each, xr.Dataset({"which": (("chain", "draw"), which)}), 1.0)
    assert np.max(np.abs(found.elpd + np.log(np.mean(np.exp(-each), axis=(0, 1))))) < 1e-12
    assert not found.high.any()
    assert (found.error > 0).all()


def test_the_containers_of_a_model_are_constants_of_the_one_with_weights() -> None:
    with pm.Model() as model:
        x, y = pm.Data("x", X), pm.Data("y_data", Y)
        variance = pm.InverseGamma("variance", 3.0, 1.0)
        slopes = pm.Normal("slopes", 0.0, 2.0 * pm.math.sqrt(variance), shape=2)
        pm.Normal("y", x @ slopes, pm.math.sqrt(variance), observed=y)
    posterior = bk.infer(model, draws=4, random_seed=1)
    pm.set_data({"x": X + 1.0, "y_data": Y - 3.0}, model=model)
    evidence = SubsetEvidence("model", posterior, None, 1)
    weighted = evidence._weighted.model
    shared = [v for v in graph_inputs(weighted.potentials) if isinstance(v, TensorSharedVariable)]
    assert [v.name for v in shared] == ["y__weight"]
    kept = np.arange(14) != 3
    assert abs(evidence(kept).value - line_evidence(np.flatnonzero(kept))) < 1e-10
