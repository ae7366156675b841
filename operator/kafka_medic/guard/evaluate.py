"""Asking every guard. None is skipped: not after a refusal, and not because it failed itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafka_medic.guard.verdict import Judgement, Reason, judge
from kafka_medic.resources.vocabulary import Guard

Answer = Reason | tuple[Reason, ...]
NamedGuard = tuple[Guard, Callable[[], Answer]]


class GuardFaultError(RuntimeError):
    """A guard itself failed: an internal fault, which permits nothing and must be seen."""

    def __init__(self, guard: Guard, problem: str) -> None:
        super().__init__(f"internal fault in the guard {guard}: {problem}; the operator permits nothing")
        self.guard = guard


def evaluate(guards: Sequence[NamedGuard]) -> Judgement:
    """Every guard's answer. Raises GuardFaultError when one raises, answers nothing, or answers in another's
    name."""
    reasons: list[Reason] = []
    for name, ask in guards:
        try:
            answer = ask()
        except Exception as problem:
            raise GuardFaultError(name, f"{type(problem).__name__}: {problem}") from problem
        answers = (answer,) if isinstance(answer, Reason) else answer
        if not answers:
            raise GuardFaultError(name, "it gave no answer")
        if other := next((r.guard for r in answers if r.guard != name), None):
            raise GuardFaultError(name, f"it answered in the name of {other}")
        reasons += answers
    return judge(reasons)


def some(names: Sequence[object], limit: int = 10) -> str:
    """`a, b and 4 more`: enough for a person to act on, never a page of names."""
    shown = ", ".join(str(name) for name in names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown
