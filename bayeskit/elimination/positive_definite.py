"""Covariance matrices that are none: found before anything is computed with them, named, with the jitter that mends it.

Two observations of a noise-free process at the same input give a covariance with two equal rows; its Cholesky factor
does not exist, or exists by rounding alone. A jitter would change the model, so it is proposed and never added.
"""

from __future__ import annotations

import numpy as np
from pymc.distributions.multivariate import MvStudentTRV, PrecisionMvNormalRV
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import MvNormalRV
from scipy import linalg

from bayeskit.elimination.analysis import Analysis
from bayeskit.elimination.check_points import points_away, typical_points
from bayeskit.errors import ModelError
from bayeskit.graphs.compile import compile_small
from bayeskit.graphs.environment import silently
from bayeskit.graphs.nodes import core_op
from bayeskit.graphs.rewriting import depends_on, inline
from bayeskit.model.log_joint import LogJoint

__all__ = ["is_positive_definite", "mending_jitter", "require_positive_definite"]

POINTS = 3  # of each kind, at which a matrix that depends on latent variables is tried; it is refused if all fail
JITTERS = 10.0 ** np.arange(-12, 1)  # in units of the mean variance
SOUND = 1e-11  # the margin that a jitter is to leave: half of the digits survive
NAMED = (MvNormalRV, PrecisionMvNormalRV, MvStudentTRV)


def is_positive_definite(matrix: np.ndarray, margin: float = np.finfo(float).eps) -> bool:
    """Whether a symmetric matrix is positive definite to working precision.

    A pivot below n·ε of the largest variance, with ε the margin, is rounding: the other rows determine that one.
    """
    try:
        factor = linalg.cholesky(matrix, lower=True, check_finite=True)
    except (linalg.LinAlgError, ValueError):
        return False
    return bool(np.min(np.diag(factor)) ** 2 > len(matrix) * margin * np.max(np.diag(matrix)))


def mending_jitter(matrix: np.ndarray) -> float | None:
    """The smallest power of ten, times the mean variance, that makes a matrix safely positive definite.

    Rounded to one digit, upwards; None if it would be as large as the variance itself.
    """
    variance = float(np.mean(np.diag(matrix)))
    if not np.all(np.isfinite(matrix)) or variance <= 0:
        return None
    digit = 10.0 ** np.floor(np.log10(variance))
    for jitter in JITTERS[:-1] * digit * np.ceil(variance / digit):
        if is_positive_definite(matrix + jitter * np.eye(len(matrix)), SOUND):
            return float(jitter)
    return None


def require_positive_definite(analysis: Analysis) -> None:
    """Refuse a model that uses a matrix as a covariance which is not positive definite, wherever it is tried.

    The ModelError names the distribution, what is wrong with its matrix, and the jitter that would mend it. It
    costs one Cholesky factorisation a matrix, six for one that depends on latent variables.
    """
    joint = analysis.joint
    inputs = list(joint.values.values())
    factorised = analysis.remembered("covariances", lambda: _all_factorised(joint))
    for factor, matrices in factorised.items():
        moving = depends_on(matrices, inputs)
        function = compile_small(inputs, matrices)
        moves = any(moving.get(m) for m in matrices)
        points = typical_points(analysis, POINTS if moves else 1)
        if moves:  # draws from the prior too: with inputs of size 1e-3 a length scale of one makes all rows equal
            points += points_away(analysis, POINTS, 0)
        with silently():
            tried: list[list[np.ndarray]] = [function(*joint.arguments(point)) for point in points]
        for values in zip(*tried, strict=True):
            stacks = [v.reshape(-1, *v.shape[-2:]) for v in values]
            broken = [next((m for m in stack if not is_positive_definite(m)), None) for stack in stacks]
            if all(b is not None for b in broken) and broken[0] is not None:
                raise ModelError(_message(analysis, factor, broken[0]))


def _all_factorised(joint: LogJoint) -> dict[str, list[Variable]]:
    """The matrices whose Cholesky factors the log densities take, by factor."""
    found: dict[str, dict[Variable, None]] = {}
    for factor, graph in joint.factors.items():
        for var in ancestors(inline([graph])):
            if var.owner is not None and type(core_op(var.owner)).__name__ == "Cholesky":
                found.setdefault(factor, {})[var.owner.inputs[0]] = None
    return {factor: list(matrices) for factor, matrices in found.items()}


def _message(analysis: Analysis, factor: str, matrix: np.ndarray) -> str:
    size = len(matrix)
    rv = analysis.joint.model.named_vars.get(factor)
    op = None if rv is None or rv.owner is None else rv.owner.op
    what = f"covariance of {factor!r}" if isinstance(op, NAMED) else f"matrix in the log density of {factor!r}"
    head = f"the {size} × {size} {what} is not positive definite"
    if not np.all(np.isfinite(matrix)):
        return f"{head}: it has entries that are not finite; correct them"
    reason = f"its smallest eigenvalue is {float(linalg.eigvalsh(matrix)[0]):.2g}"
    if (pair := _equal_rows(matrix)) is not None:
        reason += f", and its rows {pair[0] + 1} and {pair[1] + 1} are equal (the same input twice, without noise?)"
    jitter = mending_jitter(matrix)
    if jitter is None:
        return f"{head}: {reason}; no small jitter mends it: check how it is made"
    return f"{head}: {reason}; adding {jitter:.0e} to its diagonal would mend it, which bayeskit does not do by itself"


def _equal_rows(matrix: np.ndarray) -> tuple[int, int] | None:
    order = np.lexsort(matrix.T)
    sorted_rows = matrix[order]
    close = np.all(np.abs(np.diff(sorted_rows, axis=0)) <= 1e-14 * np.max(np.abs(matrix)), axis=1)
    if not close.any():
        return None
    k = int(np.flatnonzero(close)[0])
    return min(int(order[k]), int(order[k + 1])), max(int(order[k]), int(order[k + 1]))
