"""Leadership goes home in batches, and never to a process that hangs, which Kafka itself would elect; and it leaves a
machine before it goes."""

from __future__ import annotations

from collections import Counter

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, Connection
from kafka_medic.cluster.snapshot import TopicPartition
from tests.e2e.conftest import Case
from tests.incident import operator, records
from tests.testbed import faults, kubectl, wait_for

PARTITIONS = 40
HOME = 1


def leaders(kafka: RealKafka, topic: str) -> Counter[int]:
    """By the view of broker 0, which is left alone."""
    view = kafka.views([0])[0]
    assert isinstance(view, BrokerView)
    return Counter(p.leader for p in view.partitions if p.topic == topic)


def led_elsewhere(case: Case, kafka: RealKafka, suffix: str) -> str:
    """A topic that broker HOME is preferred for, and broker 0 leads."""
    topic = case.topic(*([[0, HOME, 2]] * PARTITIONS), suffix=suffix, config={"min.insync.replicas": "2"})
    wanted = {TopicPartition(topic, p): (HOME, 0, 2) for p in range(PARTITIONS)}
    assert kafka.alter_reassignments(wanted) == {}
    wait_for("the new order", lambda: not kafka.reassignments(), 30)
    assert leaders(kafka, topic) == {0: PARTITIONS}
    return topic


def test_leadership_goes_home_and_not_to_a_broker_that_hangs(case: Case) -> None:
    kafka = RealKafka(Connection(case.boot))
    topic = led_elsewhere(case, kafka, "orders")
    case.watch()
    case.condition("LeadersBalanced", "False", "LeadersImbalanced", 120)
    case.ask("elect-preferred-leaders", batchSize="10")
    run = case.wait("AwaitingApproval")
    planned = {(e["broker"], e["topic"]): len(e["partitions"]) for e in run["status"]["plan"]["elections"]}
    assert planned[HOME, topic] == PARTITIONS
    faults.pause_broker(case.kafka, HOME)
    try:
        assert operator.approve(run, "alice").returncode == 0
        said = case.wait_for_guard("PreferredAnswers")
        assert f"broker {HOME}" in said
        assert leaders(kafka, topic) == {0: PARTITIONS}
        # What hangs is registered and in the ISR for as long as its session lasts: Kafka's own election takes it.
        kafka.elect_preferred([TopicPartition(topic, 0)])
        wait_for("the trap", lambda: leaders(kafka, topic)[HOME] == 1, 15)
    finally:
        faults.resume_broker(case.kafka, HOME)
        case.kafka.wait_ready()
    done = case.wait("Succeeded", 180)
    assert leaders(kafka, topic) == {HOME: PARTITIONS}
    batches = [e for e in done["status"]["journal"] if e["kind"] == "ElectPreferred"]
    assert len(batches) >= 2
    assert {e["state"] for e in batches} == {"Done"}
    case.condition("LeadersBalanced", "True")
    kafka.close()


def test_a_node_is_drained_and_its_broker_leads_nothing_by_then(case: Case) -> None:
    kafka = RealKafka(Connection(case.boot))
    before = [[0, HOME, 2], [HOME, 0, 2], [HOME, 2, 0], [2, HOME, 0]]
    topic = case.topic(*before, config={"min.insync.replicas": "2"})
    case.watch()
    case.condition("Ready", "True")
    traffic = records.Traffic(case.boot, topic)
    traffic.start()
    node = case.kafka.node_of(HOME)
    pod = case.kafka.pod(HOME)["metadata"]["uid"]
    try:
        kubectl("cordon", node)
        case.ask("drain-broker", brokers=str(HOME))
        done(case, "drain-broker")
        assert HOME not in leaders(kafka, topic), "before its Pod goes"
        assert case.kafka.pod(HOME)["metadata"]["uid"] == pod
        selector = f"--pod-selector=app.kubernetes.io/name=kafka,app.kubernetes.io/instance={case.namespace}"
        kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", selector, timeout=120)
        assert HOME not in leaders(kafka, topic)
        kubectl("uncordon", node)
        case.kafka.wait_ready()
        case.ask("undrain-broker", brokers=str(HOME))
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
    kafka.close()


def done(case: Case, playbook: str) -> None:
    run = case.wait("AwaitingApproval")
    assert run["spec"]["playbook"]["name"] == playbook
    assert operator.approve(run, "alice").returncode == 0
    case.wait("Succeeded", 180)
