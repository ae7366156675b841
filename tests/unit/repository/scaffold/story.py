"""The trial action through a whole run. Run with the scaffolded product first on the path."""

from __future__ import annotations

from kafka_medic.playbook.plan_digest import digest_fits
from kafka_medic.resources.remediation_plan import AddedPartitions
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BASE, World

PLAYBOOK = {
    "apiVersion": "kafkamedic.dev/v1alpha1",
    "kind": "Playbook",
    "metadata": {"name": "add-partitions"},
    "spec": {
        "description": "Gives a topic more partitions.",
        "risk": "Low",
        "trigger": {"finding": "PartitionsFew"},
        "steps": [
            {"name": "add", "action": "AddPartitions", "verify": {"probe": "PartitionsAdded", "within": "5m"}},
        ],
    },
}

kafka = SimKafka()
kafka.topic("orders", [0, 1, 2], [1, 2, 0])
kafka.topic("many", *([0, 1, 2] for _ in range(101)))
world = World(kafka)
world.install()
world.api.put(f"{BASE}/playbooks", PLAYBOOK)
world.until(lambda: any(run.spec.playbook.name == "add-partitions" for run in world.runs()))


def run():
    return next(r for r in world.runs() if r.spec.playbook.name == "add-partitions")


print(f"found: {run().spec.cause.finding_id} names {run().spec.playbook.name}")
world.until(lambda: run().status.phase == "AwaitingApproval")
(added,) = run().status.plan.part(AddedPartitions).added
wider = run().status.plan.with_parts(AddedPartitions(added=(added.model_copy(update={"after": 9}),)))
covered = digest_fits(run(), run().status.plan) and not digest_fits(run(), wider)
print(f"planned: orders from {added.before} to {added.after} partitions, digest {'covers' if covered else 'misses'} it")
world.approve(run())
world.until(lambda: run().status.phase == "Approved" and bool(run().status.waiting_for))
print(f"refused meanwhile: {', '.join(waiting.guard for waiting in run().status.waiting_for)}")
for tp in [tp for tp in kafka.partitions if tp.topic == "many"]:
    del kafka.partitions[tp]
world.until(lambda: run().status.phase == "Succeeded")
print(f"ended: {run().status.phase.value} with {sum(tp.topic == 'orders' for tp in kafka.partitions)} partitions")
