"""The Snapshot document: out and back without loss, and bad documents named."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kafka_medic.cluster.certificates import Peer
from kafka_medic.cluster.document import (
    SnapshotDocumentError,
    from_document,
    parse_timestamp,
    timestamp,
    to_document,
)
from kafka_medic.cluster.snapshot import STORAGE_ERROR, Directory, Element, Mode, TopicPartition
from tests.unit.cluster import worlds

ROOT = Path(__file__).parents[3]
EXAMPLE = Path(__file__).with_name("snapshot-example.json")


@pytest.mark.parametrize("mode", list(Mode))
def test_a_snapshot_survives_the_round_trip(mode):
    before = worlds.healthy(mode)
    after = from_document(json.loads(json.dumps(to_document(before))))
    assert to_document(after) == to_document(before)
    assert after.partitions.equals(before.partitions)
    assert after.groups.equals(before.groups)
    assert after.brokers == before.brokers
    assert after.taken_at == before.taken_at
    assert after.rollouts == before.rollouts


def test_what_is_not_told_of_a_broker_and_its_pod_stays_null():
    bare = from_document(_changed(brokers=[{"id": 1, "pod": {"name": "kafka-1"}}])).broker(1)
    assert (bare.version, bare.clients, bare.remaining_logs, bare.remaining_segments) == (None,) * 4
    assert (bare.pod.ip, bare.pod.deleting, bare.pod.node_ready, bare.pod.maintenance) == (None,) * 4
    assert bare.pod.restart_asked is None
    assert from_document({k: v for k, v in _changed().items() if k != "rollouts"}).rollouts is None


def test_directories_and_what_was_not_read_survive_and_an_older_document_has_neither():
    """Additions to the format: a document without them is as good as before."""
    directories = (Directory("/data/0", None, 100, 40), Directory("/data/1", STORAGE_ERROR))
    sick = {"directories": directories, "offline_replicas": (TopicPartition("orders", 0),), "disk_free": 40}
    sick |= {"unknown_topics": ("secret",)}
    unread = {Element("configs", "TOPIC", "tmp-123"): "gone", Element("groups", "BROKER", "2"): "no answer"}
    before = worlds.healthy(brokers=worlds.brokers(b1=sick), unread=unread)
    document = json.loads(json.dumps(to_document(before)))
    after = from_document(document)
    assert after.broker(1) == before.broker(1)
    assert after.unread == unread
    older = _without(document, "directories", "offlineReplicas", "unknownTopics", "unread")
    bare = from_document(older)
    assert bare.unread == {}
    assert [(b.directories, b.offline_replicas, b.unknown_topics) for b in bare.brokers or ()] == [(None,) * 3] * 3


def test_pods_that_have_not_answered_survive_and_an_older_document_has_none():
    before = worlds.healthy(unplaced=(worlds.pod(3),), unplaced_controllers=(worlds.pod(10),))
    document = json.loads(json.dumps(to_document(before)))
    after = from_document(document)
    assert (after.unplaced, after.unplaced_controllers) == (before.unplaced, before.unplaced_controllers)
    bare = from_document(_without(document, "unplacedPods", "unplacedControllerPods"))
    assert (bare.unplaced, bare.unplaced_controllers) == ((), ())


def test_certificates_survive_and_an_older_document_has_none():
    unread = {Element("certificates", "BROKER", "2"): "timed out", Element("certificates", "SECRET", "ca/x"): "no PEM"}
    end = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    odd = worlds.certificate("", "CN=\u202ea", not_after=end, lifetime=5, subject_key=None, authority_key=None)
    chains = worlds.certificates(worlds.served(1, odd), worlds.shown(odd, peer=Peer.ZOOKEEPER), worlds.trusted())
    before = worlds.healthy(certificates=chains, unread=unread)
    document = json.loads(json.dumps(to_document(before)))
    assert (from_document(document).certificates, from_document(document).unread) == (chains, unread)
    assert from_document(_without(document, "certificates")).certificates is None
    assert from_document({**document, "certificates": []}).certificates == ()


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"use": "Other"}, "certificates[0].use"),
        ({"peer": "Other"}, "certificates[0].peer"),
        ({"broker": 1}, "certificates[0].broker"),
        ({"certificates": None}, "certificates[0].certificates"),
        ({"certificates": [{"subject": 1}]}, "certificates[0].certificates[0].subject"),
        ({"readAt": "yesterday"}, "certificates[0].readAt"),
    ],
)
def test_a_bad_certificate_is_named(change, path):
    document = to_document(worlds.healthy())
    document["certificates"][0] |= change
    with pytest.raises(SnapshotDocumentError, match="^" + path.replace("[", r"\[").replace("]", r"\]")):
        from_document(document)


def _without(node, *keys):
    if isinstance(node, dict):
        return {k: _without(v, *keys) for k, v in node.items() if k not in keys}
    return [_without(item, *keys) for item in node] if isinstance(node, list) else node


def test_unknown_stays_null_and_never_becomes_empty():
    nothing = worlds.healthy(
        brokers=None,
        controller=None,
        quorum=None,
        views=None,
        partitions=None,
        groups=None,
        configs=None,
        rollouts=None,
        canary=None,
    )
    document = to_document(nothing)
    for key in ("brokers", "controller", "quorum", "views", "partitions", "groups", "configs", "rollouts", "canary"):
        assert document[key] is None
        assert getattr(from_document(document), key) is None


def test_nulls_inside_rows_stay_null():
    row = worlds.partition("t", 0, isr=None, adding=None, minIsr=None, logEnd=None, leader=None)
    back = next(from_document(to_document(worlds.healthy(rows=[row], views=None))).rows())
    assert (back.isr, back.adding, back.min_isr, back.log_end, back.leader) == (None,) * 5
    assert back.reassigning is None


def test_the_example_is_read_and_written_as_it_is():
    document = json.loads(EXAMPLE.read_text())
    assert to_document(from_document(document)) == document


def _changed(**changes: object) -> dict[str, object]:
    return {**to_document(worlds.healthy()), **changes}


def _source(**changes: object) -> dict[str, object]:
    return {"name": "kafka", "state": "Known", "observedAt": "2026-01-31T12:00:00Z", **changes}


def _setting(**changes: object) -> dict[str, object]:
    return {"resourceType": "TOPIC", "resource": "t", "name": "n", "value": "3", "dynamic": True, **changes}


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (None, "$"),
        ([], "$"),
        ("text", "$"),
        ({}, "kind"),
        (_changed(kind="KafkaCluster"), "kind"),
        (_changed(apiVersion="other/v1"), "apiVersion"),
        (_changed(takenAt="yesterday"), "takenAt"),
        (_changed(takenAt=17), "takenAt"),
        (_changed(takenAt="2026-01-31T12:00:00"), "takenAt"),
        (_changed(cluster={"mode": "Raft"}), "cluster.mode"),
        (_changed(sources=[{"name": "kafka", "state": "Perhaps"}]), "sources[0].state"),
        (_changed(brokers={}), "brokers"),
        (_changed(brokers=[{}]), "brokers[0].id"),
        (_changed(brokers=[{"id": True}]), "brokers[0].id"),
        (_changed(brokers=[{"id": 1, "registered": "yes"}]), "brokers[0].registered"),
        (_changed(brokers=[{"id": 1, "bytesInRate": -1}]), "brokers[0].bytesInRate"),
        (_changed(brokers=[{"id": 1, "version": 4.3}]), "brokers[0].version"),
        (_changed(brokers=[{"id": 1, "clients": {}}]), "brokers[0].clients"),
        (_changed(brokers=[{"id": 1, "clients": [{"name": "a", "version": 1}]}]), "brokers[0].clients[0].version"),
        (_changed(brokers=[{"id": 1, "clients": [{"version": "1"}]}]), "brokers[0].clients[0].name"),
        (_changed(brokers=[{"id": 1, "remainingLogsToRecover": -1}]), "brokers[0].remainingLogsToRecover"),
        (_changed(brokers=[{"id": 1, "directories": [{"error": "x"}]}]), "brokers[0].directories[0].path"),
        (_changed(brokers=[{"id": 1, "directories": [{"path": "/d"}] * 2}]), "brokers[0].directories"),
        (
            _changed(brokers=[{"id": 1, "directories": [{"path": "/d", "usableBytes": -1}]}]),
            "brokers[0].directories[0].usableBytes",
        ),
        (_changed(brokers=[{"id": 1, "offlineReplicas": [["t"]]}]), "brokers[0].offlineReplicas[0]"),
        (_changed(brokers=[{"id": 1, "offlineReplicas": [["t", "0"]]}]), "brokers[0].offlineReplicas[0]"),
        (_changed(brokers=[{"id": 1, "unknownTopics": [1]}]), "brokers[0].unknownTopics[0]"),
        (_changed(unread=[{"source": "configs", "kind": "TOPIC", "name": "t"}]), "unread[0]"),
        (_changed(brokers=[{"id": 1, "pod": {"maintenance": [1]}}]), "brokers[0].pod.maintenance[0]"),
        (_changed(brokers=[{"id": 1, "pod": {"nodeReady": "yes"}}]), "brokers[0].pod.nodeReady"),
        (_changed(brokers=[{"id": 1, "pod": {"restartAsked": "true"}}]), "brokers[0].pod.restartAsked"),
        (_changed(rollouts=[{"name": "kafka"}]), "rollouts[0].kind"),
        (_changed(rollouts=[{"kind": 1, "name": "kafka"}]), "rollouts[0].kind"),
        (_changed(quorum={"voters": [{"id": "one"}]}), "quorum.voters[0].id"),
        (_changed(views=[{"broker": 1, "leaders": [["t", 0, 1]]}]), "views[0].leaders[0]"),
        (_changed(partitions=[{"partition": 0}]), "partitions[0].topic"),
        (_changed(partitions=[{"topic": "t", "partition": "0"}]), "partitions[0].partition"),
        (_changed(partitions=[worlds.partition("t", 0, (1, 1))]), "partitions[0].replicas"),
        (_changed(groups=[{"group": "g", "topic": "t", "partition": 0, "committed": "x"}]), "groups[0].committed"),
        # A fraction is not a count, and true is not 1.
        (_changed(partitions=[worlds.partition("t", 0, minIsr=1.9)]), "partitions[0].minIsr"),
        (_changed(partitions=[worlds.partition("t", 0, minIsr=2.0)]), "partitions[0].minIsr"),
        (_changed(partitions=[worlds.partition("t", 0, minIsr=True)]), "partitions[0].minIsr"),
        (_changed(partitions=[worlds.partition("t", 0), worlds.partition("t", 1, isr=[1, 2.5])]), "partitions[1].isr"),
        (_changed(partitions=[worlds.partition("t", 0, isr=[True])]), "partitions[0].isr"),
        (_changed(partitions=[{"topic": 7, "partition": 0}]), "partitions[0].topic"),
        (_changed(groups=[{"group": "g", "topic": "t", "partition": 0, "committed": 1.5}]), "groups[0].committed"),
        (_changed(views=[{"broker": 1, "leaders": [["t", 0, 1, 2.5]]}]), "views[0].leaders[0].epoch"),
        (_changed(views=[{"broker": 1.5}]), "views[0].broker"),
        (_changed(quorum={"voters": [{"id": 1, "lag": 0.5}]}), "quorum.voters[0].lag"),
        (_changed(controller={"id": 1.5}), "controller.id"),
        (_changed(configs=[_setting(dynamic="yes")]), "configs[0].dynamic"),
        (_changed(configs=[_setting(dynamic=1)]), "configs[0].dynamic"),
        (_changed(configs=[_setting(value=3)]), "configs[0].value"),
        (_changed(canary=[{"topic": "c"}]), "canary[0].partition"),
        (_changed(canary=[{"topic": "c", "partition": 0, "lastOkAt": "lately"}]), "canary[0].lastOkAt"),
        (_changed(canary=[{"topic": "c", "partition": 0, "produceMs": 1.5}]), "canary[0].produceMs"),
        (_changed(canary=[{"topic": "c", "partition": 0}] * 2), "canary[1].partition"),
        (_changed(sources=[_source(durationMs="long")]), "sources[0].durationMs"),
        # Neither are these numbers.
        (_changed(brokers=[{"id": 1, "bytesInRate": math.nan}]), "brokers[0].bytesInRate"),
        (_changed(brokers=[{"id": 1, "bytesInRate": math.inf}]), "brokers[0].bytesInRate"),
        (_changed(brokers=[{"id": 1, "bytesInRate": 10**400}]), "brokers[0].bytesInRate"),
        (_changed(partitions=[worlds.partition("t", 0, minIsr=2**31)]), "partitions[0].minIsr"),
        (_changed(partitions=[worlds.partition("t", 0, isr=[2**40])]), "partitions[0].isr"),
        # Nor are these ids.
        (_changed(partitions=[worlds.partition("t", 0, isr=[[1]])]), "partitions[0].isr"),
        (_changed(partitions=[worlds.partition("t", 0, replicas=[{}], leader=1)]), "partitions[0].replicas"),
        (_changed(partitions=[worlds.partition("t", 0, isr={"a": 1})]), "partitions[0].isr"),
        (_changed(partitions=[worlds.partition("t", 0, isr="12")]), "partitions[0].isr"),
        (_changed(brokers=[{"id": [1]}]), "brokers[0].id"),
        (_changed(views=[{"broker": 1, "members": [[1]]}]), "views[0].members[0]"),
        (_changed(sources=[{"name": ["kafka"], "state": "Known"}]), "sources[0].name"),
        (_changed(sources=[{"name": "kafka", "state": ["Known"]}]), "sources[0].state"),
        (_changed(partitions=[worlds.partition("\ud800", 0)]), "partitions[0].topic"),
        # Moments that no calendar has.
        (_changed(takenAt="0001-01-01T00:00:00+23:59"), "takenAt"),
        (_changed(takenAt="9999-12-31T23:59:59-23:59"), "takenAt"),
        (_changed(sources=[_source(observedAt="0001-01-01T00:00:00+01:00")]), "sources[0].observedAt"),
        # One question, two answers.
        (_changed(brokers=[{"id": 1}, {"id": 2}, {"id": 1}]), "brokers[2].id"),
        (_changed(views=[{"broker": 1}, {"broker": 1}]), "views[1].broker"),
        (_changed(sources=[_source(), _source(state="Unknown")]), "sources[1].name"),
    ],
)
def test_a_bad_document_is_refused_with_the_path_of_the_bad_key(document, path):
    with pytest.raises(SnapshotDocumentError) as refusal:
        from_document(document)
    assert refusal.value.path == path


def test_keys_of_a_newer_writer_are_ignored():
    assert from_document(_changed(novelty={"a": 1})).cluster.name == "demo"


def test_timestamps_are_utc_with_a_zone():
    moment = datetime(2026, 1, 31, 12, 0, 0, 5000, tzinfo=UTC)
    assert timestamp(moment) == "2026-01-31T12:00:00.005Z"
    assert parse_timestamp("2026-01-31T13:00:00.005+01:00") == moment


# The schema is for other tools; no validator is a dependency here, so its use is checked by hand.


def _check(value: object, schema: dict[str, object], root: dict[str, object], path: str) -> list[str]:
    if "$ref" in schema:
        schema = root["$defs"][str(schema["$ref"]).rsplit("/", 1)[1]]  # type: ignore[index]
    if "anyOf" in schema:
        branches = [_check(value, option, root, path) for option in schema["anyOf"]]  # type: ignore[union-attr]
        return [] if any(not b for b in branches) else branches[0]
    problems = []
    kinds = schema.get("type")
    names = {
        "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
        "null": type(None),
    }  # fmt: skip
    if kinds is not None:
        listed = [kinds] if isinstance(kinds, str) else kinds
        fits = any(isinstance(value, names[k]) and (k == "boolean" or not isinstance(value, bool)) for k in listed)
        if not fits:
            return [f"{path}: not {kinds}"]
    if "const" in schema and value != schema["const"]:
        problems.append(f"{path}: not {schema['const']}")
    if "enum" in schema and value not in schema["enum"]:
        problems.append(f"{path}: not in {schema['enum']}")
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        problems += [f"{path}.{k}: missing" for k in schema.get("required", []) if k not in value]
        problems += [f"{path}.{k}: not described" for k in value if k not in properties]
        for key, inner in properties.items():
            if key in value:
                problems += _check(value[key], inner, root, f"{path}.{key}")
    if isinstance(value, list):
        prefix = schema.get("prefixItems")
        for i, item in enumerate(value):
            inner = prefix[i] if prefix else schema.get("items", {})
            problems += _check(item, inner, root, f"{path}[{i}]")
    return problems


def test_the_schema_describes_the_example_and_every_key_that_is_written():
    schema = json.loads((ROOT / "docs" / "snapshot.schema.json").read_text())
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    documents = [json.loads(EXAMPLE.read_text()), *(to_document(worlds.healthy(mode)) for mode in Mode)]
    nothing = worlds.healthy(brokers=None, controller=None, quorum=None, views=None, partitions=None)
    for document in [*documents, to_document(nothing)]:
        assert _check(document, schema, schema, "$") == []


def test_the_schema_refuses_what_the_reader_refuses():
    schema = json.loads((ROOT / "docs" / "snapshot.schema.json").read_text())
    for document in (_changed(kind="Other"), _changed(brokers=[{"id": "1"}]), _changed(takenAt=None)):
        assert _check(document, schema, schema, "$")
