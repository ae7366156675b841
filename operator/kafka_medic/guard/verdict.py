"""What a guard answers, and how answers combine.

A guard never raises to say no and never returns a bare boolean: it names itself, its verdict and a sentence
that a person on call understands. All guards are evaluated and all reasons reported; one refusal does not
hide another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafka_medic.resources.vocabulary import Guard, Verdict

__all__ = ["Judgement", "Reason", "Verdict", "judge"]

# Worst last: the verdict over many guards is the worst of them, and only Allow permits.
_SEVERITY = {Verdict.ALLOW: 0, Verdict.WAIT: 1, Verdict.UNKNOWN: 2, Verdict.DENY: 3}


@dataclass(frozen=True, slots=True)
class Reason:
    """One guard's answer. `remediation`: the other run that it waits for."""

    guard: Guard
    verdict: Verdict
    message: str
    remediation: str | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """All guards' answers to one question."""

    reasons: tuple[Reason, ...]

    @property
    def verdict(self) -> Verdict:
        """Deny over Unknown over Wait over Allow. No guard at all is Unknown: nothing was asked, so nothing
        is known."""
        if not self.reasons:
            return Verdict.UNKNOWN
        return max((r.verdict for r in self.reasons), key=_SEVERITY.__getitem__)

    @property
    def refusals(self) -> tuple[Reason, ...]:
        return tuple(r for r in self.reasons if r.verdict is not Verdict.ALLOW)


def judge(reasons: Iterable[Reason]) -> Judgement:
    """Collect every guard's answer."""
    return Judgement(tuple(reasons))
