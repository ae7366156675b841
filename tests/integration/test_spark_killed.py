"""Spark killed in its parts while a plan is written, on a standalone master with two workers: every partition is in the
plan once, or there is no plan."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.dataset
import pyarrow.parquet as pq
import pyspark
import pytest

from tests.unit.plan.cluster_tables import partitions

ROWS = 12_000
JARS = Path(pyspark.__file__).parent / "jars"
ROOT = Path(__file__).resolve().parents[2]
HOSTS = ("127.0.0.1", "127.0.0.2")
SPECULATION = {
    "spark.speculation": "true", "spark.speculation.interval": "200ms", "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.1", "spark.speculation.minTaskRuntime": "500ms",
}  # fmt: skip


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    """The address of a standalone master with two workers of one core each, on hosts of their own: Spark begins no twin
    on the host of the first attempt."""
    folder, port = tmp_path_factory.mktemp("standalone"), free_port()
    address = f"spark://127.0.0.1:{port}"
    common = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{JARS}/*"]
    lines = [[*common, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port),
              "--webui-port", "0"]]  # fmt: skip
    lines += [
        [*common, "org.apache.spark.deploy.worker.Worker", "--host", HOSTS[n], "--cores", "1", "--memory", "1g",
         "--webui-port", "0", "--work-dir", str(folder / f"worker-{n}"), address]
        for n in range(2)
    ]  # fmt: skip
    environment = os.environ | {"SPARK_HOME": str(JARS.parent), "SPARK_SCALA_VERSION": "2.13"}
    with contextlib.ExitStack() as running:
        for number, line in enumerate(lines):
            log = running.enter_context((folder / f"{number}.log").open("wb"))
            own = environment | {"SPARK_LOCAL_IP": HOSTS[max(number - 1, 0)]}
            process = subprocess.Popen(line, env=own, stdout=log, stderr=log, start_new_session=True)
            running.callback(process.wait)
            running.callback(process.kill)
            if not number:
                until(lambda: socket.create_connection(("127.0.0.1", port), 1), 60).close()
        until(lambda: (folder / "0.log").read_text().count("Registering worker") == 2, 90)
        yield address


def until(found, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if value := found():
                return value
        time.sleep(0.1)
    raise AssertionError("it did not come to that")


def planning(folder, master, seconds, settings=()):
    """The process of a plan whose writing halts for so long."""
    table = partitions({f"t{n:03}": [[n % 5]] * 100 for n in range(ROWS // 100)})
    pq.write_table(table, folder / "p.parquet")
    (folder / "b.json").write_text(json.dumps([{"id": n} for n in range(6)]))
    line = [sys.executable, "-m", "tests.integration.slow_plan", str(seconds), "plan", "raise-replication-factor"]
    line += ["--partitions", str(folder / "p.parquet"), "--brokers", str(folder / "b.json"), "--output"]
    line += [str(folder / "plan"), "--replication-factor", "3", "-o", "json", "--spark-master", master]
    line += [
        "--engine",
        "spark",
        "--spark-conf",
        "spark.executor.memory=512m",
        "--spark-conf",
        "spark.driver.memory=512m",
    ]
    for key, value in dict(settings).items():
        line += ["--spark-conf", f"{key}={value}"]
    path = os.pathsep.join([str(ROOT), str(ROOT / "operator")])
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            line, env=os.environ | {"PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1"}, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip


def halted(folder):
    """The file of the attempt that halts, which is of the first task."""
    return until(lambda: attempts(folder), 240)[0]


def attempts(folder):
    """Files of attempts to write what the first task writes."""
    found = folder.glob(".plan.*/plan.parquet/_temporary/0/_temporary/attempt_*_m_000000_*/*.parquet")
    return sorted(found, key=lambda path: path.parent.name)


def writer_of(file):
    """The id of the process that has the file open."""
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(link) == str(file):
                return int(link.parts[2])
    return None


def written(folder):
    assert not list(folder.glob(".plan.*"))
    rows = (
        pyarrow.dataset.dataset(folder / "plan" / "plan.parquet").to_table(columns=["topic", "partition"]).to_pylist()
    )
    return len(rows), len({(row["topic"], row["partition"]) for row in rows})


def ended(process, folder, code=0):
    assert process.wait(400) == code, (folder / "log").read_text()[-3000:]


def test_an_executor_that_dies_while_it_writes_leaves_no_row_out_and_none_twice(master, tmp_path):
    # With the executor its part of the blocks is lost, so the stage begins anew, and its first attempt halts as well.
    process = planning(tmp_path, master, 30)
    first = halted(tmp_path)
    os.kill(until(lambda: writer_of(first), 30), signal.SIGKILL)
    until(lambda: set(attempts(tmp_path)) - {first}, 120)
    ended(process, tmp_path)
    assert written(tmp_path) == (ROWS, ROWS)


def test_a_speculative_twin_writes_what_counts_and_the_late_one_nothing(master, tmp_path):
    process = planning(tmp_path, master, 300, SPECULATION)
    halted(tmp_path)
    began = time.monotonic()
    ended(process, tmp_path)
    assert time.monotonic() - began < 290, "what was written is a twin's, and nobody waited for the one that halts"
    assert written(tmp_path) == (ROWS, ROWS)


def test_a_driver_that_dies_while_it_writes_leaves_nothing_under_the_plans_name(master, tmp_path):
    process = planning(tmp_path, master, 30)
    halted(tmp_path)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)
    assert not (tmp_path / "plan").exists()
    again = planning(tmp_path, master, 0)
    ended(again, tmp_path)
    rows = pyarrow.dataset.dataset(tmp_path / "plan" / "plan.parquet").count_rows()
    assert rows == ROWS
