"""What the tests of the command line share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bayeskit import cli


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command; the exit code and what it printed on stdout and stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = cli.main(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
