"""Meta-analysis by hierarchical_normal: a published analysis, SciPy's integrals, Student-t effects."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, stats
from statsmodels.stats.meta_analysis import combine_effects

import bayeskit as bk
from bayeskit.cli import main
from bayeskit.datasets import load_example, prepare
from bayeskit.errors import OptionError
from bayeskit.model.log_joint import LogJoint
from bayeskit.models import load_model

MODULE = load_model("hierarchical_normal")
TRIALS = load_example("bcg_vaccine")
COLUMNS = {"y": "log_risk_ratio", "error": "standard_error", "row": "trial"}


def test_the_table_is_that_of_the_published_analysis() -> None:
    """Viechtbauer (2010), Journal of Statistical Software 36 (3), section 3: by DerSimonian and Laird's method."""
    ill, well, control_ill, control_well = TRIALS.iloc[:, 1:5].to_numpy(dtype=float).T
    ratio = np.log(ill / (ill + well) / (control_ill / (control_ill + control_well)))
    variance = 1 / ill - 1 / (ill + well) + 1 / control_ill - 1 / (control_ill + control_well)
    assert TRIALS["log_risk_ratio"].to_numpy() == pytest.approx(ratio, abs=1e-6)
    assert TRIALS["standard_error"].to_numpy() == pytest.approx(np.sqrt(variance), abs=1e-6)
    pooled = combine_effects(ratio, variance, method_re="dl")
    assert [pooled.tau2, pooled.mean_effect_re] == pytest.approx([0.3088, -0.7141], abs=5e-5)


def test_the_most_likely_tau_is_that_of_restricted_maximum_likelihood() -> None:
    """Viechtbauer (2010): tau squared 0.3132 and, given it, a mean of -0.7145 with standard error 0.1798."""
    data = prepare(TRIALS, MODULE.VARIABLES, COLUMNS)
    flat = MODULE.build(data, mean_scale=1e3, spread="half_normal", spread_scale=10.0)
    tau = float(bk.maximize_evidence(flat, random_seed=1).point["tau"])
    assert tau**2 == pytest.approx(0.3132, abs=5e-5)
    weight = 1 / (data["error"].to_numpy() ** 2 + tau**2)
    mean, error = np.sum(weight * data["y"].to_numpy()) / weight.sum(), weight.sum() ** -0.5
    assert [mean, error] == pytest.approx([-0.7145, 0.1798], abs=5e-5)


def test_csv_on_the_command_line_against_scipy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    TRIALS.to_csv(tmp_path / "trials.csv", index=False)
    columns = ",".join(f"{name}={column}" for name, column in COLUMNS.items())
    given = [
        "--data",
        str(tmp_path / "trials.csv"),
        "--columns",
        columns,
        "--set",
        "mean_scale=1",
        "--set",
        "spread_scale=0.5",
    ]
    assert main(["infer", "hierarchical_normal", *given, "--json", "--draws", "100"]) == 0
    printed = json.loads(capsys.readouterr().out)
    y, error = (TRIALS[n].to_numpy() for n in ("log_risk_ratio", "standard_error"))

    def density(tau: float) -> float:
        given_tau = stats.multivariate_normal(np.zeros(13), np.diag(error**2 + tau**2) + 1.0)
        return float(given_tau.pdf(y) * stats.halfcauchy(scale=0.5).pdf(tau))

    # tau = u / (1 - u): its half-Cauchy prior has a long tail.
    evidence, _ = integrate.quad(lambda u: density(u / (1 - u)) / (1 - u) ** 2, 0, 1, epsabs=0, epsrel=1e-10)
    assert printed["log_evidence"]["value"] == pytest.approx(np.log(evidence), abs=1e-8)


@pytest.mark.parametrize("centred", [True, False])
def test_log_joint_of_student_t_effects_against_scipy(centred: bool) -> None:
    data = prepare(TRIALS, MODULE.VARIABLES, COLUMNS)
    options = {"mean_scale": 1.0, "spread": "half_normal", "spread_scale": 0.7, "effects": "student_t", "freedom": 3.0}
    joint = LogJoint.from_model(MODULE.build(data, **options, centred=centred))
    mu, tau, z = 0.4, 0.6, np.linspace(-2, 2, 13)
    expected = stats.norm(0, 1).logpdf(mu) + stats.halfnorm(scale=0.7).logpdf(tau) + stats.t(3).logpdf(z).sum()
    expected += stats.norm(mu + tau * z, data["error"]).logpdf(data["y"]).sum() - centred * 13 * np.log(tau)
    effects = {"theta": mu + tau * z} if centred else {"z": z}
    assert joint.logp({"mu": np.array(mu), "tau": np.array(tau), **effects}) == pytest.approx(expected, rel=1e-12)


def test_degrees_of_freedom_without_student_t_effects_are_refused() -> None:
    with pytest.raises(OptionError, match="set effects=student_t too"):
        MODULE.build(prepare(TRIALS, MODULE.VARIABLES, COLUMNS), freedom=4.0)
