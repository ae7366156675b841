"""`kafka-medic offsets` on a real cluster: what is impossible is found and set, and a backup puts it back as it was."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_medic.cli.main import main
from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import Connection
from kafka_medic.cluster.groups import Committed
from kafka_medic.cluster.snapshot import TopicPartition
from tests.incident.records import commit_offset, create_topic, delete_topic, joined, write
from tests.testbed import KafkaDeployment, Shape

IMPOSSIBLE = Committed(5000, 0, "of the application")


def test_set_and_put_back(
    kafka_of: Callable[[Shape], KafkaDeployment], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On one kind of cluster: what it sends is in tests/contract/test_groups_port.py, on both."""
    kafka = kafka_of("kraft")
    topic = f"offsets-{uuid.uuid4().hex[:8]}"
    group, tp = f"{topic}-billing", TopicPartition(topic, 0)
    before, between, undo = (str(tmp_path / f"{name}.json") for name in ("before", "between", "undo"))
    where = ["--bootstrap-servers", kafka.bootstrap]
    real = RealKafka(Connection(kafka.bootstrap))

    def offsets(*words: str) -> tuple[int, dict[str, Any]]:
        code = main(["offsets", words[0], *where, *words[1:], "-o", "json"])
        return code, json.loads(capsys.readouterr().out)

    def now() -> dict[TopicPartition, Committed]:
        (found,) = real.groups(lambda name: name == group).offsets
        return dict(found.committed)

    create_topic(kafka.bootstrap, topic, [[0, 1, 2]])
    try:
        assert write(kafka.bootstrap, topic, [str(n) for n in range(21)]) == 21
        commit_offset(kafka.bootstrap, group, topic, 0)
        assert real.commit_offsets(group, {tp: IMPOSSIBLE}) == {}
        code, told = offsets("show", "--group", group)
        assert code == 0
        assert [(o["lag"], o["beyondLogEnd"]) for o in told["offsets"]] == [(21 - 5000, True)]

        with joined(kafka.bootstrap, group, topic, "shop-1"):
            code, told = offsets("plan", "--group", group, "--execute", "--backup", before)
            assert (code, told["verdict"]) == (1, "Deny")
            assert any("shop-1 at " in r["message"] for r in told["reasons"])
            assert now() == {tp: IMPOSSIBLE}
        code, told = offsets("plan", "--group", group, "--execute", "--backup", before)
        # Within the present leader epoch, which the commit names, no log loses records.
        assert (code, [(c["before"], c["after"], c["readAgain"]) for c in told["changes"]]) == (0, [(5000, 0, 21)])
        assert now() == {tp: Committed(0)}
        code, told = offsets("plan", "--group", group, "--to", "to-latest", "--execute", "--backup", between)
        assert (code, [(c["after"], c["skipped"]) for c in told["changes"]]) == (0, [(21, 21)])
        assert now() == {tp: Committed(21)}

        code, told = offsets("plan", "--group", group, "--to", "by-duration:1h")
        assert (code, [(c["after"], c["readAgain"]) for c in told["changes"]]) == (0, [(0, 21)])
        code, _ = offsets("restore", "--from", before, "--execute", "--backup", undo)
        assert code == 0
        assert now() == {tp: IMPOSSIBLE}, "offset, leader epoch and metadata"
    finally:
        real.close()
        delete_topic(kafka.bootstrap, topic)
