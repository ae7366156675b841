"""Which brokers report their whole view in an observation, what the others are asked, and what stands for the cluster.

A whole view is as large as the cluster. So of many brokers a few report theirs in each observation, in turn, and
everybody its members and its word on what changed lately. When anything looks odd, or somebody is about to act, all are
asked for the whole, as far as time allows. Where that would be too much for the network (ROWS_AT_MOST), all are asked
about what the effect concerns (`cluster.concern`) and about what is odd, and those whose word differs for the whole.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.ports import BrokerView, KafkaReads
from kafka_medic.clients.zookeeper import Registrations
from kafka_medic.cluster.accounts import TopicRecord, settle
from kafka_medic.cluster.concern import NOTHING, Concern, topics_needed, topics_of
from kafka_medic.cluster.incarnations import ids_in
from kafka_medic.observe import checks
from kafka_medic.observe.slices import Accounts, Changes, Reference, changes, in_turn, patched, requests, troubled

Answers = Mapping[int, BrokerView | ReadFailed]

FULL_VIEWS = 5
FULL_ROWS, FEWEST = 800_000, 3
"""Partitions in all the whole views of an observation in which nothing is odd, some 45 bytes each on the wire. Of
larger clusters fewer brokers give theirs, but FEWEST."""
BUDGET_SECONDS = 30.0
ACTING_BUDGET_SECONDS = 120.0
BATCH = 4
ROWS_AT_MOST = 5_000_000
"""Partitions in all answers of an observation of which each broker gives its whole view: some 225 MB."""
SLICE_ROWS, ACTING_SLICE_ROWS = 400_000, 2_000_000
"""Partitions in all answers about what changed lately: some 18 and 90 MB."""
LATELY = 4
"""Observations with changes that count as lately, however long ago: whoever hears of nothing contradicts the last."""
FORGOTTEN_SECONDS = 300.0
"""Without an observation, after which nobody counts as hearing of changes."""
OTHERS = 2
"""Brokers that give their whole view beside those that the effect concerns, so that somebody can contradict these."""
MORE_WHOLE = 8
"""Brokers that give their whole view since they share too much of what changed."""
MAX_COMPARED = 10_000
"""Partitions up to which an account is compared with what stands for the cluster."""
MAX_RECORDS = 200
"""Topics of which one observation reads ZooKeeper's records: each of their partitions is a read."""


@dataclass(slots=True)
class ViewRotation:
    """Kept from observation to observation. `full`: how many brokers report their whole view while nothing is odd (all
    of them when there are no more). `everything`: all shall, since somebody is about to act or something was odd.
    `alone`: no other observation follows, so all shall whatever that costs. `concern`: what the effect concerns; where
    whole views are more than ROWS_AT_MOST, no more is read of all.

    `tables`: those of the last observation, and `ordered` what stood for the cluster, as it was reported and in order:
    what has not changed since is neither checked nor sorted nor held in memory twice. `equal`: whether both are the
    same account. `base`: what most whole views
    held last, and `lately` what changed last. `heard`: brokers whose whole view agreed and that have contradicted no
    change since; so they hear of changes. `silent`: those that did not answer. `looked`: when the
    last observation began. `last`, `last_topic`: whose turn it was.
    """

    full: int = FULL_VIEWS
    everything: bool = False
    alone: bool = False
    concern: Concern = NOTHING
    last: int = -1
    last_topic: str = ""
    monotonic: Callable[[], float] = time.monotonic
    tables: list[pa.Table] = field(default_factory=list)
    ordered: tuple[pa.Table, pa.Table] | None = None
    equal: bool = False
    base: pa.Table | None = None
    silent: frozenset[int] = frozenset()
    looked: float | None = None
    heard: set[int] = field(default_factory=set)
    lately: list[Changes] = field(default_factory=list)

    def as_decided(self, states: pa.Table) -> pa.Table:
        """The same account, in the order of what stands for the cluster if both are equal."""
        return self.ordered[1] if self.equal and self.ordered is not None and self.ordered[0] is states else states

    def wanted(self) -> int:
        """How many whole views to read while nothing is odd, by how large they were in the last observation."""
        size = max((table.num_rows for table in self.tables), default=0)
        return min(self.full, max(FEWEST, FULL_ROWS // max(1, size)))

    def order(self, brokers: Sequence[int]) -> list[int]:
        """Whose turn it is, beginning after the broker that was last."""
        listed = sorted(brokers)
        return [b for b in listed if b > self.last] + [b for b in listed if b <= self.last]


def read_views(
    kafka: KafkaReads, ids: Sequence[int], rotation: ViewRotation, registered: Registrations | None
) -> dict[int, BrokerView | ReadFailed]:
    """Every broker's answer: whole, about some topics, or its members alone. Raises the first failure when there is no
    answer at all."""
    if len(ids) <= rotation.full:
        answers = dict(_checked(kafka.views(ids), list(rotation.tables)))
    else:
        round_ = _Round(kafka, rotation, registered, sorted(ids))
        round_.read()
        answers = round_.answers
    views = [answer for answer in answers.values() if isinstance(answer, BrokerView)]
    rotation.tables = list({id(view.states): view.states for view in views if view.states is not None}.values())
    failures = [answer for answer in answers.values() if isinstance(answer, ReadFailed)]
    if failures and len(failures) == len(answers):
        raise failures[0]
    return answers


@dataclass(slots=True)
class _Round:
    """One observation of more brokers than always report their whole view."""

    kafka: KafkaReads
    rotation: ViewRotation
    registered: Registrations | None
    ids: Sequence[int]
    answers: dict[int, BrokerView | ReadFailed] = field(default_factory=dict)
    seen: list[pa.Table] = field(init=False)

    def __post_init__(self) -> None:
        rotation = self.rotation
        self.seen = list(rotation.tables)
        now = rotation.monotonic()
        if rotation.looked is not None and now - rotation.looked > FORGOTTEN_SECONDS:
            rotation.heard.clear()  # who went deaf meanwhile has contradicted nothing
        rotation.looked = now

    def read(self) -> None:
        rotation = self.rotation
        rest = self._some_whole()
        base = self._most()
        large = base is not None and not rotation.alone and len(self.ids) * base.num_rows > ROWS_AT_MOST
        if base is not None and (large or not rotation.everything):
            self._slices(rest, base, large)
        if left := [b for b in rest if b not in self.answers]:
            self.answers.update(_checked(self.kafka.memberships(left)))
        if rotation.everything or suspicious(self.answers, self.registered):
            able = [b for b in rest if isinstance(self.answers[b], BrokerView)]
            budget = ACTING_BUDGET_SECONDS if rotation.everything else BUDGET_SECONDS
            self._whole_in_time(self._odd_ones(able) if large else able, budget, turns=not large)
        self._remember()

    def _some_whole(self) -> list[int]:
        """The whole views of the active controller, of those that the effect concerns and of others: first, as far as
        the network allows, those that have not shown yet that they hear of changes, then in turn. Returns the rest."""
        rotation, controller = self.rotation, self.registered.controller.id if self.registered else None
        first = [b for b in self.ids if b == controller or b in rotation.concern.brokers]
        others = rotation.order([b for b in self.ids if b not in first])
        unheard = [b for b in others if b not in rotation.heard | rotation.silent]
        turn = sorted((b for b in others if b not in unheard), key=lambda b: b in rotation.silent)
        # Beside those that are concerned, others that can contradict them.
        wanted = max(rotation.wanted(), len(first) + OTHERS if rotation.concern.brokers else 0) - len(first)
        chosen = turn[: OTHERS if unheard else max(0, wanted)]
        rows = max((table.num_rows for table in rotation.tables), default=0)
        more = ROWS_AT_MOST // rows - len(first) - len(chosen) if rows else 0
        new = unheard[: max(1, wanted - len(chosen), more)]
        self._whole([*first, *chosen, *new])
        rotation.last = (chosen or new or [-1])[-1]
        return [b for b in others if b not in (*chosen, *new)]

    def _whole_in_time(self, brokers: Sequence[int], seconds: float, *, turns: bool = False) -> None:
        rotation = self.rotation
        end = rotation.monotonic() + seconds
        for start in range(0, len(brokers), BATCH):
            if rotation.monotonic() > end:
                break
            batch = brokers[start : start + BATCH]
            self._whole(batch)
            if turns:
                rotation.last = batch[-1]

    def _remember(self) -> None:
        most, rotation = self._most(), self.rotation
        rotation.silent = frozenset(b for b, view in self.answers.items() if isinstance(view, ReadFailed))
        for broker, view in self.answers.items():
            if isinstance(view, ReadFailed) or (view.states is not None and view.states is not most):
                rotation.heard.discard(broker)
            elif view.states is not None and view.covers is None:
                rotation.heard.add(broker)

    def _whole(self, brokers: Sequence[int]) -> None:
        if brokers:
            self.answers.update(_checked(self.kafka.views(brokers), self.seen))

    def _most(self) -> pa.Table | None:
        """The account that most of those give who hear of changes; of all, where nobody is known to."""
        views = [view for view in self.answers.values() if isinstance(view, BrokerView) and view.states is not None]
        tables = {id(view.states): view.states for view in views}
        hear = [view for view in views if view.broker in self.rotation.heard] or views
        counted = Counter(id(view.states) for view in hear)
        return tables[counted.most_common(1)[0][0]] if counted else None

    def _slices(self, rest: Sequence[int], states: pa.Table, large: bool) -> None:
        """What the rest of the brokers say of what changed lately and, where the cluster is large, of what is odd and
        of what somebody is about to change. Where their words differ, everybody is asked once more, and only then is
        anybody taken to differ: what changes while it is read is on its way to all of them."""
        rotation = self.rotation
        same = rotation.ordered is not None and rotation.ordered[0] is states
        new = Changes() if same or rotation.base is None else changes(rotation.base, states)
        rotation.base = states
        rotation.lately = [*([new] if new.topics else ()), *rotation.lately][:LATELY]
        lately, turn = list(rotation.lately), tuple[str, ...]()
        acting = large and rotation.everything
        if large and (rows := troubled(states)).any():
            held = topics_of(states, rows)
            lately.insert(1, Changes(frozenset().union(*held.values()), held))  # the last change stays the first
        if missing := _missing(rotation.concern.topics, states) if large else frozenset[str]():
            lately.insert(1, Changes(missing))
        tables = {id(v.states): v.states for v in self.answers.values() if isinstance(v, BrokerView)}
        if not acting and not lately and len(tables) <= 1:
            return
        base = Reference.of(states)
        limit = (ACTING_SLICE_ROWS if acting else SLICE_ROWS) // len(self.ids)
        if acting:
            turn = in_turn(base.sizes, rotation.last_topic, limit // 4)
            rotation.last_topic = turn[-1] if turn else ""
        needed = topics_needed(states, rotation.concern) if large else {}
        wanted = requests(rest, needed, lately, base.sizes, limit, turn)
        everybody = large and rotation.concern.everybody
        unheard = [b for b in rest if (everybody or b in needed) and b not in rotation.heard]
        self._whole_in_time(unheard, ACTING_BUDGET_SECONDS)
        self._whole([b for b in wanted.whole[:MORE_WHOLE] if large and b not in unheard])
        topics = {b: t for b, t in wanted.topics.items() if t and b not in self.answers and b not in unheard}
        slices = _each_checked(self.kafka.slices(topics)) if topics else {}
        # Who leads what is asked first, where not all can be asked.
        differing = sorted(_differing(base, slices, self.answers, but_isr=True))
        differing += sorted(_differing(base, slices, self.answers).difference(differing))
        if differing:
            base = self._once_more(base, slices, differing)
            rotation.base = base.states
        accounts = Accounts(base)
        for broker, answer in slices.items():
            self.answers[broker] = answer
            if isinstance(answer, BrokerView) and answer.states is not None and answer.covers is not None:
                # Whoever had no time to show that it hears of changes has not shown it by a word on what differs.
                whole = None if broker in unheard else accounts.whole(answer.states, answer.covers)
                # Without a word rather than with somebody else's: guards refuse what was not reported.
                self.answers[broker] = replace(answer, states=whole, covers=None if whole is None else answer.covers)

    def _once_more(
        self, base: Reference, slices: dict[int, BrokerView | ReadFailed], differing: Sequence[str]
    ) -> Reference:
        """Asks everybody about these topics, as far as the network allows, and puts the newer words in place of the
        older ones. Returns what the others are compared with then."""
        room, topics = ROWS_AT_MOST, list[str]()
        for topic in differing:
            room -= max(1, base.sizes.get(topic, 0)) * len(self.ids)
            if room < 0 and topics:
                break
            topics.append(topic)
        able = [b for b in self.ids if not isinstance(self.answers.get(b, slices.get(b)), ReadFailed)]
        newer = _checked(self.kafka.slices(dict.fromkeys(able, tuple(topics))))
        counted = Counter(
            id(answer.states)
            for b, answer in newer.items()
            if isinstance(answer, BrokerView) and self._states(b) is base.states
        )
        if not counted:
            return base
        agreed = next(
            a.states
            for a in newer.values()
            if isinstance(a, BrokerView) and id(a.states) == counted.most_common(1)[0][0]
        )
        assert agreed is not None
        # What could not be asked again is nobody's word: it may have changed meanwhile, for everybody.
        open_ = frozenset(differing).difference(topics)
        now = Reference.of(patched(base.states, agreed, topics))
        made: dict[tuple[int, int], pa.Table] = {(id(base.states), id(agreed)): now.states}
        for broker, answer in newer.items():
            states = self._states(broker)
            if isinstance(answer, ReadFailed):
                self.answers[broker] = answer
                slices.pop(broker, None)
            elif states is not None:
                assert answer.states is not None
                key = id(states), id(answer.states)
                if key not in made:
                    mine = patched(states, answer.states, topics)
                    made[key] = mine if now.differing(mine) else now.states
                self.answers[broker] = replace(answer, states=made[key], covers=None)
            elif isinstance(before := slices.get(broker), BrokerView):
                assert before.states is not None
                assert before.covers is not None
                assert answer.states is not None
                both = patched(before.states, answer.states, topics)
                slices[broker] = replace(answer, states=both, covers=(before.covers | frozenset(topics)) - open_)
            else:
                slices[broker] = answer
        return now

    def _states(self, broker: int) -> pa.Table | None:
        view = self.answers.get(broker)
        return view.states if isinstance(view, BrokerView) else None

    def _odd_ones(self, rest: Sequence[int]) -> list[int]:
        """Those of a large cluster whose word differs from that of most, on partitions or on who is a member."""
        most = self._most()
        named = Counter(view.members for view in self.answers.values() if isinstance(view, BrokerView))
        members = named.most_common(1)[0][0] if named else ()
        found = []
        for broker in rest:
            view = self.answers[broker]
            if not isinstance(view, BrokerView) or (view.states is not None and view.covers is None):
                continue
            if (view.states is not None and view.states is not most) or view.members != members:
                found.append(broker)
        return found


def _missing(planned: Mapping[str, str | None], states: pa.Table) -> frozenset[str]:
    """The topics that do not show with the planned id; None: any id."""
    now = ids_in(states, planned)
    return frozenset(topic for topic, id_ in planned.items() if topic not in now or id_ not in (None, now[topic]))


def _differing(base: Reference, *answers: Answers, but_isr: bool = False) -> set[str]:
    views = [v for each in answers for v in each.values() if isinstance(v, BrokerView) and v.states is not None]
    return set().union(*(base.differing(v.states, v.covers, but_isr=but_isr) for v in views if v.states is not None))


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
    return any(troubled(table).any() for table in tables.values())


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
    covers = {
        b: view.covers
        for b, view in (answers or {}).items()
        if b in views and isinstance(view, BrokerView) and view.covers is not None
    }
    settled = settle(views, controller, len(voters), covers=covers)
    if read_records is not None and settled.disputed:
        undecided: Any = pc.unique(settled.states.filter(pc.is_null(settled.states["leaderEpoch"]))["topic"])
        open_ = set(undecided.to_pylist())
        chosen = sorted(settled.disputed, key=lambda topic: (topic not in open_, topic))[:MAX_RECORDS]
        settled = settle(views, controller, len(voters), read_records(chosen), covers)
    rotation.ordered = (tables[0], settled.states) if len(tables) == 1 else None
    comparable = len(tables) == 1 and len(tables[0]) <= MAX_COMPARED
    rotation.equal = comparable and bool(_in_order(tables[0]).equals(settled.states))
    return settled.states


def _in_order(states: pa.Table) -> pa.Table:
    return states.sort_by([("topic", "ascending"), ("partition", "ascending")])


def _alike(one: pa.Table, other: pa.Table) -> bool:
    """The same account, in whatever order brokers list topics."""
    if one is other or one.equals(other):
        return True
    return one.num_rows == other.num_rows > 0 and not Reference.of(one).differing(other)


def _each_checked(answers: Answers) -> dict[int, BrokerView | ReadFailed]:
    """The same of small answers, no two of which need to be about the same."""
    found: dict[int, BrokerView | ReadFailed] = {}
    for broker, answer in answers.items():
        found |= _checked({broker: answer})
    return found


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
        same = None if states is None else next((t for t in tables if _alike(t, states)), None)
        try:
            if same is not None:
                checks.members(answer)
                found[broker] = replace(answer, states=same)
                continue
            found[broker] = view = checks.view(answer)
        except checks.BadAnswer as problem:
            found[broker] = problem
        else:
            if view.states is not None:
                tables.append(view.states)
    return found
