"""Leadership that did not come home."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.diagnose.columns import is_any, some
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.scene import Scene, blind, broker_name
from kafka_medic.report.units import many
from kafka_medic.resources.vocabulary import Severity

TOLERATED = 0.10
"""Share of a broker's preferred leaderships that may be elsewhere: `leader.imbalance.per.broker.percentage`,
10 %."""
IMBALANCED_FOR = 60.0
REBALANCE = "auto.leader.rebalance.enable"


def rebalanced_by_kafka(snapshot: Snapshot) -> str | None:
    """What the brokers' own rebalancing does and how to have it otherwise; None where no broker is known to have it
    on. The active controller's own setting counts (ZooKeeper: `KafkaController`; KRaft: `ControllerServer`). Kafka's
    own defaults: on, every 300 s, past 10 % of a broker."""
    settings = [(b.id, snapshot.config("BROKER", str(b.id), REBALANCE)) for b in snapshot.brokers or ()]
    on = [broker for broker, setting in settings if setting is not None and setting.value == "true"]
    if not on:
        return None
    return (
        f"{REBALANCE} is on ({some([f'broker {b}' for b in on])}). As active controller such a broker elects all "
        "preferred leaders of a broker at once, every leader.imbalance.check.interval.seconds, if more than "
        "leader.imbalance.per.broker.percentage are missing. It elects a hung broker too. The operator leaves that "
        "alone. If clients suffer, set it to false on every broker and KRaft controller and restart them. Then "
        "leaderships return only in batches"
    )


def detect(scene: Scene) -> Iterator[Finding]:
    """LeadersImbalanced: brokers that lead far fewer of the partitions they are preferred for than they
    could.

    Counted are only partitions that an election could cure now: the preferred replica's broker lives, is in
    the ISR of *all* its partitions (else it is catching up, and leadership would be taken from it again), its
    node is not about to go, and no reassignment is moving the partition.
    """
    p = scene.partitions
    if p is None or not scene.live or blind(scene):
        return
    lagging = np.unique(p.replicas.ids[~p.replicas.within(p.isr) & ~p.replicas.within(p.adding)])
    leaving = {b.in_its_pod for b in scene.brokers if b.pod is not None and b.pod.cordoned is True}
    leaving |= {b.id for b in scene.brokers if b.recovering is True}
    able = scene.live - set(lagging.tolist()) - leaving
    preferred = p.replicas.first()
    led = p.leader.known & (p.leader.values >= 0)
    counted = p.replicas.known & p.isr.known & led & ~p.moving & is_any(preferred, able)
    away = counted & (p.leader.values != preferred)
    if not away.any():
        return
    brokers = sorted(able)
    total = {b: int(np.count_nonzero(counted & (preferred == b))) for b in brokers}
    gone = {b: int(np.count_nonzero(away & (preferred == b))) for b in brokers}
    off = [b for b in brokers if gone[b] and gone[b] > TOLERATED * total[b]]
    if not off:
        return
    counts = [
        f"broker {b} leads {total[b] - gone[b]} of {many(total[b], 'partition')} for which it is preferred" for b in off
    ]
    examples = p.names(np.flatnonzero(away & is_any(preferred, off))[:10])
    yield Finding(
        id="LeadersImbalanced",
        type="LeadersImbalanced",
        severity=Severity.WARNING,
        message=f"{many(sum(gone[b] for b in off), 'partition is', 'partitions are')} not led by the preferred replica",
        affected=tuple(broker_name(b) for b in off),
        evidence=(
            some(counts),
            f"for example {some(examples)}",
            *([by_kafka] if (by_kafka := rebalanced_by_kafka(scene.snapshot)) else []),
            scene.read_from("kafka", "views"),
        ),
        playbook="elect-preferred-leaders",
        for_seconds=IMBALANCED_FOR,
    )
