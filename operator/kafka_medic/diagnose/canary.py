"""What the operator's own records say: each partition of the canary's topic stands for the broker that leads it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from kafka_medic.cluster.document import parse_timestamp
from kafka_medic.cluster.snapshot import NO_LEADER, TopicPartition
from kafka_medic.diagnose.columns import is_any, some
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.refusing import refusing
from kafka_medic.diagnose.scene import Scene, blind, broker_name
from kafka_medic.report.units import many
from kafka_medic.resources.vocabulary import Severity

FAILING_FOR = 30.0
"""Seconds since a record last got through: two rounds at the default interval of 15 s."""
FAILURES = 2
"""Rounds in a row, however short they are: one lost record may be an election that is over."""


@dataclass(frozen=True, slots=True)
class Probed:
    """One partition of the canary, as it was measured."""

    name: str
    leader: int
    failures: int
    error: str
    last_ok: str | None


def detect(scene: Scene) -> Iterator[Finding]:
    """CanaryFailing, one finding for each broker through which it fails."""
    if blind(scene):
        return  # ClusterUnreachable or OperatorIsolated say all there is to say
    failing, fine = probed(scene)
    brokers = sorted(failing)
    for broker_id in brokers:
        mine = failing[broker_id]
        others = [b for b in brokers if b != broker_id]
        names = tuple(p.name for p in mine)
        evidence = [
            _side(broker_id, others, fine),
            *(f"{p.name}: {many(p.failures, 'failed round')} in a row: {p.error}{_since(p)}" for p in mine[:5]),
            scene.read_from("canary"),
        ]
        broker = scene.snapshot.broker(broker_id)
        if broker is not None and broker.reachable is True:
            evidence.append(f"broker {broker_id} answers requests for metadata, {scene.read_from('views', 'kafka')}")
        yield Finding(
            id=f"CanaryFailing/{broker_name(broker_id)}",
            type="CanaryFailing",
            severity=Severity.CRITICAL,
            message=f"canary records through broker {broker_id} fail: {some(names, 5)}",
            affected=(broker_name(broker_id), *names),
            evidence=tuple(evidence),
            for_seconds=max(0.0, FAILING_FOR - min(_age(scene, p) for p in mine)),
        )


def probed(scene: Scene) -> tuple[dict[int, list[Probed]], frozenset[int]]:
    """The partitions that fail by the broker that leads them, and the brokers through which all is well. A partition
    that is led by another broker now than when it was measured tells nothing yet, nor does one without a leader; one
    that refuses acks=all because replicas are missing says nothing about its leader."""
    table = scene.snapshot.canary
    if table is None or scene.unknown("canary"):
        return {}, frozenset()
    rows = table.to_pylist()
    now = {r.tp: r for r in scene.snapshot.rows({TopicPartition(r["topic"], r["partition"]) for r in rows})}
    short = _refusing(scene, {tp.topic for tp in now})
    failing: dict[int, list[Probed]] = defaultdict(list)
    fine: set[int] = set()
    for row in rows:
        tp, leader, failures = TopicPartition(row["topic"], row["partition"]), row["leader"], row["consecutiveFailures"]
        if leader is None or leader == NO_LEADER or failures is None:
            continue
        seen = now.get(tp)
        if seen is not None and (seen.leader != leader or str(tp) in short):
            continue
        if failures == 0:
            fine.add(leader)
        elif failures >= FAILURES:
            error = row["lastError"] or "no reason given"
            failing[leader].append(Probed(str(tp), leader, failures, error, row["lastOkAt"]))
    return failing, frozenset(fine - set(failing))


def _refusing(scene: Scene, topics: Collection[str]) -> frozenset[str]:
    """The partitions of these topics that refuse acks=all."""
    p, short = scene.partitions, refusing(scene.snapshot)
    if p is None or short is None:
        return frozenset()
    codes = [code for code, name in enumerate(p.topics) if name in topics]
    return frozenset(p.names(short.rows & is_any(p.topic, codes)))


def _side(broker_id: int, others: list[int], fine: frozenset[int]) -> str:
    well = f"; records through {_named(sorted(fine))} succeed" if fine else ""
    if others:
        return f"the canary fails through {_named(others)} as well{well}"
    return f"all failing partitions are led by broker {broker_id}{well}"


def _age(scene: Scene, probe: Probed) -> float:
    """Seconds for which it is known to fail already: the canary sends more often than the operator
    reconciles when a broker does not answer."""
    if probe.last_ok is None:
        return 0.0
    return max(0.0, (scene.snapshot.taken_at - parse_timestamp(probe.last_ok)).total_seconds())


def _since(probe: Probed) -> str:
    return f", last success at {probe.last_ok}" if probe.last_ok else ", no success since this operator started"


def _named(ids: list[int]) -> str:
    return ("broker " if len(ids) == 1 else "brokers ") + some([str(i) for i in ids])
