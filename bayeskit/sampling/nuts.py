"""NUTS on a model as written, through nutpie where every variable is continuous."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from threading import Thread
from typing import Any

import numpy as np
import nutpie
import pymc as pm
import xarray as xr
from nutpie.compile_pymc import CompiledPyMCModel
from pymc.backends.arviz import patch_nutpie_idata
from pymc.progress_bar import NutpieProgressBarManager

from bayeskit.errors import InferenceError, OptionError
from bayeskit.graphs.environment import available_cpus, on_one_thread
from bayeskit.sampling.native import compile_for_nutpie
from bayeskit.sampling.options import sampler_defaults
from bayeskit.sampling.starts import jittered_to_scale, require_a_start
from bayeskit.terminal import interruptible, quiet

__all__ = ["nuts_of", "pop_unconstrained", "sample_nuts"]

PYMC_OPTIONS = ("tune", "chains", "target_accept", "init", "cores")


def sample_nuts(
    model: pm.Model,
    draws: int = 4000,
    random_seed: int | None = None,
    progressbar: bool = False,
    unconstrained: bool = False,
    sampler: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Draw from the posterior with NUTS, as ``pymc.sample`` gives it; InferenceError if no chain could start.

    ``draws`` are those of all chains together, rounded up; with ``unconstrained`` those on the unconstrained scale are
    kept as well, for :func:`pop_unconstrained`. ``sampler`` holds options that differ from
    :func:`bayeskit.sampling.options.sampler_defaults`. nutpie cannot sample discrete variables; a model that has some
    goes to PyMC's own compound step. Ctrl-C is a KeyboardInterrupt, not a tree of the draws so far.
    """
    return nuts_of(model, sampler, unconstrained)(draws, random_seed, progressbar)


def nuts_of(
    model: pm.Model, sampler: Mapping[str, Any] | None = None, unconstrained: bool = False
) -> Callable[[int, int | None, bool], xr.DataTree]:
    """As :func:`sample_nuts`, of a number of draws, a seed and the bar: a model that is compiled once for many runs."""
    options = {**sampler_defaults(), **(sampler or {})}
    known: list[CompiledPyMCModel] = []

    def sampled(draws: int, random_seed: int | None, progressbar: bool) -> xr.DataTree:
        asked = options | {"draws": -(-draws // options["chains"])}
        with interruptible(), quiet(), on_one_thread(), warnings.catch_warnings():
            # ArviZ suspects swapped dimensions where there are fewer draws than chains.
            warnings.filterwarnings("ignore", "Found chain dimension to be longer", UserWarning)
            if model.discrete_value_vars:
                return _by_pymc(model, asked, random_seed, progressbar)
            if not known:
                known.append(_compiled(model, options["init"]))
            return _by_nutpie(model, known[0], asked, random_seed, progressbar, unconstrained)

    return sampled


def _by_pymc(model: pm.Model, options: dict[str, Any], random_seed: int | None, progressbar: bool) -> xr.DataTree:
    names = ", ".join(str(v.name) for v in model.discrete_value_vars)
    for name in options:
        if name not in (*PYMC_OPTIONS, "draws"):
            raise OptionError(f"sampler: {name} is an option of nutpie, which cannot sample {names}: leave it out")
    if not model.continuous_value_vars:
        options = {name: value for name, value in options.items() if name not in ("target_accept", "init")}
    seen = {"random_seed": random_seed, "progressbar": progressbar, "compute_convergence_checks": False}
    return pm.sample(**options, **seen, model=model)


def _compiled(model: pm.Model, init: str) -> CompiledPyMCModel:
    # Jitter of one on the unconstrained scale is far more than a posterior sd where there are many data: loadings
    # with the wrong sign are a mode of their own. Where the author gave a start, it is kept.
    given, jittered = model.rvs_to_initial_values, init.startswith("jitter")
    moved = {rv for rv in model.free_RVs if jittered and given.get(rv) is None}
    compiled = compile_for_nutpie(model, moved)
    if moved:
        compiled = jittered_to_scale(compiled, model)
    require_a_start(compiled)
    return compiled


def _by_nutpie(
    model: pm.Model,
    compiled: CompiledPyMCModel,
    options: dict[str, Any],
    random_seed: int | None,
    progressbar: bool,
    unconstrained: bool,
) -> xr.DataTree:
    # The threads share one process and need no lock of Python's.
    cores = min(options["chains"], available_cpus())
    passed = {"cores": cores} | {name: value for name, value in options.items() if name != "init"}
    start = time.perf_counter()
    try:
        with NutpieProgressBarManager(options["chains"], options["draws"], progressbar) as bar:
            sampler = nutpie.sample(
                compiled,
                **passed,
                seed=int(np.random.default_rng(random_seed).integers(2**30)),
                save_warmup=False,
                store_unconstrained=unconstrained,
                progress_bar=False,
                progress_callback=bar.update,
                blocking=False,
            )
            with ExitStack() as interrupted:
                # Not waited for here, only when Python ends.
                interrupted.callback(Thread(target=_cancel, args=(sampler, compiled)).start)
                tree = sampler.wait()
                interrupted.pop_all()
    except RuntimeError as error:
        # nutpie's own words: the density is zero or not a number wherever chains could start.
        why = str(error).splitlines()[0]
        raise InferenceError(f"NUTS could not sample: {why}; check the data and the support of the priors") from error
    patch_nutpie_idata(tree, model, sampling_time=time.perf_counter() - start)
    # PyMC's name, by which ArviZ finds it.
    tree["sample_stats/reached_max_treedepth"] = tree["sample_stats"]["maxdepth_reached"]
    return tree


def _cancel(sampler: Any, compiled: Any) -> None:
    """Have chains end, which they do between draws; one may be a thousand gradients away."""
    if compiled.user_data.dtype == np.float64:  # of loops, which fail from now on: a draw ends at its next gradient
        compiled.user_data[-1] = 1.0
    with suppress(RuntimeError):  # of a chain that had not started
        sampler.cancel()


def pop_unconstrained(tree: xr.DataTree) -> dict[str, np.ndarray]:
    """Take the draws on the unconstrained scale out of a tree: value variables by name, axes (chain, draw, ...).

    nutpie keeps a variable without a transform in ``posterior`` only.
    """
    group = "unconstrained_posterior"
    if group not in tree.children:
        return {str(n): v.transpose("chain", "draw", ...).to_numpy() for n, v in tree["posterior"].data_vars.items()}
    both = {**tree["posterior"].to_dataset().data_vars, **tree[group].to_dataset().data_vars}
    values = {str(n): v.transpose("chain", "draw", ...).to_numpy() for n, v in both.items()}
    for name in (group, f"warmup_{group}"):
        if name in tree.children:
            del tree[name]
    for name in ("sample_stats", "warmup_sample_stats"):
        if name in tree.children:
            stats = tree[name].to_dataset()
            tree[name] = stats.drop_dims("unconstrained_parameter", errors="ignore")
    return values
