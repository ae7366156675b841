"""Reading what people hand in: snapshots and KafkaClusters, from files or standard input. Nothing in them is
trusted."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from kafka_medic.cli.exits import UnusableInputError
from kafka_medic.cluster.document import SnapshotDocumentError, from_document
from kafka_medic.cluster.snapshot import Mode, Snapshot
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.kafkacluster import KafkaCluster

STDIN = "-"
MAX_BYTES = 1 << 30
"""Of one file: a snapshot of half a million partitions has a third of that."""
_SNAPSHOT_WAY_OUT = "make one with `kafka-medic snapshot --bootstrap-servers HOST:PORT -o json > FILE`"
_CLUSTER_WAY_OUT = "write the KafkaCluster as you would `kubectl apply` it"


def read_snapshot(file: str) -> Snapshot:
    """A saved Snapshot, JSON or (by the file's ending) YAML. Raises UnusableInputError."""
    document = _parsed(file, _SNAPSHOT_WAY_OUT, yaml_too=_is_yaml(file))
    try:
        return from_document(document)
    except SnapshotDocumentError as problem:
        raise UnusableInputError(named(file), str(problem), _SNAPSHOT_WAY_OUT) from None
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
        pa.ArrowException,
    ) as e:
        problem_text = f"is not a Snapshot document ({type(e).__name__}: {str(e)[:200]})"
        raise UnusableInputError(named(file), problem_text, _SNAPSHOT_WAY_OUT) from None


def read_cluster(file: str) -> KafkaCluster:
    """A KafkaCluster from YAML or JSON. Raises UnusableInputError."""
    document = _parsed(file, _CLUSTER_WAY_OUT, yaml_too=True)
    try:
        return KafkaCluster.parse(document)
    except ResourceError as problem:
        message = "; ".join(str(p) for p in problem.problems)
        raise UnusableInputError(named(file), f"not a usable KafkaCluster: {message}", _CLUSTER_WAY_OUT) from None


def check_fits(cluster: KafkaCluster, snapshot: Snapshot, file: str) -> None:
    """The KafkaCluster and the snapshot are of one kind, or one of them is the wrong file."""
    expected = Mode.ZOOKEEPER if cluster.spec.metadata.zookeeper else Mode.KRAFT
    if snapshot.cluster.mode is not None and snapshot.cluster.mode is not expected:
        raise UnusableInputError(
            named(file),
            f"describes a {expected.value} cluster, but the snapshot is of a {snapshot.cluster.mode.value} cluster",
            "check that --cluster and --snapshot are of the same cluster, and spec.metadata.zookeeper",
        )


def _parsed(file: str, way_out: str, *, yaml_too: bool) -> Any:
    return parsed(text_of(file, way_out), file, way_out, yaml_too=yaml_too)


def parsed(text: str, file: str, way_out: str, *, yaml_too: bool = False) -> Any:
    """What a JSON, or YAML, text says. Raises UnusableInputError that names the place in the file."""
    if not text.strip():
        raise UnusableInputError(named(file), "is empty", way_out)
    try:
        return _yaml(text) if yaml_too else _json(text)
    except RecursionError:
        raise UnusableInputError(named(file), "is nested too deeply", way_out) from None
    except json.JSONDecodeError as problem:
        where = f"line {problem.lineno} column {problem.colno}"
        raise UnusableInputError(named(file), f"is not JSON: {problem.msg} at {where}", way_out) from None
    except yaml.YAMLError as problem:
        message = " ".join(str(problem).split())[:300]
        raise UnusableInputError(named(file), f"is not YAML: {message}", way_out) from None
    except ValueError as problem:
        raise UnusableInputError(named(file), str(problem)[:300], way_out) from None


def text_of(file: str, way_out: str, most: int = MAX_BYTES) -> str:
    """A file, or standard input, as text; `most`: bytes of it. Raises UnusableInputError."""
    try:
        if file == STDIN:
            data = sys.stdin.buffer.read(most + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(most + 1)
    except FileNotFoundError:
        raise UnusableInputError(file, "no such file", way_out) from None
    except IsADirectoryError:
        raise UnusableInputError(file, "is a directory, not a file", way_out) from None
    except (OSError, ValueError) as problem:
        message = getattr(problem, "strerror", None) or str(problem)
        raise UnusableInputError(file, f"cannot be read: {message}", way_out) from None
    if len(data) > most:
        raise UnusableInputError(named(file), f"is too long (limit {most >> 20} MiB)", way_out)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        message = f"is not text in UTF-8 (byte {problem.start})"
        raise UnusableInputError(named(file), message, way_out) from None


def _json(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"holds {name}, which is not JSON; write null for a number that is not known")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a key given twice one value would be lost silently, and it might be the true one."""
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"gives the key {twice!r} twice in one object")
    return found


class _Loader(yaml.SafeLoader):
    """YAML without aliases (a few lines of them can expand to any size) and without keys given twice."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("uses a YAML alias (*name); write the value out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        found = super().construct_mapping(node, deep=deep)
        if len(found) != len(node.value):
            raise ValueError(f"gives a key twice in the mapping of line {node.start_mark.line + 1}")
        return found


def _yaml(text: str) -> Any:
    # _Loader is a SafeLoader: it builds plain values only.
    return yaml.load(text, Loader=_Loader)  # noqa: S506  # nosec B506


def _is_yaml(file: str) -> bool:
    return file.endswith((".yaml", ".yml"))


def named(file: str) -> str:
    """How a file is called in a message."""
    return "standard input" if file == STDIN else file
