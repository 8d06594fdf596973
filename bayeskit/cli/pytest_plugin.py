"""The plugin of pytest for who maintains a sampler: ``pytest --bayeskit-sampler=module:function``.

The fixture ``reference_posterior`` is each reference posterior in turn, ``bayeskit_sampler`` the one that was named.
Nothing heavy is imported before an option or a test asks for one of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from bayeskit.errors import BayeskitError, OptionError

if TYPE_CHECKING:
    from bayeskit.validation import ReferencePosterior

__all__ = [
    "bayeskit_sampler",
    "pytest_addoption",
    "pytest_configure",
    "pytest_generate_tests",
    "reference_posterior",
]

ALL = "all"
DRAWS, CHAINS, TUNE = 1000, 4, 1000  # what a sampler that bayeskit knows by name is asked for
SAMPLER = pytest.StashKey[Callable[[Any, int], Any]]()
REFERENCES = pytest.StashKey["tuple[ReferencePosterior, ...]"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The two options."""
    group = parser.getgroup("bayeskit", "samplers on reference posteriors")
    sampler = "of the fixture bayeskit_sampler: a function of (model, seed), or a name of `bayeskit trial`"
    group.addoption("--bayeskit-sampler", metavar="MODULE:FUNCTION", help=sampler)
    references = "of the fixture reference_posterior: names and groups that `bayeskit reference list` shows, or 'all'; "
    references += "by default those without discrete variables"
    group.addoption("--bayeskit-references", metavar="NAME,...", help=references)


def pytest_configure(config: pytest.Config) -> None:
    """What the options name, or the error of one line that says what is wrong with them."""
    try:
        # An empty text is what the shell makes of a variable that is not set: every test would be skipped.
        if (text := config.getoption("--bayeskit-sampler")) is not None:
            config.stash[SAMPLER] = _sampler(text)
        if (text := config.getoption("--bayeskit-references")) is not None:
            config.stash[REFERENCES] = _references(text)
    except BayeskitError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each reference, one after the other in every file, for an answer is made once."""
    if "reference_posterior" in metafunc.fixturenames:
        stash = metafunc.config.stash
        chosen = stash[REFERENCES] if REFERENCES in stash else _references(None)
        metafunc.parametrize("reference_posterior", chosen, ids=str, indirect=True, scope="session")


@pytest.fixture(scope="session")
def reference_posterior(request: pytest.FixtureRequest) -> ReferencePosterior:
    """A model whose posterior is known: ``build()``, ``posterior``, ``summary()``; those of --bayeskit-references."""
    reference: ReferencePosterior = request.param
    return reference


@pytest.fixture(scope="session")
def bayeskit_sampler(pytestconfig: pytest.Config) -> Callable[[Any, int], Any]:
    """The function (model, seed) of --bayeskit-sampler."""
    if SAMPLER not in pytestconfig.stash:
        pytest.skip("no sampler is named: pytest --bayeskit-sampler=module:function")
    return pytestconfig.stash[SAMPLER]


def _sampler(text: str) -> Callable[[Any, int], Any]:
    from bayeskit.sampling.named_samplers import Settings, contenders

    _import_quietly()  # before the module of the sampler imports PyMC
    (sampler,) = contenders(text)
    return lambda model, seed: sampler.sample(model, Settings(DRAWS, CHAINS, TUNE, seed))


def _references(text: str | None) -> tuple[ReferencePosterior, ...]:
    """Those of a list of names and groups; without one, all that have no discrete variables."""
    _import_quietly()
    import bayeskit as bk

    groups = {reference.group for reference in bk.reference_posteriors()}
    if text == ALL:
        return bk.reference_posteriors()
    if text is None:
        return bk.reference_posteriors(groups=sorted(groups - {"discrete"}))
    asked = [part.strip() for part in text.split(",") if part.strip()]
    if not asked:
        raise OptionError("--bayeskit-references names none: give names and groups, or 'all'")
    return bk.reference_posteriors([a for a in asked if a not in groups], [a for a in asked if a in groups])


def _import_quietly() -> None:
    """What PyMC's own imports warn of is nobody's error under ``pytest -W error``."""
    with warnings.catch_warnings(action="ignore"):
        import_module("bayeskit.validation")
