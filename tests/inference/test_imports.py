"""What an answer that is not sampled does without: a second of imports, which is most of what a first one takes."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
import pymc as pm
import bayeskit as bk
with pm.Model() as coin:
    pm.Binomial("heads", 9, pm.Beta("rate", 2.0, 3.0), observed=6)
with pm.Model() as schools:
    theta = pm.Normal("theta", pm.Normal("mu", 0.0, 5.0), pm.HalfCauchy("tau", 5.0), shape=4)
    pm.Normal("y", theta, [15.0, 10.0, 16.0, 11.0], observed=[28.0, 8.0, -3.0, 7.0])
for model, method in ((coin, "exact"), (schools, "quadrature")):
    post = bk.infer(model, draws=40, random_seed=1)
    print(post.method == method, len(post.summary()) > 0)
print(*({"nutpie", "arviz", "arviz_stats", "matplotlib.pyplot"} & set(sys.modules)))
"""


@pytest.mark.slow
def test_closed_forms_and_integrals_import_no_sampler_and_no_pictures() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split("\n") == ["True True", "True True", "", ""]
