"""The command line: ``bayeskit models | explain | infer | compare | validate | trial | report | reference | demo``.

Exit codes: 0, done; 1, a check failed (a validation, a sampler on trial, or a certificate); 2, something the user can
mend; 130, Ctrl-C. What is not done is said in one line on stderr. Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from bayeskit.cli.arguments import parser
from bayeskit.cli.commands import CHECK_FAILED, COMMANDS, DONE
from bayeskit.cli.rendering import json_alone
from bayeskit.errors import BayeskitError, InferenceError, UnanswerableError
from bayeskit.terminal import interruptible

__all__ = ["main"]

USER_ERROR, INTERRUPTED = 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, with the arguments of the process by default, and give its exit code."""
    try:
        with interruptible(), _quiet():
            arguments = parser().parse_args(argv)
            with json_alone() if getattr(arguments, "json", False) else nullcontext():
                code = COMMANDS[arguments.command](arguments)
            sys.stdout.flush()
            return code
    except BayeskitError as error:
        theirs = isinstance(error, UnanswerableError) or not isinstance(error, InferenceError)
        return _ended(str(error), USER_ERROR if theirs else CHECK_FAILED)
    except OSError as error:
        # What standard output still holds would be tried again, and complained of, when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return DONE  # the reader of a pipe has had enough (`bayeskit models | head`)
        return _ended(f"the system refused: {error}", USER_ERROR)
    except KeyboardInterrupt:
        print("bayeskit: interrupted", file=sys.stderr)
        return INTERRUPTED
    finally:
        if argv is None:  # the process has said all that it has to say
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _ended(why: str, code: int) -> int:
    print(f"bayeskit: error: {' '.join(why.split())}", file=sys.stderr)
    return code


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep PyMC from telling on stderr what it is about to sample; warnings still get through."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.INFO))
    try:
        with warnings.catch_warnings():
            # PyTensor knows constants by their sums.
            warnings.filterwarnings("ignore", "overflow encountered in reduce", RuntimeWarning)
            yield
    finally:
        logging.disable(before)
