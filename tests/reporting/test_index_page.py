"""The index of a folder of pages: what they say of themselves, and nothing that no report wrote."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pymc as pm
import pytest

import bayeskit as bk
from bayeskit import cli
from bayeskit.errors import BayeskitError
from bayeskit.reporting.html import page


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pages, one with a doubt and a hostile title, and files that are none."""
    place = tmp_path_factory.mktemp("pages")
    options = {"sections": ["verdict", "learning"]}
    for name, mean, title in (("calm", 0.0, "Calm"), ("sub/odd", -30.0, '<script>alert("x")</script>')):
        with pm.Model() as model:
            pm.Normal("y", pm.Normal("mu", mean, 1.0), 1.0, observed=np.zeros(50))
        post = bk.infer(model, draws=200, random_seed=1, progressbar=False)
        bk.report(post, place / f"{name}.html", title=title, **options)
    (place / "other.html").write_text(page("Mine", "<p>no report</p>"))
    (place / "broken.html").write_text('<meta name="bayeskit" content="[1, 2]">')
    (place / "binary.html").write_bytes(bytes(range(256)))
    return place


def test_every_report_is_there_with_its_evidence_and_its_doubts(folder: Path) -> None:
    index = bk.report_index(folder, title="All")
    text = index.read_text(encoding="utf-8")
    assert index == folder / "index.html"
    assert text.count("<tr>") == 3  # the head, and two reports
    assert '<a href="calm.html">Calm</a>' in text
    assert '<a href="sub/odd.html">&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;</a>' in text
    assert "2 reports; in 1 there is something to distrust." in text
    assert "the data contradict the prior of mu" in text
    assert "<script" not in text and "no report" not in text
    assert bk.report_index(folder, title="All").read_text(encoding="utf-8") == text


def test_the_command_line_writes_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["index", str(folder)]) == 0
    assert capsys.readouterr().out.strip() == str(folder / "index.html")


def test_a_folder_without_reports_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BayeskitError, match="there is no report in"):
        bk.report_index(tmp_path)
    with pytest.raises(BayeskitError, match="there is no folder"):
        bk.report_index(tmp_path / "none")
    assert cli.main(["index", str(tmp_path)]) == 2
