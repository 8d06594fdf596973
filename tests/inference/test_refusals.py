"""Never exact when it is not: every near-miss is refused, by name, with a reason and advice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from near_misses import NEAR_MISSES, NearMiss

import bayeskit as bk
from bayeskit.errors import ModelError

BY_NAME = {miss.name: miss for miss in NEAR_MISSES}


@pytest.fixture
def no_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    """explain() must not draw anything."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("explain() sampled")

    monkeypatch.setattr(pm, "sample", refuse)
    monkeypatch.setattr("nutpie.sample", refuse)


def names_gone(plan: bk.Plan) -> set[str]:
    return {variable for step in plan.eliminated for variable in step.variables}


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(NEAR_MISSES)


@pytest.mark.usefixtures("no_sampling")
@pytest.mark.parametrize("name", BY_NAME)
def test_near_miss_is_refused(name: str) -> None:
    miss: NearMiss = BY_NAME[name]
    model = miss.build()
    plan = bk.explain(model)
    remaining = set(plan.remaining)
    assert plan.method != "exact"
    assert remaining >= miss.refused
    assert not miss.one_of or remaining & miss.one_of
    assert names_gone(plan) >= miss.eliminated
    # every variable is accounted for once
    assert remaining | names_gone(plan) == {rv.name for rv in model.free_RVs}
    assert not remaining & names_gone(plan)
    assert [refusal.variable for refusal in plan.refusals] == list(plan.remaining)
    for refusal in plan.refusals:
        assert refusal.reason.strip()
        assert refusal.advice.strip()
        assert refusal.variable in str(plan)
        assert refusal.reason in str(plan)


@pytest.mark.parametrize("name", ["mean 1000 sinh(mu / 1000)", "prior of the mean not scaled, variance"])
def test_exact_is_an_error_when_it_is_forced(name: str) -> None:
    miss = BY_NAME[name]
    with pytest.raises(bk.BayeskitError) as error:
        bk.infer(miss.build(), method="exact", draws=40, random_seed=1, progressbar=False)
    message = str(error.value)
    assert any(variable in message for variable in miss.refused)


def test_infer_falls_back_to_nuts() -> None:
    post = bk.infer(BY_NAME["mean |mu|"].build(), method="nuts", draws=200, random_seed=1, progressbar=False)
    assert post.method == "nuts"
    assert post.log_evidence.label == "estimated"
    # An estimate with its error, or the reason why there is none.
    assert math.isfinite(post.log_evidence.value) == math.isfinite(post.log_evidence.error)
    assert math.isfinite(post.log_evidence.value) == (not post.log_evidence.reason)
    draws = post.tree["posterior"]["mu"].to_numpy()
    assert draws.shape == (4, 50)
    assert np.all(np.isfinite(draws))
    with pytest.raises(bk.BayeskitError, match="mu"):
        post.marginal("mu")


def test_an_index_out_of_range_is_said() -> None:
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 2.0, 2.0, shape=3)
        pm.Normal("y", 0.5, pm.math.sqrt(variance[[0, 1, 3]]), observed=[1.0, 2.0, 0.0])
    with pytest.raises(ModelError, match="index"):
        bk.infer(model)


@pytest.mark.parametrize("call", [bk.infer, bk.explain])
def test_labels_of_several_parts_are_refused_by_name(call: Any) -> None:
    index = pd.MultiIndex.from_product([["a", "b"], [1, 2]])
    joined = [" ".join(map(str, label)) for label in index]
    for labels in (index, joined):
        with pm.Model(coords={"place": labels, "unused": index}) as model:
            pm.Normal("y", pm.Normal("b", dims="place"), 1.0, observed=np.arange(4.0), dims="place")
        if labels is joined:  # what the error advises
            assert call(model)
            continue
        with pytest.raises(ModelError, match=r"dim 'place' are tuples such as \('a', 1\).*join them"):
            call(model)
