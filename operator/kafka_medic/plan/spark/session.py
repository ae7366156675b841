"""Where a Spark session comes from: this machine, a master, or a Spark Connect server."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kafka_medic

__all__ = ["SparkError", "session"]

# Equal files have to be cut into equal tasks whatever the cluster, or equal input would not give an equal plan.
_OURS = {
    "spark.sql.files.maxPartitionBytes": str(8 << 20),
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.parquet.compression.codec": "zstd",
}


class SparkError(Exception):
    """Spark cannot be used: what is missing, and the way out."""


@contextmanager
def session(master: str | None, remote: str | None, settings: Mapping[str, str]) -> Iterator[Any]:
    """A session on `remote` (Spark Connect, sc://HOST:PORT) or on `master`; stopped at the end.

    settings: Spark's own configuration, over what is set here. Raises SparkError.
    """
    try:
        from pyspark.errors import PySparkException  # noqa: PLC0415 - an optional part of the command
        from pyspark.sql import SparkSession  # noqa: PLC0415
    except ImportError:
        raise SparkError("pyspark is not installed: pip install 'kafka-medic[spark]'") from None
    if remote is None and "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        raise SparkError("no Java was found: install a JDK 17 or later, or set JAVA_HOME")
    # Workers on this machine have to be this Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder.appName("kafka-medic plan")
    if remote is not None:
        builder = builder.remote(remote)
    else:
        builder = builder.master(master or "local[*]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.log.level", "ERROR").config("spark.ui.showConsoleProgress", "false")
        if (master or "local").startswith("local"):
            builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    for key, value in (_OURS | dict(settings)).items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, RuntimeError) as error:
        raise SparkError(f"no Spark session on {remote or master or 'local[*]'}: {_first_line(error)}") from None
    with tempfile.TemporaryDirectory() as work:
        try:
            for key, value in _OURS.items():
                spark.conf.set(key, dict(settings).get(key, value))
            if remote is not None:
                spark.addArtifacts(_archive(work), pyfile=True)
            elif not (master or "local").startswith("local"):
                spark.sparkContext.addPyFile(_archive(work))
            yield spark
        finally:
            spark.stop()


def _archive(folder: str) -> str:
    """This package as a file for executors elsewhere; numpy and pyarrow they have to have."""
    package = Path(str(kafka_medic.__file__)).parent
    return shutil.make_archive(str(Path(folder) / "kafka_medic"), "zip", package.parent, package.name)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
