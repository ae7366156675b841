"""The options of `kafka-medic fleet`. Nothing here needs a library that takes long to load."""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path
from typing import Any

from kafka_medic.cli import output
from kafka_medic.cli.plan_arguments import MASTER, REMOTE

REPORT, PLAN = "report", "plan"
LARGEST_LOCAL = 5_000_000
"""Partition rows of a history up to which `auto` works in this process."""
TRAFFIC, REPLICAS = "traffic", "replicas"
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

fleet plan ends with 1 where a cluster could not be planned; the other plans are written.
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
        help="local works in this process, spark on Spark; auto (default) takes spark with --spark-master or "
        f"--spark-remote and, where it is installed, above {LARGEST_LOCAL:,} partition rows",
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
