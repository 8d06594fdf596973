"""Independent blocks in one model."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from mpmath import mpf
from oracles import (
    Answer,
    beta,
    dirichlet,
    gamma,
    inverse_gamma,
)

from table.case import Case
from table.data import (
    COUNTS,
    FLIPS,
    KINDS,
    REAL,
    half_log_2pi,
    half_squares,
    outcomes,
    poisson_base,
)
from table.describe import one_mean


def _independent_blocks() -> None:
    mu = pm.Normal("mu", 0, 15)
    pm.Normal("y", mu, 1.0, observed=REAL)
    p = pm.Beta("p", 2.0, 3.0)
    pm.Bernoulli("flips", p, observed=FLIPS)
    rate = pm.Gamma("rate", 2.0, 1.0)
    pm.Poisson("counts", rate, observed=COUNTS)
    theta = pm.Dirichlet("theta", a=np.ones(3))
    pm.Categorical("kinds", p=theta, observed=KINDS)
    v = pm.InverseGamma("v", 3.0, 2.0)
    pm.Normal("noise", 0.0, pt.sqrt(v), observed=REAL)


def _independent_blocks_oracle() -> Answer:
    return (
        one_mean(0, 15, 1, REAL)
        + beta("p", 2, 3, *outcomes(FLIPS))
        + gamma("rate", 2, 1, int(COUNTS.sum()), len(COUNTS), poisson_base(COUNTS))
        + dirichlet("theta", [1, 1, 1], np.bincount(KINDS))
        + inverse_gamma("v", 3, 2, mpf(len(REAL)) / 2, half_squares(REAL), -half_log_2pi(len(REAL)))
    )


BLOCKS = (Case("blocks", "five independent families", _independent_blocks, _independent_blocks_oracle),)
