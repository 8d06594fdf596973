"""Kernels of notebooks that begin where imports end: copies of one process that has imported and answered a model.

That process is the server of :mod:`multiprocessing`'s start method ``forkserver``: it has one thread, and no name or
state of a notebook. A kernel of its own would import for three seconds, five notebooks for fifteen; processes that
import the library themselves are those of ``test_recipes`` and ``test_cli``.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from typing import Any

INLINE = "module://matplotlib_inline.backend_inline"


class ForkedKernel:
    """A process with the methods that Jupyter's client asks of :class:`subprocess.Popen`."""

    stdin = stdout = stderr = None

    def __init__(self, command: list[str], cwd: str, env: dict[str, str]) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["warm_process"])
        self._process = context.Process(target=_run_kernel, args=(command[command.index("-f") :], cwd, env))
        self._process.start()
        self.pid = self._process.pid or 0
        while os.getpgid(self.pid) != self.pid:  # Jupyter ends a kernel by a signal to its group
            time.sleep(0.01)

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int | None:
        self._process.join(timeout)
        return self.poll()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


def launch(command: list[str], *, cwd: str, env: dict[str, str], **_: Any) -> ForkedKernel:
    """In place of ``jupyter_client.launcher.launch_kernel``."""
    return ForkedKernel(command, cwd, env)


def _run_kernel(arguments: list[str], cwd: str, env: dict[str, str]) -> None:
    import matplotlib
    import pandas as pd
    from ipykernel.kernelapp import IPKernelApp

    os.setsid()
    os.chdir(cwd)
    os.environ.update(env)
    # What the two find in a kernel as they are imported.
    matplotlib.rcParams["backend"] = INLINE
    pd.set_option("display.max_columns", 20)
    IPKernelApp.launch_instance(argv=arguments)
