"""Where a random variable lives, and whether its density is normalised there.

Taken from the distribution itself. A transform says how PyMC moves a variable, not what its support is: ``ordered``
restricts a vector to one of K! orderings and leaves the density unnormalised there, so any transform other than the
distribution's own is a reason to refuse.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from pymc.distributions.custom import CustomSymbolicDistRV
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.distributions.transforms import _default_transform
from pymc.logprob.abstract import _logprob
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors, graph_inputs
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType

from bayeskit.families import support_kinds, support_of_prior
from bayeskit.graphs.compile import compile_small
from bayeskit.model.markov_chain import is_chain, states_of_chain

__all__ = [
    "CONSTANT",
    "Support",
    "has_own_transform",
    "improper",
    "is_improper",
    "is_real_always",
    "support_of",
    "support_without_transform",
    "why_not_normalised",
]

# Distributions of PyMC 6 with a density normalised on the whole of the support named, by the class of their op without
# its "RV"; those that are members of a conjugate family are among the family's facts.
NORMAL = ["Normal", "MvNormal", "MatrixNormal", "KroneckerNormal", "SkewNormal", "RandomWalk", "AutoRegressive"]
REAL = ["StudentT", "MvStudentT", "Cauchy", "Laplace", "AsymmetricLaplace", "Logistic", "Gumbel", "ExGaussian", "Moyal"]
POSITIVE = ["HalfNormal", "HalfCauchy", "HalfStudentT", "LogNormal", "Wald", "WeibullBeta", "Rice"]
KNOWN = dict.fromkeys([*NORMAL, *REAL], "real") | dict.fromkeys(POSITIVE, "positive") | {"Kumaraswamy": "unit"}
COUNTS = ("Poisson", "NegBinomial", "Geometric")  # whole numbers from 0 or 1 on, without end
PROCESSES = ("RandomWalk", "AutoRegressive")  # whose first values have a distribution of their own
# Those with no normaliser, and what to take instead.
IMPROPER = {
    "Flat": "Use a wide proper prior, for example pm.Normal(0, 100).",
    "HalfFlat": "Use a proper prior, for example pm.Gamma or pm.InverseGamma.",
    "ICAR": "Use pm.CAR with alpha < 1.",
}
NO_SCALE = (
    "and PyMC's density of it has no power of sigma in front, so that a sigma with a prior is no scale of it: leave it "
    "at one, and multiply the field by its scale"
)
# Of those, the ones whose density is the same everywhere on the support named.
CONSTANT = {"Flat": "real", "HalfFlat": "positive"}
# Wrappers around a density that the user supplies.
OPEN = ("CustomDist", "CustomSymbolicDist", "DensityDist", "Simulator", "EulerMaruyama")
COMBINATIONS = 4_096  # of values of other variables, at which the ends of a range are looked at
LIBRARIES = ("pymc.distributions.", "pytensor.tensor.random.", "pymc_extras.distributions.")
DERIVED = _logprob.dispatch(CustomSymbolicDistRV)  # where PyMC derives the density from the random function


@dataclass(frozen=True)
class Support:
    """The support of one variable.

    Attributes
    ----------
    kind : str
        ``real``, ``finite``, ``other`` or the name of one of :func:`bayeskit.families.support_kinds`.
    why, advice : str
        For ``other``: what stands in the way, as a sentence, and what to do.
    values : numpy.ndarray or None
        For ``finite``: the values the variable can take, where they are constants; of one whose range depends on other
        finite variables those that it can take at some values of these.
    normalised : bool
        Whether its density is known to integrate to one over its support.
    """

    kind: str
    why: str = ""
    advice: str = ""
    values: np.ndarray | None = None
    normalised: bool = True


def _constant(var: Variable) -> np.ndarray | None:
    """The value of a graph made of constants only, else None."""
    if isinstance(var, Constant):
        return np.asarray(var.data)
    if var.owner is None or isinstance(var.owner.op, RandomVariable):
        return None
    if not all(isinstance(i, Constant) for i in graph_inputs([var])):
        return None
    return np.asarray(var.eval(mode="FAST_COMPILE"))


def _bounds(op: Any, rv: Variable) -> tuple[np.ndarray, np.ndarray] | None:
    """Lower and upper parameter of a (discrete) uniform variable, where both are constants."""
    lower, upper = (_constant(p) for p in op.dist_params(rv.owner))
    return None if lower is None or upper is None else (lower, upper)


def _bounds_given_others(op: Any, rv: Variable) -> tuple[np.ndarray, np.ndarray] | None:
    """The least lower and the largest upper parameter, where they depend on finite variables only: times in order.

    None too where the least value is not possible at the least of the others: that is a point to look at the density.
    """
    parameters = op.dist_params(rv.owner)
    drawn = {v for v in ancestors(parameters) if v.owner is not None and isinstance(v.owner.op, RandomVariable)}
    others = [v for v in ancestors(parameters, blockers=drawn) if v in drawn]
    if any(v.type.ndim for v in others) or not others:
        return None
    if not all(v in others or isinstance(v, Constant) for v in graph_inputs(parameters, blockers=others)):
        return None
    values = [support_without_transform(v).values for v in others]
    known = [v for v in values if v is not None]
    if len(known) < len(values) or math.prod(map(len, known)) > COMBINATIONS:
        return None
    bounds = compile_small(others, parameters)
    each = [np.broadcast_arrays(*bounds(*map(np.asarray, given))) for given in itertools.product(*known)]
    lower, upper = np.moveaxis(np.array(each), 1, 0)
    if np.any(lower > upper) or np.any(lower[0] > lower.min()):
        return None
    return lower.min(), upper.max()


def _between(rv: Variable) -> np.ndarray | None:
    """The values between the constant ends of a truncated count; the lower may be left to the distribution."""
    ends = [i for i in rv.owner.inputs if not isinstance(i.type, RandomType)][-2:]
    lower, upper = (None if end is None else _constant(end) for end in ends)
    if lower is None or upper is None or lower.size != 1 or upper.size != 1 or not np.isfinite(upper.item()):
        return None
    if not np.isfinite(lower.item()) and type(rv.owner.op.base_rv_op).__name__.removesuffix("RV") not in COUNTS:
        return None
    first = int(np.ceil(lower.item())) if np.isfinite(lower.item()) else 0
    return np.arange(first, int(np.floor(upper.item())) + 1)


def _name(rv: Variable) -> str:
    return type(rv.owner.op).__name__.removesuffix("RV")


def improper(rv: Variable) -> str:
    """Why a prior is not normalised by its distribution, nor by that of where a random walk starts; empty if it is."""
    starts = [i for i in rv.owner.inputs if i.owner is not None] if _name(rv) in PROCESSES else []
    if _name(rv) == "CAR":
        return "PyMC's density of pm.CAR leaves out a constant, and integrates to something else than one"
    name = next((n for n in map(_name, [rv, *starts]) if n in IMPROPER), "")
    said = f"pm.{name} is improper, so there is no evidence" if name else ""
    return f"{said}; {NO_SCALE}" if name == "ICAR" and _sigma_is_latent(rv) else said


def _sigma_is_latent(rv: Variable) -> bool:
    """Whether the sigma of an ICAR depends on another random variable."""
    sigma = rv.owner.inputs[-2] if _name(rv) == "ICAR" else rv
    return any(v.owner is not None and isinstance(v.owner.op, RandomVariable) for v in ancestors([sigma]))


def support_of(model: pm.Model, rv: Variable, *, shared: bool = False) -> Support:
    """The support of a free random variable of a model; of one with a constant density only if that is ``shared``."""
    transform = model.rvs_to_transforms.get(rv)
    if shared and (kind := CONSTANT.get(_name(rv))) and has_own_transform(model, rv):
        return Support(kind, normalised=False)
    if _name(rv) != "HalfFlat" and not has_own_transform(model, rv):
        return Support(
            "other",
            f"its transform {type(transform).__name__} is not the one of its distribution and may restrict its support",
            "Leave the transform out; if the restriction is meant, it is part of the model and has no closed form.",
            normalised=False,
        )
    return support_without_transform(rv)


def is_real_always(rv: Variable) -> bool:
    """Whether a variable may have every real value, whatever its parameters are."""
    return support_without_transform(rv).kind == "real"


def has_own_transform(model: pm.Model, rv: Variable) -> bool:
    """Whether a variable has no transform or its distribution's own, which leaves it all of its support."""
    transform: Any = model.rvs_to_transforms.get(rv)
    default: Any = _default_transform(rv.owner.op, rv)
    if transform is None or type(transform) is not type(default):
        return transform is None
    # An interval that the user wrote may be shorter than that of the distribution.
    bounds, own = (getattr(t, "args_fn", None) for t in (transform, default))
    # Equal, not the same: a model that came from another process has a copy of the function.
    return bool(getattr(bounds, "__code__", bounds) == getattr(own, "__code__", own))


def is_improper(rv: Variable) -> bool:
    """Whether the distribution of a variable has no normaliser."""
    return _name(rv) in IMPROPER


def why_not_normalised(model: pm.Model, rv: Variable) -> str:
    """Why the density of a variable, whatever its transform, may integrate to another number than one; else empty.

    It is made of other distributions where it is a mixture, a random walk or an LKJ covariance, say.
    """
    op: Any = rv.owner.op
    if why := improper(rv):
        return why
    # Of a CustomDist with a random function and no density, PyMC derives that.
    derived = isinstance(op, CustomSymbolicDistRV) and _logprob.dispatch(type(op)) is DERIVED
    if not (derived or _of_a_library(rv)):
        return "its log density is the author's own"
    if not isinstance(op, SymbolicRandomVariable):
        return ""
    others = frozenset(model.basic_RVs)
    parts = [
        part
        for part in ancestors([*rv.owner.inputs, *op.inner_outputs], blockers=others)
        if part.owner and isinstance(part.owner.op, RandomVariable | SymbolicRandomVariable) and part not in others
    ]
    return next((f"it is made of {_name(p)}: {why}" for p in parts if (why := why_not_normalised(model, p))), "")


def _of_a_library(rv: Variable) -> bool:
    """Whether a distribution is no wrapper around a density that the user supplies."""
    name, op = _name(rv), rv.owner.op
    if name in KNOWN or support_of_prior(type(op).__name__) is not None:
        return True
    return type(op).__module__.startswith(LIBRARIES) and not name.startswith(OPEN)


def support_without_transform(rv: Variable) -> Support:
    """The support of a variable's distribution, whatever transform the model gives it."""
    op: Any = rv.owner.op
    name = _name(rv)
    if name == "PartialObserved" and support_without_transform(rv.owner.inputs[0]).kind == "real":
        return Support("real")  # the entries of a vector of real numbers that are missing from the data
    if name in ("Flat", "ICAR"):
        return Support("real", normalised=False)  # a constant, and Normal but for directions that it leaves free
    if name in IMPROPER:
        return Support("other", improper(rv), IMPROPER[name], normalised=False)
    if name in KNOWN:
        return Support(KNOWN[name])
    if name == "CAR":
        return Support("real", normalised=False)  # Normal, but for a constant
    if (member := support_of_prior(type(op).__name__)) is not None:
        return Support(member.name)
    if name == "Uniform":
        bounds = _bounds(op, rv)
        for known in support_kinds().values():
            if bounds and known.bounds and all(np.all(b == end) for b, end in zip(bounds, known.bounds, strict=True)):
                return Support(known.name)
        return Support(
            "other",
            "a Uniform prior that is not on (0, 1) cuts the support off inside it",
            "Where a closed form matters: Uniform(0, 1) or Beta for a probability, Gamma or InverseGamma for a rate or "
            "variance, Normal for a mean; a coefficient between -1 and 1 has none.",
        )
    if name == "Bernoulli":
        return Support("finite", values=np.array([0, 1]))
    if name == "Categorical":
        (p,) = op.dist_params(rv.owner)
        size = p.type.shape[-1]
        return Support("finite", values=None if size is None else np.arange(size))
    if is_chain(rv):
        states = states_of_chain(rv)
        return Support("finite", values=None if states is None else np.arange(states))
    if name == "DiscreteUniform":
        bounds = _bounds(op, rv) or _bounds_given_others(op, rv)
        if bounds is not None and bounds[0].size == bounds[1].size == 1:
            return Support("finite", values=np.arange(int(bounds[0].item()), int(bounds[1].item()) + 1))
    if name in ("Binomial", "BetaBinomial"):
        n = _constant(op.dist_params(rv.owner)[0])
        if n is not None and n.size == 1:
            return Support("finite", values=np.arange(int(n.item()) + 1))
    if name == "Truncated" and rv.type.dtype.startswith("int") and (values := _between(rv)) is not None:
        return Support("finite", values=values)
    if name in COUNTS:
        why = f"a {name} variable has no largest value up to which it could be summed over"
        return Support("other", why, "Give it one that it does not reach: pm.Truncated, with upper=.")
    return Support(
        "other",
        f"the distribution {name} is in no conjugate family that bayeskit knows",
        "Use a Normal, Gamma, InverseGamma, Beta, Dirichlet or Wishart prior.",
        normalised=_of_a_library(rv),
    )
