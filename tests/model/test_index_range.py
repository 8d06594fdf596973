"""Group codes that count beyond the last group are refused by name; those that count from the end are not."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import bayeskit as bk
from bayeskit.errors import ModelError


def grouped(codes: list[int], container: bool, labelled: bool = True) -> pm.Model:
    with pm.Model(coords={"group": list("abc")}) as model:
        dims, shape = ("group", None) if labelled else (None, 3)
        level = pm.Normal("level", 0, 1, dims=dims, shape=shape)
        index = pm.Data("group_code", np.array(codes)) if container else np.array(codes)
        pm.Normal("y", level[index], 1.0, observed=np.arange(3.0))
    return model


@pytest.mark.parametrize("container", [True, False])
@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("codes", [[1, 2, 3], [0, -4, 1]])
def test_a_code_beyond_the_groups_is_named(codes: list[int], container: bool, labelled: bool) -> None:
    model = grouped(codes, container, labelled)
    wrong = 3 if 3 in codes else -4
    name = "data 'group_code'" if container else "an index"
    for ask in (bk.explain, bk.infer):
        with pytest.raises(ModelError, match=f"{name} has the value {wrong} .* 3 entries of 'level'"):
            ask(model)


def test_other_data_with_a_code_beyond_the_groups() -> None:
    analysis = bk.infer(grouped([0, 1, 2], True), random_seed=1, progressbar=False).analysis
    with pytest.raises(ModelError, match="'group_code' has the value 3 at entry 2"):
        bk.infer(analysis.with_data({"group_code": [1, 2, 3]}), random_seed=1)


def test_codes_from_the_end_are_those_of_the_last() -> None:
    first, second = (
        float(bk.infer(grouped(codes, True), random_seed=1, progressbar=False).log_evidence)
        for codes in ([0, 1, 2], [0, 1, -1])
    )
    assert first == pytest.approx(second, abs=1e-12)


@pytest.mark.parametrize("container", [True, False])
def test_codes_from_the_end_are_noted(container: bool) -> None:
    said = "has the value -1 at entry 2, which counts from the end: the last of 3 entries of 'level' is −1"
    assert said in str(bk.explain(grouped([0, 1, -1], container)))
    assert said in str(bk.infer(grouped([0, 1, -1], container), random_seed=1, progressbar=False))
    for meant in ([0, 1, 2], [-3, -2, -1]):
        assert "from the end" not in str(bk.explain(grouped(meant, container)))
