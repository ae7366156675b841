"""Brokers that, asked alone, tell different stories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kafka_medic.cluster.snapshot import Mode, Snapshot, View
from kafka_medic.diagnose.columns import Ints, Partitions, numbers, some, strings
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.scene import Scene, broker_name
from kafka_medic.resources.vocabulary import Severity

DIVERGED_FOR = 30.0
"""Seconds: two probes at the default interval. An election reaches every broker within one."""

StaleLeader = tuple[str, int, int, int]
"""(topic, partition, leader, epoch) as a broker believes it, where the authority says otherwise."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """How one broker's view differs from the authority's: the registrations, and the newest leader epoch that
    anybody knows of. Leader epochs only ever rise (KIP-101), so the lower one is the stale side, whoever
    serves the traffic."""

    broker: int
    members: tuple[str, ...]
    controller: str | None
    leaders: tuple[StaleLeader, ...]
    examples: tuple[str, ...]

    @property
    def any(self) -> bool:
        return bool(self.members or self.controller or self.leaders)


def detect(scene: Scene) -> Iterator[Finding]:
    """ViewDiverged, one for each broker whose view differs from the authority's."""
    for divergence in divergences(scene.snapshot, scene.partitions):
        broker = divergence.broker
        evidence = [f"broker {broker}, {scene.read_from('views', 'kafka')}:", *divergence.members]
        if divergence.controller:
            evidence.append(divergence.controller)
        if divergence.leaders:
            evidence.append(f"{len(divergence.leaders)} leaders differ: {some(divergence.examples, 5)}")
        evidence += _only_here(scene.snapshot, broker)
        evidence.append(
            f"the authority is {_authority(scene.snapshot)}, so it is broker {broker} whose view is stale; "
            "it is the one to restart, and no other first"
        )
        yield Finding(
            id=f"ViewDiverged/{broker_name(broker)}",
            type="ViewDiverged",
            severity=Severity.CRITICAL,
            message=f"broker {broker} has a different view of the cluster than its authority",
            affected=(broker_name(broker),),
            evidence=tuple(evidence),
            playbook="rolling-restart",
            for_seconds=DIVERGED_FOR,
        )


def _only_here(snapshot: Snapshot, broker: int) -> Iterator[str]:
    """How many records the stale broker holds that the cluster does not, per partition."""
    view = next((v for v in snapshot.views or () if v.broker == broker), None)
    if view is None or view.diverged is None:
        yield "which records only it holds could not be measured: its own log must be read before anything restarts it"
        return
    counted = [(log.tp, log.records) for log in view.diverged if log.records]
    unsure = [str(log.tp) for log in view.diverged if log.records is None]
    if counted:
        total = sum(records for _, records in counted if records)
        each = some([f"{tp}: {records}" for tp, records in counted], 10)
        yield f"{total} records are only in its own log and are lost when it restarts, unless they are saved: {each}"
    if unsure:
        yield f"how many records only it holds is not known for {some(unsure, 10)}: nobody leads them to compare with"
    if not counted and not unsure:
        yield "no record is in its log alone"


def only_propagating(scene: Scene, before: Scene) -> frozenset[str]:
    """Ids of ViewDiverged findings whose every difference is new since the snapshot before: elections
    following one upon another, each still on its way, and not one broker that stays behind."""
    older = {d.broker: d for d in divergences(before.snapshot, before.partitions)}
    fresh = set()
    for now in divergences(scene.snapshot, scene.partitions):
        then = older.get(now.broker)
        if then is None:
            continue
        lasting_leaders = set(now.leaders) & set(then.leaders)
        lasting_members = set(now.members) & set(then.members)
        if not lasting_leaders and not lasting_members and not (now.controller and now.controller == then.controller):
            fresh.add(f"ViewDiverged/{broker_name(now.broker)}")
    return frozenset(fresh)


def divergences(snapshot: Snapshot, partitions: Partitions | None) -> tuple[Divergence, ...]:
    """Every broker that answered and whose answer differs. What it did not answer is not compared."""
    views = snapshot.views or ()
    if not views:
        return ()
    newest = None if partitions is None else _newest(views, partitions)
    found = (_divergence(snapshot, view, partitions, newest) for view in views)
    return tuple(d for d in found if d.any)


def _newest(views: tuple[View, ...], p: Partitions) -> tuple[Ints, Ints]:
    """(leader, epoch) of each partition as whoever knows the highest epoch has it; epoch -1 where nobody
    knows one."""
    epoch = np.where(p.leader_epoch.known & p.leader.known, p.leader_epoch.values, -1)
    leader = p.leader.values.copy()
    for view in views:
        told = _told(view, p)
        if told is None:
            continue
        rows, leaders, epochs, known = told
        newer = known & (rows >= 0)
        newer[newer] = epochs[newer] > epoch[rows[newer]]
        epoch[rows[newer]] = epochs[newer]
        leader[rows[newer]] = leaders[newer]
    return leader, epoch


def _told(view: View, p: Partitions) -> tuple[Ints, Ints, Ints, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]] | None:
    if view.leaders is None:
        return None
    leaders, epochs = numbers(view.leaders["leader"]), numbers(view.leaders["epoch"])
    rows = p.rows_of(view.leaders["topic"], numbers(view.leaders["partition"]).values)
    return rows, leaders.values, epochs.values, leaders.known & epochs.known


def _divergence(snapshot: Snapshot, view: View, p: Partitions | None, newest: tuple[Ints, Ints] | None) -> Divergence:
    stale: list[StaleLeader] = []
    examples: list[str] = []
    told = None if p is None else _told(view, p)
    if told is not None and newest is not None and p is not None and view.leaders is not None:
        rows, leaders, epochs, known = told
        leader, epoch = newest
        differs = known & (rows >= 0)
        differs[differs] = (epoch[rows[differs]] >= 0) & (
            (epochs[differs] != epoch[rows[differs]]) | (leaders[differs] != leader[rows[differs]])
        )
        where = np.flatnonzero(differs)
        topics = strings(view.leaders["topic"].take(where))
        for topic, i in zip(topics, where.tolist(), strict=True):
            row = int(rows[i])
            stale.append((topic, int(p.partition[row]), int(leaders[i]), int(epochs[i])))
            if len(examples) < 5:
                examples.append(
                    f"{p.name(row)} led by {leaders[i]} (epoch {epochs[i]}), according to the authority "
                    f"by {leader[row]} (epoch {epoch[row]})"
                )
        if len(stale) > len(examples):
            examples += [f"{t}-{n}" for t, n, _, _ in stale[len(examples) :]]
    return Divergence(
        view.broker,
        tuple(_members(snapshot, view)),
        _controller(snapshot, view),
        tuple(stale),
        tuple(examples),
    )


def _members(snapshot: Snapshot, view: View) -> Iterator[str]:
    if view.members is None or snapshot.brokers is None:
        return
    registered = {b.id for b in snapshot.brokers if b.registered is True}
    # A broker of which it is not known whether it is registered proves nothing either way.
    unsure = {b.id for b in snapshot.brokers if b.registered is None}
    if missing := sorted(registered - set(view.members)):
        yield f"does not know the registered {_ids(missing)}"
    if ghosts := sorted(set(view.members) - registered - unsure):
        yield f"still counts {_ids(ghosts)}, not registered, among the members"


def _controller(snapshot: Snapshot, view: View) -> str | None:
    """KRaft brokers name a random live broker as controller (KIP-590), so only ZooKeeper's are compared."""
    controller = snapshot.controller
    if snapshot.cluster.mode is not Mode.ZOOKEEPER or controller is None or controller.id is None:
        return None
    if view.controller is None or view.controller == controller.id:
        return None
    return f"takes broker {view.controller} for the controller, which is broker {controller.id}"


def _authority(snapshot: Snapshot) -> str:
    if snapshot.cluster.mode is Mode.ZOOKEEPER:
        return "ZooKeeper's registrations and the newest leader epochs"
    return "the quorum's metadata and the newest leader epochs"


def _ids(ids: list[int]) -> str:
    return ("broker " if len(ids) == 1 else "brokers ") + ", ".join(map(str, ids))
