"""What a history shows of each cluster, and what it does not."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from kafka_medic.cluster.snapshot import Directory, Source, SourceState
from tests.unit.cluster import worlds
from tests.unit.fleet.fleets import GIB, cluster, history, topic

DAYS = range(10)


def details(out, name):
    rows = [row for file in (out / "accounts.parquet").glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    return json.loads(next(row["details"] for row in rows if row["cluster"] == name))


def note(row, part):
    return [text for text in row["notes"] if part in text]


def test_growth_of_topics_and_disks_and_the_day_on_which_a_disk_is_full(asked, tmp_path):
    for day in DAYS:
        history(tmp_path / "h", cluster("payments", day, used=10 + 5 * day))
        history(tmp_path / "h", cluster("quiet", day, used=90))
        history(tmp_path / "h", cluster("blind", day, used=None))
    found = asked("report")
    row = found["payments"]
    assert row["growthPerDay"] == 3 * 1000 * 10
    assert row["firstDiskFull"] == "2026-01-19"  # 45 GiB are left on January 10, and 5 go each day
    assert row["disksFilling"] == 3
    assert found["quiet"]["firstDiskFull"] is None
    assert [disk["state"] for disk in details(asked.out, "quiet")["disks"]] == ["not at this rate"] * 3
    assert found["blind"]["disksUnknown"] == 3
    assert {disk["why"] for disk in details(asked.out, "blind")["disks"]} == {"the broker reports no log directories"}
    page = (asked.out / "clusters" / "payments-id-payments.html").read_text()
    assert "2026-01-19" in page
    assert 'href="clusters/payments-id-payments.html"' in (asked.out / "index.html").read_text()


def test_a_disk_that_was_enlarged_or_emptied_begins_anew(asked, tmp_path):
    for day in DAYS:
        history(tmp_path / "h", cluster("payments", day, used=60 + day if day < 8 else 20))
    asked("report")
    assert {disk["state"] for disk in details(asked.out, "payments")["disks"]} == {"unknown"}
    assert "fewer than 3" in details(asked.out, "payments")["disks"][0]["why"]


def test_a_disk_that_was_enlarged_is_another_one(asked, tmp_path):
    for day in DAYS:
        shot = cluster("payments", day, used=50 + day)
        larger = (Directory("/data", None, 200 * GIB, (150 - 2 * day) * GIB),)
        if day >= 5:
            shot = replace(shot, brokers=tuple(replace(b, directories=larger) for b in shot.brokers))
        history(tmp_path / "h", shot)
    assert asked("report")["payments"]["firstDiskFull"] == "2026-03-17"  # 132 GiB left on January 10, 2 a day


def test_brokers_that_were_not_read_last_keep_their_disks(asked, tmp_path):
    shots = [cluster("payments", day, used=10 + 5 * day) for day in DAYS]
    history(tmp_path / "h", *shots, replace(cluster("payments", 9.1), brokers=None))
    row = asked("report")["payments"]
    assert (row["firstDiskFull"], row["brokers"], row["replicasMissing"]) == ("2026-01-19", None, None)


def test_a_lowered_retention_is_no_shrinking_topic(asked, tmp_path):
    for day in DAYS:
        rows = topic("orders", 3, day)
        for row in rows:
            row["logStart"] = 0 if day < 5 else row["logEnd"] - 3000
            row["sizeBytes"] = (row["logEnd"] - row["logStart"]) * 10
        history(tmp_path / "h", cluster("payments", day, rows=rows))
    asked("report")
    (grown,) = details(asked.out, "payments")["topics"]["in"]
    assert grown["growth"] == 0
    assert grown["bytes_in"] == pytest.approx(3 * 1000 * 10 / 86_400)


def test_hot_topics_and_brokers_are_measured_where_there_are_metrics_and_derived_elsewhere(asked, tmp_path):
    for day in DAYS:
        rows = topic("hot", 3, day, per_day=10_000, replicas=lambda _: [2, 1, 3]) + topic("cold", 3, day)
        commits = [("billing", "Stable", "hot", n, 5_000 * (day + 1)) for n in range(3)]
        history(tmp_path / "h", cluster("derived", day, rows=rows, groups=commits))
        history(tmp_path / "h", cluster("measured", day, rows=rows, rate=100.0 + day))
    found = asked("report")
    row, hot = found["derived"], 3 * 10_000 * 10 / 86_400
    assert (row["hottestTopic"], row["hottestBroker"], row["hottestBrokerSource"]) == ("hot", 2, "derived")
    assert row["hottestTopicInP95"] == pytest.approx(hot)
    assert row["hottestBrokerInP95"] == pytest.approx(hot + 1000 * 10 / 86_400)
    assert row["bytesOutP95"] == pytest.approx(hot / 2)
    row = found["measured"]
    assert (row["hottestBrokerInP95"], row["hottestBrokerSource"]) == (109.0, "measured")


def test_groups_that_never_catch_up(asked, tmp_path):
    for day in DAYS:
        end = 1000 * (day + 1)
        for hour, late in ((0, 0), (0.4, 400)):
            commits = [
                ("behind", "Stable", "orders", 0, end - 100 * (day + 1) - late),
                ("daily", "Stable", "orders", 0, end - late),
                ("once", "Stable", "orders", 0, end - (5 if day > 7 else 0)),
            ]
            history(tmp_path / "h", cluster("payments", day + hour, rows=topic("orders", 1, day), groups=commits))
    assert asked("report")["payments"]["groupsFallingBehind"] == 1
    (behind,) = details(asked.out, "payments")["groups"]
    assert (behind["group"], behind["first"], behind["last"], behind["days"]) == ("behind", 100, 1000, 10)


def test_groups_that_were_not_read_are_unknown_and_not_none_behind(asked, tmp_path):
    history(tmp_path / "h", *(cluster("payments", day, groups=None) for day in DAYS))
    row = asked("report")["payments"]
    assert (row["groupsFallingBehind"], row["bytesOutP95"]) == (None, None)


def test_debts_to_the_factor_and_to_racks(asked, tmp_path):
    rows = topic("one", 2, 0, replicas=lambda n: [1 + n]) + topic("three", 1, 0) + topic("logs-1", 1, 0)
    moving = topic("moving", 1, 0, replicas=lambda _: [1])[0] | {"adding": [1]}
    history(tmp_path / "h", cluster("payments", 9, rows=[*rows, moving]))
    row = asked("report", "--topic-factor", "logs-*=4")["payments"]
    assert (row["partitionsBelowFactor"], row["replicasMissing"]) == (3, 5)
    assert row["bytesToCopy"] == 5 * 10_000
    assert row["partitionsSharingRacks"] == 0
    assert asked("report", "--exempt", "*")["payments"]["replicasMissing"] == 0


def test_partitions_that_share_a_rack_and_racks_that_are_not_known(asked, tmp_path):
    shot = cluster("near", 9, rows=topic("orders", 4, 0, replicas=lambda n: [1, 2] if n else [1, 3]))
    near = replace(shot, brokers=tuple(replace(b, rack="a" if b.id < 3 else "b") for b in shot.brokers))
    history(tmp_path / "h", near)
    history(
        tmp_path / "h", replace(cluster("open", 9), brokers=(replace(shot.brokers[0], rack=None), *shot.brokers[1:]))
    )
    found = asked("report")
    assert found["near"]["partitionsSharingRacks"] == 3
    assert found["open"]["partitionsSharingRacks"] is None


# What is believed, and what is not


def test_a_snapshot_without_partitions_is_a_gap_that_is_named(asked, tmp_path):
    refused = Source("kafka", None, SourceState.UNKNOWN, "connection refused")
    for day in DAYS:
        gone = {"partitions": None, "brokers": None, "sources": (refused,)} if day in (4, 9) else {}
        history(tmp_path / "h", cluster("payments", day, **gone))
    row = asked("report")["payments"]
    assert row["snapshots"] == 8
    assert row["growthPerDay"] == 30_000
    assert row["partitions"] == 3
    assert note(row, "2 of 10 snapshots have no partitions, last at 2026-01-10 12:00 UTC: kafka: connection refused")


def test_a_source_that_was_silent_for_a_day_leaves_no_hole_of_zeros(asked, tmp_path):
    for day in DAYS:
        rows = [row | ({"sizeBytes": None} if day == 5 else {}) for row in topic("orders", 3, day)]
        history(tmp_path / "h", cluster("payments", day, rows=rows))
    assert asked("report")["payments"]["growthPerDay"] == 30_000
    last = [row | {"sizeBytes": None} for row in topic("orders", 3, 9.1)]
    history(tmp_path / "h", cluster("payments", 9.1, rows=last))
    assert asked("report")["payments"]["bytes"] is None


def test_half_a_snapshot_is_left_out(asked, tmp_path):
    history(tmp_path / "h", *(cluster("payments", day) for day in DAYS))
    (file,) = (tmp_path / "h" / "snapshots" / "day=2026-01-10").iterdir()
    file.unlink()  # as if the writer had died before its last file
    row = asked("report")["payments"]
    assert (row["snapshots"], row["lastSnapshot"]) == (9, "2026-01-09 12:00 UTC")
    assert note(row, "not finished")
    (file,) = (tmp_path / "h" / "partitions" / "day=2026-01-04").iterdir()
    pq.write_table(pq.ParquetFile(file).read().slice(1), file)  # and one that lost a row
    row = asked("report")["payments"]
    assert note(row, "1 snapshots lack rows, the last one of 2026-01-04 12:00 UTC: 2 partitions of 3")
    assert row["growthPerDay"] == 30_000


def test_a_last_snapshot_that_lost_its_partitions_is_unknown_and_not_empty(asked, tmp_path):
    history(tmp_path / "h", *(cluster("payments", day) for day in DAYS))
    (file,) = (tmp_path / "h" / "partitions" / "day=2026-01-10").iterdir()
    file.unlink()
    row = asked("report")["payments"]
    assert (row["lastSnapshot"], row["growthPerDay"], row["replicasMissing"]) == ("2026-01-09 12:00 UTC", 30_000, None)
    assert (row["hottestBroker"], row["bytesInP95"]) == (None, pytest.approx(30_000 / 86_400))
    assert note(row, "0 partitions of 3")


def test_a_copied_file_counts_once(asked, tmp_path):
    commits = [("billing", "Stable", "orders", 0, 7)]
    history(tmp_path / "h", *(cluster("payments", day, groups=commits) for day in DAYS))
    before = asked("report")
    for file in list((tmp_path / "h").rglob("c-*.parquet")):
        shutil.copy(file, file.with_name(f"copy-of-{file.name}"))
    assert asked("report") == before


def test_times_ahead_of_the_readers_clock_do_not_count(asked, tmp_path):
    history(tmp_path / "h", *(cluster("payments", day) for day in (*DAYS, 11)))
    row = asked("report")["payments"]
    assert row["lastSnapshot"] == "2026-01-10 12:00 UTC"
    assert note(row, "1 snapshots are dated after now, up to 2026-01-12 12:00 UTC: set the clock of their writer")


def test_a_clock_that_went_back_is_named_and_gives_no_rate(asked, tmp_path):
    """The writer was two days ahead until January 6, when somebody set its clock."""
    for day in DAYS:
        ahead = 2 if day < 5 else 0
        history(tmp_path / "h", cluster("payments", day + ahead + day / 100, rows=topic("orders", 3, day), epoch=day))
    row = asked("report")["payments"]
    assert note(row, "the controller's epoch falls from")
    assert note(row, "log ends go back between")
    assert row["bytesInP95"] < 3 * 1000 * 10 / 86_400 * 2.1


def test_two_operators_with_different_clocks_do_not_make_each_others_rates(asked, tmp_path):
    """The second one is 20 hours ahead: between neighbours by time alone, rates would be six times too high."""
    for day in DAYS:
        history(tmp_path / "h", cluster("payments", day), writer="one")
        history(tmp_path / "h", cluster("payments", day + 20 / 24, rows=topic("orders", 3, day)), writer="two")
    row = asked("report")["payments"]
    assert row["bytesInP95"] == pytest.approx(30_000 / 86_400)
    assert row["growthPerDay"] == 30_000
    assert note(row, "2 writers append this cluster: one, two")


def test_a_cluster_made_anew_under_the_same_name_is_another_one(asked, tmp_path):
    history(tmp_path / "h", *(cluster("payments", day, identity="old") for day in range(4)))
    history(
        tmp_path / "h",
        *(cluster("payments", day, identity="new", rows=topic("orders", 1, day - 4)) for day in range(4, 10)),
    )
    asked("report")
    rows = {row["clusterId"]: row for row in json.loads((asked.out / "fleet.json").read_text())["clusters"]}
    assert rows["new"]["growthPerDay"] == 10_000
    assert note(rows["new"], "made anew: until 2026-01-04 12:00 UTC")
    assert note(rows["old"], "replaced by a cluster of the same name (id new)")
    assert asked("plan")["payments"]["clusterId"] == "new"


def test_two_clusters_of_one_name_are_told_apart(asked, tmp_path):
    for day in DAYS:
        history(tmp_path / "h", cluster("cluster", day, identity="a"), cluster("cluster", day, identity="b"))
    asked("report")
    rows = json.loads((asked.out / "fleet.json").read_text())["clusters"]
    assert [row["clusterId"] for row in rows] == ["a", "b"]
    assert note(rows[0], "give each its own with --name")
    assert len(list((asked.out / "clusters").iterdir())) == 2


def test_a_topic_made_anew_is_another_one(asked, tmp_path):
    for day in DAYS:
        old = topic("orders", 1, day, per_day=9_000, topicId="old")
        new = topic("orders", 1, day - 5, topicId="new")
        commits = [("billing", "Stable", "orders", 0, 100 * day if day < 5 else 10)]
        history(tmp_path / "h", cluster("payments", day, rows=old if day < 5 else new, groups=commits))
    asked("report")
    (orders,) = details(asked.out, "payments")["topics"]["in"]
    assert orders["growth"] == 10_000
    assert orders["bytes_in"] == pytest.approx(10_000 / 86_400)


def test_a_cluster_that_fell_silent_is_named(asked, tmp_path):
    history(tmp_path / "h", *(cluster("silent", day) for day in range(4)), *(cluster("payments", day) for day in DAYS))
    found = asked("report")
    assert note(found["silent"], "no snapshot since 2026-01-04 12:00 UTC")
    assert not found["payments"]["notes"]


def test_one_snapshot_shows_debts_and_no_growth(asked, tmp_path):
    history(tmp_path / "h", cluster("payments", 9, rows=topic("orders", 2, 9, replicas=lambda _: [1])))
    row = asked("report")["payments"]
    assert (row["replicasMissing"], row["growthPerDay"], row["bytesInP95"]) == (4, None, None)
    assert note(row, "one snapshot shows no growth")


def test_names_are_shown_and_not_obeyed(asked, tmp_path):
    name = "<script>alert(1)</script>\x1b[31m"
    rows = [worlds.partition("<b>t</b>", 0, logEnd=9)]
    history(tmp_path / "h", *(cluster(name, day, rows=rows, identity=f"<i>{0}") for day in DAYS))
    asked("report")
    for page in asked.out.rglob("*.html"):
        assert "<script>alert" not in page.read_text()
        assert page.read_text().count("<script") == 0
        assert "<b>t" not in page.read_text()
        assert "\x1b" not in page.read_text()
    assert "\x1b" not in asked.told.out
