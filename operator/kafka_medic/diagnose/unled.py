"""Partitions that nobody leads: for how long, and whether the controller is to blame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kafka_medic.cluster.snapshot import NO_LEADER, Broker, Mode, Snapshot
from kafka_medic.diagnose.authority import FETCH_TIMEOUT_MS
from kafka_medic.diagnose.columns import Ints, Mask, Partitions, column, is_any, numbers, some, strings
from kafka_medic.diagnose.disks import cannot_lead
from kafka_medic.diagnose.finding import Finding
from kafka_medic.resources.vocabulary import Severity

if TYPE_CHECKING:
    from kafka_medic.diagnose.scene import Scene

STUCK_FOR = 60.0
"""Seconds that a partition may wait for a leader although a live replica is in sync: the default
`zookeeper.session.timeout.ms` is 18 s and `broker.session.timeout.ms` 9 s, and the election of many thousands of
partitions takes seconds."""
PLAYBOOK = "restart-controller"
MARGIN = 1.5
STEP_MS = 5_000
DEFAULT_API_TIMEOUT_MS = 60_000
"""Kafka's own default of the clients' `default.api.timeout.ms`."""

UNLED_SCHEMA: pa.Schema = pa.schema(
    [
        column("topic", pa.string(), nullable=False),
        column("partition", pa.int32(), nullable=False),
        column("leader", pa.int32(), nullable=False),
        column("epoch", pa.int32()),
        column("seconds", pa.float64(), nullable=False),
    ]
)
"""Partitions without a leader, or whose leader is gone, and for how many seconds that has been seen."""


@dataclass(frozen=True, slots=True)
class Outage:
    """A time that a partition of `topic` had no leader; `at`: when it was last seen so, or seen to be over."""

    topic: str
    seconds: float
    at: datetime
    leader: int = NO_LEADER
    epoch: int | None = None


def implied_timeout_ms(seconds: float) -> int:
    """The `default.api.timeout.ms` with which clients would have outlasted that: half as much again, in whole steps of
    5 s, and never less than Kafka's own default."""
    wanted = seconds * 1000 * MARGIN
    return max(DEFAULT_API_TIMEOUT_MS, int(-(-wanted // STEP_MS)) * STEP_MS)


def gone(broker: Broker | None, snapshot: Snapshot, pods_known: bool) -> bool:
    """The broker does not run, as far as anybody but the controller can tell. In ZooKeeper it is its session that says
    so. With KRaft it is the controller that would take it out of the metadata, so one that does not answer and has no
    Ready Pod is gone as well; unless it keeps up with the quorum as a voter: then it runs, and only its clients, the
    kubelet among them, do not get through to it."""
    if broker is None or broker.registered is False:
        return True
    if snapshot.cluster.mode is not Mode.KRAFT or broker.reachable is not False:
        return False
    ages = [v.last_caught_up_ms for v in snapshot.quorum.voters if v.id == broker.id] if snapshot.quorum else []
    if any(age is not None and age < FETCH_TIMEOUT_MS for age in ages):
        return False
    return broker.pod.ready is False if broker.pod is not None else pods_known


def without_leader(p: Partitions, snapshot: Snapshot) -> Mask:
    """Rows that nobody leads, or only a broker that is gone."""
    if snapshot.brokers is None:
        return p.leader.known & (p.leader.values < 0)
    source = snapshot.source("kubernetes")
    pods_known = source is not None and source.known
    dead = [
        int(b)
        for b in np.unique(p.leader.values[p.leader.known])
        if b >= 0 and gone(snapshot.broker(int(b)), snapshot, pods_known)
    ]
    return p.leader.known & ((p.leader.values < 0) | is_any(p.leader.values, dead))


def lengthen(unled: pa.Table, p: Partitions, snapshot: Snapshot, passed: float) -> tuple[pa.Table, pa.Table]:
    """(those without a leader now, those that have one again), `passed` seconds after `unled` was so. One that had a
    leader in between, as its epoch shows, begins anew."""
    rows = np.flatnonzero(without_leader(p, snapshot))
    seconds = np.zeros(len(p))
    goes_on = np.zeros(len(p), dtype=np.bool_)
    ended: pa.Table = unled.slice(0, 0)
    kept = unled
    if unled.num_rows and len(p):
        at = p.rows_of(unled["topic"], numbers(unled["partition"]).values)
        known = (at >= 0) & p.leader.known[at]
        now = np.zeros(len(p), dtype=np.bool_)
        now[rows] = True
        epochs = numbers(unled["epoch"])
        led_between = epochs.known & p.leader_epoch.known[at] & (p.leader_epoch.values[at] - epochs.values > 1)
        same = known & now[at] & ~led_between
        before = unled["seconds"].to_numpy() + passed
        seconds[at[same]] = before[same]
        goes_on[at[same]] = True
        # A partition whose leader is not known now is neither: it stays as it was, without the time.
        over = known & ~same
        index = unled.schema.get_field_index("seconds")
        ended = unled.set_column(index, unled.schema.field(index), pa.array(before)).take(np.flatnonzero(over))
        unsure = (at >= 0) & ~p.leader.known[at]
        kept = unled.take(np.flatnonzero(unsure))
    elif not len(p):
        kept = unled.slice(0, 0)
    now_unled = _table(p, rows, seconds)
    return (pa.concat_tables([now_unled, kept]).combine_chunks() if kept.num_rows else now_unled), ended


def outages(unled: pa.Table, now: datetime) -> Iterator[Outage]:
    """The longest of each topic."""
    if not unled.num_rows:
        return
    grouped = unled.group_by("topic").aggregate([("seconds", "max")])
    lasted: list[Any] = grouped["seconds_max"].to_pylist()
    for topic, seconds in zip(strings(grouped["topic"]), lasted, strict=True):
        if seconds > 0:
            yield Outage(topic, seconds, now)


def longest_of(outages: Iterable[Outage], limit: int) -> tuple[Outage, ...]:
    """The longest of each topic, the longest first, `limit` topics."""
    best: dict[str, Outage] = {}
    for outage in outages:
        held = best.get(outage.topic)
        if held is None or outage.seconds > held.seconds:
            best[outage.topic] = outage
    return tuple(sorted(best.values(), key=lambda o: (-o.seconds, o.topic))[:limit])


def detect(scene: Scene) -> Iterator[Finding]:
    """ControllerStuck: somebody is controller, partitions have no leader or one that is gone, and nobody is elected
    although a live replica is in sync. Where nobody live is in the ISR, or only on a failed disk, there is nothing to
    elect; where nobody is controller nobody is stuck. All of these have findings of their own."""
    p, controller, snapshot = scene.partitions, scene.snapshot.controller, scene.snapshot
    if p is None or not scene.live or controller is None or controller.id is None or controller.id < 0:
        return
    waiting = without_leader(p, snapshot)
    able = is_any(p.isr.ids, scene.live) & (p.isr.ids != p.leader.values[p.isr.rows])
    able &= ~cannot_lead(p, scene.brokers)
    stuck = waiting & (p.isr.per_row(able) > 0)
    if not stuck.any():
        return
    dead = sorted({int(b) for b in p.leader.values[stuck] if b >= 0})
    electable = sorted(set(p.isr.ids[able & stuck[p.isr.rows]].tolist()))
    answers = scene.snapshot.broker(controller.id)
    state = "answers" if answers is not None and answers.reachable else "is not known to answer"
    evidence = [
        f"broker {controller.id} is the controller and {state}, {scene.read_from('zookeeper', 'quorum', 'kafka')}",
        f"in sync and live, so that they could be elected: {some([f'broker {b}' for b in electable])}",
        scene.read_from("views", "kafka"),
    ]
    if dead:
        evidence.insert(1, f"still named as leader though gone: {some([_gone(scene, b) for b in dead])}")
    yield Finding(
        id="ControllerStuck",
        type="ControllerStuck",
        severity=Severity.CRITICAL,
        message=f"broker {controller.id} is the controller, but {int(stuck.sum())} partitions get no new leader",
        affected=(f"broker-{controller.id}", *p.names(stuck)),
        evidence=tuple(evidence),
        for_seconds=STUCK_FOR,
        playbook=PLAYBOOK,
        since=_since(scene, p, stuck),
    )


def _since(scene: Scene, p: Partitions, stuck: Mask) -> datetime | None:
    """Since the longest of exactly these waits, so that one election after another is no long wait."""
    if scene.memory is None:
        return None
    unled = scene.memory.unled
    at = p.rows_of(unled["topic"], numbers(unled["partition"]).values)
    mine: Ints = np.flatnonzero((at >= 0) & stuck[at])
    seconds = unled["seconds"].to_numpy()[mine]
    return scene.snapshot.taken_at - timedelta(seconds=float(seconds.max()) if len(seconds) else 0.0)


def _gone(scene: Scene, broker_id: int) -> str:
    broker = scene.snapshot.broker(broker_id)
    if broker is None or broker.registered is False:
        return f"broker {broker_id} (not registered)"
    return f"broker {broker_id} (does not answer, its Pod is not Ready)"


def _table(p: Partitions, rows: Ints, seconds: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> pa.Table:
    if not len(rows):
        return UNLED_SCHEMA.empty_table()
    epochs = pa.array(p.leader_epoch.values[rows].astype(np.int32), mask=~p.leader_epoch.known[rows])
    columns = [
        pa.array([p.topics[c] for c in p.topic[rows].tolist()], pa.string()),
        pa.array(p.partition[rows].astype(np.int32)),
        pa.array(p.leader.values[rows].astype(np.int32)),
        epochs,
        pa.array(seconds[rows]),
    ]
    return pa.table(columns, schema=UNLED_SCHEMA)
