"""In mode Auto, on real clusters of both kinds under load: a broker that is lost with its volume is replaced without a
person, and so is what was on a log directory that fails. Beyond each bound the operator asks. No record is lost or
doubled, and no throttle is left."""

from __future__ import annotations

import contextlib
import shutil
import time
import uuid
from contextlib import closing
from typing import Any

import pytest

from kafka_medic.clients.kafka import RealKafka
from kafka_medic.clients.ports import Connection
from tests.e2e.conftest import Case
from tests.gameday.cluster import Cuts
from tests.gameday.test_auto_night import FREE, Night, asks, at_rest
from tests.gameday.test_moves import SLOT, TWO, fill, in_sync_twice, judged, loaded, log_dirs, proposed_after, watched
from tests.incident import operator, records
from tests.testbed import Shape, deployed, faults, own_state, wait_for

TWO_DISKS, LOST = 1, 2
SECOND = "/second/kafka"
EACH = {TWO_DISKS: {"log.dirs": f"/data/kafka,{SECOND}"}}
PARTITIONS, SIZE = 12, 500_000
CURED_WITHIN = 300.0
BOUNDS: list[tuple[str, Any, str]] = [
    ("maxRisk", "Medium", "its risk is High, auto.maxRisk is Medium"),
    ("maxPartitions", 1, "auto.maxPartitions is 1"),
    ("maxMoves", 1, "auto.maxMoves is 1"),
    ("maxBytes", 1000, "auto.maxBytes is 1000"),
    ("findings", ["LeftoverThrottle"], "BrokerDown is not among auto.findings"),
]


@pytest.mark.parametrize("shape", ["kraft", "zookeeper"])
def test_what_is_lost_is_replaced_without_a_person(shape: Shape, installed: None) -> None:
    """One kind after the other: a broker is kept away by a cordon of its node, which deployments share."""
    with (
        deployed(f"gameday-heals-{shape}", shape, TWO, SLOT, broker_overrides=EACH, disks={"/second": "48Mi"}) as kafka,
        proposed_after("10s", "replace-broker"),
        proposed_after("10s", "restore-log-dir"),
    ):
        operator.people(kafka.namespace)
        case = watched(Case(kafka, f"heals-{uuid.uuid4().hex[:5]}"), {"mode": "Auto", **FREE})
        spread = [[n % 3, (n + 1) % 3] for n in range(PARTITIONS)]
        topic = case.topic(*spread, config={"min.insync.replicas": "1"})
        for partition in range(PARTITIONS):
            fill(case, topic, partition, SIZE)
        with loaded(case) as traffic, closing(RealKafka(Connection(case.boot, timeout_seconds=20.0))) as client:
            night = Night(case, client, traffic, topic, Cuts())
            is_replaced_within_bounds(night)
            kafka.start_broker(LOST)
            is_restored(night, topic)
            for run in case.runs():
                assert (operator.phase(run), run["status"]["approvedBy"]) == ("Succeeded", "policy:Auto"), run
                assert not run["status"].get("approvals")
            print(f"{shape}: {'; '.join(night.times)}; runs {dict(night.done())}")
        judged(case, traffic)


def is_replaced_within_bounds(night: Night) -> None:
    case, before = night.case, "maxRisk"
    night.rule(auto={before: BOUNDS[0][1]})
    case.kafka.stop_broker(LOST)
    shutil.rmtree(own_state().disks / case.kafka.namespace / f"data-kafka-{LOST}" / "kafka")
    began = time.monotonic()
    wait_for("the proposal", lambda: any(r["spec"]["playbook"]["name"] == "replace-broker" for r in case.runs()), 600)
    for bound, limit, why in BOUNDS:
        night.rule(auto={before: None, "maxRisk": "High"} | {bound: limit})
        asks(night, "replace-broker", why)
        before = bound
    assert any(LOST in p.replicas for p in night.rows()), "nobody has answered"
    asked = time.monotonic()
    night.rule(auto={before: None, "maxRisk": "High"})
    wait_for("the replacement", lambda: night.done()["replace-broker"] == 1, CURED_WITHIN)
    at_rest(night)
    assert all(LOST not in p.replicas for p in in_sync_twice(case))
    night.times.append(
        f"asked at {len(BOUNDS)} bounds {asked - began:.0f} s, replaced {time.monotonic() - asked:.0f} s"
    )


def is_restored(night: Night, topic: str) -> None:
    """What was on the directory gets a replica on the broker that came back empty."""
    case = night.case
    (second,) = (d for d in log_dirs(case, TWO_DISKS).directories if d.path == SECOND)
    there = {tp for tp in second.sizes or () if tp.topic in case.topics}
    assert {tp for tp in there if tp.topic == topic}
    began = time.monotonic()
    faults.fill_disk(case.kafka, TWO_DISKS, "/second")
    for tp in (tp for tp in there if tp.topic == topic):
        with contextlib.suppress(Exception):
            records.write(case.boot, topic, ["x" * 50_000] * 20, partition=tp.partition)
    wait_for("the cure", lambda: night.done()["restore-log-dir"] == 1, CURED_WITHIN)
    at_rest(night)
    for p in in_sync_twice(case):
        lost = (p.topic, p.partition) in {(tp.topic, tp.partition) for tp in there}
        assert (LOST in p.replicas, TWO_DISKS in p.replicas) == (lost, not lost), p
    night.times.append(f"{len(there)} replicas of a failed directory replaced after {time.monotonic() - began:.0f} s")
