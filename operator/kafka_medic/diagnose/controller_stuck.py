"""ControllerStuck: partitions that get no new leader although one could be elected."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import numpy as np

from kafka_medic.diagnose.columns import Ints, Mask, Partitions, is_any, numbers, some
from kafka_medic.diagnose.disks import cannot_lead
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.leaderless import without_leader
from kafka_medic.diagnose.scene import Scene
from kafka_medic.report.units import many
from kafka_medic.resources.vocabulary import Severity

STUCK_FOR = 60.0
"""Seconds that a partition may wait for a leader although a live replica is in sync: the default
`zookeeper.session.timeout.ms` is 18 s and `broker.session.timeout.ms` 9 s, and the election of many thousands of
partitions takes seconds."""
PLAYBOOK = "restart-controller"


def detect(scene: Scene) -> Iterator[Finding]:
    """ControllerStuck: somebody is controller, partitions have no leader or one that is gone, and nobody is elected
    although a live replica is in sync. Where nobody live is in the ISR, or only on a failed disk, there is nothing to
    elect; where nobody is controller nobody is stuck. All of these have findings of their own."""
    p, controller, snapshot = scene.partitions, scene.snapshot.controller, scene.snapshot
    if p is None or not scene.live or controller is None or controller.id is None or controller.id < 0:
        return
    waiting = without_leader(p, snapshot)
    able = is_any(p.isr.ids, scene.live) & (p.isr.ids != p.leader.values[p.isr.rows])
    able &= ~cannot_lead(p, scene.brokers)
    stuck = waiting & (p.isr.per_row(able) > 0)
    if not stuck.any():
        return
    dead = sorted({int(b) for b in p.leader.values[stuck] if b >= 0})
    electable = sorted(set(p.isr.ids[able & stuck[p.isr.rows]].tolist()))
    answers = scene.snapshot.broker(controller.id)
    state = "answers" if answers is not None and answers.reachable else "may not answer"
    evidence = [
        f"broker {controller.id} is the controller and {state}, {scene.read_from('zookeeper', 'quorum', 'kafka')}",
        f"in sync and live, so electable: {some([f'broker {b}' for b in electable])}",
        scene.read_from("views", "kafka"),
    ]
    if dead:
        evidence.insert(1, f"gone, but still named as leader: {some([_gone(scene, b) for b in dead])}")
    yield Finding(
        id="ControllerStuck",
        type="ControllerStuck",
        severity=Severity.CRITICAL,
        message=(
            f"broker {controller.id} is the controller, but "
            f"{many(int(stuck.sum()), 'partition gets', 'partitions get')} no new leader"
        ),
        affected=(f"broker-{controller.id}", *p.names(stuck)),
        evidence=tuple(evidence),
        for_seconds=STUCK_FOR,
        playbook=PLAYBOOK,
        since=_since(scene, p, stuck),
    )


def _since(scene: Scene, p: Partitions, stuck: Mask) -> datetime | None:
    """Since the longest of exactly these waits, so that one election after another is no long wait."""
    if scene.memory is None:
        return None
    leaderless = scene.memory.leaderless
    at = p.rows_of(leaderless["topic"], numbers(leaderless["partition"]).values)
    mine: Ints = np.flatnonzero((at >= 0) & stuck[at])
    seconds = leaderless["seconds"].to_numpy()[mine]
    return scene.snapshot.taken_at - timedelta(seconds=float(seconds.max()) if len(seconds) else 0.0)


def _gone(scene: Scene, broker_id: int) -> str:
    broker = scene.snapshot.broker(broker_id)
    if broker is None or broker.registered is False:
        return f"broker {broker_id} (not registered)"
    return f"broker {broker_id} (does not answer, its Pod is not Ready)"
