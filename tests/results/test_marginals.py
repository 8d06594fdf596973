"""What may be asked of a marginal posterior."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from bayeskit.errors import BayeskitError, DataError, OptionError
from bayeskit.results.marginals import Marginal

MARGINAL = Marginal("b", stats.norm([0.0, 2.0], [1.0, 3.0]), "normal", ("q",), {"q": ["x", "y"]})


def test_an_interval_is_scipys() -> None:
    low, high = MARGINAL.interval(0.95)
    np.testing.assert_allclose(high, [1.959964, 2 + 3 * 1.959964], rtol=1e-6)
    np.testing.assert_allclose(low, [-1.959964, 2 - 3 * 1.959964], rtol=1e-6)
    assert MARGINAL.interval(0)[0].tolist() == [0.0, 2.0]
    assert np.isinf(MARGINAL.interval(1)).all()


@pytest.mark.parametrize(
    ("given", "error"), [(95, OptionError), (-0.1, OptionError), (np.nan, OptionError), ("x", DataError)]
)
def test_a_probability_is_from_zero_to_one(given: Any, error: type[BayeskitError]) -> None:
    for asked in (MARGINAL.interval, MARGINAL.ppf):
        with pytest.raises(error, match=r"0.95 for 95 %" if error is OptionError else "not numbers"):
            asked(given)
