"""kafka-python: the committed offsets of groups, many in one request to each coordinator (KIP-709).

Not by librdkafka: what it sends to a group's coordinator can abort the whole process when that broker goes away in
between (https://github.com/confluentinc/librdkafka/issues/3663, https://github.com/confluentinc/librdkafka/pull/5397).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka_medic.clients.ports import FailureKind, ReadFailed
from kafka_medic.cluster.snapshot import TopicPartition

GROUPS_AT_ONCE = 250
SECONDS_A_GROUP = 0.02
"""What a scan of groups may take for each, on top of one timeout: 200 s for 10,000."""

Ask = Callable[[Mapping[str, None], str], Any]
"""The offsets of these groups, and how the question is called if it fails."""


def committed(ask: Ask, groups: Sequence[str], timeout_seconds: float) -> Mapping[str, Mapping[TopicPartition, int]]:
    """By group, all of them or ReadFailed: one that was not read must not look as if it had no offsets."""
    found: dict[str, Mapping[TopicPartition, int]] = {}
    end = time.monotonic() + timeout_seconds + len(groups) * SECONDS_A_GROUP
    for start in range(0, len(groups), GROUPS_AT_ONCE):
        if found and time.monotonic() > end:
            told = f"{len(found)} of {len(groups)} groups read in time; name fewer in spec.probes.consumerGroups"
            raise ReadFailed(FailureKind.UNREACHABLE, told)
        part = groups[start : start + GROUPS_AT_ONCE]
        answer = ask(dict.fromkeys(part), f"offsets of {len(part)} groups from {part[0]} on")
        for group in part:
            if group not in answer:
                raise ReadFailed(FailureKind.OTHER, f"offsets of group {group}: not in the answer")
            offsets = answer[group].items()
            found[group] = {TopicPartition(tp.topic, tp.partition): o.offset for tp, o in offsets if o.offset >= 0}
    return found
