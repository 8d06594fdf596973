"""Hidden Markov models at fixed parameters: forward–backward and Viterbi, side by side with hmmlearn; long sequences.

Gaussian emissions, whose log likelihood is computed beforehand for both. hmmlearn gets it through the method that its
emission models override, and is called by its public ``score_samples`` and ``decode``. The bar is the faster of its two
implementations: ``scaling``, and ``log``, its default, which alone stands log likelihoods of any size, as ours does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from bars import Row, show

STEPS, STATES = 100_000, 8
LONG = (10_000, 100_000, 1_000_000)
MOST_GROWTH = 3.0


def problem(steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log π, log A, and the log likelihood of data from the model: states two standard deviations apart."""
    rng = np.random.default_rng(1)
    initial = np.full(STATES, 1 / STATES)
    transition = 0.9 * np.eye(STATES) + 0.1 * rng.dirichlet(np.ones(STATES), size=STATES)
    cumulative = np.cumsum(transition, axis=1)
    state, states = 0, np.empty(steps)
    for t, uniform in enumerate(rng.random(steps)):
        state = min(int(np.searchsorted(cumulative[state], uniform)), STATES - 1)
        states[t] = state
    y = 2 * states + rng.standard_normal(steps)
    likelihood = -0.5 * (y[:, None] - 2 * np.arange(STATES)) ** 2 - 0.5 * np.log(2 * np.pi)
    return np.log(initial), np.log(transition)[None], likelihood


def reference(initial: np.ndarray, transition: np.ndarray, implementation: str) -> Any:
    """hmmlearn's model whose observations are the log likelihoods themselves."""
    from hmmlearn.base import BaseHMM

    class Given(BaseHMM):
        def _compute_log_likelihood(self, X: np.ndarray) -> np.ndarray:
            return X

    model = Given(n_components=STATES, implementation=implementation)
    model.startprob_, model.transmat_ = np.exp(initial), np.exp(transition[0])
    return model


def fastest(functions: dict[str, Callable[[], Any]], turns: int = 5, times: int = 3) -> dict[str, float]:
    """Shortest time of each.

    They take turns, so that whatever else the machine does falls on all of them alike; a turn is a few calls, so that
    none of them pays for the memory that the others have returned to the system.
    """
    seconds = dict.fromkeys(functions, np.inf)
    for _ in range(turns):
        for name, function in functions.items():
            for _ in range(times):
                start = time.perf_counter()
                function()
                seconds[name] = min(seconds[name], time.perf_counter() - start)
    return seconds


def side_by_side(functions: dict[str, Callable[[], Any]]) -> list[Row]:
    seconds = fastest(functions)
    least = min(value for name, value in seconds.items() if name.startswith("hmmlearn"))
    return [
        Row(
            name,
            {"ms": f"{1e3 * value:.1f}", "ns a step": f"{1e9 * value / STEPS:.0f}", "ratio": f"{value / least:.2f}"},
            "<= 1" if name == "bayeskit" else "",
            value <= least if name == "bayeskit" else None,
        )
        for name, value in seconds.items()
    ]


def forward_backward() -> list[Row]:
    from bayeskit.finite import hmm as chains

    arguments = problem(STEPS)
    scaling, log = (reference(*arguments[:2], name) for name in ("scaling", "log"))
    ours = chains.smooth_states(*arguments)
    np.testing.assert_allclose(ours, log.score_samples(arguments[2])[1], atol=1e-8)
    return side_by_side(
        {
            "bayeskit": lambda: chains.smooth_states(*arguments),
            "hmmlearn, scaling": lambda: scaling.score_samples(arguments[2]),
            "hmmlearn, log": lambda: log.score_samples(arguments[2]),
        }
    )


def viterbi() -> list[Row]:
    from bayeskit.finite import hmm as chains

    arguments = problem(STEPS)
    model = reference(*arguments[:2], "log")
    np.testing.assert_array_equal(chains.most_likely_states(*arguments).states, model.decode(arguments[2])[1])
    return side_by_side(
        {
            "bayeskit": lambda: chains.most_likely_states(*arguments),
            "hmmlearn": lambda: model.decode(arguments[2]),
        }
    )


def long_sequences() -> list[Row]:
    from bayeskit.finite import hmm as chains

    rows, first = [], 0.0
    for steps in LONG:
        arguments = problem(steps)
        seconds = fastest({"": lambda a=arguments: chains.smooth_states(*a)}, turns=1, times=4)[""]  # type: ignore[misc]
        first = first or seconds / steps
        growth = seconds / steps / first
        last = steps == LONG[-1]
        rows.append(
            Row(
                f"{steps:,} steps",
                {"ms": f"{1e3 * seconds:.1f}", "ns a step": f"{1e9 * seconds / steps:.0f}"},
                f"cost a step does not grow (< {MOST_GROWTH:g} times)" if last else "",
                growth < MOST_GROWTH if last else None,
            )
        )
    return rows


def show_all() -> bool:
    """Print every table; True if every bar holds."""
    size = f"{STEPS:,} steps and {STATES} states"
    held = [
        show(f"Forward–backward, {size}", forward_backward()),
        show(f"Viterbi, {size}", viterbi()),
        show(f"Forward–backward, {STATES} states", long_sequences()),
    ]
    return all(held)


def main() -> None:
    show_all()


if __name__ == "__main__":
    main()
