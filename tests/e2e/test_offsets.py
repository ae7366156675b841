"""A committed offset that the log does not have: no group with members is touched, then it is set, and put back."""

from __future__ import annotations

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import Connection
from kafka_medic.cluster.groups import Committed
from kafka_medic.cluster.snapshot import TopicPartition
from tests.e2e.conftest import Case, at_the_same_time
from tests.incident import operator, records

IMPOSSIBLE = Committed(5000, 0, "of the application")


def test_an_impossible_offset_is_set_to_the_log_start_and_put_back(both_cases: list[Case]) -> None:
    at_the_same_time(set_and_put_back, both_cases)


def set_and_put_back(case: Case) -> None:
    topic = case.topic([0, 1, 2], config={"min.insync.replicas": "2"})
    group, other, tp = f"{case.name}-billing", f"{case.name}-audit", TopicPartition(topic, 0)
    assert records.write(case.boot, topic, [f"order-{n}" for n in range(21)]) == 21
    records.commit_offset(case.boot, group, topic, 10)
    records.commit_offset(case.boot, other, topic, 10)
    kafka = RealKafka(Connection(case.boot))
    assert kafka.commit_offsets(group, {tp: IMPOSSIBLE}) == {}
    case.watch(remediation={"limits": {"cooldown": "0s"}})
    case.condition("OffsetsConsistent", "False", "OffsetBeyondLogEnd")

    with records.joined(case.boot, group, topic, "shop-1"):
        case.ask("reset-consumer-offsets", groups=group)
        message = case.wait_for_guard("GroupEmpty")
        assert "shop-1 at " in message
        assert committed(kafka, group) == {tp: IMPOSSIBLE}
    run = case.wait("AwaitingApproval", 60)
    (change,) = run["status"]["plan"]["offsets"]
    # The commit names the present leader epoch, in which no log loses records: it is of no topic that is there.
    assert (change["before"], change["after"], change["logStart"], change["logEnd"]) == (5000, 0, 0, 21)
    assert (change["skipped"], change["readAgain"]) == (0, 21)
    assert operator.approve(run, "alice").returncode == 0
    case.wait("Succeeded", 60)
    assert committed(kafka, group) == {tp: Committed(0)}

    assert records.write(case.boot, topic, ["next", "after that"]) == 2
    assert records.read_group(case.boot, group, topic, 23)[-2:] == [(21, "next"), (22, "after that")]
    case.ask("undo-offset-reset", remediation=run["metadata"]["name"])
    undo = case.wait("AwaitingApproval", 60)
    assert "the group has moved since it was set to 0" in undo["status"]["plan"]["offsets"][0]["reason"]
    assert operator.approve(undo, "alice").returncode == 0
    case.wait("Succeeded", 60)
    assert committed(kafka, group) == {tp: IMPOSSIBLE}, "offset, leader epoch and metadata"
    assert committed(kafka, other) == {tp: Committed(10)}
    kafka.close()


def committed(kafka: RealKafka, group: str) -> dict[TopicPartition, Committed]:
    (found,) = kafka.groups(lambda name: name == group).offsets
    return dict(found.committed)
