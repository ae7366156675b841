"""Objects of other operators that describe topics: paused, edited, resumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from kafka_medic.cluster.owners import OwnerObject
from kafka_medic.playbook.effects import EditObjects, PauseObjects, ResumeObjects


class OwnerWrites(Protocol):
    """Of exactly the object with that uid; one that is gone, or another one by now, is left alone. Raises
    WriteFailed."""

    def pause(self, owner: OwnerObject) -> None:
        """Ask its operator to leave the topic alone."""

    def resume(self, owner: OwnerObject) -> None:
        """Ask for that no more."""

    def edit(self, owner: OwnerObject, values: Mapping[str, tuple[str | None, str]]) -> None:
        """Give it these values, (before, after) by name, if each is what is before, or the one after already."""


def pause_owners(owners: OwnerWrites, intent: PauseObjects, ask: Callable[[], None]) -> None:
    """Idempotent. `ask`: before each request, whether it may be sent."""
    for each in intent.objects:
        ask()
        owners.pause(each)


def edit_owners(owners: OwnerWrites, intent: EditObjects, ask: Callable[[], None]) -> None:
    """Idempotent likewise."""
    for each, values in intent.edits.items():
        ask()
        owners.edit(each, values)


def resume_owners(owners: OwnerWrites, intent: ResumeObjects, ask: Callable[[], None]) -> None:
    """Idempotent likewise."""
    for each in intent.objects:
        ask()
        owners.resume(each)
