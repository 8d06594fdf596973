"""A Wishart prior in Bartlett's decomposition, which samplers that move along real vectors can enter."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.model.fgraph import clone_model

__all__ = ["bartlett"]


def bartlett(model: pm.Model, name: str) -> pm.Model:
    r"""The same model with one Wishart matrix in Bartlett's decomposition.

    .. math::

        \Lambda = L A A^\top L^\top, \quad V = L L^\top, \quad
        A_{ii}^2 \sim \mathrm{ChiSquared}(\nu - i + 1), \quad A_{ij} \sim \mathrm{Normal}(0, 1), \; i > j

    has the distribution :math:`\mathrm{Wishart}(\nu, V)`; the matrix becomes a Deterministic of the same name. Source:
    M. S. Bartlett (1933), Proceedings of the Royal Society of Edinburgh 53, 260-283.
    """
    degrees, factor = (p.eval(mode="FAST_COMPILE") for p in model[name].owner.op.dist_params(model[name].owner))
    size = factor.shape[0]
    other = clone_model(model)
    with other:
        squares = pm.ChiSquared(f"{name}_squares", degrees - np.arange(size), shape=size)
        below = pm.Normal(f"{name}_below", 0.0, 1.0, shape=size * (size - 1) // 2)
        root = pt.dot(factor, pt.diag(pt.sqrt(squares))[np.tril_indices(size, -1)].set(below))
        matrix = pt.dot(root, root.T)
    return pm.do(other, {name: matrix})
