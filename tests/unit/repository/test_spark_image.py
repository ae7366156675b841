"""The script by which Spark on Kubernetes starts an executor in our image: what it is told reaches the JVM."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ENTRYPOINT = Path(__file__).parents[3] / "images" / "spark" / "entrypoint.sh"
TOLD = {
    "SPARK_HOME": "/opt/spark",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.7:4040",
    "SPARK_EXECUTOR_ID": "EXECID",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.8",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "plan-exec-1",
    "SPARK_JAVA_OPT_0": "-Dname=with a space",
    "SPARK_JAVA_OPT_1": "-Dsecond=$HOME",
    "SPARK_JAVA_OPT_3": "-Dafter=a-gap",
}


def started(tmp_path: Path, *arguments: str) -> list[str]:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\npwd\nprintf '%s\\n' \"$@\"\n")
    java.chmod(0o755)
    environment = TOLD | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    done = subprocess.run([ENTRYPOINT, *arguments], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_an_executor_is_started_with_all_that_spark_says(tmp_path):
    where, *line = started(tmp_path, "executor")
    assert Path(where).parent == tmp_path, "it may write there"
    assert line == [
        "-Dname=with a space", "-Dsecond=$HOME", "-Xms512m", "-Xmx512m", "-cp", "/opt/spark/jars/*",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        "--driver-url", TOLD["SPARK_DRIVER_URL"], "--executor-id", "EXECID", "--cores", "2", "--app-id", "spark-1",
        "--hostname", "10.0.0.8", "--resourceProfileId", "0", "--podName", "plan-exec-1",
    ]  # fmt: skip


def test_anything_else_is_a_command(tmp_path):
    assert started(tmp_path, "echo", "kafka-medic plan", "executor") == ["kafka-medic plan executor"]
