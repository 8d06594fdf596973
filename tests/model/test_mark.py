"""Models that are known again in another run, and those that are others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.distributions.transforms import Interval, Ordered, log
from pytensor.graph.op import Op
from pytensor.tensor.blockwise import Blockwise

from bayeskit.model.mark import mark_of


class Shifted(Op):
    """An operation of a user, which holds its data."""

    def __init__(self, by: np.ndarray) -> None:
        self.by = by

    def make_node(self, x: Any) -> Any:
        x = pt.as_tensor(x)
        return pytensor.graph.basic.Apply(self, [x], [x.type()])

    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        outputs[0][0] = inputs[0] + self.by


def looped(mean: Any, share: float) -> Any:
    return pytensor.scan(
        lambda before, m: share * before + m,
        outputs_info=[pt.constant(0.0, dtype="float64")],
        non_sequences=[mean],
        n_steps=3,
        return_updates=False,
    )


def scaled_logp(by: float) -> Callable[..., Any]:
    return lambda value, mu: -by * (value - mu) ** 2


def model(of: Callable[[Any], Any] = lambda m: m, sd: float = 2.0, observed: float = 1.0, name: str = "d") -> pm.Model:
    with pm.Model(coords={"row": [0, 1, 2]}) as found:
        mean = pm.Normal("mean", 0, sd)
        data = pm.Data("data", np.full(3, observed), dims="row")
        pm.Deterministic(name, 2 * mean)
        pm.StudentT("y", nu=4, mu=of(mean), sigma=1.0, observed=data)
    return found


def test_models_that_differ_anywhere_have_another_mark() -> None:
    several = [
        model(),
        model(sd=3.0),
        model(observed=2.0),
        model(name="e"),
        model(lambda m: m * m),
        model(lambda m: looped(m, 0.2)),
        model(lambda m: looped(m, 0.9)),
        model(lambda m: Shifted(np.zeros(3))(m)),
        model(lambda m: Shifted(np.ones(3))(m)),
        model(lambda m: Blockwise(Shifted(np.full(3, 2.0)), signature="(n)->(n)")(pt.fill(np.zeros((1, 3)), m))[0]),
        model(lambda m: Blockwise(Shifted(np.full(3, 3.0)), signature="(n)->(n)")(pt.fill(np.zeros((1, 3)), m))[0]),
        model(lambda m: pt.switch(m > 9.0, 1.0, m)),
        model(lambda m: pt.switch(m > 9.0, 3.0, m)),
    ]
    assert len({mark_of(one) for one in several}) == len(several)
    assert mark_of(model()) == mark_of(model())
    assert mark_of(model(lambda m: looped(m, 0.2))) == mark_of(several[5])
    with several[0]:
        pm.set_data({"data": np.array([1.0, 1.0, 7.0])})
    assert mark_of(several[0]) != mark_of(model())


def own(of: Callable[[Any], Any]) -> pm.Model:
    with pm.Model() as found:
        of(pm.Normal("mean", 0, 3))
    return found


def drawn(by: float) -> Callable[..., Any]:
    return lambda mu, rng=None, size=None: rng.normal(by * mu, size=size)


def simulated(by: float) -> Callable[..., Any]:
    return lambda rng, mu, size: rng.normal(by * mu, size=size)


def summed(by: float) -> Callable[[Any], Any]:
    return lambda value: by * value.mean()


def moved(by: float) -> Any:
    return Interval(0, by)


OWN: list[Callable[[float], Callable[[Any], Any]]] = [
    lambda by: lambda mean: pm.CustomDist("y", mean, logp=scaled_logp(by)),
    lambda by: lambda mean: pm.CustomDist("y", mean, logp=lambda v, mu: -v * (mu + pt.exp(by * mean))),
    lambda by: lambda mean: pm.CustomDist("y", mean, logp=scaled_logp(1.0), random=drawn(by)),
    lambda by: lambda mean: pm.CustomDist("y", mean, dist=lambda mu, size: pm.Normal.dist(by * mu, size=size)),
    lambda by: (
        lambda mean: pm.CustomDist("y", mean, dist=lambda mu, size: pm.Normal.dist(mu, size=size), logp=scaled_logp(by))
    ),
    lambda by: lambda mean: pm.Simulator("y", simulated(by), mean, epsilon=1.0, observed=np.ones(2)),
    lambda by: lambda mean: pm.Simulator("y", simulated(1.0), mean, epsilon=by, observed=np.ones(2)),
    lambda by: (
        lambda mean: pm.Simulator("y", simulated(1.0), mean, epsilon=1.0, sum_stat=summed(by), observed=np.ones(2))
    ),
    lambda by: lambda mean: pm.Truncated("y", pm.CustomDist.dist(mean, logp=scaled_logp(by), class_name="Own"), 0, 1),
    lambda by: lambda _: pm.Normal("y", 0, 1, transform=moved(by)),
    lambda by: lambda _: pm.Normal("y", 0, 1, shape=2, transform=Ordered(ascending=by == 1.0)),
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # pm.Simulator
@pytest.mark.parametrize("of", OWN)
def test_functions_that_a_model_is_given_are_in_its_mark(of: Callable[[float], Callable[[Any], Any]]) -> None:
    assert mark_of(own(of(1.0))) == mark_of(own(of(1.0))) != mark_of(own(of(2.0)))


def test_transforms_are_in_a_mark_where_they_are_not_the_distributions_own() -> None:
    def of(**transform: Any) -> str:
        return mark_of(own(lambda _: pm.Gamma("y", 1, 1, **transform)))

    assert of() == of(default_transform=log) == of(default_transform=None)
    assert len({of(), of(transform=log), of(transform=Interval(0, 1)), of(transform=Interval(0, 2))}) == 4
