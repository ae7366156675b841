"""The Pod that would go is the one that the judged broker runs in: by what answered there, not by what it is called."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_medic.cluster.snapshot import Controller, Quorum, Voter
from kafka_medic.guard.verdict import Verdict
from tests.unit.cluster import worlds
from tests.unit.guard.restarts import judged, only

GUARD = "PodIsThatBroker"


def answering(**answers):
    """Pods by the broker they are said to be, each with what it has answered as: `answering(b2=3)`."""
    return worlds.brokers(**{b: {"pod": worlds.pod(int(b[1:]), answers_as=id_)} for b, id_ in answers.items()})


def test_a_pod_that_runs_another_broker_is_refused_with_both_names():
    crossed = worlds.healthy(brokers=answering(b2=3, b3=2))
    words = "Pod kafka-2 is broker 2 by its name or label, but broker 3 answers at its own address 10.0.0.2"
    only(crossed, GUARD, Verdict.DENY, words)
    only(crossed, GUARD, Verdict.DENY, "Pod kafka-3 is broker 3", broker=3)
    assert judged(crossed, 1).verdict is Verdict.ALLOW, "it is the others that are crossed"


def test_a_broker_whose_pod_is_said_to_be_anothers_is_refused_though_its_own_has_not_answered():
    only(worlds.healthy(brokers=answering(b2=None, b3=2)), GUARD, Verdict.DENY, "Pod kafka-3 has answered as broker 2")
    only(worlds.healthy(brokers=answering(b3=2)), GUARD, Verdict.DENY, "Pod kafka-3 has answered as broker 2")


def test_a_pod_that_has_not_answered_is_unknown_by_both_accounts_and_with_a_way_out():
    pod = worlds.pod(2, answers_as=None)
    told = tuple(
        replace(s, error="Pod kafka-2: no answer in time") if s.name == "pod-identity" else s for s in sources()
    )
    snapshot = worlds.healthy(brokers=worlds.brokers(b2={"pod": pod}), sources=told)
    only(snapshot, GUARD, Verdict.UNKNOWN, "Pod kafka-2 is broker 2 by its name or label alone")
    only(snapshot, GUARD, Verdict.UNKNOWN, "no broker 2 has answered at its own address 10.0.0.2")
    only(snapshot, GUARD, Verdict.UNKNOWN, "no answer in time")
    only(snapshot, GUARD, Verdict.UNKNOWN, "kubectl delete pod kafka-2 -n kafka")
    assert judged(snapshot, 1).verdict is Verdict.ALLOW, "another Pod's silence is no reason"


def sources():
    return worlds.sources()


def test_who_runs_no_pods_has_none_to_confuse():
    podless = worlds.brokers(**{f"b{n}": {"pod": None} for n in worlds.IDS})
    outside = tuple(s for s in sources() if s.name not in ("kubernetes", "pod-identity"))
    judgement = judged(worlds.healthy(brokers=podless, sources=outside), outside_kubernetes=True)
    assert judgement.verdict is Verdict.ALLOW
    assert next(r for r in judgement.reasons if r.guard == GUARD).verdict is Verdict.ALLOW


def test_another_writers_snapshot_need_not_speak_of_it_and_one_of_ours_has_to():
    silent = worlds.healthy(brokers=answering(b1=None, b2=None, b3=None))
    ours = tuple(s for s in sources() if s.name != "pod-identity")
    only(replace(silent, sources=ours), GUARD, Verdict.UNKNOWN, "by its name or label alone")
    theirs = tuple(s for s in ours if s.name in ("kafka", "kubernetes", "quorum"))
    judgement = judged(replace(silent, sources=theirs))
    assert judgement.verdict is Verdict.ALLOW, judgement.refusals
    assert "has no source pod-identity" in next(r.message for r in judgement.reasons if r.guard == GUARD)
    crossed = worlds.healthy(brokers=answering(b2=3, b3=2), sources=theirs)
    assert judged(crossed).verdict is not Verdict.ALLOW, "what it does tell counts"


def with_controllers(lag=0, **answers):
    """Controllers 10, 11, 12 beside the brokers; `c10=None`: the Pod said to be 10's has not answered."""
    pods = {n: worlds.pod(1, name=f"controller-{n}", uid=f"uid-{n}", answers_as=n) for n in (10, 11, 12)}
    pods |= {int(c[1:]): replace(pods[int(c[1:])], answers_as=id_) for c, id_ in answers.items()}
    voters = tuple(Voter(n, 0, lag if n == 12 else 0, pods[n]) for n in (10, 11, 12))
    return worlds.healthy(quorum=Quorum(11, voters), controller=Controller(11))


NOBODY = {"c10": None, "c11": None, "c12": None}


def test_controllers_that_cannot_be_asked_may_go_if_the_quorum_spares_whichever_it_is():
    judgement = judged(with_controllers(**NOBODY), 10)
    assert judgement.verdict is Verdict.ALLOW, judgement.refusals
    words = next(r.message for r in judgement.reasons if r.guard == GUARD)
    assert "without any single one of controllers 10, 11, 12" in words


def test_a_controller_that_cannot_be_asked_stays_if_it_might_be_one_that_the_quorum_needs():
    # Without 12, which is behind, the quorum keeps 10 and 11; but 12's Pod may run 10.
    behind = with_controllers(lag=60_000, **NOBODY)
    refused = judged(behind, 12).refusals
    assert [(r.guard, r.verdict) for r in refused] == [(GUARD, Verdict.UNKNOWN)]
    known = with_controllers(lag=60_000)
    assert judged(known, 12).verdict is Verdict.ALLOW


@pytest.mark.parametrize("broker", [{"answers_as": None}, {"answers_as": 10}])
def test_a_controllers_pod_that_may_run_a_broker_stays(broker):
    pods = worlds.brokers(b1={"pod": worlds.pod(1, **broker)})
    refused = judged(replace(with_controllers(**NOBODY), brokers=pods), 10).refusals
    assert [r.guard for r in refused] == [GUARD]


def test_crossed_controllers_are_refused_as_brokers_are():
    refused = judged(with_controllers(c10=12, c12=10), 10).refusals
    assert [(r.guard, r.verdict) for r in refused] == [(GUARD, Verdict.DENY)]
