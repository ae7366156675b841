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

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 25), "MALLOC_TRIM_THRESHOLD_": str(1 << 32)}
"""For workers under glibc: arrays of megabytes that are freed stay theirs. Given back and taken anew, block after
block, they cost a fifth of the time, all of it the kernel's."""


class SparkError(Exception):
    """Spark cannot be used: what is missing, and the way out."""


@contextmanager
def session(master: str | None, remote: str | None, settings: Mapping[str, str]) -> Iterator[Any]:
    """A session on `remote` (Spark Connect, sc://HOST:PORT) or on `master`; stopped at the end.

    settings: Spark's own configuration, over what is set here. Raises SparkError.
    """
    try:
        from py4j.protocol import Py4JError  # noqa: PLC0415
        from pyspark.errors import PySparkException  # noqa: PLC0415 - an optional part of the command
        from pyspark.sql import SparkSession  # noqa: PLC0415
    except ImportError:
        raise SparkError("pyspark is not installed: pip install 'kafka-medic[spark]'") from None
    if remote is None and "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        raise SparkError("no Java was found: install a JDK 17 or later, or set JAVA_HOME")
    local = remote is None and (master or "local").startswith("local")
    builder = _builder(SparkSession.builder, master or "local[*]", remote, local=local)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, RuntimeError) as error:
        raise SparkError(f"no Spark session on {remote or master or 'local[*]'}: {_reason(error)}") from None
    with tempfile.TemporaryDirectory() as work:
        try:
            if remote is not None:
                spark.addArtifacts(_archive(work), pyfile=True)
            elif not local:
                spark.sparkContext.addPyFile(_archive(work))
            yield spark
        except (PySparkException, Py4JError) as error:
            raise SparkError(f"Spark failed: {_reason(error)}") from None
        finally:
            spark.stop()


def _builder(builder: Any, master: str, remote: str | None, *, local: bool) -> Any:
    # Workers on this machine have to be this Python. Those in Pods have the one of their image.
    if not master.startswith("k8s://"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = builder.appName("kafka-medic plan")
    if remote is not None:
        return builder.remote(remote)
    builder = builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.log.level", "ERROR").config("spark.ui.showConsoleProgress", "false")
    for name, value in KEEP_MEMORY.items():
        builder = builder.config(f"spark.executorEnv.{name}", value)
    if local:
        builder = builder.config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC")
        # Of several addresses of this machine Spark would otherwise take one that others reach.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    return builder


def _archive(folder: str) -> str:
    """This package as a file for executors elsewhere; numpy and pyarrow they have to have."""
    package = Path(str(kafka_medic.__file__)).parent
    return shutil.make_archive(str(Path(folder) / "kafka_medic"), "zip", package.parent, package.name)


def _reason(error: Exception) -> str:
    """What the error reports: of a worker's traceback its end, else the first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ends = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception"))]
    return (ends[-1:] or lines[:1] or [type(error).__name__])[0][:500]
