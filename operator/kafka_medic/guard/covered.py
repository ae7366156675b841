"""Was every broker asked about what the effect concerns?

Of a large cluster an observation reads the words of each broker on some topics alone (`observe.view_reads`). Guards
judge what was read. This asks, before an effect is sent, whether that was enough for this effect.
"""

from __future__ import annotations

from kafka_medic.cluster.concern import Concern, topics_needed
from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard.evaluate import some


def uncovered(snapshot: Snapshot, concern: Concern) -> str | None:
    """What is missing, in words. A broker that did not answer at all is for the guards."""
    parts = {v.broker: v.covers for v in snapshot.views or () if v.leaders is not None and v.covers is not None}
    if not parts:
        return None
    if snapshot.partitions is None:
        return "the partitions are not known"
    if unasked := sorted(concern.brokers & parts.keys()):
        return f"broker {some(unasked)}: the whole view was not read"
    for broker, topics in sorted(topics_needed(snapshot.partitions, concern).items()):
        if broker in parts and (missing := sorted(topics - parts[broker])):
            return f"broker {broker}: topic {some(missing)} was not read"
    return None
