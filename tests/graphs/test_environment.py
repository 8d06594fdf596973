"""The settings under which graphs are built are the process's own, whoever leaves them last."""

from __future__ import annotations

import gc

import pytensor

from bayeskit.graphs.environment import lightly


def test_settings_come_back_when_the_last_user_leaves() -> None:
    before = pytensor.config.cxx, pytensor.config.traceback__limit, gc.isenabled()
    one, two = lightly(), lightly()  # as of two threads, the first of which is done first
    one.__enter__()
    two.__enter__()
    one.__exit__(None, None, None)
    assert pytensor.config.cxx == ""
    two.__exit__(None, None, None)
    assert (pytensor.config.cxx, pytensor.config.traceback__limit, gc.isenabled()) == before
