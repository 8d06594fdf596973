"""An analysis given other data answers as one of a model built with them; where its proof needs values, it says so."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytest
from cases import CASES
from numpy.testing import assert_allclose
from table.case import Case

import bayeskit as bk
from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.plan import analyse
from bayeskit.errors import BayeskitError, DataError
from bayeskit.graphs.compile import compile_small, small_mode
from bayeskit.graphs.environment import lightly
from bayeskit.inference.ladder import answer
from bayeskit.model.data_slots import DataRead, DataSlot, sealed, with_constants, with_slots

LARGE = 10_000
SMALL_MODE = small_mode()  # one for all: its rewriters remember what they apply to
# The number of particles, or a matrix, is read off the data's precision: these are found anew.
ANEW = ("normal wishart", "normal inverse gamma: independent groups, dims")


def found(model: pm.Model) -> Analysis:
    with lightly():
        return analyse(model)


def prior_predictive(model: pm.Model, seed: int) -> dict[str, np.ndarray]:
    """Values of the observed variables, of the shapes that they have."""
    drawn = pm.draw(list(model.observed_RVs), random_seed=seed, mode=SMALL_MODE)
    return {str(rv.name): np.asarray(v) for rv, v in zip(model.observed_RVs, drawn, strict=True)}


def outcome(source: Analysis | pm.Model) -> tuple[bk.Posterior | None, str]:
    try:
        return answer(source, method="exact", draws=4, random_seed=1), ""
    except BayeskitError as error:
        return None, type(error).__name__


def assert_same(source: Analysis, fresh: pm.Model | Analysis) -> None:
    (one, failed), (two, expected) = outcome(source), outcome(fresh)
    assert failed == expected
    if one is None or two is None:
        return
    size = max(1.0, abs(two.log_evidence.value))
    assert abs(one.log_evidence.value - two.log_evidence.value) < 1e-11 * size
    for name, values in two.tree["posterior"].data_vars.items():
        again, values = one.tree["posterior"][name].to_numpy(), values.to_numpy()
        assert_allclose(again, values, rtol=1e-7, atol=1e-9 * np.max(np.abs(values), initial=0.0))


def rebuilt(source: Analysis) -> pm.Model:
    """A model of the data of an analysis."""
    assert source.snapshot is not None
    with source.snapshot.restored():
        return with_constants(source.snapshot.model)


# Of each family the first, every third, and all that read more than their observations: each is analysed three times.
READS_MORE = ("pm.Data", "index", "missing", "group")
FIRST = {c.family: c for c in reversed(CASES)}.values()
CHOSEN = [
    c
    for k, c in enumerate(CASES)
    if "a million rows" not in c.name and (k % 3 == 0 or c in FIRST or any(word in c.name for word in READS_MORE))
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CHOSEN, ids=[c.name for c in CHOSEN])
def test_other_data_of_a_case(case: Case) -> None:
    model = case.build()
    analysis = found(model)
    slots = with_slots(model)[1]
    drawn = {n: v for n, v in prior_predictive(model, 3).items() if n in slots}
    other = {n: v for n, v in drawn.items() if np.all(np.isfinite(v))}
    if case.name.startswith(ANEW):
        assert analysis.used_values
    else:
        assert not set(other) & set(analysis.used_values)
    given = analysis.with_data(other)
    if given.snapshot is not None:
        assert_same(given, rebuilt(given))
        # And back again: nothing of the others stays.
        assert_same(given.with_data(values_of(model)), analysis)


def values_of(model: pm.Model) -> dict[str, Any]:
    return {n: slot.get_value() for n, slot in with_slots(model)[1].items()}


def coin(y: int, n: Any = 10) -> pm.Model:
    with pm.Model() as model:
        theta = pm.Beta("theta", 2.0, 3.0)
        pm.Binomial("y", pm.Data("n", n), theta, observed=y)
    return model


@pytest.mark.slow
@pytest.mark.parametrize(("y", "n"), [(0, 10), (10, 10), (3, 10), (7, 12), (0, 0), (5, 4)])
def test_counts_on_the_edge_and_other_numbers_of_trials(y: int, n: int) -> None:
    given = found(coin(4)).with_data({"y": y, "n": n})
    assert_same(given, coin(y, n))


@pytest.mark.slow
def test_facts_that_a_proof_asked_for_are_asked_again() -> None:
    analysis = found(coin(4))
    for y in (0, 3, 10, 0, 7, 10):
        assert_same(analysis.with_data({"y": y}), coin(y))


def rates(group: list[int], y: list[int]) -> pm.Model:
    with pm.Model() as model:
        index = pm.Data("group", group)
        rate = pm.Gamma("rate", 2.0, 1.0, shape=3)
        pm.Poisson("y", rate[index], observed=y)
    return model


@pytest.mark.slow
@pytest.mark.parametrize(("group", "y"), [([0, 1, 2, 1], [0, 0, 0, 0]), ([2, 2, 2, 2], [3, 1, 0, 5])])
def test_index_arrays_are_data(group: list[int], y: list[int]) -> None:
    given = found(rates([0, 0, 1, 2], [3, 1, 4, 1])).with_data({"group": group, "y": y})
    assert_same(given, rates(group, y))


def variances(group: list[int]) -> pm.Model:
    with pm.Model() as model:
        index = pm.Data("group", group)
        precision = pm.Gamma("precision", 2.0, 1.0, shape=2)
        mu = pm.Normal("mu", 0.0, 1.0 / pm.math.sqrt(precision[index]), shape=3)
        pm.Normal("y", mu, 1.0 / pm.math.sqrt(precision[index]), observed=[0.5, -1.0, 2.0])
    return model


def test_a_structure_that_was_read_off_the_values_is_found_anew() -> None:
    analysis = found(variances([0, 0, 1]))
    assert "group" in analysis.used_values
    for group in ([1, 0, 1], [0, 0, 0]):
        given = analysis.with_data({"group": group})
        assert given.snapshot is None
        assert_same(given, variances(group))


def test_data_that_no_proof_read_are_exchanged_beside_some_that_one_did() -> None:
    (case,) = [c for c in CASES if "transition matrix of an observed chain" in c.name]
    analysis = found(case.build())
    assert set(analysis.used_values) == {"before"}
    same = values_of(case.build())["before"]
    assert analysis.with_data({"y": values_of(case.build())["y"][::-1].copy(), "before": same}).snapshot is not None
    assert analysis.with_data({"before": same[::-1].copy()}).snapshot is None


def test_a_chain_of_data_keeps_what_was_given_before() -> None:
    given = found(coin(4)).with_data({"n": 20}).with_data({"y": 0}).with_data({"y": 15})
    assert_same(given, coin(15, 20))


def test_a_posterior_of_other_data_answers_with_them() -> None:
    x, y = np.linspace(-1.0, 1.0, 8), np.linspace(0.0, 3.0, 8)

    def line(x: Any, y: Any) -> pm.Model:
        with pm.Model() as model:
            design = pm.Data("x", x)
            w = pm.Normal("w", 0.0, 3.0, shape=2)
            pm.Normal("y", w[0] + w[1] * design, 0.5, observed=y, shape=design.shape)
        return model

    analysis = found(line(x, y))
    one = bk.infer(analysis.with_data({"x": x**2, "y": -y}), draws=100, random_seed=2)
    two = bk.infer(analysis.with_data({"y": y + 5.0}), draws=100, random_seed=2)
    for post, fresh in ((one, line(x**2, -y)), (two, line(x, y + 5.0))):
        expected = bk.infer(fresh, draws=100, random_seed=2)
        np.testing.assert_array_equal(post.tree["observed_data"]["y"], expected.tree["observed_data"]["y"])
        for new in ({}, {"x": [0.0, 9.0]}):
            drawn, again = (p.predict(new, random_seed=5)["y"] for p in (post, expected))
            assert_allclose(drawn, again, rtol=1e-9)
        assert post.summary().round(8).equals(expected.summary().round(8))


def test_without_draws_the_evidence_its_proof_and_the_marginals_are_there() -> None:
    post = answer(found(coin(4)).with_data({"y": 6}))
    assert post.log_evidence.label == "exact"
    assert post.certificate < 1e-9
    assert post.marginal("theta").mean() == pytest.approx((2 + 6) / (5 + 10), rel=1e-12)
    assert not post.tree.children


def schools(y: Any) -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 5.0)
        tau = pm.HalfCauchy("tau", 5.0)
        theta = pm.Normal("theta", mu, tau, shape=8)
        pm.Normal("y", theta, np.array([15.0, 10, 16, 11, 9, 11, 10, 18]), observed=y)
    return model


@pytest.mark.slow
def test_what_remains_is_integrated_with_the_other_data() -> None:
    analysis = found(schools(np.array([28.0, 8, -3, 7, -1, 1, 18, 12])))
    assert not analysis.used_values
    for seed in range(2):
        y = np.random.default_rng(seed).normal(0.0, 12.0, size=8)
        one, two = (answer(source, random_seed=1) for source in (analysis.with_data({"y": y}), schools(y)))
        assert one.method == two.method == "quadrature"
        assert abs(one.log_evidence.value - two.log_evidence.value) < 1e-11 * abs(two.log_evidence.value)
        for name in ("mu", "tau", "theta"):
            assert_allclose(one.marginal(name).mean(), two.marginal(name).mean(), rtol=1e-9)


def measured(y: Any, error: Any) -> pm.Model:
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 5.0)
        theta = pm.Normal("theta", pm.Normal("mu", 0.0, 5.0), tau, shape=4)
        pm.Normal("y", theta, pm.Data("error", error), observed=y)
    return model


def slope(y: Any, x: Any) -> pm.Model:
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 2.0)
        w = pm.Normal("w", 0.0, scale, shape=2)
        pm.Normal("y", w[0] + w[1] * pm.Data("x", x), 0.5, observed=y, shape=4)
    return model


def logistic(y: Any, x: Any) -> pm.Model:
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=pm.Normal("w", 0.0, pm.Data("x", x)) * np.arange(1.0, 5.0), observed=y, shape=4)
    return model


SOME = [[1.0, -2.0, 0.5, 4.0], [0.0, 0.0, 0.0, 0.0], [1e3, -1e3, 2.0, 0.0]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "pairs"),
    [
        (measured, [(SOME[0], [1.0, 2, 3, 4]), (SOME[1], [2.0, 2, 2, 2]), (SOME[2], [1.0, 1, 9, 9])]),
        (slope, [(SOME[0], [1.0, 2, 3, 4]), (SOME[1], [0.0, 0, 0, 0]), (SOME[2], [0.0, 1, 1, 0])]),
        (logistic, [([0, 1, 1, 1], 1.0), ([0, 0, 0, 0], 3.0), ([1, 1, 1, 1], 0.2)]),
    ],
)
def test_a_density_that_reads_the_data_is_made_anew(build: Any, pairs: list[Any]) -> None:
    # Standard errors, designs with zeros and scales of a prior change the structure that the density is made from.
    analysis, names = found(build(*pairs[0])), ("y", {measured: "error"}.get(build, "x"))
    fresh = [answer(build(*pair), random_seed=1) for pair in pairs]
    for pair, two in zip([*pairs, pairs[0]], [*fresh, fresh[0]], strict=True):
        one = answer(analysis.with_data(dict(zip(names, pair, strict=True))), random_seed=1)
        assert one.method == two.method == "quadrature"
        size = max(1.0, abs(two.log_evidence.value))
        assert abs(one.log_evidence.value - two.log_evidence.value) < 1e-11 * size
        assert set(one.marginals) == set(two.marginals)
        for name in two.marginals:
            assert_allclose(one.marginal(name).mean(), two.marginal(name).mean(), rtol=1e-8, atol=1e-12)


def heavy_tailed(y: Any) -> pm.Model:
    with pm.Model() as model:
        pm.StudentT("y", nu=4.0, mu=pm.Normal("mu", 0.0, 10.0), sigma=pm.HalfNormal("sigma", 10.0), observed=y)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("build", [schools, heavy_tailed])
def test_a_density_is_made_once_for_all_data(build: Any) -> None:
    analysis = found(build(np.arange(8.0)))
    made = []
    for seed in range(2):
        given = analysis.with_data({"y": np.random.default_rng(seed).normal(0.0, 12.0, size=8)})
        answer(given, random_seed=1)
        made.append(given._memory["integrand"])
    assert made[0] is not None
    assert made[0] is made[1]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"z": 1}, "no data 'z'"),
        ({"y": [1, 2]}, "shape"),
        ({"y": 1.5}, "whole numbers"),
        ({"y": np.nan}, "missing"),
        ({"y": "one"}, "not numbers"),
    ],
)
def test_data_that_do_not_fit_are_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        found(coin(4)).with_data(data)


def test_a_sealed_slot_cannot_be_read() -> None:
    _, slots = with_slots(coin(4))
    slot = slots["y"]
    assert isinstance(slot, DataSlot)
    function = compile_small([], slot + 1)
    compiled = pytensor.function([], slot + 1, mode="FAST_COMPILE")
    with sealed([slot]):
        with pytest.raises(DataRead):
            slot.get_value()
        with pytest.raises(DataRead):
            function()
        with pytest.raises((AttributeError, TypeError)):
            compiled()
    assert slot.get_value() == function() - 1 == 4


@pytest.mark.slow
def test_draws_by_nuts_are_of_the_other_data() -> None:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0)
        pm.Normal("y", mu, 0.1, observed=[0.0, 0.1])
    other = found(model).with_data({"y": [1.0, 1.1]})
    draws = answer(other, method="nuts", draws=400, random_seed=1).tree["posterior"]["mu"]
    assert abs(float(draws.mean()) - 2.1 / 2.01) < 6 * 0.0705 / np.sqrt(100)


@pytest.mark.slow
def test_threads_do_not_read_the_data_of_one_another() -> None:
    source = found(schools(np.array([28.0, 8, -3, 7, -1, 1, 18, 12])))
    others = [source.with_data({"y": np.full(8, 3.0 * k)}) for k in range(4)]
    alone = [answer(other, random_seed=1).log_evidence.value for other in others]
    with ThreadPoolExecutor(4) as pool:
        together = [*pool.map(lambda other: answer(other, random_seed=1).log_evidence.value, others)]
    assert_allclose(together, alone, rtol=1e-12)


def test_a_number_that_scales_a_prior_with_named_dims_is_not_read() -> None:
    """The lengths of the dims are data, too, so that the shape of the prior is known only to who asks for it."""
    with pm.Model(coords={"power": range(3), "point": range(4)}) as model:
        variance = pm.InverseGamma("variance", 2.0, 1.0)
        weights = pm.Normal("weights", 0.0, pm.Data("scale", 3.0) * pm.math.sqrt(variance), dims="power")
        pm.Normal("y", np.eye(4, 3) @ weights, pm.math.sqrt(variance), observed=np.arange(4.0), dims="point")
    analysis = found(model)
    assert analysis.used_values == {}
    other = analysis.with_data({"scale": 0.5})
    assert_same(other, rebuilt(other))


def test_data_that_are_a_constant_of_another_variable_are_not_exchanged() -> None:
    """PyMC writes the observations into the conditional of a process: predictions would be of those of before."""
    places, y = np.arange(4.0)[:, None], np.array([0.1, 0.7, 0.2, -0.4])
    with pm.Model() as model:
        process = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, 1.0))
        process.marginal_likelihood("y", places, y, sigma=pm.HalfNormal("noise", 0.5))
        process.conditional("new", np.array([[0.5]]))
    analysis = found(model)
    assert analysis.with_data({"y": y}).plan == analysis.plan
    with pytest.raises(DataError, match="'y' is also written into 'new' as numbers"):
        analysis.with_data({"y": y + 1.0})
