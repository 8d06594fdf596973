"""Submodels that are summed over in pieces: as all at once, and to the same digits wherever that is done."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from distributed import Client

import bayeskit as bk
from bayeskit.comparison.subsets import in_pieces
from bayeskit.comparison.subsets.in_pieces import Submodels
from bayeskit.comparison.subsets.inclusion_prior import inclusion_prior_of
from bayeskit.comparison.subsets.integrate_scales import integrated
from bayeskit.comparison.subsets.linear_model import linear_model
from bayeskit.comparison.subsets.scale_integral import Node
from bayeskit.comparison.subsets.sweep import NotDefinite
from bayeskit.errors import OptionError
from bayeskit.jobs.work import Work

SIZE, PIECES = 5, 4


@cache
def regression(scale: float = 1.0) -> pm.Model:
    """A prior of w that is no multiple of the cross products: each node of tau takes a sweep of its own."""
    rng = np.random.default_rng(0)
    x = rng.normal(0.7, 1.0, size=(30, SIZE))
    y = 1 + x[:, 0] - 0.5 * x[:, 1] + rng.normal(size=30)
    with pm.Model() as model:
        variance, tau = pm.InverseGamma("variance", 2, 2), pm.HalfCauchy("tau", scale)
        intercept = pm.Flat("intercept")
        w = pm.Normal("w", 0, tau * pm.math.sqrt(variance), shape=SIZE)
        pm.Normal("y", intercept + x @ w, pm.math.sqrt(variance), observed=y)
    return model


@pytest.fixture
def _pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_pieces, "TOGETHER", SIZE - 2)


def selected(scale: float = 1.0, **options: Any) -> bk.Selection:
    return bk.select(regression(scale), "w", top=2**SIZE, random_seed=1, **options)


def same(one: bk.Selection, other: bk.Selection, **options: Any) -> None:
    for table in ("inclusion", "models", "coefficients"):
        pd.testing.assert_frame_equal(getattr(one, table), getattr(other, table), **(options or {"check_exact": True}))
    if not options:
        assert one.log_evidence == other.log_evidence


@pytest.mark.slow
def test_pieces_are_all_submodels(request: pytest.FixtureRequest) -> None:
    at_once = selected()
    request.getfixturevalue("_pieces")
    pieces = selected()
    errors = pieces.models.pop("error"), at_once.models.pop("error")
    assert np.all(errors[0] <= 1.01 * errors[1] + 1e-13)  # of a piece the least pivot is no smaller
    at_once.inclusion.pop("error"), pieces.inclusion.pop("error")
    same(pieces, at_once, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.usefixtures("_pieces")
def test_submodels_have_the_same_digits_wherever_they_are_summed_over(client: Client, tmp_path: Path) -> None:
    here, path = selected(), tmp_path / "submodels"
    same(selected(client=client, checkpoint=path), here)
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) == 1 + 2 * PIECES  # the evidences of each, and the moments
    path.write_text("".join(lines[: PIECES + 2]) + lines[PIECES + 2][:50])
    same(selected(checkpoint=path), here)
    assert len({json.loads(line)["mark"] for line in path.read_text().splitlines()[1:]}) == 2 * PIECES
    for other, options in (("model", {"scale": 2.0}), ("inclusion_prior", {"inclusion_prior": "uniform"})):
        with pytest.raises(OptionError, match=f"of another run, with another {other}") as raised:
            selected(checkpoint=path, **options)
        assert "\n" not in str(raised.value)


@pytest.mark.usefixtures("_pieces")
def test_a_piece_without_an_evidence_is_no_failure_of_a_worker(client: Client) -> None:
    found = integrated(linear_model(regression(), "w"))

    def collinear(node: Node) -> Node:
        """The last coefficient as the one before it."""
        quadratic = node.given.quadratic
        precision = quadratic.precision.copy()
        precision[4], precision[:, 4] = precision[3], precision[:, 3]
        precision[4, 4] = precision[3, 3]
        return replace(node, given=replace(node.given, quadratic=replace(quadratic, precision=precision)))

    integral = replace(found.integral, nodes=tuple(map(collinear, found.integral.nodes)))
    for given in (None, client):
        with pytest.raises(NotDefinite):
            Submodels(integral, inclusion_prior_of("uniform", SIZE), Work(given)).evidences()


@pytest.mark.slow
def test_one_sweep_is_not_cut_and_a_walk_is_kept(tmp_path: Path) -> None:
    selected(checkpoint=tmp_path / "few")
    assert len((tmp_path / "few").read_text().splitlines()) == 1
    options: dict[str, Any] = {"method": "metropolis", "draws": 100}
    same(selected(checkpoint=tmp_path / "walk", **options), selected(**options))
    assert len((tmp_path / "walk").read_text().splitlines()) == 2
