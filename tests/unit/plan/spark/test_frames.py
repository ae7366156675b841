"""What is known of one Parquet file before Spark looks at it."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType

from kafka_medic.cli.plan_spark import _source
from kafka_medic.plan.spark import frames
from kafka_medic.plan.spark.place import Place, to_read

ROWS = {
    "topic": pa.array(["a", "a", "b"]),
    "partition": pa.array([0, 1, 0], pa.int32()),
    "replicas": pa.array([[1], [2], [3]], pa.list_(pa.int64())),
}
ASKED = SimpleNamespace(count=lambda: -1)
"""A DataFrame that counts in a job."""


def stored(at: Path, **columns: Any) -> Place:
    pq.write_table(pa.table(ROWS | columns), at / "p.parquet")
    return Place(to_read(at / "p.parquet"), file=at / "p.parquet")


def test_rows_and_columns_of_one_file_are_in_its_footer(tmp_path: Path) -> None:
    place = stored(tmp_path, topic=pa.array(["a", "a", "b"]).dictionary_encode())
    assert frames.count(ASKED, place) == 3
    found = frames._columns(place)
    assert found is not None
    assert [(field.name, field.dataType) for field in found] == [
        ("topic", StringType()),
        ("partition", IntegerType()),
        ("replicas", ArrayType(LongType())),
    ]


def test_of_what_is_no_single_file_spark_is_asked(tmp_path: Path) -> None:
    place = replace(stored(tmp_path), file=None)
    assert (frames.count(ASKED, place), frames._columns(place)) == (-1, None)


def test_what_spark_wrote_it_knows_best(tmp_path: Path) -> None:
    place = stored(tmp_path)
    table = pa.table(ROWS).replace_schema_metadata({frames.WRITTEN: b"{}"})
    pq.write_table(table, tmp_path / "p.parquet")
    assert (frames.count(ASKED, place), frames._columns(place)) == (3, None)


def test_the_rows_that_are_meant_are_counted(tmp_path: Path) -> None:
    assert frames.count(ASKED, replace(stored(tmp_path), where="topic = 'a'")) == -1


@pytest.mark.parametrize(
    "columns",
    [
        {"partition": pa.array([0, 1, 0], pa.uint32())},
        {"sizeBytes": pa.array([0, 1, 0], pa.uint64())},
        {"isr": pa.array([[1], [2], [3]], pa.list_(pa.int8()))},
        {"Topic": pa.array(["a", "a", "b"])},
    ],
    ids=str,
)
def test_spark_says_what_a_column_is_that_is_none_of_the_usual(tmp_path: Path, columns: dict[str, Any]) -> None:
    place = stored(tmp_path, **columns)
    assert frames._columns(place) is None
    assert frames.count(ASKED, place) == 3


@pytest.mark.parametrize(
    ("name", "said", "asked"),
    [
        ("p.parquet", {}, True),
        ("p.parquet", {"where": "topic = 'a'"}, True),
        ("p.parquet", {"option": ["pathGlobFilter=*.orc"]}, False),
        ("p.parquet", {"format": "parquet"}, False),
        ("p.parquet", {"spark_remote": "sc://elsewhere:15002"}, False),
        ("_p.parquet", {}, False),
        (".p.parquet", {}, False),
        (".", {}, False),
    ],
    ids=str,
)
def test_a_footer_is_asked_where_spark_reads_that_very_file(
    tmp_path: Path, name: str, said: dict[str, Any], *, asked: bool
) -> None:
    """A server has files of its own, and Spark passes over hidden ones."""
    if name != ".":
        pq.write_table(pa.table(ROWS), tmp_path / name)
    usual = {"format": None, "option": [], "where": None, "spark_master": "local[1]", "spark_remote": None}
    found = _source(Namespace(partitions=tmp_path / name, **usual | said), tmp_path)
    assert found.file == (tmp_path / name if asked else None)
