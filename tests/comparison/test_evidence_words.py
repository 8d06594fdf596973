"""The words of Kass and Raftery (1995), at their borders and where an error reaches over one."""

from __future__ import annotations

import math

import pytest

from bayeskit.comparison.evidence_words import evidence_words


@pytest.mark.parametrize(
    ("twice", "word"),
    [
        (0.0, "not worth more than a bare mention"),
        (1.99, "not worth more than a bare mention"),
        (2.01, "positive"),
        (5.99, "positive"),
        (6.01, "strong"),
        (9.99, "strong"),
        (10.01, "very strong"),
        (math.inf, "very strong"),
    ],
)
def test_words_are_those_of_the_table(twice: float, word: str) -> None:
    assert evidence_words(twice / 2) == evidence_words(-twice / 2) == word


def test_an_error_that_reaches_over_a_border_leaves_it_open() -> None:
    assert evidence_words(2.9, 0.06, sampled=True) == "positive to strong"
    assert evidence_words(2.9, 0.06) == "positive"
    assert evidence_words(2.9, 0.2) == "positive to strong"
    assert evidence_words(0.1, 3.0) == "not worth more than a bare mention to strong"
    assert evidence_words(math.nan) == evidence_words(1.0, math.inf) == "unknown"
