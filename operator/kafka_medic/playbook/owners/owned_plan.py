"""Which topics with an owner a plan takes, and what their owners' objects have to say in the end."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kafka_medic.cluster.min_isr import MIN_ISR
from kafka_medic.cluster.owner_commands import REPLICAS, edit_command, pause_command
from kafka_medic.cluster.owners import acting_owners, owners_by_topic
from kafka_medic.cluster.snapshot import ClusterInfo, Snapshot, TopicOwner
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.owners.owned_values import value_of, why_a_person
from kafka_medic.playbook.refusal import Refusal, unread
from kafka_medic.resources.remediation_plan import (
    EditedBy,
    OwnedTopic,
    OwnedTopics,
    OwnerEdit,
    Plan,
    ReplicaMoves,
    ReplicaRemovals,
    SettingChanges,
)
from kafka_medic.resources.vocabulary import ActionName, Guard

STEPS = (ActionName.PAUSE_OWNERS, ActionName.RETURN_TO_OWNERS)
SHOWN = 20


@dataclass(frozen=True, slots=True)
class Division:
    """Topics with an owner: those that a plan may take, and those that it leaves out, with why. By topic. several: the
    objects of those that have more than one."""

    taken: Mapping[str, TopicOwner]
    left: Mapping[str, tuple[TopicOwner, str]]
    several: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def lines(self) -> Sequence[str]:
        """What a plan says of what it leaves out."""
        by_reason: dict[str, list[str]] = {}
        for topic, (owner, why) in self.left.items():
            objects = self.several.get(topic, (f"{owner.kind} {owner.name}",))
            by_reason.setdefault(why, []).append(f"{topic} ({some(objects, 3)})")
        return [f"left out, {why}: {some(named, 5)}" for why, named in by_reason.items()]


def divided(request: PlanRequest, topics: Collection[str]) -> Division | Refusal:
    """Of the topics that a plan would change. A refusal where the owners are not known, and where nothing is left."""
    owners = owners_by_topic(request.snapshot)
    if owners is None:
        return unread(request.snapshot)
    owned = {topic: owners[topic] for topic in sorted(topics) if topic in owners}
    several = _described_twice(request.snapshot)
    hands_over = all(request.step(action) is not None for action in STEPS)
    left = {
        topic: (owner, why)
        for topic, owner in owned.items()
        if (why := _why_left(owner, hands_over=hands_over, several=topic in several)) is not None
    }
    # People need time: what needs none is not held up by them.
    quick = [topic for topic in topics if topic not in left and not _needs_people(owned.get(topic))]
    if quick:
        for topic in sorted(owned.keys() - left.keys() - set(quick)):
            left[topic] = owned[topic], "for a plan of their own, because a person must pause their owners"
    if topics and len(left) == len(set(topics)):
        message = "; ".join(Division({}, left, several).lines())
        return Refusal(message, (Reason(Guard.PRECONDITIONS_HOLD, Verdict.WAIT, message),))
    taken = {topic: owner for topic, owner in owned.items() if topic not in left} if hands_over else {}
    return Division(taken, left, several)


def with_owners(request: PlanRequest, plan: Plan, division: Division) -> Plan:
    """The plan with the edits of the owners of what it changes. Without any it has no step for them."""
    topics = {*plan.part(ReplicaMoves).topics(), *plan.part(SettingChanges).topics()}
    after = _replicas_after(plan, request.snapshot)
    owned = tuple(
        _owned(owner, tuple(_edits(owner, plan, after.get(topic))))
        for topic, owner in division.taken.items()
        if topic in topics
    )
    if not owned:
        return plan.model_copy(update={"steps": tuple(s for s in plan.steps if s.action not in STEPS)})
    words = dict(zip(STEPS, _words(owned), strict=True))
    steps = tuple(s.model_copy(update={"description": words.get(s.action, s.description)}) for s in plan.steps)
    return plan.with_parts(OwnedTopics(owned_topics=owned)).model_copy(update={"steps": steps})


def owner_lines(plan: Plan, cluster: ClusterInfo) -> Sequence[str]:
    """The exact edits, for the person who approves them."""
    owned = plan.part(OwnedTopics).each()
    lines = []
    for topic in owned[:SHOWN]:
        edits = {edit.name: edit.after for edit in topic.edits}
        who = "the operator" if topic.by is EditedBy.OPERATOR else f"you, since {topic.reason}"
        pauses = f"{pause_command(cluster, topic.kind, topic.name)}; at the end "
        pauses = "it stays paused, as now; " if topic.paused else pauses
        edit = edit_command(cluster, topic.kind, topic.name, edits) if edits else "no edit"
        lines.append(f"  {topic.kind} {topic.name}, by {who}: {pauses}{edit}")
    if len(owned) > SHOWN:
        lines.append(f"  and {len(owned) - SHOWN} more in status.plan.ownedTopics")
    return lines


def unplanned_owner(plan: Plan, snapshot: Snapshot) -> str | None:
    """A topic of the plan that somebody has begun to describe since; None also where that is not known."""
    acting, planned = acting_owners(snapshot) or {}, {o.topic for o in plan.part(OwnedTopics).each()}
    topics = {*plan.part(ReplicaMoves).topics(), *plan.part(SettingChanges).topics()}
    found = [f"{acting[t].kind} {acting[t].name}" for t in sorted(topics & acting.keys() - planned)]
    return f"topics of the plan have an owner since then: {some(found, 5)}" if found else None


def _why_left(owner: TopicOwner, *, hands_over: bool, several: bool) -> str | None:
    """Why a plan leaves the topic out, whoever would edit the object; one sentence for all topics alike."""
    if owner.acts and not hands_over:
        return "because their owner would revert them, and the playbook does not pause owners"
    if several:
        return "because several objects describe the topic"
    if owner.changing:
        return "because their owner's operator is changing their replicas"
    if owner.min_isr is None and owner.min_isr_text is not None:
        return f"because {MIN_ISR} of their owner's object is not a number"
    return "because the uid of their owner's object is not known" if owner.uid is None else None


def _described_twice(snapshot: Snapshot) -> Mapping[str, Sequence[str]]:
    """By topic, the objects that would all change it: to pause one of them keeps nobody off."""
    found: dict[str, list[str]] = {}
    for owner in snapshot.owners or ():
        if owner.acts or owner.paused:
            found.setdefault(owner.topic, []).append(f"{owner.kind} {owner.name}")
    return {topic: names for topic, names in found.items() if len(names) > 1}


def _needs_people(owner: TopicOwner | None) -> bool:
    """Whether a person has something to do before the plan can run. For one that is paused already it is done."""
    return owner is not None and owner.acts and why_a_person(owner) is not None


def _owned(owner: TopicOwner, edits: tuple[OwnerEdit, ...]) -> OwnedTopic:
    why = why_a_person(owner)
    return OwnedTopic(
        topic=owner.topic,
        kind=owner.kind,
        name=owner.name,
        uid=owner.uid or "",
        by=EditedBy.OPERATOR if why is None else EditedBy.PERSON,
        # Whoever has paused one for this plan by hand takes the pause off as well.
        paused=owner.paused and why is None,
        reason=why or "",
        edits=edits,
    )


def _edits(owner: TopicOwner, plan: Plan, replicas: int | None) -> Iterator[OwnerEdit]:
    if replicas is not None and owner.factor is not None and owner.factor < replicas:
        yield OwnerEdit(name=REPLICAS, before=str(owner.factor), after=str(replicas))
    for change in plan.part(SettingChanges).config_changes:
        before = value_of(owner, change.name)
        if change.name == MIN_ISR and owner.min_isr is not None and owner.min_isr >= int(change.after or 0):
            continue  # it asks for as much, or for more
        if change.resource_name == owner.topic and change.after is not None and before != change.after:
            yield OwnerEdit(name=change.name, before=before, after=change.after)


def _replicas_after(plan: Plan, snapshot: Snapshot) -> Mapping[str, int]:
    """By topic, how many replicas each of its partitions has after the plan; nothing where they differ."""
    planned = {(c.topic, c.partition): len(c.replicas) for c in plan.part(ReplicaMoves).changes}
    planned |= {(c.topic, c.partition): len(c.replicas) for c in plan.part(ReplicaRemovals).each()}
    counts: dict[str, set[int]] = {}
    for row in snapshot.rows():
        counts.setdefault(row.topic, set()).add(planned.get((row.topic, row.partition), len(row.replicas or ())))
    return {topic: found.pop() for topic, found in counts.items() if len(found) == 1}


def _words(owned: Sequence[OwnedTopic]) -> tuple[str, str]:
    pausing = [f"{o.kind} {o.name}" for o in owned if not o.paused]
    edited = [f"{o.kind} {o.name}" for o in owned if o.edits]
    paused = (
        f"pause {some(pausing, 5)}, so that their operator leaves them alone"
        if pausing
        else "every owner is paused already"
    )
    edits = f"edit {some(edited, 5)}" if edited else "no owner needs an edit"
    resumes = f", then resume {some(pausing, 5)}" if pausing else ""
    return paused[:1024], f"{edits}{resumes}, and check that nothing is reverted"[:1024]
