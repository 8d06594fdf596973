"""Draws judged against the closed form: :func:`judge`, :func:`assert_matches_exact`, :func:`validate`.

Each scalar of each variable gets four tests (mean, sd and ECDF in Monte Carlo standard errors, and its most extreme
draw: see :mod:`bayeskit.validation.statistics`), all of them corrected together by Holm's method, so that right draws
fail *any* of them with probability ``alpha``. Draws must also pass three gates that no test can replace: enough
effective draws, R-hat near one (where there are at least two chains), and no draw outside the support.

What it cannot see: a wrong dependence *between* scalars whose marginals are all right. Add a Deterministic of several
variables and name it in ``var_names`` to test one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import pymc as pm
import xarray as xr

from bayeskit.arguments import Count, Probability, RandomSeed, Range, checked, whole_seed
from bayeskit.errors import DataError, InferenceError, ModelError, OptionError
from bayeskit.inference.ladder import explain, infer
from bayeskit.model.snapshot import restored
from bayeskit.results.diagnostics import ESTIMABLE_ESS, ESTIMABLE_R_HAT
from bayeskit.results.marginals import scalar_labels
from bayeskit.results.records import Posterior
from bayeskit.results.tree import stacked_draws
from bayeskit.terminal import is_terminal, quiet
from bayeskit.validation.draws import as_arrays
from bayeskit.validation.record import Validation, notes_on, table_of, verdicts_of
from bayeskit.validation.references.reference_posterior import ReferencePosterior
from bayeskit.validation.scalars import judge_variable
from bayeskit.validation.statistics import ScalarTests

__all__ = ["assert_matches_exact", "judge", "scalar_tests", "validate"]

# Independent exact draws for the scalars whose marginal has no closed form: more than most samplers give, so that the
# sampler's own standard error decides.
EXACT_DRAWS = 10_000
ALPHA = 1e-3
TIES = 1
type Exact = Posterior  # or anything with its draws and marginals


@checked
def judge(
    exact: Exact,
    draws: Any,
    *,
    var_names: Sequence[str] | None = None,
    alpha: Probability = ALPHA,
    min_ess: Annotated[float, Range(0)] = ESTIMABLE_ESS,
    max_rhat: Annotated[float, Range(1)] = ESTIMABLE_R_HAT,
    random_seed: RandomSeed = None,
    method: str = "draws given by the caller",
    divergences: int | None = None,
    seconds: float = np.nan,
) -> Validation:
    """Judge a sampler's draws against an exact posterior.

    Parameters
    ----------
    exact : Posterior
        Its closed-form marginals are used where there are some, else its independent draws.
    draws : xarray.DataTree, xarray.Dataset or mapping of str to array
        Chains × draws of the same variables.
    var_names : sequence of str, optional
        By default all variables of the exact posterior that are not Deterministics.
    alpha : float, default 0.001
        Probability that right draws fail any test.
    min_ess, max_rhat : float, default 100 and 1.05
        Smallest effective sample size, of bulk and tail, and largest rank-normalised split R-hat. Right draws with an
        effective size of 400 pass the usual 1.01 only six times in ten; a bias is for the other tests to see.
    random_seed : int, sequence of int or numpy.random.Generator, optional
        Only breaks ties of discrete variables.
    method, divergences, seconds
        Kept in the record.

    Raises
    ------
    DataError, OptionError
        If names or shapes do not fit the exact posterior; if ``alpha`` is not between 0 and 1.
    """
    if not hasattr(exact, "tree") or getattr(exact, "diagnostics", None) is not None:
        raise ModelError(
            "exact is no posterior that is exact or by quadrature: there is nothing to judge draws against"
        )
    random_seed = whole_seed(random_seed)
    rows, tests, shape = scalar_tests(exact, draws, var_names, random_seed)
    failures, verdicts, comparisons = verdicts_of(rows, tests, alpha, min_ess, max_rhat)
    return Validation(
        passed=not failures,
        table=table_of(rows, tests, verdicts),
        failures=failures,
        certificate=float(exact.certificate),
        method=method,
        alpha=alpha,
        comparisons=comparisons,
        divergences=divergences,
        random_seed=random_seed,
        seconds=seconds,
        notes=notes_on(tests, *shape),
        draws=draws if hasattr(draws, "children") else None,
    )


def scalar_tests(
    exact: Posterior, draws: Any, var_names: Sequence[str] | None, random_seed: int
) -> tuple[list[dict[str, Any]], list[ScalarTests], tuple[int, int]]:
    """A row of the table and the tests of each scalar of the variables to judge; how many chains, of how many draws."""
    reference: xr.Dataset = exact.tree["posterior"].to_dataset()
    names = _names(exact, reference, var_names)
    arrays = as_arrays(draws, reference, names)
    # A stream of its own: the caller may have drawn with the same seed, and ties broken by the very numbers that made
    # the draws are not broken at random.
    rng = np.random.default_rng(np.random.SeedSequence(random_seed, spawn_key=(TIES,)))
    rows: list[dict[str, Any]] = []
    tests: list[ScalarTests] = []
    for name, draw in stacked_draws(reference, names).items():
        # Chains of independent draws are one sample.
        independent = draw.astype(np.float64).reshape(len(draw), -1)
        judged = judge_variable(arrays[name], independent, exact.marginals.get(name), rng)
        rows += [{"name": label, **row} for label, (row, _) in zip(scalar_labels(reference, name), judged, strict=True)]
        tests += [test for _, test in judged]
    chains, number = arrays[names[0]].shape[:2]
    return rows, tests, (chains, number)


@checked
def assert_matches_exact(
    model: pm.Model | ReferencePosterior,
    draws: Any,
    *,
    var_names: Sequence[str] | None = None,
    alpha: Probability = ALPHA,
    min_ess: Annotated[float, Range(0)] = ESTIMABLE_ESS,
    max_rhat: Annotated[float, Range(1)] = ESTIMABLE_R_HAT,
    random_seed: RandomSeed = None,
) -> Validation:
    """Assert that a sampler's draws come from the exact posterior of ``model``; made for the tests of samplers.

    Parameters
    ----------
    model : pymc.Model or ReferencePosterior
        A model whose posterior has a closed form, or one of :func:`bayeskit.reference_posteriors`, whose answer is
        made once.
    draws, var_names, alpha, min_ess, max_rhat
        As in :func:`judge`.
    random_seed : int, sequence of int or numpy.random.Generator, optional
        Of the exact draws, needed only for scalars without a closed-form marginal.

    Returns
    -------
    Validation
        If the draws agree.

    Raises
    ------
    AssertionError
        If they do not; the message lists what failed and the whole table.
    ModelError
        If the posterior of ``model`` has no closed form.
    DataError
        If names or shapes do not fit.

    Examples
    --------
    >>> def test_my_sampler():                                          # doctest: +SKIP
    ...     assert_matches_exact(model, my_sampler(model, draws=4000, random_seed=1), random_seed=2)
    >>> def test_it_on_all_references(reference_posterior):             # a fixture of bayeskit's pytest plugin
    ...     assert_matches_exact(reference_posterior, my_sampler(reference_posterior.build()), random_seed=2)
    """
    __tracebackhide__ = True  # pytest shows the line of the test that failed
    exact = model.posterior if isinstance(model, ReferencePosterior) else _infer_exactly(model, random_seed)
    try:
        validation = judge(
            exact, draws, var_names=var_names, alpha=alpha, min_ess=min_ess, max_rhat=max_rhat, random_seed=random_seed
        )
    except DataError as error:
        raise error.with_traceback(None) from None  # its line, without those of what found it
    if not validation.passed:
        raise AssertionError(f"the draws do not match the exact posterior\n{validation}")
    return validation


@checked
def validate(
    model: pm.Model,
    *,
    draws: Count = 4000,
    random_seed: RandomSeed = None,
    progressbar: bool = True,
    exact: Posterior | None = None,
) -> Validation:
    """Sample the model as written with NUTS and judge the draws against its closed form.

    The sampler sees PyMC's own log density and nothing of the closed form, so that the two are independent.

    Parameters
    ----------
    model : pymc.Model
        A model whose posterior has a closed form.
    draws : int, default 4000
        Draws in all, over four chains, after warm-up.
    random_seed, progressbar
        The same seed gives the same validation.
    exact : Posterior, optional
        The closed form, where it has been computed already. It is made anew where some variable has no closed-form
        marginal, since draws are then judged against more exact draws than an answer has by default.

    Returns
    -------
    Validation

    Raises
    ------
    ModelError
        If the posterior has no closed form.

    Notes
    -----
    Discrete variables are drawn by PyMC's Gibbs steps, since NUTS cannot; for a model that neither can sample, pass
    draws of another sampler to :func:`assert_matches_exact`.
    """
    snapshot = None if exact is None or exact.model is not model else exact.snapshot
    with restored(snapshot):
        return _validated(model, draws, random_seed, progressbar, exact)


def _validated(
    model: pm.Model, draws: int, random_seed: RandomSeed, progressbar: bool, exact: Posterior | None
) -> Validation:
    random_seed = whole_seed(random_seed)
    known = () if exact is None else [n for n, marginal in exact.marginals.items() if marginal.elementwise]
    if exact is None or any(rv.name not in known for rv in model.free_RVs):
        exact = _infer_exactly(model, random_seed)
    start = time.perf_counter()
    with quiet(logging.CRITICAL):  # few effective draws are said in the verdict
        from bayeskit.sampling.nuts import sample_nuts  # nutpie and all of ArviZ with it

        tree = sample_nuts(model, draws=draws, random_seed=random_seed, progressbar=progressbar and is_terminal())
    seconds = time.perf_counter() - start
    stats = tree["sample_stats"].to_dataset() if "sample_stats" in tree.children else {}
    diverging = stats.get("diverging")
    number = None if diverging is None else int(diverging.sum())
    method = "Gibbs and NUTS steps" if model.discrete_value_vars else "NUTS on the model as written"
    return judge(exact, tree, random_seed=random_seed, method=method, divergences=number, seconds=seconds)


def _infer_exactly(model: pm.Model, random_seed: RandomSeed) -> Posterior:
    method = "quadrature" if explain(model).method == "quadrature" else "exact"
    try:
        return infer(model, method=method, draws=EXACT_DRAWS, random_seed=random_seed, progressbar=False)
    except (ModelError, InferenceError) as error:
        raise ModelError(f"there is no closed form to judge draws against; {error}") from error


def _names(exact: Posterior, reference: xr.Dataset, var_names: Sequence[str] | None) -> list[str]:
    known = [str(name) for name in reference.data_vars]
    if var_names is None:
        if exact.model is None:
            return known
        free = {rv.name for rv in exact.model.free_RVs}
        if not free:
            raise ModelError("the model has no free variable whose draws could be judged")
        return [name for name in known if name in free]
    unknown = [name for name in var_names if name not in known]
    if unknown:
        raise OptionError(f"var_names: no variable {unknown[0]!r} in the exact posterior, which has {', '.join(known)}")
    if not var_names:
        raise OptionError("var_names is empty: name at least one variable, or leave it out to judge all of them")
    return list(var_names)
