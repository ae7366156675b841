"""A plan through a Spark Connect server that runs already: the very plan of one process."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset
import pyarrow.parquet as pq
import pyspark
import pytest

from tests.unit.plan.cluster_tables import partitions

SPARK = Path(str(pyspark.__file__)).parent
SOURCE = Path(__file__).resolve().parents[2] / "operator"
STARTS = 240
"""Seconds in which the server has to answer."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Connect server."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = tmp_path_factory.mktemp("connect")
    line = [str(SPARK / "bin" / "spark-submit"), "--master", "local[1]", "--driver-memory", "512m"]
    for setting in (f"spark.connect.grpc.binding.port={port}", "spark.connect.grpc.binding.address=127.0.0.1",
                    "spark.ui.enabled=false"):  # fmt: skip
        line += ["--conf", setting]
    line += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(line, env=environment, stdout=log, stderr=log, cwd=folder)
    try:
        end = time.monotonic() + STARTS
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert time.monotonic() < end, (folder / "log").read_text()[-2000:]
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def test_a_plan_through_connect_is_that_of_one_process_with_what_it_leaves_out(server: str, tmp_path: Path) -> None:
    pq.write_table(partitions({f"t{n:02}": [[n % 5]] * 20 for n in range(20)}), tmp_path / "p.parquet")
    (tmp_path / "b.json").write_text(json.dumps([{"id": n} for n in range(6)]))
    for name, engine in (("local", ["--engine", "local"]), ("spark", ["--engine", "spark", "--spark-remote", server])):
        line = [sys.executable, "-m", "kafka_medic.cli.main", "plan", "raise-replication-factor", *engine]
        line += [
            "--partitions",
            str(tmp_path / "p.parquet"),
            "--brokers",
            str(tmp_path / "b.json"),
            "--max-moves",
            "300",
        ]
        line += ["--replication-factor", "3", "--output", str(tmp_path / name)]
        made = subprocess.run(
            line, check=False, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(SOURCE)}, timeout=500
        )
        assert made.returncode == 0, made.stderr[-2000:]
    order = [("topic", "ascending"), ("partition", "ascending")]
    tables = [
        pyarrow.dataset.dataset(tmp_path / name / "plan.parquet").to_table().sort_by(order).to_pylist()
        for name in ("local", "spark")
    ]
    assert tables[0] == tables[1]
    assert len(tables[0]) == 150
    listed = [sorted((tmp_path / name / "left-out.csv").read_text().splitlines()) for name in ("local", "spark")]
    assert listed[0] == listed[1]
    assert len(listed[0]) == 251
