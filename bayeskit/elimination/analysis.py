"""What is known about a model before a number is computed: its densities, its plan, and what the plan rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm

from bayeskit.arguments import checked
from bayeskit.errors import DataError
from bayeskit.families import ConjugateFamily
from bayeskit.finite.sum_out import Summed
from bayeskit.gaussian.block import GaussianBlock
from bayeskit.graphs.environment import lightly
from bayeskit.model.data_slots import DataSlot, filled, sealed, with_constants, with_slots
from bayeskit.model.log_joint import LogJoint
from bayeskit.model.snapshot import Snapshot, restored
from bayeskit.model.support import Support
from bayeskit.model.written_data import written_elsewhere
from bayeskit.plates.plate import Plate
from bayeskit.results.records import Plan
from bayeskit.terminal import let_alarms_through

__all__ = ["Analysis", "Scale", "numbers_left", "size_of"]

FAMILY = 16  # proofs kept, each for other answers of the data to what it asks of them
LARGE = 100_000  # numbers in the data above which products with them are kept, by their place in memory


@dataclass(frozen=True, eq=False)
class Scale:
    """A variable integrated out by its conjugate family, and the Gaussian block that it scales, if any."""

    name: str
    family: ConjugateFamily
    block: GaussianBlock | None = None
    kappa: int = 0  # the precision of the block is proportional to φ^kappa
    group: np.ndarray | None = None  # for each entry of the stacked block, the flat index of the entry of φ scaling it
    multiple: np.ndarray | None = None  # K of Λ(W) = K ⊗ W

    def governed(self, shape: tuple[int, ...]) -> np.ndarray:
        """How many numbers (for a matrix, vectors) of the block each entry of φ governs, for φ of a shape."""
        if self.multiple is not None:
            return np.asarray(len(self.multiple))
        return np.bincount(np.asarray(self.group), minlength=int(np.prod(shape, dtype=int))).reshape(shape)


@dataclass(frozen=True, eq=False)
class Analysis:
    """Everything that :func:`bayeskit.inference.ladder` needs to know about a model before it computes a number."""

    joint: LogJoint
    shapes: dict[str, tuple[int, ...]]
    plan: Plan
    blocks: tuple[GaussianBlock, ...] = ()
    scales: tuple[Scale, ...] = ()
    ancestral: tuple[str, ...] = ()  # nothing depends on them: drawn forward from their own distribution
    finite: tuple[str, ...] = ()  # finite variables that are enumerated; everything else is conditional on them
    values: dict[str, np.ndarray] = field(default_factory=dict)  # of the finite variables
    supports: dict[str, Support] = field(default_factory=dict)  # of every latent variable
    summed: tuple[Summed, ...] = ()  # summed out of ``joint``, in that order; all else was planned without them
    plates: tuple[Plate, ...] = ()  # integrated out entry by entry after those sums, in that order
    given_states: Any = None  # the collapsed density from which those sums are taken, where it is not ``whole``
    without_plates: Analysis | None = None  # the same, without them
    whole: LogJoint | None = None  # the model as written, where ``joint`` is one with variables summed out
    snapshot: Snapshot | None = None  # the data that it is evaluated with, where not those that its model has now
    analyse: Callable[[pm.Model], Analysis] | None = None  # what finds the analysis of a model
    _memory: dict[str, Any] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_memory": {}}  # compiled functions are made again where it is unpickled

    @property
    def original(self) -> LogJoint:
        """The density of the model as written."""
        return self.joint if self.whole is None else self.whole

    def remembered(self, key: str, make: Callable[[], Any]) -> Any:
        """What is compiled once for all data of the same shapes; anew each time where the data cannot be exchanged."""
        if self.snapshot is not None and key not in self._memory:
            self._memory[key] = make()
        return make() if self.snapshot is None else self._memory[key]

    def remembered_of(self, model: pm.Model, key: str, make: Callable[[], Any]) -> Any:
        """What is found once while a model has these data; with any other in their place it is found anew."""
        now = Snapshot.of(model).values
        before, found = self._memory.get(key, (None, None))
        if before is None or before.keys() != now.keys() or not all(_same(before[v], now[v]) for v in now):
            self._memory[key] = now, (found := make())
        return found

    def remembered_unread(self, key: str, make: Callable[[], Any]) -> Any:
        """What is built once for all data of the same shapes, if without reading them; anew each time where it is not.

        A slot that is sealed is a symbol to what is built, which therefore holds for all of its values.
        """
        if self.snapshot is None:
            return make()
        if key not in self._memory:
            try:
                with sealed(self._memory["unread"]):
                    self._memory[key] = make()
            except Exception as error:  # whatever becomes of it without its data, it is not built
                let_alarms_through(error)
                self._memory[key] = None
        return make() if self._memory[key] is None else self._memory[key]

    @property
    def _family(self) -> list[_General]:
        if "family" not in self._memory:
            with restored(self.snapshot):
                _joined(_generalised(self), self._memory.setdefault("family", []))
        family: list[_General] = self._memory["family"]
        return family

    @property
    def used_values(self) -> dict[str, str]:
        """The data whose values the proof used, by name, with the reason: with other values it is found anew."""
        return dict(self._family[0].used)

    @checked
    def with_data(self, data: Mapping[str, Any]) -> Analysis:
        """The analysis of the same model with other data of the same shapes.

        Parameters
        ----------
        data : mapping of str to array
            New values of observed variables and ``pm.Data`` containers, by name; the others keep theirs.

        Returns
        -------
        Analysis
            Nothing is found or compiled anew, but where the proof used values of the data that are given
            (``used_values``), or asked something of them that has another answer now (whether a count is zero, for
            example). :func:`bayeskit.infer` takes it in the place of a model; the certificate runs each time.

        Raises
        ------
        bayeskit.errors.DataError
            If there are no such data, or the new ones have another shape or type, or missing entries; or if the model
            also has them as a constant, as the conditional distribution of a Gaussian process has its observations.
        """
        family = self._family
        first = family[0]
        # Its own model, if it has slots; the first has the values of the model as it was written.
        own = next(((g, s) for g in family if (s := self.snapshot) and g.snapshot.model is s.model), None)
        new = {str(slot.name): value for slot, value in filled(first.slots, data).items()}
        before = first.named(first.snapshot)
        for name, variable in first.written_elsewhere.items():
            if name in new and not np.array_equal(new[name], before[name]):
                raise DataError(
                    f"{name!r} is also written into {variable!r} as numbers, which would stay those of before; build "
                    "the model anew with the new values"
                )
        values = (before if own is None else own[0].named(own[1])) | new
        for general in family:
            if general.holds_for(values):
                return general.at(values)
        with lightly(), first.snapshot_of(values).restored():
            assert self.analyse is not None
            analysis = self.analyse(with_constants(first.snapshot.model))
        if first.analysis is None or first.changed(values) or len(family) >= FAMILY:
            return analysis
        general = _generalised(analysis)
        _joined(general, family)
        return general.at(values) if general.holds_for(values) else analysis


def _same(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.array_equal(a, b))


@dataclass(frozen=True, eq=False)
class _General:
    """An analysis that holds for all values of some data: its proof could not read them."""

    analysis: Analysis | None  # None where none was found without the data
    slots: dict[str, DataSlot]  # by all of their names
    used: dict[str, str]  # the data that it holds for with their own values only, with the reason
    snapshot: Snapshot  # the values that it was found with

    @cached_property
    def written_elsewhere(self) -> dict[str, str]:
        """What is observed and also a constant of a variable, which does not change with it."""
        model, values = self.snapshot.model, self.named(self.snapshot)
        observed = {str(self.slots[rv.name].name) for rv in model.observed_RVs if rv.name in self.slots}
        return written_elsewhere(model, {n: v for n, v in values.items() if n in observed})

    def named(self, snapshot: Snapshot) -> dict[str, np.ndarray]:
        """The values of the slots in a snapshot, each by the slot's own name."""
        return {str(s.name): snapshot.values[s] for s in self.slots.values()}

    def snapshot_of(self, values: Mapping[str, np.ndarray]) -> Snapshot:
        new: dict[Any, Any] = {s: values[str(s.name)] for s in self.slots.values()}
        return replace(self.snapshot, values=self.snapshot.values | new)

    def at(self, values: Mapping[str, np.ndarray]) -> Analysis:
        """The analysis with other values."""
        assert self.analysis is not None
        return replace(self.analysis, snapshot=self.snapshot_of(values))

    def changed(self, values: Mapping[str, np.ndarray]) -> bool:
        """Whether data that the proof used have other values."""
        before = self.named(self.snapshot)
        return any(not np.array_equal(values[n], before[n]) for n in {str(self.slots[u].name) for u in self.used})

    def holds_for(self, values: Mapping[str, np.ndarray]) -> bool:
        """Whether the proof used no value that is another, and what it asked of the data has the same answer."""
        if self.analysis is None or self.changed(values):
            return False
        with self.snapshot_of(values).restored():
            return all(question() == answer for question, answer in self.analysis.original.facts)


def _joined(general: _General, family: list[_General]) -> None:
    """Let analyses of one model know each other: with other facts, a proof found before may hold."""
    family.append(general)
    if general.analysis is not None:
        unread = [slot for name, slot in general.slots.items() if name not in general.used]
        general.analysis._memory.update(family=family, unread=unread)


def _generalised(analysis: Analysis) -> _General:
    """Prove it once more without reading the data; where that fails, without reading those that are not needed."""
    model, slots = with_slots(analysis.original.model)
    snapshot = Snapshot.of(model)
    if analysis.joint.data_size > LARGE:
        used = dict.fromkeys(slots, "the data are so large that finding it anew takes no longer than using them")
        return _General(None, slots, used, snapshot)
    general, _ = _without(analysis, model, slots.values())
    if general is not None:
        return _General(general, slots, {}, snapshot)
    reasons = {s: reason for s in dict.fromkeys(slots.values()) if (reason := _without(analysis, model, [s])[1])}
    used = {n: reasons[s] for n, s in slots.items() if s in reasons}
    general, reason = _without(analysis, model, [s for s in slots.values() if s not in reasons])
    if general is None:
        used = dict.fromkeys(slots, reason)
    return _General(general, slots, used, snapshot)


def _without(analysis: Analysis, model: pm.Model, slots: Iterable[DataSlot]) -> tuple[Analysis | None, str]:
    """The analysis of the same plan without reading some data; or why there is none."""
    assert analysis.analyse is not None
    try:
        with lightly(), sealed(slots):
            general = analysis.analyse(model)
    except Exception as error:  # whatever becomes of a proof that is refused its data, it is no proof
        let_alarms_through(error)
        return None, f"the proof reads it ({type(error).__name__}: {error})"
    if (general.plan, general.shapes) != (analysis.plan, analysis.shapes):
        return None, "without its values the plan is another"
    return general, ""


def size_of(analysis: Analysis, name: str) -> int:
    """How many numbers a variable has."""
    return int(np.prod(analysis.shapes[name], dtype=int))


def numbers_left(analysis: Analysis) -> int:
    """How many numbers remain without a closed form."""
    return sum(size_of(analysis, name) for name in analysis.plan.remaining)
