"""The samplers that a trial knows by name, in the order in which they are listed, and those that a user brings.

A sampler is a record here and a function ``module:function`` of a model and :class:`Settings`, which gives the draws.
The modules are imported when they are needed: the command line reads the names before PyMC is imported.
"""

from __future__ import annotations

import os
import reprlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from bayeskit.errors import OptionError
from bayeskit.terminal import let_alarms_through

if TYPE_CHECKING:
    import pymc as pm

__all__ = ["SAMPLERS", "NamedSampler", "Settings", "contenders", "sampler_names"]

CHAINS = "bayeskit.sampling.pymc_chains:sample_chains"
FITTED = "bayeskit.sampling.approximations:"


@dataclass(frozen=True)
class Settings:
    """What a sampler is asked for."""

    draws: int  # of each chain
    chains: int
    tune: int
    seed: int = 0


@dataclass(frozen=True)
class NamedSampler:
    """One sampler."""

    name: str  # what a user calls it
    title: str  # what a sentence calls it
    home: str | Callable[..., Any]  # where its function is, or the function of a user
    options: Mapping[str, str] = field(default_factory=dict)  # of the function
    discrete: bool = False  # whether it can be asked for discrete parameters
    needs: tuple[str, ...] = ()  # packages that bayeskit does not install
    of_answer: bool = False  # whether it is given the model that the answer was taken from, written as it may be
    of_user: bool = False  # whether its function takes the model and a seed

    def obstacle(self) -> str:
        """What has to be installed first; empty where nothing has."""
        missing = [package for package in self.needs if find_spec(package) is None]
        if not missing:
            return ""
        return f"{self.name} needs {' and '.join(missing)}: pip install 'bayeskit[samplers]'"

    @property
    def made_of(self) -> Any:
        """What tells it from another one: the function of a user, or where its function is, if that stays."""
        from bayeskit.graphs.identity import is_installed  # with NumPy and pandas, which the command line does not need

        if callable(self.home) or is_installed(self.home.partition(":")[0]):
            return self.home
        return _function_of(self.home)

    def sample(self, model: pm.Model, settings: Settings) -> Any:
        """The draws, as a DataTree or whatever else can be judged."""
        function = self.home if callable(self.home) else _function_of(self.home)
        if self.of_user:
            return function(model, settings.seed)
        return function(model, settings, **self.options)


SAMPLERS: tuple[NamedSampler, ...] = (
    NamedSampler(
        "exact",
        "independent draws of bayeskit",
        "bayeskit.validation.trials.independent:draw_exactly",
        discrete=True,
        of_answer=True,
    ),
    NamedSampler("nuts", "PyMC's NUTS", CHAINS, {"nuts_sampler": "pymc"}, discrete=True),
    NamedSampler("nutpie", "nutpie's NUTS", CHAINS, {"nuts_sampler": "nutpie"}),
    NamedSampler("numpyro", "NumPyro's NUTS", CHAINS, {"nuts_sampler": "numpyro"}, needs=("jax", "numpyro")),
    NamedSampler("blackjax", "BlackJAX's NUTS", CHAINS, {"nuts_sampler": "blackjax"}, needs=("jax", "blackjax")),
    NamedSampler("metropolis", "random-walk Metropolis", CHAINS, {"step": "Metropolis"}, discrete=True),
    NamedSampler("slice", "slice sampling", CHAINS, {"step": "Slice"}),
    NamedSampler("demetropolisz", "differential evolution Metropolis (Z)", CHAINS, {"step": "DEMetropolisZ"}),
    NamedSampler(
        "smc",
        "sequential Monte Carlo",
        "bayeskit.sampling.pymc_chains:sample_particles",
        discrete=True,
    ),
    NamedSampler("advi", "mean-field ADVI", f"{FITTED}sample_variational", {"method": "advi"}),
    NamedSampler("fullrank_advi", "full-rank ADVI", f"{FITTED}sample_variational", {"method": "fullrank_advi"}),
    NamedSampler("pathfinder", "Pathfinder", f"{FITTED}sample_pathfinder"),
    NamedSampler("laplace", "Laplace's approximation", f"{FITTED}sample_laplace"),
)


def sampler_names() -> tuple[str, ...]:
    """The names, in their order."""
    return tuple(sampler.name for sampler in SAMPLERS)


def contenders(given: Any) -> tuple[NamedSampler, ...]:
    """The samplers that a user named or wrote, each once.

    Raises
    ------
    OptionError
        If a name is not known, a function cannot be loaded, a package is missing, or two have one name.
    """
    if isinstance(given, Mapping):
        found = [_contender(of, str(name)) for name, of in given.items()]
    else:
        several = isinstance(given, Sequence) and not isinstance(given, str)
        found = [_contender(of) for of in (given if several else (given,))]
    if not found:
        raise OptionError(f"no sampler is given; name one of {', '.join(sampler_names())}, or give a function")
    names = [sampler.name for sampler in found]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise OptionError(f"two samplers are called {repeated[0]!r}; give them as a mapping by name")
    for sampler in found:
        if obstacle := sampler.obstacle():
            raise OptionError(obstacle)
    return tuple(found)


def _contender(given: Any, name: str = "") -> NamedSampler:
    if callable(given):
        called = name or str(getattr(given, "__name__", type(given).__name__))
        return NamedSampler(called, "a function", given, discrete=True, of_user=True)
    if isinstance(given, str) and ":" in given:
        _function_of(given)
        return NamedSampler(name or given, "a function", given, discrete=True, of_user=True)
    for sampler in SAMPLERS:
        if isinstance(given, str) and sampler.name == given:
            return replace(sampler, name=name or sampler.name)
    known = ", ".join(sampler_names())
    raise OptionError(
        f"no sampler {reprlib.repr(given)}: there are {known}, module:function, and functions of (model, seed)"
    )


def _function_of(home: str) -> Callable[..., Any]:
    """The function ``module:function``, the module also from the working directory, as ``python -m`` finds it."""
    module, _, name = home.partition(":")
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        function = getattr(import_module(module), name)
    except (Exception, SystemExit) as error:  # whatever a module of somebody else's raises, a script also to end
        let_alarms_through(error)
        said = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}".removesuffix(": ")
        where = f"give module:function, of a module that Python finds from {here} on, without its .py"
        raise OptionError(f"sampler {home!r} cannot be loaded ({said}); {where}") from error
    finally:
        sys.path.remove(here)
    if not callable(function):
        raise OptionError(f"sampler {home!r} is no function of (model, seed)")
    found: Callable[..., Any] = function
    return found
