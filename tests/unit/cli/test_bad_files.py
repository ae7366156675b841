"""Files that are no snapshot and no KafkaCluster: a clear word, never a traceback."""

from __future__ import annotations

import json

import pytest
import yaml

from kafka_medic.cli.main import main
from kafka_medic.cluster.document import to_document
from tests.unit.cli.conftest import CLUSTER
from tests.unit.cluster import worlds

VALID = json.dumps(to_document(worlds.healthy()))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"   \n", "is empty"),
        (b"{", "is not JSON"),
        (b"\x00\xff\xfe\x80", "is not text in UTF-8"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (b"[]", "must be an object"),
        (b"null", "must be an object"),
        (b"7", "must be an object"),
        (json.dumps(CLUSTER).encode(), "kind: must be 'Snapshot'"),
        (VALID.replace("1000.0", "NaN").encode(), "holds NaN"),
        (VALID.replace("1000.0", "-Infinity").encode(), "holds -Infinity"),
        (VALID.replace("1000.0", "1e999").encode(), "brokers[0].bytesInRate: is not a finite number"),
        (VALID.replace('"minIsr": 2', '"minIsr": 1.9').encode(), "partitions[0].minIsr: must be whole"),
        (VALID.replace('"isr": [1, 2, 3]', '"isr": [1, 2.5]').encode(), "partitions[0].isr"),
        (VALID.replace('"isr": [1, 2, 3]', '"isr": [[1], [2]]').encode(), "partitions[0].isr: must be"),
        (VALID.replace('"isr": [1, 2, 3]', '"isr": {"a": 1}').encode(), "partitions[0]"),
        (VALID.replace('"isr": [1, 2, 3]', '"isr": "123"').encode(), "partitions[0]"),
        (VALID.replace('"minIsr": 2', '"minIsr": 99999999999').encode(), "partitions[0]"),
        (VALID.replace('"minIsr": 2', '"minIsr": ' + "9" * 5000).encode(), "digits"),
        (VALID.replace('"minIsr": 2', '"minIsr": 2, "minIsr": 1').encode(), "'minIsr' twice"),
        (VALID.replace('"orders"', '"\\ud800"').encode(), "surrogates not allowed"),
        (VALID.replace('"takenAt": "', '"takenAt": "x').encode(), "takenAt"),
        (VALID.replace("2026-01-31T12:00:00.000Z", "0001-01-01T00:00:00+23:59").encode(), "out of range"),
    ],
)
def test_a_file_that_is_no_snapshot(tmp_path, capsys, content, words):
    file = tmp_path / "bad.json"
    file.write_bytes(content)
    for command_line in (["diagnose"], ["check", "restart", "--broker", "1"]):
        assert main([*command_line, "--snapshot", str(file)]) == 4
        told = capsys.readouterr()
        assert told.out == ""
        assert str(file) in told.err
        assert words in told.err
        assert "Traceback" not in told.err
        assert len(told.err) < 1500


def test_a_file_that_cannot_be_read(tmp_path, capsys):
    assert main(["diagnose", "--snapshot", str(tmp_path / "absent")]) == 4
    assert "no such file" in capsys.readouterr().err
    assert main(["diagnose", "--snapshot", str(tmp_path)]) == 4
    assert "is a directory" in capsys.readouterr().err
    assert main(["diagnose", "--snapshot", "nul\0byte"]) == 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("a: [", "is not YAML"),
        ("kind: KafkaCluster", "spec"),
        ("- 1", "not a mapping"),
        ("a: &a [1]\nb: *a", "alias"),
        ("a: 1\na: 2", "key twice"),
        ("[" * 1000, "nested too deeply"),
        ("? [1]\n: 2", "is not YAML"),
        ("!!python/object/apply:os.system ['true']", "is not YAML"),
        (yaml.safe_dump({**CLUSTER, "spec": {"bootstrapServers": "kafka"}}), "spec.bootstrapServers"),
        (yaml.safe_dump({**CLUSTER, "spec": {**CLUSTER["spec"], "expectation": {}}}), "did you mean expectations"),
    ],
)
def test_a_file_that_is_no_cluster(tmp_path, capsys, save, text, words):
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    assert main(["diagnose", "--snapshot", save(worlds.healthy()), "--cluster", str(file)]) == 4
    told = capsys.readouterr().err
    assert words in told
    assert str(file) in told
