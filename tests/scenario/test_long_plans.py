"""Plans that are too long for their Remediation lie in a file, and are as binding as any other."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.controller import plan_parts
from kafka_medic.playbook import plan_file
from kafka_medic.playbook.plan_file import artifact_of
from kafka_medic.resources.plan_part import PlanPart
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Elections, Reorders, ReplicaMoves
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BASE, World
from tests.thorough import only, thorough


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Six partitions on one broker, where a Remediation holds two."""
    monkeypatch.setattr(plan_file, "MAX_INLINE_CHANGES", 2)
    kafka = SimKafka()
    kafka.topic("orders", *([0],) * 6)
    world = World(kafka, files=tmp_path / "plans")
    world.install()
    return world


def proposed(world: World) -> tuple[Remediation, Path]:
    run = world.until_phase("AwaitingApproval")
    plan = run.status.plan
    assert plan is not None
    artifact = artifact_of(plan)
    assert artifact is not None
    assert plan.partitions == 6
    assert plan.part(ReplicaMoves).changes == plan.part(Reorders).reorders == plan.part(Elections).elections == ()
    path = Path(artifact.uri.removeprefix("file://"))
    assert path == world.files / f"{artifact.sha256}.parquet"
    return run, path


def test_another_process_carries_out_the_whole_plan(world: World) -> None:
    """An operator process that did not make the plan carries out all of it."""
    run, _ = proposed(world)
    world.approve(run)
    world.operator()
    done = world.until_phase("Succeeded")
    assert all(len(part.isr) == 3 for part in world.kafka.partitions.values())
    assert sorted(part.leader for part in world.kafka.partitions.values()) == [0, 0, 1, 1, 2, 2]
    assert not done.status.restore_owed


@pytest.mark.parametrize("how", only([1], ["gone", "changed", "no plan", "no volume"]))
def test_only_the_approved_plan_file_is_used(world: World, how: str) -> None:
    """Nothing is done while the plan's file is not the one that was approved."""
    run, path = proposed(world)
    good = path.read_bytes()
    match how:
        case "gone":
            path.unlink()
        case "changed":
            path.write_bytes(good[:-9] + bytes([good[-9] ^ 1]) + good[-8:])
        case "no plan":
            path.write_bytes(b"PAR1")
        case "no volume":
            world.files = None
    world.approve(run)
    world.operator()
    for _ in range(5):
        world.step()
    assert world.kafka.writes == []
    assert "file is unreadable or not the proposed one" in world.run().status.message
    world.files = path.parent
    path.write_bytes(good)
    world.operator()
    world.until(lambda: world.kafka.writes != [])


def test_changes_beside_the_plan_file_are_ignored(world: World) -> None:
    """Somebody writes changes into the status beside the file's name. They are never made. The digest stands for the
    file alone, so that it would not notice them."""
    run, _ = proposed(world)
    world.approve(run)
    forged = {"topic": "orders", "partition": 0, "replicasBefore": [0], "replicas": [0, 1], "wave": 0}
    for _ in range(12):
        status = world.api.touch(f"{BASE}/namespaces/ns/remediations/{run.name}")["status"]
        status["plan"]["changes"] = [forged]
        world.step()
        if any("reassign" in line for line in world.kafka.writes):
            break
    wanted = [len(part.replicas) for part in world.kafka.partitions.values()]
    assert wanted == [3] * 6, "what the file has, and all of it"


def test_an_unwritable_volume_is_reported(world: World) -> None:
    assert world.files is not None
    world.files.write_text("no directory")
    for _ in range(5):
        world.step()
    assert world.run().status.plan is None
    assert any(reason == "PlanNotWritten" for reason, _ in world.api.events)


@thorough
def test_a_lost_plan_file_holds_the_run(world: World) -> None:
    """The plan's file is lost in mid-run. The run waits, and what it has to restore stays recorded."""
    run, path = proposed(world)
    world.approve(run)
    world.until(lambda: any("reassign" in line for line in world.kafka.writes))
    good, sent = path.read_bytes(), len(world.kafka.writes)
    path.unlink()
    world.operator()
    for _ in range(4):
        world.step()
    assert len(world.kafka.writes) == sent
    assert world.run().status.phase == "Blocked"
    assert world.run().status.restore_owed
    path.write_bytes(good)
    world.until_phase("Succeeded")
    assert [k for k in world.kafka.dynamic if "throttled" in k[2]] == []


def test_without_a_volume_a_plan_holds_what_a_remediation_can(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_medic.playbook.reassign.moves_plan.MAX_INLINE_CHANGES", 2)
    world.files = None
    plan = world.until_phase("AwaitingApproval").status.plan
    assert plan is not None
    assert artifact_of(plan) is None
    assert len(plan.part(ReplicaMoves).changes) == 2
    assert "4 more partitions in a later plan" in plan.summary
    assert "replicas per broker after this and the later plans" in plan.summary


PARTS = f"{BASE}/namespaces/ns/planparts"


def published(world: World) -> bytes:
    found = sorted(world.api.list(PARTS), key=lambda o: o["spec"]["part"])
    return b"".join(base64.b64decode(o["spec"]["data"]) for o in found)


@pytest.mark.parametrize("size", [240, 100_000])
def test_the_plan_file_is_published_in_owned_pieces(world: World, monkeypatch, size: int) -> None:
    monkeypatch.setattr(plan_parts, "MAX_PART_BYTES", size)
    run, path = proposed(world)
    assert published(world) == path.read_bytes()
    parts = world.api.list(PARTS)
    assert (len(parts) > 1) == (size == 240)
    for part in parts:
        PlanPart.parse(part)
        assert part["metadata"]["ownerReferences"][0]["uid"] == run.uid
    world.api.delete(f"{BASE}/namespaces/ns/remediations/{run.name}")
    assert world.api.list(PARTS) == []


def test_a_new_plan_overwrites_the_published_one(world: World) -> None:
    run, old = proposed(world)
    world.kafka.topic("more", [1], [1])
    for tp in [tp for tp in world.kafka.partitions if tp.topic == "orders"][:2]:
        part = world.kafka.partitions[tp]
        part.replicas, part.isr, part.leader = [2], [2], 2
    world.until(lambda: (plan := world.run().status.plan) is not None and plan.digest != run.status.plan.digest)
    again = world.run().status.plan
    assert again is not None
    artifact = artifact_of(again)
    assert artifact is not None
    new = Path(artifact.uri.removeprefix("file://"))
    assert published(world) == new.read_bytes() != old.read_bytes()


def test_an_unpublished_plan_is_proposed_and_reported(world: World, monkeypatch) -> None:
    """A plan that cannot be published is proposed all the same, and an event reports it."""
    create = world.api.create

    def refuse(path, body):
        if path == PARTS:
            raise ApiFailure(403, "may not")
        return create(path, body)

    monkeypatch.setattr(world.api, "create", refuse)
    proposed(world)
    (told,) = [message for reason, message in world.api.events if reason == "PlanNotPublished"]
    assert "403: may not" in told
    monkeypatch.setattr(plan_parts, "MAX_PARTS", 0)
    world.api.delete(f"{BASE}/namespaces/ns/remediations/{world.run().name}")
    world.api.events.clear()
    proposed(world)
    (told,) = [message for reason, message in world.api.events if reason == "PlanNotPublished"]
    assert "(limit 0)" in told
