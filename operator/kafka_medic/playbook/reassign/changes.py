"""What people are shown of this room's part of a plan."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_medic.playbook.change import Change, Changes
from kafka_medic.resources.durations import format_bytes
from kafka_medic.resources.remediation_plan import LogDirMoves, Plan, ReplicaMoves, ReplicaRemovals
from kafka_medic.resources.vocabulary import ActionName


def _moves(plan: Plan) -> Iterator[Change]:
    for c in plan.part(ReplicaMoves).changes:
        size = format_bytes(c.size_bytes) if c.size_bytes is not None else "size not known"
        what, note = f"replicas of {c.topic}-{c.partition}", f"{size}, wave {c.wave}"
        yield Change(what, str(list(c.replicas_before)), str(list(c.replicas)), note)


def _removals(plan: Plan) -> Iterator[Change]:
    for c in plan.part(ReplicaRemovals).each():
        what = f"replicas of {c.topic}-{c.partition}"
        yield Change(what, str(list(c.replicas_before)), str(list(c.replicas)), f"batch {c.wave}")


def _within(plan: Plan) -> Iterator[Change]:
    for m in plan.part(LogDirMoves).each():
        what = f"log directory on broker {m.broker} of {m.topic}-{m.partition}"
        yield Change(what, m.source, m.target, f"{format_bytes(m.size_bytes)}, batch {m.batch}")


CHANGES: Changes = {
    ActionName.ALTER_REPLICA_LOG_DIRS: _within,
    ActionName.REASSIGN_PARTITIONS: _moves,
    ActionName.REMOVE_REPLICAS: _removals,
}
