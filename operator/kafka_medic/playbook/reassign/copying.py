"""How far the copying of replicas has come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kafka_medic.playbook.reassign.positions import Position, Standing
from kafka_medic.resources.remediation_status import Progress


def copied(where: Sequence[Standing], throttle: int | None) -> Progress:
    """Partitions that are done, and their bytes as large as the plan saw them: what is written meanwhile is not in it.
    What is left takes as long as the broker that sends or receives most of it needs at `throttle` bytes per second."""
    done = sum(s.position is Position.DONE for s in where)
    known = all(s.change.size_bytes is not None for s in where)
    if not known:
        return Progress(done=done, total=len(where), unit="partitions")
    cost = [(s.change.size_bytes or 0) * len(_new(s)) for s in where]
    left = [s for s in where if s.position is not Position.DONE]
    busiest: Counter[tuple[str, int]] = Counter()
    for standing in left:
        size, new = standing.change.size_bytes or 0, _new(standing)
        busiest["out", _sender(standing)] += size * len(new)
        busiest.update({("in", broker): size for broker in new})
    return Progress(
        done=done,
        total=len(where),
        unit="partitions",
        bytes_done=sum(cost) - sum(c for s, c in zip(where, cost, strict=True) if s.position is not Position.DONE),
        bytes_total=sum(cost),
        seconds_left=-(-max(busiest.values()) // throttle) if throttle and busiest else None,
    )


def _new(standing: Standing) -> list[int]:
    change = standing.change
    return [broker for broker in change.replicas if broker not in change.replicas_before]


def _sender(standing: Standing) -> int:
    """Whom the new replicas copy from: the leader; where none is known, the one that is to lead."""
    leader = standing.row.leader if standing.row is not None else None
    return leader if leader is not None else standing.change.replicas_before[0]
