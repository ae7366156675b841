"""Log directories that fail one by one, and volumes that fill up; with what looks alike and is something else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_medic.cluster.snapshot import STORAGE_ERROR, Directory, Element, TopicPartition
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.diagnose.disks import CRITICAL_SECONDS, RELIEVED_BELOW, full_in
from kafka_medic.diagnose.free_space import QUARTERS, SPACING
from kafka_medic.diagnose.memory import DetectorMemory, remember
from kafka_medic.guard.stuck import waiting
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.vocabulary import Severity
from tests.simulation.world import shipped_playbooks
from tests.unit.cluster import worlds

GB = 10**9
GOOD, FAILED = Directory("/data/0", None, 1000 * GB, 400 * GB), Directory("/data/1", STORAGE_ERROR)
ORDERS = TopicPartition("orders", 0)


def found(snapshot, **kwargs):
    return {f.id: f for f in diagnose(snapshot, **kwargs)}


def failed(*offline, directories=(GOOD, FAILED), rows=worlds.ROWS, **more):
    """Of broker 1."""
    told = {"directories": directories, "offline_replicas": tuple(offline), **more}
    return worlds.healthy(
        rows=rows, brokers=worlds.brokers(b1=told), views=tuple(worlds.view(n, rows) for n in (1, 2, 3))
    )


def without(broker, rows=worlds.ROWS, leader=2):
    """The first partition, with that broker out of the ISR."""
    return [{**rows[0], "isr": [b for b in rows[0]["isr"] if b != broker], "leader": leader}, *rows[1:]]


# LogDirFailed


def test_which_broker_which_directory_which_partitions_and_what_to_do():
    finding = found(failed(ORDERS, rows=without(1)))["LogDirFailed/broker-1"]
    assert (finding.severity, finding.firing()) == (Severity.CRITICAL, True)
    assert finding.affected == ("broker-1", "/data/1", "orders-0")
    assert finding.message == "log directory /data/1 of broker 1 has failed; 1 replica on it is offline"
    evidence = " ".join(finding.evidence)
    assert f"/data/1: {STORAGE_ERROR}, read from log-dirs" in evidence
    assert "broker 1 continues with /data/0" in evidence
    assert "Then restart broker 1" in evidence


def test_a_cure_is_named_where_another_broker_has_a_replica_in_sync_and_one_can_take_it():
    elsewhere = [{**worlds.ROWS[0], "replicas": [1, 2], "isr": [2], "leader": 2}, *worlds.ROWS[1:]]
    alone = [{**worlds.ROWS[0], "replicas": [1, 2], "isr": [1], "leader": -1}, *worlds.ROWS[1:]]
    everywhere = without(1)
    cures = [
        found(failed(ORDERS, rows=rows))["LogDirFailed/broker-1"].playbook for rows in (elsewhere, alone, everywhere)
    ]
    assert cures == ["restore-log-dir", None, None]


def test_a_failed_directory_without_replicas_is_named_all_the_same():
    finding = found(failed())["LogDirFailed/broker-1"]
    assert finding.affected == ("broker-1", "/data/1")
    assert finding.message == "log directory /data/1 of broker 1 has failed; no replica on it is known"


def test_of_two_failed_directories_nobody_can_tell_which_replica_was_on_which():
    two = (GOOD, FAILED, Directory("/data/2", STORAGE_ERROR))
    finding = found(failed(ORDERS, directories=two, rows=without(1)))["LogDirFailed/broker-1"]
    assert finding.affected == ("broker-1", "/data/1", "/data/2", "orders-0")
    assert "which directory held which replica is not known" in " ".join(finding.evidence)


def test_which_replicas_were_on_it_is_said_to_be_not_known():
    unsure = (GOOD, FAILED, Directory("/data/2", "UNKNOWN_SERVER_ERROR"))
    finding = found(failed(directories=unsure, offline_replicas=None))["LogDirFailed/broker-1"]
    assert finding.affected == ("broker-1", "/data/1")
    assert finding.message.endswith("which replicas it holds is not known")
    assert "/data/2 could not be read: UNKNOWN_SERVER_ERROR" in " ".join(finding.evidence)


def test_a_partition_with_its_last_in_sync_replica_there_is_named_before_anybody_takes_the_disk_away():
    rows = [{**worlds.ROWS[0], "isr": [1], "leader": -1}, *worlds.ROWS[1:]]
    findings = found(failed(ORDERS, rows=rows))
    evidence = " ".join(findings["LogDirFailed/broker-1"].evidence)
    assert "the only in-sync replica of orders-0 is there; save the disk's data before you replace the disk" in evidence
    assert "PartitionLeaderless" in findings


@pytest.mark.parametrize(
    "change",
    [
        {
            "directories": None,
            "offline_replicas": None,
            "reachable": False,
            "registered": False,
        },  # BrokerDown's business
        {"directories": (GOOD,)},
        {"directories": (GOOD, Directory("/data/1", None, 1000 * GB, 1000 * GB))},  # one that has just been added
        {"directories": (GOOD, Directory("/data/1", "UNKNOWN_SERVER_ERROR")), "offline_replicas": ()},
        {"directories": (), "offline_replicas": ()},
        {"directories": None, "offline_replicas": None},
    ],
)
def test_no_directory_that_kafka_calls_failed_is_no_failed_directory(change):
    assert not [i for i in found(worlds.healthy(brokers=worlds.brokers(b1=change))) if i.startswith("LogDirFailed")]


def test_a_replica_on_a_failed_disk_cannot_be_elected_so_that_the_controller_is_not_stuck():
    """Its broker is live and in the ISR: it would look as if the controller did nothing."""
    rows = [{**worlds.ROWS[0], "isr": [1], "leader": -1}, *worlds.ROWS[1:]]
    well = failed(rows=rows, directories=(GOOD,))
    assert "ControllerStuck" in found(well)
    assert [r.tp for r in waiting(well)] == [ORDERS]
    for sick in (failed(ORDERS, rows=rows), failed(rows=rows, offline_replicas=None)):
        assert "ControllerStuck" not in found(sick)
        assert waiting(sick) == ()
    other = [rows[0], {**worlds.ROWS[1], "isr": [1], "leader": -1}, *worlds.ROWS[2:]]
    assert found(failed(ORDERS, rows=other))["ControllerStuck"].affected == ("broker-1", "orders-1")


def test_who_is_out_of_the_isr_for_that_is_said():
    evidence = found(failed(ORDERS, rows=without(1)))["PartitionUnderReplicated"].evidence
    assert evidence[0] == "broker 1 (a log directory failed) is out of the ISR of 1 partition"


# DiskFilling


def looks(*volumes, seconds=SPACING, broker=1):
    """The memory after so many looks, and the last of them; each look has the directories' free bytes, or all of a
    Directory, or None for a broker that did not tell."""
    memory = DetectorMemory()
    snapshot = worlds.healthy()
    for n, told in enumerate(volumes):
        listed = None if told is None else tuple(map(_directory, told.items()))
        changes = worlds.brokers(**{f"b{broker}": {"directories": listed}})
        unread = {} if listed is not None else {Element("log-dirs", "BROKER", str(broker)): "no answer"}
        snapshot = worlds.healthy(at=worlds.later(n * seconds), brokers=changes, unread=unread)
        memory = remember(memory, snapshot, elapsed=seconds if n else None)
    return found(snapshot, memory=memory)


def _directory(item):
    path, told = item
    return told if isinstance(told, Directory) else Directory(path, None, 1000 * GB, told)


def falling(*free, path="/data/0"):
    return [{path: n} for n in free]


def steady(start, step, count):
    return falling(*(start - step * n for n in range(count)))


def test_when_it_will_be_full_at_the_present_pace():
    finding = looks(*steady(100 * GB, 10 * GB, QUARTERS + 1))["DiskFilling/broker-1"]
    assert (finding.severity, finding.firing()) == (Severity.CRITICAL, True)
    assert finding.affected == ("broker-1", "/data/0")
    assert finding.message == "a disk of broker 1 will be full in about 22m at the current rate"
    (told, source) = finding.evidence[:2]
    free = "60.0 GB of 1.0 TB free, and at least 44.4 MB/s less in each quarter of the last 15m; full in about 22m"
    assert told == f"/data/0: {free}"
    assert source.startswith("read from log-dirs")


def test_a_slow_one_is_a_warning_that_takes_longer_to_see():
    """Full in 8 hours and a half: an hour is too short to say so of."""
    slow = steady(800 * GB, 4 * GB, 16 * QUARTERS + 1)
    assert looks(*slow[: 4 * QUARTERS + 1]) == {}
    finding = looks(*slow)["DiskFilling/broker-1"]
    assert finding.severity is Severity.WARNING
    assert "of the last 4h; full in about 8h30m" in finding.evidence[0]
    assert CRITICAL_SECONDS < 8.5 * 3600


def test_little_room_makes_it_critical_whenever_it_will_be_full():
    nearly = [{"/data/0": Directory("/data/0", None, 20_000 * GB, n["/data/0"])} for n in steady(790 * GB, 4 * GB, 65)]
    assert looks(*nearly)["DiskFilling/broker-1"].severity is Severity.CRITICAL


@pytest.mark.parametrize(
    "volumes",
    [
        steady(20 * GB, 0, 70),  # quite full, and steady
        falling(*([20 * GB] * 60), *range(20 * GB, 10 * GB, -3 * GB)),  # it has begun to fill
        falling(100 * GB, 40 * GB),  # two looks
        falling(100 * GB, 80 * GB, 60 * GB, 40 * GB, 40 * GB),  # a reassignment added a replica, and is done
        falling(*([100 * GB, 70 * GB, 40 * GB, 110 * GB, 80 * GB, 50 * GB] * 12)),  # segments are deleted
        falling(*(n * GB for n in range(10, 90))),  # retention frees more than is written
        [{"/data/0": Directory("/data/0", None, None, None)}] * 70,  # KIP-827: not reported before 3.3
        [{"/data/0": FAILED}] * 70,
        [None] * 70,
    ],
)
def test_what_does_not_go_on_falling_is_silent(volumes):
    assert [i for i in looks(*volumes) if i.startswith("DiskFilling")] == []


def test_looks_that_are_a_second_apart_are_no_pace():
    """Before each effect everything is read twice within moments."""
    assert looks(*steady(100 * GB, 10 * GB, 9), seconds=1.0) == {}
    quick = [{"/data/0": 100 * GB - n * GB // 2} for n in range(int(QUARTERS * SPACING) // 5 + 1)]
    assert "DiskFilling/broker-1" in looks(*quick, seconds=5.0), "many looks are as good as few"


def test_two_directories_on_one_volume_are_one_disk():
    """They report the same bytes."""
    both = [{"/data/0": n, "/data/1": n} for n in range(100 * GB, 55 * GB, -10 * GB)]
    finding = looks(*both)["DiskFilling/broker-1"]
    assert finding.affected == ("broker-1", "/data/0", "/data/1")
    assert finding.message == "a disk of broker 1 will be full in about 22m at the current rate"
    assert [e for e in finding.evidence if "free" in e] == [
        "/data/0 and /data/1, on one volume: 60.0 GB of 1.0 TB free, and at least 44.4 MB/s less in each quarter of "
        "the last 15m; full in about 22m"
    ]
    apart = [{"/data/0": n, "/data/1": n // 2} for n in range(100 * GB, 55 * GB, -10 * GB)]
    assert len([e for e in looks(*apart)["DiskFilling/broker-1"].evidence if "free" in e]) == 2


@pytest.mark.parametrize(("free", "cure"), [(199 * GB, "relieve-disk"), (200 * GB, None)])
def test_the_cure_is_named_below_a_fifth_of_the_volume(free, cure):
    finding = looks(*steady(free + 40 * GB, 10 * GB, QUARTERS + 1))["DiskFilling/broker-1"]
    assert finding.playbook == cure
    assert ("relieve-disk is proposed when less than 20 % of the volume is free" in finding.evidence) == (cure is None)


def test_the_cure_is_named_for_one_of_several_volumes_and_not_where_one_is_not_known():
    fills = range(100 * GB, 55 * GB, -10 * GB)
    one = [{"/data/0": n, "/data/1": n} for n in fills]
    several = [{"/data/0": n, "/data/1": 500 * GB} for n in fills]
    for told in (one, several):
        assert looks(*told)["DiskFilling/broker-1"].playbook == "relieve-disk"
    for other in (Directory("/data/1", "UNKNOWN_SERVER_ERROR"), Directory("/data/1", None, None, None), FAILED):
        untold = looks(*({"/data/0": n, "/data/1": other} for n in fills))["DiskFilling/broker-1"]
        assert untold.playbook is None
        assert "not every log directory of the broker reports its free bytes" in untold.evidence[-1]


def test_a_volume_that_fills_is_not_helped_by_another_that_is_small():
    """What is free on the volume that fills decides."""
    fills = [{"/data/0": n, "/data/1": 50 * GB} for n in range(450 * GB, 200 * GB, -50 * GB)]
    finding = looks(*fills)["DiskFilling/broker-1"]
    assert finding.playbook is None
    assert "relieve-disk is proposed when less than 20 % of the volume is free" in finding.evidence


def test_the_time_that_the_message_names_can_be_read_back():
    finding = looks(*steady(100 * GB, 10 * GB, QUARTERS + 1))["DiskFilling/broker-1"]
    assert full_in(finding.message) == 22 * 60
    assert full_in("a disk of broker 1 fills up") is None


def _relieve_disk():
    return next(b for p in shipped_playbooks() if (b := Playbook.parse(p)).name == "relieve-disk")


def test_what_the_playbook_frees_is_never_less_than_what_has_it_proposed():
    share = next(p for p in _relieve_disk().spec.parameters if p.name == "freeSharePercent")
    assert share.minimum is not None
    assert share.minimum >= 100 * RELIEVED_BELOW
    assert int(share.default) > 100 * RELIEVED_BELOW


def test_a_directory_that_goes_is_forgotten_and_one_of_another_size_is_another_disk():
    start = steady(100 * GB, 10 * GB, QUARTERS)
    gone = [*start, {"/other": GB}, {"/data/0": 50 * GB}]
    assert looks(*gone) == {}
    other = Directory("/data/0", None, 500 * GB, 50 * GB)
    assert looks(*start, {"/data/0": other}) == {}


def test_a_broker_that_does_not_tell_for_a_while_is_not_forgotten():
    told = steady(100 * GB, 10 * GB, QUARTERS + 1)
    assert "DiskFilling/broker-1" in looks(*told[:2], None, *told[2:])
    assert looks(*told, None) == {}, "what is not known is no finding"


def test_partitions_that_could_not_be_read_do_not_stop_it():
    memory = DetectorMemory()
    for n, told in enumerate(steady(100 * GB, 10 * GB, QUARTERS + 1)):
        brokers = worlds.brokers(b1={"directories": tuple(map(_directory, told.items()))})
        snapshot = replace(worlds.healthy(at=worlds.later(n * SPACING), brokers=brokers), partitions=None)
        memory = remember(memory, snapshot, elapsed=SPACING)
    assert "DiskFilling/broker-1" in found(snapshot, memory=memory)
