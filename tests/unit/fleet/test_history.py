"""A history on disk: whole files, each snapshot once, and null for what was not known."""

from __future__ import annotations

from datetime import date

import pyarrow.parquet as pq
import pytest

from kafka_medic.cluster.snapshot import Source, SourceState
from kafka_medic.fleet import history as module
from kafka_medic.fleet.history import HistoryError, Window, append, last_day, scan
from kafka_medic.fleet.tables import SCHEMAS, SNAPSHOTS
from tests.unit.fleet.fleets import NOON, cluster, history, topic

DAYS = Window.until(date(2026, 1, 10), 30).days()


def rows(directory, table, days=DAYS):
    found = [part.to_pylist() for part in scan(directory, table, days, SCHEMAS[table].names)]
    return [row for part in found for row in part]


def test_each_table_names_the_cluster_and_the_time_in_every_row(tmp_path):
    history(tmp_path, cluster("payments", 0, groups=[("billing", "Stable", "orders", 0, 7)]))
    for table in SCHEMAS:
        for row in rows(tmp_path, table):
            assert (row["cluster"], row["clusterId"], row["time"]) == ("payments", "id-payments", NOON)
    assert [row["moving"] for row in rows(tmp_path, "partitions")] == [False] * 3
    (offset,) = rows(tmp_path, "offsets")
    assert (offset["committed"], offset["logEnd"], offset["topicId"]) == (7, 1000, "id-orders")
    (snapshot,) = rows(tmp_path, "snapshots")
    assert (snapshot["partitions"], snapshot["brokers"], snapshot["offsets"]) == (3, 3, 1)


def test_what_is_unknown_stays_null_and_is_never_zero(tmp_path):
    unread = topic("orders", 1, 0)[0] | {"logEnd": None, "sizeBytes": None, "adding": None}
    why = Source("groups", None, SourceState.UNKNOWN, "refused")
    history(tmp_path, cluster(rows=[unread], groups=None, used=None, brokers=None, sources=(why,)))
    (row,) = rows(tmp_path, "partitions")
    assert (row["logEnd"], row["sizeBytes"], row["moving"]) == (None, None, None)
    (snapshot,) = rows(tmp_path, "snapshots")
    assert (snapshot["brokers"], snapshot["offsets"], snapshot["partitions"]) == (None, None, 1)
    assert snapshot["unknownSources"] == ["groups: refused"]
    assert rows(tmp_path, "offsets") == rows(tmp_path, "brokers") == []


def test_a_write_that_ends_half_way_leaves_nothing_that_a_reader_sees(tmp_path, monkeypatch):
    def half(table, out, **_):
        out.write(b"PAR1 and then nothing")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.pq, "write_table", half)
    with pytest.raises(OSError, match="No space"):
        append(tmp_path, cluster(), "test")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_the_row_that_vouches_for_a_snapshot_is_written_last(tmp_path, monkeypatch):
    order, write = [], module.pq.write_table

    def written(table, out, **options):
        order.append(table.schema.names[4])
        write(table, out, **options)

    monkeypatch.setattr(module.pq, "write_table", written)
    append(tmp_path, cluster(groups=[("billing", "Stable", "orders", 0, 7)]), "test")
    assert order[-1] == "writer"
    assert len(order) == 4


def test_a_snapshot_appended_twice_is_there_once_and_another_writers_beside_it(tmp_path):
    history(tmp_path, cluster(), cluster())
    assert len(rows(tmp_path, "snapshots")) == 1
    history(tmp_path, cluster(), writer="another operator")
    assert len(rows(tmp_path, "snapshots")) == 2


def test_other_days_are_not_opened_and_a_broken_file_is_named(tmp_path):
    history(tmp_path, cluster(day=0), cluster(day=1))
    (broken,) = (tmp_path / "partitions" / "day=2026-01-01").iterdir()
    broken.write_bytes(b"not Parquet")
    assert len(rows(tmp_path, "partitions", ["2026-01-02"])) == 3
    with pytest.raises(HistoryError, match=r"day=2026-01-01.*move the file out"):
        rows(tmp_path, "partitions")


def test_a_file_of_an_older_version_lacks_a_column_which_is_then_null(tmp_path):
    history(tmp_path, cluster())
    (file,) = (tmp_path / "partitions").rglob("*.parquet")
    pq.write_table(pq.ParquetFile(file).read().drop_columns(["sizeBytes"]), file)
    assert {row["sizeBytes"] for row in rows(tmp_path, "partitions")} == {None}


def test_a_clusters_name_leads_no_file_elsewhere(tmp_path):
    path = append(tmp_path / "h", cluster("../../etc/ä b"), "test")
    assert path.resolve().is_relative_to(tmp_path / "h" / "snapshots" / "day=2026-01-01")
    assert last_day(tmp_path / "h") == "2026-01-01"
    assert last_day(tmp_path) is None
    assert pq.ParquetFile(path).read()["cluster"].to_pylist() == ["../../etc/ä b"]


def test_the_documented_columns_are_those_that_are_written():
    assert SNAPSHOTS.names[:4] == ["cluster", "clusterId", "snapshot", "time"]
    assert all(schema.names[:4] == SNAPSHOTS.names[:4] for schema in SCHEMAS.values())
