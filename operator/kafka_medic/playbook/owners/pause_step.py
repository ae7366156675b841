"""PauseOwners: the operators of the objects that describe the plan's topics are kept off them.

The pause is the run's to take back from the moment at which its intent was written down, and until it was seen to be
off. However the run ends, that is done last, when throttles are as they were before.

The Topic Operator reads an object again before it acts on it, and says in its status that it found the pause
(BatchingTopicController.updateInternal). What it has begun by then is over when it says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kafka_medic.cluster.owner_commands import edit_command, pause_command, resume_command
from kafka_medic.cluster.owners import acting_owners, owner_object
from kafka_medic.cluster.snapshot import ClusterInfo, OwnerState, Snapshot, TopicOwner
from kafka_medic.guard.evaluate import some
from kafka_medic.playbook.effects import EditObjects, PauseObjects, ResumeObjects
from kafka_medic.playbook.holding import on_its_way
from kafka_medic.playbook.owners.changes import named
from kafka_medic.playbook.owners.owned_values import as_object, by_hand, due, is_so, objects, of_left, why_a_person
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.report.units import many
from kafka_medic.resources.remediation_plan import EditedBy, OwnedTopic, OwnedTopics, Plan
from kafka_medic.resources.remediation_status import IntentState, JournalEntry, Progress

PAUSE, EDIT, RESUME = "pause", "edit", "resume"
"""How the ids of the journal's entries end."""
UNREAD = "the owners of topics could not be read"


def saved_name(owned: OwnedTopic) -> str:
    """The journal's name for the pause of that object."""
    return f"OWNER/{owned.kind}/{owned.name}/pause"


def ours(plan: Plan) -> tuple[OwnedTopic, ...]:
    """Those that the run itself pauses."""
    return tuple(o for o in plan.part(OwnedTopics).each() if o.by is EditedBy.OPERATOR and not o.paused)


def owed(journal: Iterable[JournalEntry]) -> bool:
    """Whether an owner may be paused by us."""
    entries = list(journal)
    resumed = any(e.kind == ResumeObjects.__name__ and e.state is IntentState.DONE for e in entries)
    return not resumed and any(e.kind == PauseObjects.__name__ for e in entries)


def drift(plan: Plan, snapshot: Snapshot) -> str | None:
    """What is not as the plan saw it; None also where it is not known."""
    if acting_owners(snapshot) is None:
        return None
    mine = ours(plan)
    for owned, now in of_left(plan, snapshot):
        if now is None:
            return f"{named(owned)} was deleted or replaced since the plan"
        if other := [e.name for e in owned.edits if e not in due(owned, now)]:
            return f"{named(owned)} has changed {some(other)} since the plan"
        if owned.paused and now.acts:
            return f"{named(owned)} is no longer paused"
        if owned in mine and now.paused:
            return _theirs(owned)
        if (owned.by is EditedBy.PERSON) is (why_a_person(now) is None):
            return f"the right to edit {named(owned)} has changed"
    return None


def _theirs(owned: OwnedTopic) -> str:
    return f"{named(owned)} was paused by another client since the plan; the operator does not resume it"


def to_pause_by_hand(plan: Plan, snapshot: Snapshot) -> str | None:
    """What a person has to do before the run can begin; None where nothing is left to do."""
    found, cluster = of_left(plan, snapshot), snapshot.cluster
    commands = [_pause_it(cluster, o, now) for o, now in found if now and now.acts and by_hand(o, now)]
    return f"waits for you to pause the owners of topics: {'; '.join(commands[:5])}" if commands else None


def assess(step: str, plan: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> StepReport:
    """Reached once every owner is paused and its operator has said so."""
    found, id_ = list(of_left(plan, snapshot)), f"{step}/{PAUSE}"
    if acting_owners(snapshot) is None:
        return StepReport(StepState.UNKNOWN, UNREAD)
    if lost := [named(owned) for owned, now in found if now is None]:
        return StepReport(StepState.DRIFTED, f"{some(lost, 5)} was deleted or replaced")
    there = [(owned, now) for owned, now in found if now is not None]
    mine, entry = ours(plan), journal.get(id_)
    if entry is None and (theirs := next((owned for owned, now in there if owned in mine and now.paused), None)):
        return StepReport(StepState.DRIFTED, _theirs(theirs))
    acting = [(owned, now) for owned, now in there if now.acts]
    progress = Progress(done=len(there) - len(acting), total=len(there), unit="topics")
    to_do = [owned for owned, now in acting if owned in mine and not by_hand(owned, now)]
    seen = (id_,) if entry is not None and not to_do else ()
    if to_do and entry is not None and entry.state is IntentState.DONE:
        message = taken_off(snapshot.cluster, to_do)
        return StepReport(StepState.WAIT, message, stuck=message, progress=progress)
    if to_do:
        return StepReport(
            StepState.ACT,
            f"pausing the owners of {many(len(to_do), 'topic')}",
            intent=PauseObjects(id_, tuple(map(as_object, to_do))),
            target=some([named(o) for o in to_do], 5),
            # All that it may ever pause: a later try keeps the first one's entry.
            saved=dict.fromkeys(saved_name(o) for o, now in there if o in mine and not by_hand(o, now)),
            progress=progress,
        )
    if commands := [_pause_it(snapshot.cluster, owned, now) for owned, now in acting]:
        message = f"waits for you to pause the owners of topics: {'; '.join(commands[:5])}"
        return StepReport(StepState.WAIT, message, observed=seen, progress=progress)
    if unheard := [named(owned) for owned, now in there if now.paused and now.state is not OwnerState.PAUSED]:
        message = f"its operator has not yet confirmed the pause of {some(unheard, 5)}"
        return StepReport(StepState.WAIT, message, observed=seen, progress=progress)
    message = f"the owners of {many(len(there), 'topic')} are paused"
    return StepReport(StepState.REACHED, message, observed=seen, progress=progress)


def taken_off(cluster: ClusterInfo, owned: Sequence[OwnedTopic]) -> str:
    """Of a pause that somebody has taken off in the middle."""
    commands = "; ".join(pause_command(cluster, o.kind, o.name) for o in owned[:5])
    return (
        f"another client has resumed {some([named(o) for o in owned], 5)}: pause it again ({commands}), or "
        "reject the run"
    )


def undo(step: str, plan: Plan, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> Iterator[StepReport]:
    """The clean end of a run that is given up. An owner that says less than is so would have the new replicas removed
    where Cruise Control works for it, so its object is first given what has been reached. No owner is resumed, and no
    person is told to do it, while that is not known."""
    paused = journal.get(f"{step}/{PAUSE}")
    if unsure := _not_known(plan, snapshot):
        yield StepReport(StepState.UNKNOWN, f"owners are not yet resumed: {unsure} could not be read", restores=True)
        return
    to_people = _left_to_people(plan, snapshot)
    if paused is None or not owed(journal.values()):
        yield StepReport(StepState.REACHED, to_people)
        return
    if acting_owners(snapshot) is None:
        yield StepReport(StepState.UNKNOWN, f"owners are not yet resumed: {UNREAD}", restores=True)
        return
    mine = [(o, _very_object(o, snapshot)) for o in plan.part(OwnedTopics).each() if _set_by(paused, o)]
    there = [(o, now) for o, now in mine if now is not None and now.paused]
    yield _edited(f"{step}/{EDIT}", there, journal, snapshot)
    unseen = [f"{named(o)} is no longer seen" + _if_paused(snapshot.cluster, o) for o, now in mine if now is None]
    left = "; ".join(filter(None, (to_people, *unseen[:5])))
    yield _resumed(f"{step}/{RESUME}", there, paused, journal, snapshot, left)


def _edited(
    id_: str,
    there: Sequence[tuple[OwnedTopic, TopicOwner]],
    journal: Mapping[str, JournalEntry],
    snapshot: Snapshot,
) -> StepReport:
    able = [(o, now) for o, now in there if not by_hand(o, now) and now.topic == o.topic]
    reached = {o: tuple(e for e in due(o, now) if is_so(o, e, snapshot)) for o, now in able}
    edits = {as_object(o): {e.name: (e.before, e.after) for e in found} for o, found in reached.items() if found}
    sent = journal.get(id_)
    if not edits or (sent is not None and sent.state is IntentState.DONE):
        return StepReport(StepState.REACHED, "", observed=(id_,) if sent is not None else ())
    return StepReport(
        StepState.ACT,
        "updating the owners of topics",
        intent=EditObjects(id_, edits),
        target=some([str(each) for each in edits], 5),
        restores=True,
    )


def _resumed(
    id_: str,
    there: Sequence[tuple[OwnedTopic, TopicOwner]],
    paused: JournalEntry,
    journal: Mapping[str, JournalEntry],
    snapshot: Snapshot,
    to_people: str,
) -> StepReport:
    if able := [o for o, now in there if now.hindrance is None]:
        return StepReport(
            StepState.ACT,
            "resuming the owners of topics",
            intent=ResumeObjects(id_, tuple(map(as_object, able))),
            target=some([named(o) for o in able], 5),
            restores=True,
        )
    if there:
        commands = "; ".join(resume_command(snapshot.cluster, o.kind, o.name) for o, _ in there[:5])
        message = f"the operator may no longer resume the owner ({there[0][1].hindrance}): {commands}"
        return StepReport(StepState.UNKNOWN, message, restores=True)
    off = journal.get(id_)
    if on_its_way(paused, snapshot):
        return StepReport(StepState.WAIT, "the pause of the owners may still arrive", restores=True)
    return StepReport(StepState.REACHED, to_people, observed=() if off is None else (id_,))


def _very_object(owned: OwnedTopic, snapshot: Snapshot) -> TopicOwner | None:
    """What was paused is by its uid, also where it names another topic by now."""
    now = owner_object(snapshot, owned.kind, owned.name)
    return now if now is not None and now.uid == owned.uid else None


def _if_paused(cluster: ClusterInfo, owned: OwnedTopic) -> str:
    return f"; if it is there and paused: {resume_command(cluster, owned.kind, owned.name)}"


def _set_by(paused: JournalEntry, owned: OwnedTopic) -> bool:
    return saved_name(owned) in paused.saved_values()


def _pause_it(cluster: ClusterInfo, owned: OwnedTopic, now: TopicOwner) -> str:
    why = why_a_person(now) or owned.reason
    return pause_command(cluster, owned.kind, owned.name) + (f" ({why})" if why else "")


def _not_known(plan: Plan, snapshot: Snapshot) -> str:
    """What of Kafka has to be read before a paused owner can be given what is so; empty for nothing."""
    found = [(o, now) for o in plan.part(OwnedTopics).each() if (now := _very_object(o, snapshot)) and now.paused]
    unread = [f"{e.name} of {o.topic}" for o, now in found for e in due(o, now) if is_so(o, e, snapshot) is None]
    return some(unread, 5) if unread else ""


def _left_to_people(plan: Plan, snapshot: Snapshot) -> str:
    """What people who have paused owners for the run have to do now."""
    todo = []
    for owned, now in objects(plan, snapshot):
        if owned.by is EditedBy.PERSON and now is not None and now.paused:
            found = {e.name: e.after for e in due(owned, now) if is_so(owned, e, snapshot)}
            todo += [edit_command(snapshot.cluster, owned.kind, owned.name, found)] if found else []
            todo.append(resume_command(snapshot.cluster, owned.kind, owned.name))
    return f"still paused by you: {'; '.join(todo[:10])}" if todo else ""
