"""kafka-python: groups with their committed offsets, many in one request to each coordinator (KIP-709), and setting
them. A broker lists the groups that it coordinates, so each broker is asked for the offsets of those.

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
from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as WireTopicPartition

from kafka_medic.clients.answers import Groups
from kafka_medic.clients.failures import FailureKind, ReadFailed, WriteFailed
from kafka_medic.clients.kafka_configs import refuse
from kafka_medic.clients.kafka_link import KafkaLink, failure_of
from kafka_medic.cluster.groups import Committed, GroupMember, GroupOffsets
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.name_patterns import among

GROUPS_AT_ONCE = 250
SECONDS_A_GROUP = 0.02
"""What a scan of groups may take for each, on top of one timeout: 200 s for 10,000. The operator's own limit
for an observation holds as well (`kafka_link.OBSERVATION_SECONDS`)."""
STATES = frozenset({"Stable", "Empty", "Dead", "PreparingRebalance", "CompletingRebalance"})
"""Group states in Kafka's words; any other is not known."""
CONSUMERS = ("consumer", "")
"""Protocol types of consumer groups; the second of those that only commit offsets."""
Offsets = Mapping[TopicPartition, Committed | None]
Ask = Callable[[Mapping[int, Sequence[str]]], Mapping[int, Mapping[str, Offsets | ReadFailed] | ReadFailed]]
"""The committed offsets of these groups, each by the broker that is asked."""


MESSAGES = "kafka_medic.clients.messages"


class ConsumerGroupDescribeRequest(ApiMessage, load_json=MESSAGES):  # type: ignore[call-arg, misc]
    """KIP-848."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=MESSAGES):  # type: ignore[call-arg, misc]
    """The answer to it, which kafka-python finds by its API key."""


class KafkaGroups:
    """What is asked of groups' coordinators."""

    def __init__(self, link: KafkaLink) -> None:
        self._link = link

    def read(self, wanted: Callable[[str], bool], brokers: Sequence[int]) -> Groups:
        """States first, offsets after: those of a group that is Empty now may still change, and not the other way
        round. Raises ReadFailed when no broker lists its groups."""
        if not brokers:
            raise ReadFailed(FailureKind.UNREACHABLE, "groups: no broker could be read")
        lists = self._link.ask_each(brokers, lambda _: ListGroupsRequest(min_version=0), listed, "groups")
        unlisted = {b: answer for b, answer in lists.items() if isinstance(answer, ReadFailed)}
        if unlisted and len(unlisted) == len(lists):
            raise next(iter(unlisted.values()))
        states = {
            b: {group: answer[group] for group in among(wanted, answer)}
            for b, answer in lists.items()
            if not isinstance(answer, ReadFailed)
        }
        offsets = committed(self._offsets, {b: list(answer) for b, answer in states.items()}, self._link.seconds)
        return merged(states, offsets, unlisted)

    def _offsets(
        self, groups: Mapping[int, Sequence[str]]
    ) -> Mapping[int, Mapping[str, Offsets | ReadFailed] | ReadFailed]:
        return self._link.ask_each(groups, lambda b: offsets_request(groups[b]), decoded_offsets, "committed offsets")

    def members(self, groups: Sequence[str]) -> Mapping[str, Sequence[GroupMember]]:
        if not groups:
            return {}
        what = f"members of {len(groups)} groups from {groups[0]} on"
        ask = _refreshing(lambda c: c._manager.run(_classic, c, groups))
        found: dict[str, tuple[GroupMember, ...]] = self._link.call(ask, ReadFailed, what)
        newer = [group for group in groups if group not in found]
        if newer:
            with contextlib.suppress(ReadFailed):  # brokers before 4.0 do not know the request
                found |= self._link.call(_refreshing(lambda c: c._manager.run(_describe, c, newer)), ReadFailed, what)
        return found

    def unsettled(self, group: str) -> Sequence[TopicPartition]:
        ask = _refreshing(lambda c: c._manager.run(_unsettled, c, group))
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
        answer = self._link.call(_refreshing(lambda c: c.alter_group_offsets(group, wanted)), WriteFailed, what)
        results = {TopicPartition(tp.topic, tp.partition): error for tp, error in answer.items()}
        refused = {tp: error.__name__ for tp, error in results.items() if error is not errors.NoError}
        return refused | dict.fromkeys(offsets.keys() - results.keys(), "not in the answer")


def listed(_: int, answer: Any) -> dict[str, str | None]:
    """State by name of the consumer groups that a broker lists."""
    refuse(ReadFailed, answer.error_code, "groups")
    return {
        group.group_id: group.group_state if group.group_state in STATES else None
        for group in answer.groups
        if group.protocol_type in CONSUMERS
    }


def offsets_request(groups: Sequence[str]) -> Any:
    """By names of topics, which version 8 is the last but one to have; brokers have it since 3.0 (KIP-709)."""
    group_of = OffsetFetchRequest.OffsetFetchRequestGroup
    wanted = [group_of(group_id=group, topics=None) for group in groups]
    return OffsetFetchRequest(groups=wanted, min_version=8, max_version=8)


def decoded_offsets(_: int, answer: Any) -> dict[str, Offsets | ReadFailed]:
    """By group, each with its own error. None for a partition whose offset has one."""
    found: dict[str, Offsets | ReadFailed] = {}
    for group in answer.groups:
        if group.error_code:
            problem = errors.for_code(group.error_code)(f"group {group.group_id}")
            found[group.group_id] = failure_of(ReadFailed, problem, f"offsets of group {group.group_id}")
            continue
        found[group.group_id] = {
            TopicPartition(topic.name, part.partition_index): None if part.error_code else _one(part)
            for topic in group.topics
            for part in topic.partitions
            if part.error_code or part.committed_offset >= 0
        }
    return found


def committed(
    ask: Ask, groups: Mapping[int, Sequence[str]], timeout_seconds: float
) -> dict[int, dict[str, Offsets | ReadFailed]]:
    """By broker and group, in parts. A broker that does not answer is not asked again: its groups failed with it."""
    found: dict[int, dict[str, Offsets | ReadFailed]] = {broker: {} for broker in groups}
    total = sum(map(len, groups.values()))
    end = time.monotonic() + timeout_seconds + total * SECONDS_A_GROUP
    left = {broker: list(names) for broker, names in groups.items() if names}
    while left:
        part = {broker: names[:GROUPS_AT_ONCE] for broker, names in left.items()}
        for broker, answer in ask(part).items():
            if isinstance(answer, ReadFailed):
                found[broker] |= dict.fromkeys(left.pop(broker), answer)
                continue
            for group in part[broker]:
                missing = ReadFailed(FailureKind.OTHER, f"offsets of group {group}: not in the answer")
                found[broker][group] = answer.get(group, missing)
        left = {broker: rest for broker, names in left.items() if (rest := names[GROUPS_AT_ONCE:])}
        if left and time.monotonic() > end:
            done = total - sum(map(len, left.values()))
            words = f"{done} of {total} groups read in time; name fewer in spec.probes.consumerGroups"
            late = ReadFailed(FailureKind.UNREACHABLE, words)
            for broker, names in left.items():
                found[broker] |= dict.fromkeys(names, late)
            break
    return found


def merged(
    states: Mapping[int, Mapping[str, str | None]],
    offsets: Mapping[int, Mapping[str, Offsets | ReadFailed]],
    unlisted: Mapping[int, ReadFailed],
) -> Groups:
    """One answer for each group. While a group moves to another coordinator two brokers may list it: the one that
    answers for its offsets counts, and of two that answer differently none."""
    by_group: dict[str, GroupOffsets] = {}
    unread: dict[str, ReadFailed] = {}
    disputed: set[str] = set()
    for broker, its in offsets.items():
        for group, found in its.items():
            if isinstance(found, ReadFailed):
                unread.setdefault(group, found)
                continue
            one = GroupOffsets(group, states[broker][group], found)
            if group in by_group and by_group[group] != one:
                disputed.add(group)
            by_group[group] = one
    for group in disputed:
        unread[group] = ReadFailed(FailureKind.OTHER, f"offsets of group {group}: two brokers answer, and differ")
    known = {group: one for group, one in by_group.items() if group not in disputed}
    return Groups(tuple(known.values()), {g: why for g, why in unread.items() if g not in known}, unlisted)


def _one(offset: Any) -> Committed:
    epoch = offset.committed_leader_epoch
    return Committed(offset.committed_offset, epoch if epoch >= 0 else None, offset.metadata or "")


async def _classic(client: Any, groups: Sequence[str]) -> dict[str, tuple[GroupMember, ...]]:
    """By the classic protocol."""

    async def ask(node: int, its: Sequence[str]) -> dict[str, tuple[GroupMember, ...]]:
        return members(await client._async_describe_groups(its, node))

    return await _by_coordinator(client, groups, ask)


async def _by_coordinator(
    client: Any, groups: Sequence[str], ask: Callable[[int, Sequence[str]], Any]
) -> dict[str, tuple[GroupMember, ...]]:
    """A coordinator that does not answer, or is not known, takes only its own groups along. Raises the first failure
    when there is nothing else."""
    found: dict[str, tuple[GroupMember, ...]] = {}
    coordinators, failed = await _coordinators(client, groups)
    answered = False
    for node, its in coordinators.items():
        try:
            found |= await ask(node, its)
            answered = True
        except Exception as problem:  # noqa: BLE001 - likewise of one coordinator
            failed.append(problem)
    if failed:
        client._manager.cluster._coordinators.clear()
        if not answered:
            raise failed[0]
    return found


async def _coordinators(client: Any, groups: Sequence[str]) -> tuple[dict[int, list[str]], list[Exception]]:
    """By coordinator, and why the others have none."""
    nodes: dict[str, int] = {}
    failed: list[Exception] = []
    try:
        nodes = await client._find_coordinator_ids(groups)
    except errors.BrokerResponseError:  # of one of them, and the library says nothing of the others
        for group in groups:
            try:
                nodes |= await client._find_coordinator_ids([group])
            except errors.BrokerResponseError as problem:
                failed.append(problem)
    found: dict[int, list[str]] = defaultdict(list)
    for group, node in nodes.items():
        found[node].append(group)
    return found, failed


def members(answer: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[GroupMember, ...]]:
    """From DescribeGroups, of which version 6 says of a group of the new protocol that it is not there (KIP-1043)."""
    return {
        group: tuple(GroupMember(m["client_id"], m["client_host"]) for m in description["members"])
        for group, description in answer.items()
        if not description.get("error")
    }


async def _describe(client: Any, groups: Sequence[str]) -> dict[str, tuple[GroupMember, ...]]:
    """The same of groups of the new protocol (KIP-848); what has an error is left out."""

    async def ask(node: int, its: Sequence[str]) -> dict[str, tuple[GroupMember, ...]]:
        request = ConsumerGroupDescribeRequest(group_ids=its, include_authorized_operations=False)
        answer = await client._manager.send(request, node_id=node)
        return {
            group.group_id: tuple(GroupMember(m.client_id, m.client_host) for m in group.members)
            for group in answer.groups
            if not group.error_code
        }

    return await _by_coordinator(client, groups, ask)


async def _unsettled(client: Any, group: str) -> Sequence[TopicPartition]:
    """kafka-python asks for stable offsets in its consumer alone."""
    node = (await client._find_coordinator_ids([group]))[group]
    found: list[TopicPartition] = []
    for _, request in client._list_group_offsets_requests({group: None}):
        request.require_stable = True
        answer = await client._manager.send(request, node_id=node)
        for result in answer.groups if answer.API_VERSION >= 8 else [answer]:
            if result.error_code:
                raise errors.for_code(result.error_code)(f"group {group}")
            parts = [(topic.name, part) for topic in result.topics for part in topic.partitions]
            open_ = [(name, part) for name, part in parts if part.error_code == errors.UnstableOffsetCommitError.errno]
            found += [TopicPartition(name, part.partition_index) for name, part in open_]
    return sorted(found)


def _refreshing(question: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def ask(client: Any) -> Any:
        try:
            return question(client)
        except Exception:
            client._manager.cluster._coordinators.clear()  # kafka-python goes on asking whoever it was
            raise

    return ask
