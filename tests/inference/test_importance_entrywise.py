"""Item response: more shared numbers than quadrature is for, given which abilities are integrated one by one.

Against marginal likelihoods by Gauss and Hermite's rule, written out in NumPy, under Sobol points of a Student t.
"""

from __future__ import annotations

import functools

import numpy as np
import pymc as pm
import pytest
from scipy import optimize, special, stats
from scipy.stats import qmc

import bayeskit as bk
from bayeskit.elimination.entrywise import with_plates
from bayeskit.elimination.plan import analyse
from bayeskit.inference import importance_entrywise
from bayeskit.results.records import Posterior

pytestmark = pytest.mark.slow("one inference")

R = np.random.default_rng(12)
PERSONS, ITEMS = 40, 4
DIFFICULTY = np.array([-1.2, -0.4, 0.4, 1.2])
ANSWERS = R.binomial(1, special.expit(1.2 * R.normal(size=(PERSONS, 1)) - DIFFICULTY))


def item_response() -> pm.Model:
    with pm.Model() as model:
        sd, difficulty = pm.LogNormal("sd", 0, 0.3), pm.Normal("difficulty", 0, 1, shape=ITEMS)
        ability = pm.Normal("ability", 0, sd, shape=PERSONS)
        pm.Bernoulli("y", logit_p=ability[:, None] - difficulty, observed=ANSWERS)
    return model


@functools.cache
def answered() -> Posterior:
    return bk.infer(item_response(), draws=1_000, random_seed=3)


NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(25)
PATTERNS, COUNTS = np.unique(ANSWERS, axis=0, return_counts=True)


def log_joint(x: np.ndarray) -> np.ndarray:
    """Of log sd and difficulties, (N, 5): a table of patterns of answers by nodes."""
    sd, difficulty = np.exp(x[:, 0]), x[:, 1:]
    logit = sd[:, None, None] * NODES[:, None] - difficulty[:, None]  # (N, K, items)
    right, wrong = special.log_expit(logit), special.log_expit(-logit)
    table = right @ PATTERNS.T + wrong @ (1 - PATTERNS).T  # (N, K, patterns)
    likelihood = special.logsumexp(table, b=(WEIGHTS / WEIGHTS.sum())[:, None], axis=1) @ COUNTS
    prior = stats.norm.logpdf(x[:, 0], 0, 0.3) + stats.norm.logpdf(difficulty, 0, 1).sum(axis=1)
    return np.asarray(likelihood + prior)


@functools.cache
def known() -> tuple[float, float, np.ndarray, np.ndarray]:
    """Log evidence with its standard error, and mean and sd of sd and the difficulties."""
    start = np.r_[0.0, DIFFICULTY]
    mode = optimize.minimize(lambda x: -log_joint(x[None])[0], start, method="BFGS", options={"gtol": 1e-3})
    root, degrees, size = np.linalg.cholesky(np.asarray(mode.hess_inv)), 7.0, ITEMS + 1
    values, points, logs = [], [], []
    for k in range(8):
        u = qmc.Sobol(size + 1, seed=k).random(2**10)
        normal = special.ndtri(u[:, :size])
        t = normal / np.sqrt(stats.chi2.ppf(u[:, -1:], degrees) / degrees)
        x = mode.x + t @ root.T
        log_w = log_joint(x) - stats.multivariate_t.logpdf(x, mode.x, root @ root.T, degrees)
        values.append(special.logsumexp(log_w) - np.log(len(x)))
        points.append(np.c_[np.exp(x[:, :1]), x[:, 1:]])
        logs.append(log_w)
    x, w = np.concatenate(points), special.softmax(np.concatenate(logs))
    mean = w @ x
    error = float(np.std(np.exp(np.asarray(values) - np.max(values)), ddof=1) / np.sqrt(8))
    return float(special.logsumexp(values) - np.log(8)), error, mean, np.sqrt(w @ (x - mean) ** 2)


def test_evidence() -> None:
    value, error, _, _ = known()
    evidence = answered().log_evidence
    assert evidence.label == "estimated"
    assert evidence.error < 5e-3
    assert abs(evidence.value - value) < 4 * np.hypot(evidence.error, error)


def test_what_remains() -> None:
    """Its moments, in standard errors of independent draws."""
    _, _, mean, sd = known()
    draws = answered().tree["posterior"].to_dataset()
    found = np.c_[draws["sd"].to_numpy().ravel(), draws["difficulty"].to_numpy().reshape(-1, ITEMS)]
    number = len(found)
    assert np.all(np.abs(found.mean(axis=0) - mean) < 4.5 * sd / np.sqrt(number))
    np.testing.assert_allclose(found.std(axis=0), sd, rtol=4.5 * np.sqrt(1.0 / number))


def test_abilities_given_what_remains() -> None:
    """Each mean under the same draws of what remains, by Gauss and Hermite's rule."""
    draws = answered().tree["posterior"].to_dataset()
    sd, difficulty = draws["sd"].to_numpy().ravel(), draws["difficulty"].to_numpy().reshape(-1, ITEMS)
    b = sd[:, None] * NODES
    logit = b[:, :, None] - difficulty[:, None]
    table = special.log_expit(logit) @ ANSWERS.T + special.log_expit(-logit) @ (1 - ANSWERS).T
    w = np.exp(table - table.max(axis=1, keepdims=True)) * WEIGHTS[:, None]
    w /= w.sum(axis=1, keepdims=True)
    mean = np.einsum("nk,nkp->np", b, w)
    spread = np.sqrt(np.einsum("nk,nkp->np", b**2, w) - mean**2)
    z = (draws["ability"].to_numpy().reshape(-1, PERSONS) - mean) / spread
    assert np.max(np.abs(z.mean(axis=0))) < 4.5 / np.sqrt(len(z))
    np.testing.assert_allclose(z.std(axis=0), 1.0, atol=0.12)


def test_the_plan_says_which_way() -> None:
    post = answered()
    assert post.method == "importance"
    assert "integrated one by one" in post.account
    assert post.plan.remaining == ("sd", "difficulty")


def test_many_rows_are_left_to_other_methods() -> None:
    group, x = R.integers(50, size=9_000), R.normal(size=(9_000, 4))
    with pm.Model() as model:
        w, sd = pm.Normal("w", 0, 1, shape=4), pm.HalfNormal("sd", 1)
        effect = pm.Normal("effect", 0, sd, shape=50)
        pm.Bernoulli("y", logit_p=x @ w + effect[group], observed=R.integers(2, size=9_000))
    found = with_plates(analyse(model))
    assert found is not None and not importance_entrywise.obstacle(found)
    assert importance_entrywise.too_dear(found) == "the integrals over single entries would take too long"


def test_it_is_for_models_with_such_entries() -> None:
    with pm.Model() as model:
        w = pm.Normal("w", 0, 1, shape=5)
        pm.Poisson("y", pm.math.exp(w.sum()), observed=[1, 2])
    assert "no variable has entries that can be integrated one by one" in importance_entrywise.obstacle(analyse(model))
