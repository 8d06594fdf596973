"""Rows of a factor that recur are one with a weight: the same sums, and the same integrals over the entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import special, stats

import bayeskit as bk
from bayeskit.elimination.plan import analyse
from bayeskit.model.data_slots import with_slots
from bayeskit.model.log_joint import LogJoint
from bayeskit.plates.entry_terms import entry_factors
from bayeskit.plates.integrate_out import integrate_out
from bayeskit.plates.merged_rows import EntryFunctionRows, with_exponentials_merged
from bayeskit.plates.recurring_rows import each_row_once

N, GROUPS = 1_200, 6
RNG = np.random.default_rng(11)
GROUP = RNG.integers(0, GROUPS, N)
FLAGS = RNG.integers(0, 2, (N, 2)).astype(float)
YES = RNG.integers(0, 2, N)
COUNTS = RNG.poisson(1.0, N)
REAL = RNG.normal(size=N)


def answers() -> None:
    effect = pm.Normal("effect", pm.Normal("mu"), pm.HalfNormal("tau"), shape=GROUPS)
    pm.Bernoulli("y", logit_p=effect[GROUP] + FLAGS @ pm.Normal("w", shape=2), observed=YES)


def answers_by_names() -> None:
    """Of a variable with dims PyTensor does not know the length."""
    effect = pm.Normal("effect", 0.0, pm.HalfNormal("tau"), dims="group")
    pm.Bernoulli("y", logit_p=effect[GROUP], observed=YES)


def ordered_answers() -> None:
    """Each row picks one of three probabilities."""
    effect = pm.Normal("effect", 0.0, pm.HalfNormal("tau"), dims="group")
    cuts = pm.Normal("cuts", shape=2, transform=pm.distributions.transforms.ordered, initval=[-1.0, 1.0])
    pm.OrderedLogistic("y", effect[GROUP] + pm.Normal("w") * FLAGS[:, 0], cuts, observed=np.minimum(COUNTS, 2))


def counts() -> None:
    effect = pm.Normal("effect", 0.0, pm.HalfNormal("tau"), shape=GROUPS)
    pm.Poisson("y", pt.exp(effect[GROUP] + pm.Normal("w") * FLAGS[:, 0]), observed=COUNTS)


def counts_by_a_slope() -> None:
    slope = pm.Normal("effect", 0.0, pm.HalfNormal("tau"), shape=GROUPS)
    pm.Poisson("y", pt.exp(pm.Normal("mu") + slope[GROUP] * FLAGS[:, 0]), observed=COUNTS)


def different_rows() -> None:
    effect = pm.Normal("effect", 0.0, pm.HalfNormal("tau"), shape=GROUPS)
    pm.Bernoulli("y", logit_p=effect[GROUP] + pm.Normal("w") * REAL, observed=YES)


def factor_of(write: Callable[[], Any], *, exchangeable: bool = False) -> tuple[LogJoint, Any, Any]:
    with pm.Model(coords={"group": [f"group {k}" for k in range(GROUPS)]}) as model:
        write()
    if exchangeable:
        model, _ = with_slots(model)
    joint = LogJoint.from_model(model)
    shapes = joint.shapes()
    known = {v: shapes[n] for n, v in joint.values.items() if n != "effect"}
    (graph,) = entry_factors(joint, ["y"])
    return joint, graph, each_row_once(graph, joint.values["effect"], (GROUPS,), known)


@pytest.mark.parametrize(
    "write", [answers, answers_by_names, ordered_answers, counts, counts_by_a_slope], ids=lambda f: f.__name__
)
def test_each_entry_has_the_same_sum(write: Callable[[], None]) -> None:
    joint, graph, once = factor_of(write)
    assert once is not graph
    assert once.type.shape[0] * 4 <= N
    inputs = list(joint.values.values())
    effect = joint.values["effect"]
    sums = [pt.sum(g) for g in (graph, once)]
    function = pytensor.function(
        inputs, [*sums, *(pytensor.grad(s, effect) for s in sums)], mode="FAST_COMPILE", on_unused_input="ignore"
    )
    rng, shapes = np.random.default_rng(1), joint.shapes()
    for _ in range(3):
        found = function(*[np.sort(rng.normal(size=shapes[n]), axis=None).reshape(shapes[n]) for n in joint.values])
        assert found[0] == pytest.approx(found[1], rel=1e-12)
        np.testing.assert_allclose(found[2], found[3], rtol=1e-11)  # of each entry by itself


def test_rows_that_are_different_are_left() -> None:
    _, graph, once = factor_of(different_rows)
    assert once is graph


def test_of_data_that_may_be_exchanged_nothing_is_known() -> None:
    _, graph, once = factor_of(counts, exchangeable=True)
    assert once is graph


def test_the_evidence_of_counts_in_groups() -> None:
    """Against trapezoids over w and log tau, and Gauss–Hermite over each group's effect, of SciPy's densities."""
    with pm.Model() as model:
        counts()
    nodes, weights = special.roots_hermitenorm(301)
    w, s = np.meshgrid(np.linspace(-0.6, 0.6, 81), np.linspace(-18.0, 2.0, 201), indexing="ij")
    effect = np.exp(s)[..., None] * nodes
    total = stats.norm.logpdf(w) + stats.halfnorm.logpdf(np.exp(s)) + s
    for group in range(GROUPS):
        value = np.zeros(effect.shape)
        for flag in (0.0, 1.0):
            y = COUNTS[(group == GROUP) & (FLAGS[:, 0] == flag)]
            rate = effect + w[..., None] * flag
            value += y.sum() * rate - len(y) * np.exp(rate) - special.gammaln(y + 1).sum()
        total = total + special.logsumexp(value, b=weights / np.sqrt(2 * np.pi), axis=-1)
    truth = special.logsumexp(total) + np.log((w[1, 0] - w[0, 0]) * (s[0, 1] - s[0, 0]))
    post = bk.infer(model, draws=50, random_seed=1)
    assert post.method == "quadrature"
    assert abs(post.log_evidence.value - truth) <= post.log_evidence.error + 1e-5


def of_entries(rows: EntryFunctionRows, t: np.ndarray) -> np.ndarray:
    """Σ w exp(a + s t), or w log(1 + exp(a + s t)), of each entry, for each φ."""
    offsets, slopes, weights, grows, entries = rows
    x = offsets + slopes * t[entries]
    values = weights * np.where(grows, np.exp(x), np.logaddexp(0.0, x))
    return np.array([[value[entries == g].sum() for g in range(GROUPS)] for value in values])


@pytest.mark.parametrize("slopes_of", ["ones", "two of them", "each φ its own"])
@pytest.mark.parametrize("weighted", [False, True])
def test_exponentials_of_one_slope_are_one(slopes_of: str, weighted: bool) -> None:
    rng, number, size = np.random.default_rng(2), 3, 60
    entries = np.sort(rng.integers(0, GROUPS, size))
    grows = rng.random(size) < 0.7
    slopes = {
        "ones": np.ones((1, size)),
        "two of them": rng.choice([1.0, -0.5], size=(1, size)),
        "each φ its own": np.tile([[0.3], [2.0], [1e-6]], size),
    }[slopes_of]
    weights = rng.integers(0, 3, (number, size)).astype(float) if weighted else np.ones((1, size))
    rows = rng.normal(scale=3.0, size=(number, size)), slopes, weights, grows, entries
    merged = with_exponentials_merged(rows)
    most = 2 if slopes_of == "two of them" else 1
    assert np.count_nonzero(merged[3]) <= most * GROUPS
    assert np.count_nonzero(~merged[3]) == np.count_nonzero(~grows)
    assert np.all(np.diff(merged[4]) >= 0)
    t = rng.normal(size=GROUPS)
    np.testing.assert_allclose(of_entries(merged, t), of_entries(rows, t), rtol=1e-12)


def test_exponentials_beyond_numbers_are_merged() -> None:
    rows = np.array([[900.0, 901.0, -800.0]]), np.ones((1, 3)), np.ones((1, 3)), np.ones(3, bool), np.zeros(3, int)
    offsets, *_ = with_exponentials_merged(rows)
    np.testing.assert_allclose(offsets, [[901.0 + np.log1p(np.exp(-1.0))]], rtol=1e-15)


def test_a_negative_weight_is_seen() -> None:
    """It is no concave density, which its caller looks for."""
    weights = np.array([[1.0, -1.0]])
    rows = np.zeros((1, 2)), np.ones((1, 2)), weights, np.ones(2, bool), np.zeros(2, int)
    offsets, _, merged, *_ = with_exponentials_merged(rows)
    assert np.isnan(offsets).any() or (merged < 0).any()


def test_errors_of_many_entries_do_not_add_up() -> None:
    """Two sums that agree to 1e-5 leave 5e-8 each of these integrals, and 2,000 of them were refused as not smooth."""
    rng = np.random.default_rng(8)
    exposure = rng.gamma(1.0, 10.0, 2_000).round() + 1.0
    y = rng.poisson(exposure * np.exp(rng.normal(0.3, 0.8, 2_000)))
    with pm.Model() as model:
        mu, sd = pm.Normal("mu"), pm.Exponential("sd", 1.0)
        pm.Poisson("y", exposure * pt.exp(pm.Normal("effect", mu, sd, shape=2_000)), observed=y)
    joint = LogJoint.from_model(model)
    support = analyse(model).supports["effect"]
    _, plate = integrate_out(joint, "effect", joint.shapes(), support)
    rule = np.linspace(-9.0, 9.0, 4_001)
    for mean, scale in ((0.3912, 1.3286), (0.0, 0.5), (-1.0, 2.0)):
        given = {"mu": mean, "sd": scale}
        found = plate.log_integrals([np.array([given[n]]) for n in plate.given], 1)[0]
        effect = mean + scale * rule
        log_terms = y[:, None] * (np.log(exposure)[:, None] + effect) - exposure[:, None] * np.exp(effect)
        log_terms += stats.norm.logpdf(rule) - special.gammaln(y + 1)[:, None]
        truth = special.logsumexp(log_terms, axis=1) + np.log(rule[1] - rule[0])
        assert np.sum(np.abs(found - truth)) < 1e-6
