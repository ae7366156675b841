"""What a controller that is there and does nothing leaves undone."""

from __future__ import annotations

from kafka_medic.cluster.elements import failed_directories
from kafka_medic.cluster.snapshot import NO_LEADER, Broker, Mode, PartitionRow, Snapshot
from kafka_medic.guard.context import RestartQuestion
from kafka_medic.guard.rows import known_ids, led_by

NOBODY: frozenset[int] = frozenset()


def undeclared(snapshot: Snapshot, question: RestartQuestion) -> frozenset[int]:
    """Brokers that are down and still lead partitions, or are the last leader's fellows of one that nobody leads,
    though a live replica in sync could be elected. Only a controller can do that, so that they do not stand against
    restarting the one that does not. Empty for every other restart."""
    controller = snapshot.controller
    if not question.context.replaces_controller or snapshot.brokers is None or snapshot.partitions is None:
        return NOBODY
    if controller is None or controller.id != question.broker:
        return NOBODY
    down = {b.id for b in snapshot.brokers if b.id != question.broker and _gone(b, snapshot.cluster.mode)}
    found: set[int] = set()
    for row in waiting(snapshot) if down else ():
        found |= down & (known_ids(row.isr) or NOBODY if row.leader == NO_LEADER else {row.leader})
    return frozenset(found)


def waiting(snapshot: Snapshot) -> tuple[PartitionRow, ...]:
    """Partitions that nobody leads, or only a broker that is gone, though a live replica in sync could be elected: one
    that is not on a failed log directory, nor may be."""
    brokers = snapshot.brokers or ()
    down = {b.id for b in brokers if _gone(b, snapshot.cluster.mode)}
    live = {b.id: b for b in brokers if b.live and b.id not in down}
    rows = led_by(snapshot, down | {NO_LEADER})
    return tuple(row for row in rows if any(could_lead(live.get(b), row) for b in known_ids(row.isr) or ()))


def could_lead(broker: Broker | None, row: PartitionRow) -> bool:
    """Whether its replica is not on a failed log directory, nor may be."""
    if broker is None:
        return False
    return not failed_directories(broker) or (
        broker.offline_replicas is not None and row.tp not in broker.offline_replicas
    )


def _gone(broker: Broker, mode: Mode | None) -> bool:
    """As ControllerStuck has it: with ZooKeeper it is the registrations that say so; with KRaft it is the controller
    itself that would, so that one which does not answer and whose Pod is not Ready is gone as well."""
    if broker.registered is False:
        return True
    silent = mode is Mode.KRAFT and broker.reachable is False
    return silent and broker.own_pod is not None and broker.own_pod.ready is False
