"""The error for a resource that cannot be used: which field, what is wrong with it, and the way out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with one field."""

    path: str
    """Where, as kubectl writes it: `spec.steps[0].action`; empty for the whole object."""
    message: str
    """What is wrong. Never the offending value: somebody may have pasted a password into the wrong field."""
    way_out: str
    """What to write instead."""

    def __str__(self) -> str:
        where = self.path or "the object"
        return f"{where}: {self.message}; {self.way_out}" if self.way_out else f"{where}: {self.message}"


class ResourceError(ValueError):
    """A resource, or a value that belongs into one, is refused. `problems` has every reason."""

    def __init__(self, kind: str, name: str, problems: tuple[Problem, ...]) -> None:
        self.kind = kind
        self.name = name
        self.problems = problems
        label = f"{kind} {name}" if name else kind
        super().__init__(f"{label} is refused: " + " | ".join(str(problem) for problem in problems))
