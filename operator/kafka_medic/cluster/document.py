"""The Snapshot as a JSON document and back: the format that `kafka-medic snapshot -o json` fixes.

`partitions`, `groups` and `views` are lists of objects in the document and Arrow tables in memory. Some keys are
additions of ours that a foreign document may lack, such as `configs` and `rollouts` (absence means "not known") or
`unread` (absence means that every known source was read in full).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from kafka_medic.cluster.broker_document import (
    broker_in,
    broker_out,
    owner_in,
    owner_out,
    pod_in,
    pod_out,
    rollout_in,
    rollout_out,
)
from kafka_medic.cluster.certificate_document import chain_in, chain_out
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
from kafka_medic.cluster.groups import DOCUMENTED, GROUPS_SCHEMA
from kafka_medic.cluster.snapshot import (
    CANARY_SCHEMA,
    CONFIGS_SCHEMA,
    LEADERS_SCHEMA,
    PARTITIONS_SCHEMA,
    ClusterInfo,
    Controller,
    Element,
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
            "namespace": snapshot.cluster.namespace,
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
                {"id": v.id, "lag": v.lag, "lastCaughtUpMs": v.last_caught_up_ms, "pod": v.pod and pod_out(v.pod)}
                for v in snapshot.quorum.voters
            ],
        },
        "views": None if snapshot.views is None else _views_out(snapshot.views),
        "partitions": None if snapshot.partitions is None else snapshot.partitions.to_pylist(),
        "groups": None if snapshot.groups is None else snapshot.groups.select(list(DOCUMENTED)).to_pylist(),
        "configs": None if snapshot.configs is None else snapshot.configs.to_pylist(),
        "rollouts": None if snapshot.rollouts is None else [rollout_out(r) for r in snapshot.rollouts],
        "owners": None if snapshot.owners is None else [owner_out(owner) for owner in snapshot.owners],
        "certificates": None if snapshot.certificates is None else [chain_out(c) for c in snapshot.certificates],
        "unplacedPods": [pod_out(pod) for pod in snapshot.unplaced],
        "unplacedControllerPods": [pod_out(pod) for pod in snapshot.unplaced_controllers],
        "canary": None if snapshot.canary is None else snapshot.canary.to_pylist(),
        "unread": [{**element._asdict(), "error": why} for element, why in snapshot.unread.items()],
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
            namespace=optional(cluster, "namespace", "cluster", str),
        ),
        taken_at=moment(required(root, "takenAt", ""), "takenAt"),
        sources=list_of(root.get("sources") or [], "sources", _source_in),
        brokers=_maybe_list(root, "brokers", broker_in),
        controller=_maybe(root, "controller", _controller_in),
        quorum=_maybe(root, "quorum", _quorum_in),
        views=_maybe_list(root, "views", _view_in),
        partitions=_table(root, "partitions", PARTITIONS_SCHEMA, ("topic", "partition")),
        groups=_table(root, "groups", GROUPS_SCHEMA, ("group", "topic", "partition")),
        configs=_table(root, "configs", CONFIGS_SCHEMA, ("resourceType", "resource", "name")),
        rollouts=_maybe_list(root, "rollouts", rollout_in),
        owners=_maybe_list(root, "owners", owner_in),
        certificates=_maybe_list(root, "certificates", chain_in),
        canary=_table(root, "canary", CANARY_SCHEMA, ("topic", "partition")),
        unplaced=list_of(root.get("unplacedPods") or [], "unplacedPods", pod_in),
        unplaced_controllers=list_of(root.get("unplacedControllerPods") or [], "unplacedControllerPods", pod_in),
        unread=dict(list_of(root.get("unread") or [], "unread", _unread_in)),
    )
    _check_partitions(root.get("partitions") or ())
    # Of two answers to one question one would be lost, and it might be the true one.
    _once((s.name for s in snapshot.sources), "sources", "name")
    _once((b.id for b in snapshot.brokers or ()), "brokers", "id")
    for n, row in enumerate(root.get("canary") or ()):
        if row.get("lastOkAt") is not None:
            moment(row["lastOkAt"], f"canary[{n}].lastOkAt")
    _once((v.broker for v in snapshot.views or ()), "views", "broker")
    return snapshot


def _views_out(views: Sequence[View]) -> list[dict[str, Any]]:
    """Views that share a table share its rows."""
    rows: dict[int, list[list[Any]]] = {}
    topics: dict[int, list[list[Any]]] = {}
    for view in views:
        if view.leaders is not None and id(view.leaders) not in rows:
            columns = [view.leaders[name].to_pylist() for name in _LISTED]
            rows[id(view.leaders)] = [list(row) for row in zip(*columns, strict=True)]
            ids = zip(view.leaders["topic"].to_pylist(), view.leaders["topicId"].to_pylist(), strict=True)
            topics[id(view.leaders)] = [list(pair) for pair in sorted({pair for pair in ids if pair[1] is not None})]
    return [
        {
            "broker": view.broker,
            "members": None if view.members is None else list(view.members),
            "controller": view.controller,
            "leaders": None if view.leaders is None else rows[id(view.leaders)],
            "topicIds": None if view.leaders is None else topics[id(view.leaders)],
            "diverged": None if view.diverged is None else [diverged_out(log) for log in view.diverged],
            "observedAt": timestamp(view.observed_at) if view.observed_at else None,
        }
        | ({} if view.covers is None else {"covers": sorted(view.covers)})
        for view in views
    ]


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


def _unread_in(value: Any, path: str) -> tuple[Element, str]:
    item = mapping(value, path)
    texts = [optional(item, key, path, str) for key in (*Element._fields, "error")]
    if None in texts:
        raise SnapshotDocumentError(path, "needs source, kind, name and error")
    source, kind, name, error = (text or "" for text in texts)
    return Element(source, kind, name), error


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
            pod=None if row.get("pod") is None else pod_in(row["pod"], f"{where}.pod"),
        )

    return Quorum(
        leader=optional(item, "leader", path, int),
        voters=list_of(item.get("voters") or [], f"{path}.voters", voter),
    )


def _view_in(value: Any, path: str) -> View:
    item = mapping(value, path)
    members, leaders, observed = item.get("members"), item.get("leaders"), item.get("observedAt")
    covers = item.get("covers")
    topics = None if covers is None else list_of(covers, f"{path}.covers", lambda topic, _: str(topic))
    ids = dict(list_of(item.get("topicIds") or [], f"{path}.topicIds", _topic_id_in))
    table = None if leaders is None else _leaders_in(leaders, ids, f"{path}.leaders")
    return View(
        broker=whole(required(item, "broker", path), f"{path}.broker"),
        members=None if members is None else list_of(members, f"{path}.members", whole),
        controller=optional(item, "controller", path, int),
        leaders=table,
        diverged=None if item.get("diverged") is None else list_of(item["diverged"], f"{path}.diverged", diverged_in),
        observed_at=None if observed is None else moment(observed, f"{path}.observedAt"),
        covers=None if topics is None else frozenset(topics),
    )


def _topic_id_in(value: Any, path: str) -> tuple[str, str]:
    found = list_of(value, path, lambda one, _: one)
    if len(found) != 2 or not all(isinstance(one, str) for one in found):
        raise SnapshotDocumentError(path, f"must be [topic, topic id], not {value!r}")
    return found[0], found[1]


def _leaders_in(value: Any, ids: Mapping[str, str], path: str) -> pa.Table:
    width = len(_LISTED)
    if not isinstance(value, list) or not set(map(type, value)) <= {list, tuple}:
        list_of(value, path, lambda row, where: list_of(row, where, lambda item, _: item))
    if not set(map(len, value)) <= {width}:
        bad = next(i for i, row in enumerate(value) if len(row) != width)
        raise SnapshotDocumentError(f"{path}[{bad}]", "must be [topic, partition, leader, epoch]")
    columns = list(zip(*value, strict=True)) or [()] * width
    named: dict[str, Sequence[Any]] = dict(zip(_LISTED, columns, strict=True))
    named["topicId"] = [ids.get(topic) if isinstance(topic, str) else None for topic in named["topic"]]
    return _arrow(named, LEADERS_SCHEMA, path, ("topic", "partition"))


def _check_partitions(rows: Sequence[Mapping[str, Any]]) -> None:
    for name in ("replicas", "isr"):
        for i, row in enumerate(rows):
            ids = row.get(name)
            if ids and len(set(ids)) != len(ids):
                raise SnapshotDocumentError(f"partitions[{i}].{name}", f"names a broker twice: {ids}")


def _table(root: Mapping[str, Any], name: str, schema: pa.Schema, key: Sequence[str]) -> pa.Table | None:
    """`key`: the columns that name a row."""
    rows = root.get(name)
    if rows is None:
        return None
    if not isinstance(rows, list) or not set(map(type, rows)) <= {dict}:
        rows = list_of(rows, name, mapping)
    return _arrow({column: [row.get(column) for row in rows] for column in schema.names}, schema, name, key)


def _arrow(columns: Mapping[str, Sequence[Any]], schema: pa.Schema, path: str, key: Sequence[str]) -> pa.Table:
    for field in schema:
        values = columns[field.name]
        if not field.nullable and None in values:
            raise SnapshotDocumentError(f"{path}[{list(values).index(None)}].{field.name}", "is missing")
        _check_column(values, field, path)
    try:
        table = pa.table([pa.array(columns[f.name], f.type) for f in schema], schema=schema)
    except _NOT_ARROW as problem:
        for field in schema:  # find the value, so that the message can name it
            for i, value in enumerate(columns[field.name]):
                try:
                    pa.array([value], field.type)
                except _NOT_ARROW as why:
                    raise SnapshotDocumentError(f"{path}[{i}].{field.name}", str(why)) from why
        raise SnapshotDocumentError(path, str(problem)) from problem
    # Of two answers to one question one would be lost, and it might be the true one.
    keys = list(zip(*(columns[name] for name in key), strict=True))
    if len(set(keys)) != len(keys):
        _once(keys, path, key[-1])
    return table


_LISTED = tuple(name for name in LEADERS_SCHEMA.names if name != "topicId")
"""What a row of a view's `leaders` has. A topic's id is the same for all of its partitions and stands beside them."""
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
            message = f"must be a list of {wanted} numbers or null, not {ids!r}"
            raise SnapshotDocumentError(f"{path}[{i}].{field.name}", message)
