"""``bayeskit reference``: what is listed, and what is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import bayeskit as bk

Run = Callable[..., tuple[int, str, str]]


def test_they_are_listed_by_name_and_group(run: Run) -> None:
    code, out, err = run("reference", "list")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == ["reference", *(r.name for r in bk.reference_posteriors())]
    code, out, _ = run("reference", "list", "coin", "--group", "funnels", "--json")
    assert code == 0
    assert [r["name"] for r in json.loads(out)["references"]][:2] == ["coin", "funnel_of_2"]


def test_an_export_has_a_file_of_each_kind(run: Run, tmp_path: Path) -> None:
    code, out, err = run("reference", "export", "coin", "which_urn", "--to", str(tmp_path / "a" / "b"))
    assert (code, out, err) == (0, f"2 references: {(tmp_path / 'a' / 'b').as_posix()}\n", "")
    assert {p.stem for p in (tmp_path / "a" / "b" / "posteriors").iterdir()} == {"coin", "which_urn"}
    assert {p.suffix for p in (tmp_path / "a" / "b" / "netcdf").iterdir()} == {".nc"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("export", "coins", "--to", "new"), ["'coins'", "coin, two_coins", "reference list"]),
        (("list", "--group", "funnel"), ["'funnel'", "funnels"]),
        (("export", "coin"), ["--to"]),
        (("export", "coin", "--to", "file"), ["cannot write the reference posterior file/posteriors/coin.json"]),
        ((), ["ACTION", "--help"]),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    code, out, err = run("reference", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert all(word in err for word in words), err
    assert [path.name for path in tmp_path.rglob("*")] == ["file"]
