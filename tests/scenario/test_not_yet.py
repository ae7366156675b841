"""What healing does not do yet. Each test fails today, and its reason says what is lost by that."""

from __future__ import annotations

import pytest

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
