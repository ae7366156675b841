"""One source failing takes with it exactly what it alone can tell, and says why."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import BrokerView, Reassignment
from kafka_medic.clients.zookeeper import Registrations
from kafka_medic.cluster.accounts import TopicRecord
from kafka_medic.cluster.agreement import agreement
from kafka_medic.cluster.snapshot import (
    ClientSoftware,
    Controller,
    Mode,
    Pod,
    Quorum,
    Rollout,
    Snapshot,
    TopicPartition,
    Voter,
)
from kafka_medic.observe.metrics import BrokerMetrics, BrokerSigns
from kafka_medic.observe.snapshot import ClusterReaders, observe_cluster
from kafka_medic.observe.unnamed import unnamed_views
from tests.simulation.kafka import SimKafka
from tests.simulation.log_bounds import bounds_table
from tests.unit.cluster import worlds

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PODS = {0: Pod("kafka-0", "u0"), 1: Pod("kafka-1", "u1"), 2: Pod("kafka-2", "u2")}


@dataclass
class Watched:
    """A SimKafka some of whose answers are replaced."""

    inner: SimKafka
    instead: dict[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return self.instead.get(name) or getattr(self.inner, name)


@dataclass
class Ensemble:
    brokers: tuple[int, ...] | None = (0, 1, 2)
    controller: Controller = field(default_factory=lambda: Controller(2, 7))
    records: dict[str, TopicRecord | None] | None = None

    def registrations(self) -> Registrations:
        if self.brokers is None:
            raise ReadFailed(FailureKind.UNREACHABLE, "no quorum")
        return Registrations(self.brokers, self.controller)

    def ensemble(self) -> Quorum:
        return Quorum(1, (Voter(1, 0, 0), Voter(2, None)))

    def topics(self, names: Any) -> dict[str, TopicRecord | None]:
        if self.records is None:
            raise ReadFailed(FailureKind.UNREACHABLE, "no quorum")
        return {name: self.records[name] for name in names}


@pytest.fixture
def kafka() -> SimKafka:
    kafka = SimKafka()
    kafka.topic("orders", [1, 0, 2], [2, 1])
    kafka.committed = {"billing": {TopicPartition("orders", 0): 10}}
    return kafka


def seen(kafka: Any, zookeeper: Any = None, pods: Any = lambda: PODS, **more: Any) -> Snapshot:
    return observe_cluster("c", ClusterReaders(kafka, zookeeper, pods, **more), lambda: NOW)


@dataclass
class Exporters:
    """What the brokers' exporters say; `asked` is where they were looked for."""

    answer: Any
    asked: dict[int, str] = field(default_factory=dict)

    def begin(self, hosts: Any) -> Any:
        self.asked = dict(hosts)
        return self.give

    def give(self) -> Any:
        if isinstance(self.answer, ReadFailed):
            raise self.answer
        return self.answer


def signs(rate: float | None = None, **page: Any) -> BrokerSigns:
    return BrokerSigns(BrokerMetrics(**page), rate)


def rows(snapshot: Snapshot) -> dict[TopicPartition, Any]:
    return {r.tp: r for r in snapshot.rows()}


def nulls(snapshot: Snapshot) -> set[str]:
    """Every field, and every column of the partitions, of which nothing is known."""
    names = ("brokers", "controller", "quorum", "views", "partitions", "groups", "configs")
    found = {name for name in names if getattr(snapshot, name) is None}
    if snapshot.partitions is not None:
        found |= {c for c in snapshot.partitions.column_names if snapshot.partitions[c].null_count}
    return found


def test_everything_that_answers_is_known(kafka):
    snapshot = seen(kafka)
    assert all(s.known and s.observed_at == NOW for s in snapshot.sources)
    assert nulls(snapshot) == set()
    assert snapshot.cluster.mode is Mode.KRAFT
    row = rows(snapshot)[TopicPartition("orders", 0)]
    assert (row.replicas, row.isr, row.adding, row.log_end, row.min_isr, row.size_bytes) == (
        (1, 0, 2), (1, 0, 2), (), 21, 2, 1000,
    )  # fmt: skip
    assert [b.pod for b in snapshot.brokers or ()] == list(PODS.values())
    assert [b.disk_free for b in snapshot.brokers or ()] == [1 << 50] * 3


@pytest.mark.parametrize(
    ("source", "gone"),
    [
        ("reassignments", {"adding", "removing"}),
        ("log-dirs", {"sizeBytes"}),
        ("configs", {"configs", "minIsr"}),
        ("groups", {"groups"}),
        ("log-ends", {"logStart", "logEnd"}),
        ("quorum", {"quorum", "controller"}),
        ("views", {"views", "partitions", "configs"}),
    ],
)
def test_a_source_that_fails_alone(kafka, source, gone):
    kafka.unreadable = {source}
    snapshot = seen(kafka)
    assert nulls(snapshot) == gone
    told = {b.disk_free for b in snapshot.brokers or ()}
    assert told == ({None} if source in ("log-dirs", "views") else {1 << 50})
    failed = {s.name: s.error or "" for s in snapshot.sources if not s.known}
    assert failed.pop(source) == f"Unreachable: {source}: simulated"
    hanging = {"log-dirs", "configs", "log-ends"} if source == "views" else set()
    assert set(failed) == hanging
    assert all("not tried" in error for error in failed.values())
    assert snapshot.brokers is not None


def test_a_cluster_that_does_not_answer_leaves_the_pods(kafka):
    kafka.reachable = False
    snapshot = seen(kafka)
    assert nulls(snapshot) == {"controller", "quorum", "views", "partitions", "groups", "configs"}
    assert [(b.id, b.pod, b.registered, b.reachable) for b in snapshot.brokers or ()] == [
        (n, PODS[n], None, None) for n in (0, 1, 2)
    ]
    unknown = {s.name for s in snapshot.sources if not s.known}
    of_kafka = {"kafka", "views", "reassignments", "log-dirs", "configs", "groups", "log-ends", "quorum"}
    assert unknown == {*of_kafka, "pod-identity"}
    assert seen(kafka, pods=None).brokers is None


def test_without_kubernetes_there_is_no_such_source_and_a_silent_one_is_unknown(kafka):
    assert seen(kafka, pods=None).source("kubernetes") is None

    def silent():
        raise ReadFailed(FailureKind.UNREACHABLE, "Kubernetes: 503")

    snapshot = seen(kafka, pods=silent)
    source = snapshot.source("kubernetes")
    assert source is not None
    assert not source.known
    assert {b.pod for b in snapshot.brokers or ()} == {None}


def test_a_broker_that_is_down_is_listed_and_its_view_is_empty_handed(kafka):
    kafka.stop(1)
    snapshot = seen(kafka)
    down = snapshot.broker(1)
    assert down is not None
    assert (down.registered, down.reachable, down.recovering) == (False, False, None)
    assert [v.broker for v in snapshot.views or ()] == [0, 2], "nobody answered as that broker"


def test_a_leader_that_does_not_know_that_it_leads_leaves_its_own_log_ends_unknown(kafka):
    """Metadata from a stale broker, and a partition given to it: the others' log ends are read all the same."""

    def partial(led):
        rows = [(TopicPartition(row["topic"], row["partition"]), row["leader"]) for row in led.to_pylist()]
        return {b: bounds_table({tp: (0, 21)} if tp != min(rows)[0] else {}) for tp, b in rows}

    snapshot = seen(Watched(kafka, {"log_bounds": partial}))
    source = snapshot.source("log-ends")
    assert source is not None
    assert source.known
    assert "not served by their leader" in (source.error or "")
    ends = [row.log_end for row in snapshot.rows()]
    assert ends.count(None) == 1
    assert set(ends) == {None, 21}


def test_a_broker_that_lost_its_registration_is_asked_where_it_was_last(kafka):
    book: dict[int, Any] = {}
    whole = kafka.views([0, 1, 2])
    observe_cluster("c", ClusterReaders(kafka), book=book)
    assert book[1] == ("broker-1", 9092)
    kafka.stop(1)
    asked: list[Any] = []

    def found(brokers):
        asked.append(brokers)
        return {1: whole[1]}

    snapshot = observe_cluster("c", ClusterReaders(Watched(kafka, {"unnamed_views": found})), book=book)
    zombie = snapshot.broker(1)
    assert asked == [{1: [("broker-1", 9092)]}]
    assert zombie is not None
    assert (zombie.registered, zombie.reachable) == (False, True)
    assert 1 in {v.broker for v in snapshot.views or ()}


@pytest.mark.parametrize(
    ("pods", "asked"),
    [
        (None, {}),
        ({0: "10.0.0.1", 2: "10.0.0.3"}, {1: []}),
        ({0: "10.0.0.1"}, {}),
        ({0: "10.0.0.1", 1: None}, {1: []}),
        ({0: "10.0.0.1", 1: "10.0.0.2", 2: "10.0.0.3"}, {1: [("10.0.0.2", 9092), ("10.0.0.2", 9094)]}),
    ],
)
def test_a_broker_of_which_no_address_is_known_was_asked_only_where_it_cannot_run(kafka, pods, asked):
    """Without its Pod it cannot, where every broker that is named has one; it may where others run elsewhere."""
    kafka.stop(1)
    found: list[Any] = []

    class Looking:
        def unnamed_views(self, brokers):
            found.append(brokers)
            return {}

    one = worlds.pod(1)
    told = None if pods is None else {b: replace(one, ip=ip, ports=(9094,)) for b, ip in pods.items()}
    unnamed_views(Looking(), {}, kafka.describe_cluster(), {0, 1, 2}, told)
    assert found == [asked]


def cut_from_the_quorum(kafka):
    """Broker 1 was fenced, led orders-1 under epoch 4, and tells whoever asks it that all is as it was."""
    whole = dict(kafka.views([0, 1, 2]))
    old = moved(whole[1], leader_epoch=4)
    told = {b: replace(moved(whole[b], leader_epoch=5), members=(0, 2)) for b in (0, 2)} | {1: old}
    return {"views": lambda _: told, "unnamed_views": lambda _: {1: old}}


@pytest.mark.parametrize("asked", [(0, 2), (0, 1, 2)])
@pytest.mark.parametrize("leader", [0, 7, None])
def test_with_kraft_it_does_not_matter_which_broker_describes_the_cluster(kafka, asked, leader):
    instead = cut_from_the_quorum(kafka)
    described = replace(kafka.describe_cluster(), nodes=tuple(kafka.describe_cluster().nodes[b] for b in asked))
    answers = {"describe_cluster": lambda: described, "quorum": lambda: Quorum(leader, (Voter(0, 0, 0),))}
    brokers = seen(Watched(kafka, instead | answers)).brokers
    assert {b.id: b.registered for b in brokers or ()} == {0: True, 1: False, 2: True}


def test_with_kraft_one_view_against_the_description_proves_nothing(kafka):
    whole = dict(kafka.views([0, 1, 2]))
    down = ReadFailed(FailureKind.UNREACHABLE, "timed out")
    alone = {0: down, 1: replace(whole[1], members=(1,)), 2: down}
    answers = {"views": lambda _: alone, "quorum": lambda: Quorum(7, (Voter(7, 0, 0),))}
    brokers = seen(Watched(kafka, answers)).brokers
    assert {b.id: b.registered for b in brokers or ()} == {0: None, 1: True, 2: None}


def test_a_registered_broker_that_does_not_answer_is_not_reachable(kafka):
    whole = kafka.views([0, 1, 2])
    watched = Watched(kafka, {"views": lambda _: {**whole, 1: ReadFailed(FailureKind.UNREACHABLE, "timed out")}})
    snapshot = seen(watched)
    silent = snapshot.broker(1)
    assert silent is not None
    assert (silent.registered, silent.reachable) == (True, False)
    view = next(v for v in snapshot.views or () if v.broker == 1)
    assert (view.members, view.leaders) == (None, None)


def moved(view: Any, **changes: Any) -> BrokerView:
    assert isinstance(view, BrokerView)
    return BrokerView.of(view.broker, view.members, view.controller, [replace(p, **changes) for p in view.partitions])


def states(snapshot: Snapshot) -> set[tuple[int | None, tuple[int, ...] | None]]:
    return {(r.leader_epoch, r.isr) for r in snapshot.rows()}


def test_an_epoch_is_believed_when_a_majority_reports_it_and_not_because_it_is_the_largest(kafka):
    whole = dict(kafka.views([0, 1, 2]))
    old, new = ({b: moved(whole[b], leader_epoch=e) for b in (0, 1, 2)} for e in (5, 9))
    watched = Watched(kafka, {"views": lambda _: told})
    told = {0: old[0], 1: new[1], 2: new[2]}
    assert {r.leader_epoch for r in seen(watched).rows()} == {9}
    told = {0: old[0], 1: old[1], 2: new[2]}
    assert states(seen(watched)) == {(None, None)}, "one ahead of a majority: nothing decides"
    told = {0: old[0], 1: new[1], 2: ReadFailed(FailureKind.UNREACHABLE, "timed out")}
    assert states(seen(watched)) == {(None, None)}


def test_a_topic_made_anew_is_judged_by_its_id_and_not_by_the_epochs_of_the_old_one(kafka):
    """One broker has missed it: it reports the old id, and an epoch that the new topic has not reached."""
    whole = dict(kafka.views([0, 1, 2]))
    told = {b: moved(whole[b], leader_epoch=0, topic_id="new") for b in (0, 1)}
    told[2] = moved(whole[2], leader_epoch=57, topic_id="old", leader=2)
    snapshot = seen(Watched(kafka, {"views": lambda _: told}))
    assert {r.leader_epoch for r in snapshot.rows()} == {0}
    assert set(agreement(snapshot).disagreements) == {2}
    diverged = next(v for v in snapshot.views or () if v.broker == 2).diverged
    assert diverged == (), "what it holds belongs to a topic that somebody has deleted"


def test_zookeepers_records_decide_what_brokers_dispute(kafka):
    whole = dict(kafka.views([0, 1, 2]))
    told = {b: moved(whole[b], leader_epoch=5) for b in (0, 1)} | {2: moved(whole[2], leader_epoch=6)}
    watched = Watched(kafka, {"views": lambda _: told})
    record = dict.fromkeys(range(2), (2, 6, (2,), (2, 1)))
    ensemble = Ensemble(records=dict.fromkeys(["orders"], TopicRecord(None, record)))
    assert {(r.topic, r.leader_epoch, r.isr) for r in seen(watched, ensemble).rows()} == {("orders", 6, (2,))}
    source = seen(watched, Ensemble(records=None)).source("zookeeper-topics")
    assert source is not None
    assert not source.known
    assert states(seen(watched, Ensemble(records=None))) == {(None, None)}


def test_an_isr_is_a_majoritys_or_unknown(kafka):
    whole = dict(kafka.views([0, 1, 2]))
    told = {0: moved(whole[0], isr=(1,)), 1: moved(whole[1], isr=(1,)), 2: moved(whole[2], isr=(0, 1, 2))}
    watched = Watched(kafka, {"views": lambda _: told})
    assert {r.isr for r in seen(watched).rows()} == {(1,)}
    told[1] = moved(whole[1], isr=(2, 1))
    assert {r.isr for r in seen(watched).rows()} == {None}


def test_no_view_at_all_is_no_partition_and_not_an_empty_list_of_them(kafka):
    failed = {b: ReadFailed(FailureKind.UNREACHABLE, "timed out") for b in (0, 1, 2)}
    snapshot = seen(Watched(kafka, {"views": lambda _: failed}))
    assert snapshot.partitions is None
    for name in ("views", "configs", "log-dirs", "log-ends"):
        source = snapshot.source(name)
        assert source is not None
        assert not source.known


def test_a_reassignment_in_flight_wins_over_a_stale_view(kafka):
    tp = TopicPartition("orders", 1)
    flying = {tp: Reassignment((2, 1, 0), (0,), ())}
    row = rows(seen(Watched(kafka, {"reassignments": lambda: flying})))[tp]
    assert (row.replicas, row.adding, row.removing, row.isr) == ((2, 1, 0), (0,), (), (2, 1))


def test_a_kraft_brokers_word_on_the_controller_is_noise_and_left_out(kafka):
    whole = kafka.views([0, 1, 2])
    noisy = {b: replace(v, controller=b) for b, v in whole.items() if isinstance(v, BrokerView)}
    assert {v.controller for v in seen(Watched(kafka, {"views": lambda _: noisy})).views or ()} == {None}
    zoo = seen(Watched(kafka, {"views": lambda _: noisy}), Ensemble())
    assert [v.controller for v in zoo.views or ()] == [0, 1, 2]


def test_with_zookeeper_only_the_ensemble_says_who_is_registered(kafka):
    snapshot = seen(kafka, Ensemble(brokers=(0, 2)))
    assert snapshot.cluster.mode is Mode.ZOOKEEPER
    assert snapshot.controller == Controller(2, 7)
    assert snapshot.source("quorum") is None
    assert {b.id: b.registered for b in snapshot.brokers or ()} == {0: True, 1: False, 2: True}
    assert snapshot.quorum == Ensemble().ensemble()
    lost = seen(kafka, Ensemble(brokers=None))
    assert lost.controller is None
    assert {b.registered for b in lost.brokers or ()} == {None}
    assert {s.name for s in lost.sources if not s.known} == {"zookeeper"}


def test_with_zookeeper_and_no_broker_the_registrations_stand(kafka):
    kafka.reachable = False
    snapshot = seen(kafka, Ensemble(brokers=(0,)))
    assert {b.id: b.registered for b in snapshot.brokers or ()} == {0: True, 1: False, 2: False}
    assert snapshot.controller == Controller(2, 7)


def test_a_registered_broker_that_nobody_else_lists_is_asked_too(kafka):
    asked = []
    watched = Watched(kafka, {"views": lambda ids: asked.append(list(ids)) or kafka.views(ids)})
    snapshot = seen(watched, Ensemble(brokers=(0, 1, 2, 9)))
    assert asked == [[0, 1, 2, 9]]
    extra = snapshot.broker(9)
    assert extra is not None
    assert (extra.registered, extra.reachable) == (True, False)


# What the exporters say


def test_the_exporters_fill_in_what_nobody_else_tells(kafka):
    client = ClientSoftware("librdkafka", "2.3.0", 4)
    told = {n: signs(7.5, version="4.3.1", clients=(client,), state=3, remaining_logs=0) for n in (0, 1, 2)}
    snapshot = seen(kafka, metrics=Exporters(told))
    broker = snapshot.broker(1)
    assert (broker.bytes_in_rate, broker.version, broker.clients) == (7.5, "4.3.1", (client,))
    assert (broker.recovering, broker.remaining_logs) == (False, 0)
    assert snapshot.cluster.version == "4.3.1"
    assert snapshot.source("metrics").known


def test_an_exporter_is_looked_for_at_the_pod_and_else_at_the_host(kafka):
    exporters = Exporters({0: signs(state=3)})
    seen(kafka, pods=lambda: {0: Pod("kafka-0", ip="10.0.0.7"), 5: Pod("kafka-5", ip="10.0.0.8")}, metrics=exporters)
    hosts = {n.id: n.host for n in kafka.describe_cluster().nodes}
    assert exporters.asked == {**hosts, 0: "10.0.0.7", 5: "10.0.0.8"}


def test_one_exporter_that_fails_is_named_and_leaves_the_others(kafka):
    told = {0: signs(1.0), 1: ReadFailed(FailureKind.UNREACHABLE, "refused"), 2: signs(2.0)}
    snapshot = seen(kafka, metrics=Exporters(told))
    source = snapshot.source("metrics")
    assert (source.known, source.error) == (True, "broker 1: Unreachable: refused")
    assert [b.bytes_in_rate for b in snapshot.brokers] == [1.0, None, 2.0]


def test_exporters_that_all_fail_are_an_unknown_source_and_take_nothing_else_along(kafka):
    snapshot = seen(kafka, metrics=Exporters(ReadFailed(FailureKind.UNREACHABLE, "all of them")))
    assert snapshot.source("metrics").error == "Unreachable: all of them"
    assert {s.name for s in snapshot.sources if not s.known} == {"metrics"}
    assert nulls(snapshot) == set()
    assert seen(kafka).source("metrics") is None, "no port was named, so nothing is missing"


def test_a_broker_that_recovers_is_known_before_it_registers(kafka):
    kafka.stop(1)
    told = {1: signs(state=2, remaining_logs=12, remaining_segments=90)}
    broker = seen(kafka, metrics=Exporters(told)).broker(1)
    assert (broker.registered, broker.recovering, broker.remaining_logs, broker.remaining_segments) == (
        False, True, 12, 90,
    )  # fmt: skip
    kafka.reachable = False
    assert seen(kafka, metrics=Exporters(told)).broker(1).recovering is True


def test_brokers_of_two_versions_have_no_common_one(kafka):
    told = {0: signs(version="3.9.1"), 1: signs(version="4.0.0")}
    assert seen(kafka, metrics=Exporters(told)).cluster.version == kafka.version()


def test_rollouts_have_a_source_of_their_own(kafka):
    def refused():
        raise ReadFailed(FailureKind.UNREACHABLE, "Kubernetes: 403")

    rollout = Rollout("StatefulSet", "kafka", "1 of 3 Pods at revision b")
    assert seen(kafka, rollouts=lambda: [rollout]).rollouts == (rollout,)
    assert seen(kafka, rollouts=lambda: []).rollouts == ()
    snapshot = seen(kafka, rollouts=refused)
    assert snapshot.rollouts is None
    assert snapshot.source("kubernetes").known
    assert not snapshot.source("rollouts").known
    kafka.reachable = False
    assert seen(kafka, rollouts=lambda: []).rollouts == ()
