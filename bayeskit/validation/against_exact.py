"""Draws judged against the closed form: :func:`judge`, :func:`assert_matches_exact`, :func:`validate`.

Each scalar of each variable gets three tests in Monte Carlo standard errors (mean, sd, ECDF: see
:mod:`bayeskit.validation.statistics`), all of them corrected together by Holm's method, so that right draws fail *any*
of them with probability ``alpha``. Draws must also pass three gates that no test can replace: enough effective draws,
R-hat near one (where there are at least two chains), and no draw outside the support.

What it cannot see: a wrong dependence *between* scalars whose marginals are all right. Add a Deterministic of several
variables and name it in ``var_names`` to test one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayeskit.errors import InferenceError, ModelError, OptionError
from bayeskit.validation.draws import as_arrays, labels
from bayeskit.validation.record import Validation
from bayeskit.validation.statistics import ScalarTests, compare_with_distribution, compare_with_draws, holm

if TYPE_CHECKING:
    import pymc as pm
    import xarray as xr

    from bayeskit.results.marginals import Marginal
    from bayeskit.results.records import Posterior

__all__ = ["assert_matches_exact", "judge", "validate"]

# Independent exact draws for the scalars whose marginal has no closed form: more than most samplers give, so that the
# sampler's own standard error decides.
EXACT_DRAWS = 10_000
ALPHA = 1e-3
MIN_ESS = 100.0
MAX_RHAT = 1.05
TIES = 1


def judge(
    exact: Posterior,
    draws: Any,
    *,
    var_names: Sequence[str] | None = None,
    alpha: float = ALPHA,
    min_ess: float = MIN_ESS,
    max_rhat: float = MAX_RHAT,
    random_seed: int | None = None,
    method: str = "draws given by the caller",
    divergences: int | None = None,
    seconds: float = np.nan,
) -> Validation:
    """Judge a sampler's draws against an exact posterior.

    Parameters
    ----------
    exact : Posterior
        An exact posterior: its closed-form marginals are used where there are some, else its independent draws.
    draws : xarray.DataTree, xarray.Dataset or mapping of str to array
        Chains × draws of the same variables.
    var_names : sequence of str, optional
        Variables to judge; by default all those of the exact posterior that are not Deterministics.
    alpha : float, default 0.001
        Probability that right draws fail any test.
    min_ess : float, default 100
        Smallest effective sample size (the smaller of bulk and tail) that is judged at all.
    max_rhat : float, default 1.05
        Largest rank-normalised split R-hat. It is looser than the usual 1.01 because right draws with an effective
        sample size of 400 pass 1.01 only six times in ten; a bias is for the other tests to see.
    random_seed : int, optional
        Only breaks ties of discrete variables.
    method, divergences, seconds
        Kept in the record.

    Returns
    -------
    Validation

    Raises
    ------
    DataError
        If names or shapes do not fit the exact posterior.
    OptionError
        If ``alpha`` is not between 0 and 1, or ``var_names`` names an unknown variable.

    Notes
    -----
    Cost: a few milliseconds a scalar for 4,000 draws.
    """
    if not 0 < alpha < 1:
        raise OptionError(f"alpha is {alpha}; it must lie between 0 and 1")
    reference: xr.Dataset = exact.tree["posterior"].to_dataset()
    names = _names(exact, reference, var_names)
    arrays = as_arrays(draws, reference, names)
    # A stream of its own: the caller may have drawn with the same seed, and ties broken by the very numbers that made
    # the draws are not broken at random.
    rng = np.random.default_rng(np.random.SeedSequence(random_seed, spawn_key=(TIES,)))
    rows: list[dict[str, Any]] = []
    tests: list[ScalarTests] = []
    for name in names:
        marginal = exact.marginals.get(name)
        judged = _judge_variable(arrays[name], _stacked(reference[name]), marginal, rng)
        for label, (row, test) in zip(labels(reference, name), judged, strict=True):
            rows.append({"name": label, **row})
            tests.append(test)
    failures, verdicts, comparisons = _verdicts(rows, tests, alpha, min_ess, max_rhat)
    return Validation(
        passed=not failures,
        table=_table(rows, tests, verdicts),
        failures=failures,
        certificate=float(exact.certificate),
        method=method,
        alpha=alpha,
        comparisons=comparisons,
        divergences=divergences,
        random_seed=random_seed,
        seconds=seconds,
        notes=_notes(tests),
        draws=draws if hasattr(draws, "children") else None,
    )


def assert_matches_exact(
    model: pm.Model,
    draws: Any,
    *,
    var_names: Sequence[str] | None = None,
    alpha: float = ALPHA,
    min_ess: float = MIN_ESS,
    max_rhat: float = MAX_RHAT,
    random_seed: int | None = None,
) -> Validation:
    """Assert that a sampler's draws come from the exact posterior of ``model``; made for the tests of samplers.

    Parameters
    ----------
    model : pymc.Model
        A model whose posterior has a closed form.
    draws, var_names, alpha, min_ess, max_rhat
        As in :func:`judge`.
    random_seed : int, optional
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
    """
    exact = _infer_exactly(model, random_seed)
    validation = judge(
        exact,
        draws,
        var_names=var_names,
        alpha=alpha,
        min_ess=min_ess,
        max_rhat=max_rhat,
        random_seed=random_seed,
    )
    if not validation.passed:
        raise AssertionError(f"the draws do not match the exact posterior\n{validation}")
    return validation


def validate(
    model: pm.Model,
    *,
    draws: int = 4000,
    random_seed: int | None = None,
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
    random_seed : int, optional
        The same seed gives the same validation.
    progressbar : bool, default True
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
    with nullcontext() if snapshot is None else snapshot.restored():
        return _validated(model, draws, random_seed, progressbar, exact)


def _validated(
    model: pm.Model, draws: int, random_seed: int | None, progressbar: bool, exact: Posterior | None
) -> Validation:
    from bayeskit.sampling.nuts import sample_nuts
    from bayeskit.terminal import is_terminal, quiet

    if random_seed is None:
        random_seed = int(np.random.SeedSequence().generate_state(1)[0])
    if exact is None or not all(
        (marginal := exact.marginals.get(rv.name)) is not None and marginal.elementwise for rv in model.free_RVs
    ):
        exact = _infer_exactly(model, random_seed)
    start = time.perf_counter()
    with quiet(logging.CRITICAL):  # few effective draws are said in the verdict
        tree = sample_nuts(model, draws=draws, random_seed=random_seed, progressbar=progressbar and is_terminal())
    seconds = time.perf_counter() - start
    stats = tree["sample_stats"].to_dataset() if "sample_stats" in tree.children else {}
    diverging = stats.get("diverging")
    return judge(
        exact,
        tree,
        random_seed=random_seed,
        method="Gibbs and NUTS steps" if model.discrete_value_vars else "NUTS on the model as written",
        divergences=None if diverging is None else int(diverging.sum()),
        seconds=seconds,
    )


def _infer_exactly(model: pm.Model, random_seed: int | None) -> Posterior:
    from bayeskit.inference.ladder import explain, infer

    method = explain(model).method
    try:
        return infer(
            model,
            method="quadrature" if method == "quadrature" else "exact",
            draws=EXACT_DRAWS,
            random_seed=random_seed,
            progressbar=False,
        )
    except (ModelError, InferenceError) as error:
        raise ModelError(f"there is no closed form to judge draws against; {error}") from error


def _names(exact: Posterior, reference: xr.Dataset, var_names: Sequence[str] | None) -> list[str]:
    known = [str(name) for name in reference.data_vars]
    if var_names is None:
        if exact.model is None:
            return known
        free = {rv.name for rv in exact.model.free_RVs}
        return [name for name in known if name in free]
    unknown = [name for name in var_names if name not in known]
    if unknown:
        raise OptionError(f"var_names: no variable {unknown[0]!r} in the exact posterior, which has {', '.join(known)}")
    if not var_names:
        raise OptionError("var_names is empty: name at least one variable, or leave it out to judge all of them")
    return list(var_names)


def _stacked(exact: xr.DataArray) -> NDArray[np.float64]:
    """Exact draws as (draw, scalar): chains of independent draws are one sample."""
    values = exact.transpose("chain", "draw", ...).to_numpy().astype(np.float64)
    return values.reshape(values.shape[0] * values.shape[1], -1)


def _judge_variable(
    draws: NDArray[np.float64], exact: NDArray[np.float64], marginal: Marginal | None, rng: np.random.Generator
) -> list[tuple[dict[str, Any], ScalarTests]]:
    """One (row, tests) for each scalar of a variable, in C order."""
    flat = draws.reshape(*draws.shape[:2], -1)
    size = flat.shape[2]
    closed = marginal is not None and marginal.elementwise
    if closed:
        assert marginal is not None
        shape = draws.shape[2:]
        moments = _moments(marginal, shape)
        probability = _probability(marginal, draws, rng).reshape(flat.shape)
        low, high = (np.broadcast_to(bound, shape).ravel() for bound in _support(marginal))
    result = []
    for k in range(size):
        x = flat[:, :, k]
        if closed:
            mean, sd = moments[0][k], moments[1][k]
        elif marginal is not None:  # a Wishart matrix: exact moments, entries without a distribution of their own
            mean, sd = np.ravel(marginal.mean())[k], np.ravel(marginal.std())[k]
        else:
            mean, sd = exact[:, k].mean(), exact[:, k].std(ddof=1)
        with np.errstate(invalid="ignore", over="ignore"):
            row = {"exact_mean": mean, "mcmc_mean": x.mean(), "exact_sd": sd, "mcmc_sd": x.std(ddof=1)}
        if not np.isfinite(x).all():
            test = ScalarTests(problem=f"{int((~np.isfinite(x)).sum())} draws are not finite")
        elif closed and ((x < low[k]) | (x > high[k])).any():
            outside = int(((x < low[k]) | (x > high[k])).sum())
            test = ScalarTests(problem=f"{outside} draws lie outside the support [{low[k]:g}, {high[k]:g}]")
        elif closed:
            test = compare_with_distribution(x, probability[:, :, k], [m[k] for m in moments])
        elif np.ptp(exact[:, k]) <= 1e-9 * np.abs(exact[:, k]).max():
            same = np.allclose(x, mean, rtol=1e-6, atol=1e-12)
            test = ScalarTests(scale="constant", problem="" if same else f"the exact value is always {mean:.6g}")
        else:
            test = compare_with_draws(x, exact[:, k], rng)
        result.append((row, test))
    return result


def _moments(marginal: Marginal, shape: tuple[int, ...]) -> tuple[NDArray[np.float64], ...]:
    """Mean, sd, skewness and excess kurtosis of every element, flattened; NaN where SciPy has none."""
    # SciPy divides by zero on the way to an infinite moment.
    with np.errstate(all="ignore"):
        mean, variance, skewness, excess = marginal.dist.stats(moments="mvsk")
        columns = (mean, np.sqrt(variance), skewness, excess)
    return tuple(np.broadcast_to(np.asarray(column, dtype=float), shape).ravel() for column in columns)


def _support(marginal: Marginal) -> tuple[Any, Any]:
    """The ends of the support: a method of SciPy's distributions, the ends themselves of a density on a grid."""
    support = marginal.dist.support
    low, high = support() if callable(support) else support
    return low, high


def _probability(marginal: Marginal, draws: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """F(x), drawn uniformly within the jump where the marginal is discrete."""
    values = np.asarray(marginal.dist.cdf(draws), dtype=np.float64)
    if hasattr(marginal.dist, "pmf"):
        values = values - rng.random(values.shape) * marginal.dist.pmf(draws)
    return values


def _verdicts(
    rows: list[dict[str, Any]], tests: list[ScalarTests], alpha: float, min_ess: float, max_rhat: float
) -> tuple[tuple[str, ...], list[str], int]:
    """Failures, one verdict a row, and the number of tests that ``alpha`` was divided among."""
    where, kinds, p_values = [], [], []
    for i, test in enumerate(tests):
        for kind, p in test.p_values.items() if test.scale != "constant" else ():
            where.append(i)
            kinds.append(kind)
            p_values.append(p)
    rejected: Mapping[tuple[int, str], bool] = dict(
        zip(zip(where, kinds, strict=True), holm(np.array(p_values), alpha), strict=True)
    )
    failures: list[str] = []
    verdicts: list[str] = []
    for i, (row, test) in enumerate(zip(rows, tests, strict=True)):
        reasons = [(test.problem, test.problem)] if test.problem else []
        if test.ess < min_ess:
            reasons.append(("ess", f"effective sample size {test.ess:.0f}, under {min_ess:g}: draw more"))
        if test.rhat > max_rhat:
            reasons.append(("rhat", f"R-hat {test.rhat:.3f}, over {max_rhat:g}: the chains disagree"))
        reasons += [(kind, _explain(kind, row, test)) for kind in ("mean", "sd", "ecdf") if rejected.get((i, kind))]
        verdicts.append(", ".join(short for short, _ in reasons) or "agrees")
        failures += [f"{row['name']}: {long}" for _, long in reasons]
    return tuple(failures), verdicts, len(p_values)


def _explain(kind: str, row: Mapping[str, Any], test: ScalarTests) -> str:
    p = test.p_values[kind]
    if kind == "ecdf":
        return f"its distribution differs from the exact one (ECDF test, p = {p:.1e})"
    z = test.z_mean if kind == "mean" else test.z_sd
    of = "" if test.scale == "draws" else f", of the {test.scale}"
    return f"{kind} {row[f'mcmc_{kind}']:.6g}, exact {row[f'exact_{kind}']:.6g} (z = {z:+.1f}, p = {p:.1e}{of})"


def _notes(tests: Sequence[ScalarTests]) -> tuple[str, ...]:
    notes = []
    counts = {
        scale: sum(test.scale == scale for test in tests) for scale in ("normal scores", "folded scores", "ranks")
    }
    if counts["normal scores"]:
        notes.append(
            f"{counts['normal scores']} scalar(s) are skewed or heavy-tailed: their z-scores are of the normal scores"
        )
    if counts["folded scores"]:
        notes.append(
            f"{counts['folded scores']} scalar(s) have infinite variance, so no sd to test: z_sd is of the "
            "folded normal scores, which see a change of spread"
        )
    if counts["ranks"]:
        notes.append(
            f"{counts['ranks']} scalar(s) have no closed-form marginal: they are compared with independent exact draws"
        )
    if all(np.isnan(test.rhat) for test in tests):
        notes.append("one chain only: R-hat was not computed")
    return tuple(notes)


def _table(rows: list[dict[str, Any]], tests: Sequence[ScalarTests], verdicts: Sequence[str]) -> Any:
    import pandas as pd

    columns = ["exact_mean", "mcmc_mean", "z_mean", "exact_sd", "mcmc_sd", "z_sd", "p_ecdf", "ess", "rhat", "scale"]
    records = [
        {
            **row,
            "z_mean": test.z_mean,
            "z_sd": test.z_sd,
            "p_ecdf": test.p_ecdf,
            "ess": test.ess,
            "rhat": test.rhat,
            "scale": test.scale,
            "verdict": verdict,
        }
        for row, test, verdict in zip(rows, tests, verdicts, strict=True)
    ]
    return pd.DataFrame(records).set_index("name")[[*columns, "verdict"]].rename_axis(None)
