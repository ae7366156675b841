"""What people are shown of a plan: one thing that it touches, before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kafka_medic.resources.remediation_plan import Plan
from kafka_medic.resources.vocabulary import ActionName


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that a plan touches. `before` None: nothing is there now. `after` None: nothing of it is changed for
    good; `note` says what is done."""

    what: str
    before: str | None
    after: str | None
    note: str = ""


Changes: TypeAlias = Mapping[ActionName, Callable[[Plan], Iterator[Change]]]
"""Of each action of a room, its part of a plan. Pure, and of `resources` alone: the kubectl plugin has neither Arrow
nor the guards."""


def nothing(_: Plan) -> Iterator[Change]:
    """Of an action whose part people have read already: it puts back what a step before it has changed."""
    yield from ()
