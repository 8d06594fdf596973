"""Which groups the rows of an observed variable are in, and whether they follow each other."""

from __future__ import annotations

import numpy as np
import pymc as pm

from bayeskit.validation.predictive_checks.row_groups import in_time, row_groups

CODES = np.array([0, 0, 1, 1, 2, 2])


def test_codes_by_which_the_mean_picks_a_parameter_are_groups() -> None:
    with pm.Model(coords={"school": ["x", "y", "z"]}) as model:
        effect = pm.Normal("effect", dims="school")
        pm.Normal("a", effect[pm.Data("school_code", CODES)], 1.0, observed=np.zeros(6))
        pm.Normal("b", pm.Normal("other", shape=3)[CODES], 1.0, observed=np.zeros(6))
        pm.Normal("none", effect[np.arange(6) % 3][pm.Categorical("z", [0.5, 0.5], shape=6)], 1.0, observed=np.zeros(6))
        pm.Normal("single", pm.Normal("rows", shape=6)[np.arange(6)], 1.0, observed=np.zeros(6))
    (label,) = row_groups(model, "a", 6)
    codes, called = row_groups(model, "a", 6)[label]
    assert (label, called) == ("school", ("x", "y", "z"))
    np.testing.assert_array_equal(codes, CODES)
    assert [called for _, called in row_groups(model, "b", 6).values()] == [("0", "1", "2")]
    assert row_groups(model, "single", 6) == {}
    assert row_groups(model, "a", 7) == {}


def test_walks_and_autoregressions_are_in_time() -> None:
    with pm.Model() as model:
        level = pm.GaussianRandomWalk("level", 1.0, init_dist=pm.Normal.dist(), steps=5)
        pm.Normal("walk", level, 1.0, observed=np.zeros(6))
        pm.AR("auto", [0.5], 1.0, init_dist=pm.Normal.dist(), observed=np.zeros(6))
        pm.Normal("rows", 0.0, 1.0, observed=np.zeros(6))
    assert in_time(model, "walk") and in_time(model, "auto")
    assert not in_time(model, "rows")
