"""`kafka-medic plan`: where new replicas should go, proven and checked before anything is written."""

from __future__ import annotations

import argparse
import textwrap
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafka_medic.cli import exits, output
from kafka_medic.cli.plan_check import DefectError, checked_and_written
from kafka_medic.cli.plan_figures import figures
from kafka_medic.cli.plan_spark import LARGEST_LOCAL, add_engine, on_spark, spark_settings, table_at, verified_on_spark
from kafka_medic.plan.allowed import Allowed
from kafka_medic.plan.arrow import compute, leave_pandas_out, names
from kafka_medic.plan.estimate import Estimate, estimate
from kafka_medic.plan.files.inputs import InputError, is_parquet, parquet_rows, read_brokers, read_partitions
from kafka_medic.plan.files.png import PngError, can_draw
from kafka_medic.plan.files.read_back import is_order, read_plan, verify_order, verify_read_back
from kafka_medic.plan.files.report_data import ReportData, report_data
from kafka_medic.plan.model import PREFERRED_ORDER, Summary
from kafka_medic.plan.problem import Broker, Problem, ProblemError
from kafka_medic.plan.relocation import Leave, LowerImbalance, Relocation, SpreadRacks
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.solver.relocate import plan_relocation
from kafka_medic.plan.spark.session import SparkError
from kafka_medic.plan.verify.moves import verify_moves
from kafka_medic.plan.verify.rules import verify
from kafka_medic.plan.wanted import Wanted

OK, DEFECT, BAD_INPUT = 0, 1, exits.UNUSABLE_PLAN
RAISE, VERIFY = "raise-replication-factor", "verify"
MOVING = {
    "replace-broker": "move the replicas of brokers that are gone to others, which copy them from those that are left",
    "move-off": "move every replica off brokers that are alive",
    "spread-racks": "spread partitions whose replicas share a rack, as far as there are racks, with the fewest moves",
    "lower-imbalance": "make replicas per broker as even as a number of moves can make them",
}
FOR_PEOPLE = (
    "Replicas are removed where they move away. The operator removes none: whoever approves of the plan carries it "
    "out, wave by wave, with kafka-reassign-partitions.sh."
)
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
""",
}
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

Exit code: 0 plan written, 1 the plan failed its own check, 2 input that cannot be planned. Nothing is
written unless it is 0.
"""


def _epilog(*questions: str) -> str:
    return f"examples:\n{''.join(_EXAMPLES[question] for question in questions)}\n{_FILES}"


class _OptionError(Exception):
    """An option whose value cannot be used."""


def add_parser(subparsers: Any) -> None:
    """Put `plan` and its questions under the command's subparsers."""
    parser = subparsers.add_parser(
        "plan",
        help="compute where replicas should go",
        description="Compute a reassignment: fewest moves, racks kept apart, brokers even. Changes nothing in Kafka.",
        epilog=_epilog(*_EXAMPLES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
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
    raising.add_argument(
        "--balance", choices=("replicas", "bytes"), default="replicas",
        help="what is to be even over the brokers: replicas (default) or bytes, for which every size has to be known",
    )  # fmt: skip
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
        moving.add_argument(
            "--broker", type=int, action="append", required=True, metavar="N",
            help=f"the id of a broker {'that is gone' if question == 'replace-broker' else 'to empty'} (repeat it)",
        )  # fmt: skip
    if question == "replace-broker":
        moving.add_argument(
            "--skip-lost", action="store_true",
            help="leave out the partitions that are in sync on no other broker, and list them in left-out.csv",
        )  # fmt: skip
    _add_allowed(moving, topics=True, moves_needed=question == "lower-imbalance")
    add_engine(moving)


def _add_verifying(questions: Any) -> None:
    verifying = questions.add_parser(
        VERIFY,
        help=f"check a written {RAISE} plan anew, before it is carried out",
        description="Check plan.parquet or reassignment.json against the partitions as they are now. Exit code: 0 it "
        "keeps every rule, 1 it does not, 2 input that cannot be used.",
    )
    verifying.add_argument(
        "--plan", type=table_at, required=True, metavar="F", help="plan.parquet or reassignment.json; on Spark also an "
        "address or table:NAME",
    )  # fmt: skip
    _add_inputs(verifying)
    _add_factors(verifying)
    _add_allowed(verifying)
    add_engine(verifying, writes=False)


def _add_factors(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--replication-factor", type=int, required=True, metavar="N", help="wanted replicas per partition"
    )
    parser.add_argument(
        "--topic-factor", action="append", default=[], metavar="PATTERN=N",
        help="another factor for the topics that match (repeat it)",
    )  # fmt: skip
    parser.add_argument(
        "--exempt", "--exclude-topic", action="append", default=[], metavar="PATTERN",
        help="leave the topics that match as they are (repeat it)",
    )  # fmt: skip


def _add_allowed(parser: argparse.ArgumentParser, *, topics: bool = False, moves_needed: bool = False) -> None:
    """The limits that hold for every question."""
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
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="where the plan is written")
    parser.add_argument(
        "--throttle", type=int, metavar="BYTES_PER_SECOND", help="per broker, for the estimate of the time it takes"
    )
    parser.add_argument(
        "--png", action="store_true", help="the report as report.png too; needs the package's extra png"
    )
    parser.add_argument("-o", dest="form", choices=("table", "json"), default="table", help="how to show the summary")


def run(args: argparse.Namespace) -> int:
    """Plan, verify, write, summarise; the exit code."""
    try:
        return _run(args)
    except (InputError, _OptionError, PngError, SparkError) as error:
        output.note(str(error))
    except ProblemError as error:
        path = args.brokers or args.partitions if error.table == "brokers" else args.partitions
        output.note(f"{path}: {error}")
    except DefectError:
        return DEFECT
    except OSError as error:
        output.note(f"{args.output}: cannot be written: {error.strerror or error}")
    return BAD_INPUT


def _run(args: argparse.Namespace) -> int:
    began = time.monotonic()
    if not hasattr(args, "engine") or not _takes_spark(args):  # Spark Connect needs pandas
        leave_pandas_out()
    if args.question == VERIFY:
        return _verify_read_back(args)
    if args.throttle is not None and args.throttle < 1:
        raise _OptionError(f"--throttle {args.throttle}: has to be at least 1 byte per second")
    if args.png:
        can_draw()
    summary, cost = _raise(args, began) if args.question == RAISE else _move(args, began)
    if args.form == "json":
        output.write(summary.to_json(), "json")
    else:
        output.put(figures(summary, cost, "added" if args.question == RAISE else "moved"))
    return OK


def _verify_read_back(args: argparse.Namespace) -> int:
    brokers = read_brokers(_brokers_file(args), beside=args.brokers is None)
    if _takes_spark(args):
        found = verified_on_spark(args, brokers, _wanted(args), _allowed(args))
        if found.broken:
            output.put("\n".join(f"broken: {rule}" for rule in found.broken))
            return DEFECT
        output.put(f"{args.plan} keeps every rule: {found.rows:,} partitions, {found.moves:,} new replicas")
        return OK
    problem = _problem(args, _wanted(args), brokers)
    table, waved = read_plan(args.plan, problem.partitions)
    if not waved and is_order(table):
        return _verify_order(args, problem, table)
    if not waved and args.plan.name == PREFERRED_ORDER:
        raise InputError(args.plan, None, "names replicas that are not there yet: carry out reassignment.json first")
    if broken := verify_read_back(problem, table, waved=waved):
        output.put("\n".join(f"broken: {rule}" for rule in broken))
        return DEFECT
    output.put(
        f"{args.plan} keeps every rule: {table.num_rows:,} partitions, {int(problem.missing.sum()):,} new replicas"
    )
    return OK


def _verify_order(args: argparse.Namespace, problem: Problem, table: pa.Table) -> int:
    """Check what comes after a reassignment."""
    if broken := verify_order(problem, table):
        output.put("\n".join(f"broken: {rule}" for rule in broken))
        return DEFECT
    output.put(f"{args.plan} keeps every rule: {table.num_rows:,} partitions get another order of their replicas")
    return OK


def _wanted(args: argparse.Namespace) -> Wanted:
    return Wanted(args.replication_factor, tuple(map(_topic_factor, args.topic_factor)), tuple(args.exempt))


def _problem(
    args: argparse.Namespace, wanted: Wanted, brokers: tuple[Broker, ...], *, by_bytes: bool = False
) -> Problem:
    partitions = read_partitions(args.partitions)
    output.note(f"read {partitions.num_rows:,} partitions and {len(brokers):,} brokers")
    topics = _topics(partitions)
    _note_unmatched(wanted, topics)
    return Problem(
        partitions, brokers, wanted.factor, wanted.factors_of(topics), wanted.exempt_of(topics), by_bytes=by_bytes,
        allowed=_allowed(args),
    )  # fmt: skip


def _raise(args: argparse.Namespace, began: float) -> tuple[Summary, Estimate]:
    wanted = _wanted(args)
    brokers = read_brokers(_brokers_file(args), beside=args.brokers is None)
    if _takes_spark(args):
        return on_spark(args, brokers, wanted, _allowed(args), ReportData.title, began)
    return _here(args, wanted, brokers, began)


def _move(args: argparse.Namespace, began: float) -> tuple[Summary, Estimate]:
    """Plan what moves replicas."""
    brokers = read_brokers(_brokers_file(args), beside=args.brokers is None)
    if _takes_spark(args):
        done = on_spark(args, brokers, _question(args), _allowed(args), MOVING[args.question], began)
        _note_left_out(done[0])
        output.note(FOR_PEOPLE)
        return done
    partitions = read_partitions(args.partitions)
    output.note(f"read {partitions.num_rows:,} partitions and {len(brokers):,} brokers")
    allowed = _allowed(args)
    _note_unmatched_topics("--exclude-topic", allowed.exclude_topics, _topics(partitions))
    relocation = Relocation(partitions, brokers, _question(args), allowed)
    plan = plan_relocation(relocation)
    output.note(f"planned {plan.summary.moves:,} moves of replicas in {plan.summary.waves:,} waves; checking")
    _note_left_out(plan.summary)
    leaders = relocation.leaders_of_changed(plan)
    drawn = partial(report_data, relocation, plan, leaders, args.throttle, MOVING[args.question])
    plan = checked_and_written(args.output, plan, partial(verify_moves, relocation, plan), drawn, began, png=args.png)
    output.note(f"wrote plan.parquet, reassignment.json, summary.json and report.html to {args.output}. {FOR_PEOPLE}")
    _note_order(plan.summary)
    return plan.summary, estimate(plan, leaders, args.throttle)


def _allowed(args: argparse.Namespace) -> Allowed:
    """The limits of the command line; the topics of a raise are exempt by its factors."""
    for name in ("max_moves", "max_bytes", "max_moves_per_broker", "max_bytes_per_broker"):
        limit = getattr(args, name)
        if limit is not None and limit < 1:
            raise _OptionError(f"--{name.replace('_', '-')} {limit}: has to be at least 1")
    if both := set(args.exclude_broker) & set(args.only_gives):
        raise _OptionError(f"--only-gives {min(both)}: is excluded as well; name it once")
    return Allowed(
        frozenset(args.exclude_broker),
        frozenset(args.only_gives),
        tuple(getattr(args, "exclude_topic", ())),
        None if args.question == "lower-imbalance" else args.max_moves,
        args.max_bytes,
        args.max_moves_per_broker,
        args.max_bytes_per_broker,
    )


def _question(args: argparse.Namespace) -> Leave | SpreadRacks | LowerImbalance:
    if args.question == "spread-racks":
        return SpreadRacks()
    if args.question == "lower-imbalance":
        return LowerImbalance(args.max_moves)
    gone = args.question == "replace-broker"
    return Leave(tuple(sorted(set(args.broker))), gone=gone, skip_lost=gone and args.skip_lost)


def _brokers_file(args: argparse.Namespace) -> Path:
    """A Snapshot has both."""
    file: Path = args.brokers or args.partitions
    if isinstance(file, str):
        raise _OptionError(f"--partitions {file}: has no brokers; give them with --brokers")
    return file


def _here(
    args: argparse.Namespace, wanted: Wanted, brokers: tuple[Broker, ...], began: float
) -> tuple[Summary, Estimate]:
    """Plan in this process."""
    problem = _problem(args, wanted, brokers, by_bytes=args.balance == "bytes")
    plan = plan_local(problem)
    output.note(f"planned {plan.summary.moves:,} new replicas in {plan.summary.waves:,} waves; checking")
    _note_left_out(plan.summary)
    leaders = problem.leaders_of_changed(plan)
    drawn = partial(report_data, problem, plan, leaders, args.throttle)
    plan = checked_and_written(args.output, plan, partial(verify, problem, plan), drawn, began, png=args.png)
    output.note(f"wrote plan.parquet, reassignment.json, summary.json and report.html to {args.output}")
    _note_order(plan.summary)
    return plan.summary, estimate(plan, leaders, args.throttle)


def _takes_spark(args: argparse.Namespace) -> bool:
    """Whether the plan is made on Spark. Raises _OptionError for what no other engine reads, SparkError for settings
    that are none."""
    spark_settings(args)
    only_spark = [
        option
        for option, given in (
            (f"--partitions {args.partitions}", isinstance(args.partitions, str)), ("--format", args.format),
            ("--option", args.option), ("--where", args.where), ("--plan-to", getattr(args, "plan_to", None)),
            (f"--plan {getattr(args, 'plan', '')}", isinstance(getattr(args, "plan", None), str)),
        )
        if given
    ]  # fmt: skip
    if only_spark and args.engine == "local":
        raise _OptionError(f"{only_spark[0]}: is for Spark alone: leave out --engine local")
    if args.engine != "auto" or only_spark:
        return args.engine == "spark" or bool(only_spark)
    return _is_large(args.partitions)


def _is_large(partitions: Path) -> bool:
    if not is_parquet(partitions) or parquet_rows(partitions) <= LARGEST_LOCAL:
        return False
    if find_spec("pyspark") is None:
        output.note("more partitions than are planned well in one process, but pyspark is not installed")
        return False
    return True


def _topics(partitions: pa.Table) -> list[str]:
    if "topic" not in partitions.column_names:
        return []
    return names(compute.unique(partitions.column("topic").cast(pa.string())))


def _topic_factor(text: str) -> tuple[str, int]:
    pattern, _, number = text.rpartition("=")
    if not pattern or not number.isdecimal():
        raise _OptionError(f"--topic-factor {text}: has to be PATTERN=N")
    return pattern, int(number)


def _note_order(summary: Summary) -> None:
    """The second file, without which preferred leaders stay as they are."""
    if summary.reordered:
        output.note(
            f"reassignment.json keeps the preferred leaders. Carry out {PREFERRED_ORDER} after it, in the same way, "
            "then run kafka-leader-election.sh --election-type preferred"
        )


def _note_left_out(summary: Summary) -> None:
    """Partitions that stay as they are though the question concerns them."""
    for why, count in summary.left_out.items():
        if count:
            output.note(f"left out: {count:,} {'partition' if count == 1 else 'partitions'}; each {why.sentence}")


def _note_unmatched(wanted: Wanted, topics: Sequence[str]) -> None:
    _note_unmatched_topics("--topic-factor", [pattern for pattern, _ in wanted.factors], topics)
    _note_unmatched_topics("--exempt", wanted.exempt, topics)


def _note_unmatched_topics(option: str, patterns: Sequence[str], topics: Sequence[str]) -> None:
    for pattern in patterns:
        if not any(fnmatchcase(topic, pattern) for topic in topics):
            output.note(f"{option} {pattern}: matches no topic")
