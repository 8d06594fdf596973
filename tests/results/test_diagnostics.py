"""Diagnostics of draws made by hand: what ArviZ computes of them, and what is warned of."""

from __future__ import annotations

import math
from dataclasses import replace

import arviz_stats
import numpy as np
import pytest
import xarray as xr

from bayeskit.results.diagnostics import Diagnostics, convergence_table, diagnostics_of


def tree_of(values: np.ndarray, **stats: np.ndarray) -> xr.DataTree:
    """Draws of one variable ``x``, axes (chain, draw, k), and statistics of them."""
    names = ("chain", "draw", "x_dim_0")
    coords = {name: np.arange(n) for name, n in zip(names, values.shape, strict=True)}
    groups = {"posterior": xr.Dataset({"x": (names, values)}, coords=coords)}
    if stats:
        axes = {name: coords[name] for name in names[:2]}
        groups["sample_stats"] = xr.Dataset({n: (("chain", "draw"), v) for n, v in stats.items()}, coords=axes)
    return xr.DataTree.from_dict(groups)


def independent(length: int = 1000, seed: int = 1, chains: int = 4, size: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(chains, length, size))


def autoregressive(length: int, seed: int, correlation: float = 0.5) -> np.ndarray:
    noise = independent(length, seed)
    for t in range(1, length):
        noise[:, t] = correlation * noise[:, t - 1] + math.sqrt(1 - correlation**2) * noise[:, t]
    return noise


def energies(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(4, 1000))


def judged(values: np.ndarray, **stats: np.ndarray) -> Diagnostics:
    return diagnostics_of(tree_of(values, **stats), ["x"])


def problems(values: np.ndarray, **stats: np.ndarray) -> str:
    return " | ".join(judged(values, **stats).problems)


def test_the_numbers_are_those_of_arviz() -> None:
    values = autoregressive(1000, 3) + np.array([0.0, 0.0, 0.4])[:, None, None].repeat(2, 0)[:4] * [0, 1, 0]
    diverging, deep = np.zeros((4, 1000), bool), np.zeros((4, 1000), bool)
    diverging[0, :3] = deep[1, :7] = True
    energy = np.cumsum(energies(), axis=1)
    tree = tree_of(values, diverging=diverging, reached_max_treedepth=deep, energy=energy)
    found = diagnostics_of(tree, ["x"])
    strict = {"rhat_max": 0.0, "ess_min_ratio": 1e9}  # then every variable is named, with its numbers
    _, theirs = arviz_stats.diagnose(tree, return_diagnostics=True, show_diagnostics=False, **strict)
    assert found.divergences == theirs["divergent"]["n_divergent"] == 3
    assert found.draws_at_max_tree_depth == theirs["treedepth"]["n_max"] == 7
    assert found.min_e_bfmi == pytest.approx(min(theirs["bfmi"]["bfmi_values"]))
    assert found.max_r_hat == pytest.approx(float(arviz_stats.rhat(tree)["x"].max()))
    assert min(found.min_ess_bulk, found.min_ess_tail) == pytest.approx(float(theirs["ess"]["ess_values"]["x"].min()))
    assert found.max_r_hat_of == "x[1]"
    assert "E-BFMI" in "".join(found.problems)


@pytest.mark.slow
@pytest.mark.parametrize("length", [100, 250, 1000])
def test_chains_that_mix_are_never_suspected(length: int) -> None:
    """Of 24 × 3 scalars at each length none. R-hat beyond its limit needs an F of 7 and many degrees of freedom beyond
    4 at a third of the draws effective, which happens once in 10⁴."""
    for seed in range(8):
        for values in (independent(length, seed), autoregressive(length, seed), independent(length, seed) ** 3):
            assert problems(values) == ""


@pytest.mark.parametrize("length", [25, 100, 1000])
def test_chains_that_disagree_are_always_suspected(length: int) -> None:
    for seed in range(4):
        for apart in ([0, 0, 0, 5], [0, 0, 5, 5]):  # a chain alone; two modes
            assert "the chains disagree" in problems(independent(length, seed) + np.array(apart)[:, None, None])


def test_a_chain_of_another_spread_and_a_slow_one_are_suspected() -> None:
    assert "the chains disagree" in problems(independent() * np.array([1.0, 1.0, 1.0, 3.0])[:, None, None])
    assert "are worth" in problems(autoregressive(1000, 1, 0.97))


def test_chains_that_do_not_move_are_suspected_and_counts_that_never_change_are_not() -> None:
    values = independent()
    values[..., 1] = 2.0
    assert judged(values).max_r_hat == math.inf and judged(values).max_r_hat_of == "x[1]"
    values[..., 1] = np.arange(4)[:, None]
    assert judged(values).max_r_hat == math.inf
    assert "the chains do not move (R-hat inf for x[1]" in problems(values) and "reparam" not in problems(values)
    values[..., 1] = np.nan
    assert "or not finite" in problems(values)
    assert problems(np.zeros((4, 1000, 2), dtype=int)) == ""


def test_what_cannot_be_judged_is_said() -> None:
    assert "one chain cannot show whether the sampler converged" in problems(independent(chains=1))
    assert "3 draws a chain cannot show" in problems(independent(3))
    assert math.isnan(judged(independent(3)).max_r_hat)


def test_transitions_are_judged_too() -> None:
    none, some = np.zeros((4, 1000), bool), np.zeros((4, 1000), bool)
    some[0, :2] = True
    assert problems(independent(), diverging=none, energy=energies(), reached_max_treedepth=some) == ""
    assert problems(independent(), diverging=some) == "" and "2 divergences" in str(
        judged(independent(), diverging=some)
    )
    assert "2 transitions diverged" in problems(autoregressive(1000, 1, 0.97), diverging=some)
    some[1, :3] = True
    found = problems(independent(), diverging=some)
    assert found.startswith("5 transitions diverged") and "target_accept" in found
    few = np.zeros((4, 100), bool)
    few[0, 0] = True
    assert problems(independent(100), diverging=few).startswith("1 transition diverged")
    some[:, ::10] = True
    assert "10% of the draws reached the maximum tree depth" in problems(independent(), reached_max_treedepth=some)


def test_chains_that_are_too_short_to_tell_have_not_converged() -> None:
    """Nothing is warned of, as an R-hat beyond 1.01 may be chance in a hundred draws."""
    beyond = [found for seed in range(20) if (found := judged(independent(100, seed))).max_r_hat > 1.01]
    assert len(beyond) > 2
    for found in beyond:
        assert not found.problems and not found.converged and str(found).startswith("too short to tell: 4 chains")
    slow = judged(autoregressive(250, 1))
    assert min(slow.min_ess_bulk, slow.min_ess_tail) < 400 and str(slow).startswith("too short to tell: ")
    assert judged(independent(500)).converged


def test_labels_that_were_exchanged_are_judged_after_relabelling() -> None:
    mixed, clear = judged(independent() + np.array([0, 0, 5, 5])[:, None, None]), judged(independent())
    only = replace(mixed, relabelled=clear)
    assert len(only.problems) == 1 and not only.converged
    assert "exchanged the labels" in only.problems[0] and "bk.relabel(posterior)" in only.problems[0]
    both = replace(mixed, divergences=2, relabelled=judged(autoregressive(1000, 1, 0.97)))
    assert ["under one labelling" in problem for problem in both.problems] == [False, True, True, False]
    assert str(only).startswith("NOT CONVERGED: 4 chains of 1,000 draws, R-hat 1.") and "\nwarning: " in str(only)
    assert str(clear).startswith("converged: ") and "warning" not in str(clear)


def test_the_table_has_a_row_for_every_scalar() -> None:
    draws = tree_of(independent())["posterior"].to_dataset().assign(n=(("chain", "draw"), np.zeros((4, 1000), int)))
    table = convergence_table(draws, ["x", "n"])
    assert list(table.index) == ["x[0]", "x[1]", "x[2]", "n"]
    assert table.loc["n", "r_hat"] == 1 and table.notna().all(axis=None)
    assert list(convergence_table(draws, []).columns) == ["r_hat", "ess_bulk", "ess_tail"]


def test_an_entry_that_cannot_move_is_not_one_that_is_stuck() -> None:
    """The diagonal of a correlation matrix is one, but for rounding; a variable of which nothing moves is stuck."""
    draws = np.random.default_rng(1).normal(size=(4, 200, 2))
    draws[..., 0] = 1.0 + 2.3e-16 * (draws[..., 0] > 0)
    stuck = (("chain", "draw"), np.ones((4, 200)))
    table = convergence_table(xr.Dataset({"c": (("chain", "draw", "k"), draws), "s": stuck}), "cs")
    assert table.loc["c[0]", "r_hat"] == 1.0 and table.loc["c[1]", "r_hat"] < 1.05
    assert table.loc["s", "r_hat"] == np.inf


def test_one_chain_and_one_draw_are_no_plural() -> None:
    one = diagnostics_of(tree_of(independent(chains=1)), ["x"])
    assert str(one).startswith("NOT CONVERGED: 1 chain of 1,000 draws, ")
    shortest = diagnostics_of(tree_of(independent(1, chains=1)), ["x"])
    assert str(shortest).startswith("NOT CONVERGED: 1 chain of 1 draw, ")
    assert "4 chains of 1,000 draws, " in str(diagnostics_of(tree_of(independent()), ["x"]))
