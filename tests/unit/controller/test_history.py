"""The operator appends snapshots to a history, and no reconcile waits for that."""

from __future__ import annotations

import threading
from datetime import date

import pytest

from kafka_medic.cluster.snapshot import ClusterInfo
from kafka_medic.controller import history as module
from kafka_medic.controller.__main__ import arguments
from kafka_medic.controller.history import RETRY, History
from kafka_medic.fleet.history import Window, scan
from kafka_medic.fleet.tables import SNAPSHOTS
from kafka_medic.resources.kafkacluster import KafkaCluster
from tests.simulation.world import World, factor_one_cluster
from tests.unit.cluster.worlds import replace
from tests.unit.fleet.fleets import cluster

DAYS = Window.until(date(2026, 1, 10), 30).days()


def resource(uid="uid-1", namespace="kafka"):
    return KafkaCluster.parse({
        "apiVersion": "kafkamedic.dev/v1alpha1", "kind": "KafkaCluster", "spec": {"bootstrapServers": "a:9092"},
        "metadata": {"name": "events", "namespace": namespace, "uid": uid},
    })  # fmt: skip


def rows(directory):
    return [row for part in scan(directory, "snapshots", DAYS, SNAPSHOTS.names) for row in part.to_pylist()]


def offer(history, shot, about=None):
    writer = history.offer(about or resource(), shot)
    if writer is not None:
        writer.join(10)
    return writer is not None


def test_one_snapshot_in_so_many_hours_named_by_namespace(tmp_path):
    clock = [0.0]
    history = History(tmp_path, 3600.0, lambda: clock[0])
    assert offer(history, cluster(day=0))
    clock[0] = 3599
    assert not offer(history, cluster(day=1))
    assert offer(history, cluster(day=1), resource("uid-2", "other"))
    clock[0] = 3600
    assert offer(history, cluster(day=2))
    found = rows(tmp_path)
    assert [row["cluster"] for row in found] == ["kafka/events", "other/events", "kafka/events"]
    assert [row["writer"] for row in found] == [f"operator, KafkaCluster uid-{n}" for n in (1, 2, 1)]


def test_without_a_folder_or_an_id_nothing_is_appended(tmp_path):
    assert not offer(History(), cluster())
    assert not offer(History(tmp_path), replace(cluster(), cluster=ClusterInfo("events")))
    assert list(tmp_path.iterdir()) == []


def test_a_volume_that_hangs_holds_up_no_reconcile(tmp_path, monkeypatch):
    free, begun = threading.Event(), threading.Event()

    def hang(*_):
        begun.set()
        free.wait(10)

    monkeypatch.setattr(module, "append", hang)
    history = History(tmp_path)
    writer = history.offer(resource(), cluster())
    assert begun.wait(10)
    assert history.offer(resource("uid-2"), cluster()) is None
    free.set()
    writer.join(10)
    assert offer(history, cluster(), resource("uid-2"))


def test_a_volume_that_is_full_is_logged_and_tried_again(tmp_path, monkeypatch, caplog):
    clock = [0.0]
    real = module.append

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "append", full)
    history = History(tmp_path, 3600.0, lambda: clock[0])
    assert offer(history, cluster())
    assert "kafka/events: not appended" in caplog.text
    assert "No space left" in caplog.text
    clock[0] = RETRY
    monkeypatch.setattr(module, "append", real)
    assert offer(history, cluster())
    assert len(rows(tmp_path)) == 1


def test_the_operators_options(capsys):
    options = arguments(["--history", "/h", "--history-every", "30m"])
    assert (str(options.history), options.history_every) == ("/h", 1800.0)
    assert arguments([]).history is None
    for bad in ("1s", "often"):
        with pytest.raises(SystemExit):
            arguments(["--history-every", bad])
        assert "--history-every" in capsys.readouterr().err


def written(world, directory):
    """The history after the next reconcile."""
    reconciler = world.reconciler
    reconciler.clients.history = History(directory, 3600.0, world._monotonic)
    world.step()
    for thread in threading.enumerate():
        if thread.name == "history":
            thread.join(10)
    return [row for part in scan(directory, "snapshots", [world.now.date().isoformat()], SNAPSHOTS.names)
            for row in part.to_pylist()]  # fmt: skip


def test_the_operator_that_holds_the_lease_appends_what_it_observed(tmp_path):
    world = World(factor_one_cluster())
    world.install()
    world.operator("one")
    (row,) = written(world, tmp_path / "one")
    assert (row["cluster"], row["partitions"]) == ("ns/c", len(list(world.kafka.partitions)))
    world.operator("two")  # which stands by
    assert written(world, tmp_path / "two") == []
