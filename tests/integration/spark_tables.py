"""The planner's command with tables of a catalog, in a Spark session that fills them first.

    python -m tests.integration.spark_tables FORMAT FOLDER

With whatever PySpark comes first on the path. Prints what test_spark_places reads.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest

from kafka_medic.cli import main, plan_spark
from tests.testbed import build
from tests.unit.plan.cluster_tables import partitions

ROWS = {f"t{n:02}": [[n % 3]] * 10 for n in range(20)}
MEMORY = ("--spark-conf", "spark.driver.memory=600m", "--spark-master", "local[2]")


def line(folder: Path, *options: str) -> list[str]:
    """The command, which writes to `plan`."""
    (folder / "b.json").write_text(json.dumps([{"id": n} for n in range(6)]))
    asked = ["plan", "raise-replication-factor", "--replication-factor", "3", "--engine", "spark", "-o", "json"]
    places = ["--brokers", str(folder / "b.json"), "--output", str(folder / "plan"), "--overwrite"]
    return [*asked, *places, *MEMORY, *options]


def settings(given: dict[str, str]) -> list[str]:
    return [part for key, value in given.items() for part in ("--spark-conf", f"{key}={value}")]


@contextmanager
def filled(folder: Path, name: str, form: str) -> Iterator[list[int]]:
    """Sessions find the table in their catalog; rows of the plan beside it once they end."""
    real = getattr(plan_spark, "session")  # noqa: B009 - not exported

    @contextmanager
    def session(*place: Any, **how: Any) -> Iterator[Any]:
        with real(*place, **how) as spark:
            found = spark.read.parquet((folder / "p.parquet").as_uri())
            # Catalogs write names small.
            found = found.withColumnRenamed("sizeBytes", "sizebytes")
            found.writeTo(name).using(form).create()
            yield spark
            seen.append(spark.table("plan" if "." not in name else name.replace("partitions", "plan")).count())

    seen: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_spark, "session", session)
        yield seen


def catalog(form: str, folder: Path) -> tuple[str, dict[str, str]]:
    """(prefix of names, settings of the session) of a catalog of such tables."""
    jars = {"spark.jars": ",".join(str(jar) for jar in sorted(build.spark_jars("tables").glob("*.jar")))}
    if form == "iceberg":
        lake = "spark.sql.catalog.lake"
        return "lake.kafka.", jars | {
            lake: "org.apache.iceberg.spark.SparkCatalog",
            f"{lake}.type": "hadoop",
            f"{lake}.warehouse": str(folder / "lake"),
        }
    return "", jars | {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
    }


def run(form: str, folder: Path) -> None:
    pq.write_table(partitions(ROWS, sizeBytes=[7] * 200), folder / "p.parquet")
    prefix, given = catalog(form, folder)
    asked = ["--partitions", f"table:{prefix}partitions", "--plan-to", f"table:{prefix}plan", "--plan-format", form]
    with filled(folder, f"{prefix}partitions", form) as seen:
        code = main.main(line(folder, *asked, *settings(given)))
    print(json.dumps({"spark": pyspark.__version__, "code": code, "rows": seen}))


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]))
