"""A volume fills on a broker that has several: replicas move between its log directories, and only what finds no room
there goes to other brokers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafka_medic.cli.remediation.rendering import plan_text
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.diagnose.moves import LOG_DIR_RATE
from kafka_medic.playbook.acceptance import check
from kafka_medic.playbook.changes import changes
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import LogDirMoves, Plan, ReplicaMoves, ReplicaRemovals
from tests.scenario.four_brokers import lose
from tests.scenario.test_relieve_disk import FILLS, GB, HOT, LOGS, asked, filling, finding, message_of, proposed
from tests.simulation.deaths import Interrupted
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BASE, World, shipped_playbooks

TWO = (1000 * GB, 1000 * GB)
WITHIN = "move-within-brokers"


def crowded(*, volumes: tuple[int, ...] = TWO, **how: object) -> World:
    """Broker 0 has two volumes, and all that it holds is on the first: 755 GB of 1 TB."""
    return filling(volume=volumes, **how)  # type: ignore[arg-type]


def free(world: World, number: int, broker: int = FILLS) -> int:
    found = world.kafka.log_dirs_of(broker).directories[number].usable
    assert found is not None
    return found


def planned(run: Remediation) -> Plan:
    assert run.status.plan is not None, message_of(run)
    return run.status.plan


def held_in(world: World, number: int, broker: int = FILLS) -> set[str]:
    parts = world.kafka.partitions
    return {tp.topic for tp in parts if broker in parts[tp].replicas and world.kafka.dir_of(broker, tp) == number}


def assignment(world: World) -> dict[TopicPartition, tuple[object, ...]]:
    """What a move within a broker does not change."""
    parts = world.kafka.partitions
    return {tp: (tuple(p.replicas), sorted(p.isr), p.leader, p.epoch) for tp, p in parts.items()}


def clean(world: World) -> None:
    assert not world.kafka.futures
    assert not any(key[2] == LOG_DIR_RATE or "throttled" in key[2] for key in world.kafka.dynamic)


def started(world: World, **parameters: str) -> Remediation:
    """A run that has asked for its first batch, which takes two reconciles to copy."""
    run = asked(world, **{"brokers": "0", "freeSharePercent": "30"} | parameters)
    world.approve(run)
    world.until(lambda: bool(world.kafka.futures), seconds=5)
    return world.run()


@pytest.mark.parametrize("zookeeper", [False, True])
def test_the_finding_proposes_it_and_nothing_leaves_the_broker(zookeeper: bool) -> None:
    world = crowded(zookeeper=zookeeper)
    before = assignment(world)
    run = proposed(world)
    assert run.spec.playbook.name == finding(world)["playbook"] == "relieve-disk"
    plan = planned(run)
    moves = plan.part(LogDirMoves).each()
    assert [s.name for s in plan.steps] == [WITHIN]
    assert not plan.part(ReplicaMoves).changes
    assert {(m.source, m.target) for m in moves} == {("/data/0", "/data/1")}
    need = 250 * GB - (free(world, 0) + 10 * GB)
    assert need <= sum(m.size_bytes for m in moves) <= need + 30 * GB, plan.summary
    assert "relieve the volume /data/0 of broker 0" in plan.summary
    assert "full in about" in plan.summary
    world.approve(run)
    rates = set()
    for _ in range(40):
        world.step(15)
        rates.add(world.kafka.dynamic.get(("BROKER", "0", LOG_DIR_RATE)))
        assert "LeftoverThrottle" not in {f["type"] for f in world.cluster()["status"]["findings"]}
        if world.run().status.phase == "Succeeded":
            break
    assert world.run().status.phase == "Succeeded", message_of(world.run())
    assert rates == {None, "50000000"}
    assert assignment(world) == before
    assert held_in(world, 1) == {m.topic for m in moves}
    clean(world)
    for _ in range(20):
        world.step(15)
    assert 240 * GB <= free(world, 0) < 270 * GB, "10 GB came since the plan"
    assert free(world, 1) >= 250 * GB
    assert [r.spec.playbook.name for r in world.runs()] == ["relieve-disk"], "Kafka had files to delete meanwhile"


def test_a_person_reads_the_volumes_and_the_directories_before_and_after() -> None:
    run = asked(crowded(), brokers="0", freeSharePercent="30")
    summary = planned(run).summary
    assert "volume /data/0 of broker 0: 245.0 GB free now (24.5 %), 300.0 GB afterwards (30.0 %)" in summary, summary
    assert "volume /data/1 of broker 0: 1.0 TB free now (100.0 %), 945.0 GB afterwards (94.5 %)" in summary
    assert "log4-0: /data/0 -> /data/1 on broker 0 (35.0 GB)" in summary
    assert {str(c.what) for c in changes(planned(run))} == {
        f"log directory on broker 0 of {t}-0" for t in ("log3", "log4")
    }
    assert plan_text(planned(run)).count("log4-0") == 1, "each replica once"
    assert "move 2 replicas to other log directories of their broker, 55.0 GB in 2 batches, throttled to" in summary


def test_no_other_volume_falls_below_the_share() -> None:
    world = crowded(volumes=(1000 * GB, 60 * GB, 100 * GB))
    plan = planned(asked(world, brokers="0", freeSharePercent="30"))
    coming = dict.fromkeys(("/data/1", "/data/2"), 0)
    for m in plan.part(LogDirMoves).each():
        coming[m.target] += m.size_bytes
    assert coming["/data/1"] <= 42 * GB
    assert coming["/data/2"] <= 70 * GB
    assert sum(coming.values()) == 55 * GB


def test_what_finds_no_room_on_the_broker_goes_to_other_brokers() -> None:
    world = crowded(volumes=(1000 * GB, 50 * GB))
    before = {tp: set(p.replicas) for tp, p in world.kafka.partitions.items()}
    run = asked(world, brokers="0", freeSharePercent="30")
    plan = planned(run)
    inside = plan.part(LogDirMoves).each()
    leave = {c.topic for c in plan.part(ReplicaRemovals).each()}
    assert [m.topic for m in inside] == ["log4"], plan.summary
    assert leave == {"log3"}
    assert plan.steps[0].name == WITHIN
    assert "copy-replicas" in [s.name for s in plan.steps]
    world.approve(run)
    world.until_phase("Succeeded", 120)
    clean(world)
    changed = {tp.topic for tp, p in world.kafka.partitions.items() if set(p.replicas) != before[tp]}
    assert changed == {"log3"}
    for _ in range(5):
        world.step(15)
    assert free(world, 0) == 300 * GB


def test_of_two_short_volumes_that_hold_enough_one_is_relieved_and_the_plan_names_the_other() -> None:
    """The second volume is full of what is not Kafka's: nothing comes to it, and nothing on it can leave."""
    world = crowded(volumes=(1000 * GB, 100 * GB))
    world.kafka.others[FILLS, 1] = 80 * GB
    run = asked(world, brokers="0", freeSharePercent="30")
    plan = planned(run)
    assert plan.part(LogDirMoves).each() == ()
    assert {c.topic for c in plan.part(ReplicaRemovals).each()} == {"log3", "log4"}
    assert "volume /data/1 of broker 0 (20.0 % free) stays as it is" in plan.summary
    world.approve(run)
    world.until_phase("Succeeded", 120)
    clean(world)
    for _ in range(5):
        world.step(15)
    assert free(world, 0) == 300 * GB


def test_some_room_is_better_than_none_and_the_plan_says_what_is_lacking() -> None:
    world = crowded(volumes=(1000 * GB, 50 * GB), others=1050 * GB)
    for broker in (1, 2, 3, 4, 5):
        world.kafka.volumes[broker] = (900 * GB,)
    for broker in (3, 4, 5):
        world.kafka.topic(f"big{broker}", [broker], size=780 * GB)
        world.kafka.dynamic["TOPIC", f"big{broker}", "min.insync.replicas"] = "1"
    plan = planned(asked(world, brokers="0", freeSharePercent="30"))
    assert [m.topic for m in plan.part(LogDirMoves).each()] == ["log4"]
    assert not plan.part(ReplicaMoves).changes
    assert "not enough: 20.0 GB have to leave broker 0" in plan.summary


def test_a_playbook_of_ones_own_without_the_step_is_told_what_is_missing() -> None:
    world = crowded()
    book = world.api.get(f"{BASE}/playbooks/relieve-disk")
    book["spec"]["steps"] = [s for s in book["spec"]["steps"] if s["action"] != "AlterReplicaLogDirs"]
    world.api.put(f"{BASE}/playbooks", book)
    run = asked(world, brokers="0")
    assert run.status.phase == "Failed"
    assert "the playbook has no step AlterReplicaLogDirs" in message_of(run)


def test_the_step_stands_before_what_it_is_planned_with_and_nowhere_else() -> None:
    raw = next(p for p in shipped_playbooks() if p["metadata"]["name"] == "rebalance")
    first = next(s for p in shipped_playbooks() for s in p["spec"]["steps"] if s["action"] == "AlterReplicaLogDirs")
    book = Playbook.parse(raw | {"spec": raw["spec"] | {"steps": [first, *raw["spec"]["steps"]]}})
    with pytest.raises(ResourceError, match="is not supported without ReassignPartitions of relieved replicas"):
        check(book)


def test_enough_is_free_on_every_volume() -> None:
    run = asked(crowded(volumes=(2000 * GB, 500 * GB)), brokers="0")
    assert run.status.phase == "Superseded"
    assert "broker 0 has 1.2 TB of 2.0 TB free (62.2 %) on /data/0, and 25 % are wanted" in message_of(run)


def test_directories_that_cannot_be_read_hold_the_plan_and_the_run() -> None:
    world = crowded()
    listed = world.kafka.log_dirs
    away = ReadFailed(FailureKind.UNREACHABLE, "simulated")
    # The observation reads all brokers at once, and the plan this one alone.
    world.kafka.log_dirs = lambda brokers: {0: away} if list(brokers) == [0] else listed(brokers)  # type: ignore[method-assign]
    run = asked(world, brokers="0", freeSharePercent="30")
    assert run.status.plan is None
    assert "which replica of broker 0 is in which log directory is not known" in message_of(run)
    world.kafka.log_dirs = listed  # type: ignore[method-assign]
    world.approve(world.until_phase("AwaitingApproval"))
    world.until(lambda: bool(world.kafka.futures), seconds=5)
    world.kafka.log_dirs = lambda brokers: {0: away} if list(brokers) == [0] else listed(brokers)  # type: ignore[method-assign]
    for _ in range(5):
        world.step()
    assert world.run().status.phase == "Blocked"
    assert "the log directories of broker 0 are not known" in message_of(world.run())
    world.kafka.log_dirs = listed  # type: ignore[method-assign]
    world.until_phase("Succeeded")
    clean(world)


def test_a_broker_that_restarts_in_the_middle_of_a_copy_continues_it() -> None:
    world = crowded()
    started(world)
    assert world.pods is not None
    world.kafka.stop(FILLS)
    copying = set(world.kafka.futures)
    for _ in range(4):
        world.step()
    assert world.run().status.phase == "Blocked"
    assert set(world.kafka.futures) == copying
    world.kafka.start(FILLS)
    world.until_phase("Succeeded")
    assert held_in(world, 1) == {"log3", "log4"}
    clean(world)


def test_a_broker_that_dies_in_the_middle_of_a_copy_does_not_hold_a_rejected_run_for_ever() -> None:
    world = crowded()
    started(world)
    lose(world, FILLS)
    for _ in range(3):
        world.step(60)
    world.approve(world.run(), decision="Reject")
    for _ in range(25):
        world.step(60)
    assert "broker 0" in message_of(world.run())
    assert world.run().status.phase == "Blocked", "it may only restart"
    world.until_phase("Aborted", 60, 60)


@pytest.mark.parametrize(("failed", "named"), [(1, "/data/1"), (0, "/data/0")])
def test_a_directory_that_fails_in_the_middle_of_a_copy_ends_the_run(failed: int, named: str) -> None:
    """Of the target: the copy is gone, and the replica stays. Of the source: the replica is offline."""
    world = crowded()
    before = assignment(world)
    started(world)
    world.kafka.volume_fails(FILLS, failed)
    world.until(world.finished)
    run = world.run()
    assert run.status.phase == "Superseded"
    assert f"log directory {named} of broker 0 has failed" in message_of(run)
    assert held_in(world, 1) == set()
    assert not any(key[2] == LOG_DIR_RATE for key in world.kafka.dynamic)
    if failed == 1:
        clean(world)
        assert assignment(world) == before


def test_nothing_moves_on_a_broker_of_which_a_directory_has_failed() -> None:
    """Kafka refuses it; and the plan says so, before anybody approves it."""
    world = crowded(volumes=(1000 * GB, 1000 * GB, 10 * GB))
    world.kafka.volume_fails(FILLS, 2)
    run = asked(world, brokers="0", freeSharePercent="30")
    assert run.status.plan is None
    assert "log directory /data/2 of broker 0 has failed, so Kafka moves no replica between the others" in message_of(
        run
    )
    world.kafka.disk_replaced(FILLS)
    run = world.until_phase("AwaitingApproval")
    world.approve(run)
    for _ in range(2):
        world.step(5)
    world.kafka.volume_fails(FILLS, 2)
    for _ in range(3):
        world.step(5)
    held = world.run()
    assert "LogDirsOnline" in {w.guard.value for w in held.status.waiting_for}, message_of(held)
    assert not world.kafka.futures


def test_room_that_goes_before_the_next_batch_holds_it() -> None:
    world = crowded(volumes=(1000 * GB, 100 * GB))
    started(world, batchSize="1")
    world.kafka.volumes[FILLS] = (1000 * GB, 60 * GB)
    for _ in range(8):
        world.step()
    run = world.run()
    assert {w.guard.value for w in run.status.waiting_for} == {"DiskHasRoom"}, message_of(run)
    assert "volume /data/1 of broker 0 has" in message_of(run)
    assert held_in(world, 1) == {"log4"}
    world.kafka.volumes[FILLS] = (1000 * GB, 100 * GB)
    world.until_phase("Succeeded")
    clean(world)


def somewhere_else(kafka: SimKafka) -> None:
    kafka.alter_log_dirs(FILLS, {TopicPartition("log4", 0): "/data/2"})


def cancelled(kafka: SimKafka) -> None:
    kafka.alter_log_dirs(FILLS, {TopicPartition("log4", 0): "/data/0"})


@pytest.mark.parametrize(
    ("done", "words"),
    [(somewhere_else, "another client moves log4-0 of broker 0 to /data/2"), (cancelled, "was cancelled")],
)
def test_another_client_that_moves_the_replicas_ends_the_run(done: Callable[[SimKafka], None], words: str) -> None:
    world = crowded(volumes=(1000 * GB, 1000 * GB, 400 * GB))
    started(world)
    world.kafka.futures[FILLS, TopicPartition("log4", 0)].share = 0.1
    world.kafka.ticks_of_a_copy = 1000
    world.step(1)
    done(world.kafka)
    world.until(world.finished, seconds=5)
    assert world.run().status.phase == "Superseded"
    assert words in message_of(world.run())
    assert not any(key[2] == LOG_DIR_RATE for key in world.kafka.dynamic)
    theirs = {tp.topic for _, tp in world.kafka.futures}
    assert theirs == ({"log4"} if done is somewhere_else else set()), "what is another client's stays"


def test_another_client_that_reassigns_holds_the_next_batch() -> None:
    world = crowded()
    started(world, batchSize="1")
    world.kafka.alter_reassignments({TopicPartition("log0", 0): [0, 1, 2, 3]})
    world.kafka.copies_per_tick = 0
    for _ in range(6):
        world.step()
    assert "NoForeignReassignment" in {w.guard.value for w in world.run().status.waiting_for}
    world.kafka.copies_per_tick = 2
    world.until_phase("Succeeded")


@pytest.mark.parametrize("reconciles", range(12))
def test_stopped_at_any_moment_it_gives_back_what_is_on_its_way(reconciles: int) -> None:
    world = crowded()
    before = assignment(world)
    world.kafka.dynamic["BROKER", "0", LOG_DIR_RATE] = "777"
    run = asked(world, brokers="0", freeSharePercent="30", batchSize="1")
    world.approve(run)
    for _ in range(reconciles):
        world.step(2)
    if not world.finished():
        world.approve(world.run(), decision="Reject")
    world.until(world.finished, seconds=2)
    assert world.run().status.phase in ("Aborted", "Rejected", "Succeeded"), message_of(world.run())
    assert not world.kafka.futures
    assert world.kafka.dynamic["BROKER", "0", LOG_DIR_RATE] == "777"
    assert assignment(world) == before
    assert held_in(world, 1) <= {"log3", "log4"}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", range(4))
def test_killed_at_a_write_to_kafka(nth: int, when: str) -> None:
    world = crowded()
    world.ask("relieve-disk", brokers="0", freeSharePercent="30", batchSize="1")
    world.wrap_kafka = lambda kafka: Interrupted(kafka, ("alter_log_dirs", "alter_configs"), nth, when)
    world.operator()
    assert world.to_the_end() == 1
    assert world.run().status.phase == "Succeeded"
    assert held_in(world, 1) == {"log3", "log4"}
    clean(world)


def test_the_mode_auto_may_move_within_a_broker() -> None:
    """Nothing is given up, so that bounds on moves and bytes decide."""
    bounds = {"maxBytes": 10**12, "maxMoves": 100, "maxRisk": "Medium"}
    quiet = [{"name": "elect-preferred-leaders", "mode": "Observe"}, {"name": "relieve-disk", "mode": "Auto"}]
    world = crowded(remediation={"auto": bounds, "playbooks": quiet})
    for _ in range(40):
        world.step(225)
        world.kafka.partitions[HOT].size += 10 * GB
        if any(r.status.phase == "Succeeded" for r in world.runs()):
            break
    run = next(r for r in world.runs() if r.spec.playbook.name == "relieve-disk")
    assert run.status.phase == "Succeeded", message_of(run)
    assert not run.status.approvals
    assert len(LOGS) > len(held_in(world, 1)) > 0
