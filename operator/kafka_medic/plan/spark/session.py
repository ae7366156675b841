"""Where a Spark session comes from: this machine, a master, or a Spark Connect server."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kafka_medic

__all__ = ["BATCH_BYTES", "SparkError", "class_archive", "page", "reason", "session", "starts_slowly", "tasks"]

ARCHIVE_SECONDS = 120
"""In which a JVM has to write its archive of classes."""
OLDEST = 4
"""Spark's first version that the planner works with."""

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 25), "MALLOC_TRIM_THRESHOLD_": str(1 << 32)}
"""For workers under glibc: arrays of megabytes that are freed stay theirs. Given back and taken anew, block after
block, they cost a fifth of the time, all of it the kernel's."""


BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
UNLIMITED = str((1 << 31) - 1)
"""With a limit Spark adds up the bytes of a batch after each row, a twentieth of the time of a plan. A batch ends after
so many rows, or is one block."""


class SparkError(Exception):
    """Spark cannot be used: what is missing, and the way out."""


@contextmanager
def session(
    master: str | None, remote: str | None, settings: Mapping[str, str], *, small: bool = False
) -> Iterator[Any]:
    """A session on `remote` (Spark Connect, sc://HOST:PORT) or on `master`; stopped at the end.

    settings: Spark's own configuration, over what is set here. small: the JVM on this machine will hardly get warm.
    Raises SparkError.
    """
    failures = _failures()
    at_start: tuple[type[Exception], ...] = (*failures, RuntimeError)
    from pyspark import SparkContext  # noqa: PLC0415 - an optional part of the command
    from pyspark.sql import SparkSession  # noqa: PLC0415

    if remote is None and "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        raise SparkError("no Java was found: install a JDK 17 or later, or set JAVA_HOME")
    local = remote is None and (master or "local").startswith("local")
    classes = None if remote is not None else class_archive()
    own = remote is None and SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ
    builder = _builder(SparkSession.builder, master or "local[*]", remote, local=local)
    if remote is None:
        options = _java_options(classes, local=local, small=small)
        builder = builder.config("spark.driver.extraJavaOptions", options)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except at_start as error:
        why = reason(error)  # which asks the JVM
        _end_jvm(classes, own=own, kept=False)
        raise SparkError(f"no Spark session on {remote or master or 'local[*]'}: {why}") from None
    with tempfile.TemporaryDirectory() as work:
        try:
            _refuse_old(spark.version, remote or master or "this machine")
            if remote is not None:
                spark.addArtifacts(_archive(work), pyfile=True)
            elif not local:
                spark.sparkContext.addPyFile(_archive(work))
            yield spark
        except ConnectionError as error:
            raise SparkError(f"Spark failed: its JVM has ended ({error})") from None
        except failures as error:
            raise SparkError(f"Spark failed: {reason(error)}") from None
        finally:
            with contextlib.suppress(ConnectionError, *failures):  # its JVM is gone already
                spark.stop()
            _end_jvm(classes, own=own, kept=True)


def _failures() -> tuple[type[Exception], ...]:
    """What PySpark raises. Raises SparkError where there is none."""
    try:
        from py4j.protocol import Py4JError  # noqa: PLC0415
        from pyspark.errors import PySparkException  # noqa: PLC0415 - an optional part of the command
    except ImportError:
        raise SparkError("pyspark is not installed: pip install 'kafka-medic[spark]'") from None
    return PySparkException, Py4JError


def starts_slowly(master: str | None, remote: str | None) -> bool:
    """Whether the session that is now open is the one whose classes are kept at its end, which takes a while."""
    archive = class_archive() if remote is None and (master or "local").startswith("local") else None
    return archive is not None and not archive.exists()


def class_archive() -> Path | None:
    """Where the classes that Spark's JVM loads at its start are kept, so that the next one maps them instead (JEP 350);
    of this Spark and this Java alone. None where no such place can be written."""
    import pyspark  # noqa: PLC0415 - an optional part of the command

    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in os.environ else shutil.which("java")
    release = Path(str(java)).resolve().parent.parent / "release"
    if java is None or not release.is_file():
        return None
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-medic"
    spark = os.environ.get("SPARK_HOME", str(Path(str(pyspark.__file__)).parent))
    known = hashlib.sha256(f"{spark}\n{pyspark.__version__}\n{release}\n{release.read_text()}".encode()).hexdigest()[
        :12
    ]
    archive = root / f"spark-classes-{known}.jsa"
    with contextlib.suppress(OSError):
        root.mkdir(parents=True, exist_ok=True)
    return archive if archive.exists() or os.access(root, os.W_OK) else None


def _java_options(classes: Path | None, *, local: bool, small: bool) -> str:
    options = []
    if local:
        options.append("-XX:+UseSerialGC")
    if local and small:  # a better compiler would never pay
        options.append("-XX:TieredStopAtLevel=1")
    if classes is not None:
        # An archive that does not fit is left alone, and nothing of that may come between the lines of the summary.
        options += ["-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr"]
        known = classes.exists()
        if known:
            options.append(f'"-XX:SharedArchiveFile={classes}"')
        elif local:  # only such a session gives the archive its name, see `_end_jvm`
            options.append(f'"-XX:ArchiveClassesAtExit={_new(classes)}"')
    return " ".join(options)


def _new(classes: Path) -> Path:
    return classes.with_suffix(f".{os.getpid()}")


def _end_jvm(classes: Path | None, *, own: bool, kept: bool) -> None:
    """End it where it is our own, and wait until it is gone. kept: the archive that it then has written gets its name;
    without one the next start is as slow as this one was."""
    if not own:
        return
    from pyspark import SparkContext  # noqa: PLC0415 - an optional part of the command

    context: Any = SparkContext
    gateway, context._gateway = context._gateway, None
    context._jvm = context._active_spark_context = None  # also of a JVM that has ended before its session
    with contextlib.suppress(Exception):
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(ARCHIVE_SECONDS)
        if classes is not None and kept and not classes.exists():
            _new(classes).rename(classes)
    if classes is not None:
        _new(classes).unlink(missing_ok=True)


def _builder(builder: Any, master: str, remote: str | None, *, local: bool) -> Any:
    # Workers on this machine have to be this Python. Those in Pods have the one of their image.
    if not master.startswith("k8s://"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = builder.appName("kafka-medic plan").config(BATCH_BYTES, UNLIMITED)
    if remote is not None:
        return builder.remote(remote)
    builder = builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.log.level", "ERROR").config("spark.ui.showConsoleProgress", "false")
    for name, value in KEEP_MEMORY.items():
        builder = builder.config(f"spark.executorEnv.{name}", value)
    if local:
        # Of several addresses of this machine Spark would otherwise take one that others reach.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    return builder


def _archive(folder: str) -> str:
    """This package as a file for executors elsewhere; numpy and pyarrow they have to have."""
    package = Path(str(kafka_medic.__file__)).parent
    return shutil.make_archive(str(Path(folder) / "kafka_medic"), "zip", package.parent, package.name)


def _refuse_old(version: str, place: str) -> None:
    if int(version.split(".", maxsplit=1)[0]) < OLDEST:
        raise SparkError(f"Spark {version} on {place} is too old: the planner needs {OLDEST}.0 or later")


def tasks(spark: Any) -> tuple[int, int] | None:
    """(tasks that are done, tasks) of the stages that run now; None where none do, or where a server knows it alone."""
    context = getattr(spark, "_sc", None)
    if context is None:
        return None
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    found = [(stage.numCompletedTasks, stage.numTasks) for stage in stages if stage is not None]
    return (sum(done for done, _ in found), sum(of for _, of in found)) if found else None


def page(spark: Any) -> str | None:
    """The address of Spark's web page, None where there is none."""
    context = getattr(spark, "_sc", None)
    return None if context is None else context.uiWebUrl


def reason(error: Exception) -> str:
    """The cause that an error reports at the bottom: the end of a worker's traceback, else the last "Caused by", else
    the first line; and which of the parts was lost, where one was."""
    told = [line for line in str(error).splitlines() if line.strip()]
    lines = [line.strip() for line in told]
    lost = next((line for line in lines if "ExecutorLostFailure" in line), "")
    if lost:
        return _cut(lost[lost.index("ExecutorLostFailure") :])
    ends = _ends_of_tracebacks(told)
    causes = [line[line.index(": ") + 2 :] for line in lines if line.startswith(("Caused by: ", ": "))]
    return _cut((ends[-1:] or causes[-1:] or lines[:1] or [type(error).__name__])[0])


def _ends_of_tracebacks(lines: list[str]) -> list[str]:
    """What Python says after the indented lines of each traceback."""
    found, inside = [], False
    for line in lines:
        if "Traceback (most recent" in line:
            inside = True
        elif inside and not line[0].isspace():
            found.append(line.strip())
            inside = False
        elif line.startswith("\tat "):
            inside = False
    return found


def _cut(text: str) -> str:
    return text[:500]
