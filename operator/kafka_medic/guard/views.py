"""Do all brokers tell the same story?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from kafka_medic.cluster.snapshot import Mode, Snapshot, View
from kafka_medic.guard.context import RestartQuestion
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.stuck import undeclared
from kafka_medic.guard.verdict import Reason, Verdict

VIEWS_AGREE = "ViewsAgree"
_KEYS = {"leader": "leader", "epoch": "leaderEpoch"}


def views_agree(snapshot: Snapshot, question: RestartQuestion) -> tuple[Reason, ...]:
    """Every broker that answers names the registered members and, for each partition, the same leader and
    epoch as the authority. A difference is allowed only in brokers that this run is there to cure, when the
    target is one of them. Brokers that the run itself has away are not asked, and whether they are members is not
    settled; nor is it of those that only a new controller can declare gone.
    """
    guard, cures, away = VIEWS_AGREE, question.context.cures, question.context.together
    unsettled = away | undeclared(snapshot, question)
    if snapshot.views is None or snapshot.brokers is None or snapshot.partitions is None:
        what = [n for n in ("views", "brokers", "partitions") if getattr(snapshot, n) is None]
        return (Reason(guard, Verdict.UNKNOWN, f"not known: {some(what)}"),)
    views = {v.broker: v for v in snapshot.views}
    # A broker that is known to be down has no view to give; that it is down is for another guard.
    asked = [b.id for b in snapshot.brokers if b.reachable is not False and (b.registered is not False or b.reachable)]
    asked = [b for b in asked if b not in away]
    reasons: list[Reason] = []
    differing: list[int] = []
    silent: list[int] = []
    if len(views) != len(snapshot.views):
        reasons.append(Reason(guard, Verdict.UNKNOWN, "the snapshot has more than one view of the same broker"))
    for broker in sorted({*asked, *views} - away):
        view = views.get(broker)
        if view is None or view.members is None or view.leaders is None:
            if broker in asked:
                silent.append(broker)
            continue
        gaps, differences = _compare(snapshot, view, unsettled)
        if gaps:
            reasons.append(Reason(guard, Verdict.UNKNOWN, f"broker {broker}: {some(gaps, 5)}"))
        if differences:
            differing.append(broker)
            if not (broker in cures and question.broker in cures):
                message = f"broker {broker} tells another story: {some(differences, 5)}"
                reasons.append(Reason(guard, Verdict.DENY, message))
    if silent:
        message = f"broker {some(silent)} has not told its view of the cluster"
        reasons.append(Reason(guard, Verdict.UNKNOWN, message))
    if reasons:
        return tuple(reasons)
    if differing:
        message = f"the views of broker {some(differing)} differ, and curing exactly that is this run's purpose"
        return (Reason(guard, Verdict.ALLOW, message),)
    if not asked:
        return (Reason(guard, Verdict.UNKNOWN, "no broker has told its view of the cluster"),)
    return (Reason(guard, Verdict.ALLOW, f"the views of {len(asked)} brokers agree"),)


def _compare(snapshot: Snapshot, view: View, unsettled: frozenset[int]) -> tuple[list[str], list[str]]:
    """(what cannot be compared, what differs)."""
    gaps: list[str] = []
    differences: list[str] = []
    brokers = snapshot.brokers or ()
    if unsure := [b.id for b in brokers if b.registered is None]:
        gaps.append(f"whether broker {some(unsure)} is registered is not known")
    else:
        registered = {b.id for b in brokers if b.registered}
        if (registered ^ set(view.members or ())) - unsettled:
            differences.append(f"members {some(sorted(view.members or ()))}, registered are {some(sorted(registered))}")
    if snapshot.cluster.mode is None:
        gaps.append("whether this is KRaft or ZooKeeper is not known")
    elif snapshot.cluster.mode is Mode.ZOOKEEPER:
        # KRaft brokers name a random live broker (KIP-590): only ZooKeeper's views have a controller to
        # compare.
        authority = snapshot.controller.id if snapshot.controller else None
        if authority is None or view.controller is None:
            gaps.append("the controller is not known on both sides")
        elif view.controller != authority:
            differences.append(f"controller {view.controller}, the active one is {authority}")
    gaps += _null_leaders(snapshot, view)
    differences += _leaders(snapshot, view)
    return gaps, differences


def _null_leaders(snapshot: Snapshot, view: View) -> Iterator[str]:
    for mine, theirs in _KEYS.items():
        if view.leaders is not None and view.leaders[mine].null_count:
            yield f"its view has partitions whose {mine} is not known"
        if snapshot.partitions is not None and snapshot.partitions[theirs].null_count:
            yield f"the authority has partitions whose {theirs} is not known"


def _leaders(snapshot: Snapshot, view: View) -> list[str]:
    assert snapshot.partitions is not None
    assert view.leaders is not None
    authority = snapshot.partitions.select(["topic", "partition", *_KEYS.values()])
    told = view.leaders.rename_columns(authority.column_names)
    if _same(told, authority):  # the usual case: nothing differs, and brokers list partitions in the same order
        return []
    theirs, ours = _by_partition(told), _by_partition(authority)
    return [
        f"{key[0]}-{key[1]} {_said(theirs.get(key))}, authority {_said(ours.get(key))}"
        for key in sorted(theirs.keys() | ours.keys())
        if _differs(theirs.get(key), ours.get(key))
    ]


def _same(left: pa.Table, right: pa.Table) -> bool:
    if left.num_rows != right.num_rows or any(left[n].null_count for n in left.column_names):
        return False
    return all(left[name].equals(right[name]) for name in left.column_names)


_Told = tuple[int | None, int | None]


def _by_partition(table: pa.Table) -> dict[tuple[str, int], _Told]:
    columns: list[list[Any]] = [table[n].to_pylist() for n in table.column_names]
    return {(t, p): (leader, epoch) for t, p, leader, epoch in zip(*columns, strict=True)}


def _differs(left: _Told | None, right: _Told | None) -> bool:
    if left is None or right is None:
        return True
    # Nulls are gaps, reported as such; what is known on both sides is still compared.
    return any(a is not None and b is not None and a != b for a, b in zip(left, right, strict=True))


def _said(told: _Told | None) -> str:
    return "not known there" if told is None else f"leader {told[0]} epoch {told[1]}"
