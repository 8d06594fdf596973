"""The demonstration: one model end to end, the index and exit code, the Wishart prior in Bartlett's decomposition."""

from __future__ import annotations

import multiprocessing
import os
import signal
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from threading import Timer

import numpy as np
import pytest
from scipy import stats

from bayeskit.cli import demo
from bayeskit.errors import BayeskitError
from bayeskit.graphs.processes import in_processes
from bayeskit.models import MODELS, load_model
from bayeskit.results.records import LogEvidence

OUTCOME = demo.Outcome(
    model="normal",
    data="cavendish",
    method="exact",
    log_evidence=LogEvidence(0.841, 1e-13, "exact"),
    certificate=1e-13,
    agreement="pass (largest |z| 0.68, 6 tests)",
    passed=True,
    page="normal.html",
)


class Links(HTMLParser):
    """The pages that a page leads to."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.targets += [str(value) for key, value in attrs if tag == "a" and key == "href"]


@pytest.fixture(scope="module")
def normal(tmp_path_factory: pytest.TempPathFactory) -> tuple[demo.Outcome, str]:
    """One model's outcome in this process, and its page."""
    folder = tmp_path_factory.mktemp("demo") / "new"
    outcome = demo.run_model("normal", folder, random_seed=20260101)
    return outcome, (folder / outcome.page).read_text(encoding="utf-8")


@pytest.mark.slow
def test_one_model_end_to_end(normal: tuple[demo.Outcome, str]) -> None:
    outcome, page = normal
    assert (outcome.model, outcome.data, outcome.method) == ("normal", "cavendish", "exact")
    assert outcome.passed
    assert outcome.agreement.startswith("pass (largest |z| ")
    assert outcome.certificate < 1e-8
    # The closed form of the module's docstring, in SciPy: a multivariate Student-t of the data.
    y = demo.example_data(demo.load_model("normal").EXAMPLE, demo.load_model("normal").VARIABLES)["y"].to_numpy()
    shape = (0.1 / 2.0) * (np.eye(y.size) + 1 / 0.1)
    exact = stats.multivariate_t(np.full(y.size, 5.0), shape, df=4.0).logpdf(y)
    assert outcome.log_evidence.value == pytest.approx(exact, rel=1e-9)
    assert "A sampler against the closed form" in page
    assert "Cavendish" in page


def test_evidence_is_shown_with_the_digits_it_has() -> None:
    shown = [
        demo._evidence(LogEvidence(*parts))
        for parts in [(0.841, 1e-13, "exact"), (-3.25, 1e-9, "quadrature"), (-642.75123, 0.0042, "estimated")]
    ]
    assert shown == ["0.841000", "-3.250000", "-642.751 ± 0.004"]
    assert demo._evidence(LogEvidence(float("nan"), float("inf"), "estimated", "no draws")) == "–"


def stand_in(monkeypatch: pytest.MonkeyPatch, passed: bool) -> None:
    """Every model's outcome without its inference, which the test above is about."""

    def run_model(name: str, output: Path, *, random_seed: int) -> demo.Outcome:
        return replace(OUTCOME, model=name, page=f"{name}.html", passed=passed or name != "normal")

    monkeypatch.setattr(demo, "run_model", run_model)


@pytest.mark.slow
def test_processes_give_the_same(normal: tuple[demo.Outcome, str], tmp_path: Path) -> None:
    """A model in a process of its own, against the same in this process; two at once are told apart elsewhere."""
    one = partial(demo.run_model, output=tmp_path, random_seed=20260101)
    ((name, outcome),) = in_processes(one, ("normal",), 2)
    assert (name, outcome) == ("normal", normal[0])
    assert (tmp_path / outcome.page).read_text(encoding="utf-8") == normal[1]


def test_an_error_in_a_process_is_raised_here() -> None:
    with pytest.raises(BayeskitError, match="no model 'nothing'"):
        list(in_processes(load_model, ("nothing",), 2))


def test_an_interrupt_ends_the_processes_without_a_word(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """From the terminal it goes to all of them, also while they are starting."""

    def press() -> None:
        for process in (*multiprocessing.active_children(), multiprocessing.current_process()):
            os.kill(process.pid or 0, signal.SIGINT)

    Timer(0.4, press).start()
    with pytest.raises(KeyboardInterrupt):
        list(in_processes(partial(demo.run_model, output=tmp_path, random_seed=1), ("normal", "normal"), 2))
    assert not multiprocessing.active_children()
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("passed", "code"), [(True, 0), (False, 1)])
def test_table_index_and_exit_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], passed: bool, code: int
) -> None:
    stand_in(monkeypatch, passed)
    assert demo.run(tmp_path / "reports", random_seed=1, progressbar=False, workers=1) == code
    printed = capsys.readouterr().out
    assert all(f"{name} " in printed for name in (*MODELS, "model", "exact"))
    links = Links()
    links.feed((tmp_path / "reports" / "index.html").read_text(encoding="utf-8"))
    assert links.targets == [f"{name}.html" for name in MODELS]


def test_folder_that_cannot_be_written_is_refused_first(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BayeskitError, match="cannot write"):
        demo.run(tmp_path / "file" / "reports", progressbar=False)
