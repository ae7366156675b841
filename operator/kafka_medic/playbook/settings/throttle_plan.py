"""The plan of a playbook that removes replication throttles which outlived their reassignment."""

from __future__ import annotations

from kafka_medic.cluster.elements import unread_settings
from kafka_medic.diagnose.moves import throttles
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.refusal import Refusal, unread
from kafka_medic.playbook.settings.settings_plan import settings_plan
from kafka_medic.resources.remediation_plan import (
    MAX_INLINE_CHANGES,
    ConfigChange,
    ConfigResourceType,
    Plan,
)
from kafka_medic.resources.vocabulary import Guard

MAX_VALUE = 1024
"""Characters of a value that a plan holds: what is removed has to be seen whole by whoever approves it."""


def throttle_plan(request: PlanRequest) -> Plan | Refusal:
    """The whole plan, its digest included, or why not. Never while anything is being reassigned: a throttle may be that
    reassignment's."""
    snapshot = request.snapshot
    found = throttles(snapshot)
    if found is None or snapshot.partitions is None:
        return unread(snapshot)
    moving = [row.reassigning for row in snapshot.rows()]
    if None in moving:
        return Refusal("whether anything is being reassigned could not be read")
    if any(moving):
        return Refusal(f"{sum(map(bool, moving))} partitions are being reassigned: the throttles may be for them")
    untold = [f"{name}: {why}" for name, why in unread_settings(snapshot).items()]
    if not found and untold:
        message = f"whether a replication throttle is set is not known of {some(untold, 3)}"
        return Refusal(message, (Reason(Guard.SOURCES_FRESH, Verdict.UNKNOWN, message),))
    if not found:
        return Refusal("no replication throttle is set", nothing_to_do=True)
    changes = tuple(
        ConfigChange(
            resource_type=ConfigResourceType(row["resourceType"]),
            resource_name=row["resource"],
            name=row["name"],
            before=row["value"],
        )
        for row in sorted(found, key=lambda r: (r["resourceType"], r["resource"], r["name"]))
        if len(row["value"]) <= MAX_VALUE
    )
    here = changes[:MAX_INLINE_CHANGES]
    if not here:
        return Refusal(f"every throttle is longer than {MAX_VALUE} characters: remove them by hand", permanent=True)
    topics = sum(c.resource_type is ConfigResourceType.TOPIC for c in here)
    lines = [
        f"remove {len(here)} replication throttles: {topics} of topics, {len(here) - topics} of brokers; "
        "no reassignment is in flight",
        "what catches up is no longer held back from then on",
    ]
    lines += [
        f"  {c.resource_type.value.lower()} {c.resource_name}: {c.name}={(c.before or '')[:60]}" for c in here[:20]
    ]
    if len(found) > len(here):
        lines.append(f"{len(found) - len(here)} more are left for a further run, or are too long for a plan")
    if untold:
        lines.append(f"whether there are more of {some(list(unread_settings(snapshot)), 5)} is not known")
    return settings_plan(request, lines, here)
