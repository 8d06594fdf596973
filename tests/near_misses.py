"""Models that look as if they had a closed form and have none.

Each row is named after what breaks the closed form. It names the variables that cannot be eliminated and, where the
model is partly tractable, those that can: Gaussian variables go first, given scales; children before parents.

An answer labelled exact on any of these is a wrong answer. Many are built so that no data near the posterior show the
defect: the kink, the bump or the cubic term is far away, or smaller than any tolerance on a density, or invisible to
automatic differentiation. They can only be refused by looking at the structure of the model.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.transforms import Interval, log, ordered
from pytensor.gradient import disconnected_grad
from pytensor.raise_op import Assert
from table.data import COUNTS, COV2, FLIPS, GROUP, KINDS, POSITIVE, REAL, ROWS, SERIES, SUCCESSES, TIMES, TRIALS, X


@dataclass(frozen=True)
class NearMiss:
    """A model without a closed form.

    Attributes
    ----------
    name : str
    body : callable
        Creates the model's variables; called inside the model's context.
    refused : frozenset of str
        Variables that must be in ``plan.remaining``.
    eliminated : frozenset of str
        Variables that must have been integrated out all the same.
    one_of : frozenset of str
        Variables of which at least one must remain, where either may go given the other.
    """

    name: str
    body: Callable[[], Any]
    refused: frozenset[str] = frozenset()
    eliminated: frozenset[str] = frozenset()
    one_of: frozenset[str] = frozenset()

    def build(self) -> pm.Model:
        """A fresh model."""
        with pm.Model() as model, warnings.catch_warnings():
            warnings.simplefilter("ignore", pm.exceptions.ImputationWarning)
            self.body()
        return model


def _miss(name: str, body: Callable[[], Any], refused: str = "", *, eliminated: str = "", one_of: str = "") -> NearMiss:
    return NearMiss(name, body, frozenset(refused.split()), frozenset(eliminated.split()), frozenset(one_of.split()))


def _mean(function: Callable[[Any], Any], **prior: Any) -> Callable[[], Any]:
    """y ~ N(function(μ), 1) with μ ~ N(0, 5²)."""

    def body() -> None:
        pm.Normal("y", function(pm.Normal("mu", 0, 5, **prior)), 1.0, observed=REAL)

    return body


def _probability_of_successes(function: Callable[[Any], Any]) -> Callable[[], Any]:
    """y ~ Bernoulli(function(p)) with p ~ Uniform(0, 1), and no failure seen."""

    def body() -> None:
        pm.Bernoulli("y", p=function(pm.Uniform("p", 0.0, 1.0)), observed=[1, 1, 1])

    return body


WEIGHTS = np.array([1.0, 2.0, 4.0])
EITHER_SIGN = np.array([1.0, -2.0, 4.0])


def _potential_on_rate(function: Callable[[Any], Any]) -> Callable[[], Any]:
    """y ~ Poisson(λ) with λ ~ Gamma(2, 1) and a Potential 0.01·function(λ)."""

    def body() -> None:
        rate = pm.Gamma("rate", 2.0, 1.0)
        pm.Poisson("y", rate, observed=COUNTS)
        pm.Potential("extra", 0.01 * function(rate))

    return body


def _rate(function: Callable[[Any], Any]) -> Callable[[], Any]:
    """y ~ Poisson(function(λ)) with λ ~ Gamma(2, 1)."""

    def body() -> None:
        pm.Poisson("y", function(pm.Gamma("rate", 2.0, 1.0)), observed=COUNTS)

    return body


def _probability(function: Callable[[Any], Any]) -> Callable[[], Any]:
    """y ~ Bernoulli(function(p)) with p ~ Beta(2, 3)."""

    def body() -> None:
        pm.Bernoulli("y", function(pm.Beta("p", 2.0, 3.0)), observed=FLIPS)

    return body


def _likelihood(distribution: Any, **known: Any) -> Callable[[], Any]:
    """y from a likelihood that is not Gaussian, with a Normal prior on its location."""

    def body() -> None:
        distribution("y", mu=pm.Normal("mu", 0, 5), observed=REAL, **known)

    return body


def _scale(prior: Callable[[], Any], sd: Callable[[Any], Any] = lambda s: s) -> Callable[[], Any]:
    """y ~ N(μ, sd(s)²) with μ ~ N(0, 5²) and a prior on s."""

    def body() -> None:
        s = prior()
        pm.Normal("y", pm.Normal("mu", 0, 5), sd(s), observed=REAL)

    return body


def _known_mean(prior: Callable[[], Any], **noise: Callable[[Any], Any]) -> Callable[[], Any]:
    """y ~ N(1, ·) with a prior on the noise alone."""

    def body() -> None:
        s = prior()
        pm.Normal("y", 1.0, observed=REAL, **{k: f(s) for k, f in noise.items()})

    return body


def _logistic() -> None:
    a = pm.Normal("a", 0, 2)
    w = pm.Normal("w", 0, 2, shape=3)
    pm.Bernoulli("y", logit_p=a + X @ w, observed=FLIPS)


def _logistic_hierarchy() -> None:
    centre = pm.Normal("centre", 0, 1)
    w = pm.Normal("w", centre, 2, shape=3)
    pm.Bernoulli("y", logit_p=w[GROUP], observed=FLIPS)


def _probit() -> None:
    pm.Bernoulli("y", pm.math.invprobit(X @ pm.Normal("w", 0, 2, shape=3)), observed=FLIPS)


def _poisson_regression() -> None:
    pm.Poisson("y", pt.exp(X @ pm.Normal("w", 0, 1, shape=3)), observed=COUNTS)


def _ordinal() -> None:
    eta = pm.Normal("eta", 0, 1)
    pm.OrderedLogistic("y", eta=eta, cutpoints=np.array([-1.0, 1.0]), observed=KINDS)


def _mixture_means() -> None:
    mu = pm.Normal("mu", [-1.0, 1.0], 2.0, shape=2)
    pm.NormalMixture("y", w=np.array([0.4, 0.6]), mu=mu, sigma=1.0, observed=REAL)


def _mixture_weights() -> None:
    w = pm.Dirichlet("w", a=np.ones(2))
    pm.NormalMixture("y", w=w, mu=np.array([-1.0, 2.0]), sigma=1.0, observed=REAL)


def _zero_inflated() -> None:
    psi = pm.Beta("psi", 2.0, 2.0)
    rate = pm.Gamma("rate", 2.0, 1.0)
    pm.ZeroInflatedPoisson("y", psi=psi, mu=rate, observed=COUNTS)


def _truncated_prior() -> None:
    pm.Normal("y", pm.Truncated("mu", pm.Normal.dist(0, 5), lower=-1e3), 1.0, observed=REAL)


def _censored() -> None:
    latent = pm.Normal.dist(pm.Normal("mu", 0, 5), 1.0)
    pm.Censored("y", latent, lower=None, upper=2.0, observed=np.minimum(REAL, 2.0))


def _truncated() -> None:
    latent = pm.Normal.dist(pm.Normal("mu", 0, 5), 1.0)
    pm.Truncated("y", latent, lower=-1e2, observed=REAL)


def _product() -> None:
    a, b = pm.Normal("a", 1, 1), pm.Normal("b", 1, 1)
    pm.Normal("y", a * b, 1.0, observed=REAL)


def _bilinear() -> None:
    w = pm.Normal("w", 0, 1, shape=3)
    pm.Normal("y", w[0] + w[1] * X[:, 0] + w[1] * w[2] * X[:, 1], 1.0, observed=REAL)


def _argsorted() -> None:
    w = pm.Normal("w", 0, 1, shape=3)
    pm.Normal("y", w[pt.argsort(w)][GROUP], 1.0, observed=REAL)


def _looked_up() -> None:
    w = pm.Normal("w", 0, 1, shape=3)
    pm.Normal("y", w[0] + pt.as_tensor(np.array([0.0, 1.0, 2.0]))[pt.argmax(w)], 1.0, observed=REAL)


def _scanned() -> None:
    mu = pm.Normal("mu", 0, 1)
    path = pytensor.scan(lambda x: x - 1e-9 * x**3, outputs_info=[mu], n_steps=12, return_updates=False)
    pm.Normal("y", path, 1.0, observed=REAL)


def _sum_of_rates() -> None:
    pm.Poisson("y", pm.Gamma("signal", 2.0, 1.0) + pm.Gamma("background", 1.0, 1.0), observed=COUNTS)


def _sum_within() -> None:
    pm.Poisson("y", pm.Gamma("rate", 2.0, 1.0, shape=3).sum(), observed=COUNTS)


def _scaled_uniform() -> None:
    pm.Bernoulli("y", pm.Uniform("p", 0.0, 0.5), observed=FLIPS)


def _almost_unit_uniform() -> None:
    pm.Bernoulli("y", pm.Uniform("p", 0.0, 1.0 - 1e-6), observed=FLIPS)


def _confusion() -> None:
    theta = pm.Dirichlet("theta", a=np.ones(3))
    mixing = np.array([[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.0, 0.2, 0.8]])
    pm.Categorical("y", p=theta @ mixing, observed=KINDS)


def _aggregated() -> None:
    theta = pm.Dirichlet("theta", a=np.ones(3))
    pm.Binomial("y", n=10, p=theta[0] + theta[1], observed=6)


def _sharpened() -> None:
    theta = pm.Dirichlet("theta", a=np.ones(3))
    power = theta**1.5
    pm.Categorical("y", p=power / power.sum(), observed=KINDS)


def _ordered_means() -> None:
    mu = pm.Normal("mu", 0, 3, shape=3, transform=ordered, initval=[-1.0, 0.0, 1.0])
    pm.Normal("y", mu[GROUP], 1.0, observed=REAL)


def _positive_by_transform() -> None:
    pm.Normal("y", pm.Normal("mu", 0, 5, transform=log, initval=1.0), 1.0, observed=REAL)


def _bounded_rate() -> None:
    pm.Poisson("y", pm.Gamma("rate", 2.0, 1.0, default_transform=Interval(0, 5), initval=1.0), observed=COUNTS)


def _flat() -> None:
    pm.Normal("y", pm.Flat("mu", transform=log), 1.0, observed=REAL)


def _intrinsic_counts() -> None:
    field = pm.ICAR("field", W=np.ones((len(COUNTS), len(COUNTS)), int) - np.eye(len(COUNTS), dtype=int))
    pm.Poisson("y", pt.exp(field), observed=COUNTS)


def _half_flat() -> None:
    pm.Poisson("y", pm.HalfFlat("rate"), observed=COUNTS)


def _custom_prior() -> None:
    mu = pm.CustomDist("mu", logp=lambda value: -pt.abs(value) - np.log(2.0))
    pm.Normal("y", mu, 1.0, observed=REAL)


def _zero_sum() -> None:
    pm.Normal("y", pm.ZeroSumNormal("effect", sigma=2.0, shape=3)[GROUP], 1.0, observed=REAL)


def _lkj() -> None:
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0), compute_corr=True)
    pm.MvNormal("y", np.zeros(2), chol=chol, observed=ROWS)


def _semi_conjugate() -> None:
    v = pm.InverseGamma("v", 3.0, 2.0)
    mu = pm.Normal("mu", 0, 5)
    pm.Normal("y", mu, pt.sqrt(v), observed=REAL)


def _semi_conjugate_precision() -> None:
    tau = pm.Gamma("tau", 3.0, 2.0)
    w = pm.Normal("w", 0, 5, shape=3)
    pm.Normal("y", X @ w, tau=tau, observed=REAL)


def _two_scales() -> None:
    between = pm.InverseGamma("between", 3.0, 2.0)
    within = pm.InverseGamma("within", 3.0, 2.0)
    mu = pm.Normal("mu", 0, pt.sqrt(between), shape=3)
    pm.Normal("y", mu[GROUP], pt.sqrt(within), observed=REAL)


def _variance_component() -> None:
    v = pm.InverseGamma("v", 3.0, 2.0)
    centre = pm.Normal("centre", 0, 5)
    mu = pm.Normal("mu", centre, pt.sqrt(v), shape=3)
    pm.Normal("y", mu[GROUP], 1.0, observed=REAL)


def _mean_holds_sd() -> None:
    v = pm.InverseGamma("v", 3.0, 2.0)
    mu = pm.Normal("mu", 1.0, 2 * pt.sqrt(v))
    pm.Normal("y", mu + pt.sqrt(v), pt.sqrt(v), observed=REAL)


def _mean_holds_variance() -> None:
    v = pm.InverseGamma("v", 3.0, 2.0)
    mu = pm.Normal("mu", 0.1 * v, 2 * pt.sqrt(v))
    pm.Normal("y", mu, pt.sqrt(v), observed=REAL)


def _heteroscedastic() -> None:
    gamma = pm.Normal("gamma", 0, 1)
    w = pm.Normal("w", 0, 5, shape=3)
    pm.Normal("y", X @ w, pt.exp(gamma * X[:, 0]), observed=REAL)


def _autoregression_unknown() -> None:
    rho = pm.Normal("rho", 0.0, 0.5)
    state = pm.AR("state", rho=pt.stack([rho]), sigma=0.5, init_dist=pm.Normal.dist(0, 2, shape=1), steps=9)
    pm.Normal("y", state, 0.3, observed=SERIES)


def _autoregression_noise() -> None:
    sigma = pm.HalfNormal("sigma", 1.0)
    state = pm.AR("state", rho=[0.7], sigma=sigma, init_dist=pm.Normal.dist(0, 2, shape=1), steps=9)
    pm.Normal("y", state, 0.3, observed=SERIES)


def _gp_length_scale() -> None:
    length = pm.InverseGamma("length", 5.0, 2.0)
    gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=length))
    pm.Normal("y", gp.prior("f", X=TIMES[:, None], reparameterize=False), 0.2, observed=SERIES)


def _mean_in_the_sd() -> None:
    mu = pm.Normal("mu", 0, 5)
    pm.Normal("y", mu, pt.abs(mu) + 0.1, observed=REAL)


def _mean_in_the_sd_barely() -> None:
    mu = pm.Normal("mu", 0, 5)
    pm.Normal("y", mu, 1.0 + 1e-9 * mu**2, observed=REAL)


def _labels() -> None:
    w = pm.Dirichlet("w", a=np.ones(3))
    z = pm.Categorical("z", p=w, shape=12)
    pm.Normal("y", pt.as_tensor(np.array([-2.0, 0.0, 2.0]))[z], 1.0, observed=REAL)


def _count_latent() -> None:
    k = pm.Poisson("k", 3.0)
    pm.Normal("y", k, 1.0, observed=REAL)


def _trials_unknown() -> None:
    n = pm.Poisson("n", 20.0, initval=20)
    pm.Binomial("y", n=n, p=0.3, observed=[4, 7, 5])


def _beta_shape() -> None:
    alpha = pm.Gamma("alpha", 2.0, 1.0)
    p = pm.Beta("p", alpha, 1.0, shape=12)
    pm.Binomial("y", TRIALS, p, observed=SUCCESSES)


def _gamma_hyper_rate() -> None:
    b = pm.Gamma("b", 2.0, 1.0)
    rate = pm.Gamma("rate", 2.0, b, shape=12)
    pm.Poisson("y", rate, observed=COUNTS)


def _dirichlet_concentration() -> None:
    a = pm.Gamma("a", 2.0, 1.0)
    theta = pm.Dirichlet("theta", a=a * np.ones(3))
    pm.Categorical("y", p=theta, observed=KINDS)


def _wishart_plus() -> None:
    w = pm.Wishart("W", nu=4, V=COV2)
    pm.MvNormal("y", np.zeros(2), tau=w + np.eye(2), observed=ROWS)


def _wishart_as_covariance() -> None:
    w = pm.Wishart("W", nu=4, V=COV2)
    pm.MvNormal("y", np.zeros(2), cov=w, observed=ROWS)


def _wishart_unscaled_mean() -> None:
    w = pm.Wishart("W", nu=4, V=COV2)
    mu = pm.MvNormal("mu", np.zeros(2), cov=np.eye(2))
    pm.MvNormal("y", mu, tau=w, observed=ROWS)


def _correlation() -> None:
    rho = pm.Uniform("rho", -1, 1)
    cov = pt.stack([pt.stack([pt.ones(()), rho]), pt.stack([rho, pt.ones(())])])
    pm.MvNormal("y", np.zeros(2), cov=cov, observed=ROWS)


def _covariance_holds_mean() -> None:
    mu = pm.Normal("mu", 0, 5, shape=2)
    pm.MvNormal("y", mu, cov=np.eye(2) * (1 + 1e-9 * mu[0] ** 2), observed=ROWS)


def _smallest_variance() -> None:
    pm.Normal("y", 1.0, pt.sqrt(pt.min(pm.InverseGamma("v", 3.0, 2.0, shape=3))), observed=REAL)


def _wishart_switch() -> None:
    w = pm.Wishart("W", nu=4, V=COV2)
    pm.MvNormal("y", np.zeros(2), tau=pt.switch(w[0, 0] > 1e6, 2.0, 1.0) * w, observed=ROWS)


def _normal_wishart_switch() -> None:
    w = pm.Wishart("W", nu=4, V=COV2)
    mu = pm.MvNormal("mu", np.zeros(2), tau=pt.switch(w[0, 0] > 1e6, 2.0, 1.0) * w)
    pm.MvNormal("y", mu, tau=w, observed=ROWS)


def _horseshoe() -> None:
    tau = pm.HalfCauchy("tau", 1.0)
    w = pm.Normal("w", 0, tau, shape=3)
    pm.Normal("y", X @ w, 1.0, observed=REAL)


def _potential_barrier() -> None:
    mu = pm.Normal("mu", 0, 5)
    pm.Normal("y", mu, 1.0, observed=REAL)
    pm.Potential("barrier", pt.switch(mu < 1e3, 0.0, -np.inf))


def _probability_barrier() -> None:
    p = pm.Beta("p", 2.0, 3.0)
    pm.Bernoulli("y", p, observed=FLIPS)
    pm.Potential("barrier", pt.switch(p < 1 - 1e-9, 0.0, -np.inf))


def _rate_barrier() -> None:
    rate = pm.Gamma("rate", 2.0, 1.0)
    pm.Poisson("y", rate, observed=COUNTS)
    pm.Potential("barrier", pt.as_tensor(np.array([0.0, -1.0]))[pt.cast(rate > 1e6, "int64")])


def _simplex_potential() -> None:
    theta = pm.Dirichlet("theta", a=np.ones(3))
    pm.Categorical("y", p=theta, observed=KINDS)
    pm.Potential("pull", -1e-9 * (theta**2).sum())


def _potential_quartic() -> None:
    mu = pm.Normal("mu", 0, 5)
    pm.Normal("y", mu, 1.0, observed=REAL)
    pm.Potential("quartic", -1e-12 * mu**4)


def _negative_binomial_mean() -> None:
    pm.NegativeBinomial("y", mu=pm.Gamma("rate", 2.0, 1.0), alpha=2.0, observed=COUNTS)


def _gamma_shape() -> None:
    pm.Gamma("y", alpha=pm.Gamma("shape", 2.0, 1.0), beta=1.0, observed=POSITIVE)


def _weibull_shape() -> None:
    pm.Weibull("y", alpha=pm.Gamma("shape", 2.0, 1.0), beta=1.0, observed=POSITIVE)


def _weibull_scale() -> None:
    pm.Weibull("y", alpha=1.7, beta=pm.Gamma("scale", 2.0, 1.0), observed=POSITIVE)


def _pareto_minimum() -> None:
    pm.Pareto("y", alpha=2.0, m=pm.Gamma("m", 2.0, 1.0, initval=0.01), observed=POSITIVE)


def _exponential_root() -> None:
    pm.Exponential("y", pt.sqrt(pm.Gamma("rate", 2.0, 1.0)), observed=POSITIVE)


def _one_trial_mixed() -> None:
    p = pm.Beta("p", 2.0, 3.0)
    pm.Bernoulli("y", pt.switch(p > 1 - 1e-9, 0.5, p), observed=FLIPS)


def _uniform_mean() -> None:
    pm.Normal("y", pm.Uniform("mu", -100.0, 100.0), 1.0, observed=REAL)


def _student_prior() -> None:
    pm.Normal("y", pm.StudentT("mu", nu=1e6, mu=0, sigma=5), 1.0, observed=REAL)


def _lasso() -> None:
    pm.Normal("y", X @ pm.Laplace("w", 0, 1, shape=3), 1.0, observed=REAL)


def _truncated_normal_prior() -> None:
    pm.Normal("y", pm.TruncatedNormal("mu", 0, 5, lower=-1e3), 1.0, observed=REAL)


ANGLES = np.array([0.4, 1.3, -0.2, 0.9])


def _direction(function: Callable[[Any], Any], **prior: Any) -> Callable[[], Any]:
    """y ~ VonMises(function(μ), 2) with μ ~ VonMises(0, 1)."""

    def body() -> None:
        pm.VonMises("y", function(pm.VonMises("mu", 0.0, 1.0, **prior)), 2.0, observed=ANGLES)

    return body


def _direction_concentration() -> None:
    pm.VonMises("y", pm.VonMises("mu", 0.0, 1.0), pm.Gamma("kappa", 2.0, 1.0), observed=ANGLES)


def _direction_own_concentration() -> None:
    mu = pm.VonMises("mu", 0.0, 1.0)
    pm.VonMises("y", mu, 2 + pt.cos(mu), observed=ANGLES)


def _direction_and_angle() -> None:
    mu = pm.VonMises("mu", 0.0, 1.0)
    pm.VonMises("y", mu + pm.Normal("z", 0.0, 0.5), 2.0, observed=ANGLES)


def _two_directions() -> None:
    mu = pm.VonMises("mu", 0.0, 1.0)
    pm.VonMises("y", mu + pm.VonMises("nu", 0.0, 1.0), 2.0, observed=ANGLES)


def _direction_hierarchy() -> None:
    mu = pm.VonMises("mu", 0.0, 1.0)
    pm.VonMises("y", pm.VonMises("theta", mu, 2.0, shape=4), 2.0, observed=ANGLES)


def _direction_barrier() -> None:
    mu = pm.VonMises("mu", 0.0, 1.0)
    pm.VonMises("y", mu, 2.0, observed=ANGLES)
    pm.Potential("barrier", pt.switch(mu > 3.0, -np.inf, 0.0))


def _direction_of_a_matrix() -> None:
    mu = pm.VonMises("mu", 0.0, 1.0)
    root = pt.linalg.cholesky(mu**2 * np.eye(2))
    pm.VonMises("y", root[0, 0], 2.0, observed=ANGLES)


NEAR_MISSES: tuple[NearMiss, ...] = (
    # a non-linear link
    _miss("logistic regression", _logistic, "a w"),
    _miss("logistic regression with a hierarchy", _logistic_hierarchy, "w"),
    _miss("probit regression", _probit, "w"),
    _miss("log-linear Poisson regression", _poisson_regression, "w"),
    _miss("Poisson, rate = exp(Normal)", lambda: pm.Poisson("y", pt.exp(pm.Normal("mu", 0, 1)), observed=COUNTS), "mu"),
    _miss("ordered logistic", _ordinal, "eta"),
    # a mean that is not affine, near or far from the data
    _miss("mean mu ** 2", _mean(lambda m: m**2), "mu"),
    _miss("mean 1000 sinh(mu / 1000)", _mean(lambda m: 1000 * pt.sinh(m / 1000)), "mu"),
    _miss("mean with a cubic term of 1e-9", _mean(lambda m: m + 1e-9 * m**3), "mu"),
    _miss("mean with a bump at 50", _mean(lambda m: m + pt.exp(-1e4 * (m - 50) ** 2)), "mu"),
    _miss("mean clipped at a million", _mean(lambda m: pt.clip(m, -1e6, 1e6)), "mu"),
    _miss("mean at least -1e6", _mean(lambda m: pt.maximum(m, -1e6)), "mu"),
    _miss("mean that switches at 1e8", _mean(lambda m: pt.switch(m > 1e8, 0.0, m)), "mu"),
    _miss("mean plus an indicator at 1e8", _mean(lambda m: m + (m > 1e8)), "mu"),
    _miss("mean |mu|", _mean(pt.abs), "mu"),
    _miss("mean 1 / mu", _mean(lambda m: 1 / m, initval=1.0), "mu"),
    _miss("mean sqrt(mu ** 2)", _mean(lambda m: pt.sqrt(m**2)), "mu"),
    _miss("mean rounded to 1e-9", _mean(lambda m: pt.round(m * 1e9) / 1e9), "mu"),
    _miss("mean in single precision", _mean(lambda m: pt.cast(m, "float32")), "mu"),
    _miss("mean floor(mu)", _mean(pt.floor), "mu"),
    _miss("square of mu added in place", _mean(lambda m: pt.inc_subtensor((m + pt.zeros(12))[1:], 1e-9 * m**2)), "mu"),
    _miss("mean with the sign of mu", _mean(lambda m: m + pt.sign(m)), "mu"),
    _miss("mean whose curvature has no gradient", _mean(lambda m: m + disconnected_grad(m**2)), "mu"),
    _miss("mean hidden from the gradient", _mean(lambda m: disconnected_grad(m**3)), "mu"),
    _miss(
        "largest of three means",
        lambda: pm.Normal("y", pt.max(pm.Normal("mu", 0, 1, shape=3)), 1.0, observed=REAL),
        "mu",
    ),
    _miss(
        "sorted means", lambda: pm.Normal("y", pt.sort(pm.Normal("mu", 0, 1, shape=3))[GROUP], 1.0, observed=REAL), "mu"
    ),
    _miss("mean ordered by its own argsort", _argsorted, "w"),
    _miss("mean that looks up the largest weight", _looked_up, "w"),
    _miss("mean truncated to an integer far away", _mean(lambda m: m + pt.cast(m / 1e9, "int64")), "mu"),
    _miss("mean by a scan that is not linear", _scanned, "mu"),
    _miss("mean times an indicator", _mean(lambda m: m * (m > -1e9)), "mu"),
    _miss("product of two latents", _product, one_of="a b"),
    _miss("product within one vector", _bilinear, "w"),
    # a likelihood that is not Gaussian
    _miss("Student-t likelihood", _likelihood(pm.StudentT, nu=4, sigma=1.0), "mu"),
    _miss("Student-t likelihood, nearly Gaussian", _likelihood(pm.StudentT, nu=1e8, sigma=1.0), "mu"),
    _miss("Laplace likelihood, unknown location", _likelihood(pm.Laplace, b=1.0), "mu"),
    _miss("Logistic likelihood", _likelihood(pm.Logistic, s=1.0), "mu"),
    _miss("Gumbel likelihood", _likelihood(pm.Gumbel, beta=1.0), "mu"),
    _miss("skew-normal likelihood", _likelihood(pm.SkewNormal, sigma=1.0, alpha=0.1), "mu"),
    _miss("Cauchy likelihood", lambda: pm.Cauchy("y", pm.Normal("mu", 0, 5), 1.0, observed=REAL), "mu"),
    _miss("censored likelihood", _censored, "mu"),
    _miss("truncated likelihood", _truncated, "mu"),
    _miss("truncated Normal likelihood", _likelihood(pm.TruncatedNormal, sigma=1.0, lower=-100.0), "mu"),
    _miss("mixture, unknown means", _mixture_means, "mu"),
    _miss("mixture, unknown weights", _mixture_weights, "w"),
    _miss("zero-inflated Poisson", _zero_inflated, "psi rate"),
    _miss("negative binomial, unknown mean", _negative_binomial_mean, "rate"),
    _miss("Gamma data, unknown shape", _gamma_shape, "shape"),
    _miss("Weibull, unknown shape", _weibull_shape, "shape"),
    _miss("Weibull, Gamma prior on the scale itself", _weibull_scale, "scale"),
    _miss("Pareto, unknown minimum", _pareto_minimum, "m"),
    # a prior of another family
    _miss("truncated Normal prior, far away", _truncated_normal_prior, "mu"),
    _miss("pm.Truncated prior, far away", _truncated_prior, "mu"),
    _miss("Uniform prior on a mean", _uniform_mean, "mu"),
    _miss("Student-t prior, nearly Gaussian", _student_prior, "mu"),
    _miss("Laplace prior", _lasso, "w"),
    _miss("horseshoe scale", _horseshoe, "tau", eliminated="w"),
    _miss("Flat prior moved by a log transform", _flat, "mu"),
    _miss("ICAR field behind counts", _intrinsic_counts, "field"),
    _miss("HalfFlat prior", _half_flat, "rate"),
    _miss("CustomDist prior", _custom_prior, "mu"),
    _miss("ZeroSumNormal", _zero_sum, "effect"),
    _miss("ordered Normal vector", _ordered_means, "mu"),
    _miss("Normal moved by a log transform", _positive_by_transform, "mu"),
    _miss("Gamma moved by an interval transform", _bounded_rate, "rate"),
    _miss("LKJ covariance", _lkj, "chol"),
    _miss("LogNormal prior on a rate", lambda: pm.Poisson("y", pm.LogNormal("rate", 0, 1), observed=COUNTS), "rate"),
    _miss("Uniform(0, 5) prior on a rate", lambda: pm.Poisson("y", pm.Uniform("rate", 0, 5), observed=COUNTS), "rate"),
    _miss("HalfNormal prior on a rate", lambda: pm.Poisson("y", pm.HalfNormal("rate", 5), observed=COUNTS), "rate"),
    _miss("Uniform(0, 0.5) prior on a probability", _scaled_uniform, "p"),
    _miss("Uniform(0, 1 - 1e-6) prior on a probability", _almost_unit_uniform, "p"),
    _miss(
        "Kumaraswamy prior on a probability",
        lambda: pm.Bernoulli("y", pm.Kumaraswamy("p", 2.0, 3.0), observed=FLIPS),
        "p",
    ),
    # a scale whose prior is not conjugate
    _miss("HalfNormal prior on the sd", _scale(lambda: pm.HalfNormal("sigma", 1)), "sigma", eliminated="mu"),
    _miss("HalfCauchy prior on the sd", _scale(lambda: pm.HalfCauchy("sigma", 1)), "sigma", eliminated="mu"),
    _miss("Gamma prior on the sd", _scale(lambda: pm.Gamma("sigma", 2, 1)), "sigma", eliminated="mu"),
    _miss("InverseGamma prior on the sd", _scale(lambda: pm.InverseGamma("sigma", 3, 2)), "sigma", eliminated="mu"),
    _miss("LogNormal prior on the sd", _scale(lambda: pm.LogNormal("sigma", 0, 1)), "sigma", eliminated="mu"),
    _miss("Uniform prior on the variance", _known_mean(lambda: pm.Uniform("v", 0, 50), sigma=pt.sqrt), "v"),
    _miss("Gamma prior on the variance", _known_mean(lambda: pm.Gamma("v", 2, 1), sigma=pt.sqrt), "v"),
    _miss(
        "InverseGamma prior on the precision", _known_mean(lambda: pm.InverseGamma("tau", 3, 2), tau=lambda t: t), "tau"
    ),
    _miss(
        "truncated Gamma prior on the precision",
        _known_mean(lambda: pm.Truncated("tau", pm.Gamma.dist(2, 1), upper=1e3), tau=lambda t: t),
        "tau",
    ),
    _miss("variance v + 1", _known_mean(lambda: pm.InverseGamma("v", 3, 2), sigma=lambda v: pt.sqrt(v + 1)), "v"),
    _miss("variance v + 1e-7", _known_mean(lambda: pm.InverseGamma("v", 3, 2), sigma=lambda v: pt.sqrt(v + 1e-7)), "v"),
    _miss("precision tau ** 1.01", _known_mean(lambda: pm.Gamma("tau", 3, 2), tau=lambda t: t**1.01), "tau"),
    _miss("prior of the mean not scaled, variance", _semi_conjugate, "v", eliminated="mu"),
    _miss("prior of the weights not scaled, precision", _semi_conjugate_precision, "tau", eliminated="w"),
    _miss("variances between and within groups", _two_scales, "between within", eliminated="mu"),
    _miss("variance component", _variance_component, "v", eliminated="centre mu"),
    _miss("mean that holds the sd", _mean_holds_sd, "v", eliminated="mu"),
    _miss("prior mean that holds the variance", _mean_holds_variance, "v", eliminated="mu"),
    _miss("noise exp(gamma x)", _heteroscedastic, "gamma", eliminated="w"),
    _miss("sd that holds the mean", _mean_in_the_sd, "mu"),
    _miss("sd that barely holds the mean", _mean_in_the_sd_barely, "mu"),
    _miss("AR with unknown coefficient and unseen states", _autoregression_unknown, one_of="rho state"),
    _miss("AR with unknown innovation sd", _autoregression_noise, "sigma", eliminated="state"),
    _miss("GP with unknown length scale", _gp_length_scale, "length", eliminated="f"),
    _miss("Wishart plus the identity", _wishart_plus, "W"),
    _miss("Wishart as the covariance", _wishart_as_covariance, "W"),
    _miss("Wishart, prior of the mean not scaled", _wishart_unscaled_mean, "W", eliminated="mu"),
    _miss("unknown correlation", _correlation, "rho"),
    _miss("covariance that holds the mean", _covariance_holds_mean, "mu"),
    _miss("sd 1 / sqrt(tau) + 1e-9", _known_mean(lambda: pm.Gamma("tau", 3, 2), sigma=lambda t: t**-0.5 + 1e-9), "tau"),
    _miss("smallest of three variances", _smallest_variance, "v"),
    _miss("Wishart that switches far away", _wishart_switch, "W"),
    _miss("Wishart, precision of the mean switches far away", _normal_wishart_switch, "W", eliminated="mu"),
    # a parameter that enters in another way than the family's
    _miss("Poisson rate with a background", _rate(lambda r: r + 0.5), "rate"),
    _miss("Poisson rate with a background of 1e-6", _rate(lambda r: r + 1e-6), "rate"),
    _miss("Poisson rate squared", _rate(lambda r: r**2), "rate"),
    _miss("Poisson rate times exp(1e-9 rate)", _rate(lambda r: r * pt.exp(1e-9 * r)), "rate"),
    _miss("Poisson rate to the power 1 + 1e-9", _rate(lambda r: r ** (1 + 1e-9)), "rate"),
    _miss("Poisson rate at least 1e-12", _rate(lambda r: pt.maximum(r, 1e-12)), "rate"),
    _miss("Poisson rate at most 1e6", _rate(lambda r: pt.minimum(r, 1e6)), "rate"),
    _miss("Poisson rate hidden from the gradient", _rate(lambda r: r + disconnected_grad(r**2)), "rate"),
    _miss("sum of two Gamma rates", _sum_of_rates, "signal background"),
    _miss("sum of a vector of Gamma rates", _sum_within, "rate"),
    _miss("Exponential data, square root of the rate", _exponential_root, "rate"),
    _miss("Bernoulli, 0.05 + 0.9 p", _probability(lambda p: 0.05 + 0.9 * p), "p"),
    # Only successes, so that log(1 − 2p) never shows: what cuts the support is PyMC's check that 2p ≤ 1.
    _miss("Bernoulli, 2 p, successes only", _probability_of_successes(lambda p: 2 * p), "p"),
    _miss("mean asserted to be positive", _mean(lambda m: Assert("mean must be positive")(m, m > -100)), "mu"),
    _miss("Bernoulli, p squared", _probability(lambda p: p**2), "p"),
    _miss("Bernoulli, p clipped at 1e-9", _probability(lambda p: pt.clip(p, 1e-9, 1 - 1e-9)), "p"),
    _miss("Bernoulli, logistic of p", _probability(pt.sigmoid), "p"),
    _miss("Bernoulli, a look-up near one", _one_trial_mixed, "p"),
    _miss("Dirichlet through a confusion matrix", _confusion, "theta"),
    _miss("Dirichlet, categories added", _aggregated, "theta"),
    _miss("Dirichlet, sharpened", _sharpened, "theta"),
    # hyper-parameters
    _miss("Beta with unknown shape", _beta_shape, "alpha", eliminated="p"),
    _miss("Gamma with unknown rate", _gamma_hyper_rate, "b", eliminated="rate"),
    _miss("Dirichlet with unknown concentration", _dirichlet_concentration, "a", eliminated="theta"),
    # directions
    _miss("direction of unknown concentration", _direction_concentration, "kappa", eliminated="mu"),
    _miss("direction that is its own concentration", _direction_own_concentration, "mu"),
    _miss("direction and an unknown angle", _direction_and_angle, "z", eliminated="mu"),
    _miss("two directions added", _two_directions, one_of="mu nu"),
    _miss("direction of directions", _direction_hierarchy, "mu", eliminated="theta"),
    _miss("direction 2 mu", _direction(lambda m: 2 * m), "mu"),
    _miss("direction mu / 2", _direction(lambda m: m / 2), "mu"),
    _miss("direction 1.000001 mu", _direction(lambda m: 1.000001 * m), "mu"),
    _miss("direction |mu|", _direction(pt.abs), "mu"),
    _miss("direction sqrt(mu ** 2)", _direction(lambda m: pt.sqrt(m**2)), "mu"),
    _miss("direction (mu ** 2) ** 0.5", _direction(lambda m: (m**2) ** 0.5), "mu"),
    _miss("direction exp(log(mu ** 2) / 2)", _direction(lambda m: pt.exp(pt.log(m**2) / 2)), "mu"),
    _miss("direction (mu ** 2) ** 0.5 by a factor", _direction_of_a_matrix, "mu"),
    _miss("direction through a Deterministic tanh", _direction(lambda m: pm.Deterministic("bent", pt.tanh(m))), "mu"),
    _miss("direction that is at most 3", _direction(lambda m: pt.minimum(m, 3.0)), "mu"),
    _miss("direction with a barrier", _direction_barrier, "mu"),
    _miss("direction cut off", _direction(lambda m: m, default_transform=Interval(-1.0, 1.0)), "mu"),
    _miss(
        "direction of half the circle", lambda: pm.VonMises("y", pm.Uniform("mu", 0, np.pi), 2.0, observed=ANGLES), "mu"
    ),
    _miss(
        "direction as the mean of a Normal",
        lambda: pm.Normal("y", pm.VonMises("mu", 0.0, 1.0), 1.0, observed=REAL),
        "mu",
    ),
    _miss(
        "cosine as the mean of a Normal",
        lambda: pm.Normal("y", pt.cos(pm.VonMises("mu", 0.0, 1.0)), 1.0, observed=REAL),
        "mu",
    ),
    # discrete variables
    _miss("mixture by labels, unknown weights", _labels, one_of="w z"),
    _miss("unbounded count under a Normal", _count_latent, "k"),
    _miss("unknown number of trials", _trials_unknown, "n"),
    # Potentials
    _miss("a barrier on a probability", _probability_barrier, "p"),
    _miss("a barrier on a rate hidden in an index", _rate_barrier, "rate"),
    _miss("a quadratic Potential on a simplex", _simplex_potential, "theta"),
    _miss("a barrier far away", _potential_barrier, "mu"),
    # A sum is not the terms it is made of: these cancel only where the two are confused.
    _miss(
        "a rate squared less its own sum", _potential_on_rate(lambda r: WEIGHTS * r**2 - (WEIGHTS * r**2).sum()), "rate"
    ),
    _miss("a rate squared less three times it", _potential_on_rate(lambda r: r**2 - (np.ones(3) * r**2).sum()), "rate"),
    _miss("a sum of reciprocals", _potential_on_rate(lambda r: -(WEIGHTS + r) * r * (1 / (WEIGHTS + r)).sum()), "rate"),
    # √(x²) is |x|, also where it is written ½ log x².
    _miss("a kink in half a logarithm", _potential_on_rate(lambda r: -pt.exp(0.5 * pt.log((r - 3.0) ** 2))), "rate"),
    _miss(
        "roots of powers of either sign",
        _potential_on_rate(lambda r: EITHER_SIGN * r**2 - ((EITHER_SIGN * r**2) ** 4) ** 0.25),
        "rate",
    ),
    _miss("a quartic Potential of 1e-12", _potential_quartic, "mu"),
)
