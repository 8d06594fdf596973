"""The reference posteriors: their names, and answers that agree with sums over a grid and with SciPy's formulas."""

from __future__ import annotations

import pickle
from collections import Counter

import pytest

import bayeskit as bk
from bayeskit.errors import OptionError
from bayeskit.validation import ReferencePosterior

REFERENCES = bk.reference_posteriors()
GROUPS = {
    "conjugate": 10,
    "scales": 8,
    "correlation": 7,
    "heavy tails": 8,
    "funnels": 7,
    "curves": 12,
    "mixtures": 7,
    "constrained": 14,
    "hierarchies": 9,
    "chains": 7,
    "high dimension": 7,
    "discrete": 7,
}


def the(name: str) -> ReferencePosterior:
    (found,) = bk.reference_posteriors([name])
    return found


def test_names_are_unique_and_every_group_is_there() -> None:
    names = [reference.name for reference in REFERENCES]
    assert len(set(names)) == len(names) >= 100
    assert all(name.isidentifier() for name in names)
    number = Counter(reference.group for reference in REFERENCES)
    assert list(number) == list(GROUPS)
    assert all(number[group] >= least for group, least in GROUPS.items())
    about = [reference.about for reference in REFERENCES]
    assert len(set(about)) == len(about)
    assert all(text.endswith(".") and "\n" not in text for text in about)


def test_they_are_chosen_by_name_and_group_in_a_fixed_order() -> None:
    funnels = bk.reference_posteriors(groups=["funnels"])
    assert {r.group for r in funnels} == {"funnels"}
    assert bk.reference_posteriors(["funnel_of_5", "coin"]) == (the("coin"), the("funnel_of_5"))
    assert bk.reference_posteriors(["coin"], ["funnels"]) == (the("coin"), *funnels)
    assert bk.reference_posteriors([]) == ()
    assert pickle.loads(pickle.dumps(REFERENCES)) == REFERENCES
    with pytest.raises(OptionError, match="names: there is no 'coins'; there are coin, two_coins"):
        bk.reference_posteriors(["coins"])
    with pytest.raises(OptionError, match="groups: there is no 'funnel'; there are funnels"):
        bk.reference_posteriors(groups=["funnel"])


def test_discrete_ones_say_so() -> None:
    assert all(reference.discrete for reference in bk.reference_posteriors(groups=["discrete"]))
    assert not any(reference.discrete for reference in bk.reference_posteriors(groups=["mixtures", "chains"]))
