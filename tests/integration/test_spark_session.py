"""A Spark session's JVM: whoever starts it ends it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext

from kafka_medic.plan.spark.session import SparkError, class_archive, session

SMALL = {"spark.driver.memory": "512m"}


def test_the_jvm_ends_with_the_session_that_started_it_and_with_no_other() -> None:
    with session("local[1]", None, SMALL) as outer:
        jvm = outer.sparkContext._gateway.proc
        with session("local[1]", None, SMALL) as inner:
            assert inner.sparkContext._gateway.proc is jvm
        assert jvm.poll() is None
    assert jvm.poll() is not None
    with session("local[1]", None, SMALL) as later:
        assert later.range(3).count() == 3


def test_a_start_that_fails_leaves_no_jvm_and_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive = class_archive()
    assert archive is not None
    assert archive.is_relative_to(tmp_path), "which the JVM is told to write"
    too_little = session("local[1]", None, {"spark.driver.memory": "100m"})
    with pytest.raises(SparkError, match="no Spark session on local"), too_little:
        pass
    assert SparkContext._gateway is None
    assert list(archive.parent.iterdir()) == []


def test_a_jvm_that_dies_is_a_failure_of_spark_and_the_next_session_has_its_own() -> None:
    def counts_without_jvm() -> None:
        with session("local[1]", None, SMALL) as first:
            jvm = first.sparkContext._gateway.proc
            jvm.kill()
            jvm.wait(30)
            first.range(3).count()

    with pytest.raises(SparkError, match="Spark failed"):
        counts_without_jvm()
    with session("local[1]", None, SMALL) as later:
        assert later.range(3).count() == 3
