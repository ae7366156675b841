"""Leadership goes home in batches, and never to a process that hangs, which Kafka itself would elect; and it leaves a
machine before it goes."""

from __future__ import annotations

import contextlib
import textwrap
from collections import Counter
from pathlib import Path

import yaml

from kafka_medic.clients.failures import ReadFailed, WriteFailed
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, Connection
from kafka_medic.cluster.snapshot import TopicPartition
from tests.e2e.conftest import Case
from tests.incident import operator, records
from tests.testbed import faults, get, kubectl, wait_for

PARTITIONS = 40
IN_FLIGHT = 25
"""Requests of one producer that may meet a partition's old leader: five on their way, and their first retries."""
MOVED = 4
"""Leaderships of the drained broker, away and back."""
RUNBOOK = Path(__file__).parents[2] / "docs" / "runbooks" / "drain-broker.md"


def leaders(kafka: RealKafka, topic: str) -> Counter[int]:
    """By the view of broker 0, which is left alone."""
    view = kafka.views([0])[0]
    assert isinstance(view, BrokerView)
    return Counter(p.leader for p in view.partitions if p.topic == topic)


def plain_broker(case: Case, kafka: RealKafka) -> int:
    """One that can be stopped without an election of the controller."""
    controller = kafka.quorum().leader if case.kafka.shape == "kraft" else kafka.describe_cluster().controller
    return next(b for b in (1, 2) if b != controller)


def led_elsewhere(case: Case, kafka: RealKafka, home: int) -> str:
    """A topic that one broker is preferred for, and broker 0 leads."""
    other = 3 - home
    topic = case.topic(*([[0, home, other]] * PARTITIONS), config={"min.insync.replicas": "2"})
    wanted = {TopicPartition(topic, p): (home, 0, other) for p in range(PARTITIONS)}

    def reordered() -> bool:
        with contextlib.suppress(ReadFailed, WriteFailed):  # sent to a broker that is no controller any more, say
            return kafka.alter_reassignments(wanted) == {} and not kafka.reassignments()
        return False

    wait_for("the new order", reordered, 60)
    assert leaders(kafka, topic) == {0: PARTITIONS}
    return topic


def trapped(case: Case, kafka: RealKafka, topic: str, home: int) -> bool:
    """An election. KRaft names any broker as who takes it, also the very one that hangs, and there is only as long as
    that one's session lasts: so a short time for each attempt, and nobody else who hangs on the way."""
    answering = ",".join(case.kafka.broker_address(b) for b in (0, 1, 2) if b != home)
    sender = RealKafka(Connection(answering, timeout_seconds=1))
    try:
        sender.elect_preferred([TopicPartition(topic, 0)])
    except WriteFailed:
        return False
    finally:
        sender.close()
    return leaders(kafka, topic)[home] == 1


def test_leadership_goes_home_and_not_to_a_broker_that_hangs(case: Case) -> None:
    kafka = RealKafka(Connection(case.boot))
    home = plain_broker(case, kafka)
    topic = led_elsewhere(case, kafka, home)
    case.watch()
    case.ask("elect-preferred-leaders", batchSize="10")
    run = case.wait("AwaitingApproval")
    planned = {(e["broker"], e["topic"]): len(e["partitions"]) for e in run["status"]["plan"]["elections"]}
    assert planned[home, topic] == PARTITIONS
    faults.pause_broker(case.kafka, home)
    try:
        # What hangs is registered and in the ISR for as long as its session lasts: Kafka's own election takes it.
        wait_for("the trap", lambda: trapped(case, kafka, topic, home), 10, every=0.1)
        assert operator.approve(run, "alice").returncode == 0
        assert str(home) in case.wait_for_guard("FitToReceive")
        assert leaders(kafka, topic)[home] <= 1
    finally:
        faults.resume_broker(case.kafka, home)
        case.kafka.wait_ready()
    done = case.wait("Succeeded", 180)
    assert leaders(kafka, topic) == {home: PARTITIONS}
    batches = [e for e in done["status"]["journal"] if e["kind"] == "ElectPreferred"]
    assert len(batches) >= 2
    assert {e["state"] for e in batches} == {"Done"}
    kafka.close()


def test_a_node_is_drained_and_its_broker_leads_nothing_by_then(case: Case) -> None:
    kafka = RealKafka(Connection(case.boot))
    home = 1
    before = [[0, home, 2], [home, 0, 2], [home, 2, 0], [2, home, 0]]
    topic = case.topic(*before, config={"min.insync.replicas": "2"})
    case.watch()
    case.condition("Reachable", "True")
    traffic = records.Traffic(case.boot, topic, counts_not_leader=True)
    traffic.start()
    node = case.kafka.node_of(home)
    budget = get("poddisruptionbudget", "kafka", namespace=case.namespace)["spec"]
    assert {name: budget[name] for name in documented_budget()} == documented_budget(), "the one that the runbook gives"
    pod = case.kafka.pod(home)["metadata"]["uid"]
    try:
        kubectl("cordon", node)
        case.ask("drain-broker", brokers=str(home))
        done(case, "drain-broker")
        assert home not in leaders(kafka, topic), "before its Pod goes"
        assert case.kafka.pod(home)["metadata"]["uid"] == pod
        selector = f"--pod-selector=app.kubernetes.io/name=kafka,app.kubernetes.io/instance={case.namespace}"
        kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", selector, timeout=120)
        assert home not in leaders(kafka, topic)
        kubectl("uncordon", node)
        case.kafka.wait_ready()
        case.ask("undrain-broker", brokers=str(home))
        done(case, "undrain-broker")
    finally:
        kubectl("uncordon", node)
        traffic.stop()
    view = kafka.views([0])[0]
    assert isinstance(view, BrokerView)
    mine = sorted((p.partition, list(p.replicas), p.leader) for p in view.partitions if p.topic == topic)
    assert mine == [(n, replicas, replicas[0]) for n, replicas in enumerate(before)]
    assert traffic.acked
    assert (traffic.lost, traffic.doubled, traffic.failed) == (set(), [], [])
    print(f"\n{case.kafka.shape}: {len(traffic.acked)} records, {traffic.not_leader} requests met NOT_LEADER")
    assert traffic.not_leader <= IN_FLIGHT * MOVED, "each leadership that moved: what was on its way, and no storm"
    kafka.close()


def documented_budget() -> dict[str, object]:
    """The spec of the PodDisruptionBudget that the runbook gives."""
    before, marker, after = RUNBOOK.read_text().partition("    apiVersion: policy/v1")
    assert marker, before[:100]
    return dict(yaml.safe_load(textwrap.dedent(marker + after.partition("\n\n")[0]))["spec"])


def done(case: Case, playbook: str) -> None:
    run = case.wait("AwaitingApproval")
    assert run["spec"]["playbook"]["name"] == playbook
    assert operator.approve(run, "alice").returncode == 0
    case.wait("Succeeded", 180)
