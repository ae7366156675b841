"""Hostile and broken input of every kind: one line that names row and reason, exit 4, nothing written."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_medic.cli import main
from kafka_medic.plan.broker import Broker, Disk
from kafka_medic.plan.files.inputs import InputError, read_brokers, read_partitions

BROKERS = [{"id": number, "rack": rack, "registered": True, "reachable": True} for number, rack in enumerate("abc")]
SOURCES = [{"name": "kafka/metadata", "state": "Unknown", "error": "timed out"}]


def row(**change):
    return {"topic": "t", "partition": 0, "replicas": [0], **change}


def snapshot(**change):
    return {"kind": "Snapshot", "sources": SOURCES, "brokers": BROKERS, "partitions": [row()], **change}


def table(**change):
    lists = pa.list_(pa.int32())
    columns = {"topic": ["t", "t"], "partition": [0, 1], "replicas": pa.array([[0], [1]], lists), **change}
    return pa.table(
        {name: value if isinstance(value, pa.Array) else pa.array(value) for name, value in columns.items()}
    )


@pytest.fixture
def refused(tmp_path, capsys):
    """What is reported of partitions that are refused, after a check that it is all there is to see."""
    inputs = tmp_path / "in"
    inputs.mkdir()

    def run(content, *, brokers=BROKERS):
        name = "p.parquet" if isinstance(content, pa.Table) else "p.json"
        if isinstance(content, pa.Table):
            pq.write_table(content, inputs / name)
        elif isinstance(content, bytes):
            (inputs / name).write_bytes(content)
        else:
            (inputs / name).write_text(content if isinstance(content, str) else json.dumps(content))
        line = ["plan", "raise-replication-factor", "--partitions", str(inputs / name), "--replication-factor", "3"]
        if brokers is not None:
            (inputs / "b.json").write_text(json.dumps(brokers))
            line += ["--brokers", str(inputs / "b.json")]
        assert main.main([*line, "--output", str(tmp_path / "out")]) == 4
        assert [p.name for p in tmp_path.iterdir()] == ["in"]
        printed = capsys.readouterr()
        assert printed.out == ""
        lines = [text for text in printed.err.splitlines() if ": read " not in text]
        assert len(lines) == 1
        return lines[0]

    return run


KINDS = {
    "list": lambda rows: rows,
    "lines": lambda rows: "\n".join(map(json.dumps, rows)) + "\n",
    "reassignment": lambda rows: {"version": 1, "partitions": rows},
    "snapshot": lambda rows: snapshot(partitions=rows),
    "parquet": pa.Table.from_pylist,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ({"partition": 0}, "row 2: t-0 is listed twice (also in row 1)"),
        ({"partition": 2}, "row 2: t-1 is missing, though t-2 is here"),
        ({"replicas": [9]}, "row 2: replicas name broker 9, which is not listed"),
        ({"sizeBytes": -1}, "row 2: sizeBytes -1 is negative"),
        ({"partition": -1}, "row 2: partition number -1 is negative"),
        ({"replicas": [1, 1]}, "row 2: broker 1 is listed twice in replicas"),
        ({"replicas": []}, "row 2: the replica list is empty"),
        ({"leader": 1}, "row 2: leader 1 is not one of the replicas"),
        ({"isr": [2]}, "row 2: isr names broker 2, not a replica"),
        ({"isr": [0, 0]}, "row 2: broker 0 is listed twice in isr"),
        ({"replicas": None}, "row 2: "),
        ({"topic": None}, "row 2: "),
    ],
)
def test_a_bad_row_is_named_in_every_kind_of_input(refused, kind, second, reason):
    rows = [row(sizeBytes=0, leader=0, isr=[0]), row(partition=1, sizeBytes=0, leader=None, isr=None) | second]
    assert reason in refused(KINDS[kind](rows))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[" * 200_000, "nested too deeply"),
        ('{"topic":' + "[" * 200_000 + "\n{}", "nested too deeply"),
        ('[{"topic":"\\ud800","partition":0,"replicas":[0]}]', 'row 1: topic "\\ud800" is not a string'),
        ('[{"topic":"t","topic":"u","partition":0,"replicas":[0]}]', "gives the key 'topic' twice"),
        ('[{"topic":"t","partition":0,"replicas":[0],"sizeBytes":NaN}]', "row 1: sizeBytes NaN"),
        (
            f'[{{"topic":"t","partition":{1 << 63},"replicas":[0]}}]',
            "row 1: partition 9223372036854775808 is not a whole",
        ),
        (
            f'[{{"topic":"t","partition":0,"replicas":[{1 << 63}]}}]',
            "row 1: replicas [9223372036854775808] is not a list",
        ),
        ('[{"topic":"t","partition":0,"replicas":[0, true]}]', "row 1: replicas [0, true] is not a list of broker ids"),
        ("", "not valid JSON"),
        ("null", "neither a JSON list nor JSON lines"),
        (b"\xff\xfe\x00", "not readable"),
        ({"version": 2, "partitions": [row()]}, "version 2 of the reassignment format"),
        ({"version": 1, "partitions": None}, "partitions is not a list"),
        (snapshot(partitions=None), "partitions are not known in this Snapshot: kafka/metadata: timed out"),
        (snapshot(partitions=[row(adding=[1], removing=[])]), "row 1: t-0 is being reassigned"),
        (snapshot(partitions=[row(adding=None)]), "row 1: t-0: whether it is being reassigned is not known"),
    ],
)
def test_broken_documents_are_refused(refused, content, reason):
    assert reason in refused(content)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (table(partition=[0.0, 1.0]), "the column 'partition' holds double, not integers"),
        (table(replicas=["0", "1"]), "the column 'replicas' holds string, not lists of integers"),
        (table(topic=["t", None]), "row 2: the topic is missing"),
        (table(topic=[b"t", b"t"]), "the column 'topic' holds binary, not strings"),
        (table(topic=pa.array([b"t", b"\xff"]).cast(pa.string(), safe=False)), "'topic' holds text that is not UTF-8"),
        (table().drop_columns("replicas"), "the column 'replicas' is missing"),
        (table().append_column("topic", pa.array(["u", "u"])), "there are 2 columns 'topic'"),
        (b"PAR1 and no more", "not readable as Parquet"),
    ],
)
def test_parquet_of_another_shape_is_refused(refused, content, reason):
    assert reason in refused(content)


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_columns_of_any_file_of_a_folder_count(tmp_path, names):
    """Whichever file comes first: without its ISR, a partition would not be seen to be lost."""
    plain, more = (tmp_path / "in" / f"{name}.parquet" for name in names)
    plain.parent.mkdir()
    pq.write_table(table().select(["topic", "partition", "replicas"]).slice(0, 1), plain)
    whole = pa.table({"topic": ["t"], "partition": [1], "replicas": [[1, 2]], "isr": [[1]], "sizeBytes": [900]})
    pq.write_table(whole, more)
    read = read_partitions(tmp_path / "in")
    assert {"isr", "sizeBytes"} <= set(read.column_names)
    assert sorted(read.column("sizeBytes").to_pylist(), key=str) == [900, None]


def test_a_line_separator_inside_of_a_text_ends_no_line_of_json(tmp_path):
    path = tmp_path / "p.json"
    rows = [row(partition=n) | {"note": "a\u2028b"} for n in range(2)]
    path.write_text("\n".join(json.dumps(each, ensure_ascii=False) for each in rows))
    assert read_partitions(path).num_rows == 2


def test_parquet_that_was_damaged_is_refused(refused, tmp_path):
    pq.write_table(pa.Table.from_pylist([row(partition=n) for n in range(20_000)]), tmp_path / "whole")
    whole = bytearray((tmp_path / "whole").read_bytes())
    (tmp_path / "whole").unlink()
    assert "not readable as Parquet" in refused(bytes(whole[: len(whole) // 2]))
    middle = len(whole) // 3
    whole[middle : middle + 200] = bytes(byte ^ 0x77 for byte in whole[middle : middle + 200])
    assert "not readable as Parquet" in refused(bytes(whole))


def test_brokers_have_to_come_from_somewhere(refused):
    assert "give them with --brokers" in refused([row()], brokers=None)
    assert "b.json: row 2: broker 0 is listed twice" in refused([row()], brokers=[{"id": 0}, {"id": 0}])
    assert "b.json: row 1: diskFree 1.5 is not" in refused([row()], brokers=[{"id": 0, "diskFree": 1.5}])
    assert "b.json: row 2: diskFree -1 of broker 1 is negative" in refused(
        [row()], brokers=[{"id": 0}, {"id": 1, "diskFree": -1}]
    )
    assert 'b.json: row 1: weight "2" is not a number' in refused([row()], brokers=[{"id": 0, "weight": "2"}])
    assert "b.json: row 1: weight NaN is not a number" in refused([row()], brokers=[{"id": 0, "weight": float("nan")}])
    assert "b.json: row 1: weight 0.0 of broker 0 is not between" in refused([row()], brokers=[{"id": 0, "weight": 0}])
    assert "b.json: no broker is listed" in refused([row()], brokers=[])


def test_a_snapshot_has_both_and_only_brokers_known_to_live_are_alive(tmp_path):
    path = tmp_path / "s.json"
    path.write_text(
        json.dumps(snapshot(brokers=[BROKERS[0] | {"diskFree": 5}, BROKERS[1] | {"reachable": None}, {"id": 2}]))
    )
    assert read_brokers(path, beside=True) == (
        Broker(0, "a", disk_free=5),
        Broker(1, "b", alive=False),
        Broker(2, None, alive=False),
    )
    assert read_partitions(path).to_pylist() == [row()]
    path.write_text(json.dumps(snapshot(brokers=None)))
    with pytest.raises(InputError, match="brokers are not known"):
        read_brokers(path)


def test_log_directories_are_read_from_brokers_and_from_a_snapshot(tmp_path):
    path = tmp_path / "b.json"
    path.write_text(
        json.dumps([{"id": 1, "disks": [{"dir": "/a", "free": 5, "partitions": 3}, {"dir": "/b", "free": 6}]}])
    )
    assert read_brokers(path)[0].disks == (Disk("/a", 5, 3), Disk("/b", 6))
    path.write_text(json.dumps([{"id": 1, "disks": [{"dir": "/a", "free": "much"}]}]))
    with pytest.raises(InputError, match=r"row 1: disks .*much.* is not an object with a string dir and free"):
        read_brokers(path)
    one, same = ({"path": f"/{n}", "totalBytes": 100, "usableBytes": 40} for n in "ab")
    for directories, disks, free in (
        ([one, same | {"usableBytes": 50}], (Disk("/a", 40), Disk("/b", 50)), None),
        ([one, same], (), 40),  # as two directories of one volume look
        ([one, same | {"usableBytes": None}], (), 40),
        ([one, {"path": "/c", "error": "KAFKA_STORAGE_ERROR"}], (), 40),
        (None, (), 40),
    ):
        row = {"id": 1, "registered": True, "reachable": True, "diskFree": 40, "directories": directories}
        path.write_text(json.dumps({"kind": "Snapshot", "brokers": [row], "partitions": []}))
        (broker,) = read_brokers(path, beside=True)
        assert (broker.disks, broker.disk_free) == (disks, free)
