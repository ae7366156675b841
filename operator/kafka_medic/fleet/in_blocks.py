"""A plan for a cluster of a history that no task can hold: in blocks, on the session of the fleet's job."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_medic.fleet.on_spark import SparkEngine, ddl, quoted
from kafka_medic.fleet.plans import (
    DEFECT,
    NOTHING,
    PLANNED,
    REFUSED,
    REPLICAS,
    TRAFFIC,
    Wish,
    about,
    brokers_of,
    figures_of,
    page_of,
    text_of,
    times_there,
)
from kafka_medic.fleet.request import PLAN_ROWS
from kafka_medic.fleet.tables import BROKERS, day_of
from kafka_medic.fleet.whole import Chosen, time_of
from kafka_medic.plan.allowed import LeftOut
from kafka_medic.plan.files.report_data import About, ReportData
from kafka_medic.plan.model import PLAN_SCHEMA
from kafka_medic.plan.problem import ProblemError
from kafka_medic.plan.spark.conclude import SparkPlan
from kafka_medic.plan.spark.engine import plan_frame
from kafka_medic.plan.spark.place import Place, address
from kafka_medic.plan.spark.question import Question
from kafka_medic.report.units import many

__all__ = ["plan_in_blocks"]

COLUMNS = ("topic", "partition", "replicas", "leader", "isr", "sizeBytes")
BY_REPLICAS = "balanced by replicas: it is planned in blocks, which know no traffic"


def plan_in_blocks(engine: SparkEngine, chosen: Chosen, wish: Wish, target: Path) -> dict[str, Any]:
    """Plan a cluster and add its rows (PLAN_ROWS) to what is in `target`; the row of OUTCOME. What PySpark raises
    passes through."""
    row = about(chosen) | {"partitions": chosen.partitions}
    own = target.with_name(f".{target.name}")
    page = ""
    try:
        rows, question = _asked(engine, chosen, wish)
        done = plan_frame(engine.spark, rows, rows.count(), question, Place(address(own)))
        row |= _outcome(done, wish)
        if row["state"] == PLANNED:
            page = _page(question, done, chosen, row["takenAt"] or "")
            _add(engine.spark, own, chosen, target)
    except ProblemError as error:
        row |= {"state": REFUSED, "reason": error.reason}
    finally:
        shutil.rmtree(own, ignore_errors=True)
    _add_outcome(row, page, chosen, target)
    return row


def _asked(engine: SparkEngine, chosen: Chosen, wish: Wish) -> tuple[Any, Question]:
    """The partitions of the last Snapshot as a DataFrame, and what is asked of them. Raises ProblemError."""
    days = (day_of(time_of(chosen.last_whole_time or 0)),)

    mine = f"clusterId = {quoted(chosen.cluster_id)} AND snapshot = {quoted(chosen.last_whole or '')}"

    def read(table: str, columns: tuple[str, ...]) -> Any:
        return engine.read(table, days, ("clusterId", "snapshot", *columns)).where(mine)

    brokers = read("brokers", tuple(name for name in BROKERS.names if name not in ("clusterId", "snapshot")))
    rows = read("partitions", (*COLUMNS, "moving"))
    found = rows.selectExpr("count(*)", "sum(cast(moving AS bigint))").first()
    if times_there(found[0], found[1] or 0, chosen) > 1:  # a file was copied
        rows = rows.dropDuplicates(["topic", "partition"])
    return rows.select(*COLUMNS), Question(brokers_of(brokers.toArrow()), wish.wanted)


def _outcome(done: SparkPlan, wish: Wish) -> dict[str, Any]:
    """What the row of OUTCOME has of a plan."""
    found = done.summary
    left = {"leftOut": sum(found.left_out.values())}
    dead = found.left_out.get(LeftOut.DEAD_REPLICA, 0)
    remarks = [f"{many(dead, 'partition')} with a replica on a dead broker left unchanged"] if dead else []
    if done.problems:
        return left | {"state": DEFECT, "reason": "; ".join(done.problems[:5])}
    if not found.moves:
        return left | {"state": NOTHING, "reason": "".join(remarks) or None}
    remarks += [BY_REPLICAS] if wish.balance == TRAFFIC else []
    named = {"state": PLANNED, "balancedBy": REPLICAS, "reason": "; ".join(remarks) or None}
    return left | named | figures_of(found, done.copied, done.unknown)


def _page(question: Question, done: SparkPlan, chosen: Chosen, taken: str) -> str:
    waves, details = done.details.waves, done.details
    title = f"raise replication factor, balanced by {REPLICAS}"
    return page_of(
        ReportData(
            question.standing, done.summary, done.replicas, done.leaders, *done.waves, waves.moved, waves.busiest,
            details.topics, None, title, uncounted=details.uncounted, sizes_unknown=done.unknown,
            about=About(chosen.cluster, chosen.cluster_id, taken),
        )
    )  # fmt: skip


def _add(spark: Any, own: Path, chosen: Chosen, target: Path) -> None:
    """The rows of the plan, with the columns that all plans of a fleet have."""
    named = {
        "clusterId": quoted(chosen.cluster_id), "cluster": quoted(chosen.cluster), "of": "'partition'",
        "outcome": "cast(null AS string)", "page": "cast(null AS string)",
    }  # fmt: skip
    columns = [f"{named.get(name, name)} AS `{name}`" for name in PLAN_ROWS.names]
    rows = spark.read.schema(ddl(PLAN_SCHEMA)).parquet(address(own)).selectExpr(*columns)
    rows.write.mode("append").partitionBy("of").option("compression", "zstd").parquet(address(target))


def _add_outcome(row: Mapping[str, Any], page: str, chosen: Chosen, target: Path) -> None:
    folder = target / "of=cluster"
    folder.mkdir(parents=True, exist_ok=True)
    named = {"clusterId": chosen.cluster_id, "cluster": chosen.cluster, "outcome": text_of(row), "page": page}
    table = pa.Table.from_pylist([named], PLAN_ROWS).drop_columns(["of"])
    pq.write_table(table, folder / f"blocks-{len(list(folder.iterdir())):05}.parquet", compression="zstd")
