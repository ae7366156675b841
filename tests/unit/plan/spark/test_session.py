"""What is made of Spark's errors, and of a Spark that is too old."""

from __future__ import annotations

import pytest

from kafka_medic.plan.spark import session
from kafka_medic.plan.spark.place import Place, is_address, place_of

WORKER = """Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost
task 0.3 in stage 3.0 (TID 9) (10.0.0.7 executor 1): org.apache.spark.api.python.PythonException: Traceback (most recent
  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1, in main
RuntimeError: the partitions have changed while they were being planned

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.$anonfun$abortStage$3(DAGScheduler.scala:3122)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
"""
JVM = """An error occurred while calling o57.save.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to s3a://kafka/plan.
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailedWhileWritingRowsError(QueryExecutionErrors.scala:1)
Caused by: java.nio.file.AccessDeniedException: s3a://kafka/plan: Forbidden
\tat org.apache.hadoop.fs.s3a.S3AUtils.translateException(S3AUtils.java:1)
"""
LOST = """Job aborted due to stage failure: Task 1 in stage 2.0 failed 4 times, most recent failure: Lost task 1.3 in
stage 2.0: ExecutorLostFailure (executor 4 exited caused by one of the running tasks) Reason: OOMKilled
Driver stacktrace:
"""
ANALYSED = "[PATH_NOT_FOUND] Path does not exist: file:/nowhere. SQLSTATE: 42K03"


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (WORKER, "RuntimeError: the partitions have changed while they were being planned"),
        (JVM, "java.nio.file.AccessDeniedException: s3a://kafka/plan: Forbidden"),
        (LOST, "ExecutorLostFailure (executor 4 exited caused by one of the running tasks) Reason: OOMKilled"),
        (ANALYSED, ANALYSED),
        ("", "RuntimeError"),
    ],
)
def test_the_cause_is_what_is_reported_and_not_what_it_led_to(error, cause):
    assert session.reason(RuntimeError(error)) == cause


@pytest.mark.parametrize(
    "cause",
    [
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 1.00 GiB for an array with shape (9,)",
        "MemoryError",
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        "pyspark.errors.exceptions.base.PySparkRuntimeError: [ARROW] it does not fit",
        "zlib.error: Error -3 while decompressing data",
        "KeyError: 3",
    ],
)
def test_what_python_raised_is_the_cause_whatever_it_is_called(cause):
    first = WORKER.replace("RuntimeError: the partitions have changed while they were being planned", cause)
    assert session.reason(RuntimeError(first)) == cause
    chained = first.replace(
        cause, f"OSError: before\n\nDuring handling of that:\n\nTraceback (most recent call last):\n  File\n{cause}"
    )
    assert session.reason(RuntimeError(chained)) == cause


def test_only_a_session_that_keeps_the_classes_has_the_jvm_write_them(tmp_path):
    """Of any other master each run would leave 180 MB under a name of its own."""
    new, kept = tmp_path / "new.jsa", tmp_path / "kept.jsa"
    kept.touch()
    assert "ArchiveClassesAtExit" in session._java_options(new, local=True, small=False)
    assert "ArchiveClassesAtExit" not in session._java_options(new, local=False, small=False)
    assert f"SharedArchiveFile={kept}" in session._java_options(kept, local=False, small=False)


def test_a_spark_that_is_too_old_is_named_with_what_is_needed():
    session._refuse_old("4.0.1", "this machine")
    with pytest.raises(
        session.SparkError, match=r"Spark 3\.5\.4 on sc://host is too old: the planner needs 4\.0 or later"
    ):
        session._refuse_old("3.5.4", "sc://host")


def test_a_place_is_a_path_an_address_or_a_table_by_name():
    assert [is_address(text) for text in ("p.parquet", "s3a://bucket/p", "table:lake.kafka.plan")] == [
        False,
        True,
        True,
    ]
    assert place_of("table:lake.kafka.plan", "iceberg") == Place("lake.kafka.plan", named=True, format="iceberg")
    assert str(place_of("table:lake.kafka.plan")) == "table:lake.kafka.plan"
    assert place_of("s3a://bucket/p", None, {"a": "b"}, "x = 1") == Place(
        "s3a://bucket/p", False, None, {"a": "b"}, "x = 1"
    )
