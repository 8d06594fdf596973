"""The page of classical tests, run to the letter: each block prints what stands under it, which is the published value.

Where a closed form or an integral over one number is known, it is computed here as well, by SciPy, and held to more
digits than the page shows.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

PAGE = Path(__file__).resolve().parents[1] / "docs" / "bayes_factors.md"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", flags=re.M | re.S)


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """The names that the blocks leave behind, and what each printed with what it should have."""
    names: dict[str, Any] = {}
    printed = []
    for code, expected in BLOCK.findall(PAGE.read_text()):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(code, str(PAGE), "exec"), names)
        printed.append((out.getvalue(), expected))
    return {**names, "printed": printed}


def test_every_block_prints_what_stands_under_it(page: dict[str, Any]) -> None:
    assert len([1 for _, expected in page["printed"] if expected]) == 9
    for found, expected in page["printed"]:
        assert [line.rstrip() for line in found.splitlines()] == expected.splitlines()


def over_g(ratio: Callable[[float], float], scale: float) -> float:
    """The mean of a Bayes factor given g over its inverse gamma distribution."""
    density = stats.invgamma(0.5, scale=scale**2 / 2).pdf
    ends = [0, scale**2, 10 * scale**2, np.inf]
    return sum(
        integrate.quad(lambda g: ratio(g) * density(g), a, b, epsrel=1e-12)[0] for a, b in itertools.pairwise(ends)
    )


def test_tests_of_means_are_their_integrals_over_g(page: dict[str, Any]) -> None:
    """Rouder et al. (2009), equation 1, with n₁n₂/(n₁ + n₂) for two samples."""

    def t_test(t: float, n: float, freedom: int) -> float:
        def given(g: float) -> float:
            powers = (freedom + 1) / 2 * (np.log1p(t**2 / freedom) - np.log1p(t**2 / ((1 + n * g) * freedom)))
            return float(np.exp(powers - 0.5 * np.log1p(n * g)))

        return over_g(given, math.sqrt(0.5))

    one = t_test(stats.ttest_1samp(page["difference"], 0.0).statistic, 10, 9)
    assert page["two_sided"] == pytest.approx(one, rel=1e-8)
    two = t_test(stats.ttest_ind(page["horsebean"], page["linseed"]).statistic, 120 / 22, 20)
    found = page["bayes_factor"](page["same_mean"], page["two_means"], ("mu", "sigma2"))
    assert found == pytest.approx(two, rel=1e-8)


def test_linear_models_are_their_integrals_over_g(page: dict[str, Any]) -> None:
    """By R², for effects whose design is orthogonal: (1 + kg)^((n−1−p)/2) / (1 + kg(1−R²))^((n−1)/2)."""

    def from_r_squared(r_squared: float, n: int, p: int, k: float) -> Callable[[float], float]:
        return lambda g: math.exp(
            (n - 1 - p) / 2 * math.log1p(k * g) - (n - 1) / 2 * math.log1p(k * g * (1 - r_squared))
        )

    gain, drug = page["gain"], page["drug"]
    within = sum(np.sum((gain[drug == d] - gain[drug == d].mean()) ** 2) for d in range(3))
    anova = over_g(from_r_squared(1 - within / np.sum((gain - gain.mean()) ** 2), 18, 2, 6.0), 0.5)
    assert f"{anova:.4f}" == "245.9026"
    r = stats.pearsonr(page["complaints"], page["rating"]).statistic
    regression = over_g(from_r_squared(r**2, 30, 1, 30.0), math.sqrt(2) / 4)
    assert f"{regression:.0f}" == "417939"


def test_counts_have_closed_forms(page: dict[str, Any]) -> None:
    found = page["bayes_factor"](page["one_probability"], page["two_probabilities"])
    logs = special.betaln(51, 22) + special.betaln(49, 42) - special.betaln(99, 63)
    assert found == pytest.approx(math.exp(logs), rel=1e-10)
    assert f"{2**100 / (101 * math.comb(100, 60)):.6f}" == "0.913050"
