"""Brokers that, asked alone, tell different stories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kafka_medic.cluster.snapshot import NO_LEADER, Mode, Snapshot, View
from kafka_medic.diagnose.columns import Ints, Mask, Partitions, numbers, partitions_of, some
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.scene import Scene, broker_name
from kafka_medic.resources.vocabulary import Severity

DIVERGED_FOR = 30.0
"""Seconds: two probes at the default interval. An election reaches every broker within one."""

MAX_EXAMPLES = 5
VIEWS = "divergences"
"""Where a Snapshot keeps them (`Snapshot.worked_out`)."""


@dataclass(frozen=True, slots=True, eq=False)
class StaleLeaders:
    """Rows of the authority's `partitions` of which a broker believes another leader or epoch, and which."""

    partitions: Partitions | None
    rows: Ints
    leaders: Ints
    epochs: Ints

    def __len__(self) -> int:
        return len(self.rows)

    def any_of(self, before: StaleLeaders) -> bool:
        """Whether any of these beliefs was held before already."""
        mine, theirs = self.partitions, before.partitions
        if mine is None or theirs is None or not len(self) or not len(before):
            return False
        topics = pa.array([theirs.topics[code] for code in theirs.topic[before.rows].tolist()], pa.string())
        at = mine.rows_of(pa.chunked_array([topics]), theirs.partition[before.rows])
        leader, epoch = np.full(len(mine), NO_LEADER - 1), np.full(len(mine), -1)
        leader[at[at >= 0]], epoch[at[at >= 0]] = before.leaders[at >= 0], before.epochs[at >= 0]
        return bool(((leader[self.rows] == self.leaders) & (epoch[self.rows] == self.epochs)).any())


@dataclass(frozen=True, slots=True)
class Divergence:
    """How one broker's view differs from the authority's: the registrations, and the newest leader epoch that
    anybody knows of. Leader epochs only ever rise (KIP-101), so the lower one is the stale side, whoever
    serves the traffic."""

    broker: int
    members: tuple[str, ...]
    controller: str | None
    leaders: StaleLeaders
    examples: tuple[str, ...]

    @property
    def any(self) -> bool:
        return bool(self.members or self.controller or len(self.leaders))


def detect(scene: Scene) -> Iterator[Finding]:
    """ViewDiverged, one for each broker whose view differs from the authority's."""
    for divergence in divergences(scene.snapshot):
        broker = divergence.broker
        evidence = [f"broker {broker}, {scene.read_from('views', 'kafka')}:", *divergence.members]
        if divergence.controller:
            evidence.append(divergence.controller)
        if stale := len(divergence.leaders):
            more = f" and {stale - MAX_EXAMPLES} more" if stale > MAX_EXAMPLES else ""
            evidence.append(f"{stale} leaders differ: {', '.join(divergence.examples)}{more}")
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
    older = {d.broker: d for d in divergences(before.snapshot)}
    fresh = set()
    for now in divergences(scene.snapshot):
        then = older.get(now.broker)
        if then is None:
            continue
        lasting_members = set(now.members) & set(then.members)
        lasting_controller = now.controller and now.controller == then.controller
        if not lasting_members and not lasting_controller and not now.leaders.any_of(then.leaders):
            fresh.add(f"ViewDiverged/{broker_name(now.broker)}")
    return frozenset(fresh)


def divergences(snapshot: Snapshot) -> tuple[Divergence, ...]:
    """Every broker that answered and whose answer differs. What it did not answer is not compared."""
    if VIEWS not in snapshot.worked_out:
        snapshot.worked_out[VIEWS] = _divergences(snapshot, partitions_of(snapshot))
    found: tuple[Divergence, ...] = snapshot.worked_out[VIEWS]
    return found


def _divergences(snapshot: Snapshot, partitions: Partitions | None) -> tuple[Divergence, ...]:
    views = snapshot.views or ()
    if not views:
        return ()
    stale: dict[int, tuple[StaleLeaders, tuple[str, ...]]] = {}
    nothing = StaleLeaders(partitions, *(np.empty(0, dtype=np.int64) for _ in range(3)))
    if partitions is not None:
        # Views that are equal share a table, so that a healthy cluster's are compared once.
        tables = {id(v.leaders): v.leaders for v in views if v.leaders is not None}
        told = {key: _told(table, partitions) for key, table in tables.items()}
        newest = _newest(tuple(told.values()), partitions)
        stale = {key: _stale(partitions, answer, newest) for key, answer in told.items()}
    registered, unsure = _registered(snapshot)
    found = []
    for view in views:
        leaders, examples = stale.get(id(view.leaders), (nothing, ()))
        members = () if registered is None else tuple(_members(registered, unsure, view))
        found.append(Divergence(view.broker, members, _controller(snapshot, view), leaders, examples))
    return tuple(d for d in found if d.any)


_Told = tuple[Ints, Ints, Ints, Mask]
"""Rows of the authority's partitions (-1: not there), leaders, epochs, and where both are known."""


def _newest(told: tuple[_Told, ...], p: Partitions) -> tuple[Ints, Ints]:
    """(leader, epoch) of each partition as whoever knows the highest epoch has it; epoch -1 where nobody
    knows one."""
    epoch = np.where(p.leader_epoch.known & p.leader.known, p.leader_epoch.values, -1)
    leader = p.leader.values.copy()
    for rows, leaders, epochs, known in told:
        newer = known & (rows >= 0)
        newer[newer] = epochs[newer] > epoch[rows[newer]]
        epoch[rows[newer]] = epochs[newer]
        leader[rows[newer]] = leaders[newer]
    return leader, epoch


def _told(table: pa.Table, p: Partitions) -> _Told:
    leaders, epochs = numbers(table["leader"]), numbers(table["epoch"])
    rows = p.rows_of(table["topic"], numbers(table["partition"]).values)
    return rows, leaders.values, epochs.values, leaders.known & epochs.known


def _stale(p: Partitions, told: _Told, newest: tuple[Ints, Ints]) -> tuple[StaleLeaders, tuple[str, ...]]:
    """Where the answer differs from the newest, and a few of these places in words."""
    rows, leaders, epochs, known = told
    leader, epoch = newest
    differs = known & (rows >= 0)
    differs[differs] = (epoch[rows[differs]] >= 0) & (
        (epochs[differs] != epoch[rows[differs]]) | (leaders[differs] != leader[rows[differs]])
    )
    where = np.flatnonzero(differs)
    examples = tuple(
        f"{p.name(int(rows[i]))} led by {leaders[i]} (epoch {epochs[i]}), according to the authority "
        f"by {leader[rows[i]]} (epoch {epoch[rows[i]]})"
        for i in where[:MAX_EXAMPLES].tolist()
    )
    return StaleLeaders(p, rows[where], leaders[where], epochs[where]), examples


def _registered(snapshot: Snapshot) -> tuple[frozenset[int] | None, frozenset[int]]:
    """Who is registered (None: not known), and of whom it is not known."""
    if snapshot.brokers is None:
        return None, frozenset()
    return (
        frozenset(b.id for b in snapshot.brokers if b.registered is True),
        frozenset(b.id for b in snapshot.brokers if b.registered is None),
    )


def _members(registered: frozenset[int], unsure: frozenset[int], view: View) -> Iterator[str]:
    if view.members is None:
        return
    # A broker of which it is not known whether it is registered proves nothing either way.
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
