"""CanaryFailing names exactly the partitions that fail and the broker that leads them, and nothing that looks alike."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from kafka_medic.cluster.document import timestamp
from kafka_medic.cluster.snapshot import CANARY_SCHEMA, NO_LEADER, Source, SourceState
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.resources.vocabulary import FindingState
from tests.unit.cluster import worlds

TOPIC = "kafka-medic-canary"
WHY = "not acknowledged: Local: Message timed out"


def reading(partition, leader, failures=0, **changes):
    row = {
        "topic": TOPIC, "partition": partition, "leader": leader, "lastOkAt": "2026-01-31T11:59:00.000Z",
        "produceMs": 3, "consumeMs": 5, "consecutiveFailures": failures, "lastError": WHY if failures else None,
    }  # fmt: skip
    return row | changes


def cluster(*readings, leaders=(1, 2, 3, 2), error=None, isr=None, **changes):
    """Partition n of the canary is led by `leaders[n]`; `isr`: of each of them."""
    ids = {1: (1, 2, 3), 2: (2, 3, 1), 3: (3, 1, 2), NO_LEADER: (1, 2, 3)}
    rows = [
        *worlds.ROWS,
        *(worlds.partition(TOPIC, n, ids[b], leader=b, isr=isr or ids[b]) for n, b in enumerate(leaders)),
    ]
    source = Source("canary", worlds.NOW, SourceState.UNKNOWN if error else SourceState.KNOWN, error)
    snapshot = worlds.healthy(rows=rows, canary=pa.Table.from_pylist(list(readings), schema=CANARY_SCHEMA))
    return replace(snapshot, sources=(*snapshot.sources, source), **changes)


def found(snapshot, since=60):
    remembered = {f"CanaryFailing/broker-{n}": worlds.later(-since) for n in (1, 2, 3)}
    return [f for f in diagnose(snapshot, remembered=remembered) if f.type == "CanaryFailing"]


SECOND_FAILS = (reading(0, 1), reading(1, 2, 4), reading(2, 3), reading(3, 2, 5, lastOkAt=None))


def test_a_broker_that_takes_no_records_is_named_with_exactly_its_partitions():
    (finding,) = found(cluster(*SECOND_FAILS))
    assert finding.id == "CanaryFailing/broker-2"
    assert finding.affected == ("broker-2", f"{TOPIC}-1", f"{TOPIC}-3")
    assert finding.state is FindingState.FIRING
    told = " ".join(finding.evidence)
    assert "all failing partitions are led by broker 2; records through brokers 1, 3 succeed" in told
    assert f"{TOPIC}-1: 4 failed rounds in a row: {WHY}, last success at 2026-01-31T11:59:00.000Z" in told
    assert "no success since this operator started" in told
    assert "broker 2 answers requests for metadata" in told
    assert "read from canary" in told


def test_two_that_fail_are_two_findings_and_each_says_so():
    first, second = found(cluster(reading(0, 1, 3), reading(1, 2, 3), reading(2, 3)))
    assert (first.affected, second.affected) == (("broker-1", f"{TOPIC}-0"), ("broker-2", f"{TOPIC}-1"))
    assert "the canary fails through broker 2 as well" in " ".join(first.evidence)


@pytest.mark.parametrize(
    ("last_ok", "since", "state"),
    [
        (20, 0, FindingState.PENDING),
        (31, 0, FindingState.FIRING),
        (31, -5, FindingState.FIRING),
        (None, 20, FindingState.PENDING),
        (None, 31, FindingState.FIRING),
        (-900, 20, FindingState.PENDING),
        (-900, 31, FindingState.FIRING),
    ],
)
def test_it_is_pending_until_nothing_got_through_for_long_enough(last_ok, since, state):
    """By the canary's own clock, since reconciles are slow just then; by how long it has been seen, where that says
    nothing."""
    when = None if last_ok is None else timestamp(worlds.later(-last_ok))
    (finding,) = found(cluster(reading(0, 1), reading(1, 2, 2, lastOkAt=when)), since=since)
    assert finding.state is state


@pytest.mark.parametrize(
    "snapshot",
    [
        pytest.param(cluster(reading(0, 1), reading(1, 2, 1)), id="one failed probe"),
        pytest.param(cluster(reading(1, 2, 5), leaders=(1, 3)), id="another leader now: an election"),
        pytest.param(cluster(reading(1, 2, 5), leaders=(1, NO_LEADER)), id="no leader now: an election"),
        pytest.param(cluster(reading(1, NO_LEADER, 5), leaders=(1, NO_LEADER)), id="no leader: PartitionLeaderless"),
        pytest.param(cluster(reading(1, None, 5)), id="leader not known"),
        pytest.param(cluster(reading(1, 2, 5), isr=[2]), id="replicas are missing: PartitionUnderMinIsr"),
        pytest.param(cluster(reading(1, 2, None)), id="never measured: our own queue was full"),
        pytest.param(worlds.healthy(), id="no canary"),
        pytest.param(cluster(*SECOND_FAILS, error="last round 90 s ago"), id="the canary itself stands still"),
        pytest.param(
            cluster(*SECOND_FAILS, brokers=worlds.brokers(**{f"b{n}": {"reachable": False} for n in worlds.IDS})),
            id="no broker answers: OperatorIsolated, every Pod is Ready",
        ),
    ],
)
def test_what_looks_alike(snapshot):
    assert found(snapshot) == []


def test_a_cluster_that_cannot_be_reached_speaks_alone():
    down = worlds.brokers(**{f"b{n}": {"reachable": False, "pod": worlds.pod(n, ready=False)} for n in worlds.IDS})
    kinds = {f.type for f in diagnose(cluster(*SECOND_FAILS, brokers=down))}
    assert "ClusterUnreachable" in kinds
    assert "CanaryFailing" not in kinds


def test_views_that_were_not_read_take_nothing_from_what_was_measured():
    (finding,) = found(cluster(*SECOND_FAILS, partitions=None))
    assert finding.id == "CanaryFailing/broker-2"


def test_a_silent_broker_has_the_canary_as_a_witness():
    quiet = worlds.brokers(b2={"bytes_in_rate": 0.0})
    (silent,) = [f for f in diagnose(cluster(*SECOND_FAILS, brokers=quiet)) if f.type == "BrokerSilent"]
    assert f"the canary fails for {TOPIC}-1, which it leads: {WHY}" in silent.evidence
