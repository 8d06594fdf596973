"""Variables integrated entry by entry, against SciPy's integral of PyMC's own density; and what must not be."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import integrate, special, stats

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.entrywise import with_plates
from bayeskit.elimination.plan import analyse
from bayeskit.graphs.compile import compile_small, compile_stacked
from bayeskit.graphs.environment import lightly, silently
from bayeskit.plates.accuracy import differences
from bayeskit.plates.conditional import PlateRecovery
from bayeskit.plates.plate import Plate

RNG = np.random.default_rng(16)
GROUPS, ROWS = 4, 24
GROUP = np.r_[np.arange(GROUPS), RNG.integers(GROUPS, size=ROWS - GROUPS)]
X = RNG.normal(size=ROWS)
ETA = 0.5 * X + RNG.normal(size=GROUPS)[GROUP]
COUNTS = RNG.poisson(np.exp(ETA))
TIMES = np.exp(ETA) * RNG.weibull(2.0, size=ROWS)
FLIPS = RNG.binomial(1, 1 / (1 + np.exp(-ETA)))


def normal(scale: Any) -> Any:
    return pm.Normal("b", 0, scale, shape=GROUPS)


def build(likelihood: Callable[[Any], Any], prior: Callable[[Any], Any] = normal) -> pm.Model:
    with pm.Model() as model:
        w, a, s = pm.Normal("w", 0, 2), pm.Normal("a", 0, 1), pm.HalfNormal("s", 1)
        b = prior(s)
        likelihood(a + w * X + b[GROUP])
    return model


def poisson(mean: Any) -> Any:
    return pm.Poisson("y", pt.exp(mean), observed=COUNTS)


def survival(mean: Any) -> Any:
    return pm.Censored("y", pm.Weibull.dist(2.0, pt.exp(mean)), lower=None, upper=2.0, observed=np.minimum(2.0, TIMES))


def two_axes() -> pm.Model:
    """Abilities, each in a row of the answers; the difficulties, fewer, remain."""
    with pm.Model() as model:
        ability, difficulty = pm.Normal("b", 0, 1, shape=6), pm.Normal("d", 0, 2, shape=4)
        pm.Bernoulli("y", logit_p=ability[:, None] - difficulty, observed=FLIPS.reshape(6, 4))
    return model


MODELS: dict[str, Callable[[], pm.Model]] = {
    "binary": lambda: build(lambda mean: pm.Bernoulli("y", logit_p=mean, observed=FLIPS)),
    "not centred": lambda: build(poisson, lambda s: s * pm.Normal("b", 0, 1, shape=GROUPS)),
    "negative binomial": lambda: build(lambda m: pm.NegativeBinomial("y", mu=pt.exp(m), alpha=2.0, observed=COUNTS)),
    "ordinal": lambda: build(
        lambda mean: pm.OrderedLogistic(
            "y", eta=mean, cutpoints=[-1.0, 0.0, 1.0], observed=np.digitize(ETA, [-1, 0, 1])
        )
    ),
    "survival, censored": lambda: build(survival),
    "Student t effects": lambda: build(poisson, lambda s: pm.StudentT("b", nu=4, mu=0, sigma=s, shape=GROUPS)),
    "frailties": lambda: build(
        lambda mean: pm.Exponential("y", 1 / pt.exp(mean), observed=TIMES),
        lambda s: pm.Gamma("b", 1 + s, 2, shape=GROUPS),
    ),
    "shares": lambda: build(poisson, lambda s: pm.Beta("b", 2, 2 * s, shape=GROUPS)),
    "item response": two_axes,
}


@functools.cache
def analysed(name: str) -> tuple[Analysis, Plate]:
    with lightly():
        found = with_plates(analyse(MODELS[name]()))
    assert found is not None
    (plate,) = found.plates
    return found, plate


def points(found: Analysis, plate: Plate, number: int) -> list[np.ndarray]:
    """Values of what the integrals depend on."""
    rng, typical = np.random.default_rng(3), {"w": 0.4, "a": 0.3, "s": 0.7, "d": 0.2}
    return [typical[n] + 0.2 * rng.uniform(size=(number, *found.shapes[n])) for n in plate.given]


def one_entry(found: Analysis, plate: Plate, at: dict[str, np.ndarray], b: np.ndarray) -> Callable[[int, float], float]:
    """PyMC's own log density of the factors with b in them, one entry of it moved."""
    joint = found.original
    graph = pt.add(*[pt.sum(joint.factors[f]) for f in joint.factors if "b" in joint.scopes[f]])
    function = compile_small(list(joint.values.values()), graph)

    def log_density(entry: int, value: float) -> float:
        moved = b.copy()
        moved[entry] = value
        with silently():
            return float(function(*[np.asarray({**at, "b": moved}[n], float) for n in joint.values]))

    return log_density


RANGES = {"real": (-15.0, 15.0), "positive": (1e-9, 40.0), "unit": (1e-9, 1 - 1e-9)}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_integrals_are_those_of_the_density_of_pymc(name: str) -> None:
    found, plate = analysed(name)
    given = points(found, plate, 3)
    with lightly():
        values, off = plate.log_integrals(given, 3), differences(plate, given, 3)
    assert np.all(off < 1e-8)
    at = {n: g[1] for n, g in zip(plate.given, given, strict=True)}
    centre = PlateRecovery(plate).draw({n: v[None] for n, v in at.items()}, 1, np.random.default_rng(1))[0]
    density = one_entry(found, plate, at, centre)
    top = expected = density(0, centre[0])
    for entry in range(len(centre)):
        inside = [centre[entry]]
        area, _ = integrate.quad(
            lambda z, entry=entry: np.exp(density(entry, z) - top),
            *RANGES[plate.kind],
            points=inside,
            epsabs=1e-13,
            epsrel=1e-11,
            limit=200,
        )
        expected += np.log(area)
    assert values[1].sum() == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("name", ["binary", "not centred", "frailties", "item response"])
def test_the_gradient_is_that_of_the_integrals(name: str) -> None:
    found, plate = analysed(name)
    inputs = [found.joint.values[n] for n in plate.given]
    total: Any = pt.sum(found.joint.factors[plate.factor])
    with lightly():
        value = compile_stacked(inputs, total)
        gradient = compile_small(inputs, pytensor.grad(total, inputs))
    given = [g[0] for g in points(found, plate, 1)]
    for slot, slope in enumerate(gradient(*given)):
        for place in np.ndindex(given[slot].shape):
            moved = [np.repeat(g[None], 2, axis=0) for g in given]
            moved[slot][(slice(None), *place)] += np.array([1e-4, -1e-4])
            above, below = value(*moved)
            assert slope[place] == pytest.approx((above - below) / 2e-4, rel=1e-6, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["binary", "frailties", "Student t effects"])
def test_draws_have_the_conditional_density(name: str) -> None:
    found, plate = analysed(name)
    (one,) = zip(*points(found, plate, 1), strict=True)
    at = dict(zip(plate.given, one, strict=True))
    number = 4000
    recovery = PlateRecovery(plate)
    draws = recovery.draw(
        {n: np.repeat(v[None], number, axis=0) for n, v in at.items()}, number, np.random.default_rng(2)
    )
    density = one_entry(found, plate, at, draws[0])
    # The distribution function of one entry by SciPy; a false alarm has a probability of 1e-4 for each model.
    low, high = RANGES[plate.kind]
    grid = np.linspace(max(low, draws[:, 1].min() - 4), min(high, draws[:, 1].max() + 4), 4001)
    heights = np.array([density(1, z) for z in grid])
    cumulated = integrate.cumulative_simpson(np.exp(heights - heights.max()), x=grid, initial=0)
    assert stats.kstest(draws[:, 1], lambda z: np.interp(z, grid, cumulated / cumulated[-1])).pvalue > 1e-4
    point = at | {"b": draws[7]}
    moved = at | {"b": draws[8]}
    joint = one_entry(found, plate, at, draws[7])(0, draws[7][0]) - one_entry(found, plate, at, draws[8])(
        0, draws[8][0]
    )
    assert recovery.log_density(point) - recovery.log_density(moved) == pytest.approx(joint, abs=1e-8)


NEIGHBOURS = np.eye(GROUPS, k=1) + np.eye(GROUPS, k=-1)
OTHER = (GROUP + 1) % GROUPS
REFUSED: dict[str, Callable[[], pm.Model]] = {
    "entries coupled by a sum": lambda: build(poisson, lambda s: pm.ZeroSumNormal("b", s, shape=GROUPS)),
    "a sum of all in each row": lambda: build(poisson, lambda s: normal(s) + pt.sum(pm.Model.get_context()["b"])),
    "two entries in a row": lambda: build(poisson, lambda s: (b := normal(s)) + 0.5 * b[::-1]),
    "a neighbour's entry in a row": lambda: build(poisson, lambda s: (b := normal(s)) - pt.roll(b, 1)),
    "an intrinsic autoregression": lambda: build(poisson, lambda s: pm.ICAR("b", W=NEIGHBOURS, sigma=s)),
    "a random walk": lambda: build(
        poisson, lambda s: pm.GaussianRandomWalk("b", sigma=s, init_dist=pm.Normal.dist(0, 1), shape=GROUPS)
    ),
    "a full covariance": lambda: build(poisson, lambda s: pm.MvNormal("b", np.zeros(GROUPS), 0.5 + np.eye(GROUPS))),
    "an improper prior": lambda: build(poisson, lambda s: pm.Flat("b", shape=GROUPS)),
    "a kink": lambda: build(poisson, lambda s: pm.Laplace("b", 0, s, shape=GROUPS)),
    "a narrow component": lambda: build(
        poisson, lambda s: pm.NormalMixture("b", [0.5, 0.5], [0, 0.7], [1, 1e-4], shape=4)
    ),
    "a narrow component, by hand": lambda: build(
        lambda mean: pm.Potential("y", pt.logaddexp(-0.5 * mean**2, 9.0 - 5e5 * (mean - 0.7) ** 2))
    ),
    "a hinge": lambda: build(lambda mean: pm.Normal("y", pt.maximum(mean, 0), 1, observed=ETA)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_a_near_miss_is_not_integrated_entry_by_entry(name: str) -> None:
    with lightly():
        found = with_plates(analyse(REFUSED[name]()))
    assert found is None or all(plate.name != "b" for plate in found.plates)


def two_peaks(mean: Any) -> Any:
    """Rows far apart: peaks of a width of 0.01 at 0 and at 8, hundreds of nats above what is between."""
    return pm.StudentT("y", nu=4, mu=mean, sigma=0.01, observed=np.repeat([0.0, 8.0], ROWS // 2))


def growing(mean: Any) -> Any:
    return pm.Potential("y", 0.1 * mean**4)


def outside(mean: Any) -> Any:
    return pm.Bernoulli("y", p=mean, observed=np.ones(ROWS, dtype=int))


@pytest.mark.parametrize(
    "likelihood",
    [two_peaks, growing, outside, lambda mean: pm.Normal("y", pt.switch(mean > 0, mean, 0), 0.1, observed=ETA)],
)
def test_integrals_that_do_not_exist_or_are_not_smooth_are_told(likelihood: Callable[[Any], Any]) -> None:
    """They look like others in the graph: two peaks, exp(b⁴/10) against a Normal prior, p above one, a hinge."""
    with lightly():
        found = with_plates(analyse(build(likelihood)))
        assert found is not None
        given = points(found, found.plates[0], 2)
        assert np.all(differences(found.plates[0], given, 2) > 1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("mean", [-8.0, -2.0, 0.0, 3.0, 8.0])
def test_wide_priors_that_rows_of_any_kind_cut_off(mean: float) -> None:
    """∫ N(b | mean, s) Φ(−b) db = Φ(−mean / √(1 + s²)): a Normal of sd e⁶ has an edge between two nodes."""
    with pm.Model() as model:
        s = pm.HalfNormal("s", 1)
        pm.Bernoulli("y", p=pm.math.invprobit(pm.Normal("b", mean, s, shape=3)), observed=np.zeros(3, int))
    with lightly():
        analysis = with_plates(analyse(model))
        assert analysis is not None
        sds = np.exp([-1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0])
        found = analysis.plates[0].log_integrals([sds], len(sds))
    right = special.log_ndtr(-mean / np.sqrt(1 + sds**2))
    np.testing.assert_allclose(found[:8], np.broadcast_to(right[:8, None], (8, 3)), rtol=0, atol=2e-9)
    np.testing.assert_allclose(found[8:], np.broadcast_to(right[8:, None], (3, 3)), rtol=0, atol=2e-6)
