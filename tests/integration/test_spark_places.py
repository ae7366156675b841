"""Where the planner on Spark reads partitions and writes plans: S3, folders by column, tables of a catalog."""

from __future__ import annotations

import json
from contextlib import contextmanager

import boto3
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet as pq
import pyspark
import pytest
from moto.server import ThreadedMotoServer

from kafka_medic.cli import main, plan_spark
from tests.testbed import build
from tests.unit.plan.cluster_tables import partitions

ROWS = {f"t{n:02}": [[n % 3]] * 10 for n in range(20)}
MEMORY = ("--spark-conf", "spark.driver.memory=600m", "--spark-master", "local[2]")
FITS = tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2)


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


def line(tmp_path, *options):
    """The command, which writes to `plan`."""
    (tmp_path / "b.json").write_text(json.dumps([{"id": n} for n in range(6)]))
    asked = ["plan", "raise-replication-factor", "--replication-factor", "3", "--engine", "spark", "-o", "json"]
    return [
        *asked,
        "--brokers",
        str(tmp_path / "b.json"),
        "--output",
        str(tmp_path / "plan"),
        "--overwrite",
        *MEMORY,
        *options,
    ]


def settings(given):
    return [part for key, value in given.items() for part in ("--spark-conf", f"{key}={value}")]


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
        "spark.jars": ",".join(str(jar) for jar in sorted(build.spark_connectors().glob("*.jar"))),
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


@contextmanager
def filled(folder, name, form):
    """Sessions find the table in their catalog."""
    real = getattr(plan_spark, "session")  # noqa: B009 - not exported

    @contextmanager
    def session(*place, **how):
        with real(*place, **how) as spark:
            found = spark.read.parquet((folder / "p.parquet").as_uri())
            # Catalogs write names small.
            found = found.withColumnRenamed("sizeBytes", "sizebytes")
            found.writeTo(name).using(form).create()
            yield spark
            seen.append(spark.table("plan" if "." not in name else name.replace("partitions", "plan")).count())

    seen: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_spark, "session", session)
        yield seen


def test_a_table_of_the_sessions_catalog_and_a_plan_in_another(tmp_path, capsys):
    pq.write_table(partitions(ROWS, sizeBytes=[[7] * 200][0]), tmp_path / "p.parquet")
    places = {"spark.sql.warehouse.dir": (tmp_path / "warehouse").as_uri()}
    asked = ["--partitions", "table:partitions", "--plan-to", "table:plan", "--plan-format", "parquet"]
    with filled(tmp_path, "partitions", "parquet") as seen:
        assert main.main(line(tmp_path, *asked, *settings(places))) == 0
    assert seen == [200]
    assert json.loads(capsys.readouterr().out)["moves"] == 400


@pytest.mark.skipif(not FITS, reason="Iceberg's newest runtime, for Spark 4.1, does not load in Spark 4.2 and later")
def test_an_iceberg_table_and_a_plan_in_another(tmp_path, capsys):
    pq.write_table(partitions(ROWS), tmp_path / "p.parquet")
    catalog = {
        "spark.jars": str(next(build.spark_connectors().glob("iceberg*.jar"))),
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(tmp_path / "lake"),
    }
    asked = ["--partitions", "table:lake.kafka.partitions", "--plan-to", "table:lake.kafka.plan"]
    with filled(tmp_path, "lake.kafka.partitions", "iceberg") as seen:
        assert main.main(line(tmp_path, *asked, "--plan-format", "iceberg", *settings(catalog))) == 0
    assert seen == [200]
    assert json.loads(capsys.readouterr().out)["moves"] == 400


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
