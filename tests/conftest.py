"""Settings for the whole suite: figures without a screen, property tests that give the same cases every time, and small
matrices on one thread."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import pytest
from hypothesis import HealthCheck, settings

from bayeskit.compiling import on_one_thread

matplotlib.use("Agg")

# No deadline: a test's time is a property of the machine. Derandomised: a failure must come back when it is run again.
settings.register_profile(
    "bayeskit", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("bayeskit")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    with on_one_thread():
        yield
