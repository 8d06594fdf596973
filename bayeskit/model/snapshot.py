"""The data that a model had when it was fitted: a posterior is asked with these, whatever the model has later.

``pm.set_data`` gives a container another array; it does not write into the one that was there. Holding the arrays is
therefore a snapshot; only who holds it for long copies them, because a borrowed array may be written into.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import wraps
from threading import RLock
from types import SimpleNamespace
from typing import Any

import pymc as pm
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.random.type import RandomType

from bayeskit.arguments import checked
from bayeskit.errors import ModelError

__all__ = ["Snapshot", "WrittenModel", "on_its_data", "restored", "written_down"]

_PUTTING = RLock()


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Values of everything in a model that can be given another value, and the labels of its dims.

    These are data containers, other shared variables and lengths of dims; not the states of random number generators.
    """

    model: pm.Model
    values: dict[SharedVariable, Any]
    coords: dict[str, Any]

    @classmethod
    def of(cls, model: pm.Model, *, borrow: bool = True) -> Snapshot:
        """The data of a model as they are now."""
        graphs: list[Any] = [*model.basic_RVs, *model.potentials, *model.deterministics, *model.data_vars]
        leaves = graph_inputs([*graphs, *model.rvs_to_values.values(), *model.dim_lengths.values()])
        shared = [v for v in leaves if isinstance(v, SharedVariable) and not isinstance(v.type, RandomType)]
        return cls(model, {v: v.get_value(borrow=borrow) for v in shared}, dict(model.coords))

    def _put(self) -> None:
        for variable, value in self.values.items():
            variable.set_value(value, borrow=True)
        # PyMC has no public way to take labels off a dim again.
        self.model._coords.clear()
        self.model._coords.update(self.coords)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Within it the model has these data; afterwards those it had before, whatever was set in between.

        One thread at a time: two analyses of one model write their data into the same containers.
        """
        with _PUTTING:
            now = {v: v.get_value(borrow=True) for v in self.values}
            before = replace(self, values=now, coords=dict(self.model.coords))
            self._put()
            try:
                yield
            finally:
                before._put()


def restored(snapshot: Snapshot | None) -> AbstractContextManager[None]:
    """Within it a model has the data of a snapshot, where there is one."""
    return nullcontext() if snapshot is None else snapshot.restored()


def on_its_data[**P, R](query: Callable[P, R]) -> Callable[P, R]:
    """A query, its arguments checked, on the data that the first was fitted to, where it has a ``snapshot`` of them."""

    @wraps(query)
    def asked(*args: P.args, **kwargs: P.kwargs) -> R:
        with restored(getattr(args[0], "snapshot", None) if args else None):
            return query(*args, **kwargs)

    return checked(asked)  # which gives arguments by their place


@dataclass(frozen=True)
class WrittenModel:
    """What stands for the model in a posterior that was loaded without it; a ModelError where it is not enough."""

    name: str
    answers: Mapping[str, Any] = field(repr=False)  # of the functions that are ``written_down``, by name

    @property
    def free_RVs(self) -> list[Any]:
        """Named as those of a model are."""
        return [SimpleNamespace(name=name) for name in self.answers["priors_of"]]

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise ModelError(
            "this needs the model, and the posterior was loaded without it: bayeskit.load(path, model=model)"
        )


def written_down[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """What is asked of a model, or of a posterior: of one that was loaded without its model, what its file says."""

    @wraps(function)
    def asked(*args: P.args, **kwargs: P.kwargs) -> R:
        model: Any = args[0] if isinstance(args[0], WrittenModel) else getattr(args[0], "model", None)
        known: Any = model.answers if type(model) is WrittenModel else {}
        return known[function.__name__] if known else function(*args, **kwargs)

    return asked
