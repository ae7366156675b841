"""Whether anybody would put back what is about to be changed of a topic."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_medic.cluster.owners import acting_owners
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.resources.vocabulary import Guard


def owners_paused(snapshot: Snapshot, topics: Iterable[str]) -> Reason:
    """No operator of another object acts on any of these topics: it would take their throttle away in mid-copy, and put
    their settings back."""
    guard, acting = Guard.OWNERS_PAUSED, acting_owners(snapshot)
    if acting is None:
        source = snapshot.source("topic-owners")
        why = source.error if source is not None and source.error else "no reason given"
        return Reason(guard, Verdict.UNKNOWN, f"whether topics have owners could not be read: {why}")
    found = [f"{topic} ({acting[topic].kind} {acting[topic].name})" for topic in sorted(set(topics) & acting.keys())]
    if found:
        message = (
            f"the owner of {some(found, 5)} acts and would revert what the run sets; pause the owner, or reject the run"
        )
        return Reason(guard, Verdict.DENY, message)
    return Reason(guard, Verdict.ALLOW, "no owner acts on the topics of the plan")
