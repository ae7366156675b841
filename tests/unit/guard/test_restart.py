"""A restart is permitted by every guard or not at all, from sources that are fresh and known."""

from __future__ import annotations

import pytest

from kafka_medic.cluster.snapshot import Broker, Mode, Quorum, Rollout, Source, SourceState, Voter
from kafka_medic.guard import restart
from kafka_medic.guard.evaluate import GuardFaultError, evaluate
from kafka_medic.guard.restart import RESTART_GUARDS, judge_restart
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.resources.vocabulary import Guard
from tests.unit.cluster import worlds
from tests.unit.guard.restarts import diverged, judged, only, refusals


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("broker", worlds.IDS)
def test_a_healthy_cluster_permits_and_every_guard_was_asked(mode, broker):
    judgement = judged(worlds.healthy(mode), broker)
    assert judgement.verdict is Verdict.ALLOW, judgement.refusals
    assert [r.guard for r in judgement.reasons] == ["SourcesFresh", *(name for name, _ in RESTART_GUARDS)]


def test_all_refusals_are_reported_together():
    row = worlds.partition("orders", 0, (1, 2), isr=[1, 2], minIsr=2, adding=[2])
    snapshot = worlds.healthy(
        rows=[row],
        brokers=worlds.brokers(b3={"reachable": False}),
        quorum=Quorum(1, (Voter(1, 0, 0),)),
        sources=worlds.sources(groups="refused"),
    )
    assert set(refusals(snapshot)) >= {
        "SourcesFresh", "IsrStaysAboveMin", "NoReassignment", "QuorumKeepsMajority", "NoOtherBrokerDisturbed",
    }  # fmt: skip


def test_a_source_that_did_not_answer():
    snapshot = worlds.healthy(sources=worlds.sources(groups="not authorized"))
    only(snapshot, "SourcesFresh", Verdict.UNKNOWN, "groups did not answer: not authorized")


def test_certificates_near_their_end_or_not_known_are_in_nobodys_way():
    """A restart may be how a broker loads its new one."""
    unknown = worlds.healthy(certificates=None, sources=worlds.sources(certificates="timed out"))
    near = worlds.certificates(*(worlds.served(n, worlds.certificate(days=-1)) for n in worlds.IDS))
    for snapshot in (unknown, worlds.healthy(certificates=near)):
        assert judged(snapshot).verdict is Verdict.ALLOW


@pytest.mark.parametrize("seconds", [31, -31])
def test_a_source_too_old_or_from_the_future(seconds):
    judgement = judge_restart(worlds.healthy(), 2, worlds.later(seconds))
    assert judgement.verdict is Verdict.UNKNOWN
    assert {r.guard for r in judgement.refusals} == {"SourcesFresh"}
    assert judge_restart(worlds.healthy(), 2, worlds.later(30)).verdict is Verdict.ALLOW
    assert judge_restart(worlds.healthy(), 2, worlds.later(31), max_age=60).verdict is Verdict.ALLOW


@pytest.mark.parametrize("name", ["kafka", "views", "reassignments", "quorum", "kubernetes"])
def test_a_needed_source_that_was_not_read(name):
    sources = tuple(s for s in worlds.sources() if s.name != name)
    only(worlds.healthy(sources=sources), "SourcesFresh", Verdict.UNKNOWN, f"no source {name}")


def test_a_source_without_a_time_and_a_snapshot_without_sources():
    timeless = (Source("kafka", None, SourceState.KNOWN), *worlds.sources()[1:])
    only(worlds.healthy(sources=timeless), "SourcesFresh", Verdict.UNKNOWN, "has no time of reading")
    only(worlds.healthy(sources=()), "SourcesFresh", Verdict.UNKNOWN, "no source")


def test_another_writers_coarser_sources_stand_for_what_is_not_null():
    coarse = tuple(Source(n, worlds.NOW, SourceState.KNOWN) for n in ("metadata", "pods"))
    assert judged(worlds.healthy(sources=coarse)).verdict is Verdict.ALLOW
    stale = (coarse[0], Source("pods", worlds.later(-60), SourceState.KNOWN))
    assert judged(worlds.healthy(sources=stale)).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("field", ["brokers", "controller", "quorum", "views", "partitions"])
def test_a_part_that_is_not_known_is_unknown(field):
    assert judged(worlds.healthy(**{field: None})).verdict is Verdict.UNKNOWN


def test_an_empty_list_of_brokers_is_refused():
    assert judged(worlds.healthy(brokers=())).verdict is not Verdict.ALLOW
    assert judged(worlds.healthy(brokers=(Broker(2),))).verdict is not Verdict.ALLOW


def test_a_guard_that_fails_is_an_internal_fault_and_never_skipped(monkeypatch):
    def broken(*_):
        raise KeyError("leader")

    guards = tuple((n, broken if n == "ViewsAgree" else g) for n, g in RESTART_GUARDS)
    monkeypatch.setattr(restart, "RESTART_GUARDS", guards)
    with pytest.raises(GuardFaultError, match="ViewsAgree") as fault:
        judged(worlds.healthy())
    assert isinstance(fault.value.__cause__, KeyError)


def test_a_guard_that_says_nothing_or_speaks_for_another_is_a_fault():
    with pytest.raises(GuardFaultError, match="no answer"):
        evaluate([(Guard.VIEWS_AGREE, tuple)])
    with pytest.raises(GuardFaultError, match="in the name of NoReassignment"):
        evaluate([(Guard.VIEWS_AGREE, lambda: Reason(Guard.NO_REASSIGNMENT, Verdict.ALLOW, "fine"))])


def test_no_guard_at_all_permits_nothing():
    assert evaluate([]).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("missing", range(len(RESTART_GUARDS)))
def test_each_guard_is_the_only_one_to_refuse_something(monkeypatch, missing):
    """With any one guard gone, at least one of these snapshots would pass: none is there for show."""
    worlds_refused = [
        (worlds.healthy(brokers=worlds.brokers(b2={"recovering": True})), {}),
        (diverged(), {}),
        (worlds.healthy(rows=[*worlds.ROWS, worlds.partition("t", 0, (2, 1))]), {}),
        (worlds.healthy(rows=[*worlds.ROWS, worlds.partition("t", 0, (1, 3, 2), removing=[2], minIsr=1)]), {}),
        (worlds.healthy(quorum=Quorum(1, (Voter(1, 0, 0),))), {}),
        (worlds.healthy(controller=None), {}),
        (worlds.healthy(brokers=worlds.brokers(b3={"recovering": True})), {}),
        (worlds.healthy(brokers=worlds.brokers(b3={"pod": worlds.pod(3, ready=False)})), {}),
        (worlds.healthy(rollouts=(Rollout("StatefulSet", "kafka", "it updates"),)), {}),
        (worlds.healthy(brokers=worlds.brokers(b2={"pod": worlds.pod(2, answers_as=None)})), {}),
    ]
    assert not any(judged(s, **c).verdict is Verdict.ALLOW for s, c in worlds_refused)
    monkeypatch.setattr(restart, "RESTART_GUARDS", tuple(g for i, g in enumerate(RESTART_GUARDS) if i != missing))
    assert any(judged(s, **c).verdict is Verdict.ALLOW for s, c in worlds_refused), RESTART_GUARDS[missing][0]


@pytest.mark.parametrize(("leader", "others", "verdict"), [("2", "1", Verdict.DENY), ("1", "1", Verdict.ALLOW)])
def test_it_is_the_leaders_minimum_that_counts_and_not_that_of_the_broker_that_answered(leader, others, verdict):
    """Broker 2 answered for the topic, with the default of its own configuration file."""
    name = "min.insync.replicas"
    told = (("BROKER", str(b), name, leader if b == 1 else others, False) for b in worlds.IDS)
    configs = worlds.configs(("TOPIC", "orders", name, "1", False), *told)
    snapshot = worlds.healthy(rows=[worlds.partition("orders", 0, (1, 2), minIsr=1)], configs=configs)
    judgement = judged(snapshot, 2)
    (reason,) = [r for r in judgement.reasons if r.guard == "IsrStaysAboveMin"]
    assert reason.verdict is verdict
    assert (judgement.verdict is Verdict.ALLOW) == (verdict is Verdict.ALLOW)
    if verdict is Verdict.DENY:
        assert "orders (2 replicas, min.insync.replicas 2)" in reason.message
