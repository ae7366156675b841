"""Whatever anybody writes into a status while the admission policies are away: nothing is sent to Kafka."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kafka_medic.playbook.plan_digest import sealed
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.remediation import Remediation
from tests.simulation.world import ADMISSION, BASE, World, factor_one_cluster

STEP = "add-replicas"
RATE = "leader.replication.throttled.rate"
SETTINGS = [f"BROKER/{b}/{RATE}" for b in (0, 1, 9)] + [
    "BROKER/1/message.max.bytes",
    "TOPIC/orders/leader.replication.throttled.replicas",
    "TOPIC/orders/min.insync.replicas",
]
ENTRIES = st.fixed_dictionaries(
    {
        "id": st.sampled_from(
            [f"{STEP}/{n}" for n in ("throttle", "wave-0", "rate-0-77", "restore-throttle", "cancel")] + ["give-up"]
        ),
        "step": st.sampled_from([STEP, "change-order", "elect"]),
        "kind": st.sampled_from(["ChangeSettings", "Reassign", "Reorder", "GiveUp", "RestartPod", "ScaleWorkload"]),
        "target": st.sampled_from(["Aborted", "Superseded", "kafka-1"]),
        "state": st.sampled_from(["Intended", "Done", "Void"]),
        "saved": st.lists(st.sampled_from(SETTINGS), unique=True).map(lambda s: [{"name": n, "value": "1"} for n in s]),
    }
)
STEPS = st.dictionaries(st.integers(0, 3), st.sampled_from(["Running", "Verifying", "Succeeded", "Failed"]))
PLANS = st.fixed_dictionaries(
    {},
    optional={
        "throttleBytesPerSecond": st.just(77),
        "changes": st.just([{"topic": "orders", "partition": 0, "replicasBefore": [1], "replicas": [1, 2]}]),
        "elections": st.just([{"broker": 0, "topic": "orders", "partitions": [0]}]),
        "workload": st.just({"kind": "Deployment", "name": "w", "uid": "u", "replicas": 2}),
    },
)


def forge(world: World, phase: Phase, plan: dict[str, Any], fits: bool, steps: dict[int, str], journal: Any) -> None:
    path = f"{BASE}/namespaces/ns/remediations/{world.run().name}"
    stored = world.api.touch(path)
    status, at = stored["status"], world.timestamp()
    status["plan"] |= plan
    if fits:
        run = Remediation.parse(stored)
        assert run.status.plan is not None
        status["plan"] = sealed(run, run.status.plan).to_kubernetes()
    entries = {e["id"]: e | {"intendedAt": at} for e in journal}
    status |= {"phase": phase.value, "startedAt": at, "currentStep": STEP, "restoreOwed": True, "approvedBy": "alice"}
    status |= {"journal": list(entries.values())}
    status["steps"] = [s | ({"phase": steps[n]} if n in steps else {}) for n, s in enumerate(status["steps"])]


@given(
    phase=st.sampled_from(list(Phase)),
    plan=PLANS,
    fits=st.booleans(),
    steps=STEPS,
    journal=st.lists(ENTRIES, max_size=4),
    word=st.booleans(),
)
def test_nothing_is_sent(phase, plan, fits, steps, journal, word):
    world = World(factor_one_cluster())
    world.install()
    world.until_phase("AwaitingApproval")
    for path in [p for p in world.api.objects if p.startswith(ADMISSION)]:
        del world.api.objects[path]
    for setting in SETTINGS:
        kind, resource, name = setting.split("/")
        world.kafka.dynamic[kind, resource, name] = "77"
    forge(world, phase, plan, fits, steps, journal)
    if word:
        world.approve(world.run())
    before = dict(world.kafka.dynamic)
    for _ in range(5):
        world.step()
    assert world.kafka.writes == []
    assert world.kafka.dynamic == before
