"""Consumers that are stopped for a reset of their offsets and started again: a Deployment and a StatefulSet on the real
API server, scaled with the rights that the chart's value scalableWorkloads gives. Only Kafka is in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from kafka_medic.cluster.groups import Committed, GroupMember
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.phases import Phase
from tests.integration.operated_cluster import OperatedCluster, Person, persons
from tests.integration.people import Object, helm, people
from tests.simulation.kafka import SimKafka
from tests.testbed import apply, kubectl, wait_for
from tests.unit.resources.sources import CHART

NAMESPACE = "stopped-consumers"
RESET = "reset-offsets-of-workload"
KINDS = {"Deployment": "shop", "StatefulSet": "ledger"}
REPLICAS = 2
ORDERS = TopicPartition("orders", 0)
BEYOND = Committed(32, 3, "of the application")


@pytest.fixture(scope="module")
def known(role: str, operator: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Person]]:
    """alice approves, bob asks; the operator may scale what is named in KINDS."""
    found = persons(tmp_path_factory.mktemp("operator"), operator, "admin", "alice", "bob")
    with people(NAMESPACE, role):
        apply([*roles(role, operator.split(":")[2]), *(workload(kind, name) for kind, name in KINDS.items())])
        wait_for("the operator's role", lambda: all(may_scale(operator, *one) for one in KINDS.items()), 30)
        yield found


def may_scale(user: str, kind: str, name: str) -> bool:
    may = ("auth", "can-i", "update", f"{kind.lower()}s/{name}", "--subresource=scale", "-n", NAMESPACE)
    return kubectl(*may, f"--as={user}", check=False).returncode == 0


def roles(release: str, where: str) -> list[Object]:
    """As the chart has them."""
    values = (f"namespace={NAMESPACE}", f"deployments={{{KINDS['Deployment']}}}",
              f"statefulSets={{{KINDS['StatefulSet']}}}")  # fmt: skip
    options = [word for value in values for word in ("--set", f"scalableWorkloads[0].{value}")]
    chart = helm("template", release, str(CHART), "-n", where, *options).stdout
    found = [o for o in yaml.safe_load_all(chart) if o and o["metadata"]["name"] == f"{release}-workloads"]
    assert [o["kind"] for o in found] == ["Role", "RoleBinding"]
    return found


def workload(kind: str, name: str) -> Object:
    """Of Pods that no node has room for: nothing of it has to run."""
    labels = {"app": name}
    pod = {"containers": [{"name": name, "image": "none"}], "nodeSelector": {"no": "node"}}
    spec: dict[str, Any] = {
        "replicas": REPLICAS,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    if kind == "StatefulSet":
        spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


class Shop(OperatedCluster):
    """Its group billing has a member for each Pod there is of that workload, and perhaps a stranger."""

    def __init__(self, known: dict[str, Person], kind: str) -> None:
        quiet = [{"name": "reset-consumer-offsets", "mode": "Observe"}]
        policy = {"limits": {"cooldown": "0s"}, "playbooks": quiet}
        self.workload, self.stranger = f"{kind}/{KINDS[kind]}", False
        self._scale = f"/apis/apps/v1/namespaces/{NAMESPACE}/{kind.lower()}s/{KINDS[kind]}/scale"
        super().__init__(known["operator"], known["admin"], NAMESPACE, KINDS[kind], **policy)
        kafka = SimKafka(cluster_id=self.kafka.cluster_id)
        kafka.topic(ORDERS.topic, [0, 1, 2])
        kafka.dynamic["TOPIC", ORDERS.topic, "min.insync.replicas"] = "2"
        kafka.partitions[ORDERS].epoch = 5
        kafka.commit_offsets("billing", {ORDERS: BEYOND})
        kafka.writes.clear()
        self.kafka = kafka

    def replicas(self) -> int:
        """How many it is to have, once it has them."""
        seen: list[int] = []

        def there() -> bool:
            scale = self.admin.get(self._scale)
            seen[:] = [part.get("replicas", 0) for part in (scale["spec"], scale["status"])]
            return seen[0] == seen[1]

        wait_for(f"the Pods of {self.workload}", there, 60, every=0.05)
        return seen[0]

    def reconcile(self, count: int = 2) -> None:
        for _ in range(count):
            alive = self.replicas() + self.stranger
            self.kafka.states["billing"] = "Stable" if alive else "Empty"
            self.kafka.members_of["billing"] = [GroupMember("shop", f"/10.0.0.{n}") for n in range(alive)]
            super().reconcile(1)


@pytest.fixture(params=KINDS)
def shop(request: pytest.FixtureRequest, known: dict[str, Person]) -> Iterator[Shop]:
    it = Shop(known, request.param)
    yield it
    it.close()
    it.leave()


def test_scaled_to_nothing_and_back_to_what_it_was_after_the_reset_and_at_a_rejection_before_it(
    shop: Shop, known: dict[str, Person]
) -> None:
    def asks(workload: str) -> str:
        return shop.ask(known["bob"], RESET, parameters={"workload": workload, "groups": "billing"})

    another = asks(f"{shop.workload}-too")
    shop.reconcile()
    assert "forbidden" in shop.why(another), "the operator may scale what it is given alone"
    shop.admin.delete(shop.path("remediations", another))

    rejected = asks(shop.workload)
    shop.until(rejected, Phase.AWAITING_APPROVAL)
    shop.reconcile()
    assert shop.replicas() == REPLICAS, "nobody has approved it"
    shop.stranger = True
    shop.say(known["alice"], rejected)
    shop.until(rejected, Phase.RUNNING)
    shop.reconcile(3)
    assert shop.replicas() == 0
    assert "billing has a member until its session times out" in shop.why(rejected)
    shop.say(known["alice"], rejected, decision="Reject")
    shop.until(rejected, Phase.ABORTED)
    assert shop.replicas() == REPLICAS
    assert shop.kafka.writes == []

    shop.stranger = False
    last = asks(shop.workload)
    shop.until(last, Phase.AWAITING_APPROVAL)
    shop.say(known["alice"], last)
    done = shop.until(last, Phase.SUCCEEDED)
    assert [e.kind for e in done.status.journal] == ["ScaleWorkload", "SetOffsets", "ScaleWorkload"]
    assert shop.kafka.writes == ["commit billing [('orders-0', 21)]"]
    assert shop.replicas() == REPLICAS
