"""Which brokers tell their whole view in this look, and what stands for the cluster.

A whole view is as large as the cluster, so of many brokers a few tell theirs in each look, in turn; who the others take
for members and controller is cheap and asked of everybody. When anything looks odd, or somebody is about to act, all
are asked, as far as the time for it reaches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.clients.ports import BrokerView, KafkaReads, ReadFailed
from kafka_medic.clients.zookeeper import Registrations
from kafka_medic.cluster.accounts import TopicRecord, settle
from kafka_medic.observe import checks

Answers = Mapping[int, BrokerView | ReadFailed]

FULL_VIEWS = 5
BUDGET_SECONDS = 30.0
ACTING_BUDGET_SECONDS = 120.0
BATCH = 4
MAX_RECORDS = 200
"""Topics of which one observation reads ZooKeeper's records: each of their partitions is a read."""


@dataclass(slots=True)
class ViewRotation:
    """Kept from look to look. `full`: how many brokers tell their whole view in a look in which nothing is odd (all of
    them when there are no more). `everything`: all shall, since somebody is about to act or something was odd. `told`:
    the tables of the last look, and `ordered` what stood for the cluster, as it was told and in order: what has not
    changed since is neither checked nor sorted nor held in memory twice."""

    full: int = FULL_VIEWS
    everything: bool = False
    last: int = -1
    monotonic: Callable[[], float] = time.monotonic
    told: list[pa.Table] = field(default_factory=list)
    ordered: tuple[pa.Table, pa.Table] | None = None

    def order(self, brokers: Sequence[int]) -> list[int]:
        """Whose turn it is, beginning after the broker that was last."""
        listed = sorted(brokers)
        return [b for b in listed if b > self.last] + [b for b in listed if b <= self.last]


def read_views(
    kafka: KafkaReads, ids: Sequence[int], rotation: ViewRotation, registered: Registrations | None
) -> dict[int, BrokerView | ReadFailed]:
    """Every broker's answer, whole or without its partitions. Raises the first failure when there is none at all."""
    few = len(ids) <= rotation.full
    seen = list(rotation.told)
    if few:
        answers = dict(_checked(kafka.views(ids), seen))
    else:
        answers = dict(_checked(kafka.memberships(ids)))
        able = [b for b, view in answers.items() if isinstance(view, BrokerView)]
        controller = registered.controller.id if registered else None
        turn = rotation.order([b for b in able if b != controller])
        chosen = [b for b in able if b == controller] + turn
        whole = chosen[: rotation.full]
        _read_whole(kafka, whole, answers, seen)
        rotation.last = whole[-1] if whole else -1
        if rotation.everything or suspicious(answers, registered):
            budget = ACTING_BUDGET_SECONDS if rotation.everything else BUDGET_SECONDS
            end = rotation.monotonic() + budget
            rest = chosen[rotation.full :]
            for start in range(0, len(rest), BATCH):
                if rotation.monotonic() > end:
                    break
                batch = rest[start : start + BATCH]
                _read_whole(kafka, batch, answers, seen)
                rotation.last = batch[-1]
    views = [answer for answer in answers.values() if isinstance(answer, BrokerView)]
    rotation.told = list({id(view.states): view.states for view in views if view.states is not None}.values())
    failures = [answer for answer in answers.values() if isinstance(answer, ReadFailed)]
    if failures and len(failures) == len(answers):
        raise failures[0]
    return answers


def suspicious(answers: Answers, registered: Registrations | None) -> bool:
    """Anything that a healthy cluster at rest does not show."""
    views = [view for view in answers.values() if isinstance(view, BrokerView)]
    if len(views) < len(answers) or not views:
        return True
    if len({view.members for view in views}) > 1:
        return True
    if registered is not None:
        if set(views[0].members) != set(registered.brokers):
            return True
        # Only ZooKeeper's brokers know the controller; KRaft's name any live broker (KIP-590).
        if {view.controller for view in views} != {registered.controller.id}:
            return True
    tables = {id(view.states): view.states for view in views if view.states is not None}
    if len(tables) > 1:  # equal ones are one object by now
        return True
    return any(_troubled(table) for table in tables.values())


def decided(
    answers: Answers | None,
    controller: int | None,
    voters: frozenset[int],
    rotation: ViewRotation,
    read_records: Callable[[Sequence[str]], Mapping[str, TopicRecord | None]] | None = None,
) -> pa.Table | None:
    """What `cluster.authority` decides from the whole views of `voters`, the registered brokers; STATES_SCHEMA. None
    when none of them reported one. `read_records`: with ZooKeeper, the records of topics on which views differ, those
    first that the views leave undecided."""
    views = {
        b: view.states
        for b, view in sorted((answers or {}).items())
        if isinstance(view, BrokerView) and view.states is not None and b in voters
    }
    if not views:
        return None
    tables = list({id(table): table for table in views.values()}.values())
    if len(tables) == 1 and rotation.ordered is not None and rotation.ordered[0] is tables[0]:
        return rotation.ordered[1]
    settled = settle(views, controller, len(voters))
    if read_records is not None and settled.disputed:
        undecided: Any = pc.unique(settled.states.filter(pc.is_null(settled.states["leaderEpoch"]))["topic"])
        open_ = set(undecided.to_pylist())
        chosen = sorted(settled.disputed, key=lambda topic: (topic not in open_, topic))[:MAX_RECORDS]
        settled = settle(views, controller, len(voters), read_records(chosen))
    rotation.ordered = (tables[0], settled.states) if len(tables) == 1 else None
    return settled.states


def _read_whole(
    kafka: KafkaReads, brokers: Sequence[int], answers: dict[int, BrokerView | ReadFailed], seen: list[pa.Table]
) -> None:
    if brokers:
        answers.update(_checked(kafka.views(brokers), seen))


def _checked(answers: Answers, seen: list[pa.Table] | None = None) -> dict[int, BrokerView | ReadFailed]:
    """The same, with bad answers as failures. Views that are equal share one table, so that a healthy cluster's cost
    memory once."""
    tables = [] if seen is None else seen
    found: dict[int, BrokerView | ReadFailed] = {}
    for broker, answer in answers.items():
        if isinstance(answer, ReadFailed):
            found[broker] = answer
            continue
        states = answer.states
        same = next((t for t in tables if states is not None and (t is states or t.equals(states))), None)
        try:
            if same is not None:
                found[broker] = BrokerView(broker, checks.members(answer), answer.controller, same)
                continue
            found[broker] = view = checks.view(answer)
        except checks.BadAnswer as problem:
            found[broker] = problem
        else:
            if view.states is not None:
                tables.append(view.states)
    return found


def _troubled(states: pa.Table) -> bool:
    leaderless: Any = pc.any(pc.less(states["leader"], pa.scalar(0, pa.int32())))
    short: Any = pc.any(pc.not_equal(pc.list_value_length(states["replicas"]), pc.list_value_length(states["isr"])))
    return bool(leaderless.as_py() or short.as_py())
