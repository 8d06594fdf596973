"""What will be done to a model, and what was not: the steps of elimination, and why variables remain."""

from __future__ import annotations

from dataclasses import dataclass

from bayeskit.results.notebook_html import clipped, plan_html

__all__ = ["ENTRYWISE", "Plan", "Refusal", "Step"]

ENTRYWISE = "entrywise_quadrature"  # the family of a step that integrates each entry of a variable numerically


@dataclass(frozen=True)
class Refusal:
    """Why one variable was not integrated out.

    Attributes
    ----------
    variable : str
    reason : str
        What breaks the closed form.
    advice : str
        The nearest model that has one.
    """

    variable: str
    reason: str
    advice: str

    def __str__(self) -> str:
        return f"{self.variable}: {self.reason} {self.advice}"


@dataclass(frozen=True)
class Step:
    """One elimination: these variables, integrated out together, by this family, given those not yet gone."""

    variables: tuple[str, ...]
    family: str
    given: tuple[str, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        given = f" given {', '.join(self.given)}" if self.given else ""
        note = f" — {self.note}" if self.note else ""
        return f"{', '.join(self.variables)}: {self.family.replace('_', ' ')}{given}{note}"


@dataclass(frozen=True, repr=False)
class Plan:
    """What will be integrated out, in which order, by which family; what is left, and why.

    Attributes
    ----------
    eliminated : tuple of Step
        In order of elimination; draws go back the other way.
    remaining : tuple of str
        Variables that no closed form integrates out.
    method : str
        The first method that :func:`bayeskit.infer` will try and that is not known to be too dear, or the one that
        answered; empty where none is asked.
    refusals : tuple of Refusal
        One for each remaining variable.
    notes : tuple of str
        What else a reader of the result must know (a Potential, a method that was tried before and failed).
    outlook : str
        What the method will do with what remains.
    """

    eliminated: tuple[Step, ...]
    remaining: tuple[str, ...]
    method: str
    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...] = ()
    outlook: str = ""

    def __repr__(self) -> str:
        remaining = f", {clipped(self.remaining)} remaining" if self.remaining else ""
        gone = clipped(name for step in self.eliminated for name in step.variables) or "nothing"
        return f"Plan({self.method or 'no method'}: {gone} integrated out{remaining})"

    @property
    def how(self) -> str:
        """By what the steps integrate."""
        numerically = any(step.family == ENTRYWISE for step in self.eliminated)
        closed = not all(step.family == ENTRYWISE for step in self.eliminated)
        return " or ".join(["in closed form"] * closed + ["entry by entry"] * numerically)

    def _repr_html_(self) -> str:
        return plan_html(self)

    def __str__(self) -> str:
        lines = [f"method: {self.method}"] if self.method else []
        if self.eliminated:
            lines.append(f"integrated out {self.how}, in this order:")
            lines += [f"  {i}. {step}" for i, step in enumerate(self.eliminated, 1)]
        if self.refusals:
            lines.append("remaining, without a closed form:")
            # The scales of a model mostly get the same advice: it is given once, after the last of them.
            last = {refusal.advice: k for k, refusal in enumerate(self.refusals)}
            for k, refusal in enumerate(self.refusals):
                lines.append(f"  {refusal.variable}: {refusal.reason}")
                lines += [f"    advice: {refusal.advice}"] if last[refusal.advice] == k else []
        lines += [self.outlook] if self.outlook else []
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)
