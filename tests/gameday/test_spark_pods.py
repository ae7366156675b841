"""A plan on Spark with executors as Pods, by the chart's planner alone: the very plan that is made in one process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from benchmarks.plan import write
from kafka_medic.plan.spark.engine import BLOCK_ROWS
from tests.e2e.conftest import tune_playbooks
from tests.incident import operator
from tests.testbed import external_kubeconfig, get, kubectl, load_image, own_state, spark_image, wait_for

BROKERS = {"brokers": 60, "racks": 5, "held": 1, "skewed": True}
ONE_BLOCK, SEVERAL = 20_000, 2 * BLOCK_ROWS
PLANNER = f"deployment/{operator.RELEASE}-planner"
ID = 10001
"""Whom the image's processes run as."""
pytestmark = pytest.mark.skipif(external_kubeconfig() is not None, reason="needs a folder that every node has")


@pytest.fixture(scope="module")
def plans(installed: None) -> Iterator[Path]:
    """The planner's and its executors' volume: a folder of this machine, which all nodes of the testbed share."""
    folder = own_state().root / "plans"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    name, archive = spark_image()
    load_image(archive)
    repository, _, tag = name.rpartition(":")
    address = get("service", "kubernetes", namespace="default")["spec"]["clusterIP"]
    values = {
        "enabled": True,
        "master": f"k8s://https://{address}:443",
        "image": {"repository": repository, "tag": tag, "pullPolicy": "Never"},
        "volume": {"hostPath": {"path": str(folder), "type": "Directory"}},
        "driver": {"memory": "512m"},
        "executors": {"instances": 2, "cores": 1, "memory": "512m", "memoryOverhead": "800m"},
    }
    # By force, as the playbooks were tuned by kubectl since.
    operator.install("--force-conflicts", "--set-json", f"spark={json.dumps(values)}")
    kubectl("rollout", "status", PLANNER, "-n", operator.NAMESPACE, "--timeout=180s", timeout=200)
    yield folder
    operator.install("--force-conflicts")
    tune_playbooks()
    shutil.rmtree(folder, ignore_errors=True)


def asked(folder: Path, partitions: int) -> None:
    folder.mkdir()
    write(BROKERS | {"partitions": partitions}, folder)
    for path in (folder, *folder.iterdir()):
        os.chown(path, ID, ID)


def command(folder: Path, output: str, *options: str) -> list[str]:
    """The line that a person would type."""
    where = f"/plans/{folder.name}"
    line = ["kafka-medic", "plan", "raise-replication-factor", "--replication-factor", "3", "-o", "json"]
    line += ["--partitions", f"{where}/partitions.parquet", "--brokers", f"{where}/brokers.json"]
    return [*line, "--output", f"{where}/{output}", *options]


def executors() -> dict[str, str]:
    """Name and node of each executor's Pod."""
    found = get("pods", namespace=operator.NAMESPACE, selector="spark-role=executor")["items"]
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in found}


def run(line: list[str]) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
    """What a command in the planner's Pod came to, and the executors that were seen meanwhile; they go with it."""
    began, seen = time.monotonic(), {}
    with ThreadPoolExecutor(1) as pool:
        place = ("exec", "-n", operator.NAMESPACE, PLANNER, "--")
        done = pool.submit(kubectl, *place, *line, check=False, timeout=600)
        while not done.done():
            seen |= executors()
            wait([done], timeout=0.5)
    result = done.result()
    print(f"\n{time.monotonic() - began:.1f} s, executors {seen}: {' '.join(line)}\n{result.stderr}")
    wait_for("the executors' end", lambda: not executors(), 60)
    return result, seen


def planned(folder: Path, output: str, *options: str) -> tuple[pa.Table, dict, dict[str, str]]:
    """(rows, summary, executors that were seen) of a plan made in the planner's Pod."""
    done, seen = run(command(folder, output, *options))
    assert done.returncode == 0, done.stderr
    made = pyarrow.dataset.dataset(folder / output / "plan.parquet").to_table()
    return made.sort_by([("topic", "ascending"), ("partition", "ascending")]), json.loads(done.stdout), seen


def test_executors_as_pods_make_the_very_plan_of_one_process(plans: Path) -> None:
    folder = plans / "one-block"
    asked(folder, ONE_BLOCK)
    here, told, none = planned(folder, "local", "--engine", "local")
    there, told_there, seen = planned(folder, "pods", "--engine", "spark")
    assert not none
    assert len(seen) == 2
    assert there.equals(here)
    assert told_there | {"engine": "", "seconds": 0} == told | {"engine": "", "seconds": 0}
    files = ["plan.parquet", "preferred-order.json", "reassignment.json", "report.html", "report.json", "summary.json"]
    assert sorted(path.name for path in (folder / "pods").iterdir()) == files


def test_several_blocks_are_planned_alike_by_two_pods_and_by_one_machine(plans: Path) -> None:
    folder = plans / "several-blocks"
    asked(folder, SEVERAL)
    alone, told, _ = planned(folder, "machine", "--engine", "spark", "--spark-master", "local[1]")
    there, told_there, seen = planned(folder, "pods", "--engine", "spark")
    assert len(seen) == 2
    assert there.num_rows == SEVERAL
    assert there.equals(alone)
    assert told_there | {"seconds": 0} == told | {"seconds": 0}
    assert told_there["moves"] == told_there["lowerBoundMoves"] == 2 * SEVERAL
    assert told_there["replicasPerBroker"]["max"] <= told_there["replicasPerBroker"]["bound"] + 1


def test_a_bad_row_is_named_and_leaves_neither_a_file_nor_a_pod(plans: Path) -> None:
    folder = plans / "bad"
    asked(folder, ONE_BLOCK)
    path = folder / "partitions.parquet"
    table = pyarrow.dataset.dataset(path).to_table()
    wrong = table.column("replicas").to_pylist()
    wrong[4711] = [999]
    at = table.column_names.index("replicas")
    pq.write_table(table.set_column(at, "replicas", pa.array(wrong, pa.list_(pa.int32()))), path)
    done, _ = run(command(folder, "plan", "--engine", "spark"))
    assert done.returncode == 4
    assert "topic-0000047-11: replicas name broker 999, which is not listed" in done.stderr
    assert not (folder / "plan").exists()
