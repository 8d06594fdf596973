"""Which covariances are taken for Matérn processes on the line: the same density as PyMC's, and near-misses."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from matern_shapes import SHAPES
from pytensor.graph.traversal import ancestors
from scipy.stats import multivariate_normal, norm

import bayeskit as bk
from bayeskit.elimination.collapsed_density import collapsed_density
from bayeskit.elimination.collapsed_model import collapsed_model
from bayeskit.elimination.plan import analyse
from bayeskit.graphs.compile import compile_small, small_mode
from bayeskit.graphs.matern.bound import bound_of_filters
from bayeskit.graphs.matern.softened import TOLERANCE
from bayeskit.graphs.matern.whitening import MaternWhitening
from bayeskit.graphs.rewriting import widen
from bayeskit.marginal_likelihood.conventions import audit
from bayeskit.marginal_likelihood.sampled import Drawn
from bayeskit.marginal_likelihood.symmetries import symmetries_of
from bayeskit.model.left_out import bound_of_left_out
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.matern_normal import distances_not_softened
from bayeskit.model.unconstrained import Unconstrained
from bayeskit.results.log_evidence import LogEvidence

N = 24
RNG = np.random.default_rng(3)
X = RNG.uniform(-2.0, 4.0, N)  # in no order, with ties
X[5], X[9] = X[3], X[3]
COLUMN = X[:, None]
Y = np.sin(X) + 0.3 * RNG.normal(size=N)
cov = pm.gp.cov


def _marginal(kernel, inputs=COLUMN, y=Y, noise=None, **options):
    with pm.Model() as model:
        eta, ls, sigma = pm.HalfNormal("eta"), pm.InverseGamma("ls", 3.0, 3.0), pm.HalfNormal("sigma")
        gp = pm.gp.Marginal(cov_func=kernel(eta, ls), **options)
        data = inputs() if callable(inputs) else inputs
        gp.marginal_likelihood("y", data, y, sigma=sigma if noise is None else noise(sigma))
    return model


def _taken(joint, factor="y"):
    return any(v.owner and isinstance(v.owner.op, MaternWhitening) for v in ancestors([joint.factors[factor]]))


def _as_pymc_has_it(model, joint, written_out=None):
    """The density against PyMC's own, at a few points; and its gradient against that of a density written out.

    PyMC squares places before it subtracts them: of the distance of a place from itself rounding leaves 10⁻¹³, which
    over a softened distance of 10⁻⁶ is 10⁻⁷ in a covariance. Its gradient was off by 6·10⁻⁵ on one machine, differences
    of its density by 5·10⁻⁶ on another, where ours was off by 10⁻⁹ from fifty digits.
    """
    free = list(joint.values.values())
    ours = compile_small(free, [joint.total, *(pt.grad(joint.total, free) if written_out else [])])
    values = [model.rvs_to_values[rv] for rv in model.free_RVs]  # logarithms
    theirs = compile_small(values, widen([model.logp(jacobian=False)])[0])
    for point in ([0.7, 0.9, 0.3], [2.0, 0.2, 0.05], [0.4, 30.0, 1.1]):
        at = np.array(point[-len(free) :])
        found, expected = ours(*map(np.asarray, at)), theirs(*np.log(at))
        np.testing.assert_allclose(found[0], expected, rtol=1e-8)
        if not written_out:
            continue
        np.testing.assert_allclose(_marginal_density(written_out, at).real, expected, rtol=1e-8)
        # Slopes along the imaginary axis: with so small a step there is no truncation, and no difference to round.
        slopes = [_marginal_density(written_out, at + 1e-30j * one).imag / 1e-30 for one in np.eye(3)]
        np.testing.assert_allclose(found[1:], slopes, rtol=1e-8, atol=1e-8)


def _marginal_density(kernel, at):
    """The density of :func:`_marginal`, of complex numbers too, with distances |x − x'| softened as PyMC has them."""
    eta, ls, sigma = at

    def process(order, length):
        return SHAPES[order](np.sqrt((2 * order - 1) * (((X[:, None] - X) / length) ** 2 + 1e-12)))

    covariance = kernel(eta, ls, process) + (sigma**2 + 1e-6) * np.eye(N)
    sign, log_size = np.linalg.slogdet(covariance)
    total = -0.5 * (Y @ np.linalg.solve(covariance, Y) + np.log(sign) + log_size + N * np.log(2.0 * np.pi))
    total += np.log(2.0 / np.pi) - 0.5 * (eta**2 + sigma**2)  # two half-normals
    return total + 3.0 * np.log(3.0) - np.log(2.0) - 4.0 * np.log(ls) - 3.0 / ls  # an inverse gamma


KERNELS = {
    "matern12": lambda eta, ls: eta**2 * cov.Matern12(1, ls=ls),
    "exponential": lambda eta, ls: eta**2 * cov.Exponential(1, ls=ls),
    "matern32": lambda eta, ls: eta**2 * cov.Matern32(1, ls=ls),
    "matern52": lambda eta, ls: eta**2 * cov.Matern52(1, ls=ls),
    "inverse length": lambda eta, ls: cov.Matern52(1, ls_inv=ls) * eta,
    "length by a function": lambda eta, ls: eta * cov.Matern32(1, ls=pt.exp(ls / 10.0)),
    "fixed": lambda eta, ls: eta * ls * cov.Matern32(1, ls=0.7),
    "sum": lambda eta, ls: eta * (cov.Matern12(1, ls=2.0 * ls) + 0.5 * cov.Matern52(1, ls=ls)),
    "constant and white noise": lambda eta, ls: cov.Matern32(1, ls=ls) + cov.Constant(eta) + cov.WhiteNoise(0.1 * eta),
}


WRITTEN_OUT = {
    "matern12": lambda eta, ls, process: eta**2 * process(1, ls),
    "matern32": lambda eta, ls, process: eta**2 * process(2, ls),
    "matern52": lambda eta, ls, process: eta**2 * process(3, ls),
    "sum": lambda eta, ls, process: eta * (process(1, 2.0 * ls) + 0.5 * process(3, ls)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_taken_and_as_pymc_has_it(name):
    model = _marginal(KERNELS[name])
    joint = LogJoint.from_model(model)
    assert _taken(joint)
    _as_pymc_has_it(model, joint, WRITTEN_OUT.get(name))


INPUTS = {
    "data": lambda: pm.Data("x", COLUMN),
    "shifted data": lambda: (pm.Data("x", 3.0 * COLUMN + 1.0) - 1.0) / 3.0,
    "in order": np.sort(COLUMN, axis=0),
    "whole numbers": np.arange(N)[:, None],
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_of_any_kind(name):
    model = _marginal(KERNELS["matern32"], INPUTS[name])
    joint = LogJoint.from_model(model)
    assert _taken(joint)
    _as_pymc_has_it(model, joint)


def test_a_covariance_that_was_written_out():
    with pm.Model() as model:
        ls, sigma = pm.HalfNormal("ls"), pm.HalfNormal("sigma")
        kernel = cov.Matern32(1, ls=ls)(COLUMN)
        pm.MvNormal("y", np.linspace(-1.0, 1.0, N), 1.5 * kernel + sigma**2 * pt.eye(N) + 0.1 * np.eye(N), observed=Y)
    joint = LogJoint.from_model(model)
    assert _taken(joint)
    _as_pymc_has_it(model, joint)


NEAR_MISSES = {
    "smooth": lambda eta, ls: eta * cov.ExpQuad(1, ls=ls),
    "periodic": lambda eta, ls: eta * cov.Periodic(1, period=2.0, ls=ls),
    "rational quadratic": lambda eta, ls: eta * cov.RatQuad(1, alpha=0.5, ls=ls),
    "product": lambda eta, ls: cov.Matern12(1, ls=ls) * cov.Matern32(1, ls=eta),
    "product of equal ones": lambda eta, ls: eta * cov.Matern12(1, ls=ls) * cov.Matern12(1, ls=ls),
    "linear, too": lambda eta, ls: eta * cov.Matern32(1, ls=ls) + cov.Linear(1, c=0.0),
    "power": lambda eta, ls: eta * cov.Matern12(1, ls=ls) ** 1.5,
    "length by place": lambda eta, ls: eta * cov.Gibbs(1, lambda x, ls: ls + 0.1 * x**2, (ls,)),
    "warped": lambda eta, ls: eta * cov.WarpedInput(1, cov.Matern32(1, ls=1.0), lambda x, ls: pt.tanh(x * ls), (ls,)),
    "scaled by place": lambda eta, ls: cov.ScaledCov(1, cov.Matern32(1, ls=ls), lambda x, b: b + x**2, (eta,)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_keep_their_matrix(name):
    model = _marginal(NEAR_MISSES[name])
    joint = LogJoint.from_model(model)
    assert not _taken(joint)
    _as_pymc_has_it(model, joint)


def test_two_columns_keep_their_matrix():
    both = np.column_stack([X, X[::-1]])
    for kernel in (
        lambda eta, ls: eta * cov.Matern32(2, ls=ls),
        lambda eta, ls: eta * cov.Matern32(2, ls=[ls, 1.0]),
    ):
        joint = LogJoint.from_model(_marginal(kernel, both))
        assert not _taken(joint)


def test_one_column_of_two_is_taken():
    both = np.column_stack([X, X[::-1]])
    model = _marginal(lambda eta, ls: eta * cov.Matern32(2, ls=ls, active_dims=[1]), both)
    joint = LogJoint.from_model(model)
    assert _taken(joint)
    _as_pymc_has_it(model, joint)


def test_columns_that_differ_keep_their_matrix():
    both = np.column_stack([X, X[::-1]])

    def kernel(eta, ls):
        return eta * cov.Matern32(2, ls=ls, active_dims=[0]) + cov.Matern32(2, ls=1.0, active_dims=[1])

    assert not _taken(LogJoint.from_model(_marginal(kernel, both)))


@pytest.mark.parametrize("name", ["level", "v"])
def test_what_has_a_closed_form_keeps_its_matrix(name):
    with pm.Model() as model:
        level = pm.Normal("level", 0.0, 3.0) if name == "level" else 0.5
        v = pm.InverseGamma("v", 3.0, 1.0) if name == "v" else 0.7
        kernel = cov.Matern32(1, ls=1.0)(pm.Data("x", COLUMN))
        pm.MvNormal("y", level + 0.0 * Y, v * (kernel + 0.1 * np.eye(N)), observed=Y)
    assert not _taken(LogJoint.from_model(model))
    assert bk.explain(model).method == "exact"


def test_a_process_that_is_not_observed_keeps_its_matrix():
    with pm.Model() as model:
        f = pm.MvNormal("f", np.zeros(N), cov.Matern32(1, ls=1.0)(COLUMN) + 1e-6 * np.eye(N))
        pm.Poisson("y", pt.exp(f), observed=np.ones(N))
    assert not _taken(LogJoint.from_model(model), "f")


@pytest.mark.parametrize("sigma", [0.0, 1e-9])
def test_the_same_place_twice_without_noise_is_told_as_such(sigma):
    with pm.Model() as model:
        gp = pm.gp.Marginal(cov_func=cov.Matern32(1, ls=pm.HalfNormal("ls")))
        gp.marginal_likelihood("y", COLUMN, Y, sigma=sigma, jitter=0.0)
    with pytest.raises(bk.BayeskitError, match="the same input twice, without noise"):
        bk.infer(model, progressbar=False)


def test_with_all_numbers_given_the_evidence_is_exact():
    with pm.Model() as model:
        gp = pm.gp.Marginal(cov_func=1.3 * cov.Matern52(1, ls=0.8))
        gp.marginal_likelihood("y", COLUMN, Y, sigma=0.3)
    u = np.sqrt(5.0) * np.abs(X[:, None] - X) / 0.8
    matrix = 1.3 * (1.0 + u + u**2 / 3.0) * np.exp(-u) + (0.09 + 1e-6) * np.eye(N)
    post = bk.infer(model, progressbar=False)
    assert post.log_evidence.label == "exact"
    np.testing.assert_allclose(post.log_evidence.value, multivariate_normal(np.zeros(N), matrix).logpdf(Y), rtol=1e-9)


def test_the_evidence_is_that_of_the_matrix(monkeypatch):
    with pm.Model() as model:
        gp = pm.gp.Marginal(cov_func=1.3 * cov.Matern32(1, ls=pm.InverseGamma("ls", 3.0, 3.0)))
        gp.marginal_likelihood("y", COLUMN, Y, sigma=0.3)
    fast = bk.infer(model, progressbar=False, random_seed=1)
    monkeypatch.setattr("bayeskit.model.derivation.without_matern_matrices", lambda variables, *_: variables)
    slow = bk.infer(model, progressbar=False, random_seed=1)
    assert fast.method == slow.method == "quadrature"
    both = fast.log_evidence.error + slow.log_evidence.error
    np.testing.assert_allclose(fast.log_evidence.value, slow.log_evidence.value, atol=both + 1e-8)


@pytest.mark.slow
def test_many_places_need_no_matrix_and_what_needs_one_is_refused_by_name():
    n = 30_000
    x = np.sort(RNG.uniform(0.0, 300.0, n))
    y = np.sin(x)
    model = _marginal(KERNELS["matern12"], x[:, None], y)
    joint = LogJoint.from_model(model)
    found = joint.logp({"eta": 1.2, "ls": 2.0, "sigma": 0.3})
    # An Ornstein-Uhlenbeck process whose noise is nearly nothing is an autoregression.
    assert np.isfinite(found)
    with pytest.raises(bk.BayeskitError, match=r"'y' needs a matrix of 30,000 rows, which takes 7 GB; only Matérn"):
        LogJoint.from_model(_marginal(NEAR_MISSES["smooth"], x[:, None], y))
    with pytest.raises(bk.BayeskitError, match=r"'y' needs a matrix of 30,000 rows, which takes 7 GB; draw"):
        bk.infer(_marginal(lambda eta, ls: cov.Matern12(1, ls=1.0), x[:, None], y, noise=lambda s: 0.3)).predict({})


def _distance(x, x_row):
    return pt.abs(x - x_row)


def _between(function):
    """Distances of a function of the places, taken from a vector, so that no column stands above it."""
    return lambda x: pt.abs(function(x)[:, None] - function(x)[None, :])


BENT = {
    "on a circle": lambda x: 3.0 - pt.abs(_distance(x, x.T) - 3.0),
    "up to a limit": lambda x: 2.0 - pt.clip(2.0 - _distance(x, x.T), 0.0, np.inf),
    "from a place, whichever way": _between(lambda x: pt.abs(x.flatten() - 20.0)),
    "after a place": _between(lambda x: pt.clip(x.flatten() + 20.0, 0.0, np.inf)),
    "by a root": _between(lambda x: pt.sqrt(x.flatten() ** 2 + 30.0)),
    "in units of the column": lambda x: _distance(x, x.T) * pt.sum(0.0 * x + 1.0) / 9.0,
    "of a reshaped column": lambda x: pt.abs(x - x.reshape((1, N))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BENT)
@pytest.mark.parametrize("known", [True, False])
def test_distances_that_bend_elsewhere_are_not_taken(name, known):
    """They are |x − x'| at the few places that functions are compared at, and others among the data or beyond."""
    with pm.Model() as model:
        ls = pm.InverseGamma("ls", 3.0, 3.0)
        column = pt.constant(COLUMN) if known else pm.Data("x", COLUMN, shape=COLUMN.shape)
        pm.MvNormal("y", np.zeros(N), pt.exp(-pt.abs(BENT[name](column) / ls)) + 0.09 * np.eye(N), observed=Y)
    assert not _taken(LogJoint.from_model(model))


def test_a_place_that_is_infinite_is_not_taken():
    column = COLUMN.copy()
    column[2] = np.inf
    assert not _taken(LogJoint.from_model(_marginal(KERNELS["matern32"], column)))


@pytest.mark.parametrize(("kernel", "sd"), [("matern12", 1e-3), ("exponential", 0.3), ("matern32", 1e-3)])
@pytest.mark.parametrize("length", [30.0, 1e6, 1e8])
def test_distances_are_softened_as_pymc_has_them(kernel, sd, length):
    """What PyMC adds to squared distances is as large as the noise there, and not the same for all pairs of places."""
    places = np.arange(60.0)
    y = sd * RNG.normal(size=60)
    with pm.Model() as model:
        ls = pm.LogNormal("ls", np.log(length), 0.7)
        gp = pm.gp.Marginal(cov_func=KERNELS[kernel](1.0, ls))
        gp.marginal_likelihood("y", places[:, None], y, sigma=sd, jitter=0.0)
    joint = LogJoint.from_model(model)
    assert _taken(joint)
    u = np.sqrt(((places[:, None] - places) / length) ** 2 + 1e-12)
    shape = {
        "matern12": np.exp(-u),
        "exponential": np.exp(-0.5 * u),
        "matern32": (1.0 + np.sqrt(3.0) * u) * np.exp(-np.sqrt(3.0) * u),
    }[kernel]
    expected = multivariate_normal(np.zeros(60), shape + sd**2 * np.eye(60)).logpdf(y)
    bound = bound_of_filters(joint.factors["y"])
    found, left_out = compile_small(list(joint.values.values()), [joint.factors["y"], bound])(np.array(length))
    assert left_out <= TOLERANCE
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=left_out)


@pytest.mark.parametrize(("added", "taken"), [(1e-12, True), (0.0, False), (2e-12, False)])
def test_what_is_softened_otherwise_is_not_taken(added, taken):
    with pm.Model() as model:
        ls = pm.InverseGamma("ls", 3.0, 3.0)
        column = pt.constant(COLUMN)
        squared = 3.0 * (_distance(column, column.T) / ls) ** 2
        first, second = pt.sqrt(squared + 1e-12), pt.sqrt(squared + added)
        pm.MvNormal("y", np.zeros(N), (1.0 + first) * pt.exp(-second) + 0.09 * np.eye(N), observed=Y)
    assert _taken(LogJoint.from_model(model)) == taken


@pytest.mark.parametrize(
    ("kernel", "n", "said"), [("matern12", 2001, True), ("matern32", 2001, False), ("matern12", 9, False)]
)
def test_it_is_said_where_distances_are_not_softened(kernel, n, said):
    model = _marginal(KERNELS[kernel], np.arange(n)[:, None], np.zeros(n))
    notes = distances_not_softened(model, LogJoint.from_model(model).factors)
    assert bool(notes) == said
    assert all(
        note.startswith("'y': PyMC has √(u² + 10⁻¹²) for distances u in lengths, which is left out") for note in notes
    )


@pytest.mark.slow
def test_what_the_filter_leaves_out_is_in_the_error():
    """The evidence is that of PyMC's matrix within its error, of near places with little noise."""
    rng = np.random.default_rng(5)
    places = np.sort(np.concatenate([rng.uniform(0.0, 4.0, 25), 2.0 + 1e-4 * np.arange(5)]))
    with pm.Model() as model:
        gp = pm.gp.Marginal(cov_func=cov.Matern12(1, ls=pm.InverseGamma("ls", 3.0, 3.0)))
        gp.marginal_likelihood("y", places[:, None], np.sin(places) + 0.01 * rng.normal(size=30), sigma=0.02)
    joint = LogJoint.from_model(model)
    assert _taken(joint)
    post = bk.infer(model, progressbar=False, random_seed=1, draws=200)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bayeskit.model.derivation.without_matern_matrices", lambda variables, *_: variables)
        slow = bk.infer(model, progressbar=False, random_seed=1, draws=200)
    off = abs(post.log_evidence.value - slow.log_evidence.value)
    assert slow.log_evidence.error < off < post.log_evidence.error < TOLERANCE


def _two_smooth(length):
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 1.0, 60))
    y = np.sin(2.0 * x) + 0.5 * x**2 + 1e-5 * rng.normal(size=60)
    kernel = 10.0 * cov.Matern52(1, ls=2.0 * length) + 10.0 * cov.Matern52(1, ls=3.0 * length)
    pm.gp.Marginal(cov_func=kernel).marginal_likelihood("y", x[:, None], y, sigma=1e-5, jitter=0.0)


def test_a_sum_of_smooth_processes_with_little_noise_has_its_digits():
    """The filter has the covariances of each, of which next to nothing is left in that of their sum."""
    with pm.Model() as model:
        _two_smooth(pm.LogNormal("length", 0.0, 0.3))
    joint = LogJoint.from_model(model)
    assert _taken(joint)
    found = compile_small(list(joint.values.values()), joint.factors["y"])(np.array(1.1))
    given = float(model.compile_logp(vars=model.observed_RVs, mode=small_mode())({"length_log__": np.log(1.1)}))
    np.testing.assert_allclose(found, given, atol=1e-2)


def test_between_two_lengths_the_matrix_is_kept():
    """What is exact is so to rounding; a filter was off by a nat."""
    with pm.Model() as model:
        z = pm.Bernoulli("z", 0.5)
        _two_smooth(pm.math.switch(pm.math.eq(z, 1), 1.0, 1.1))
    post = bk.infer(model, progressbar=False, random_seed=1, draws=4)
    np.testing.assert_allclose(post.log_evidence.value, 443.69151, atol=5e-3)  # of forty digits
    np.testing.assert_allclose(post.marginal("z").mean(), 8.50e-5, rtol=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["matern32", "expquad"])
def test_an_observed_process_that_another_variable_reads_is_read_from_the_data(kernel, monkeypatch):
    monkeypatch.setattr("bayeskit.model.toeplitz_normal.WORTHWHILE", 4)
    z = 0.5 * Y + 0.1 * RNG.normal(size=N)
    places = COLUMN if kernel == "matern32" else np.linspace(0.0, 3.0, N)[:, None]
    of_length = {"matern32": cov.Matern32, "expquad": cov.ExpQuad}[kernel]

    def evidence(beside):
        with pm.Model() as model:
            gp = pm.gp.Marginal(cov_func=of_length(1, ls=pm.InverseGamma("ls", 3.0, 3.0)))
            y = gp.marginal_likelihood("y", places, Y, sigma=0.3)
            if beside:
                pm.Normal("z", 0.5 * y, 0.1, observed=z)
        return bk.infer(model, progressbar=False, random_seed=1, draws=100).log_evidence.value

    expected = evidence(False) + norm(0.5 * Y, 0.1).logpdf(z).sum()
    np.testing.assert_allclose(evidence(True), expected, atol=1e-7)


def test_a_length_that_a_finite_variable_chooses_is_none_to_compare_with():
    x = np.arange(5.0)[:, None]
    with pm.Model() as model:
        length = pt.stack([0.5, 2.0])[pm.Categorical("z", [0.3, 0.7])]
        pm.MvNormal("y", np.zeros(5), cov.ExpQuad(1, ls=length)(x) + 0.09 * np.eye(5), observed=np.sin(x[:, 0]))
    post = bk.infer(model, progressbar=False, draws=4)
    logs = [multivariate_normal(np.zeros(5), np.exp(-0.5 * (x - x.T) ** 2 / v**2) + 0.09 * np.eye(5)) for v in (0.5, 2)]
    expected = np.log(sum(w * one.pdf(np.sin(x[:, 0])) for w, one in zip((0.3, 0.7), logs, strict=True)))
    np.testing.assert_allclose(post.log_evidence.value, expected, rtol=1e-12)


def test_an_estimate_of_the_evidence_has_what_is_left_out_in_its_error():
    places = np.arange(60.0)
    y = 0.03 * RNG.normal(size=60)
    with pm.Model() as model:
        ls = pm.LogNormal("ls", np.log(1e3), 0.7)
        gp = pm.gp.Marginal(cov_func=KERNELS["matern12"](1.0, ls))
        gp.marginal_likelihood("y", places[:, None], y, sigma=0.03, jitter=0.0)
    analysis = analyse(model)
    space = Unconstrained(collapsed_model(collapsed_density(analysis)))
    draws = RNG.normal(np.log(1e3), 0.7, size=(2, 50, 1))
    drawn = Drawn(analysis, audit(analysis), symmetries_of(space, draws, {}, {"ls_log__": draws[..., 0]}, 0), 0)
    bound = bound_of_left_out(space, draws.reshape(100, 1))
    assert bound > 0.0
    evidence = drawn.evidence(lambda target: LogEvidence(-3.0, 0.25, "estimated"), doubted=False)
    assert evidence.error == 0.25 + bound
