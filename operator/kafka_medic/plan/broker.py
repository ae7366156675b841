"""The brokers of a plan, and the error for input that cannot be planned."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace

__all__ = [
    "Broker",
    "Disk",
    "NoRoomError",
    "ProblemError",
    "check_brokers",
    "rack_names",
    "refuse_overflow",
    "with_least_disk",
]

LARGEST_DISK = 1 << 60
"""1 EiB."""
MOST_SHARED = 1 << 62
"""Bytes for the lightest broker's share, if it were as heavy as the heaviest: shares are computed in 64 bits."""
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


class NoRoomError(ProblemError):
    """No plan was found that keeps to the room on disk."""

    def __init__(self, reason: str) -> None:
        super().__init__(None, f"{reason}. Make room on disk, add brokers, or exclude topics", "brokers")


@dataclass(frozen=True)
class Disk:
    """One log directory: the bytes that are free in it, and how many partitions it holds, None where that is not known;
    then all of a broker's are taken to hold as many. Each is a volume of its own."""

    dir: str
    free: int
    partitions: int | None = None


@dataclass(frozen=True)
class Broker:
    """One broker; `rack` is its failure domain, `alive` whether it can take a replica now, `disk_free` the bytes that
    new replicas may take on its disks, None where that is not known, `weight` how much it is to hold beside others,
    `takes` whether the plan may place new replicas on it, `disks` its log directories, where they are known: Kafka
    places each new replica in the one with the fewest partitions (LogManager.nextLogDirs)."""

    id: int
    rack: str | None = None
    alive: bool = True
    disk_free: int | None = None
    weight: float = 1.0
    takes: bool = True
    disks: tuple[Disk, ...] = ()


def rack_names(brokers: Iterable[Broker]) -> tuple[str, ...]:
    """Names of the racks with a live broker, sorted; empty if none is declared."""
    return tuple(sorted({b.rack for b in brokers if b.alive and b.rack}))


def with_least_disk(brokers: Iterable[Broker]) -> tuple[Broker, ...]:
    """The brokers, of each of which the log directory with the least room stands for all."""
    return tuple(
        replace(broker, disk_free=min([disk.free for disk in broker.disks], default=broker.disk_free), disks=())
        for broker in brokers
    )


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
    for disk in broker.disks:
        if not 0 <= disk.free <= LARGEST_DISK:
            return f"free {disk.free} of {disk.dir} of broker {number} is not between 0 and {LARGEST_DISK}"
        if not 0 <= (disk.partitions or 0) <= 1 << 31:
            return f"partitions {disk.partitions} of {disk.dir} of broker {number} is not between 0 and 2147483648"
    if not 1 / HEAVIEST <= weight <= HEAVIEST:
        return f"weight {weight} of broker {number} is not between {1 / HEAVIEST} and {HEAVIEST:.0f}"
    return None


def refuse_overflow(brokers: Iterable[Broker], total: int) -> None:
    """Raise ProblemError if so many bytes cannot be shared among live brokers of these weights."""
    weights = [broker.weight for broker in brokers if broker.alive] or [1.0]
    if total * (max(weights) / min(weights)) >= MOST_SHARED:
        reason = (
            f"{total:,} bytes cannot be shared by weights of {min(weights):g} to {max(weights):g}: bring them closer"
        )
        raise ProblemError(None, reason, "brokers")
