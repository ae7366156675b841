"""`kafka-medic fleet`: what the history of many clusters shows, and plans for all of them."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kafka_medic.cli import exits, output
from kafka_medic.cli.exits import UnusableInputError
from kafka_medic.cli.fleet_arguments import LARGEST_LOCAL, REPORT
from kafka_medic.cli.plan_arguments import MASTER, REMOTE
from kafka_medic.fleet.answers import ACCOUNTS, PLANS, write_plans, write_report
from kafka_medic.fleet.history import HistoryError, Window, last_day
from kafka_medic.fleet.local import LocalEngine
from kafka_medic.fleet.on_spark import SparkEngine
from kafka_medic.fleet.pages import bytes_text, rate_text
from kafka_medic.fleet.plans import DEFECT, LARGEST, REFUSED, Wish, too_large
from kafka_medic.fleet.request import Engine, Request, account_job, account_parts, plan_job, plan_parts
from kafka_medic.fleet.whole import Chosen, remarked
from kafka_medic.plan.arrow import leave_pandas_out
from kafka_medic.plan.spark.session import SparkError, session
from kafka_medic.plan.wanted import Wanted
from kafka_medic.report.units import many


def run(args: argparse.Namespace) -> int:
    """Read, answer, write; the exit code. Raises UnusableInputError."""
    if named := "--spark-master" if args.spark_master else "--spark-remote" if args.spark_remote else None:
        if args.engine == "local":
            raise UnusableInputError(named, "is for Spark alone: leave out --engine local")
        args.engine = "spark"
    if args.engine != "spark":  # whose Connect needs pandas
        leave_pandas_out()
    now = datetime.now(UTC)
    request = Request(args.history, Window.until(args.until or now.date(), args.days), now, frozenset(args.cluster))
    _refuse_without_snapshots(request)
    try:
        with _output(args.output) as work, _engine(args, request) as (engine, clusters):
            answer = _report if args.question == REPORT else _plan
            return answer(args, request, engine, clusters, work)
    except (HistoryError, SparkError) as error:
        raise UnusableInputError(f"fleet {args.question}", str(error)) from None
    except OSError as error:
        raise UnusableInputError(str(error.filename or args.output), error.strerror or str(error)) from None


def _report(args: argparse.Namespace, request: Request, engine: Engine, clusters: Sequence[Chosen], work: Path) -> int:
    engine.run(account_parts(request, clusters), clusters, account_job(_wanted(args), request.now), work / ACCOUNTS)
    rows = write_report(work, clusters, str(request.window))
    header = ("CLUSTER", "PARTITIONS", "BYTES", "A DAY", "DISK FULL", "IN P95", "BEHIND", "OWED", "REMARKS")
    _show(rows, args.form, header, _report_line)
    output.note(
        f"wrote index.html, pages, fleet.json and accounts.parquet of {many(len(rows), 'cluster')} to {args.output}"
    )
    return exits.OK


def _plan(args: argparse.Namespace, request: Request, engine: Engine, clusters: Sequence[Chosen], work: Path) -> int:
    large = [c for c in clusters if c.partitions > LARGEST and not c.replaced]
    planned = [c for c in clusters if c.partitions <= LARGEST and not c.replaced]
    wish, left = Wish(_wanted(args), args.balance), []
    if planned:
        engine.run(plan_parts(planned, wish), planned, plan_job(planned, wish), work / PLANS)
    if isinstance(engine, SparkEngine):
        from kafka_medic.fleet.in_blocks import plan_in_blocks  # noqa: PLC0415 - it needs PySpark

        for cluster in large:
            output.note(f"planning {cluster.cluster} in blocks: {cluster.partitions:,} partitions")
            plan_in_blocks(engine, cluster, wish, work / PLANS)
    else:
        left = [too_large(cluster, _on_spark(args, request, cluster)) for cluster in large]
    rows = write_plans(work, clusters, left, f"Plans of the fleet, {request.window}")
    _show(rows, args.form, ("CLUSTER", "STATE", "PARTITIONS", "TO ADD", "TO COPY", "WAVES", "REMARK"), _plan_line)
    refused = [row for row in rows if row["state"] in (REFUSED, DEFECT)]
    for row in refused[:5]:
        output.note(f"{row['cluster']} was not planned: {row['reason']}")
    if len(refused) > 5:
        output.note(f"{many(len(refused) - 5, 'more cluster')} not planned: see index.html")
    output.note(
        f"wrote index.html, pages, fleet.json and plans.parquet of {many(len(rows), 'cluster')} to {args.output}"
    )
    return exits.REFUSED if refused else exits.OK


def _wanted(args: argparse.Namespace) -> Wanted:
    return Wanted(args.replication_factor, tuple(args.topic_factor), tuple(args.exempt))


def _on_spark(args: argparse.Namespace, request: Request, cluster: Chosen) -> str:
    """The command that plans a cluster of any size."""
    return (
        f"kafka-medic fleet plan --engine spark --cluster {cluster.cluster_id} --history {args.history} "
        f"--until {request.window.last} --replication-factor {args.replication_factor} --output PLANS"
    )


@contextmanager
def _engine(args: argparse.Namespace, request: Request) -> Iterator[tuple[Engine, list[Chosen]]]:
    """The engine, and the clusters that it is about."""
    local = LocalEngine(request)
    if args.engine != "spark":
        clusters = _clusters(local, request)
        if args.engine == "local" or not _is_large(clusters):
            yield local, clusters
            return
    master, remote = args.spark_master, args.spark_remote
    if not master and not remote:
        master, remote = os.environ.get(MASTER) or None, os.environ.get(REMOTE) or None
    with session(master, remote, dict(args.spark_conf)) as spark:
        engine = SparkEngine(request, spark)
        yield engine, _clusters(engine, request)


def _clusters(engine: Engine, request: Request) -> list[Chosen]:
    """The clusters that are asked for. Raises UnusableInputError."""
    end = min(request.now, datetime.combine(request.window.last, time.max, UTC))
    found = remarked(engine.clusters(), end)
    if not found:
        raise UnusableInputError(str(request.history), f"no snapshot of {request.window} names its cluster's id")
    names = {c.cluster for c in found} | {c.cluster_id for c in found}
    if unknown := sorted(request.names - names):
        some = ", ".join(sorted({c.cluster for c in found})[:10])
        raise UnusableInputError(
            f"--cluster {unknown[0]}", f"not in the history of {request.window}", f"the history has {some}"
        )
    return [cluster for cluster in found if request.asks_for(cluster)]


def _is_large(clusters: Sequence[Chosen]) -> bool:
    rows = sum(cluster.rows for cluster in clusters)
    if rows <= LARGEST_LOCAL:
        return False
    if find_spec("pyspark") is None:
        output.note(f"{rows:,} partition rows are many for one process, but pyspark is not installed")
        return False
    return True


def _refuse_without_snapshots(request: Request) -> None:
    """Raises UnusableInputError where there is nothing to read."""
    history, window = request.history, request.window
    last = last_day(history)
    if last is None:
        way_out = f"append one: kafka-medic snapshot --bootstrap-servers HOST:PORT -o parquet --append {history}"
        raise UnusableInputError(str(history), "holds no snapshot", way_out)
    if not any((history / "snapshots" / f"day={day}").is_dir() for day in window.days()):
        way_out = f"its last snapshots are of {last}: give --until {last}"
        raise UnusableInputError(str(history), f"holds no snapshot of {window}", way_out)


@contextmanager
def _output(directory: Path) -> Iterator[Path]:
    """A new folder beside the one wanted, which takes its place when all went well and is removed if not. Raises
    UnusableInputError, OSError."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UnusableInputError("--output", f"{directory} exists and is not an empty folder", "name another one")
    directory.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.resolve().parent))
    try:
        work.chmod(0o755)
        yield work
        os.replace(work, directory)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _show(rows: Sequence[Mapping[str, Any]], form: str, header: Sequence[str], line: Any) -> None:
    if form == "table":
        output.put(output.table(header, [line(row) for row in rows]))
    else:
        output.write({"clusters": list(rows)}, form)


def _report_line(row: Mapping[str, Any]) -> tuple[str, ...]:
    full = row["firstDiskFull"] or ("unknown" if row["disksUnknown"] or not row["brokers"] else "not at this rate")
    notes = row["notes"]
    more = f" (and {len(notes) - 1} more)" if len(notes) > 1 else ""
    return (
        row["cluster"], _count(row["partitions"]), bytes_text(row["bytes"]), bytes_text(row["growthPerDay"]), full,
        rate_text(row["bytesInP95"]), _count(row["groupsFallingBehind"]), _count(row["replicasMissing"]),
        f"{notes[0]}{more}" if notes else "",
    )  # fmt: skip


def _plan_line(row: Mapping[str, Any]) -> tuple[str, ...]:
    planned = row.get("moves") is not None
    return (
        row["cluster"], row["state"], _count(row.get("partitions")), f"{row['moves']:,}" if planned else "",
        bytes_text(row["bytesToCopy"]) if planned else "", str(row["waves"]) if planned else "",
        row.get("reason") or "",
    )  # fmt: skip


def _count(number: int | None) -> str:
    return "unknown" if number is None else f"{number:,}"
