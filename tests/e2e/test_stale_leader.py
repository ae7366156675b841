"""A split brain on both kinds of cluster: found, its records saved, every broker restarted, the stale one first."""

from __future__ import annotations

import contextlib
import uuid

from confluent_kafka.admin import AdminClient

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import BrokerView, Connection, PartitionState
from kafka_medic.cluster.snapshot import TopicPartition
from tests.e2e.conftest import Case, at_the_same_time
from tests.incident import operator, records
from tests.testbed import KafkaDeployment, faults, wait_for
from tests.testbed.kafka_settings import CONTROLLER_PORT


def test_a_stale_leader_is_found_its_records_saved_and_itself_restarted_first(
    installed: None, steady: list[KafkaDeployment]
) -> None:
    """The split brain: one broker does not hear that another one leads by now. It goes on taking writes, which nobody
    else ever has. With ZooKeeper the controller cannot reach it, and it stays registered; with KRaft it is cut from the
    rest of the quorum, which fences it, and serves the metadata that it had."""
    try:
        at_the_same_time(torn_and_mended, steady)
    finally:
        faults.mend()


def torn_and_mended(steady: KafkaDeployment, mode: str = "Approve") -> None:
    operator.people(steady.namespace)
    case = Case(steady, f"split-{uuid.uuid4().hex[:6]}")
    kafka = RealKafka(Connection(case.boot))
    controller = active_controller(steady, kafka)
    stale, other = (b for b in (0, 1, 2) if b != controller)
    orders = case.topic([stale, other, controller], config={"min.insync.replicas": "2"})
    tp = TopicPartition(orders, 0)
    kept = [f"kept-{n}" for n in range(10)]
    assert records.write(case.boot, orders, kept) == 10
    bounds = {"maxRisk": "High", "maxRestarts": 3}
    operator.apply([operator.kafka_cluster(steady, case.name, remediation={"mode": mode, "auto": bounds})])
    namespace = steady.namespace
    cut_off(steady, stale, controller)
    if steady.shape == "zookeeper":
        assert kafka.alter_reassignments({tp: [other, controller, stale]}) == {}
        wait_for("the new order", lambda: replicas(kafka, other, tp)[0] == other, 30)
        assert kafka.elect_preferred([tp]) == {}
    wait_for("another leader", lambda: leader_by(kafka, other, tp) == other, 60)
    assert leader_by(kafka, stale, tp) == stale, "nobody told it"
    lost = [f"only-there-{n}" for n in range(5)]
    assert records.write(steady.broker_address(stale), orders, lost, acks="1") == 5
    wait_for("its log", lambda: kafka.own_log_ends(stale, [tp]) == {tp: 15}, 30)
    assert kafka.own_log_ends(other, [tp]) == {tp: 10}

    by_itself = mode == "Auto"
    run = operator.wait_for_run(
        namespace, "Running" if by_itself else "AwaitingApproval", 180, cluster=case.name, playbook="rolling-restart"
    )
    plan = run["status"]["plan"]
    assert run["spec"]["playbook"]["name"] == "rolling-restart"
    assert run["spec"]["cause"]["findingId"] == f"ViewDiverged/broker-{stale}"
    # A voter that is cut may have made the quorum elect another leader meanwhile: the active controller goes last.
    last = active_controller(steady, kafka)
    assert [r["broker"] for r in plan["restarts"]] == [stale, *sorted({other, controller} - {last}), last]
    assert "5 records that only it holds" in plan["restarts"][0]["reason"]
    (saved,) = plan["rescues"]
    assert (saved["broker"], saved["topic"], saved["fromOffset"], saved["toOffset"]) == (stale, orders, 10, 15)
    assert by_itself or operator.approve(run, "alice").returncode == 0
    name = run["metadata"]["name"]

    def going(run: operator.Object) -> None:
        assert operator.phase(run) not in ("Failed", "Aborted", "Superseded"), run["status"]

    # By its name: the rescue topic, of two replicas, is worth a plan of its own.
    done = operator.wait_for_run(namespace, "Succeeded", 400, going, name=name)
    rescued = records.read_from(case.boot, plan["rescueTopic"], 0, 5, seconds=30)
    assert [value for _, value in rescued] == lost
    assert [value for _, value in records.read_from(case.boot, orders, 0, 10, seconds=30)] == kept
    assert [e["kind"] for e in done["status"]["journal"]] == ["RescueRecords"] + ["RestartPod"] * 3
    assert done["status"]["approvedBy"] == ("policy:Auto" if by_itself else "alice")
    case.condition("MetadataConsistent", "True")
    kafka.close()
    case.end()


def active_controller(steady: KafkaDeployment, kafka: RealKafka) -> int:
    if steady.shape == "kraft":
        found: list[int] = []

        def answered() -> bool:
            # One voter is cut off: what it is asked has no answer.
            with contextlib.suppress(ReadFailed):
                found.extend(leader for leader in (kafka.quorum().leader,) if leader is not None)
            return bool(found)

        wait_for("the quorum's leader", answered, 60)
        return found[0]
    admin = AdminClient({"bootstrap.servers": steady.bootstrap})  # kept: what it was asked ends with it
    return int(admin.describe_cluster().result(30).controller.id)


def cut_off(steady: KafkaDeployment, stale: int, controller: int) -> None:
    def address(broker: int) -> str:
        return faults.pod_address(steady.namespace, steady.pod_name(broker))

    if steady.shape == "zookeeper":
        faults.cut(address(controller), address(stale), CONTROLLER_PORT)
        return
    # From the leader last: a voter that hears no leader and still reaches another voter can unseat it.
    for broker in sorted({0, 1, 2} - {stale}, key=lambda b: b == controller):
        faults.cut(address(stale), address(broker), CONTROLLER_PORT)
        faults.cut(address(broker), address(stale), CONTROLLER_PORT)


def leader_by(kafka: RealKafka, broker: int, tp: TopicPartition) -> int:
    """Who leads, as that broker believes."""
    return _state(kafka, broker, tp).leader


def replicas(kafka: RealKafka, broker: int, tp: TopicPartition) -> tuple[int, ...]:
    return _state(kafka, broker, tp).replicas


def _state(kafka: RealKafka, broker: int, tp: TopicPartition) -> PartitionState:
    view = kafka.views([broker])[broker]
    assert isinstance(view, BrokerView)
    return next(p for p in view.partitions if (p.topic, p.partition) == tp)
