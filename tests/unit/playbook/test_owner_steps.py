"""PauseOwners and ReturnToOwners: what is due by what an owner says and what the journal holds."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kafka_medic.cluster.owners import OwnerObject
from kafka_medic.cluster.snapshot import OwnerState, Snapshot, TopicOwner
from kafka_medic.playbook.effects import EditObjects, PauseObjects, ResumeObjects
from kafka_medic.playbook.owners import pause_step, return_step
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.resources.remediation_plan import OwnedTopics, Plan
from kafka_medic.resources.remediation_status import IntentState, JournalEntry, SavedValue
from tests.unit.cluster import worlds

NOW = worlds.NOW
EDITS = [
    {"name": "replicas", "before": "1", "after": "3"},
    {"name": "min.insync.replicas", "before": "1", "after": "2"},
]
OBJECT = OwnerObject("KafkaTopic", "orders", "u")
SAYS = TopicOwner("orders", "KafkaTopic", "orders", acts=True, factor=1, min_isr=1, uid="u", state=OwnerState.READY)
PAUSED = replace(SAYS, acts=False, paused=True, state=OwnerState.PAUSED)
EDITED = {"factor": 3, "min_isr": 2}


def plan(by: str = "Operator", *, paused: bool = False) -> Plan:
    owned = {"topic": "orders", "kind": "KafkaTopic", "name": "orders", "uid": "u", "by": by, "paused": paused}
    part = OwnedTopics.model_validate({"ownedTopics": [owned | {"edits": EDITS}]})
    header = {"digest": "sha256:" + "0" * 64, "proposedAt": NOW, "expiresAt": NOW}
    return Plan.model_validate(header, by_alias=True, by_name=False).with_parts(part)


def seen(owner: TopicOwner | None, *, replicas: int = 3, least: str | None = "2") -> Snapshot:
    rows = [worlds.partition("orders", 0, tuple(range(1, replicas + 1)))]
    settings = [("TOPIC", "orders", "min.insync.replicas", least, True)] if least else []
    return worlds.healthy(rows=rows, owners=() if owner is None else (owner,), configs=worlds.configs(*settings))


def entry(id_: str, state: IntentState = IntentState.DONE, *, ago: float = 600.0, **how: Any) -> JournalEntry:
    kinds = {"pause": PauseObjects, "edit": EditObjects, "resume": ResumeObjects}
    saved = (SavedValue(name="OWNER/KafkaTopic/orders/pause"),) if id_ == "p/pause" else ()
    kind = kinds[id_.partition("/")[2]].__name__
    at = NOW - timedelta(seconds=ago)
    return JournalEntry(id=id_, step=id_[0], kind=kind, target="x", state=state, intended_at=at, saved=saved, **how)


def journal(*entries: JournalEntry) -> dict[str, JournalEntry]:
    return {e.id: e for e in entries}


def pause(owner: TopicOwner | None, *entries: JournalEntry, of: Plan | None = None) -> StepReport:
    return pause_step.assess("p", of or plan(), journal(*entries), seen(owner, replicas=1, least="1"))


def given_back(owner: TopicOwner | None, *entries: JournalEntry, of: Plan | None = None) -> StepReport:
    return return_step.assess("r", of or plan(), journal(entry("p/pause"), *entries), seen(owner))


def undone(owner: TopicOwner, *entries: JournalEntry, **kafka: Any) -> StepReport:
    """The first part of the clean end that is not there yet, or the last one."""
    reports = list(pause_step.undo("p", plan(), journal(*entries), seen(owner, **kafka)))
    return next((r for r in reports if r.state is not StepState.REACHED), reports[-1])


def test_a_pause_is_set_once_and_waited_for_until_it_was_heard():
    first = pause(SAYS)
    assert first.intent == PauseObjects("p/pause", (OBJECT,))
    assert first.saved == {"OWNER/KafkaTopic/orders/pause": None}
    again = pause(SAYS, entry("p/pause", IntentState.INTENDED))
    assert again.intent == first.intent, "it was not seen, so that it is asked for again"
    unheard = pause(replace(PAUSED, state=OwnerState.READY), entry("p/pause", IntentState.INTENDED))
    assert (unheard.state, unheard.observed) == (StepState.WAIT, ("p/pause",))
    assert pause(PAUSED, entry("p/pause")).state is StepState.REACHED
    taken_off = pause(SAYS, entry("p/pause"))
    assert taken_off.state is StepState.WAIT
    assert "another client has resumed" in (taken_off.stuck or "")


@pytest.mark.parametrize("owner", [None, replace(SAYS, uid="another"), replace(SAYS, topic="another")])
def test_an_object_that_is_not_the_one_of_the_plan_is_drift(owner):
    assert pause(owner).state is StepState.DRIFTED
    assert given_back(owner).state is StepState.DRIFTED


@pytest.mark.parametrize(
    ("of", "owner"),
    [
        (plan("Person"), SAYS),
        (plan(), replace(SAYS, hindrance="no right")),
        (plan(), replace(SAYS, kept_by="Flux")),
    ],
)
def test_what_a_person_has_to_pause_is_waited_for_and_never_sent(of, owner):
    report = pause(owner, of=of)
    assert report.state is StepState.WAIT
    assert "kubectl annotate kafkatopic orders -n kafka strimzi.io/pause-reconciliation=true" in report.message


def test_an_object_is_edited_then_resumed_then_waited_for():
    first = given_back(PAUSED)
    assert first.intent == EditObjects("r/edit", {OBJECT: {"replicas": ("1", "3"), "min.insync.replicas": ("1", "2")}})
    edited = replace(PAUSED, **EDITED)
    then = given_back(edited, entry("r/edit", IntentState.INTENDED))
    assert (then.intent, then.observed) == (ResumeObjects("r/resume", (OBJECT,)), ("r/edit",))
    off = replace(SAYS, **EDITED, state=OwnerState.PAUSED)
    assert given_back(off, entry("r/edit"), entry("r/resume", IntentState.INTENDED)).state is StepState.WAIT
    not_ready = replace(off, state=OwnerState.NOT_READY, message="NotSupported: no")
    told = given_back(not_ready, entry("r/edit"), entry("r/resume"))
    assert (told.state, told.message) == (StepState.WAIT, "KafkaTopic orders is not Ready: NotSupported: no")
    well = given_back(replace(off, state=OwnerState.READY), entry("r/edit"), entry("r/resume"))
    assert (well.state, set(well.observed)) == (StepState.REACHED, {"r/edit", "r/resume"})


def test_only_what_is_still_as_the_plan_saw_it_is_edited():
    report = given_back(replace(PAUSED, factor=5))
    assert report.intent == EditObjects("r/edit", {OBJECT: {"min.insync.replicas": ("1", "2")}})


def test_an_edit_that_is_put_back_before_the_pause_is_off_is_for_a_person():
    report = given_back(PAUSED, entry("r/edit"))
    assert report.state is StepState.WAIT
    assert "another client has reverted KafkaTopic orders" in (report.stuck or "")


def test_one_that_a_person_had_paused_is_edited_and_stays_paused():
    of = plan(paused=True)
    assert isinstance(given_back(PAUSED, of=of).intent, EditObjects)
    assert given_back(replace(PAUSED, **EDITED), of=of).state is StepState.REACHED


def test_what_a_person_has_to_do_in_the_end_is_told_one_after_the_other():
    of = plan("Person")
    assert "kubectl patch kafkatopic orders -n kafka" in given_back(PAUSED, of=of).message
    told = given_back(replace(PAUSED, **EDITED), of=of)
    assert "kubectl annotate kafkatopic orders -n kafka strimzi.io/pause-reconciliation-" in told.message


def test_what_an_object_does_not_say_any_more_is_no_success():
    assert return_step.undone(plan(), seen(replace(SAYS, **EDITED))) is None
    assert (
        return_step.undone(plan(), seen(replace(SAYS, factor=3))) == "KafkaTopic orders has min.insync.replicas 1 again"
    )


def test_a_run_that_is_given_up_gives_what_was_reached_before_the_pause_goes():
    set_, reached = entry("p/pause"), undone(PAUSED, entry("p/pause"), least="1")
    assert reached.intent == EditObjects("p/edit", {OBJECT: {"replicas": ("1", "3")}})
    assert reached.restores
    nothing = undone(PAUSED, set_, replicas=1, least="1")
    assert nothing.intent == ResumeObjects("p/resume", (OBJECT,))
    half = undone(PAUSED, set_, replicas=2, least="1")
    assert isinstance(half.intent, ResumeObjects), "an owner never says more than is so"
    unread = replace(seen(PAUSED), sources=worlds.sources(configs="timed out"), configs=None)
    (waits,) = pause_step.undo("p", plan(), journal(set_), unread)
    assert (waits.state, waits.restores) == (StepState.UNKNOWN, True), "its owner may say less than is so"
    assert waits.message == "owners are not yet resumed: min.insync.replicas of orders could not be read"
    (by_hand,) = pause_step.undo("p", plan("Person"), {}, unread)
    assert by_hand.state is StepState.UNKNOWN, "nor is a person told to resume it"
    over = undone(SAYS, set_, entry("p/resume", IntentState.INTENDED), replicas=1, least="1")
    assert (over.state, over.observed) == (StepState.REACHED, ("p/resume",))


def two(*, by: str = "Operator") -> Plan:
    """The plan with a second topic, payments."""
    first = plan(by).part(OwnedTopics).each()[0]
    second = first.model_copy(update={"topic": "payments", "name": "payments", "uid": "v"})
    return plan(by).with_parts(OwnedTopics(owned_topics=(first, second)))


def both(orders: TopicOwner, payments: TopicOwner) -> Snapshot:
    payments = replace(payments, topic="payments", name="payments", uid="v")
    return replace(seen(orders), owners=(orders, payments))


def of_two(id_: str, state: IntentState = IntentState.DONE, *, ago: float = 600.0) -> JournalEntry:
    names = ("OWNER/KafkaTopic/orders/pause", "OWNER/KafkaTopic/payments/pause")
    saved = tuple(map(SavedValue.model_validate, ({"name": name} for name in names))) if id_ == "p/pause" else ()
    return entry(id_, state, ago=ago).model_copy(update={"saved": saved})


def test_a_pause_of_ours_is_owed_while_a_person_is_waited_for_beside_one_that_was_resumed():
    off, held = replace(SAYS, **EDITED), replace(PAUSED, kept_by="Argo CD")
    sent = (of_two("p/pause"), entry("r/edit"), entry("r/resume", IntentState.INTENDED))
    report = return_step.assess("r", two(), journal(*sent), both(off, held))
    assert report.state is StepState.WAIT
    assert "r/resume" not in report.observed, "payments is still paused"
    edited = replace(held, **EDITED)
    report = return_step.assess("r", two(), journal(*sent), both(off, edited))
    assert report.intent == ResumeObjects("r/resume", (OwnerObject("KafkaTopic", "payments", "v"),))


def test_a_pause_of_a_persons_is_waited_for_beside_one_of_ours_that_is_off():
    ours, theirs = two().part(OwnedTopics).each()
    theirs = theirs.model_copy(update={"by": "Person", "reason": "Flux puts it back"})
    mixed = plan().with_parts(OwnedTopics(owned_topics=(ours, theirs)))
    sent = (of_two("p/pause"), entry("r/edit"), entry("r/resume"))
    owners = both(replace(SAYS, **EDITED), replace(PAUSED, **EDITED, kept_by="Flux"))
    report = return_step.assess("r", mixed, journal(*sent), owners)
    assert report.state is StepState.WAIT
    assert "kubectl annotate kafkatopic payments -n kafka strimzi.io/pause-reconciliation-" in report.message


def test_a_pause_of_ours_that_may_not_be_taken_off_is_waited_for():
    off, held = replace(SAYS, **EDITED), replace(PAUSED, **EDITED, hindrance="no right")
    sent = (of_two("p/pause"), entry("r/edit"), entry("r/resume", IntentState.INTENDED))
    report = return_step.assess("r", two(), journal(*sent), both(off, held))
    assert (report.state, "r/resume" in report.observed) == (StepState.WAIT, False)
    assert "kubectl annotate kafkatopic payments -n kafka strimzi.io/pause-reconciliation-" in report.message


def test_the_first_try_saves_every_pause_that_a_later_one_may_set():
    unmanaged = replace(SAYS, acts=False)
    report = pause_step.assess("p", two(), {}, both(SAYS, unmanaged))
    assert report.intent == PauseObjects("p/pause", (OBJECT,))
    assert set(report.saved) == {"OWNER/KafkaTopic/orders/pause", "OWNER/KafkaTopic/payments/pause"}


def test_a_pause_that_a_person_set_before_the_first_of_ours_is_theirs():
    report = pause_step.assess("p", two(), {}, both(SAYS, PAUSED))
    assert (report.state, report.intent) == (StepState.DRIFTED, None)
    assert "KafkaTopic payments was paused by another client since the plan" in report.message
    tried = of_two("p/pause", IntentState.INTENDED)
    assert pause_step.assess("p", two(), journal(tried), both(SAYS, PAUSED)).intent == PauseObjects(
        "p/pause", (OBJECT,)
    )


def test_a_pause_that_may_still_come_is_waited_for_beside_one_that_is_off():
    sent = of_two("p/pause", IntentState.INTENDED, ago=5.0)
    off = entry("p/resume", IntentState.INTENDED, ago=1.0)
    reports = list(pause_step.undo("p", two(), journal(sent, off), both(SAYS, SAYS)))
    assert reports[-1].state is StepState.WAIT, "the pause of payments may be on its way"


def test_a_pause_of_ours_goes_from_the_very_object_though_it_names_another_topic_by_now():
    report = undone(replace(PAUSED, topic="another"), entry("p/pause"))
    assert report.intent == ResumeObjects("p/resume", (OBJECT,))


def test_a_pause_of_ours_whose_object_is_not_seen_any_more_is_told():
    (*_, last) = pause_step.undo("p", plan(), journal(entry("p/pause")), seen(None))
    assert last.state is StepState.REACHED
    assert "kubectl annotate kafkatopic orders -n kafka strimzi.io/pause-reconciliation-" in last.message


def test_a_pause_that_may_still_come_is_waited_for():
    sent = entry("p/pause", IntentState.INTENDED, ago=5.0)
    assert undone(SAYS, sent).state is StepState.WAIT
    assert undone(SAYS, entry("p/pause", IntentState.INTENDED)).state is StepState.REACHED


def test_a_pause_that_may_not_be_taken_off_any_more_is_told_with_the_command():
    report = undone(replace(PAUSED, hindrance="no right"), entry("p/pause"))
    assert report.state is StepState.UNKNOWN
    assert "kubectl annotate kafkatopic orders -n kafka strimzi.io/pause-reconciliation-" in report.message


@pytest.mark.parametrize(
    ("entries", "owed"),
    [
        ((), False),
        ((entry("p/pause", IntentState.INTENDED),), True),
        ((entry("p/pause"),), True),
        ((entry("p/pause"), entry("r/resume", IntentState.INTENDED)), True),
        ((entry("p/pause"), entry("r/resume")), False),
    ],
)
def test_a_pause_is_owed_from_its_intent_until_it_was_seen_to_be_off(entries, owed):
    assert pause_step.owed(entries) is owed


def test_owners_that_cannot_be_read_are_unknown():
    state = worlds.healthy(owners=None, sources=worlds.sources(**{"topic-owners": "403"}))
    assert pause_step.assess("p", plan(), {}, state).state is StepState.UNKNOWN
    assert return_step.assess("r", plan(), {}, state).state is StepState.UNKNOWN
    (report,) = pause_step.undo("p", plan(), journal(entry("p/pause")), state)
    assert report.state is StepState.UNKNOWN
