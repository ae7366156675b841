"""ReturnToOwners: each object is given what is so by now, then its operator gets the topic back.

The edit is seen in the object before the pause goes, so that the operator never reads an object that says less than is
so. Afterwards its operator has to say that it is content, and Kafka has to be as before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from kafka_medic.cluster.owner_commands import edit_command, resume_command
from kafka_medic.cluster.owners import acting_owners
from kafka_medic.cluster.snapshot import ClusterInfo, OwnerState, Snapshot, TopicOwner
from kafka_medic.guard.evaluate import some
from kafka_medic.playbook.effects import EditObjects, ResumeObjects
from kafka_medic.playbook.owners.changes import named
from kafka_medic.playbook.owners.owned_values import as_object, by_hand, due, objects, of_left, value_of, why_a_person
from kafka_medic.playbook.owners.pause_step import EDIT, RESUME, UNREAD, ours
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.report.units import many
from kafka_medic.resources.remediation_plan import OwnedTopic, Plan
from kafka_medic.resources.remediation_status import IntentState, JournalEntry, Progress

Pairs = Sequence[tuple[OwnedTopic, TopicOwner]]


def assess(step: str, plan: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> StepReport:
    """Reached once every object says what the plan made of its topic, and its operator is content with that."""
    if acting_owners(snapshot) is None:
        return StepReport(StepState.UNKNOWN, f"the topics are not yet returned: {UNREAD}", restores=True)
    left = {owned.topic for owned, _ in of_left(plan, snapshot)}
    found = list(objects(plan, snapshot))
    if lost := [named(owned) for owned, now in found if now is None and owned.topic in left]:
        return StepReport(StepState.DRIFTED, f"{some(lost, 5)} was deleted or replaced")
    there = [(owned, now) for owned, now in found if now is not None]
    # The owner of a topic that is deleted gets its object back, and whatever it makes of it is its own.
    waited_for = [(owned, now) for owned, now in there if owned.topic in left or now.paused]
    over = journal.get(f"{step}/{RESUME}")
    if over is not None and (over.state is IntentState.DONE or not _held(plan, there)):
        # What is edited or paused from now on is so by somebody else's word.
        return _content(step, snapshot.cluster, waited_for, journal, frozenset(ours(plan)))
    due_now = _edit(f"{step}/{EDIT}", snapshot.cluster, there, journal) or _resume(step, plan, there, journal)
    return due_now or _content(step, snapshot.cluster, waited_for, journal)


def undone(plan: Plan, snapshot: Snapshot) -> str | None:
    """Of a plan that is carried out: what an object does not say any more."""
    for owned, now in objects(plan, snapshot):
        if now is not None and (back := due(owned, now)):
            return f"{named(owned)} has {back[0].name} {value_of(now, back[0].name) or 'unset'} again"
    return None


def _held(plan: Plan, there: Pairs) -> Pairs:
    """Those that the run has paused, and that still are."""
    mine = ours(plan)
    return [(owned, now) for owned, now in there if owned in mine and now.paused]


def _edit(id_: str, cluster: ClusterInfo, there: Pairs, journal: Mapping[str, JournalEntry]) -> StepReport | None:
    """What the operator itself edits; None where nothing is left."""
    left = {o: due(o, now) for o, now in there if not by_hand(o, now) and due(o, now)}
    sent = journal.get(id_)
    if not left:
        return None
    if sent is not None and sent.state is IntentState.DONE:
        edits = "; ".join(_edits(cluster, left))
        message = f"another client has reverted {some([named(o) for o in left], 5)}: {edits}"
        return StepReport(StepState.WAIT, message, stuck=message, restores=True)
    return StepReport(
        StepState.ACT,
        f"updating the owners of {many(len(left), 'topic')}",
        intent=EditObjects(id_, {as_object(o): {e.name: (e.before, e.after) for e in es} for o, es in left.items()}),
        target=some([named(o) for o in left], 5),
        restores=True,
        progress=_progress(there, len(left)),
    )


def _resume(step: str, plan: Plan, there: Pairs, journal: Mapping[str, JournalEntry]) -> StepReport | None:
    id_ = f"{step}/{RESUME}"
    left = [o for o, now in _held(plan, there) if now.hindrance is None and not due(o, now)]
    if not left:
        return None
    return StepReport(
        StepState.ACT,
        f"resuming the owners of {many(len(left), 'topic')}",
        intent=ResumeObjects(id_, tuple(map(as_object, left))),
        target=some([named(o) for o in left], 5),
        observed=_seen(step, journal, EDIT),
        restores=True,
        progress=_progress(there, len(left)),
    )


def _content(
    step: str,
    cluster: ClusterInfo,
    there: Pairs,
    journal: Mapping[str, JournalEntry],
    resumed: Collection[OwnedTopic] | None = None,
) -> StepReport:
    """resumed: those whose pause was seen to be off; None while one that the run has paused still is."""
    seen = (*_seen(step, journal, EDIT), *(() if resumed is None else _seen(step, journal, RESUME)))
    off = resumed or ()
    waits = [wait for owned, now in there if (wait := _lacks(cluster, owned, now, resumed=owned in off))]
    progress = _progress(there, len(waits))
    if waits:
        message = "; ".join(waits[:5])
        return StepReport(StepState.WAIT, message, observed=seen, restores=True, progress=progress)
    message = f"the owners of {many(len(there), 'topic')} are updated and resumed"
    return StepReport(StepState.REACHED, message, observed=seen, progress=progress)


def _lacks(cluster: ClusterInfo, owned: OwnedTopic, now: TopicOwner, *, resumed: bool) -> str | None:
    """What is still to come for one object."""
    if (left := due(owned, now)) and by_hand(owned, now):
        command = edit_command(cluster, owned.kind, owned.name, {e.name: e.after for e in left})
        return f"waits for you{_because(owned, now)}: {command}"
    if now.paused and not owned.paused and not resumed:
        return f"waits for you{_because(owned, now)}: {resume_command(cluster, owned.kind, owned.name)}"
    if now.paused or not now.acts or now.state is OwnerState.READY:
        return None
    if now.state is OwnerState.NOT_READY:
        return f"{named(owned)} is not Ready: {now.message or 'no reason given'}"
    return f"the operator of {named(owned)} has not reconciled it yet"


def _because(owned: OwnedTopic, now: TopicOwner) -> str:
    why = why_a_person(now) or owned.reason
    return f" ({why})" if why else ""


def _seen(step: str, journal: Mapping[str, JournalEntry], which: str) -> tuple[str, ...]:
    id_ = f"{step}/{which}"
    return (id_,) if id_ in journal else ()


def _edits(cluster: ClusterInfo, left: Mapping[OwnedTopic, Sequence[object]]) -> Iterator[str]:
    for owned in list(left)[:5]:
        yield edit_command(cluster, owned.kind, owned.name, {e.name: e.after for e in owned.edits})


def _progress(there: Pairs, left: int) -> Progress:
    return Progress(done=len(there) - left, total=len(there), unit="topics")
