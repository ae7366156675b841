"""Plans for all clusters of a history: the planner's own, and a reason where there is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow.dataset
import pytest

from kafka_medic.cli import fleet
from kafka_medic.fleet import plans
from kafka_medic.plan.model import PLAN_SCHEMA
from kafka_medic.plan.problem import Broker, Problem
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.verify.rules import verify
from tests.unit.fleet.fleets import cluster, history, topic


def one(n):
    return [1 + n % 3]


def written(out, cluster_id):
    table = pyarrow.dataset.dataset(out / "plans.parquet", partitioning="hive").to_table(
        filter=(pyarrow.dataset.field("clusterId") == cluster_id) & (pyarrow.dataset.field("of") == "partition")
    )
    return table.select(PLAN_SCHEMA.names).cast(PLAN_SCHEMA)


def test_each_cluster_gets_the_plan_that_the_planner_makes_of_its_last_snapshot(asked, tmp_path):
    shots = [cluster(f"c{n}", 9, rows=topic("orders", 10 + n, 9, replicas=one) + topic("logs", 4, 9)) for n in range(5)]
    history(tmp_path / "h", *shots, *(cluster(f"c{n}", 3) for n in range(5)))
    found = asked("plan", "--balance", "replicas")
    for shot in shots:
        brokers = tuple(Broker(b.id, b.rack, b.live, b.disk_free) for b in shot.brokers)
        here = plan_local(Problem(shot.partitions, brokers, 3))
        assert written(asked.out, shot.cluster.id).equals(here.table.combine_chunks())
        row = found[shot.cluster.name]
        assert (row["state"], row["moves"], row["waves"]) == ("planned", here.summary.moves, here.summary.waves)
        assert row["replicasMax"] == here.summary.replicas_per_broker.max
    page = (asked.out / "clusters" / "c0-id-c0.html").read_text()
    assert "Replicas per broker" in page


def six_brokers(shot):
    first = shot.brokers[0]
    return replace(shot, brokers=tuple(replace(first, id=n, rack=f"rack-{n % 3}") for n in range(6)))


def busy(day):
    """Two topics, of which one gets all the traffic."""
    hot = topic("hot", 60, day, per_day=1000, replicas=lambda n: [n % 2, 2 + n % 2])
    cold = topic("cold", 60, day, per_day=1, replicas=lambda n: [4 + n % 2, 2 + n % 2])
    return hot + cold


def records(n):
    """A day, of the topic t{n}."""
    return 10 * (1 + n * n % 97)


def uneven(day):
    """Topics of one partition each, which no plan can lay apart, of very different traffic."""
    rows = []
    for n in range(90):
        rows += topic(f"t{n:02}", 1, day, per_day=records(n), replicas=lambda _, n=n: [n % 6, (n + 1) % 6])
    return rows


def test_new_replicas_go_where_little_arrives(asked, tmp_path):
    shots = [six_brokers(cluster("payments", day, rows=uneven(day))) for day in (0, 9)]
    history(tmp_path / "h", *shots)
    row = asked("plan")["payments"]
    assert (row["state"], row["balancedBy"], row["reason"]) == ("planned", "traffic", None)
    by_traffic = arriving(asked.out)
    assert row["trafficMax"] == pytest.approx(by_traffic.max(), rel=0.01)
    asked("plan", "--balance", "replicas")
    assert by_traffic.max() < arriving(asked.out).max()
    brokers = tuple(Broker(b.id, b.rack, b.live, b.disk_free) for b in shots[1].brokers)
    assert row["trafficMax"] <= 1.05 * row["trafficBound"]
    assert verify(Problem(shots[1].partitions, brokers, 3), plan_local(Problem(shots[1].partitions, brokers, 3))) == []


def arriving(out):
    """Bytes a day that arrive at each broker, in the end."""
    load = np.zeros(6)
    for row in written(out, "id-payments").to_pylist():
        for broker in row["replicas"]:
            load[broker] += 10 * records(int(row["topic"][1:]))
    return load


def test_traffic_that_is_not_known_is_said(asked, tmp_path):
    history(tmp_path / "h", cluster("payments", 9, rows=topic("orders", 9, 9, replicas=one)))
    row = asked("plan")["payments"]
    assert (row["balancedBy"], row["state"]) == ("replicas", "planned")
    assert "traffic of too many partitions is not known" in row["reason"]


def test_a_plan_by_traffic_that_does_not_fit_on_the_disks_is_one_by_replicas(asked, tmp_path):
    """All traffic is of small partitions, so by traffic the large ones would meet on one broker without room."""
    room = {0: 10**9, 1: 10**9, 2: 10**9, 3: 10**9, 4: 700_000, 5: 700_000}

    def shot(day):
        found = six_brokers(cluster("payments", day, rows=busy(day)))
        return replace(found, brokers=tuple(replace(b, disk_free=room[b.id]) for b in found.brokers))

    history(tmp_path / "h", shot(0), shot(9))
    row = asked("plan")["payments"]
    assert row["state"] == "planned"
    brokers = tuple(Broker(b.id, b.rack, True, room[b.id]) for b in shot(9).brokers)
    table = written(asked.out, "id-payments")
    come = dict.fromkeys(room, 0)
    for line in table.to_pylist():
        for broker in set(line["replicas"]) - set(line["replicasBefore"]):
            come[broker] += 100_000 if line["topic"] == "hot" else 100
    assert all(come[b.id] <= b.disk_free for b in brokers)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda shot: replace(shot, brokers=None), "brokers of its last snapshot are not known"),
        (lambda shot: replace(shot, brokers=shot.brokers[:2]), "is not listed"),
        (
            lambda shot: replace(shot, brokers=(replace(shot.brokers[0], registered=False), *shot.brokers[1:])),
            "only 2 brokers are alive",
        ),
    ],
)
def test_a_cluster_that_cannot_be_planned_is_named_and_the_others_are_planned(asked, tmp_path, change, reason):
    rows = topic("orders", 9, 9, replicas=one)
    history(tmp_path / "h", change(cluster("sick", 9, rows=rows)), cluster("well", 9, rows=rows))
    found = asked("plan", code=1)
    assert (found["sick"]["state"], found["well"]["state"]) == ("refused", "planned")
    assert reason in found["sick"]["reason"]
    assert "sick was not planned" in asked.told.err


def test_partitions_with_a_replica_on_a_dead_broker_stay_and_are_counted(asked, tmp_path):
    shot = six_brokers(cluster("payments", 9, rows=topic("orders", 9, 9, replicas=lambda n: [n % 3])))
    dead = (replace(shot.brokers[0], reachable=False), *shot.brokers[1:])
    history(tmp_path / "h", replace(shot, brokers=dead))
    row = asked("plan", "--balance", "replicas")["payments"]
    assert (row["state"], row["changed"], row["leftOut"]) == ("planned", 6, 3)
    assert row["reason"] == "3 partitions with a replica on a dead broker left unchanged"


def test_partitions_on_their_way_are_waited_for(asked, tmp_path):
    rows = topic("orders", 9, 9, replicas=one)
    rows[0] |= {"adding": [2], "replicas": [1, 2]}
    history(tmp_path / "h", cluster("payments", 9, rows=rows))
    assert "1 partition being reassigned" in asked("plan", code=1)["payments"]["reason"]


def test_a_snapshot_that_lost_rows_is_not_planned(asked, tmp_path):
    import pyarrow.parquet as pq

    history(tmp_path / "h", cluster("payments", 9, rows=topic("orders", 9, 9, replicas=one)))
    (file,) = (tmp_path / "h" / "partitions").rglob("*.parquet")
    pq.write_table(pq.ParquetFile(file).read().slice(2), file)
    assert "has 7 partitions of 9: append another one" in asked("plan", code=1)["payments"]["reason"]


def test_a_copied_file_is_planned_once(asked, tmp_path):
    import shutil

    shots = [cluster("payments", day, rows=topic("orders", 9, day, replicas=one)) for day in (0, 9)]
    history(tmp_path / "h", *shots)
    asked("plan")
    before = written(asked.out, "id-payments")
    for file in list((tmp_path / "h").rglob("c-*.parquet")):
        shutil.copy(file, file.with_name(f"copy-of-{file.name}"))
    asked("plan")
    assert written(asked.out, "id-payments").equals(before)


def test_a_cluster_too_large_for_a_task_is_refused_with_the_command_that_plans_it(asked, tmp_path, monkeypatch):
    monkeypatch.setattr(fleet, "LARGEST", 8)
    monkeypatch.setattr(plans, "LARGEST", 8)
    rows = topic("orders", 9, 9, replicas=one)
    history(tmp_path / "h", cluster("giant", 9, rows=rows), cluster("small", 9, rows=rows[:5]))
    found = asked("plan", code=1)
    assert found["small"]["state"] == "planned"
    reason = found["giant"]["reason"]
    assert "9 partitions are above 8: kafka-medic fleet plan --engine spark --cluster id-giant" in reason
    # The command as it stands there, but for the engine, which takes its time to start.
    from kafka_medic.cli.main import main

    monkeypatch.setattr(fleet, "LARGEST", 9)
    words = reason.split("kafka-medic ")[1].replace("--engine spark", "--engine local").split()
    words[words.index("PLANS")] = str(tmp_path / "PLANS")
    assert main(words) == 0


def test_a_plan_that_fails_its_own_check_is_written_by_nobody(asked, tmp_path, monkeypatch):
    monkeypatch.setattr(plans, "verify", lambda *_: ["a rule"])
    history(tmp_path / "h", cluster("payments", 9, rows=topic("orders", 9, 9, replicas=one)))
    row = asked("plan", code=1)["payments"]
    assert (row["state"], row["reason"]) == ("defect", "a rule")
