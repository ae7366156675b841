"""Where the planner on Spark reads partitions and writes plans: S3, HDFS, folders by column, tables of a catalog."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import boto3
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet as pq
import pyspark
import pytest
from moto.server import ThreadedMotoServer

from kafka_medic.cli import main
from tests.integration.spark_tables import ROWS, filled, line, settings
from tests.testbed import build, wait_for
from tests.testbed.places import REPOSITORY
from tests.unit.plan.cluster_tables import partitions


@pytest.fixture
def bucket():
    """(client, address) of an S3 server of its own, with the bucket `kafka`."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    client = boto3.client(
        "s3", endpoint_url=address, aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1"
    )
    client.create_bucket(Bucket="kafka")
    yield client, address
    server.stop()


def by_cluster(folder):
    """Two clusters with the same topics, in folders by name and day, with a column that the planner does not know."""
    for cluster, held in (("a", ROWS), ("b", {name: rows[:4] for name, rows in ROWS.items()})):
        table = partitions(held)
        table = table.append_column("bytesIn", [[1.5] * table.num_rows])
        place = folder / f"cluster={cluster}" / "day=2026-01-31"
        place.mkdir(parents=True)
        pq.write_table(table, place / "part-0.parquet")


def test_partitions_by_column_in_s3_and_a_plan_back_to_s3(bucket, tmp_path, capsys):
    client, address = bucket
    by_cluster(tmp_path / "partitions")
    for file in (tmp_path / "partitions").rglob("*.parquet"):
        client.upload_file(str(file), "kafka", str(file.relative_to(tmp_path)))
    given = {
        "spark.jars": ",".join(str(jar) for jar in sorted(build.spark_jars("s3").glob("*.jar"))),
        "spark.hadoop.fs.s3a.endpoint": address,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.access.key": "a",
        "spark.hadoop.fs.s3a.secret.key": "b",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    asked = ["--partitions", "s3a://kafka/partitions", "--where", "cluster = 'b' AND day = '2026-01-31'"]
    command = line(tmp_path, *asked, "--plan-to", "s3a://kafka/plan", *settings(given))
    assert main.main(command) == 0
    assert json.loads(capsys.readouterr().out)["partitions"] == 20 * 4
    assert sorted(path.name for path in (tmp_path / "plan").iterdir()) == ["report.html", "report.json", "summary.json"]
    names = [found["Key"] for found in client.list_objects_v2(Bucket="kafka", Prefix="plan/")["Contents"]]
    assert "plan/_SUCCESS" in names
    assert not [name for name in names if "_temporary" in name]
    store = pyarrow.fs.S3FileSystem(access_key="a", secret_key="b", endpoint_override=address, region="us-east-1")
    assert pyarrow.dataset.dataset("kafka/plan", filesystem=store, format="parquet").count_rows() == 20 * 4

    # What is there already is not overwritten.
    assert main.main(command) == 4
    assert "already exists" in capsys.readouterr().err


def test_a_table_of_the_sessions_catalog_and_a_plan_in_another(tmp_path, capsys):
    pq.write_table(partitions(ROWS, sizeBytes=[7] * 200), tmp_path / "p.parquet")
    places = {"spark.sql.warehouse.dir": (tmp_path / "warehouse").as_uri()}
    asked = ["--partitions", "table:partitions", "--plan-to", "table:plan", "--plan-format", "parquet"]
    with filled(tmp_path, "partitions", "parquet") as seen:
        assert main.main(line(tmp_path, *asked, *settings(places))) == 0
    assert seen == [200]
    assert json.loads(capsys.readouterr().out)["moves"] == 400


@pytest.mark.parametrize("form", ["iceberg", "delta"])
def test_tables_of_iceberg_and_delta_with_the_oldest_spark(tmp_path, form):
    """Newer versions of Spark have no runtime of both."""
    newer = os.environ.get("PYTHONPATH", "")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(build.oldest_spark()), newer])}
    asked = [sys.executable, "-m", "tests.integration.spark_tables", form, str(tmp_path)]
    done = subprocess.run(
        asked, env=environment, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    *summary, found = done.stdout.splitlines()
    assert json.loads(found) == {"spark": "4.0.1", "code": 0, "rows": [200]}
    assert json.loads("\n".join(summary))["moves"] == 400


@pytest.fixture
def hdfs(tmp_path):
    """(address, a function that runs a command of `hdfs dfs`) of a NameNode and a DataNode of its own, in one
    process."""
    site = tmp_path / "hadoop"
    site.mkdir()
    (site / "core-site.xml").write_text("<configuration/>")  # the shell does not start without one
    jars = [site, *build.spark_jars("hdfs").glob("*.jar"), Path(pyspark.__file__).parent / "jars" / "*"]
    java = ["java", "-Xmx256m", "-cp", os.pathsep.join(map(str, jars))]
    details = tmp_path / "hdfs.json"
    server = [*java, "org.apache.hadoop.test.MiniDFSClusterManager", "-datanodes", "1", "-format"]
    server += ["-writeDetails", str(details), "-D", f"hdfs.minidfs.basedir={tmp_path / 'hdfs'}"]
    with (tmp_path / "hdfs.log").open("w") as log:
        process = subprocess.Popen(server, cwd=tmp_path, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        wait_for("HDFS", lambda: details.exists() and details.read_text().endswith("}"), 60)
        address = f"hdfs://127.0.0.1:{json.loads(details.read_text())['namenode_port']}"

        def dfs(*words):
            shell = [*java, "org.apache.hadoop.fs.FsShell", *words]
            done = subprocess.run(shell, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, done.stderr[-3000:]

        yield address, dfs
    finally:
        process.kill()
        process.wait()


def test_partitions_by_column_in_hdfs_and_a_plan_back_to_hdfs(hdfs, tmp_path, capsys):
    address, dfs = hdfs
    by_cluster(tmp_path / "partitions")
    dfs("-put", str(tmp_path / "partitions"), f"{address}/")
    asked = ["--partitions", f"{address}/partitions", "--where", "cluster = 'b'", "--plan-to", f"{address}/plan"]
    assert main.main(line(tmp_path, *asked)) == 0
    assert json.loads(capsys.readouterr().out)["partitions"] == 20 * 4
    dfs("-get", f"{address}/plan", str(tmp_path / "fetched"))
    names = [path.name for path in (tmp_path / "fetched").iterdir()]
    assert "_SUCCESS" in names
    assert "_temporary" not in names
    assert pyarrow.dataset.dataset(tmp_path / "fetched", format="parquet").count_rows() == 20 * 4


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: t.drop_columns(["replicas"]), "the column 'replicas' is missing"),
        (lambda t: t.set_column(1, "partition", t.column("topic")), "the column 'partition' holds string, not bigint"),
    ],
)
def test_a_table_without_the_columns_is_refused_before_it_is_read(tmp_path, capsys, change, reason):
    (tmp_path / "partitions").mkdir()
    pq.write_table(change(partitions(ROWS)), tmp_path / "partitions" / "p.parquet")
    assert main.main(line(tmp_path, "--partitions", str(tmp_path / "partitions"))) == 4
    assert f"partitions: {reason}" in capsys.readouterr().err
    assert not (tmp_path / "plan").exists()
