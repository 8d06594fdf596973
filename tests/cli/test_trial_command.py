"""``bayeskit trial``: the scoreboard, its page, and the exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]
BROKEN = """
import numpy as np

def wider(model, seed):
    return {"chance": np.random.default_rng(seed).beta(2.0, 2.0, (4, 1000))}

def nameless(model, seed):
    return {"theta": np.zeros((4, 1000))}
"""
CASES = [("exact", 0, "right"), ("broken_one:wider", 1, "wrong"), ("broken_one:nameless", 1, "failed")]


@pytest.mark.parametrize(("sampler", "code", "verdict"), CASES)
def test_the_exit_code_says_whether_a_sampler_is_wrong(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sampler: str, code: int, verdict: str
) -> None:
    (tmp_path / "broken_one.py").write_text(BROKEN)
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.html"
    ended, out, err = run("trial", sampler, "--references", "coin", "--seed", "1", "--json", "--out", str(page))
    assert (ended, err) == (code, "")
    record = json.loads(out)
    assert [row["verdict"] for row in record["scores"]] == [verdict]
    assert record["report"] == page.as_posix()
    assert sampler in page.read_text()


def test_the_scoreboard_is_printed(run: Run) -> None:
    code, out, _ = run("trial", "exact", "--references", "coin", "--seed", "1", "--draws", "100")
    assert code == 0
    assert "4 chains of 100 draws" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("gibbs",), "no sampler 'gibbs'"), (("exact", "--references", "none"), "no reference or group 'none'")],
)
def test_what_is_not_known_is_an_error_of_one_line(run: Run, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = run("trial", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
