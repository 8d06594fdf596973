"""What an evaluation of a density takes, and what NUTS would take for the same posterior."""

from __future__ import annotations

import time

import numpy as np

from bayeskit.model.unconstrained import Unconstrained

__all__ = ["seconds_of_evaluation", "seconds_of_sampling"]

# What NUTS takes: seconds whatever the model is, and gradients that cost as much as so many evaluations of a density of
# which each number takes so long. A density that PyTensor's Python loops through takes far longer here than compiled.
SECONDS, GRADIENTS, NUMBER = 10.0, 240_000, 6e-8
ENOUGH, MANY = 0.05, 1024  # seconds and evaluations by which one is measured: a call takes milliseconds of its own
LEAP = 32  # times as many evaluations that follow a call of less than half of that time


def seconds_of_sampling(seconds: float, work: int, among: int = 1) -> float:
    """By NUTS, of a density of which one of many evaluations takes so long, and computes with ``work`` numbers.

    What it takes whatever the model is, is shared ``among`` independent blocks, which are sampled together.
    """
    return SECONDS / among + GRADIENTS * min(seconds, NUMBER * work)


def seconds_of_evaluation(space: Unconstrained) -> float:
    """What one of many evaluations of a density takes: of this thread's time, which other processes take none of."""
    space.log_density(space.start)  # compiled
    number = 1
    while True:
        started = time.thread_time()
        space.log_density(np.repeat(space.start[None], number, axis=0))
        if (taken := time.thread_time() - started) > ENOUGH or number >= MANY:
            return taken / number
        number *= LEAP if taken < ENOUGH / 2 else 4
