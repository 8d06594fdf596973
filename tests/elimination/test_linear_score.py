"""Whatever is proved linear in a family's score basis is so in numbers; what only looks so is refused.

The oracle is the log density itself, in numbers and not its gradient: that of a Gamma variable is a sum of multiples of
1, log φ and φ. A fit at as many points as there are terms must predict it everywhere else.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import sympy
from pytensor.gradient import disconnected_grad
from pytensor.raise_op import Assert
from scipy import stats

import bayeskit as bk
from bayeskit.elimination.generic_element import GenericElements
from bayeskit.elimination.linear_score import has_linear_score
from bayeskit.elimination.symbolic_functions import fixed_sign, magnitude
from bayeskit.elimination.symbols import NotProved, Symbols
from bayeskit.families import FAMILIES
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.rewriting import depends_on, widen

Function = Callable[[Any], Any]
BY_NAME = {f.label: f for f in FAMILIES}
# What log densities of a family are sums of.
BASES: dict[str, Function] = {
    "gamma": lambda x: [np.ones_like(x), np.log(x), x],
    "inverse gamma": lambda x: [np.ones_like(x), np.log(x), 1 / x],
    "beta": lambda x: [np.ones_like(x), np.log(x), np.log1p(-x)],
}
A = np.array([1.0, -2.0, 4.0])
Y = np.array([0.3, 1.2, 2.5, 0.7])
COUNTS = np.array([2, 0, 3, 1])
CHOICES = np.array([1, 0, 1, 1])


def is_linear(graph: Any, phi: Any, family: str) -> bool:
    """Whether the score of a log density is proved linear in a family's basis, and all its checks to hold."""
    family_of = BY_NAME[family]
    (graph,) = widen([graph])
    reference = np.full(phi.type.shape, 0.5 if family == "beta" else 1.0)

    def truth(var: Any) -> tuple[bool, bool]:
        value = compile_small([phi], var)(reference)
        return bool(np.all(value)), not bool(np.any(value))

    generic = GenericElements(phi, family_of.support, depends_on([graph], [phi]), truth)
    try:
        element = generic.of(graph)
    except NotProved as refusal:
        assert str(refusal)
        return False
    return has_linear_score(generic.symbols, element, family_of) and not generic.unsettled_checks(graph)


def points_of(family: str) -> np.ndarray:
    if family == "beta":
        return np.concatenate([[1e-6, 0.01], np.linspace(0.05, 0.95, 13), [0.99, 1 - 1e-6]])
    return 10.0 ** np.linspace(-4, 4, 19)


def largest_misfit(graph: Any, phi: Any, family: str) -> float:
    """How far the log density is from a combination of the basis, relative to the size of its terms."""
    x = points_of(family)
    function = compile_small([phi], pt.sum(widen([graph])[0]))
    values = np.array([float(function(np.asarray(v))) for v in x])
    basis = np.stack(BASES[family](x), axis=-1)
    scale = np.abs(basis).max(axis=0)
    size = np.abs(values).max() + 1.0
    coefficients = np.linalg.lstsq(basis / scale / size, values / size, rcond=None)[0]
    terms = np.abs(basis / scale) @ np.abs(coefficients)
    # At each point relative to the terms there: a bend near zero must not hide behind a large value far out.
    return float(np.max(np.abs(values - basis @ (coefficients / scale)) / (1.0 + terms)))


def scalar() -> Any:
    return pt.scalar("phi", dtype="float64")


# --- random graphs ----------------------------------------------------------------------------------------------------

SPELLINGS: tuple[Function, ...] = (
    lambda x: x, lambda x: 1 / x, pt.sqrt, pt.sqr, lambda x: x**-0.5, lambda x: x**2.0, lambda x: x / 7,
    lambda x: 3 * x, lambda x: pt.exp(pt.log(x)), lambda x: pt.exp(-2 * pt.log(x)), lambda x: 1 - x,
    lambda x: x / (1 + x),
    lambda x: x + 1e-9, lambda x: pt.maximum(x, 1e-6), lambda x: pt.switch(x > 1e6, 1.0, x), lambda x: abs(x - 0.5),
    lambda x: pt.sqrt((x - 0.5) ** 2), lambda x: x**1.001, lambda x: pt.sum(A**2 * x),
    lambda x: pt.stack([x, x / 2])[0], lambda x: pt.cumsum(pt.stack([x, 2 * x]))[1],
)  # fmt: skip
DENSITIES: tuple[Function, ...] = (
    lambda x: pm.logp(pm.Normal.dist(0.3, sigma=x), Y),
    lambda x: pm.logp(pm.Normal.dist(0.3, tau=x), Y),
    lambda x: pm.logp(pm.Exponential.dist(x), Y),
    lambda x: pm.logp(pm.Gamma.dist(2.0, x), Y),
    lambda x: pm.logp(pm.InverseGamma.dist(2.0, x), Y),
    lambda x: pm.logp(pm.Weibull.dist(1.5, x), Y),
    lambda x: pm.logp(pm.Laplace.dist(0.1, x), Y),
    lambda x: pm.logp(pm.Poisson.dist(x), COUNTS),
    lambda x: pm.logp(pm.Bernoulli.dist(x), CHOICES),
    lambda x: pm.logp(pm.Binomial.dist(5, x), COUNTS),
    lambda x: pm.logp(pm.Geometric.dist(x), COUNTS + 1),
    lambda x: A * pt.log(x) - x,
    lambda x: pt.sum(A * x) - A * x,
)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "least"), [("gamma", 6), ("inverse gamma", 6), ("beta", 3)])
def test_what_is_proved_is_linear_in_numbers(family: str, least: int) -> None:
    """Random densities of random functions of φ, and sums of two; as many are proved as are now."""
    choose, proved = random.Random(5), 0
    for _ in range(30):
        phi = scalar()
        terms = []
        for _ in range(choose.choice((1, 1, 2))):
            argument = 1 / phi if family == "inverse gamma" else phi
            for _ in range(choose.choice((0, 1, 1, 2))):
                argument = choose.choice(SPELLINGS)(argument)
            terms.append(pt.sum(choose.choice(DENSITIES)(argument)))
        graph = pt.add(*terms) if len(terms) > 1 else terms[0]
        if is_linear(graph, phi, family):
            proved += 1
            assert largest_misfit(graph, phi, family) < 1e-8
    assert proved >= least


# --- named ------------------------------------------------------------------------------------------------------------

LINEAR: dict[str, tuple[str, Function]] = {
    "precision as sd": ("gamma", lambda x: DENSITIES[0](x**-0.5)),
    "variance through exp and log": ("inverse gamma", lambda x: DENSITIES[0](pt.exp(0.5 * pt.log(x)))),
    "odds": ("beta", lambda x: DENSITIES[8]((x / (1 - x)) / (1 + x / (1 - x)))),
    "logit": ("beta", lambda x: DENSITIES[8](pt.sigmoid(pt.log(x) - pt.log1p(-x)))),
    "fourth root of a fourth power": ("gamma", lambda x: ((A * x) ** 4) ** 0.25 - A * x),
    "absolute value of a multiple": ("gamma", lambda x: abs(A * x)),
    "a constant condition": ("gamma", lambda x: pt.switch(x > -1, x, x**2)),
    "a cumulative sum": ("gamma", lambda x: pt.cumsum(A * x)),
    "added in place": ("gamma", lambda x: pt.inc_subtensor((A * x)[1:], pt.log(x))),
    "covariance": (
        "inverse gamma",
        lambda x: pm.logp(pm.MvNormal.dist(np.zeros(2), x * np.array([[2.0, 0.5], [0.5, 1.0]])), Y[:2]),
    ),
}
NOT_LINEAR: dict[str, tuple[str, Function]] = {
    "a kink": ("gamma", lambda x: -abs(x - 3.0)),
    "a kink in a square root": ("gamma", lambda x: -pt.sqrt((x - 3.0) ** 2)),
    "a kink in a fourth root": ("gamma", lambda x: -(((x - 3.0) ** 4) ** 0.25)),
    "a kink in half a logarithm": ("gamma", lambda x: -pt.exp(0.5 * pt.log((x - 3.0) ** 2))),
    "a kink in a product of roots": ("gamma", lambda x: -pt.sqrt((x - 3) * (x + 1)) * pt.sqrt((x - 3) / (x + 1))),
    "powers of either sign": ("gamma", lambda x: ((A * x**2) ** 4) ** 0.25 - A * x**2),
    "a bend of 1e-9": ("gamma", lambda x: -x - 1e-9 * x**2),
    "a bend of 1e-9 in an exponent": ("gamma", lambda x: -(x ** (1 + 1e-9))),
    "a bend of 1e-12 in a variance": ("inverse gamma", lambda x: DENSITIES[0](pt.sqrt(x + 1e-12))),
    "a far switch": ("gamma", lambda x: pt.switch(x > 1e8, 0.0, -x)),
    "a far indicator": ("gamma", lambda x: -x + (x > 1e8)),
    "a constant added in place": ("gamma", lambda x: DENSITIES[7](pt.inc_subtensor((x * np.ones(4))[1:], 1e-9))),
    "a square added in place": ("gamma", lambda x: pt.inc_subtensor((A * x)[1:], -1e-9 * x**2)),
    "a far bound": ("gamma", lambda x: -pt.minimum(x, 1e9)),
    "a look-up": ("gamma", lambda x: -x + pt.as_tensor(A)[pt.cast(x > 1e6, "int64")]),
    "an index of conditions": ("gamma", lambda x: pt.switch(pt.as_tensor(A > 0)[pt.cast(x, "int64")], x, -x)),
    "an assertion": ("gamma", lambda x: -Assert("small")(x, x < 1e3)),
    "a hidden gradient": ("gamma", lambda x: -x - disconnected_grad(x**2)),
    "a constant gradient": ("gamma", lambda x: disconnected_grad(x**1.5)),
    "a square less its own sum": ("gamma", lambda x: A * x**2 - pt.sum(A * x**2)),
    "a square less three times it": ("gamma", lambda x: x**2 - pt.sum(np.ones(3) * x**2)),
    "a sum of reciprocals": ("gamma", lambda x: -(9.0 + A + x) * x * pt.sum(1 / (9.0 + A + x))),
    "a square less its cumulative sum": ("gamma", lambda x: A * x**2 - pt.cumsum(A * x**2)),
    "a probability doubled": ("beta", lambda x: DENSITIES[8](2 * x)),
    "a probability clipped": ("beta", lambda x: DENSITIES[8](pt.clip(x, 1e-9, 1 - 1e-9))),
    "a determinant of a sum": (
        "inverse gamma",
        lambda x: pm.logp(pm.MvNormal.dist(np.zeros(2), x * np.eye(2) + np.array([[1.0, 0.5], [0.5, 1.0]])), Y[:2]),
    ),
}


@pytest.mark.parametrize("name", LINEAR)
def test_spellings_of_a_conjugate_density_are_proved(name: str) -> None:
    family, function = LINEAR[name]
    phi = scalar()
    graph = function(phi)
    assert is_linear(graph, phi, family)
    assert largest_misfit(graph, phi, family) < 1e-8


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_near_misses_are_refused(name: str) -> None:
    family, function = NOT_LINEAR[name]
    phi = scalar()
    assert not is_linear(function(phi), phi, family)


VECTOR: dict[str, tuple[bool, Function]] = {
    "entries by index": (True, lambda x: pt.sum(A * pt.log(x[[0, 2, 2]]) - x[[0, 2, 2]])),
    "entries joined": (True, lambda x: pt.concatenate([x[1:], 2 * x[:1]])),
    "an entry replaced": (True, lambda x: pt.log(pt.set_subtensor(x[1], 2.0))),
    "a matrix product": (True, lambda x: -pt.sum(A * x) - pt.cumsum(x)),
    "two entries multiplied": (False, lambda x: x[0] * x[1]),
    "an entry over another": (False, lambda x: x / x[::-1]),
    "logarithm of a sum": (False, lambda x: pt.log(pt.sum(x))),
    "entries in order of size": (False, lambda x: x[pt.argsort(x)]),
    "a square less the same moved": (False, lambda x: x**2 - x[::-1] ** 2 + x[[0, 0, 0]] ** 2),
    "the largest": (False, lambda x: pt.max(x)),
}


@pytest.mark.parametrize("name", VECTOR)
def test_entries_of_a_vector(name: str) -> None:
    expected, function = VECTOR[name]
    phi = pt.vector("phi", shape=(3,), dtype="float64")
    assert is_linear(pt.sum(function(phi)), phi, "gamma") is expected


def test_signs_over_the_support() -> None:
    for unit in (False, True):
        symbols = Symbols(BY_NAME["beta" if unit else "gamma"].support)
        phi, a = symbols.view(()), symbols.atom(("some", "key"))
        assert fixed_sign(symbols, a * phi**2) and fixed_sign(symbols, phi + 1) and fixed_sign(symbols, -phi - 2)
        assert not fixed_sign(symbols, phi - sympy.Rational(1, 2)) and not fixed_sign(symbols, phi - a)
        assert fixed_sign(symbols, phi - 1) is unit and fixed_sign(symbols, 1 - phi) is unit
        assert magnitude(symbols, phi) == phi and magnitude(symbols, -phi) == phi
        assert magnitude(symbols, phi - 1) == (1 - phi if unit else sympy.Abs(phi - 1))
        assert magnitude(symbols, a) == sympy.Abs(a)


@pytest.mark.slow
def test_long_sums_under_a_root_are_left_unfactored_and_refused() -> None:
    """The variances of a GARCH process are polynomials in all that came before; to factorise them takes minutes."""
    y = np.random.default_rng(0).normal(size=24)
    with pm.Model() as model:
        level, slope = pm.HalfNormal("level", 5.0), pm.Uniform("slope", 0.0, 1.0)
        variances = [level]
        for last in y[:-1]:
            variances.append(level + 0.1 * last**2 + slope * variances[-1])
        pm.Normal("y", 0.0, pm.math.sqrt(pm.math.stack(variances)), observed=y)
    assert bk.explain(model).remaining == ("level", "slope")


def test_a_long_sum_of_multiples_is_still_taken_apart() -> None:
    weights = np.random.default_rng(1).uniform(0.5, 1.5, size=24)
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2.0, 1.0)
        pm.Poisson("y", sum(float(w) * rate for w in weights), observed=30)
    posterior = bk.infer(model, draws=4, random_seed=1)
    scale = 1.0 / (1.0 + weights.sum())
    exact = stats.nbinom(2, scale).logpmf(30)
    assert posterior.method == "exact"
    assert posterior.log_evidence.value == pytest.approx(exact, abs=1e-10)
