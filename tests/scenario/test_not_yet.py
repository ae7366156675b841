"""What healing does not do yet. Each test fails today, and its reason says what is lost by that."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from kafka_medic.clients.answers import LogDir, LogDirs
from kafka_medic.resources.remediation_plan import ReplicaRemovals
from tests.scenario.test_relieve_disk import GB, asked, filling
from tests.scenario.test_uneven_brokers import findings, uneven, wait


def not_yet(lost: str) -> pytest.MarkDecorator:
    return pytest.mark.xfail(raises=AssertionError, strict=True, reason=lost)


@not_yet("a new broker under the id of one that was emptied is not filled, until the Remediation is deleted")
def test_a_new_broker_under_an_old_id_gets_its_share() -> None:
    world = uneven(held=[[n % 4, (n + 1) % 4, (n + 2) % 4] for n in range(20)])
    world.ask("evacuate-broker", brokers="3")
    world.approve(world.until_phase("AwaitingApproval"))
    world.until_phase("Succeeded")
    kafka, kept = world.kafka, dict(world.kafka.files[3])
    kafka.stop(3)  # scaled down: neither a broker nor a Pod any more
    del kafka.racks[3]
    (path,) = [p for p in world.api.objects if p.endswith("/pods/kafka-3")]
    pod = world.api.objects.pop(path)
    for _ in range(48):
        world.step(3600)
    kafka.installed(3, None)  # scaled up again, two days later, with a new volume
    kafka.files[3] = kept
    kafka.start(3)
    pod["metadata"]["uid"] = "another"
    world.api.objects[path] = pod
    wait(world, 4)
    assert "LoadUneven/replicas" in findings(world), [f["id"] for f in world.cluster()["status"].get("findings", [])]


@not_yet("what leaves a volume counts as large as it is on the leader")
def test_what_leaves_a_volume_is_what_is_on_it() -> None:
    """log3 and log4 are compacted: broker 0 cleaned its copies, the leader is not there yet."""
    world = filling()
    listed = world.kafka._directories
    small = {"log3": 2 * GB, "log4": 3 * GB}

    def cleaned(broker: int) -> LogDirs:
        found = listed(broker)
        return LogDirs(tuple(_shrunk(d, small) for d in found.directories)) if broker == 0 else found

    world.kafka._directories = cleaned  # type: ignore[method-assign]
    plan = asked(world, brokers="0", freeSharePercent="30").status.plan
    assert plan is not None
    own = {"log0": 100, "log1": 60, "log2": 30, "log3": 2, "log4": 3}
    leaves = sum(own[c.topic] for c in plan.part(ReplicaRemovals).each() if 0 not in c.replicas)
    assert leaves >= 55, (leaves, plan.summary)


def _shrunk(directory: LogDir, sizes: dict[str, int]) -> LogDir:
    rows = directory.replicas
    assert rows is not None
    told = [sizes.get(t, b) for t, b in zip(rows["topic"].to_pylist(), rows["bytes"].to_pylist(), strict=True)]
    columns = [pa.array(told, pa.int64()) if name == "bytes" else rows[name] for name in rows.column_names]
    return replace(directory, replicas=pa.table(columns, schema=rows.schema))
