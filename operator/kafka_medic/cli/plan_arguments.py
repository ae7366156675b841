"""The options of `kafka-medic plan`. Nothing here needs a library that takes long to load."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path
from typing import Any

from kafka_medic.plan.spark.place import is_address

LARGEST_LOCAL = 4_000_000
"""Partitions up to which `auto` plans in this process: 0.8 GB of memory for each million."""
MASTER, REMOTE = "KAFKA_MEDIC_SPARK_MASTER", "KAFKA_MEDIC_SPARK_REMOTE"
"""Environment: where Spark is unless the command line names it. The chart's planner has one of them."""
RAISE, VERIFY = "raise-replication-factor", "verify"
MOVING = {
    "replace-broker": "move the replicas of brokers that are gone to others, which copy them from those that are left",
    "move-off": "move every replica off brokers that are alive",
    "spread-racks": "spread partitions whose replicas share a rack, as far as there are racks, with the fewest moves",
    "lower-imbalance": "make replicas per broker, or bytes, as even as a number of moves can make them",
    "relieve-disk": "move replicas off brokers whose disks fill up, with as few bytes as possible",
}
FOR_PEOPLE = (
    "A plan also removes replicas. The operator makes its own plans and carries out no file: you carry it "
    "out, wave by wave, with kafka-reassign-partitions.sh."
)
RELIEF, LOWER = "relieve-disk", "lower-imbalance"
LEAVING = ("replace-broker", "move-off")
_EXAMPLES = {
    RAISE: """\
  kafka-medic plan raise-replication-factor --partitions partitions.json --brokers brokers.json \\
      --replication-factor 3 --output plan/
  kafka-medic plan raise-replication-factor --partitions p.parquet --brokers brokers.json \\
      --replication-factor 3 --topic-factor 'logs-*=2' --exempt 'scratch-*' --throttle 50000000 --output plan/
  kafka-medic plan raise-replication-factor --partitions snapshot.json --replication-factor 3 \\
      --max-bytes 2000000000000 --exclude-broker 7 --output tonight/
""",
    "replace-broker": """\
  kafka-medic plan replace-broker --broker 7 --partitions snapshot.json --output plan/
  kafka-medic plan replace-broker --broker 7 --broker 8 --skip-lost --partitions snapshot.json --output plan/
""",
    "move-off": """\
  kafka-medic plan move-off --broker 7 --only-gives 8 --max-moves-per-broker 100 \\
      --partitions snapshot.json --output plan/
""",
    "spread-racks": """\
  kafka-medic plan spread-racks --partitions snapshot.json --exclude-topic '__*' --output plan/
""",
    "lower-imbalance": """\
  kafka-medic plan lower-imbalance --max-moves 500 --partitions snapshot.json --output plan/
  kafka-medic plan lower-imbalance --balance bytes --max-moves 50 --partitions snapshot.json --output plan/
""",
    RELIEF: """\
  kafka-medic plan relieve-disk --free 7=500000000000 --partitions snapshot.json --output plan/
""",
}
_VERIFYING = """\
examples:
  kafka-medic plan verify --plan plan/plan.parquet --replication-factor 3 --partitions snapshot.json
  kafka-medic plan verify --of replace-broker --broker 7 --plan plan/reassignment.json --partitions snapshot.json
  kafka-medic plan verify --of lower-imbalance --max-moves 500 --plan plan/plan.parquet --partitions snapshot.json
"""
_FILES = """\
F is Parquet, a JSON list, JSON lines, or Kafka's reassignment JSON: topic, partition, replicas and, if known,
leader, isr, sizeBytes. Or F is what `kafka-medic snapshot -o json` wrote; it has the brokers as well.
Brokers: [{"id": 1, "rack": "a", "alive": true, "diskFree": 1000000000, "weight": 2}], all but id optional. No
broker gets more bytes than its diskFree. A broker of weight 2 is to hold and lead twice as much as one of weight 1;
figures are then those of a broker of average weight. For several log directories give disks in place of diskFree:
"disks": [{"dir": "/d1", "free": 1000000000, "partitions": 12}]; partitions are optional.
Patterns are shell patterns; of several --topic-factor that match a topic, the last one given counts.

Written: plan.parquet, reassignment.json, summary.json, report.html; preferred-order.json, to be carried out after
reassignment.json, where other replicas are to lead; left-out.csv, where partitions stay as they are.

Spark: partitions are whatever a session reads, a Parquet file or folder, an address or a table; where the plan goes to
has to be seen by every executor. reassignment.json is left out above 2,000,000 partitions. Needs the package's extra
`spark` and, without --spark-remote, a JDK 17. On this machine, a cluster, Kubernetes, a Spark Connect server:
  --engine spark
  --engine spark --spark-master spark://HOST:7077 --spark-conf spark.executor.memory=4g
  --engine spark --spark-master k8s://https://HOST --spark-conf spark.kubernetes.container.image=IMAGE
  --engine spark --spark-remote sc://HOST:15002
  --partitions s3a://BUCKET/partitions --where "cluster = 'a'" --plan-to s3a://BUCKET/plan
  --partitions table:kafka.partitions --plan-to table:kafka.plan --plan-format iceberg

Nothing is written to --output unless the exit code is 0.
"""


def _epilog(*questions: str) -> str:
    return f"examples:\n{''.join(_EXAMPLES[question] for question in questions)}\n{_FILES}"


def add_parser(subparsers: Any) -> None:
    """Put `plan` and its questions under the command's subparsers."""
    parser = subparsers.add_parser(
        "plan",
        help="compute where replicas should go",
        description="Compute a reassignment: fewest moves, racks kept apart, brokers even. Changes nothing in Kafka.",
        epilog=_epilog(*_EXAMPLES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    questions = parser.add_subparsers(dest="question", required=True, metavar="QUESTION")
    _add_raising(questions)
    for question, summary in MOVING.items():
        _add_moving(questions, question, summary)
    _add_verifying(questions)


def _add_raising(questions: Any) -> None:
    raising = questions.add_parser(
        RAISE,
        help="add replicas to every partition that has too few",
        description="Add replicas to every partition that has too few; no replica is ever removed.",
        epilog=_epilog(RAISE),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_inputs(raising)
    _add_output(raising)
    _add_factors(raising)
    _add_allowed(raising)
    _add_balance(raising)
    add_engine(raising)


def _add_moving(questions: Any, question: str, summary: str) -> None:
    moving = questions.add_parser(
        question,
        help=summary,
        description=textwrap.fill(f"{summary[0].upper()}{summary[1:]}. {FOR_PEOPLE}", 100),
        epilog=_epilog(question),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_inputs(moving)
    _add_output(moving)
    if question in LEAVING:
        _add_leaving(moving, "that is gone" if question == "replace-broker" else "to empty")
    if question == "replace-broker":
        _add_skip_lost(moving)
    if question == RELIEF:
        _add_free(moving)
    if question == LOWER:
        _add_balance(moving)
    _add_allowed(moving, topics=True, moves_needed=question == LOWER, limited=question != RELIEF)
    if question != RELIEF:
        add_engine(moving)


def _add_balance(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--balance", choices=("replicas", "bytes"), default="replicas",
        help="what is to be even over the brokers: replicas (default) or bytes, for which every size has to be known",
    )  # fmt: skip


def _add_leaving(parser: argparse.ArgumentParser, which: str, *, required: bool = True) -> None:
    parser.add_argument(
        "--broker", type=int, action="append", required=required, metavar="N",
        help=f"the id of a broker {which} (repeat it)",
    )  # fmt: skip


def _add_skip_lost(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--skip-lost", action="store_true",
        help="leave out the partitions that are in sync on no other broker, and list them in left-out.csv",
    )  # fmt: skip


def _add_free(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument(
        "--free", action="append", required=required, metavar="N=BYTES",
        help="so many bytes leave broker N, which receives none (repeat it); partitions of unknown size stay",
    )  # fmt: skip


def _add_verifying(questions: Any) -> None:
    verifying = questions.add_parser(
        VERIFY,
        help="check a written plan again before you carry it out",
        description="Check plan.parquet or reassignment.json against the partitions as they are now. It ends with 0 "
        "where the plan keeps every rule, and with 1 where it does not. Give the options that the plan was made with.",
        epilog=_VERIFYING,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verifying.add_argument(
        "--of", choices=(RAISE, *MOVING), default=RAISE, metavar="QUESTION",
        help=f"the question that the plan answers: {', '.join(MOVING)} or {RAISE} (default)",
    )  # fmt: skip
    verifying.add_argument(
        "--plan", type=table_at, required=True, metavar="F", help="plan.parquet or reassignment.json; on Spark also an "
        "address or table:NAME",
    )  # fmt: skip
    _add_inputs(verifying)
    _add_factors(verifying, required=False)
    _add_leaving(verifying, "that is gone, or to empty", required=False)
    _add_skip_lost(verifying)
    _add_free(verifying, required=False)
    _add_balance(verifying)
    _add_allowed(verifying)
    add_engine(verifying, writes=False)


def _add_factors(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument(
        "--replication-factor", type=int, required=required, metavar="N", help="wanted replicas per partition"
    )
    parser.add_argument(
        "--topic-factor", action="append", default=[], metavar="PATTERN=N",
        help="another factor for the topics that match (repeat it)",
    )  # fmt: skip
    parser.add_argument(
        "--exempt", "--exclude-topic", action="append", default=[], metavar="PATTERN",
        help="leave the topics that match as they are (repeat it)",
    )  # fmt: skip


def _add_allowed(
    parser: argparse.ArgumentParser, *, topics: bool = False, moves_needed: bool = False, limited: bool = True
) -> None:
    """The limits that hold for every question. limited: one on what is copied may be given."""
    limits = parser.add_argument_group(
        "limits", "What does not fit them is left out, counted, and listed in left-out.csv. The most exposed "
        "partitions come first.",
    )  # fmt: skip
    if topics:
        limits.add_argument(
            "--exclude-topic", action="append", default=[], metavar="PATTERN",
            help="leave the topics that match as they are (repeat it)",
        )  # fmt: skip
    limits.add_argument(
        "--exclude-broker", type=int, action="append", default=[], metavar="N",
        help="a broker that takes no replica and gives none (repeat it)",
    )  # fmt: skip
    limits.add_argument(
        "--only-gives", type=int, action="append", default=[], metavar="N",
        help="a broker that takes no replica, but may give some (repeat it)",
    )  # fmt: skip
    if not limited:
        return
    limits.add_argument(
        "--max-moves", type=int, required=moves_needed, metavar="N", help="the most replicas that are copied"
    )
    limits.add_argument("--max-bytes", type=int, metavar="BYTES", help="the most bytes that are copied")
    limits.add_argument(
        "--max-moves-per-broker", type=int, metavar="N", help="the most replicas that one broker receives"
    )
    limits.add_argument(
        "--max-bytes-per-broker", type=int, metavar="BYTES", help="the most bytes that one broker receives"
    )


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    """What every question is about."""
    parser.add_argument("--partitions", type=table_at, required=True, metavar="F", help="the partitions as they are")
    parser.add_argument(
        "--brokers", type=Path, metavar="F", help="the brokers, with their racks (default: those of the Snapshot)"
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    """What every question has whose answer is written."""
    parser.add_argument(
        "--output", type=Path, required=True, metavar="DIR", help="a folder that is not there yet, or is empty"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the files of a plan that is there already")
    parser.add_argument(
        "--throttle", type=int, metavar="BYTES_PER_SECOND", help="per broker, for the estimate of the time it takes"
    )
    parser.add_argument(
        "--png", action="store_true", help="the report as report.png too; needs the package's extra png"
    )
    parser.add_argument("-o", dest="form", choices=("table", "json"), default="table", help="how to show the summary")


def table_at(text: str) -> Path | str:
    """The value of an option that takes a file, or what only Spark reads: an address, or table:NAME."""
    return text if is_address(text) else Path(text)


def add_engine(parser: argparse.ArgumentParser, *, writes: bool = True) -> None:
    """The options that say where a plan is made, and of which tables. writes: it is written."""
    spark = parser.add_argument_group(
        "Spark", "Partitions may then be an address (s3a://..., hdfs://...) or table:NAME, a table of a catalog."
    )
    spark.add_argument(
        "--engine", choices=("auto", "local", "spark"), default="auto",
        help="local plans in this process, spark on Spark; auto (default) takes spark for what only Spark reads, with "
        "--spark-master or --spark-remote, and, where it is installed, for Parquet of more than "
        f"{LARGEST_LOCAL:,} partitions",
    )  # fmt: skip
    where = spark.add_mutually_exclusive_group()
    where.add_argument(
        "--spark-master", metavar="URL", help=f"local[N], spark://..., k8s://... (default ${MASTER}, else local[*])"
    )
    where.add_argument(
        "--spark-remote", metavar="URL", help=f"a Spark Connect server, sc://HOST:PORT (default ${REMOTE})"
    )
    spark.add_argument(
        "--spark-conf", action="append", default=[], metavar="KEY=VALUE", help="Spark's own settings (repeat it)"
    )
    spark.add_argument("--format", metavar="NAME", help="of the partitions, as Spark knows it (default parquet)")
    spark.add_argument(
        "--option", action="append", default=[], metavar="KEY=VALUE", help="an option of that format (repeat it)"
    )
    spark.add_argument(
        "--where", metavar="SQL", help="the rows that are meant, as in \"cluster = 'a' AND day = '2026-01-31'\""
    )
    if writes:
        spark.add_argument(
            "--plan-to", metavar="PLACE", help="an address or table:NAME, not there yet, for the plan's rows "
            "(default: plan.parquet in the output, which every executor has to see)",
        )  # fmt: skip
    spark.add_argument("--plan-format", metavar="NAME", help="of that place (default parquet; a table's own)")
    spark.add_argument(
        "--plan-option", action="append", default=[], metavar="KEY=VALUE", help="an option of that format (repeat it)"
    )
