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


# Runs each of its arguments in a process of its own, that has imported numba and what compiles, and nothing compiled.
EACH = """
import os, sys
import bayeskit.graphs.numba_functions
assert "bayeskit.finite.chain_arithmetic" not in sys.modules
for code in sys.argv[1:]:
    sys.stdout.flush()
    child = os.fork()
    if not child:
        exec(code, {"__name__": "__main__"})
        sys.stdout.flush()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit("failed: " + code)
"""


def said(cache: Path, *codes: str, path: str = "") -> list[str]:
    """What several processes print, one after the other, which keep what they compile in one place."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)} | ({"PYTHONPATH": path} if path else {})
    command = [sys.executable, "-B", "-c", EACH, *codes]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.slow
def test_sums_are_compensated_though_the_caller_reorders_its_own(tmp_path: Path) -> None:
    assert len(COMPILED) > 20
    assert said(tmp_path, FIRST, FIRST) == ["1.0", "-inf", "-inf"] * 2  # compiled, then from the disk


@pytest.mark.slow
def test_the_cache_notices_that_a_function_in_another_file_has_changed(tmp_path: Path) -> None:
    (tmp_path / "outer.py").write_text(
        "import inner\nfrom bayeskit.graphs.numba_functions import as_written\n\n"
        "@as_written(inner.__file__)\ndef value():\n    return inner.value()\n"
    )
    inner = (
        "from bayeskit.graphs.numba_functions import as_written\n\n@as_written()\ndef value():\n    return {number}\n"
    )
    codes = []
    for number in ("1.0", "2.0"):
        write = f"open({str(tmp_path / 'inner.py')!r}, 'w').write({inner.format(number=number)!r})\n"
        # Compiled, then from the disk.
        codes += [write + "import outer; print(outer.value())", "import outer; print(outer.value())"]
    assert said(tmp_path / "cache", *codes, path=str(tmp_path)) == ["1.0", "1.0", "2.0", "2.0"]


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
