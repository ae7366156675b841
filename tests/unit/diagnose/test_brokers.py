"""Incidents I1 and I2: brokers that lie, hang or are gone, and the operator that is cut off; with their twins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_medic.cluster.snapshot import Controller, Mode, Quorum, View, Voter
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.resources.vocabulary import Severity
from tests.unit.cluster import worlds


def found(snapshot, **kwargs):
    return {f.id: f for f in diagnose(snapshot, **kwargs)}


def with_broker(number, rows=worlds.ROWS, **changes):
    return worlds.healthy(rows=rows, brokers=worlds.brokers(**{f"b{number}": changes}))


# Views


def _stale_view(mode, **kwargs):
    stale = worlds.view(3, told={("orders", 0): (2, 4)}, **kwargs)
    return worlds.healthy(mode, views=(worlds.view(1), worlds.view(2), stale))


@pytest.mark.parametrize("mode", list(Mode))
def test_a_stale_view_is_pending_first_and_says_which_side_is_stale(mode):
    finding = found(_stale_view(mode))["ViewDiverged/broker-3"]
    assert not finding.firing()
    evidence = " ".join(finding.evidence)
    assert "orders-0 leader 2 epoch 4, decided is leader 1 epoch 5" in evidence
    assert "broker 3 is stale" in evidence
    lasting = found(_stale_view(mode), remembered={finding.id: worlds.later(-30)})
    assert lasting[finding.id].firing()


def test_a_majority_ahead_is_the_authority_even_when_the_metadata_was_read_from_the_stale_side():
    new = [worlds.view(n, told={("orders", 0): (2, 6)}) for n in (2, 3)]
    findings = found(worlds.healthy(views=(worlds.view(1), *new)))
    assert set(findings) == {"ViewDiverged/broker-1"}


def test_one_broker_ahead_of_all_others_makes_nobody_stale():
    """It may have heard first, or be wrong: a larger number alone decides nothing, and both accounts are shown."""
    views = (worlds.view(1), worlds.view(2), worlds.view(3, told={("orders", 0): (2, 6)}))
    findings = found(worlds.healthy(views=views))
    assert set(findings) == {"MetadataUndecided"}
    evidence = " ".join(findings["MetadataUndecided"].evidence)
    assert "leader 1 epoch 5 of topic id id-orders (brokers 1, 2)" in evidence
    assert "leader 2 epoch 6 of topic id id-orders (broker 3)" in evidence
    assert findings["MetadataUndecided"].affected == ("orders-0",)


def test_what_is_undecided_lasts_although_the_partitions_change():
    """It takes a lost majority to arise at all, unlike an election on its way."""

    def disputed(number, at):
        views = (worlds.view(1), worlds.view(2), worlds.view(3, told={("orders", number): (2, 6)}))
        return worlds.healthy(views=views, at=worlds.later(at))

    remembered = {"MetadataUndecided": worlds.later(-60)}
    finding = found(disputed(1, 0), previous=disputed(0, -15), remembered=remembered)["MetadataUndecided"]
    assert finding.firing()


def test_a_broker_that_still_lists_a_deleted_topic_or_its_old_incarnation_is_stale():
    """Whatever its epochs are: they count from the creation of the topic."""
    old = [{**row, "topicId": "id-before", "leaderEpoch": 57} for row in worlds.ROWS[:1]]
    ghost = worlds.partition("ghost", 0, (3, 1))
    for rows, words in (
        ([*old, *worlds.ROWS[1:]], "orders-0 of a deleted topic with the same name (id id-before)"),
        ([*worlds.ROWS, ghost], "ghost-0 does not exist"),
        (worlds.ROWS[1:], "orders-0 not reported"),
    ):
        views = (worlds.view(1), worlds.view(2), worlds.view(3, rows))
        findings = found(worlds.healthy(views=views))
        assert set(findings) == {"ViewDiverged/broker-3"}
        assert words in " ".join(findings["ViewDiverged/broker-3"].evidence)


def test_elections_one_after_another_are_not_a_lasting_divergence():
    before = worlds.healthy(
        views=(worlds.view(1), worlds.view(2), worlds.view(3, told={("orders", 0): (2, 4)})),
        at=worlds.later(-60),
    )
    now = worlds.healthy(views=(worlds.view(1), worlds.view(2), worlds.view(3, told={("orders", 1): (1, 4)})))
    remembered = {"ViewDiverged/broker-3": worlds.later(-60)}
    assert not found(now, previous=before, remembered=remembered)["ViewDiverged/broker-3"].firing()
    same = worlds.healthy(views=before.views)
    assert found(same, previous=before, remembered=remembered)["ViewDiverged/broker-3"].firing()


def test_members_are_compared_with_the_registrations():
    views = (worlds.view(1), worlds.view(2), worlds.view(3, members=(3,)))
    evidence = " ".join(found(worlds.healthy(views=views))["ViewDiverged/broker-3"].evidence)
    assert "lacks the registered brokers 1, 2" in evidence
    views = (worlds.view(1), worlds.view(2), worlds.view(3, members=(1, 2, 3, 9)))
    evidence = " ".join(found(worlds.healthy(views=views))["ViewDiverged/broker-3"].evidence)
    assert "still lists broker 9, not registered" in evidence


def test_the_controller_is_compared_with_zookeeper_only():
    views = (worlds.view(1), worlds.view(2), worlds.view(3, controller=2))
    assert found(worlds.healthy(Mode.KRAFT, views=views)) == {}
    assert set(found(worlds.healthy(Mode.ZOOKEEPER, views=views))) == {"ViewDiverged/broker-3"}


def test_a_view_not_told_is_not_a_different_one():
    assert found(worlds.healthy(views=(worlds.view(1), worlds.view(2), View(3)))) == {}


# Brokers


def test_a_broker_is_not_gone_while_a_pod_has_not_answered_which_broker_it_runs():
    silent = {"reachable": False, "pod": None}
    quorum = Quorum(1, (Voter(1, 0, 0), Voter(2, 0, 0)))
    snapshot = worlds.healthy(brokers=worlds.brokers(b3=silent), quorum=quorum)
    assert "ControllerStuck" in found(snapshot)
    assert "ControllerStuck" not in found(replace(snapshot, unplaced=(worlds.pod(3),)))


def test_a_zombie_answers_but_is_not_registered():
    views = tuple(worlds.view(n, members=(1, 2)) for n in worlds.IDS)
    snapshot = worlds.healthy(brokers=worlds.brokers(b3={"registered": False}), views=views)
    finding = found(snapshot)["BrokerZombie/broker-3"]
    assert finding.for_seconds == 30
    assert "BrokerDown/broker-3" not in found(snapshot)


def test_a_pod_that_is_starting_is_given_time():
    starting = with_broker(3, registered=False, reachable=False, pod=worlds.pod(3, ready=False))
    key = "BrokerDown/broker-3"
    assert not found(starting, remembered={key: worlds.later(-120)})[key].firing()
    assert found(starting, remembered={key: worlds.later(-300)})[key].firing()
    key = "BrokerZombie/broker-3"
    starting = with_broker(3, registered=False, pod=worlds.pod(3, ready=False))
    assert not found(starting, remembered={key: worlds.later(-120)})[key].firing()


def test_a_registered_broker_that_does_not_answer_is_not_starting():
    """Its client listener is cut: the kubelet's probes fail like everybody's, and its replicas are in sync."""
    cut = with_broker(3, registered=True, reachable=False, pod=worlds.pod(3, ready=False))
    finding = found(cut, remembered={"BrokerDown/broker-3": worlds.later(-30)})["BrokerDown/broker-3"]
    assert finding.firing()
    assert "registered, yet does not answer" in " ".join(finding.evidence)


def test_a_broker_that_hung_and_whose_pod_is_no_longer_ready_goes_on_being_down():
    """A hung broker's port takes connections for a while, so that its Pod is Ready at first."""
    key = "BrokerDown/broker-3"
    hung = with_broker(3, registered=False, reachable=False, pod=worlds.pod(3, ready=False))
    remembered = {key: worlds.later(-50)}
    assert found(hung, remembered=remembered, fired=[key])[key].firing()
    assert not found(hung, remembered=remembered)[key].firing(), "this one only began to start"


def test_other_trouble_under_the_same_id_has_to_last_anew():
    before = _stale_view(Mode.KRAFT)
    now = worlds.healthy(views=(worlds.view(1), worlds.view(2), worlds.view(3, told={("orders", 1): (1, 4)})))
    key = "ViewDiverged/broker-3"
    before = replace(before, taken_at=worlds.later(-15))
    remembered = {key: worlds.later(-60)}
    assert not found(now, previous=before, remembered=remembered, fired=[key])[key].firing()


def test_a_recovering_broker_is_given_longer_still():
    snapshot = with_broker(3, registered=False, reachable=False, recovering=True)
    key = "BrokerDown/broker-3"
    finding = found(snapshot, remembered={key: worlds.later(-600)})[key]
    assert not finding.firing()
    assert "recovering its log" in " ".join(finding.evidence)


def test_registered_but_not_answering_is_down():
    evidence = " ".join(found(with_broker(3, reachable=False))["BrokerDown/broker-3"].evidence)
    assert "registered, yet does not answer" in evidence
    assert "Pod kafka-3 is Ready" in evidence


def test_a_broker_that_only_replica_lists_know_is_down():
    rows = [worlds.partition("orders", 0, (1, 2, 9), isr=[1, 2])]
    assert "BrokerDown/broker-9" in found(worlds.healthy(rows=rows))


def test_a_silent_broker():
    finding = found(with_broker(2, bytes_in_rate=0.0))["BrokerSilent/broker-2"]
    assert "broker 1 (1000 bytes/s)" in finding.evidence[1]


def test_silence_that_is_none():
    leads_nothing = [worlds.partition("orders", n, (1, 2, 3), leader=1) for n in range(2)]
    leads_nothing += [worlds.partition("orders", 2, (3, 1, 2))]
    assert found(with_broker(2, rows=leads_nothing, bytes_in_rate=0.0)) == {}
    idle = worlds.brokers(**{f"b{n}": {"bytes_in_rate": 0.0} for n in worlds.IDS})
    assert found(worlds.healthy(brokers=idle)) == {}
    assert found(with_broker(2, bytes_in_rate=None)) == {}
    only_one_busy = worlds.brokers(b1={"bytes_in_rate": 0.0}, b2={"bytes_in_rate": 0.0})
    assert found(worlds.healthy(brokers=only_one_busy)) == {}
    starting = with_broker(2, bytes_in_rate=0.0, registered=False, reachable=False, pod=worlds.pod(2, ready=False))
    assert "BrokerSilent/broker-2" not in found(starting)


def test_a_cordoned_node():
    finding = found(with_broker(2, pod=worlds.pod(2, cordoned=True)))["NodeMaintenance/broker-2"]
    assert finding.firing()
    assert "node-2" in finding.evidence[0]
    assert found(with_broker(2, pod=worlds.pod(2, cordoned=None))) == {}


def test_a_node_that_is_about_to_go_or_is_not_heard_any_more():
    sign = "node node-2 has the taint ToBeDeletedByClusterAutoscaler"
    finding = found(with_broker(2, pod=worlds.pod(2, maintenance=(sign,))))["NodeMaintenance/broker-2"]
    assert finding.firing()
    assert sign in finding.message
    assert sign in finding.evidence[0]
    assert "read from kubernetes" in finding.evidence[0]
    gone = found(with_broker(2, pod=worlds.pod(2, node_ready=False, maintenance=(sign,))))["NodeMaintenance/broker-2"]
    assert len(gone.evidence) == 2
    assert "not Ready" in gone.evidence[0]
    assert found(with_broker(2, pod=worlds.pod(2, node_ready=None, maintenance=None))) == {}
    assert found(with_broker(2, pod=worlds.pod(2, deleting=True))) == {}, "a Pod is deleted by every rolling restart"


def test_a_broker_that_recovers_its_log_says_how_much_is_left():
    down = with_broker(2, registered=False, reachable=False, recovering=True, remaining_logs=3, remaining_segments=40)
    finding = found(down)["BrokerDown/broker-2"]
    assert finding.for_seconds == 1800
    assert "it is recovering its log (3 logs and 40 segments left); a restart" in " ".join(finding.evidence)


# Whoever keeps the metadata


@pytest.mark.parametrize("mode", list(Mode))
def test_no_controller(mode):
    quorum = Quorum(None, tuple(Voter(n, 0, 0) for n in worlds.IDS)) if mode is Mode.KRAFT else None
    missing = found(worlds.healthy(mode, controller=Controller(None), quorum=quorum))["ControllerMissing"]
    cure = "the brokers reach ZooKeeper" if mode is Mode.ZOOKEEPER else "a majority of the voters runs"
    assert cure in missing.evidence[1]
    assert missing.playbook is None, "who else is stopped would leave partitions that nobody finds a leader for"
    assert "ControllerMissing" in found(worlds.healthy(mode, controller=Controller(-1), quorum=quorum))
    source = "quorum" if mode is Mode.KRAFT else "zookeeper"
    unread = worlds.healthy(mode, controller=Controller(None), sources=worlds.sources(mode, **{source: "refused"}))
    assert "ControllerMissing" not in found(unread)


def test_a_voter_that_lags():
    voters = (Voter(1, 0, 0), Voter(2, 0, 10), Voter(3, 500, 9000))
    finding = found(worlds.healthy(quorum=Quorum(1, voters)))["QuorumDegraded"]
    assert finding.affected == ("voter-3",)
    assert finding.severity is Severity.CRITICAL  # one more and there is no majority
    assert "2 of 3" in finding.message
    five = (*(Voter(n, 0, 0) for n in range(4)), Voter(4, 9, 9000))
    assert found(worlds.healthy(quorum=Quorum(1, five)))["QuorumDegraded"].severity is Severity.WARNING


def test_a_voter_not_known_is_not_a_lagging_one():
    assert found(worlds.healthy(quorum=Quorum(1, (Voter(1, 0), Voter(2), Voter(3))))) == {}


def test_a_voter_that_was_gone_before_the_present_leader_was_elected_is_missed_all_the_same():
    finding = found(worlds.healthy(quorum=Quorum(1, (Voter(1, 0, 0), Voter(2, 0, 10), Voter(3)))))["QuorumDegraded"]
    assert finding.affected == ("voter-3",)
    assert "voter 3 has not caught up since voter 1 leads" in finding.evidence[0]


def test_an_ensemble_server_that_does_not_serve():
    voters = (Voter(1, 0), Voter(2, 0), Voter(3, None))
    finding = found(worlds.healthy(Mode.ZOOKEEPER, quorum=Quorum(1, voters)))["QuorumDegraded"]
    assert finding.affected == ("zookeeper-3",)
    one = (Voter(1, 0), Voter(2), Voter(3))
    lost = found(worlds.healthy(Mode.ZOOKEEPER, quorum=Quorum(None, one)))["QuorumDegraded"]
    assert "no majority" in lost.message


# Unreachable, or isolated


def _blind(**changes):
    nothing = {
        "partitions": None, "groups": None, "configs": None, "views": None, "controller": None, "quorum": None,
        "sources": worlds.sources(kafka="timed out"),
    }  # fmt: skip
    return worlds.healthy(**{**nothing, **changes})


def test_no_broker_answers_and_their_pods_are_not_ready():
    gone = worlds.brokers(**{f"b{n}": {"reachable": False, "pod": worlds.pod(n, ready=n == 1)} for n in worlds.IDS})
    findings = found(_blind(brokers=gone))
    assert set(findings) == {"ClusterUnreachable"}
    assert "kafka did not answer: timed out" in findings["ClusterUnreachable"].evidence[0]
    assert "without a Ready Pod" in findings["ClusterUnreachable"].evidence[1]
    assert not findings["ClusterUnreachable"].firing()


def test_all_pods_are_ready_so_it_is_the_operator():
    cut = worlds.brokers(**{f"b{n}": {"reachable": None, "registered": None} for n in worlds.IDS})
    assert set(found(_blind(brokers=cut))) == {"OperatorIsolated"}


def test_when_kubernetes_does_not_tell_either_it_is_unreachable():
    findings = found(_blind(brokers=None, sources=worlds.sources(kafka="timed out", kubernetes="refused")))
    assert set(findings) == {"ClusterUnreachable"}
    assert "Kubernetes could not be read either" in findings["ClusterUnreachable"].evidence[1]
    podless = worlds.brokers(**{f"b{n}": {"reachable": False, "pod": None} for n in worlds.IDS})
    evidence = found(_blind(brokers=podless))["ClusterUnreachable"].evidence[1]
    assert "the operator may be cut off" in evidence


def test_a_broker_is_not_without_a_ready_pod_while_a_pod_has_not_answered():
    unsure = {f"b{n}": {"reachable": False, "pod": None} for n in (2, 3)}
    brokers = worlds.brokers(b1={"reachable": False, "pod": worlds.pod(1, ready=False)}, **unsure)
    evidence = found(_blind(brokers=brokers, unplaced=(worlds.pod(2),)))["ClusterUnreachable"].evidence[1]
    assert evidence.endswith("broker-1")


def test_a_snapshot_that_holds_nothing_is_not_a_healthy_cluster():
    assert set(found(_blind(brokers=None, sources=()))) == {"ClusterUnreachable"}


def test_one_broker_that_answers_is_a_cluster_that_is_reached():
    two_gone = worlds.brokers(b2={"reachable": False}, b3={"reachable": False})
    assert {"BrokerDown/broker-2", "BrokerDown/broker-3"} <= set(found(worlds.healthy(brokers=two_gone)))
