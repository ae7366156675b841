"""What the operator does by itself, and when it stops trusting itself: Auto within its bounds, and the breaker.

The operator reconciles with its own rights on the real API server; only Kafka is in memory, and the clock is moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafka_medic.clients.kubernetes_api import custom_path
from kafka_medic.resources.kafkacluster_remediation import Day
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.remediation import Remediation
from tests.integration.operated_cluster import PLAYBOOK, OperatedCluster, Person, persons
from tests.integration.people import people
from tests.unit.resources.sources import ROOT, documents

NAMESPACE = "by-itself"
WHOLE_RUN = ["configs", "reassign", "configs", "configs"]
IMPATIENT = "impatient"


@pytest.fixture(scope="module")
def known(role: str, operator: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Person]]:
    """alice approves, bob asks."""
    found = persons(tmp_path_factory.mktemp("operator"), operator, "admin", "alice", "bob")
    with people(NAMESPACE, role):
        yield found


@pytest.fixture
def cluster(request: pytest.FixtureRequest, known: dict[str, Person]) -> Iterator[OperatedCluster]:
    """One for each test, of that name and with those rules."""
    name, policy = request.param
    it = OperatedCluster(known["operator"], known["admin"], NAMESPACE, name, limits={"cooldown": "0s"}, **policy)
    yield it
    it.close()
    it.leave()


def runs(cluster: OperatedCluster) -> list[Remediation]:
    found = cluster.admin.list(cluster.path("remediations"))
    return [cluster.run(r["metadata"]["name"]) for r in found if r["spec"]["clusterRef"]["uid"] == cluster.uid]


def proposed(cluster: OperatedCluster) -> str:
    """What the operator proposes by itself, once it waits for approval."""
    for _ in range(20):
        for run in runs(cluster):
            if run.spec.cause is not None and run.status.phase is Phase.AWAITING_APPROVAL:
                return run.name
        cluster.reconcile(1)
    raise AssertionError(f"nothing was proposed: {[(r.name, r.status.message) for r in runs(cluster)]}")


def another_day() -> dict[str, Any]:
    day = list(Day)[(datetime.now(UTC).weekday() + 3) % 7]
    return {"days": [day.value], "start": "00:00", "end": "00:01"}


BEYOND: dict[str, tuple[Any, str]] = {
    "findings": (["BrokerZombie"], "ReplicationFactorLow is not among auto.findings"),
    "maxRisk": ("Low", "its risk is Medium, auto.maxRisk is Low"),
    "maxPartitions": (6, "7 partitions, auto.maxPartitions is 6"),
    "maxMoves": (13, "14 moves, auto.maxMoves is 13"),
    "maxBytes": (1000, "to copy, auto.maxBytes is 1000"),
    "windows": ([another_day()], "spec.remediation.auto.windows"),
}

HELD: dict[str, tuple[Any, str]] = {
    "windows": ([another_day()], "outside every window of spec.remediation.windows"),
    "limits": ({"perDay": 0}, "limits.perDay is 0"),
    "paused": (True, "remediation is paused on the KafkaCluster"),
}


@pytest.mark.parametrize("cluster", [("automatic", {"mode": "Auto"})], indirect=True)
def test_auto_asks_beyond_each_of_its_bounds_and_acts_within_all_of_them(
    cluster: OperatedCluster, known: dict[str, Person]
) -> None:
    asked = cluster.ask(known["bob"])
    cluster.until(asked, Phase.AWAITING_APPROVAL)
    cluster.reconcile(2)
    assert "bob requested it, and Auto covers runs of findings only" in cluster.why(asked)
    cluster.admin.delete(cluster.path("remediations", asked))

    cluster.rule(auto={"maxPartitions": 6})
    name = proposed(cluster)
    for bound, (value, told) in BEYOND.items():
        cluster.rule(auto=dict.fromkeys(BEYOND) | {bound: value})
        cluster.reconcile(2)
        assert "beyond the bounds of Auto" in cluster.why(name), bound
        assert told in cluster.why(name), bound
        assert cluster.run(name).status.phase is Phase.AWAITING_APPROVAL, bound
        assert cluster.kafka.writes == [], bound

    # Within all of them nobody is asked, and every other rule holds it still.
    cluster.rule(auto=dict.fromkeys(BEYOND))
    for rule, (value, told) in HELD.items():
        cluster.rule(**{rule: value})
        cluster.reconcile(2)
        assert told in cluster.why(name), rule
        assert cluster.run(name).status.phase is Phase.APPROVED, rule
        assert cluster.kafka.writes == [], rule
        cluster.rule(**{rule: None})
    done = cluster.until(name, Phase.SUCCEEDED, 60)
    assert done.status.approved_by == "policy:Auto"
    assert done.status.approvals == ()
    assert [w.split(" ", 1)[0] for w in cluster.kafka.writes] == WHOLE_RUN


@pytest.fixture
def impatient(known: dict[str, Person]) -> Iterator[None]:
    """A playbook that gives up where the shipped one waits for a person. Proposed for no cluster: people ask for it. It
    is no cure of what fires, so that its end is followed by no cooldown for one."""
    (own,) = documents(ROOT / "playbooks" / f"{PLAYBOOK}.yaml")
    own["metadata"] = {"name": IMPATIENT}
    own["spec"]["trigger"]["finding"] = "LeadersImbalanced"
    own["spec"]["trigger"]["clusters"] = {"matchLabels": {"kafkamedic.dev/proposed": "never"}}
    first = next(step for step in own["spec"]["steps"] if step["name"] == "add-replicas")
    first |= {"onFailure": "Abort", "verify": first["verify"] | {"within": "10s"}}
    path, admin = custom_path("playbooks"), known["admin"]
    admin.create(path, own)
    yield
    admin.delete(f"{path}/{IMPATIENT}")


OPEN_FOR = 120
BREAKER = {"breaker": {"failures": 1, "openFor": f"{OPEN_FOR}s"}}


@pytest.mark.parametrize("cluster", [("tripping", BREAKER)], indirect=True)
def test_the_breaker_opens_drops_what_waits_and_tries_one_after_a_time_or_at_a_persons_word(
    cluster: OperatedCluster, known: dict[str, Person], impatient: None
) -> None:
    def fails() -> str:
        """Something that begins, and then a broker goes away for longer than the playbook waits."""
        name = cluster.ask(known["bob"], IMPATIENT)
        cluster.until(name, Phase.AWAITING_APPROVAL)
        cluster.say(known["alice"], name)
        cluster.until(name, Phase.RUNNING)
        cluster.kafka.stop(2)
        cluster.until(name, Phase.FAILED)
        cluster.kafka.start(2)
        return name

    def allowed() -> dict[str, Any]:
        found = cluster.admin.get(cluster.path("kafkaclusters", cluster.name))["status"]["conditions"]
        return next(c for c in found if c["type"] == "RemediationAllowed")

    waiting = proposed(cluster)
    cluster.rule(playbooks=[{"name": PLAYBOOK, "mode": "Observe"}])  # so that the other one begins
    cluster.say(known["alice"], waiting)
    bad = fails()
    cluster.rule(playbooks=None)
    dropped = cluster.until(waiting, Phase.SUPERSEDED)
    assert f"dropped: the last 1 remediation failed or did not cure ({bad}). The breaker is open until" in (
        dropped.status.message or ""
    )
    late = cluster.ask(known["bob"])
    assert "The breaker is open" in (cluster.until(late, Phase.SUPERSEDED).status.message or "")
    cluster.reconcile(4)
    assert {r.name for r in runs(cluster)} == {waiting, bad, late}, "nothing is proposed to be dropped again"
    assert (allowed()["status"], allowed()["reason"]) == ("False", "BreakerOpen")
    assert cluster.kafka.writes == []

    # Half open after a time: one is proposed anew, and the old word is no word on it. Its failing opens the breaker.
    cluster.ahead += OPEN_FOR
    again = proposed(cluster)
    cluster.reconcile(4)
    assert cluster.run(again).status.phase is Phase.AWAITING_APPROVAL
    assert cluster.run(waiting).status.phase is Phase.SUPERSEDED
    assert cluster.kafka.writes == []
    fails()
    cluster.until(again, Phase.SUPERSEDED)
    cluster.reconcile(1)
    assert allowed()["reason"] == "BreakerOpen"

    # Half open at a person's word: what is approved now runs, once, and closes it. What failed cured nothing, so no
    # cooldown of it holds a cure back.
    now = datetime.now(UTC) + timedelta(seconds=cluster.ahead)
    cluster.rule(breaker={"tryAgainAt": now.strftime("%Y-%m-%dT%H:%M:%SZ")})
    last = proposed(cluster)
    cluster.rule(limits={"cooldown": "1h"})
    for _ in range(2):
        cluster.say(known["alice"], last)
    cluster.until(last, Phase.SUCCEEDED, 60)
    assert [w.split(" ", 1)[0] for w in cluster.kafka.writes] == WHOLE_RUN
    cluster.reconcile(1)
    assert allowed()["reason"] == "Allowed"
