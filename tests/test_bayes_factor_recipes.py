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

pytestmark = pytest.mark.slow("one process runs the page")

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
    assert len([1 for _, expected in page["printed"] if expected]) == 14
    for found, expected in page["printed"]:
        assert [line.rstrip() for line in found.splitlines()] == expected.splitlines()


def over_g(ratio: Callable[[float], float], scale: float) -> float:
    """The mean of a Bayes factor given g over its inverse gamma distribution."""
    density = stats.invgamma(0.5, scale=scale**2 / 2).pdf
    ends = [0, scale**2, 10 * scale**2, np.inf]
    return sum(
        integrate.quad(lambda g: ratio(g) * density(g), a, b, epsrel=1e-12)[0] for a, b in itertools.pairwise(ends)
    )


def test_the_chance_of_an_order_is_its_integral_over_g(page: dict[str, Any]) -> None:
    """Given g the effects are Student t about their least squares estimates, shrunken; their ratio is that of δ."""
    contrasts, gain, drug = page["contrasts"], page["gain"], page["drug"]
    design = contrasts[drug]
    along, total = design.T @ gain, float(np.sum((gain - gain.mean()) ** 2))

    def given(g: float) -> tuple[float, float]:
        precision = 6 + 1 / g
        left = total - along @ along / precision
        weight = stats.invgamma.pdf(g, 0.5, scale=0.125) / (1 + 6 * g) * left**-8.5
        apart = contrasts[1] - contrasts[0]
        spread = math.sqrt(left / 17 / precision * (apart @ apart))
        return weight, weight * float(stats.t.cdf(apart @ along / precision / spread, 17))

    whole, part = (
        sum(integrate.quad(lambda u, k=k: given(math.exp(u))[k] * math.exp(u), a, a + 5)[0] for a in range(-10, 30, 5))
        for k in (0, 1)
    )
    assert page["differ"].hypothesis("by_drug[0] < by_drug[1]").posterior_probability == pytest.approx(
        part / whole, abs=1e-6
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
    t = stats.ttest_ind(page["anastasia"], page["bernadette"]).statistic
    assert f"{t_test(t, 15 * 18 / 33, 31):.6f}" == "1.754927"

    def of_size(delta: float) -> float:
        shifted = stats.nct.pdf(t, 31, delta * math.sqrt(15 * 18 / 33)) / stats.t.pdf(t, 31)
        return float(shifted * stats.halfcauchy.pdf(delta, scale=math.sqrt(0.5)))

    assert f"{integrate.quad(of_size, 0, 8, epsrel=1e-10)[0]:.6f}" == "3.382764"


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
    r = stats.pearsonr(np.repeat([0, 1], 9), gain).statistic
    therapy = over_g(from_r_squared(r**2, 18, 1, 9.0), 0.5)
    assert anova / therapy == pytest.approx(0.346168 / 0.001029907, rel=2e-6)
    r = stats.pearsonr(page["complaints"], page["rating"]).statistic
    regression = over_g(from_r_squared(r**2, 30, 1, 30.0), math.sqrt(2) / 4)
    assert f"{regression:.1f}" == "417938.6"


def test_a_correlation_is_its_integral_over_the_ratio_of_sds(page: dict[str, Any]) -> None:
    """Given ρ, means and one sd integrate out of two Normals, and (1 − ρ²)^½⁽ⁿ⁻¹⁾ (cosh u − ρr)⁻⁽ⁿ⁻¹⁾ du is left."""
    n, r = len(page["sepals"]), np.corrcoef(page["sepals"].T)[0, 1]
    nodes, weights = np.polynomial.legendre.leggauss(200)

    def given(rho: np.ndarray) -> np.ndarray:
        return (1 - rho**2) ** ((n - 1) / 2) * ((np.cosh(nodes[:, None]) - rho * r) ** (1 - n) * weights[:, None]).sum(
            0
        )

    prior = stats.beta(3, 3, loc=-1, scale=2).pdf(nodes)
    expected = (given(nodes) * prior * weights).sum() / given(np.zeros(1))[0]
    assert page["correlation"] == pytest.approx(expected, rel=1e-8)


# regressionBF(rating ~ ., data = attitude): 63 Bayes factors with their relative errors, of tidystats' tests.
PUBLISHED = """
c 417938.631039 8.1e-05
p 3.177784 4.9e-06
l 103.393019 1.5e-05
r 47.009171 8e-05
k 0.449319 1.4e-05
a 0.447229 1.4e-05
cp 75015.227912 2.3e-06
cl 207271.902002 2.1e-06
cr 77498.988721 2.2e-06
ck 70087.299971 2.3e-06
ca 72759.763981 2.3e-06
pl 42.16342 0.00012
pr 25.899241 1.2e-07
pk 1.382939 9.7e-06
pa 1.234018 1.1e-05
lr 100.511072 6.8e-05
lk 33.967879 1.5e-07
la 68.891826 8.8e-05
rk 15.709543 5.1e-08
ra 35.603569 1.5e-07
ka 0.239363 6.9e-05
cpl 56341.123092 7.9e-07
cpr 18230.791803 2.8e-07
cpk 16235.873284 2.2e-07
cpa 16482.374794 2.3e-07
clr 42847.980268 6.8e-07
clk 42374.733458 6.8e-07
cla 88041.536504 9.6e-07
crk 16913.970299 2.4e-07
cra 20641.120449 3.4e-07
cka 15821.130799 2.1e-07
plr 39.023666 3.1e-05
plk 16.316617 2.3e-05
pla 38.475377 3.1e-05
prk 10.257101 1.1e-05
pra 28.715473 3.1e-05
pka 0.645198 1.4e-05
lrk 33.456504 3.1e-05
lra 313.388458 1.3e-05
lka 35.085449 3.1e-05
rka 13.368632 1.9e-05
cplr 13707.572081 2.2e-06
cplk 13604.670078 2.2e-06
cpla 24141.938462 1.4e-06
cprk 4737.97634 3.4e-06
cpra 5450.1043 3.2e-06
cpka 4280.87409 3.5e-06
clrk 10520.620501 2.4e-06
clra 23334.000571 9.1e-07
clka 22169.302799 8.6e-06
crka 5302.836757 3.2e-06
plrk 15.130439 4.1e-05
plra 134.466234 7.4e-06
plka 20.646716 2e-05
prka 11.719099 6.7e-05
lrka 106.540246 6.2e-06
cplrk 3826.973017 1.4e-06
cplra 7144.828333 9.2e-07
cplka 6926.972759 9.4e-07
cprka 1608.397046 2.2e-06
clrka 6461.750877 9.9e-07
plrka 51.023123 2.3e-05
cplrka 2211.912275 1.2e-06
"""


def test_all_subsets_are_those_of_bayesfactor(page: dict[str, Any]) -> None:
    rows = page["subsets"].itertuples()
    found = {frozenset(r.predictors): math.exp(r.log_bayes_factor_null) for r in rows if r.predictors}
    published = [line.split() for line in PUBLISHED.strip().splitlines()]
    assert len(published) == len(found) == 63
    for names, value, error in published:
        letters = {name[0]: name for name in page["names"] if name != "critical"} | {"k": "critical"}
        one = found[frozenset(letters[letter] for letter in names)]
        assert one == pytest.approx(float(value), rel=1.01 * float(error), abs=1e-6)


def test_counts_have_closed_forms(page: dict[str, Any]) -> None:
    found = page["bayes_factor"](page["one_probability"], page["two_probabilities"])
    logs = special.betaln(51, 22) + special.betaln(49, 42) - special.betaln(99, 63)
    assert found == pytest.approx(math.exp(logs), rel=1e-10)
    table, rows, columns = [13, 30, 44, 15, 13, 65], [87, 93], [28, 43, 109]

    def log_dirichlet(counts: list[int]) -> float:
        """log of the mean of a product of probabilities, uniform on the simplex."""
        return float(special.gammaln(len(counts)) + special.gammaln(np.add(counts, 1)).sum()) - float(
            special.gammaln(sum(counts) + len(counts))
        )

    apart = log_dirichlet(table[:3]) + log_dirichlet(table[3:]) - log_dirichlet(columns)
    joint = log_dirichlet(table) - log_dirichlet(rows) - log_dirichlet(columns)
    assert (f"{math.exp(apart):.6f}", f"{math.exp(joint):.5f}") == ("8.605897", "15.92684")
    assert f"{2**100 / (101 * math.comb(100, 60)):.6f}" == "0.913050"
