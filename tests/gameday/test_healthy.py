"""A healthy cluster under load: nothing is said of it, nothing is written to it, and the operator does not grow."""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Any

from tests.gameday import cluster
from tests.gameday.scenario import Scene
from tests.incident import operator, records
from tests.testbed import audit

SECONDS = float(os.environ.get("GAMEDAY_SECONDS", "600"))
WARM = 60.0
"""Until the operator has seen everything once."""
GROWTH_BYTES = 12 * 1024 * 1024
ACCOUNT = f"system:serviceaccount:{operator.NAMESPACE}:{operator.RELEASE}"
OWN_WRITES = {("patch", "kafkaclusters/status"), ("update", "kafkaclusters/status"), ("update", "leases")}
"""What watching needs: what was seen, and that it is this operator which looks."""
LOOKING = {"get", "list", "watch"}


def test_a_healthy_cluster_is_left_alone(scenes: list[Scene]) -> None:
    loads = []
    for scene in scenes:
        scene.quiet()
        loads.append(records.Traffic(scene.boot, cluster.ORDERS))
        loads[-1].start()
    try:
        time.sleep(min(WARM, SECONDS / 2))
        events = [scene.events() for scene in scenes]
        contents, memory, since = [content(scene) for scene in scenes], [cluster.operator_memory()], audit.size()
        end = time.monotonic() + SECONDS
        waiting = Counter[str]()  # of a machine that stood still for a moment
        while time.monotonic() < end:
            for scene in scenes:
                found = scene.findings()
                assert not [f for f in found if f["state"] == "Firing"], found
                waiting.update(f["id"] for f in found)
            memory.append(cluster.operator_memory())
            time.sleep(3)
        assert [content(scene) for scene in scenes] == contents
        # The API server forgets events after an hour; what counts is that there are no new ones.
        assert not any(scene.events() - before for scene, before in zip(scenes, events, strict=True))
    finally:
        for load in loads:
            load.stop()
    for load in loads:
        assert load.acked
        assert (load.lost, load.failed) == (set(), [])
    wrote = {(a.verb, a.resource) for a in audit.asked_by(ACCOUNT, since) if a.verb not in LOOKING}
    acked = sum(len(load.acked) for load in loads)
    print(
        f"healthy for {SECONDS:.0f} s, {acked} records: operator {memory[0] / 1e6:.1f} MB at first, "
        f"{max(memory) / 1e6:.1f} at most, {memory[-1] / 1e6:.1f} MB at the end; its writes: {sorted(wrote)}; "
        f"pending for a moment: {dict(waiting)}"
    )
    assert wrote <= OWN_WRITES, wrote - OWN_WRITES
    third = max(1, len(memory) // 3)
    assert sum(memory[-third:]) / third - sum(memory[:third]) / third < GROWTH_BYTES


def content(scene: Scene) -> Any:
    """Settings, and who holds and leads each partition under which epoch."""
    with scene.client() as client:
        parts = {(p.topic, p.partition): (p.leader, p.leader_epoch, p.replicas) for p in cluster.states(client, 0)}
        topics = client.topic_configs(sorted({topic for topic, _ in parts}))
        return parts, topics, client.broker_configs(cluster.BROKERS)
