"""The plan of a playbook that removes replication throttles which outlived their reassignment."""

from __future__ import annotations

from kafka_medic.cluster.elements import unread_settings
from kafka_medic.diagnose.moves import throttles
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.refusal import Refusal, unread
from kafka_medic.playbook.settings.settings_plan import settings_plan
from kafka_medic.report.units import many
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
        return Refusal("whether a reassignment is in flight could not be read")
    if any(moving):
        return Refusal(
            f"{many(sum(map(bool, moving)), 'partition')} being reassigned: the throttles may belong to the "
            "reassignment"
        )
    untold = [f"{name}: {why}" for name, why in unread_settings(snapshot).items()]
    if not found and untold:
        message = f"whether a replication throttle is set is not known for {some(untold, 3)}"
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
        return Refusal(f"every throttle is longer than {MAX_VALUE} characters; remove them by hand", permanent=True)
    topics = sum(c.resource_type is ConfigResourceType.TOPIC for c in here)
    lines = [
        f"remove {many(len(here), 'replication throttle')}: {topics} of topics, {len(here) - topics} of brokers; "
        "no reassignment is in flight",
        "afterwards no catch-up is throttled",
    ]
    lines += [
        f"  {c.resource_type.value.lower()} {c.resource_name}: {c.name}={(c.before or '')[:60]}" for c in here[:20]
    ]
    if len(found) > len(here):
        lines.append(f"{len(found) - len(here)} more need a further run, or are too long for a plan")
    if untold:
        lines.append(
            f"more throttles may be set on {some(list(unread_settings(snapshot)), 5)}, which could not be read"
        )
    return settings_plan(request, lines, here)
