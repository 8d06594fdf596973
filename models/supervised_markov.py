r"""A hidden Markov model whose states are observed: sequences of labelled states, and what each state emits.

.. math::

   s_1 \mid \pi \sim \mathrm{Categorical}(\pi), \qquad
   s_t \mid s_{t-1} = j \sim \mathrm{Categorical}(A_j), \qquad
   \pi \sim \mathrm{Dirichlet}(a_0, \ldots, a_0), \qquad A_j \sim \mathrm{Dirichlet}(a_{j1}, \ldots, a_{jK})

with :math:`a_{jk} = a` and, on the diagonal, :math:`a_{jj} = a + b`; and, given :math:`s_t = k`, independently for each
column :math:`d`,

* Gaussian (``y``): :math:`y_{td} \sim \mathrm{Normal}(\mu_{kd}, u_d^2 / \lambda_{kd})`, with
  :math:`\lambda_{kd} \sim \mathrm{Gamma}(\nu_0 / 2, \nu_0 s^2 / 2)` and
  :math:`\mu_{kd} \mid \lambda_{kd} \sim \mathrm{Normal}(m_d, u_d^2 / (\kappa_0 \lambda_{kd}))`;
* Poisson (``counts``): :math:`c_{td} \sim \mathrm{Poisson}(\rho_{kd})`, with
  :math:`\rho_{kd} \sim \mathrm{Gamma}(\gamma, \gamma / r_d)`, of mean :math:`r_d`;
* categorical (``symbols``): :math:`z_t \sim \mathrm{Categorical}(\phi_k)`, with
  :math:`\phi_k \sim \mathrm{Dirichlet}(e, \ldots, e)`.

This is the supervised hidden Markov model: what would be hidden was labelled, by hand or by an institution, so that
everything is conjugate. There may be several sequences, of different lengths, in one table with a column that names
them; the rows of a sequence are in its order. With :math:`n_{jk}` transitions from :math:`j` to :math:`k`, the evidence
is the product of

.. math::

   \frac{\Gamma(\sum_k a_{jk})}{\Gamma(\sum_k a_{jk} + n_{jk})} \prod_k \frac{\Gamma(a_{jk} + n_{jk})}{\Gamma(a_{jk})}

over :math:`j`, of the same for the first states of the sequences, and of the evidence of what each state emitted: that
of the ``normal``, ``gamma_poisson`` and ``dirichlet_multinomial`` models. A state or a symbol that was declared and has
no row is answered by its prior.

The graph has the first state of each sequence, ``state_first``, the states that follow, ``state_next``, each given the
one before it, and the emissions given the states, which are a data container too: ``predict({"state": labels})`` draws
what a sequence of states would emit.

The free variables are ``initial_probability`` of dims ``("state",)``, ``transition_probability`` of dims
``("state", "next_state")`` and, as the data have them, ``mu`` and ``precision`` of dims ``("state", "feature")``,
``rate`` of dims ``("state", "item")`` and ``symbol_probability`` of dims ``("state", "symbol")``.

The example is the growth of the economy of the United States, with the recessions as dated by the National Bureau of
Economic Research.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pymc as pm

from bayeskit.catalogue.builder import column_coords, model_builder, row_coords
from bayeskit.catalogue.class_conditional import class_prior, normal_features, poisson_features
from bayeskit.datasets.labels import declared_codes
from bayeskit.datasets.schema import Example, Positive, Range, Variable
from bayeskit.errors import DataError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EXAMPLE", "VARIABLES", "build"]

VARIABLES = {
    "state": Variable(kind="category", doc="the state of each row"),
    "sequence": Variable(kind="category", required=False, doc="the sequence of each row; one where not given"),
    "y": Variable(("row", "feature"), required=False, doc="Gaussian emissions, one column each"),
    "counts": Variable(("row", "item"), kind="count", required=False, doc="Poisson emissions, one column each"),
    "symbols": Variable(kind="category", required=False, doc="the symbol that each row emits"),
}

EXAMPLE = Example("recessions", {"state": "phase", "y": ("growth",), "row": "quarter"})


@model_builder(VARIABLES)
def build(
    data: xr.Dataset,
    *,
    states: str | None = None,
    symbols: str | None = None,
    concentration: Positive = 1.0,
    persistence: Annotated[float, Range(low=0)] = 0.0,
    prior: Literal["data", "given"] = "data",
    mean: float = 0.0,
    mean_weight: Positive = 0.1,
    degrees_of_freedom: Positive = 3.0,
    sd: Positive = 0.5,
    rate_shape: Positive = 1.0,
    rate_mean: Positive = 1.0,
    symbol_concentration: Positive = 1.0,
) -> pm.Model:
    """Build the supervised hidden Markov model.

    Parameters
    ----------
    data : xarray.Dataset
        ``state``, ``sequence`` where there are several, and at least one of ``y``, ``counts`` and ``symbols``.
    states, symbols : str or None
        All of them, separated by commas, where some have no rows or the order matters; those found where not given.
    concentration : float
        As many first states, and transitions from each state, to each state as the prior is worth.
    persistence : float
        As many more transitions from each state to itself.
    prior : {"data", "given"}
        Units of the priors: each column's mean and sd (of counts: mean) over all rows, or the columns' own units.
    mean : float
        Prior mean of each state's mean: so many sds from the overall mean, or in units of y.
    mean_weight : float
        As many rows kappa0 as that prior mean is worth.
    degrees_of_freedom : float
        Degrees of freedom nu0 of the prior of the precisions, twice the shape of their Gamma.
    sd : float
        Prior guess of the sd within a state, in the units of the prior.
    rate_shape, rate_mean : float
        Shape of the Gamma prior of the rates (as many events as it is worth), and its mean in the units of the prior.
    symbol_concentration : float
        As many emissions of each symbol in each state as the prior is worth.
    """
    labels, codes = declared_codes(data["state"], "states", states)
    with pm.Model(coords=_coords(data, labels)) as model:
        state = _states(data, codes, concentration, persistence)
        if "y" in data:
            normal_features(
                "y", data["y"].to_numpy(), state, prior=prior, mean=mean, mean_weight=mean_weight,
                degrees_of_freedom=degrees_of_freedom, sd=sd, dims=("state", "row", "feature"),
            )  # fmt: skip
        if "counts" in data:
            number, dims = data["counts"].to_numpy(), ("state", "row", "item")
            poisson_features("counts", number, state, prior=prior, shape=rate_shape, mean=rate_mean, dims=dims)
        if "symbols" in data:
            _symbols(*declared_codes(data["symbols"], "symbols", symbols), state, symbol_concentration)
    return model


def _coords(data: xr.Dataset, labels: np.ndarray) -> dict[str, np.ndarray]:
    kinds = [name for name in ("y", "counts", "symbols") if name in data]
    if not kinds:
        raise DataError("the model needs emissions: name the columns of at least one of y (real), counts and symbols")
    coords = {"row": np.arange(data["state"].size), "state": labels, "next_state": labels, **row_coords(data)}
    for name in kinds:
        coords |= column_coords(data, name) if data[name].ndim == 2 else {}
    return coords


def _states(data: xr.Dataset, codes: np.ndarray, concentration: float, persistence: float) -> Any:
    """The first state of each sequence, those that follow, each given the one before it; the states as a container."""
    sequences, sequence = np.array([0]), np.zeros(codes.size, dtype=np.int64)
    if "sequence" in data:
        sequences, sequence = np.unique(data["sequence"].to_numpy(), return_inverse=True)
    first, follows, previous = _transitions(sequence)
    model = pm.modelcontext(None)
    model.add_coords({"sequence": sequences, "step": np.asarray(model.coords["row"])[follows]})
    state = pm.Data("state_code", codes, dims="row")
    class_prior("initial_probability", "state_first", codes[first], concentration, ("state", "sequence"))
    size = len(model.coords["state"])
    count = np.full((size, size), concentration) + persistence * np.eye(size)
    transition = pm.Dirichlet("transition_probability", a=count, dims=("state", "next_state"))
    if follows.size:
        pm.Categorical("state_next", p=transition[codes[previous]], observed=codes[follows], dims="step")
    return state


def _symbols(names: np.ndarray, codes: np.ndarray, state: Any, concentration: float) -> None:
    """The symbol of each row, with Dirichlet probabilities in each state."""
    model = pm.modelcontext(None)
    model.add_coord("symbol", names)
    concentrations = np.full((len(model.coords["state"]), names.size), concentration)
    probability = pm.Dirichlet("symbol_probability", a=concentrations, dims=("state", "symbol"))
    pm.Categorical("symbols", p=probability[state], observed=codes, dims="row")


def _transitions(sequence: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows that begin a sequence, in the order of the sequences; those that do not; and the row before each.

    The rows of a sequence need not stand together.
    """
    order = np.argsort(sequence, kind="stable")
    begins = np.ones(sequence.size, dtype=bool)
    begins[1:] = sequence[order[1:]] != sequence[order[:-1]]
    follows, previous = order[1:][~begins[1:]], order[:-1][~begins[1:]]
    place = np.argsort(follows)
    return order[begins], follows[place], previous[place]
