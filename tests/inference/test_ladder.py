"""The ladder of methods: what applies, who is asked next when one fails, and what is said of it."""

from __future__ import annotations

import math
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import cloudpickle
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from cases import CASES
from near_misses import NEAR_MISSES
from remainder_cases import REMAINDERS

import bayeskit as bk
from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.plan import analyse
from bayeskit.errors import CertificateError, InferenceError, UnanswerableError
from bayeskit.inference import methods
from bayeskit.inference.methods import METHODS, Method, Request, method_names
from bayeskit.marginal_likelihood.quasi_monte_carlo.adaptation import NoProposal
from bayeskit.results.records import LogEvidence, Posterior

Y = np.array([0.3, -0.2, 1.1])


def conjugate() -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean"), 1.0, observed=Y)
    return model


def one_scale() -> pm.Model:
    """One number remains, and the mean is integrated out given it."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean"), pm.HalfNormal("sigma"), observed=Y)
    return model


def failing(monkeypatch: pytest.MonkeyPatch, home: str, error: BaseException) -> list[str]:
    """Let the methods of a module raise; who is asked is listed."""
    asked: list[str] = []
    module = sys.modules.get(home) or __import__(home, fromlist=["answer"])

    def raising(request: Request) -> Posterior:
        asked.append(request.analysis.plan.method)
        raise error

    monkeypatch.setattr(module, "answer", raising)
    return asked


def answering(monkeypatch: pytest.MonkeyPatch, home: str) -> list[Request]:
    """Let the methods of a module answer at no cost; what they are asked is listed."""
    requests: list[Request] = []
    module = sys.modules.get(home) or __import__(home, fromlist=["answer"])

    def answer(request: Request) -> Posterior:
        requests.append(request)
        evidence, tree = LogEvidence(math.nan, math.inf, "estimated"), xr.DataTree()
        plan = request.analysis.plan
        return Posterior(request.model, plan, evidence, plan.method, math.nan, tree)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "answer", answer)
    return requests


EXACT, QUADRATURE, IMPORTANCE, ENTRYWISE, LATENT, NUTS, AS_WRITTEN = (method.home for method in METHODS)
FAILURES = [
    ValueError("operands could not be broadcast"),
    np.linalg.LinAlgError("5-th leading minor not positive definite"),
    MemoryError("Unable to allocate 9.00 GiB"),
    ZeroDivisionError("division by zero"),
    InferenceError("the mode was not found"),
]


@pytest.mark.parametrize("error", FAILURES, ids=lambda e: type(e).__name__)
def test_any_failure_hands_over_with_a_note(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    failing(monkeypatch, QUADRATURE, error)
    failing(monkeypatch, IMPORTANCE, NoProposal("no mode of the density was found"))
    requests = answering(monkeypatch, NUTS)
    post = bk.infer(one_scale(), random_seed=1)
    note, other = post.plan.notes
    assert note.startswith("quadrature was tried: ")
    assert note.endswith("NUTS on the collapsed model was used")
    assert other == (
        "importance sampling was tried: no mode of the density was found; NUTS on the collapsed model was used"
    )
    assert str(error) in note
    assert isinstance(error, bk.BayeskitError) or type(error).__name__ in note
    assert f"note: {note}" in str(post.plan)
    assert post.method == post.plan.method == "nuts"
    assert [step.variables for step in post.plan.eliminated] == [("mean",)]
    assert len(requests) == 1


def test_a_failed_certificate_is_noted_loudly_and_its_closed_form_used_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, QUADRATURE, CertificateError("the certificate failed: 0.3 nats"))
    asked = failing(monkeypatch, NUTS, AssertionError("it uses the same closed form"))
    asked_too = failing(monkeypatch, IMPORTANCE, AssertionError("it uses the same closed form"))
    answering(monkeypatch, AS_WRITTEN)
    with pytest.warns(UserWarning, match="NUTS on the model as written was used, for the certificate failed"):
        post = bk.infer(one_scale(), random_seed=1)
    assert not asked and not asked_too
    assert post.plan.eliminated == () and post.plan.remaining == ("mean", "sigma")
    assert "the certificate failed: 0.3 nats" in post.plan.notes[0]


@pytest.mark.slow
def test_an_exact_answer_that_fails_is_sampled_as_written() -> None:
    """The certificate is made to fail; NUTS answers, and its draws are those of the closed form."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bayeskit.inference.exact.certify", _wrong)
        with pytest.warns(UserWarning, match="certificate failed"):
            post = bk.infer(conjugate(), draws=2000, random_seed=1, progressbar=False)
        with pytest.raises(CertificateError, match="certificate failed"):
            bk.infer(conjugate(), method="exact", draws=4, random_seed=1)
    assert post.method == "nuts" and post.plan.eliminated == () and math.isnan(post.certificate)
    exact = stats_of_the_mean()
    draws = post.tree["posterior"]["mean"].to_numpy()
    assert draws.mean() == pytest.approx(exact[0], abs=6 * exact[1] / math.sqrt(500))


def _wrong(*_: object) -> float:
    raise CertificateError("the certificate failed")


def stats_of_the_mean() -> tuple[float, float]:
    """Prior Normal(0, 1), unit variances: precision n + 1."""
    precision = len(Y) + 1
    return Y.sum() / precision, precision**-0.5


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=lambda e: type(e).__name__)
def test_interrupts_are_never_caught(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    for home in (EXACT, QUADRATURE, IMPORTANCE, NUTS, AS_WRITTEN):
        failing(monkeypatch, home, error)
    for build in (conjugate, one_scale):
        with pytest.raises(type(error)):
            bk.infer(build(), random_seed=1)


@pytest.mark.parametrize("error", FAILURES, ids=lambda e: type(e).__name__)
def test_the_last_failure_is_an_error_with_advice(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    tried = QUADRATURE, IMPORTANCE, NUTS
    for home in (*tried, AS_WRITTEN):
        failing(monkeypatch, home, error)
    with pytest.raises(InferenceError, match=str(error)) as caught:
        bk.infer(one_scale(), random_seed=1)
    if not isinstance(error, bk.BayeskitError):
        assert caught.value.__cause__ is error
        assert type(error).__name__ in str(caught.value) and "try another method=" in str(caught.value)
    assert [n.partition(" was tried")[0] for n in caught.value.__notes__] == [
        m.title for m in METHODS if m.home in tried
    ]


@pytest.mark.parametrize(("name", "home"), [("exact", EXACT), ("quadrature", QUADRATURE), ("importance", IMPORTANCE)])
def test_a_forced_method_that_fails_hands_over_to_none(monkeypatch: pytest.MonkeyPatch, name: str, home: str) -> None:
    failing(monkeypatch, home, ArithmeticError("overflow"))
    model = conjugate() if name == "exact" else one_scale()
    advice = "use method='nuts'" if name != "exact" else "try another method="
    with pytest.raises(InferenceError, match=f"no answer by {name}: ArithmeticError: overflow; {advice}"):
        bk.infer(model, method=name, random_seed=1)


def test_forced_sampling_hands_over_to_the_model_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, NUTS, NotImplementedError("no graph"))
    answering(monkeypatch, AS_WRITTEN)
    post = bk.infer(one_scale(), method="nuts", random_seed=1)
    assert "NotImplementedError: no graph; NUTS on the model as written was used" in post.plan.notes[0]


def test_an_improper_posterior_is_not_handed_to_a_sampler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Potential takes away more precision than prior and data give: NUTS would draw from nothing."""
    asked = failing(monkeypatch, AS_WRITTEN, AssertionError("asked"))
    with pm.Model() as model:
        mean = pm.Normal("mean")
        pm.Normal("y", mean, 1.0, observed=Y)
        pm.Potential("pull", 2.5 * mean**2)
    with pytest.raises(UnanswerableError, match="not positive definite"):
        bk.infer(model, random_seed=1)
    assert not asked


def test_impossible_data_are_not_handed_to_a_sampler(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = failing(monkeypatch, AS_WRITTEN, AssertionError("asked"))
    with pm.Model() as model:
        coin = pm.Bernoulli("coin", 0.5)
        pm.Binomial("y", 2, 0.25 + 0.5 * coin, observed=3)
    with pytest.raises(UnanswerableError, match="data are impossible"):
        bk.infer(model, random_seed=1)
    assert not asked


TABLES: dict[str, Callable[[], pm.Model]] = {
    **{f"case: {case.name}": case.build for case in CASES[::19]},
    **{f"near-miss: {miss.name}": miss.build for miss in NEAR_MISSES[::14]},
    **{f"remainder: {case.name}": case.build for case in REMAINDERS[::5]},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_explain_names_the_method_that_infer_asks_first(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    model = TABLES[name]()
    for method in METHODS:
        answering(monkeypatch, method.home)
    plan, post = bk.explain(model), bk.infer(model, random_seed=1)
    assert str(plan) == str(post.plan)
    assert plan.method == post.method
    assert (plan.method == "exact") == (not plan.remaining)
    assert str(plan).startswith(f"method: {plan.method}\n")


def test_explain_names_the_method_after_one_that_is_too_dear() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((20_000, 3))
    with pm.Model() as model:
        pm.Poisson("y", pm.math.exp(x @ pm.Normal("w", shape=3)), observed=rng.poisson(1.0, 20_000))
    plan = bk.explain(model)
    assert plan.method == "importance" and plan.outlook.startswith("w will be integrated by importance sampling")
    assert "quadrature will not do: over 3 real numbers it would take longer than sampling" in plan.notes


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.title)
def test_an_obstacle_says_what_to_do(method: Method) -> None:
    """A model for which each rung is no use, and the words of it."""
    models = {EXACT: one_scale, QUADRATURE: conjugate, IMPORTANCE: conjugate, NUTS: conjugate}
    models |= {ENTRYWISE: conjugate, LATENT: conjugate}
    if method.home == AS_WRITTEN:
        assert not method.obstacle(analyse(conjugate()))
        return
    obstacle = method.obstacle(analyse(models[method.home]()))
    assert obstacle
    other = next(m for m in methods.ladder() if not m.obstacle(analyse(models[method.home]())))
    assert f"method={other.name!r}" in obstacle or "HalfNormal" in obstacle or "sigma" in obstacle


def test_a_method_is_one_module_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Added between quadrature and NUTS, it is named by explain, asked by infer, and offered by the command line."""
    module = ModuleType("harmonic_guess")

    def obstacle(analysis: Analysis) -> str:
        return "" if "sigma" in analysis.plan.remaining else "it is for sigma"

    def answer(request: Request) -> Posterior:
        asked = METHODS[1].answer(request)
        return replace(asked, log_evidence=replace(asked.log_evidence, label="estimated"))

    vars(module).update(obstacle=obstacle, answer=answer)
    monkeypatch.setitem(sys.modules, "harmonic_guess", module)
    line = Method("guess", "a guess", "harmonic_guess", "It was guessed.", "{} will be guessed.")
    monkeypatch.setattr(methods, "METHODS", (METHODS[0], line, *METHODS[1:]))
    assert method_names() == ("auto", "exact", "guess", "quadrature", "importance", "nuts")
    plan = bk.explain(one_scale())
    assert plan.method == "guess" and str(plan).endswith("sigma will be guessed.")
    post = bk.infer(one_scale(), draws=40, random_seed=1)
    assert (post.method, post.log_evidence.label, post.account) == ("guess", "estimated", "It was guessed.")
    assert bk.explain(conjugate()).method == "exact"
    with pytest.raises(bk.BayeskitError, match="it is for sigma"):
        bk.infer(conjugate(), method="guess")
    from bayeskit.cli.arguments import parser

    assert parser().parse_args(["infer", "normal", "--method", "guess"]).method == "guess"


def test_seeds_are_those_that_pymc_takes() -> None:
    for make in (lambda: 3, lambda: [1, 2, 3, 4], lambda: np.random.default_rng(1), lambda: np.int64(3)):
        one, two = (bk.infer(conjugate(), draws=4, random_seed=make()).tree["posterior"].to_dataset() for _ in range(2))
        assert one.equals(two)
    assert bk.infer(conjugate(), draws=4).random_seed != bk.infer(conjugate(), draws=4).random_seed


@pytest.mark.parametrize("seed", ["x", -1, True, 1.5, [1, -2]])
def test_what_is_no_seed_is_refused_by_name(seed: Any) -> None:
    with pytest.raises(bk.BayeskitError, match="random_seed is"):
        bk.infer(conjugate(), draws=4, random_seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("build", [conjugate, one_scale])
def test_a_posterior_may_be_sent_to_another_process(build: Callable[[], pm.Model]) -> None:
    post = bk.infer(build(), draws=20, random_seed=1)
    other = cloudpickle.loads(cloudpickle.dumps(post))
    assert other.log_evidence == post.log_evidence
    assert other.summary().equals(post.summary())
    again, new = (bk.infer(p.analysis.with_data({"y": Y + 1}), draws=20, random_seed=1) for p in (post, other))
    assert new.log_evidence.value == again.log_evidence.value


@pytest.mark.parametrize("wrapped", [False, True])
def test_what_the_handler_of_a_signal_raises_is_no_failure_of_a_method(
    monkeypatch: pytest.MonkeyPatch, wrapped: bool
) -> None:
    class Alarm(Exception):
        pass

    def alarm(*_: object) -> None:
        raise Alarm("time is up")

    def answer(request: Request) -> Posterior:
        try:
            signal.raise_signal(signal.SIGTERM)
        except Alarm as error:
            if not wrapped:
                raise
            raise ValueError("in other words") from error
        raise AssertionError

    monkeypatch.setattr(sys.modules["bayeskit.inference.exact"], "answer", answer)
    before = signal.signal(signal.SIGTERM, alarm)
    try:
        with pytest.raises(Alarm, match="time is up"):
            bk.infer(conjugate(), draws=10, progressbar=False)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_time_that_was_up_before_does_not_end_the_next_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    def alarm(*_: object) -> None:
        raise TimeoutError("an earlier one")

    failing(monkeypatch, "bayeskit.inference.exact", ValueError("fails"))
    asked = answering(monkeypatch, AS_WRITTEN)
    before = signal.signal(signal.SIGTERM, alarm)
    try:
        signal.raise_signal(signal.SIGTERM)
    except TimeoutError:
        bk.infer(conjugate(), draws=10, progressbar=False)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert asked


def test_a_time_out_that_no_signal_raised_is_one_methods_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a server that a Potential asks, say."""
    failing(monkeypatch, "bayeskit.inference.exact", TimeoutError("no answer from the server"))
    asked = answering(monkeypatch, AS_WRITTEN)
    bk.infer(conjugate(), draws=10, progressbar=False)
    assert asked
