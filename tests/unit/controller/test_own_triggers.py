"""Triggers of an owner's own Playbooks: which finding, for how long, in which KafkaClusters, and who comes first."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from kafka_medic.playbook.nothing_to_do import with_nothing_to_do
from kafka_medic.playbook.triggers import SHIPPED, place
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.phases import TERMINAL_PHASES, Phase
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import MAX_INLINE_CHANGES, Plan
from kafka_medic.resources.remediation_status import RemediationStatus
from tests.simulation.kafka import SimKafka
from tests.simulation.world import API_VERSION, BASE, PLAYBOOKS, World, shipped_playbooks
from tests.unit.controller.test_proposals import FOUND, NOW, asked, cluster

ALL = {p["metadata"]["name"]: Playbook.parse(p) for p in shipped_playbooks()}
RAISE = "raise-replication-factor"


def own(name="ours", of=RAISE, **trigger):
    """A Playbook with the steps of a shipped one."""
    raw = ALL[of].to_kubernetes()
    spec = raw["spec"] | {"trigger": {"finding": raw["spec"]["trigger"]["finding"], **trigger}}
    return Playbook.parse(raw | {"metadata": {"name": name}, "spec": spec, "status": {}})


def proposed(*books, findings=(FOUND,), runs=(), of=None):
    """The names of the playbooks that are proposed, with the shipped ones there."""
    bodies = asked(findings, runs, of, {**ALL, **{b.name: b for b in books}})
    return [body["spec"]["playbook"]["name"] for body in bodies]


def run_of(book, phase, finding=FOUND, name="r", **status):
    (body,) = asked([finding], playbooks={book.name: book})
    body["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    made = Remediation.parse(body)
    finished = NOW if phase in TERMINAL_PHASES else None
    changes = {"phase": phase, "finished_at": finished, **status}
    return made.model_copy(update={"status": made.status.model_copy(update=changes)})


def test_the_shipped_names_are_those_of_the_files():
    assert {f.stem for f in PLAYBOOKS.glob("*.yaml")} == SHIPPED == set(ALL)


def test_an_own_one_treats_its_type_though_the_diagnosis_names_another():
    assert FOUND.playbook == RAISE
    assert proposed(own()) == ["ours"]
    assert proposed(own(), findings=[replace(FOUND, playbook=None)]) == ["ours"]
    assert proposed(own(), findings=[replace(FOUND, type="LeadersImbalanced", playbook="elect-preferred-leaders")]) == [
        "elect-preferred-leaders"
    ]


def test_a_shipped_one_treats_only_what_names_it():
    assert proposed() == [RAISE], "raise-defaults has the same trigger"
    assert proposed(findings=[replace(FOUND, playbook="raise-defaults")]) == ["raise-defaults"]
    assert proposed(findings=[replace(FOUND, playbook=None)]) == []


def test_several_have_an_order():
    assert place(ALL[RAISE])[0] > place(own())[0]
    assert proposed(own("b"), own("a")) == ["a"], "ties by name"
    assert proposed(own("a"), own("b", order=99)) == ["b"]
    assert proposed(own("a", order=1000), own("z", order=1000)) == ["a"]
    assert proposed(own("z", order=1000)) == [RAISE], "by name among equals"
    assert proposed(own("ours", order=1001)) == [RAISE]


def test_one_comes_into_the_order_once_its_time_has_passed():
    assert NOW - FOUND.since == timedelta(minutes=5)
    late = own(**{"for": "6m"})
    assert proposed(late) == [RAISE]
    assert proposed(own(**{"for": "5m"})) == ["ours"]


@pytest.mark.parametrize(
    ("labels", "names"), [({"team": "orders"}, ["ours"]), ({"team": "payments"}, [RAISE]), ({}, [RAISE])]
)
def test_in_the_clusters_that_it_selects(labels, names):
    book = own(clusters={"matchLabels": {"team": "orders"}})
    raw = cluster().to_kubernetes() | {"apiVersion": API_VERSION, "kind": "KafkaCluster"}
    labelled = KafkaCluster.parse(raw | {"metadata": raw["metadata"] | {"labels": labels}, "status": {}})
    assert proposed(book, of=labelled) == names


def test_one_that_only_observes_or_is_refused_gives_way():
    quiet = cluster(playbooks=[{"name": "ours", "mode": "Observe"}])
    assert proposed(own(), of=quiet) == [RAISE]
    raw = own().to_kubernetes()
    raw["spec"]["steps"][0]["verify"]["probe"] = "RecordsRescued"
    assert proposed(Playbook.parse(raw)) == [RAISE]


@pytest.mark.parametrize("phase", [Phase.REJECTED, Phase.EXPIRED, Phase.FAILED, Phase.ABORTED])
def test_where_it_was_declined_the_next_one_is_proposed_and_then_none(phase):
    declined = run_of(own(), phase)
    assert proposed(own(), runs=[declined]) == [RAISE]
    assert proposed(own(), runs=[declined, run_of(ALL[RAISE], phase, name="s")]) == []


@pytest.mark.parametrize("phase", [Phase.PLANNING, Phase.AWAITING_APPROVAL, Phase.RUNNING, Phase.PAUSED])
def test_one_at_a_time_for_a_finding(phase):
    assert proposed(own(), runs=[run_of(own(), phase)]) == []
    assert proposed(own(), runs=[run_of(ALL[RAISE], phase)]) == [], "the shipped one was there first"
    another = replace(FOUND, id="ReplicationFactorLow/other")
    assert proposed(own(), findings=[FOUND, another], runs=[run_of(own(), phase)]) == [], "they have one cure"


def test_what_a_person_asked_for_holds_it_up_only_while_it_acts():
    for phase, names in ((Phase.AWAITING_APPROVAL, ["ours"]), (Phase.RUNNING, [])):
        made = run_of(ALL[RAISE], phase)
        person = made.model_copy(update={"spec": made.spec.model_copy(update={"cause": None, "requested_by": "carol"})})
        assert proposed(own(), runs=[person]) == names


def test_an_own_drain_is_done_once_and_the_shipped_one_does_not_follow():
    cordoned = replace(FOUND, id="NodeMaintenance/broker-1", type="NodeMaintenance", playbook="drain-broker")
    book = own(of="drain-broker")
    assert proposed(book, findings=[cordoned]) == ["ours"]
    assert proposed(book, findings=[cordoned], runs=[run_of(book, Phase.SUCCEEDED, cordoned)]) == []


CORDONED = replace(FOUND, id="NodeMaintenance/broker-1", type="NodeMaintenance", playbook="drain-broker")
IDLE = with_nothing_to_do(RemediationStatus(), "leads nothing", NOW).conditions


def test_after_an_own_drain_that_had_nothing_to_do_the_shipped_one_follows():
    """It names another broker, say: the node would go with its leaders on it."""
    book = own(of="drain-broker")
    idle = run_of(book, Phase.SUPERSEDED, CORDONED, conditions=IDLE)
    assert proposed(book, findings=[CORDONED], runs=[idle]) == ["drain-broker"]


def test_a_cure_of_another_kind_follows_an_own_drain():
    zombie = replace(FOUND, id="BrokerZombie/broker-1", type="BrokerZombie", playbook="restart-broker")
    raw = own(of="drain-broker").to_kubernetes()
    raw["spec"]["trigger"] = {"finding": "BrokerZombie"}
    book = Playbook.parse(raw)
    assert proposed(book, findings=[zombie], runs=[run_of(book, Phase.SUCCEEDED, zombie)]) == ["restart-broker"]


def test_a_drain_that_was_dropped_before_it_began_is_proposed_again():
    """Its playbook was changed, or the breaker was open."""
    shipped = ALL["drain-broker"]
    assert proposed(findings=[CORDONED], runs=[run_of(shipped, Phase.SUPERSEDED, CORDONED)]) == ["drain-broker"]
    idle = run_of(shipped, Phase.SUPERSEDED, CORDONED, conditions=IDLE)
    assert proposed(findings=[CORDONED], runs=[idle]) == []


def test_an_own_one_that_succeeds_and_does_not_cure_gives_way():
    """It would be repeated until the breaker stops every cure."""
    done = run_of(own(), Phase.SUCCEEDED, plan=plan())
    assert proposed(own(), runs=[done]) == [RAISE]
    long = run_of(own(), Phase.SUCCEEDED, plan=plan(partitions=MAX_INLINE_CHANGES))
    assert proposed(own(), runs=[long]) == ["ours"], "what was left over follows"


def plan(**fields):
    return Plan(digest="sha256:" + "0" * 64, proposed_at=NOW, expires_at=NOW, **fields)


def drained(**fields):
    """A drain of broker 1 that is over, and the node is back."""
    order = {"topic": "t", "partition": 0, "replicasBefore": [1, 2], "replicas": [2, 1]}
    made = plan().model_dump(by_alias=True) | {"reorders": [order], **fields}
    return run_of(ALL["drain-broker"], Phase.SUCCEEDED, CORDONED, name="d", plan=Plan.model_validate(made))


def following(book, **status):
    """A run of that way back, which ended before it began."""
    made = run_of(ALL["drain-broker"], Phase.SUPERSEDED, CORDONED, name="u", **status)
    pinned = made.spec.playbook.model_copy(update={"name": book.name, "digest": book.digest()})
    return made.model_copy(update={"spec": made.spec.model_copy(update={"playbook": pinned})})


def test_a_way_back_that_was_dropped_before_it_began_is_proposed_again():
    undrain = ALL["undrain-broker"]
    assert proposed(findings=[], runs=[drained()]) == ["undrain-broker"]
    dropped = following(undrain)
    assert proposed(findings=[], runs=[drained(), dropped]) == ["undrain-broker"]
    idle = following(undrain, conditions=IDLE)
    assert proposed(findings=[], runs=[drained(), idle]) == []


def test_after_an_own_way_back_that_had_nothing_to_do_the_shipped_one_follows():
    book = own(of="undrain-broker")
    assert proposed(book, findings=[], runs=[drained()]) == ["ours"]
    idle = following(book, conditions=IDLE)
    assert proposed(book, findings=[], runs=[drained(), idle]) == ["undrain-broker"]


def test_a_way_back_whose_playbook_is_gone_is_no_drain():
    back = [{"broker": 1, "topic": "t", "partitions": [0]}]
    assert proposed(findings=[], runs=[drained(elections=back)]) == []


def test_an_empty_selector_and_a_negative_order_are_refused():
    for trigger in ({"clusters": {}}, {"order": -1}):
        with pytest.raises(Exception, match=r"spec\.trigger"):
            own(**trigger)


def test_defaults_leave_the_digests_as_they_were():
    """A Remediation pins a digest, and neither field was there when it was made."""
    assert all({"clusters", "order"}.isdisjoint(b.spec.to_kubernetes()["trigger"]) for b in ALL.values())


def test_one_with_nothing_to_do_is_not_proposed_again_while_the_finding_lasts():
    """The diagnosis fires for leaders that are away; a Playbook that adds replicas has nothing to do about that."""
    kafka = SimKafka()
    kafka.topic("orders", *([[0, 1, 2]] * 4))
    kafka.dynamic["TOPIC", "orders", "min.insync.replicas"] = "2"
    for part in kafka.partitions.values():
        part.elect(1)
    world = World(kafka)
    quiet = [{"name": "elect-preferred-leaders", "mode": "Observe"}]
    world.install(remediation={"limits": {"cooldown": "0s"}, "playbooks": quiet})
    book = own().to_kubernetes()
    book["spec"]["trigger"] = {"finding": "LeadersImbalanced"}
    world.api.put(f"{BASE}/playbooks", book)
    world.until(lambda: any(r.status.phase is Phase.SUPERSEDED for r in world.runs()))
    for _ in range(10):
        world.step()
    (only,) = world.runs()
    (condition,) = only.status.conditions
    assert (condition.type, condition.status, condition.reason) == ("Planned", "False", "NothingToDo")
    book["spec"]["description"] = "changed"
    world.api.put(f"{BASE}/playbooks", book)
    world.until(lambda: len(world.runs()) == 2)
