"""Settings for the whole suite: figures without a screen, and property tests that give the same cases every time."""

from __future__ import annotations

import matplotlib
from hypothesis import HealthCheck, settings

matplotlib.use("Agg")

# No deadline: a test's time is a property of the machine. Derandomised: a failure must come back when it is run again.
settings.register_profile(
    "bayeskit", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("bayeskit")
