"""A direction on the circle from end to end: its numbers are those of (−π, π), whatever turn it is written with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from mpmath import mp
from numpy.testing import assert_allclose
from scipy import stats

import bayeskit as bk
from bayeskit.families import FAMILIES
from bayeskit.graphs.compile import small_mode

(FAMILY,) = [f for f in FAMILIES if f.name == "von_mises"]
ANGLES = np.array([0.4, 1.3, -0.2, 0.9])


def parameters(kappa: float, mu: float) -> dict[str, np.ndarray]:
    return {"cosine": np.asarray(kappa * np.cos(mu)), "sine": np.asarray(kappa * np.sin(mu))}


def build() -> pm.Model:
    with pm.Model() as model:
        kappa = pm.Data("kappa", np.full(4, 2.0))
        pm.VonMises("y", pm.VonMises("mu", 0.5, 1.5), kappa, observed=ANGLES, shape=kappa.shape)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("kappa", [0.0, 1e-9, 0.3, 40.0, 3e3, 1e6])
@pytest.mark.parametrize("mu", [0.0, 1.0, -3.0, np.pi])
def test_moments_and_probabilities_at_any_concentration(kappa: float, mu: float) -> None:
    """Against mpmath's quadrature over pieces of the circle, in the deviation from the mean direction."""
    frozen = FAMILY.frozen(parameters(kappa, mu))
    width = 1 / mp.sqrt(max(kappa, 1))

    def integral(function: object, end: float) -> float:
        cuts = sorted(
            {-np.pi, end, *(float(mu + t + k * width) for t in (-2 * np.pi, 0, 2 * np.pi) for k in range(-14, 15, 2))}
        )
        inside = [c for c in cuts if -np.pi <= c <= end]
        normaliser = 2 * mp.pi * mp.besseli(0, kappa) * mp.exp(-kappa)
        weight = lambda x: function(x) * mp.exp(-2 * kappa * mp.sin((x - mu) / 2) ** 2)  # type: ignore[operator] # noqa: E731
        return float(mp.quad(weight, inside) / normaliser)

    with mp.workdps(20):
        mean = integral(lambda x: x, np.pi)
        assert_allclose(frozen.mean(), mean, rtol=1e-10, atol=1e-12)
        assert_allclose(frozen.var(), integral(lambda x: (x - mean) ** 2, np.pi), rtol=1e-9)
        skewness, excess = (float(moment) for moment in frozen.stats(moments="sk"))
        third, fourth = (integral(lambda x, n=n: (x - mean) ** n, np.pi) / frozen.var() ** (n / 2) for n in (3, 4))
        assert_allclose([skewness, excess], [third, fourth - 3], rtol=1e-7, atol=1e-7)
        assert_allclose(frozen.cdf(0.25), integral(lambda x: 1, 0.25), rtol=1e-9, atol=1e-12)
    assert frozen.cdf(-np.pi) == 0
    assert_allclose(frozen.cdf(np.pi), 1.0, rtol=1e-12)


def test_a_turn_of_the_data_turns_the_posterior() -> None:
    with pm.Model() as model:
        pm.VonMises("y", pm.VonMises("mu", 0.5, 1.5) + 2.0, 2.0, observed=(ANGLES + 2.0 + np.pi) % (2 * np.pi) - np.pi)
    turned, plain = (bk.infer(m, draws=10, random_seed=1, progressbar=False) for m in (model, build()))
    assert_allclose(turned.log_evidence.value, plain.log_evidence.value, rtol=1e-13)
    assert_allclose(turned.marginal("mu").mean(), plain.marginal("mu").mean(), rtol=1e-12)


def test_the_predictive_distribution_is_the_data_turned_by_the_posterior() -> None:
    """y − φ and φ are independent: resultant lengths multiply (Mardia and Jupp 2000, equation 3.5.44)."""
    post = bk.infer(build(), draws=4000, random_seed=3, progressbar=False)
    new = post.predict({"kappa": np.full(1, 5.0)}, random_seed=4)
    draws = new["y"].to_numpy().ravel()
    resultant = 1.5 * np.exp(0.5j) + 2 * np.exp(1j * ANGLES).sum()
    length = np.prod([float(mp.besseli(1, k) / mp.besseli(0, k)) for k in (abs(resultant), 5.0)])
    expected = length * resultant / abs(resultant)
    for part, mean in ((np.cos(draws), expected.real), (np.sin(draws), expected.imag)):
        z = (part.mean() - mean) / (part.std() / np.sqrt(len(draws)))
        assert abs(z) < stats.norm.isf(5e-7)


def test_the_collapsed_model_and_the_report_know_a_direction(tmp_path: Path) -> None:
    with pm.Model() as model:
        pm.VonMises("y", pm.VonMises("mu", 0.5, 1.5), pm.Gamma("kappa", 2.0, 0.5), observed=ANGLES)
    small = bk.collapse(model)
    assert [rv.name for rv in small.free_RVs] == ["kappa"]
    values = [small.compile_logp(mode=small_mode())({"kappa_log__": np.log(k)}) for k in (0.5, 4.0)]

    def direct(k: float) -> float:
        resultant = abs(1.5 * np.exp(0.5j) + k * np.exp(1j * ANGLES).sum())
        bessel = mp.log(mp.besseli(0, resultant)) - 4 * mp.log(mp.besseli(0, k))
        return float(bessel) + float(stats.gamma(2, scale=2).logpdf(k)) + float(np.log(k))

    assert_allclose(values[1] - values[0], direct(4.0) - direct(0.5), rtol=1e-10)
    page = tmp_path / "direction.html"
    bk.report(bk.infer(build(), draws=200, random_seed=1, progressbar=False), str(page))
    assert "von mises" in page.read_text()
