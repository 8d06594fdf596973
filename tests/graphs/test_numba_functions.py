"""Compiled functions calculate as they are written, whoever calls them first, and have one version each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bayeskit.finite import chain_arithmetic, forward_backward, sequences, state_paths
from bayeskit.finite import hmm as chains
from bayeskit.gaussian import banded_solve as banded

MODULES = (banded, chain_arithmetic, forward_backward, state_paths, sequences)
COMPILED = [(m.__name__, name) for m in MODULES for name, f in vars(m).items() if hasattr(f, "targetoptions")]

# Sums that a graph of PyTensor may reorder, and a function that it calls.
FIRST = """
import numba
import numpy as np
from bayeskit.finite.chain_arithmetic import compensated_sum

@numba.njit(fastmath={"arcp", "contract", "afn", "reassoc", "nsz"})
def outer(values):
    return compensated_sum(values)

for values in ([1e16, 1.0, -1e16], [-np.inf, -np.inf], [0.0, -np.inf, 1.0]):
    print(outer(np.array(values)))
"""


@pytest.mark.parametrize(("module", "name"), COMPILED)
def test_no_option_is_left_to_the_caller(module: str, name: str) -> None:
    options = getattr(sys.modules[module], name).targetoptions
    assert options["fastmath"] is False and options["error_model"] == "python"


def test_sums_are_compensated_though_the_caller_reorders_its_own(tmp_path: Path) -> None:
    assert len(COMPILED) > 20
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    for _ in range(2):  # compiled, then from the disk
        found = subprocess.run(
            [sys.executable, "-c", FIRST], env=environment, capture_output=True, text=True, check=True
        )
        assert found.stdout.split() == ["1.0", "-inf", "-inf"]


def test_the_cache_notices_that_a_function_in_another_file_has_changed(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    (tmp_path / "outer.py").write_text(
        "import inner\nfrom bayeskit.graphs.numba_functions import as_written\n\n"
        "@as_written(inner.__file__)\ndef value():\n    return inner.value()\n"
    )
    for number in ("1.0", "2.0"):
        (tmp_path / "inner.py").write_text(
            "from bayeskit.graphs.numba_functions import as_written\n\n"
            f"@as_written()\ndef value():\n    return {number}\n"
        )
        for _ in range(2):  # compiled, then from the disk
            command = [sys.executable, "-B", "-c", "import outer; print(outer.value())"]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            assert done.stdout.split() == [number]


def test_each_function_has_one_version() -> None:
    rng = np.random.default_rng(0)
    for steps, time_varying in ((5, False), (5, True), (1, False)):
        likelihood = rng.normal(size=(2, steps, 3))
        transition = np.log(rng.dirichlet(np.ones(3), size=(steps - 1 if time_varying else 1, 3)))
        for initial in (np.log(rng.dirichlet(np.ones(3))), np.log(np.full((1, 3), 1 / 3))[:, ::-1]):
            arguments = (np.broadcast_to(initial, (2, 3)), transition, likelihood[:, :, ::-1])
            chains.log_evidence(*arguments)
            chains.filter_states(*arguments)
            chains.smooth_states(*arguments)
            chains.most_likely_states(*arguments)
            chains.draw_states(*arguments, rng)
    for module, name in COMPILED:
        assert len(getattr(sys.modules[module], name).signatures) <= 1, name
