"""A volume fills: replicas move off its broker, as few bytes as can be, and receivers keep their share."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kafka_medic.clients.answers import LogDir, LogDirs
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import ReplicaMoves, ReplicaRemovals
from tests.simulation import brokers
from tests.simulation.brokers import MIN_ISR
from tests.simulation.deaths import Interrupted
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BROKERS, World

GB = 10**9
FILLS = 0
QUIET = {"playbooks": [{"name": "elect-preferred-leaders", "mode": "Observe"}]}
RACKS: dict[int, str | None] = {0: "a", 1: "b", 2: "c", 3: "a", 4: "b", 5: "c"}
LOGS = (100, 60, 30, 20, 35)
HOT = TopicPartition("hot", 0)


def filling(
    *,
    volume: tuple[int, ...] = (1000 * GB,),
    others: int = 10_000 * GB,
    zookeeper: bool = False,
    racks: dict[int, str | None] = RACKS,
    **spec: object,
) -> World:
    """Broker 0 has 1 TB, of which 755 GB are used. The partition `hot` grows; everything else has its size."""
    kafka = SimKafka(racks=dict(racks), zookeeper=zookeeper)
    kafka.volumes = dict.fromkeys(RACKS, (others,)) | {FILLS: volume}
    kafka.topic("hot", [FILLS, 1, 2], size=510 * GB)
    for number, size in enumerate(LOGS):
        kafka.topic(f"log{number}", [1, FILLS, 2] if number else [FILLS, 1, 2], size=size * GB)
    for tp in kafka.partitions:
        kafka.dynamic["TOPIC", tp.topic, MIN_ISR] = "2"
    world = World(kafka)
    world.install(brokers=BROKERS, **{"remediation": QUIET} | spec)
    world.with_pods()
    return world


def grow(world: World, times: int = 1, seconds: float = 225.0) -> None:
    """Time passes, and `hot` gets 10 GB in each 225 s."""
    for _ in range(times):
        world.step(seconds)
        world.kafka.partitions[HOT].size += int(10 * GB * seconds / 225)


def used(world: World, broker: int) -> int:
    parts = world.kafka.partitions.values()
    return sum(p.size for p in parts if broker in p.replicas and world.kafka.has_copied(broker, p))


def free(world: World, broker: int = FILLS) -> int:
    return world.kafka.volumes[broker][0] - used(world, broker)


def proposed(world: World) -> Remediation:
    for _ in range(12):
        grow(world)
        if any(r.status.phase == "AwaitingApproval" for r in world.runs()):
            return world.run()
    raise AssertionError([(r.status.phase, r.status.message) for r in world.runs()])


def asked(world: World, **parameters: str) -> Remediation:
    """A person's run, as far as it gets in a few reconciles."""
    world.ask("relieve-disk", **parameters)
    for _ in range(4):
        world.step()
    return world.run()


def message_of(run: Remediation) -> str:
    return run.status.message or ""


def finding(world: World) -> dict[str, object]:
    return next(f for f in world.cluster()["status"]["findings"] if f["type"] == "DiskFilling")


def held(world: World, broker: int = FILLS) -> set[str]:
    return {tp.topic for tp, part in world.kafka.partitions.items() if broker in part.replicas}


def whole(world: World) -> None:
    assert all(len(p.replicas) == len(p.isr) == 3 and p.leader in p.isr for p in world.kafka.partitions.values())
    assert not any("throttled" in key[2] for key in world.kafka.dynamic)


@pytest.mark.parametrize("zookeeper", [False, True])
def test_the_finding_proposes_it_and_the_volume_has_enough_free_afterwards(zookeeper: bool) -> None:
    world = filling(zookeeper=zookeeper)
    run = proposed(world)
    assert run.spec.playbook.name == finding(world)["playbook"] == "relieve-disk"
    assert run.spec.cause is not None
    assert run.spec.cause.finding_id == "DiskFilling/broker-0"
    plan = run.status.plan
    assert plan is not None
    at_plan = free(world) + 10 * GB  # which came since
    need = 250 * GB - at_plan
    moved = sum(c.size_bytes or 0 for c in plan.part(ReplicaMoves).changes)
    assert {c.topic for c in plan.part(ReplicaRemovals).each()} <= {f"log{n}" for n in range(len(LOGS))}
    assert need <= moved <= need + 30 * GB, plan.summary
    assert "relieve the volume /data/0 of broker 0" in plan.summary
    assert "full in about" in plan.summary
    world.approve(run)
    moving = {TopicPartition(c.topic, c.partition) for c in plan.part(ReplicaRemovals).each()}
    copied: set[TopicPartition] = set()
    for _ in range(60):
        grow(world, seconds=15.0)
        parts = world.kafka.partitions
        copied |= {tp for tp in moving if len(parts[tp].isr) == 4}
        assert copied == moving or all(FILLS in parts[tp].replicas for tp in moving)
        assert all(len(p.isr) >= 3 for p in parts.values())
        assert "LeftoverThrottle" not in {f["type"] for f in world.cluster()["status"]["findings"]}
        if world.run().status.phase == "Succeeded":
            break
    assert world.run().status.phase == "Succeeded"
    assert held(world).isdisjoint(tp.topic for tp in moving)
    whole(world)
    written = world.kafka.partitions[HOT].size - 510 * GB - (245 * GB - at_plan)
    assert free(world) >= 250 * GB - written > 200 * GB
    for broker in RACKS.keys() - {FILLS}:
        assert free(world, broker) >= world.kafka.volumes[broker][0] // 4
    # Brokers 3 to 5 hold little, so what follows is a rebalance by bytes. It brings nothing back.
    freed = free(world)
    for _ in range(40):
        world.step(600)
        for later in world.runs():
            if later.status.phase == "AwaitingApproval":
                world.approve(later)
    names = [r.spec.playbook.name for r in world.runs() if r.status.phase == "Succeeded"]
    assert (names.count("relieve-disk"), "rebalance" in names) == (1, True)
    assert free(world) >= freed
    whole(world)


def test_each_volume_that_fills_has_a_plan_of_its_own_and_a_no_to_one_is_no_no_to_the_other() -> None:
    world = filling()
    world.kafka.volumes[4] = (1000 * GB,)
    world.kafka.topic("warm", [4, 3, 5], size=600 * GB)
    world.kafka.topic("cool", [4, 3, 5], size=155 * GB)
    for topic in ("warm", "cool"):
        world.kafka.dynamic["TOPIC", topic, MIN_ISR] = "2"

    def both_grow() -> None:
        grow(world)
        world.kafka.partitions[TopicPartition("warm", 0)].size += 10 * GB

    def about(broker: int) -> list[str]:
        wanted = f"DiskFilling/broker-{broker}"
        found = [r for r in world.runs() if r.spec.cause is not None and r.spec.cause.finding_id == wanted]
        return [str(r.status.phase) for r in found]

    while not (about(FILLS) and about(4)):
        both_grow()
    both_grow()
    assert about(FILLS) == about(4) == ["AwaitingApproval"]
    first = next(r for r in world.runs() if r.spec.cause and r.spec.cause.finding_id.endswith(str(FILLS)))
    world.approve(first, decision="Reject")
    for _ in range(4):
        both_grow()
    assert (about(FILLS), about(4)) == (["Rejected"], ["AwaitingApproval"])


def test_a_volume_that_has_room_again_is_not_relieved() -> None:
    world = filling()
    run = proposed(world)
    world.kafka.volumes[FILLS] = (4000 * GB,)  # it was enlarged
    for _ in range(8):
        world.step(225)
    world.approve(run)
    for _ in range(10):
        world.step()
    assert not any(w.startswith("reassign") for w in world.kafka.writes), [r.status.message for r in world.runs()]


def test_a_plan_that_was_approved_late_does_not_claim_to_have_freed_a_share() -> None:
    world = filling()
    run = proposed(world)
    for _ in range(12):  # 45 minutes until somebody looks
        grow(world)
    world.approve(run)
    for _ in range(60):
        grow(world, seconds=5.0)
    (done,) = (r for r in world.runs() if r.name == run.name)
    assert done.status.phase == "Succeeded"
    assert "relieve the volume /data/0 of broker 0" in (done.status.message or "")
    assert "25 %" not in (done.status.message or "")


def relieved() -> World:
    """Right after the proposed run has Succeeded."""
    world = filling()
    world.approve(proposed(world))
    for _ in range(80):
        grow(world, seconds=5.0)
        if world.run().status.phase == "Succeeded":
            break
    return world


def test_room_that_comes_a_minute_after_the_run_is_not_asked_for_twice() -> None:
    world = relieved()
    assert finding(world)["playbook"] == "relieve-disk", "the files are still there"
    for _ in range(60):
        grow(world, seconds=5.0)
    assert [r.spec.playbook.name for r in world.runs()].count("relieve-disk") == 1
    assert "DiskFilling" not in {f["type"] for f in world.cluster()["status"]["findings"]}


def test_a_copy_that_takes_longer_than_the_volume_lasts_is_said_plainly() -> None:
    override = [{"name": "relieve-disk", "parameters": {"throttleBytesPerSecond": 4_000_000}}]
    world = filling(remediation={"playbooks": [*QUIET["playbooks"], *override]})
    plan = proposed(world).status.plan
    assert plan is not None
    assert "longer than the volume lasts: raise throttleBytesPerSecond" in plan.summary
    fast = proposed(filling()).status.plan
    assert fast is not None
    assert "longer than the volume lasts" not in fast.summary
    assert "the volume is full in about" in fast.summary


def test_the_mode_auto_asks_a_person() -> None:
    auto = {"auto": {"maxBytes": 10**15}, "playbooks": [*QUIET["playbooks"], {"name": "relieve-disk", "mode": "Auto"}]}
    world = filling(remediation=auto)
    proposed(world)
    grow(world, 3)
    run = world.run()
    assert run.status.phase == "AwaitingApproval"
    assert "it removes replicas" in str(run.status.message) + str(run.status.waiting_for)
    assert not world.kafka.writes


def test_a_person_asks_for_it_and_names_broker_and_share() -> None:
    world = filling()
    run = asked(world, brokers="0", freeSharePercent="30")
    assert run.status.phase == "AwaitingApproval", run.status.message
    plan = run.status.plan
    assert plan is not None
    assert "245.0 GB free now (24.5 %), 300.0 GB afterwards (30.0 %)" in plan.summary, plan.summary
    assert "moves 55.0 GB off the broker (lower bound 55.0 GB)" in plan.summary
    assert {c.topic for c in plan.part(ReplicaRemovals).each()} == {"log3", "log4"}
    world.approve(run)
    world.until_phase("Succeeded")
    assert free(world) == 300 * GB
    whole(world)


def test_a_volume_above_the_share_is_left_alone() -> None:
    world = filling(volume=(2000 * GB,))
    run = asked(world, brokers="0")
    assert run.status.phase == "Superseded"
    assert "broker 0 has 1.2 TB of 2.0 TB free (62.2 %), and 25 % are wanted" in message_of(run)


def test_nothing_is_proposed_while_a_fifth_is_free_and_the_finding_says_so() -> None:
    world = filling(volume=(1030 * GB,))
    grow(world, 5)
    assert finding(world).get("playbook") is None
    assert any("relieve-disk is proposed when less than 20 %" in e for e in finding(world)["evidence"])  # type: ignore[attr-defined]
    assert world.runs() == []


def test_no_room_is_refused_and_names_the_brokers_and_the_bytes_that_lack() -> None:
    world = filling(others=1050 * GB)
    for broker in (3, 4, 5):
        world.kafka.topic(f"big{broker}", [broker], size=780 * GB)
        world.kafka.dynamic["TOPIC", f"big{broker}", MIN_ISR] = "1"
    run = asked(world, brokers="0", freeSharePercent="30")
    assert run.status.plan is None
    message = message_of(run)
    assert "55.0 GB have to leave broker 0, and other brokers have room for 0 B" in message, message
    assert "55.0 GB are lacking" in message
    for broker in (1, 2, 3, 4, 5):
        assert f"broker {broker}: 0 B" in message


def test_receivers_keep_their_share() -> None:
    world = filling(others=1050 * GB)
    for broker, size in ((3, 700), (4, 780), (5, 780)):
        world.kafka.topic(f"big{broker}", [broker], size=size * GB)
        world.kafka.dynamic["TOPIC", f"big{broker}", MIN_ISR] = "1"
    run = asked(world, brokers="0", freeSharePercent="30")
    assert run.status.plan is None, "35 GB come to no broker above 30 %"
    world.kafka.volumes[3] = (1110 * GB,)
    world.until_phase("AwaitingApproval")
    world.approve(world.run())
    world.until_phase("Succeeded")
    assert free(world, 3) * 100 >= 1110 * GB * 30


def test_a_volume_that_cannot_be_read_is_refused() -> None:
    world = filling()
    world.kafka.volumes.clear()
    world.kafka.free = None
    run = asked(world, brokers="0")
    assert run.status.plan is None
    assert "the volume of broker 0 is not known" in message_of(run)


def test_receivers_whose_free_space_is_not_known_get_nothing() -> None:
    world = filling()
    world.kafka.volumes = {FILLS: (1000 * GB,)}
    world.kafka.free = None
    run = asked(world, brokers="0", freeSharePercent="30")
    assert run.status.plan is None
    assert "broker 3: not known" in message_of(run)


def test_exempt_topics_and_what_is_out_of_sync_stay_and_the_plan_names_the_latter() -> None:
    world = filling(expectations={"topics": [{"pattern": "log4", "exempt": True}]})
    world.kafka.copies_per_tick = 0
    world.kafka.partitions[TopicPartition("log2", 0)].isr.remove(2)
    run = asked(world, brokers="0", freeSharePercent="30")
    plan = run.status.plan
    assert plan is not None, run.status.message
    assert {c.topic for c in plan.part(ReplicaRemovals).each()} == {"log1"}
    assert "left out, because not every replica is in sync: log2-0" in plan.summary


def test_a_partition_of_unknown_size_stays_and_is_named() -> None:
    world = filling()
    listed = world.kafka._directories
    world.kafka._directories = lambda b: LogDirs(tuple(map(_without_log1, listed(b).directories)))  # type: ignore[method-assign]
    run = asked(world, brokers="0", freeSharePercent="30")
    plan = run.status.plan
    assert plan is not None, run.status.message
    assert "log1" not in {c.topic for c in plan.part(ReplicaRemovals).each()}
    assert "left out, because the size is not known: log1-0" in plan.summary


def _without_log1(directory: LogDir) -> LogDir:
    rows = directory.replicas
    assert rows is not None
    return replace(directory, replicas=rows.filter(pc.not_equal(rows["topic"], "log1")))


def test_brokers_that_fill_up_themselves_get_nothing() -> None:
    world = filling(others=1300 * GB, racks=dict.fromkeys(RACKS))
    world.kafka.topic("warm", [3], size=1080 * GB)
    world.kafka.dynamic["TOPIC", "warm", MIN_ISR] = "1"
    for _ in range(6):
        grow(world)
        world.kafka.partitions[TopicPartition("warm", 0)].size += 10 * GB
    assert {f["id"] for f in world.cluster()["status"]["findings"] if f["type"] == "DiskFilling"} >= {
        "DiskFilling/broker-0",
        "DiskFilling/broker-3",
    }
    plan = asked(world, brokers="0").status.plan
    assert plan is not None
    assert not any(3 in c.replicas for c in plan.part(ReplicaMoves).changes)


def test_two_brokers_are_relieved_by_one_run() -> None:
    world = filling()
    world.kafka.volumes[2] = (1000 * GB,)
    run = asked(world, brokers="0, 2", freeSharePercent="26")
    plan = run.status.plan
    assert plan is not None, run.status.message
    assert "volume /data/0 of broker 0: 245.0 GB free now" in plan.summary
    assert "volume /data/0 of broker 2: 245.0 GB free now" in plan.summary
    world.approve(run)
    world.until_phase("Succeeded")
    assert min(free(world, 0), free(world, 2)) >= 260 * GB
    whole(world)


def test_without_a_finding_the_broker_has_to_be_named() -> None:
    run = asked(filling())
    assert run.status.plan is None
    assert "set the parameter brokers to broker ids" in message_of(run)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", [1, 3, 4])
def test_killed_at_a_write_to_kafka(nth: int, when: str) -> None:
    world = filling()
    world.ask("relieve-disk", brokers="0", freeSharePercent="30", batchSize="1")
    world.wrap_kafka = lambda kafka: Interrupted(kafka, ("alter_reassignments", "alter_configs"), nth, when)
    world.operator()
    assert world.to_the_end() == 1
    assert world.run().status.phase == "Succeeded"
    assert free(world) == 300 * GB
    whole(world)


def test_what_left_the_volume_is_not_brought_back() -> None:
    """The broker then has far fewer replicas than others, which LoadUneven would have evened out, and so on."""
    world = filling()
    for number in range(len(LOGS)):
        world.kafka.delete(f"log{number}")
    for number in range(80):
        beside = [1, 2] if number % 4 < 2 else [4, 5]
        world.kafka.topic(f"small{number}", [FILLS if number % 2 else 3, *beside], size=25 * GB // 10)
        world.kafka.dynamic["TOPIC", f"small{number}", MIN_ISR] = "2"
    world.kafka.partitions[HOT].size = 660 * GB
    world.approve(proposed(world))
    world.until_phase("Succeeded")
    held_then, free_then = len(held(world)), free(world)
    assert free_then >= 230 * GB
    for _ in range(25):
        world.step(300)
    assert [r.spec.playbook.name for r in world.runs()] == ["relieve-disk"]
    assert (len(held(world)), free(world)) == (held_then, free_then)


def test_receivers_keep_their_share_also_where_the_approval_comes_late() -> None:
    """They have filled up meanwhile. What fits at all may still be the next volume that is full."""
    world = filling(others=2000 * GB)
    run = asked(world, brokers="0", freeSharePercent="30")
    assert run.status.phase == "AwaitingApproval", run.status.message
    for broker in (3, 4, 5):
        world.kafka.topic(f"big{broker}", [broker], size=1490 * GB)
        world.kafka.dynamic["TOPIC", f"big{broker}", MIN_ISR] = "1"
    world.approve(run)
    for _ in range(8):
        world.step()
    assert not any(w.startswith("reassign") for w in world.kafka.writes)
    waits = {w.guard: w.message for w in world.run().status.waiting_for}
    assert "above the 25 % that it keeps free" in waits["DiskHasRoom"], waits
    for broker in (3, 4, 5):
        world.kafka.partitions[TopicPartition(f"big{broker}", 0)].size = 1000 * GB
    world.until_phase("Succeeded")


def test_room_that_comes_after_ten_minutes_is_not_asked_for_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "FILE_DELETE_DELAY", 600.0)  # log.segment.delete.delay.ms of the brokers
    world = relieved()
    for _ in range(100):
        grow(world, seconds=5.0)
    runs = [(r.spec.playbook.name, r.status.phase) for r in world.runs()]
    assert [name for name, _ in runs].count("relieve-disk") == 1, runs


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
