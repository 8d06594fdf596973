"""What the process imports that forked kernels are copies of: all that notebooks do, and what a first answer makes."""

from __future__ import annotations

import gc

import ipykernel.ipkernel
import ipykernel.kernelapp  # noqa: F401
import matplotlib.pyplot  # noqa: F401
import nutpie  # noqa: F401
import pymc as pm
import pymc_extras  # noqa: F401
import statsmodels.api  # noqa: F401

import bayeskit as bk

with pm.Model() as model:
    pm.Normal("y", pm.Normal("mean", 0.0, 1.0), pm.HalfNormal("sd", 1.0), observed=[0.5, -1.0, 2.0])
bk.explain(model)
bk.infer(model, random_seed=1, progressbar=False).summary()
gc.collect()
gc.freeze()  # a walk over what is shared would write to it, and so copy it
