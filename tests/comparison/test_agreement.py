"""Whether estimates agree: by their errors, bounds first, for the two that are farthest apart."""

from __future__ import annotations

import math

import pytest

from bayeskit.comparison.agreement import Estimate, SecondOpinion, side_by_side, verdict_of
from bayeskit.results.records import LogEvidence


def said(**rows: tuple[float, float, str]) -> str:
    return verdict_of(side_by_side({name: Estimate(LogEvidence(*row)) for name, row in rows.items()}))


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        ({"exact": (1.0, 1e-12, "exact"), "bridge": (1.03, 0.01, "estimated")}, "agree"),
        ({"exact": (1.0, 1e-12, "exact"), "bridge": (1.05, 0.01, "estimated")}, "disagree by 5 standard errors"),
        ({"bridge": (1.0, 0.3, "estimated"), "smc": (4.0, 0.4, "estimated")}, "disagree by 6 standard errors"),
        ({"quadrature": (1.0, 1.0, "quadrature"), "bridge": (2.3, 0.1, "estimated")}, "agree"),
        ({"quadrature": (1.0, 1e-6, "quadrature"), "exact": (1.1, 1e-9, "exact")}, "disagree by"),
        ({"exact": (-1e5, 0.0, "exact"), "quadrature": (-1e5 - 1e-5, 0.0, "quadrature")}, "agree"),
        ({"bridge": (math.nan, math.inf, "estimated"), "smc": (4.0, 0.4, "estimated")}, "only smc has a number"),
        ({"bridge": (math.nan, math.inf, "estimated")}, "no estimator has a number"),
    ],
)
def test_verdict(rows: dict[str, tuple[float, float, str]], verdict: str) -> None:
    assert said(**rows).startswith(verdict)


def test_the_two_farthest_apart_are_named() -> None:
    rows = {"a": (0.0, 0.1, "estimated"), "b": (0.1, 0.1, "estimated"), "c": (3.0, 0.1, "estimated")}
    assert said(**rows) == "disagree by 21 standard errors (a and c)"


def test_a_reason_of_several_is_read_once() -> None:
    long = "the prior of mu is not known to be normalised"
    rows = {n: Estimate(LogEvidence(math.nan, math.inf, "estimated", long)) for n in ("bridge", "laplace", "smc")}
    rows["nested"] = Estimate(LogEvidence(math.nan, math.inf, "estimated", "no dynesty"))
    found = SecondOpinion(side_by_side(rows), "no estimator has a number")
    for text in (str(found), found._repr_html_()):
        assert text.count(long) == 1 and text.count("as bridge") == 2 and "no dynesty" in text
    assert (found.table["reason"][:3] == long).all()


def test_what_is_printed_has_the_table_the_verdict_and_the_notes() -> None:
    table = side_by_side({"exact": Estimate(LogEvidence(-1.5, 1e-9, "exact"), 0.25, 12)})
    text = str(SecondOpinion(table, verdict_of(table), "the density of a", "over both labellings", ("look",)))
    for part in ("-1.5000", "0.25", "12", "only exact", "integral of the density of a", "over both labellings", "look"):
        assert part in text
