"""A plan that is too long for its Remediation: its partitions in a Parquet file, which the plan names by SHA-256.

In the loop a plan is always whole. Only what is written into the Remediation leaves its partitions out, and the digest
that people approve covers the file by its hash, so that it is the same for both.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.resources.remediation_plan import (
    MAX_INLINE_CHANGES,
    Artifact,
    Elections,
    PartitionChange,
    Plan,
    PreferredElection,
    Reorders,
    ReplicaMoves,
)
from kafka_medic.resources.vocabulary import Guard

MAX_CHANGES = 20_000
"""Partitions of one plan: more would make each reconcile of the run slow, and what follows it is proposed by itself."""

MAX_PLAN_BYTES = 600_000
"""Of a plan in its Remediation. etcd takes 1.5 MiB in one request; the journal needs some of it."""


class UnreadablePlan(ValueError):
    """What a plan's file holds is not what the plan names."""


def plan_size(plan: Plan) -> int:
    """Bytes that the plan takes in its Remediation, as JSON in UTF-8: without what stands in its file."""
    shown = with_many(plan, (), (), ()) if len(plan.part(ReplicaMoves).changes) > MAX_INLINE_CHANGES else plan
    return len(json.dumps(shown.to_kubernetes(), ensure_ascii=False, separators=(",", ":")).encode())


def elections_of(reorders: Sequence[PartitionChange]) -> tuple[PreferredElection, ...]:
    """Who is to be elected once these orders are there, by broker and topic."""
    by_place: dict[tuple[int, str], list[int]] = {}
    for change in reorders:
        by_place.setdefault((change.replicas[0], change.topic), []).append(change.partition)
    return tuple(
        PreferredElection(broker=broker, topic=topic, partitions=tuple(sorted(numbers)))
        for (broker, topic), numbers in sorted(by_place.items())
    )


def _schema(pa: Any) -> Any:
    numbers = pa.list_(pa.int32())
    return pa.schema(
        [
            pa.field("topic", pa.string(), nullable=False),
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("replicasBefore", numbers, nullable=False),
            pa.field("replicas", numbers, nullable=False),
            pa.field("preferredOrder", numbers, nullable=False),
            pa.field("wave", pa.int32(), nullable=False),
            pa.field("sizeBytes", pa.int64()),
        ]
    )


def in_file(plan: Plan, directory: str) -> Plan:
    """The plan, with the name of its file where it is too long to do without."""
    moves = plan.part(ReplicaMoves)
    if len(moves.changes) <= MAX_INLINE_CHANGES:
        return plan
    sha256 = hashlib.sha256(contents(plan)).hexdigest()
    artifact = Artifact(uri=f"file://{directory}/{sha256}.parquet", sha256=sha256)
    return plan.with_parts(moves.model_copy(update={"artifact": artifact}))


def contents(plan: Plan) -> bytes:
    """The file of a whole plan; the same bytes for the same plan."""
    # Imported here, as in `whole`: the kubectl plugin has no Arrow, and the command's other answers need none.
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    orders = {(c.topic, c.partition): c.replicas for c in plan.part(Reorders).reorders}
    rows = [
        {
            "topic": c.topic,
            "partition": c.partition,
            "replicasBefore": list(c.replicas_before),
            "replicas": list(c.replicas),
            "preferredOrder": list(orders.get((c.topic, c.partition), c.replicas)),
            "wave": c.wave,
            "sizeBytes": c.size_bytes,
        }
        for c in plan.part(ReplicaMoves).changes
    ]
    out = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, _schema(pa)), out, compression="zstd")
    return out.getvalue().to_pybytes()


def whole(plan: Plan, data: bytes) -> Plan:
    """The plan with what its file holds. Raises UnreadablePlan."""
    artifact = artifact_of(plan)
    if artifact is None:
        raise UnreadablePlan("the plan names no file")
    if (found := hashlib.sha256(data).hexdigest()) != artifact.sha256:
        raise UnreadablePlan(f"its SHA-256 is {found}, but the plan names {artifact.sha256}")
    try:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise UnreadablePlan("it is Parquet, which the one-file plugin cannot read; pip install kafka-medic") from None
    try:
        table = pq.read_table(pa.BufferReader(data), schema=_schema(pa))
        rows = table.to_pylist()
        changes = tuple(
            PartitionChange(
                topic=row["topic"],
                partition=row["partition"],
                replicas_before=tuple(row["replicasBefore"]),
                replicas=tuple(row["replicas"]),
                wave=row["wave"],
                size_bytes=row["sizeBytes"],
            )
            for row in rows
        )
        reorders = tuple(
            PartitionChange(
                topic=row["topic"],
                partition=row["partition"],
                replicas_before=tuple(row["replicas"]),
                replicas=tuple(row["preferredOrder"]),
            )
            for row in rows
            if row["preferredOrder"] != row["replicas"]
        )
    except (pa.ArrowException, OSError, TypeError, ValueError) as problem:
        raise UnreadablePlan(f"it is not a plan: {str(problem)[:300]}") from None
    return with_many(plan, changes, reorders, elections_of(reorders))


def with_many(
    plan: Plan,
    changes: tuple[PartitionChange, ...],
    reorders: tuple[PartitionChange, ...],
    elections: tuple[PreferredElection, ...],
) -> Plan:
    """The plan with what a file may hold more of than a Remediation: so many are not checked again."""
    return plan.with_parts(
        plan.part(ReplicaMoves).model_copy(update={"changes": changes}),
        Reorders().model_copy(update={"reorders": reorders}),
        Elections().model_copy(update={"elections": elections}),
    )


def with_contents_of(plan: Plan, read: Plan) -> Plan:
    """The plan with what the file holds from which the other one was made whole."""
    return with_many(
        plan, read.part(ReplicaMoves).changes, read.part(Reorders).reorders, read.part(Elections).elections
    )


def without_file(plan: Plan) -> Plan:
    """As the Remediation holds it: what lies in a file is left out."""
    return plan if artifact_of(plan) is None else with_many(plan, (), (), ())


def artifact_of(plan: Plan | None) -> Artifact | None:
    """The file that it names; None where it needs none."""
    return None if plan is None else plan.part(ReplicaMoves).artifact


def is_missing(plan: Plan) -> bool:
    """Whether it names a file that has not been read."""
    moves = plan.part(ReplicaMoves)
    return moves.artifact is not None and not moves.changes


def unread_file(plan: Plan) -> Reason:
    """Why nothing is done about a plan whose file is missing, and the way out."""
    artifact = artifact_of(plan)
    where = artifact.uri if artifact is not None else ""
    message = (
        f"the plan's file is unreadable or not the proposed one: {where}; see the operator's log. "
        "Restore its volume, or reject the plan if it has not begun"
    )
    return Reason(Guard.PRECONDITIONS_HOLD, Verdict.UNKNOWN, message)
