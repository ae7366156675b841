"""The planner's tables as Spark's DataFrames: what a session can read and write, wherever that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import StorageLevel
from pyspark.sql import Observation
from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from kafka_medic.plan.arrow import leave_pandas_out
from kafka_medic.plan.model import PLAN_SCHEMA
from kafka_medic.plan.problem import ProblemError
from kafka_medic.plan.spark.packed import PIECE_BITS, keys_of_blocks, packed
from kafka_medic.plan.spark.place import Place, literal
from kafka_medic.plan.wave_limits import WaveLimits

__all__ = [
    "answers",
    "blocks",
    "count",
    "kept",
    "left",
    "mapped",
    "over_limits",
    "partitions",
    "plan",
    "read_back",
    "side_by_side",
    "worked",
    "write",
]

PARTITIONS = {
    "topic": "string", "partition": "bigint", "replicas": "array<bigint>", "leader": "bigint", "isr": "array<bigint>",
    "sizeBytes": "bigint",
}  # fmt: skip
REQUIRED = ("topic", "partition", "replicas")
WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")
_BROKERS = ArrayType(IntegerType(), containsNull=False)
MERGING, MERGED = ("parquet", "orc"), {"mergeSchema": "true"}
"""Of a folder Spark otherwise takes the columns of one file, and does not read what others know of in-sync replicas and
sizes."""
PLAN_COLUMNS = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("partition", IntegerType(), False),
        StructField("replicasBefore", _BROKERS, False),
        StructField("replicas", _BROKERS, False),
        StructField("preferredOrder", _BROKERS, False),
        StructField("wave", IntegerType(), False),
    ]
)
"""PLAN_SCHEMA, in which nothing is null, as no partition with a null is planned: Spark then asks no row for it."""
FOOTERS: Mapping[pa.DataType, Any] = {
    pa.string(): StringType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.list_(pa.int32()): ArrayType(IntegerType()),
    pa.list_(pa.int64()): ArrayType(LongType()),
}
"""What a column of a Parquet file is to Spark, as far as it needs no rule of Spark's own."""
WRITTEN = b"org.apache.spark.sql.parquet.row.metadata"
"""In a footer, Spark's own account of the columns that it wrote."""
LOADS = "found string, wave bigint, broker bigint, bytesIn bigint, bytesOut bigint, partitions bigint, records bigint"
"""What a check of a stored plan finds in a block."""
MOST_NAMED = 20
Batches = Iterable[Any]
Work = Callable[[Batches], Iterator[Any]]


def partitions(spark: Any, place: Place) -> Any:
    """The rows and columns that a plan is made of; whatever else the table has is not read. Raises ProblemError for a
    column that is missing or of another type."""
    frame = _read(spark, place, _columns(place))
    if place.where is not None:
        frame = frame.where(place.where)
    kinds = dict(frame.dtypes)
    columns = []
    for name, wanted in PARTITIONS.items():
        # Catalogs write names small.
        alike = [column for column in frame.columns if column.lower() == name.lower()]
        if len(alike) > 1:
            raise ProblemError(None, f"there are {len(alike)} columns {name!r}")
        if not alike:
            if name in REQUIRED:
                raise ProblemError(None, f"the column {name!r} is missing")
            continue
        kind = kinds[alike[0]]
        if kind == "void" and name not in REQUIRED:
            continue
        if not _fits(kind, wanted):
            raise ProblemError(None, f"the column {name!r} holds {kind}, not {wanted}")
        columns.append(sql.col(f"`{alike[0]}`").alias(name))
    return frame.select(*columns)


def count(frame: Any, place: Place) -> int:
    """Rows of the partitions at that place; of one Parquet file its footer says it, which spares Spark a job."""
    rows: int = (
        frame.count() if place.file is None or place.where is not None else pq.read_metadata(place.file).num_rows
    )
    return rows


def blocks(frame: Any, count: int) -> Any:
    """The partitions as bytes, in `count` blocks, each in a task of its own; kept on the executors' disks. What a task
    that is repeated makes of them is the same."""
    return kept(_packed(frame, count).repartition(count, "key"))


def side_by_side(partitions: Any, plan: Any, count: int) -> Any:
    """The blocks of both, each block in one task; `side` is 0 for partitions, 1 for the plan."""
    both = [_packed(frame, count).withColumn("side", sql.lit(side)) for side, frame in enumerate((partitions, plan))]
    return both[0].union(both[1]).repartition(count, "key")


def _packed(frame: Any, count: int) -> Any:
    keys = keys_of_blocks(count)
    topic = sql.xxhash64(sql.col("topic"), sql.shiftright(sql.col("partition").cast("bigint"), PIECE_BITS))
    block = sql.pmod(topic, sql.lit(count).cast("bigint")).cast("int").alias("block")

    def pack(batches: Batches) -> Iterator[Any]:
        return packed(batches, keys)

    return mapped(frame.select(block, *frame.columns), pack, "key int, block int, data binary")


def plan(spark: Any, place: Place) -> Any:
    """The rows of a plan that is stored. Raises ProblemError if it is none."""
    frame = _read(spark, place)
    if frame.columns != PLAN_SCHEMA.names:
        raise ProblemError(None, f"{place}: its columns are {frame.columns}, not {PLAN_SCHEMA.names}")
    return frame


def over_limits(checked: Any, limits: WaveLimits) -> list[str]:
    """What waves break of their limits, over all blocks; checked: LOADS."""
    loads = checked.where("found is null")
    wave = loads.agg(sql.min("wave"), sql.max("wave"), sql.countDistinct("wave")).first()
    if wave[2] and (wave[0] != 0 or wave[1] != wave[2] - 1):
        return ["waves are not numbered from 0 without a gap"]
    names = {
        "bytesIn": limits.bytes_in, "bytesOut": limits.bytes_out, "partitions": limits.partitions_per_broker,
        "records": limits.records,
    }  # fmt: skip
    total = loads.groupBy("wave", "broker").agg(*(sql.sum(name).alias(name) for name in names))
    over = total.where(" or ".join(f"{name} > {limit}" for name, limit in names.items())).limit(MOST_NAMED).collect()
    return [
        f"wave {row['wave']}: {name} {row[name]}, more than {limit}"
        for row in over
        for name, limit in names.items()
        if row[name] > limit
    ]


def mapped(frame: Any, work: Work, columns: Any) -> Any:
    """The DataFrame of what tasks make of batches of rows; columns: theirs, for Spark. Workers do without pandas,
    which pyarrow would load in each of them."""

    def begun(batches: Batches) -> Iterator[Any]:
        leave_pandas_out()
        yield from work(batches)

    return frame.mapInArrow(begun, columns)


def kept(frame: Any) -> Any:
    """The same DataFrame, kept on the executors' disks once it is made."""
    return frame.persist(StorageLevel.DISK_ONLY)


def answers(frame: Any) -> list[str]:
    """What the tasks found, of a DataFrame with a column `found`."""
    found: list[str] = frame.where("found is not null").select("found").toArrow().column("found").to_pylist()
    return found


def worked(frame: Any, work: Work) -> Any:
    """The DataFrame of what a task makes of the blocks: `found`, as text, `data`, its plan as bytes, and `left`, what
    that leaves out."""
    return mapped(frame, work, "block int, found string, data binary, left binary")


def left(frame: Any) -> Iterator[bytes]:
    """What the blocks left out, as bytes; the driver holds that of one task at a time."""
    for row in frame.where("left is not null").select("left").toLocalIterator():
        yield bytes(row[0])


def write(frame: Any, rows: Work, place: Place) -> tuple[int, int, int]:
    """Write a plan by Spark's own committer, so that of every task's attempts one counts, and of a job that fails
    nothing. frame: blocks of which `rows` makes the plan's rows. Returns what `_sums` has of the rows given to the
    writer."""
    made = mapped(frame.where("data is not null").select("block", "data"), rows, PLAN_COLUMNS)
    seen = Observation("written")
    made = made.observe(seen, *_sums())
    if place.named:
        writer = made.writeTo(place.address)
        if place.format is not None:
            writer = writer.using(place.format)
        for key, value in place.options.items():
            writer = writer.tableProperty(key, value)
        writer.create()
    else:
        form = place.format or "parquet"
        options = {"compression": "zstd"} | dict(place.options) if form == "parquet" else dict(place.options)
        made.write.format(form).options(**options).mode("error").save(place.address)
    return _counted(seen.get)


def read_back(spark: Any, place: Place) -> tuple[int, int, int]:
    """What `_sums` has of a plan that is stored."""
    columns = None
    if not place.named and place.format in (None, "parquet"):
        place, columns = replace(place, address=literal(place.address)), PLAN_COLUMNS
    frame = _read(spark, place, columns).select(*PLAN_SCHEMA.names)
    return _counted(frame.agg(*_sums()).first().asDict())


def _sums() -> list[Any]:
    """How many rows there are, and sums of both halves of a hash of each: neither a row that is missing nor one that
    is there twice leaves them as they were."""
    row = sql.xxhash64(*PLAN_SCHEMA.names)
    halves = row.bitwiseAND(sql.lit(0xFFFFFFFF).cast("bigint")), sql.shiftrightunsigned(row, 32)
    return [sql.count(sql.lit(1)).alias("rows"), *(sql.sum(half).alias(f"half{n}") for n, half in enumerate(halves))]


def _counted(found: Mapping[str, int | None]) -> tuple[int, int, int]:
    return found["rows"] or 0, found["half0"] or 0, found["half1"] or 0


def _read(spark: Any, place: Place, columns: StructType | None = None) -> Any:
    """columns: where they are known, so that Spark need not look for them in a job of its own."""
    if place.named:
        return spark.read.options(**place.options).table(place.address)
    form = place.format or "parquet"
    options = (MERGED if form in MERGING and columns is None else {}) | dict(place.options)
    reader = spark.read if columns is None else spark.read.schema(columns)
    return reader.options(**options).format(form).load(place.address)


def _columns(place: Place) -> StructType | None:
    """Of one Parquet file, unless Spark has to say what a column is to it, or has said it."""
    if place.file is None:
        return None
    footer = pq.read_metadata(place.file)
    schema = footer.schema.to_arrow_schema()
    kinds = [_kind(field.type) for field in schema]
    if None in kinds or len({name.lower() for name in schema.names}) < len(kinds) or WRITTEN in (footer.metadata or {}):
        return None
    return StructType([StructField(name, kind) for name, kind in zip(schema.names, kinds, strict=True)])


def _kind(stored: Any) -> Any:
    """By FOOTERS, whatever does not concern how it is stored left out: a dictionary, the name of a list's elements."""
    if pa.types.is_dictionary(stored):
        stored = stored.value_type
    return FOOTERS.get(pa.list_(stored.value_type) if pa.types.is_list(stored) else stored)


def _fits(kind: str, wanted: str) -> bool:
    if wanted == "bigint":
        return kind in WHOLE_NUMBERS
    if wanted == "array<bigint>":
        return kind.startswith("array<") and kind[6:-1] in WHOLE_NUMBERS
    return kind == wanted
