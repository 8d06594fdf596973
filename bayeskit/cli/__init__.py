"""The command line: ``bayeskit models | explain | infer | compare | validate | report | demo``.

Exit codes: 0, done; 1, a check failed (a validation, or a certificate); 2, something the user can mend, said in one
line on stderr. Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bayeskit.cli.arguments import parser
from bayeskit.cli.commands import CHECK_FAILED, COMMANDS, DONE
from bayeskit.errors import BayeskitError, InferenceError

__all__ = ["main"]

USER_ERROR, INTERRUPTED = 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, with the arguments of the process by default, and give its exit code."""
    try:
        arguments = parser().parse_args(argv)
        with _quiet():
            code = COMMANDS[arguments.command](arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of a pipe has had enough (`bayeskit models | head`); Python would complain again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except BayeskitError as error:
        print(f"bayeskit: error: {' '.join(str(error).split())}", file=sys.stderr)
        return CHECK_FAILED if isinstance(error, InferenceError) else USER_ERROR
    except KeyboardInterrupt:
        print("bayeskit: interrupted", file=sys.stderr)
        return INTERRUPTED


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep PyMC from telling on stderr what it is about to sample; warnings still get through."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.INFO))
    try:
        yield
    finally:
        logging.disable(before)
