"""`kafka-medic fleet`: what the history of many clusters shows, and plans for all of them."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kafka_medic.cli import exits, output
from kafka_medic.cli.exits import UnusableInputError
from kafka_medic.fleet.answers import ACCOUNTS, PLANS, write_plans, write_report
from kafka_medic.fleet.history import HistoryError, Window, file_of, last_day
from kafka_medic.fleet.local import LocalEngine
from kafka_medic.fleet.on_spark import SparkEngine
from kafka_medic.fleet.pages import bytes_text, rate_text
from kafka_medic.fleet.plans import DEFECT, LARGEST, REFUSED, REPLICAS, TRAFFIC, Wish, too_large
from kafka_medic.fleet.request import Engine, Request, account_job, account_parts, plan_job, plan_parts
from kafka_medic.fleet.whole import Chosen, remarked, time_of
from kafka_medic.plan.arrow import leave_pandas_out
from kafka_medic.plan.spark.session import SparkError, session
from kafka_medic.plan.wanted import Wanted

REPORT, PLAN = "report", "plan"
LARGEST_LOCAL = 5_000_000
"""Partition rows of a history up to which `auto` works in this process."""
MASTER, REMOTE = "KAFKA_MEDIC_SPARK_MASTER", "KAFKA_MEDIC_SPARK_REMOTE"
_EXAMPLES = """\
examples:
  kafka-medic snapshot --bootstrap-servers kafka:9092 --name payments -o parquet --append history/   # from cron
  kafka-medic fleet report --history history/ --output report-today/
  kafka-medic fleet report --history history/ --days 90 --cluster payments --output payments/ -o json
  kafka-medic fleet plan --history history/ --replication-factor 3 --topic-factor 'logs-*=2' --output plans-today/
  kafka-medic fleet plan --history history/ --engine spark --spark-master spark://HOST:7077 --output plans-today/

report writes index.html, a page for each cluster, fleet.json and accounts.parquet. They show how topics and disks grow,
when a disk will be full, hot topics and brokers, groups that fall further behind, missing replicas and shared racks.
plan writes index.html, a page for each cluster, fleet.json and plans.parquet. Each plan raises the replication factor
of one cluster, balanced by the traffic of its partitions where that is known. Plans are as old as the snapshots. To
carry one out, plan anew with `kafka-medic plan`, or approve the operator's playbook.

Days are days in UTC by the clocks of those who wrote the snapshots. A folder is only read for the days asked for.
With --engine spark the history and the output have to be at the same path for every executor.

Exit code: 0 written, 1 written, but some cluster could not be planned, 4 input that cannot be used.
"""


def add_parser(subparsers: Any) -> None:
    """Put `fleet` and its questions under the command's subparsers."""
    parser = subparsers.add_parser(
        "fleet",
        help="report on and plan for many clusters, from their history",
        description="Report on and plan for many clusters, from their history. Changes nothing in Kafka.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    questions = parser.add_subparsers(dest="question", required=True, metavar="QUESTION")
    for name, text in (
        (REPORT, "what grows, what fills up, what is hot, who falls behind, and what is owed"),
        (PLAN, "a plan for each cluster that raises its partitions to their replication factor"),
    ):
        question = questions.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}.", epilog=_EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        _add_options(question)
        if name == PLAN:
            question.add_argument(
                "--balance", choices=(TRAFFIC, REPLICAS), default=TRAFFIC,
                help="what is to be even over a cluster's brokers: the bytes that arrive at them, where those are "
                "known (default), or the number of replicas",
            )  # fmt: skip
        question.set_defaults(run=run)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--history", type=Path, required=True, metavar="DIR",
        help="the folder to which `kafka-medic snapshot -o parquet --append`, or the operator, appends",
    )  # fmt: skip
    parser.add_argument("--days", type=_days, default=30, metavar="N", help="days to read (default: 30)")
    parser.add_argument(
        "--until", type=date.fromisoformat, metavar="YYYY-MM-DD", help="the last day to read (default: today, in UTC)"
    )
    parser.add_argument(
        "--cluster", action="append", default=[], metavar="NAME", help="only this cluster, by name or id (repeat it)"
    )
    parser.add_argument(
        "--replication-factor", type=_factor, default=3, metavar="N", help="wanted replicas (default: 3)"
    )
    parser.add_argument(
        "--topic-factor", type=_topic_factor, action="append", default=[], metavar="PATTERN=N",
        help="another factor for the topics that match; of several, the last one given counts (repeat it)",
    )  # fmt: skip
    parser.add_argument(
        "--exempt",
        action="append",
        default=[],
        metavar="PATTERN",
        help="expect nothing of topics that match (repeat it)",
    )
    parser.add_argument(
        "--output", type=Path, required=True, metavar="DIR", help="a folder that is not there yet, or is empty"
    )
    parser.add_argument("-o", dest="form", choices=output.FORMATS, default="table", help="how to show the summary")
    parser.add_argument(
        "--engine", choices=("auto", "local", "spark"), default="auto",
        help="local works in this process, spark on Spark; auto (default) takes spark, where it is installed, above "
        f"{LARGEST_LOCAL:,} partition rows",
    )  # fmt: skip
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--spark-master", metavar="URL", help=f"local[N], spark://..., k8s://... (default ${MASTER}, else local[*])"
    )
    where.add_argument(
        "--spark-remote", metavar="URL", help=f"a Spark Connect server, sc://HOST:PORT (default ${REMOTE})"
    )
    parser.add_argument(
        "--spark-conf", type=_setting, action="append", default=[], metavar="KEY=VALUE",
        help="Spark's own settings (repeat it)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Read, answer, write; the exit code. Raises UnusableInputError."""
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
    output.note(f"wrote index.html, pages, fleet.json and accounts.parquet of {len(rows):,} clusters to {args.output}")
    return exits.OK


def _plan(args: argparse.Namespace, request: Request, engine: Engine, clusters: Sequence[Chosen], work: Path) -> int:
    left = [too_large(c, _by_itself(args, c)) for c in clusters if c.partitions > LARGEST and not c.replaced]
    planned = [c for c in clusters if c.partitions <= LARGEST and not c.replaced]
    wish = Wish(_wanted(args), args.balance)
    if planned:
        engine.run(plan_parts(planned, wish), planned, plan_job(planned, wish), work / PLANS)
    rows = write_plans(work, clusters, left, f"Plans of the fleet, {request.window}")
    _show(rows, args.form, ("CLUSTER", "STATE", "PARTITIONS", "TO ADD", "TO COPY", "WAVES", "REMARK"), _plan_line)
    refused = [row for row in rows if row["state"] in (REFUSED, DEFECT)]
    for row in refused[:5]:
        output.note(f"{row['cluster']} was not planned: {row['reason']}")
    if len(refused) > 5:
        output.note(f"and {len(refused) - 5:,} more were not: see index.html")
    output.note(f"wrote index.html, pages, fleet.json and plans.parquet of {len(rows):,} clusters to {args.output}")
    return exits.REFUSED if refused else exits.OK


def _wanted(args: argparse.Namespace) -> Wanted:
    return Wanted(args.replication_factor, tuple(args.topic_factor), tuple(args.exempt))


def _by_itself(args: argparse.Namespace, cluster: Chosen) -> str:
    """The command that plans a cluster on Spark, from the files of its last Snapshot."""
    at = (cluster.cluster, cluster.last_whole or "", time_of(cluster.last_whole_time or 0))
    partitions, brokers = (file_of(args.history, table, *at) for table in ("partitions", "brokers"))
    return (
        f"kafka-medic plan raise-replication-factor --engine spark --partitions {partitions} --brokers {brokers} "
        f"--replication-factor {args.replication_factor} --output PLAN"
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
            f"--cluster {unknown[0]}", f"not in the history of {request.window}", f"there are {some}"
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


def _days(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 3660:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days from 1 to 3660")
    return int(text)


def _factor(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def _topic_factor(text: str) -> tuple[str, int]:
    pattern, _, number = text.rpartition("=")
    if not pattern or not number.isdecimal() or int(number) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not PATTERN=N with N from 1 on")
    return pattern, int(number)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value
