"""The brokers of a plan, and the error for input that cannot be planned."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

__all__ = ["Broker", "ProblemError", "check_brokers", "rack_names"]

LARGEST_DISK = 1 << 60
"""1 EiB."""
HEAVIEST = 1000.0
"""How many times an ordinary broker one may count; and as small a part of it."""


class ProblemError(ValueError):
    """Input that cannot be planned.

    row: which record, counted from 1 in the order given; None where no single record is at fault.
    table: "partitions" or "brokers".
    """

    def __init__(self, row: int | None, reason: str, table: str = "partitions") -> None:
        self.row = row
        self.reason = reason
        self.table = table
        super().__init__(reason if row is None else f"row {row}: {reason}")


@dataclass(frozen=True)
class Broker:
    """One broker; `rack` is its failure domain, `alive` whether it can take a replica now, `disk_free` the bytes that
    new replicas may take on its disks, None where that is not known, `weight` how much it is to hold beside others,
    `takes` whether the plan may place new replicas on it."""

    id: int
    rack: str | None = None
    alive: bool = True
    disk_free: int | None = None
    weight: float = 1.0
    takes: bool = True


def rack_names(brokers: Iterable[Broker]) -> tuple[str, ...]:
    """Names of the racks with a live broker, sorted; empty if none is declared."""
    return tuple(sorted({b.rack for b in brokers if b.alive and b.rack}))


def check_brokers(brokers: Iterable[Broker]) -> None:
    """Raise ProblemError for what is wrong with the brokers by themselves."""
    listed = list(enumerate(brokers, start=1))
    seen: set[int] = set()
    for row, broker in listed:
        if fault := _fault(broker, seen):
            raise ProblemError(row, fault, "brokers")
        seen.add(broker.id)
    if not seen:
        raise ProblemError(None, "no broker is listed", "brokers")
    # A dead broker registers no rack; that is not a fault in the input.
    named = next((broker for _, broker in listed if broker.alive and broker.rack), None)
    row, rackless = next(((row, broker) for row, broker in listed if broker.alive and not broker.rack), (0, None))
    if rackless is not None and named is not None:
        reason = f"broker {rackless.id} has no rack while broker {named.id} has one: give all of them a rack, or none"
        raise ProblemError(row, reason, "brokers")


def _fault(broker: Broker, seen: Container[int]) -> str | None:
    """What is wrong with this broker alone; seen: ids of those before it."""
    number, free, weight = broker.id, broker.disk_free, broker.weight
    if not 0 <= number < 1 << 31:
        return f"broker id {number} is not between 0 and 2147483647"
    if number in seen:
        return f"broker {number} is listed twice"
    if free is not None and not 0 <= free <= LARGEST_DISK:
        return f"diskFree {free} of broker {number} is {'negative' if free < 0 else 'larger than any disk'}"
    if not 1 / HEAVIEST <= weight <= HEAVIEST:
        return f"weight {weight} of broker {number} is not between {1 / HEAVIEST} and {HEAVIEST:.0f}"
    return None
