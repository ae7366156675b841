"""A whole cluster rolled by the installed operator, on both kinds of cluster, with records in flight."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import Case
from tests.incident import operator, records
from tests.incident.watcher import Watcher
from tests.testbed import KafkaDeployment, Shape, deploy_kafka, get

SLOTS: dict[Shape, int] = {"kraft": 5, "zookeeper": 6}
SETTINGS = {
    "default.replication.factor": 3,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.replication.factor": 3,
    "min.insync.replicas": 2,
}


@pytest.fixture(scope="module", params=["kraft", "zookeeper"])
def steady(request: pytest.FixtureRequest) -> Iterator[KafkaDeployment]:
    """A deployment in which every partition has a replica to spare."""
    shape: Shape = request.param
    KafkaDeployment(f"roll-{shape}", shape, {}, {0: ""}).undeploy()  # what a killed run left
    made = deploy_kafka(f"roll-{shape}", shape, SETTINGS, SLOTS[shape])
    yield made
    made.undeploy()


def asked(case: Case, playbook: str, **parameters: str) -> None:
    """A person asks for a run."""
    cluster = get("kafkaclusters.kafkamedic.dev", case.name, "-n", case.namespace)
    digest = get("playbooks.kafkamedic.dev", playbook)["status"]["digest"]
    spec = {
        "clusterRef": {"name": case.name, "uid": cluster["metadata"]["uid"]},
        "playbook": {"name": playbook, "digest": digest},
        "parameters": parameters,
        "requestedBy": "admin",
    }
    meta = {"name": f"{case.name}-{uuid.uuid4().hex[:5]}", "namespace": case.namespace}
    operator.apply([{"apiVersion": operator.API_VERSION, "kind": "Remediation", "metadata": meta, "spec": spec}])


def uids(kafka: KafkaDeployment) -> dict[int, str]:
    return {b: kafka.pod(b)["metadata"]["uid"] for b in (0, 1, 2)}


def test_a_whole_cluster_is_rolled_under_load(installed: None, steady: KafkaDeployment) -> None:
    operator.people(steady.namespace)
    case = Case(steady, f"roll-{uuid.uuid4().hex[:6]}")
    orders = case.topic([0, 1, 2], [1, 2, 0], [2, 0, 1], config={"min.insync.replicas": "2"})
    assert records.write(case.boot, orders, ["first"]) == 1
    assert records.read_group(case.boot, f"{case.name}-group", orders, 1)  # so that the offsets topic is there
    operator.apply([operator.kafka_cluster(steady, case.name)])
    before = uids(steady)
    asked(case, "rolling-restart")
    run = case.wait("AwaitingApproval")
    planned = [r["broker"] for r in run["status"]["plan"]["restarts"]]
    assert sorted(planned) == [0, 1, 2]
    traffic, watcher = records.Traffic(case.boot, orders), Watcher(case.boot)
    traffic.start()
    watcher.start()
    try:
        taken = operator.approve(run, "alice")
        assert taken.returncode == 0, taken.stderr
        done = case.wait("Succeeded", 300)
        ended = time.monotonic()
    finally:
        watcher.stop()
        traffic.stop()
    after = uids(steady)
    assert all(after[b] != before[b] for b in before), "every Pod is another one"
    journal = done["status"]["journal"]
    assert [e["state"] for e in journal] == ["Done"] * 3
    assert {e["targetUid"] for e in journal} == set(before.values())
    assert watcher.most_away == 1
    assert watcher.thinnest >= 2
    assert traffic.acked
    assert (traffic.lost, traffic.doubled, traffic.failed) == (set(), [], [])
    report(steady, ended - watcher.trouble[0][0], watcher, traffic)
    case.end()


def report(kafka: KafkaDeployment, whole: float, watcher: Watcher, traffic: records.Traffic) -> None:
    """The roll against its lower bound, as measured: for how long not everything was in sync."""
    bound = watcher.troubled_seconds()
    print(
        f"\n{kafka.shape}: whole roll {whole:.1f} s, lower bound {bound:.1f} s (ratio {whole / bound:.2f}), "
        f"{len(traffic.acked)} records acknowledged and read meanwhile, {watcher.looks} looks; "
        f"waiting 12 checks of 10 s a broker would have taken {bound + 3 * 120:.0f} s"
    )
