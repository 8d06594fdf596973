"""The shares that slow tests are run in."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import turns
from hypothesis import given
from hypothesis import strategies as st


def _item(path: str, name: str, case: str | None, slow: bool) -> Any:
    marks = {"slow": pytest.mark.slow.mark} if slow else {}
    item = SimpleNamespace(nodeid=f"tests/{path}.py::{name}[{case}]", get_closest_marker=marks.get)
    if case is not None:
        item.callspec = SimpleNamespace(id=case)
    return item


items = st.lists(
    st.builds(
        _item,
        st.sampled_from(["test_a", "test_b", "test_c"]),
        st.sampled_from(["test_one", "test_two"]),
        st.none() | st.sampled_from("pqrstu"),
        st.booleans(),
    ),
    max_size=40,
)


@given(items, st.integers(0, 10_000))
def test_every_slow_test_has_one_turn_and_every_other_has_all(tests: list[Any], first: int) -> None:
    runs = [turns.split(tests, first + n) for n in range(turns.TURNS)]
    for item in tests:
        times = sum(any(item is one for one in now) for now, _ in runs)
        assert times == (1 if item.get_closest_marker("slow") else turns.TURNS)
    for now, later in runs:
        assert len(now) + len(later) == len(tests)


@given(items, st.integers(0, 10_000))
def test_a_case_of_a_file_stays_together_and_shares_are_even(tests: list[Any], turn: int) -> None:
    def cases(part: list[Any], path: str) -> set[str]:
        slow = [item for item in part if item.get_closest_marker("slow") and item.nodeid.startswith(path)]
        return {item.callspec.id if hasattr(item, "callspec") else item.nodeid for item in slow}

    now, later = turns.split(tests, turn)
    for path in ("tests/test_a", "tests/test_b", "tests/test_c"):
        ours, others = cases(now, path), cases(later, path)
        assert not ours & others
        assert abs(len(ours) - len(ours | others) / turns.TURNS) < 1


def test_what_has_one_word_has_one_turn() -> None:
    tests = [_item("test_a", f"test_{k}", None, False) for k in range(20)]
    for item in tests:
        item.get_closest_marker = {"slow": pytest.mark.slow("recipe").mark}.get
    assert sorted(len(turns.split(tests, n)[0]) for n in range(turns.TURNS)) == [0] * (turns.TURNS - 1) + [20]


def test_a_run_by_hand_has_all_and_says_so() -> None:
    assert turns.header(None) == "slow tests: all"
    assert turns.header(10) == "slow tests: share 3 of 8; make test-all runs all"


def test_what_make_runs_is_a_share_and_the_whole() -> None:
    text = (Path(__file__).parents[1] / "Makefile").read_text(encoding="utf-8")
    recipes = {name: text.partition(f"\n{name}: $(STAMP)\n\t")[2].split("\n")[0] for name in ("test", "test-all")}
    assert recipes == {"test": "$(PYTEST) --turn $(TURN)", "test-all": "$(PYTEST)"}
