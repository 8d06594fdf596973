"""Settings for the whole suite: figures without a screen, no C compiler, property tests that give the same cases every
time, small matrices on one thread, and as many processes as there are cores."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import arviz_base  # noqa: F401 (before all others: it reads the source of every frame of the stack, in all modules so far)
import matplotlib
import pytensor
import pytest
import turns
from hypothesis import HealthCheck, settings

from bayeskit.graphs.environment import available_cpus, on_one_thread

matplotlib.use("Agg")
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of the processes that tests start, beside those that run other tests
gc.disable()  # while a hundred modules are imported, all of which stays; see light_garbage_collection

# Where PyMC's own functions are asked what a density is, once each, g++ would be most of the time.
pytensor.config.cxx = ""
# Nor does a test read where in the source each variable of a graph was made.
pytensor.config.traceback__limit = 0

# No deadline: a test's time is a property of the machine. Derandomised: a failure must come back when it is run again.
settings.register_profile(
    "bayeskit", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("bayeskit")

WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
MOST_WORKERS = 8  # each needs a gigabyte of memory
# The files that take most: one of them, begun last, would be waited for by all other processes.
LONGEST = (
    "test_notebook",
    "test_clusters",
    "test_native",
    "test_sums",
    "test_other_data",
    "test_remainder",
    "test_supervised",
    "test_exact",
    "test_collapsed_model",
    "test_em",
    "test_convergence",
    "test_exchangeable",
    "test_softened",
    "test_calibration",
    "test_models_finite",
    "test_cli",
    "test_em_chunks",
    "test_given_states",
    "test_observation_space",
    "test_quadrature",
    "test_latent",
    "test_bridge",
    "test_recipes",
    "test_demo",
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """What ``-n auto`` means: the CPUs that this process may use, two threads of one core being two."""
    return min(available_cpus(), MOST_WORKERS)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Every second process reads the files from the last to the first, and finds the other half compiled by another.

    Compiling the assertions of all files takes ten seconds, and all processes would do it at the same time.
    """
    report = yield
    if isinstance(collector, pytest.Dir | pytest.Package) and WORKER % 2:
        report.result.reverse()
    return report


def pytest_addoption(parser: pytest.Parser) -> None:
    turns.add_option(parser)


def pytest_report_header(config: pytest.Config) -> str:
    return turns.header(config.getoption("turn"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (turn := config.getoption("turn")) is not None:
        items[:], later = turns.split(items, turn)
        config.hook.pytest_deselected(items=later)

    def place(item: pytest.Item) -> tuple[int, Path]:
        return LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST), item.path

    items.sort(key=place)  # whichever way they were read


@pytest.fixture(scope="session", autouse=True)
def interrupts_are_heard() -> None:
    """A shell has what it starts in the background ignore Ctrl-C: a test that presses it would wait for ever."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    with on_one_thread():
        yield


@pytest.fixture(scope="session", autouse=True)
def light_garbage_collection() -> Iterator[None]:
    """What was imported stays: the collector need not walk through its million objects after every small graph.

    Nor need it at the end, where pytest collects five times over, lest the failure of a finaliser go unseen: what one
    collection leaves is no garbage.
    """
    gc.collect()
    gc.freeze()
    # By default a young collection follows every 2,000 objects, and a whole one soon after: nothing frozen is counted.
    # Elimination and results: 79 s with it, 70 s with 100,000. What a graph leaves is in cycles: with 400,000 the rows
    # of two families in test_other_data take 0.7 s less of 42, and 20 MB more.
    gc.set_threshold(400_000, 20, 100)
    gc.enable()
    yield
    gc.collect()
    gc.freeze()
