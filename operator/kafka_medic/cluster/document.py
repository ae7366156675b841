"""The Snapshot as a JSON document and back: the format that `kafka-medic snapshot -o json` fixes.

`partitions`, `groups` and `views` are lists of objects in the document and Arrow tables in memory. Some keys are
additions of ours that a foreign document may lack, such as `configs` and `rollouts` (absence means "not known").
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from kafka_medic.cluster.broker_document import broker_in, broker_out, rollout_in, rollout_out
from kafka_medic.cluster.diverged_document import diverged_in, diverged_out
from kafka_medic.cluster.fields import (
    SnapshotDocumentError,
    list_of,
    mapping,
    moment,
    optional,
    parse_timestamp,
    required,
    timestamp,
    whole,
)
from kafka_medic.cluster.snapshot import (
    CANARY_SCHEMA,
    CONFIGS_SCHEMA,
    GROUPS_SCHEMA,
    LEADERS_SCHEMA,
    PARTITIONS_SCHEMA,
    ClusterInfo,
    Controller,
    Mode,
    Quorum,
    Snapshot,
    Source,
    SourceState,
    View,
    Voter,
)

__all__ = ["SnapshotDocumentError", "from_document", "parse_timestamp", "timestamp", "to_document"]

API_VERSION = "kafkamedic.dev/v1alpha1"
T = TypeVar("T")


def to_document(snapshot: Snapshot) -> dict[str, Any]:
    """The JSON-ready dictionary of a Snapshot."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Snapshot",
        "cluster": {
            "name": snapshot.cluster.name,
            "id": snapshot.cluster.id,
            "mode": snapshot.cluster.mode.value if snapshot.cluster.mode else None,
            "version": snapshot.cluster.version,
        },
        "takenAt": timestamp(snapshot.taken_at),
        "sources": [
            {
                "name": s.name,
                "observedAt": timestamp(s.observed_at) if s.observed_at else None,
                "state": s.state.value,
                "error": s.error,
                "durationMs": s.duration_ms,
            }
            for s in snapshot.sources
        ],
        "brokers": None if snapshot.brokers is None else [broker_out(b) for b in snapshot.brokers],
        "controller": snapshot.controller and {"id": snapshot.controller.id, "epoch": snapshot.controller.epoch},
        "quorum": snapshot.quorum
        and {
            "leader": snapshot.quorum.leader,
            "voters": [
                {"id": v.id, "lag": v.lag, "lastCaughtUpMs": v.last_caught_up_ms} for v in snapshot.quorum.voters
            ],
        },
        "views": None if snapshot.views is None else [_view_out(v) for v in snapshot.views],
        "partitions": None if snapshot.partitions is None else snapshot.partitions.to_pylist(),
        "groups": None if snapshot.groups is None else snapshot.groups.to_pylist(),
        "configs": None if snapshot.configs is None else snapshot.configs.to_pylist(),
        "rollouts": None if snapshot.rollouts is None else [rollout_out(r) for r in snapshot.rollouts],
        "canary": None if snapshot.canary is None else snapshot.canary.to_pylist(),
    }


def from_document(document: Any) -> Snapshot:
    """Read a document back. Raises SnapshotDocumentError naming the bad key; unknown extra keys are ignored, since
    a newer writer may add some."""
    root = mapping(document, "$")
    if root.get("kind") != "Snapshot":
        raise SnapshotDocumentError("kind", f"must be 'Snapshot', not {root.get('kind')!r}")
    if root.get("apiVersion", API_VERSION) != API_VERSION:
        raise SnapshotDocumentError("apiVersion", f"must be {API_VERSION!r}, not {root.get('apiVersion')!r}")
    cluster = mapping(required(root, "cluster", ""), "cluster")
    mode = optional(cluster, "mode", "cluster", str)
    if mode is not None and mode not in {m.value for m in Mode}:
        raise SnapshotDocumentError("cluster.mode", f"must be KRaft or ZooKeeper, not {mode!r}")
    snapshot = Snapshot(
        cluster=ClusterInfo(
            name=optional(cluster, "name", "cluster", str) or "",
            id=optional(cluster, "id", "cluster", str),
            mode=Mode(mode) if mode else None,
            version=optional(cluster, "version", "cluster", str),
        ),
        taken_at=moment(required(root, "takenAt", ""), "takenAt"),
        sources=list_of(root.get("sources") or [], "sources", _source_in),
        brokers=_maybe_list(root, "brokers", broker_in),
        controller=_maybe(root, "controller", _controller_in),
        quorum=_maybe(root, "quorum", _quorum_in),
        views=_maybe_list(root, "views", _view_in),
        partitions=_table(root, "partitions", PARTITIONS_SCHEMA, _check_partition),
        groups=_table(root, "groups", GROUPS_SCHEMA),
        configs=_table(root, "configs", CONFIGS_SCHEMA),
        rollouts=_maybe_list(root, "rollouts", rollout_in),
        canary=_table(root, "canary", CANARY_SCHEMA, _check_canary),
    )
    # Of two answers to one question one would be lost, and it might be the true one.
    _once((s.name for s in snapshot.sources), "sources", "name")
    _once((b.id for b in snapshot.brokers or ()), "brokers", "id")
    if snapshot.canary is not None:
        names = zip(snapshot.canary["topic"].to_pylist(), snapshot.canary["partition"].to_pylist(), strict=True)
        _once(names, "canary", "partition")
    _once((v.broker for v in snapshot.views or ()), "views", "broker")
    return snapshot


def _view_out(view: View) -> dict[str, Any]:
    leaders = None
    if view.leaders is not None:
        columns = [view.leaders[name].to_pylist() for name in ("topic", "partition", "leader", "epoch")]
        leaders = [list(row) for row in zip(*columns, strict=True)]
    return {
        "broker": view.broker,
        "members": None if view.members is None else list(view.members),
        "controller": view.controller,
        "leaders": leaders,
        "diverged": None if view.diverged is None else [diverged_out(log) for log in view.diverged],
        "observedAt": timestamp(view.observed_at) if view.observed_at else None,
    }


def _once(ids: Iterable[Hashable], path: str, key: str) -> None:
    seen: set[Hashable] = set()
    for i, value in enumerate(ids):
        if value in seen:
            raise SnapshotDocumentError(f"{path}[{i}].{key}", f"{value} is there twice")
        seen.add(value)


def _maybe_list(root: Mapping[str, Any], key: str, read: Callable[[Any, str], T]) -> tuple[T, ...] | None:
    value = root.get(key)
    return None if value is None else list_of(value, key, read)


def _maybe(root: Mapping[str, Any], key: str, read: Callable[[Any, str], T]) -> T | None:
    value = root.get(key)
    return None if value is None else read(value, key)


def _source_in(value: Any, path: str) -> Source:
    item = mapping(value, path)
    state = required(item, "state", path)
    if state not in ("Known", "Unknown"):
        raise SnapshotDocumentError(f"{path}.state", f"must be Known or Unknown, not {state!r}")
    observed = item.get("observedAt")
    name = required(item, "name", path)
    if not isinstance(name, str):
        raise SnapshotDocumentError(f"{path}.name", f"must be str, not {name!r}")
    return Source(
        name=name,
        observed_at=None if observed is None else moment(observed, f"{path}.observedAt"),
        state=SourceState(state),
        error=optional(item, "error", path, str),
        duration_ms=optional(item, "durationMs", path, int),
    )


def _controller_in(value: Any, path: str) -> Controller:
    item = mapping(value, path)
    return Controller(id=optional(item, "id", path, int), epoch=optional(item, "epoch", path, int))


def _quorum_in(value: Any, path: str) -> Quorum:
    item = mapping(value, path)

    def voter(entry: Any, where: str) -> Voter:
        row = mapping(entry, where)
        return Voter(
            id=whole(required(row, "id", where), f"{where}.id"),
            lag=optional(row, "lag", where, int),
            last_caught_up_ms=optional(row, "lastCaughtUpMs", where, int),
        )

    return Quorum(
        leader=optional(item, "leader", path, int),
        voters=list_of(item.get("voters") or [], f"{path}.voters", voter),
    )


def _view_in(value: Any, path: str) -> View:
    item = mapping(value, path)
    members, leaders, observed = item.get("members"), item.get("leaders"), item.get("observedAt")
    table = None
    if leaders is not None:
        rows = list_of(leaders, f"{path}.leaders", _leader_row)
        table = _arrow(
            [dict(zip(LEADERS_SCHEMA.names, row, strict=True)) for row in rows],
            LEADERS_SCHEMA,
            f"{path}.leaders",
        )
    return View(
        broker=whole(required(item, "broker", path), f"{path}.broker"),
        members=None if members is None else list_of(members, f"{path}.members", whole),
        controller=optional(item, "controller", path, int),
        leaders=table,
        diverged=None if item.get("diverged") is None else list_of(item["diverged"], f"{path}.diverged", diverged_in),
        observed_at=None if observed is None else moment(observed, f"{path}.observedAt"),
    )


def _leader_row(value: Any, path: str) -> tuple[Any, ...]:
    row = list_of(value, path, lambda item, _: item)
    if len(row) != len(LEADERS_SCHEMA.names):
        raise SnapshotDocumentError(path, "must be [topic, partition, leader, epoch]")
    return row


def _check_canary(row: Mapping[str, Any], path: str) -> None:
    if row.get("lastOkAt") is not None:
        moment(row["lastOkAt"], f"{path}.lastOkAt")


def _check_partition(row: Mapping[str, Any], path: str) -> None:
    for key in ("replicas", "isr"):
        ids = row.get(key)
        if isinstance(ids, list) and len(set(ids)) != len(ids):
            raise SnapshotDocumentError(f"{path}.{key}", f"names a broker twice: {ids}")


def _table(
    root: Mapping[str, Any],
    key: str,
    schema: pa.Schema,
    check: Callable[[Mapping[str, Any], str], None] | None = None,
) -> pa.Table | None:
    value = root.get(key)
    if value is None:
        return None
    rows = list_of(value, key, mapping)
    for i, row in enumerate(rows):
        for field in schema:
            if not field.nullable and row.get(field.name) is None:
                raise SnapshotDocumentError(f"{key}[{i}].{field.name}", "is missing")
    table = _arrow([{name: row.get(name) for name in schema.names} for row in rows], schema, key)
    if check:
        for i, row in enumerate(rows):
            check(row, f"{key}[{i}]")
    return table


def _arrow(rows: list[dict[str, Any]], schema: pa.Schema, path: str) -> pa.Table:
    for field in schema:
        _check_column([row[field.name] for row in rows], field, path)
    try:
        return pa.Table.from_pylist(rows, schema=schema)
    except _NOT_ARROW as problem:
        for i, row in enumerate(rows):  # find the value, so that the message can name it
            for field in schema:
                try:
                    pa.array([row[field.name]], field.type)
                except _NOT_ARROW as why:
                    raise SnapshotDocumentError(f"{path}[{i}].{field.name}", str(why)) from why
        raise SnapshotDocumentError(path, str(problem)) from problem


_NOT_ARROW = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError)
_NULL = type(None)


def _check_column(values: Sequence[Any], field: pa.Field[Any], path: str) -> None:
    """Arrow would cut 1.9 down to 1 and take true for 1, without a word."""
    inner = field.type.value_type if pa.types.is_list(field.type) else field.type
    kind: type = int if pa.types.is_integer(inner) else bool if pa.types.is_boolean(inner) else str
    wanted = "whole" if kind is int else kind.__name__
    if inner is field.type:
        if set(map(type, values)) <= {kind, _NULL}:
            return
        i = next(i for i, v in enumerate(values) if type(v) not in (kind, _NULL))
        raise SnapshotDocumentError(f"{path}[{i}].{field.name}", f"must be {wanted} or null, not {values[i]!r}")
    for i, ids in enumerate(values):
        if ids is not None and (not isinstance(ids, list | tuple) or not set(map(type, ids)) <= {kind, _NULL}):
            told = f"must be a list of {wanted} numbers or null, not {ids!r}"
            raise SnapshotDocumentError(f"{path}[{i}].{field.name}", told)
