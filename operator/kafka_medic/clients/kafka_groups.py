"""kafka-python: the committed offsets of groups, many in one request to each coordinator (KIP-709), and setting them.

Not by librdkafka: what it sends to a group's coordinator can abort the whole process when that broker goes away in
between (https://github.com/confluentinc/librdkafka/issues/3663, https://github.com/confluentinc/librdkafka/pull/5397).
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka import errors
from kafka.protocol.api_message import ApiMessage
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as WireTopicPartition

from kafka_medic.clients.kafka_link import WireLink
from kafka_medic.clients.ports import FailureKind, ReadFailed, WriteFailed
from kafka_medic.cluster.groups import Committed, GroupMember
from kafka_medic.cluster.snapshot import TopicPartition

GROUPS_AT_ONCE = 250
SECONDS_A_GROUP = 0.02
"""What a scan of groups may take for each, on top of one timeout: 200 s for 10,000."""

Ask = Callable[[Mapping[str, None], str], Any]
"""The offsets of these groups, and how the question is called if it fails."""


MESSAGES = "kafka_medic.clients.messages"


class ConsumerGroupDescribeRequest(ApiMessage, load_json=MESSAGES):  # type: ignore[call-arg, misc]
    """KIP-848."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=MESSAGES):  # type: ignore[call-arg, misc]
    """The answer to it, which kafka-python finds by its API key."""


class WireGroups:
    """What is asked of groups' coordinators."""

    def __init__(self, link: WireLink) -> None:
        self._link = link

    def committed(self, groups: Sequence[str]) -> Mapping[str, Mapping[TopicPartition, Committed]]:
        def ask(wanted: Mapping[str, None], what: str) -> Any:
            return self._link.call(_asked(lambda c: c.list_group_offsets(dict(wanted))), ReadFailed, what)

        return committed(ask, groups, self._link.seconds)

    def members(self, groups: Sequence[str]) -> Mapping[str, Sequence[GroupMember]]:
        if not groups:
            return {}
        what = f"members of {len(groups)} groups from {groups[0]} on"
        answer = self._link.call(_asked(lambda c: c.describe_groups(list(groups))), ReadFailed, what)
        found = members(answer)
        newer = [group for group in groups if group not in found]
        if newer:
            with contextlib.suppress(ReadFailed):  # brokers before 4.0 do not know the request
                found |= self._link.call(_asked(lambda c: c._manager.run(_describe, c, newer)), ReadFailed, what)
        return found

    def unsettled(self, group: str) -> Sequence[TopicPartition]:
        ask = _asked(lambda c: c._manager.run(_unsettled, c, group))
        return self._link.call(ask, ReadFailed, f"open transactions of group {group}")

    def commit(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> Mapping[TopicPartition, str]:
        """As a client that is no member (generation -1), whom a group that has members answers UNKNOWN_MEMBER_ID."""
        wanted = {
            WireTopicPartition(*tp): OffsetAndMetadata(
                c.offset, c.metadata, -1 if c.leader_epoch is None else c.leader_epoch
            )
            for tp, c in offsets.items()
        }
        what = f"offsets of group {group}"
        answer = self._link.call(_asked(lambda c: c.alter_group_offsets(group, wanted)), WriteFailed, what)
        told = {TopicPartition(tp.topic, tp.partition): error for tp, error in answer.items()}
        refused = {tp: error.__name__ for tp, error in told.items() if error is not errors.NoError}
        return refused | dict.fromkeys(offsets.keys() - told.keys(), "not in the answer")


def committed(
    ask: Ask, groups: Sequence[str], timeout_seconds: float
) -> Mapping[str, Mapping[TopicPartition, Committed]]:
    """By group, all of them or ReadFailed: one that was not read must not look as if it had no offsets."""
    found: dict[str, Mapping[TopicPartition, Committed]] = {}
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
            found[group] = {TopicPartition(tp.topic, tp.partition): _one(o) for tp, o in offsets if o.offset >= 0}
    return found


def _one(told: Any) -> Committed:
    epoch = told.leader_epoch
    return Committed(told.offset, None if epoch is None or epoch < 0 else epoch, told.metadata or "")


def members(answer: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[GroupMember, ...]]:
    """From DescribeGroups, of which version 6 says of a group of the new protocol that it is not there (KIP-1043)."""
    return {
        group: tuple(GroupMember(m["client_id"], m["client_host"]) for m in told["members"])
        for group, told in answer.items()
        if not told.get("error")
    }


async def _describe(client: Any, groups: Sequence[str]) -> dict[str, tuple[GroupMember, ...]]:
    """The same of groups of the new protocol (KIP-848), each from its coordinator; what has an error is left out."""
    coordinators: dict[int, list[str]] = defaultdict(list)
    for group, node in (await client._find_coordinator_ids(groups)).items():
        coordinators[node].append(group)
    found = {}
    for node, its in coordinators.items():
        request = ConsumerGroupDescribeRequest(group_ids=its, include_authorized_operations=False)
        answer = await client._manager.send(request, node_id=node)
        for told in answer.groups:
            if not told.error_code:
                found[told.group_id] = tuple(GroupMember(m.client_id, m.client_host) for m in told.members)
    return found


async def _unsettled(client: Any, group: str) -> Sequence[TopicPartition]:
    """kafka-python asks for stable offsets in its consumer alone."""
    node = (await client._find_coordinator_ids([group]))[group]
    found: list[TopicPartition] = []
    for _, request in client._list_group_offsets_requests({group: None}):
        request.require_stable = True
        answer = await client._manager.send(request, node_id=node)
        for told in answer.groups if answer.API_VERSION >= 8 else [answer]:
            if told.error_code:
                raise errors.for_code(told.error_code)(f"group {group}")
            parts = [(topic.name, part) for topic in told.topics for part in topic.partitions]
            open_ = [(name, part) for name, part in parts if part.error_code == errors.UnstableOffsetCommitError.errno]
            found += [TopicPartition(name, part.partition_index) for name, part in open_]
    return sorted(found)


def _asked(question: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def ask(client: Any) -> Any:
        try:
            return question(client)
        except Exception:
            client._manager.cluster._coordinators.clear()  # kafka-python goes on asking whoever it was
            raise

    return ask
