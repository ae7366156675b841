"""What every part of a plan has in common: its fields, how the plan's digest covers each, and what they touch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from .base import Model


def paths(text: str) -> frozenset[str]:
    """Paths below `status.plan`, as its document spells them."""
    return frozenset(text.split())


@dataclass(frozen=True, eq=False)
class Digested:
    """How the digest covers a class's fields, by path. Every field without fields of its own stands in one of `always`,
    `where_any` and `left_out`; the digest covers one that stands in none.

    A field that is added later belongs into `where_any` or `left_out`: every plan that was approved before keeps its
    digest."""

    always: frozenset[str]
    left_out: frozenset[str] = frozenset()
    """They decide nothing."""
    where_any: frozenset[str] = frozenset()
    """Covered only where they hold something. A list may stand here besides the fields of its items."""
    left_out_before: frozenset[str] = frozenset()
    """Left out too by earlier versions, whose plans keep the digest and the approvals that they have."""
    shapes: Mapping[str, Callable[[Any], object]] = field(default_factory=dict)
    """What stands in the digest for a value."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The key in the digest, where it is not the document's."""


class Part(Model):
    """What a plan holds for some actions. Its fields stand in the document beside those of all other parts, so each
    has a name of its own, and a default that says nothing."""

    digested: ClassVar[Digested]

    def topics(self) -> Iterable[str]:
        """Topics that are changed, and that have to be the same ones when the plan runs."""
        return ()

    def without(self, topics: Collection[str]) -> Self:  # noqa: ARG002
        """What is left to do once these topics are deleted. A part that cannot do without stays as it is, and names
        them still."""
        return self

    def touched(self) -> Iterable[tuple[str, int]]:
        """What a run that does this a second time has not cured: partitions by topic and number, brokers under no
        topic, offsets by group and partition."""
        return ()
