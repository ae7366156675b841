"""`kafka-medic plan`: where new replicas should go, proven and checked before anything is written."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafka_medic.cli import output
from kafka_medic.plan.arrow import compute, names
from kafka_medic.plan.artifact import InputError, read_brokers, read_partitions, write_plan
from kafka_medic.plan.estimate import Estimate, estimate
from kafka_medic.plan.local import plan_local
from kafka_medic.plan.model import Plan, Spread
from kafka_medic.plan.problem import Problem, ProblemError
from kafka_medic.plan.verify import verify

OK, DEFECT, BAD_INPUT = 0, 1, 2
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_EXAMPLES = """\
examples:
  kafka-medic plan raise-replication-factor --partitions partitions.json --brokers brokers.json \\
      --replication-factor 3 --output plan/
  kafka-medic plan raise-replication-factor --partitions p.parquet --brokers brokers.json \\
      --replication-factor 3 --topic-factor 'logs-*=2' --exempt 'scratch-*' --throttle 50000000 --output plan/

F is Parquet, a JSON list, JSON lines, or Kafka's reassignment JSON: topic, partition, replicas and, if known,
leader, isr, sizeBytes. Brokers: [{"id": 1, "rack": "a", "alive": true}], rack and alive optional.
Patterns are shell patterns; of several --topic-factor that match a topic, the last one given counts.
Exit code: 0 plan written, 1 the plan failed its own check, 2 input that cannot be planned. Nothing is
written unless it is 0.
"""


class _OptionError(Exception):
    """An option whose value cannot be used."""


def add_parser(subparsers: Any) -> None:
    """Put `plan` and its questions under the command's subparsers."""
    parser = subparsers.add_parser(
        "plan",
        help="compute where replicas should go",
        description="Compute a reassignment: fewest moves, racks kept apart, brokers even. Changes nothing in Kafka.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    questions = parser.add_subparsers(dest="question", required=True, metavar="QUESTION")
    raising = questions.add_parser(
        "raise-replication-factor",
        help="add replicas to every partition that has too few",
        description="Add replicas to every partition that has too few; no replica is ever removed.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    raising.add_argument("--partitions", type=Path, required=True, metavar="F", help="the partitions as they are")
    raising.add_argument("--brokers", type=Path, required=True, metavar="F", help="the brokers, with their racks")
    raising.add_argument(
        "--replication-factor", type=int, required=True, metavar="N", help="wanted replicas per partition"
    )
    raising.add_argument(
        "--topic-factor", action="append", default=[], metavar="PATTERN=N",
        help="another factor for the topics that match (repeat it)",
    )  # fmt: skip
    raising.add_argument(
        "--exempt", action="append", default=[], metavar="PATTERN", help="leave the topics that match alone (repeat it)"
    )
    raising.add_argument(
        "--engine", choices=("auto", "local", "spark"), default="auto",
        help="local plans in this process, spark on a cluster; auto (default) chooses",
    )  # fmt: skip
    raising.add_argument("--output", type=Path, required=True, metavar="DIR", help="where the plan is written")
    raising.add_argument(
        "--throttle", type=int, metavar="BYTES_PER_SECOND", help="per broker, for the estimate of the time it takes"
    )
    raising.add_argument("-o", dest="form", choices=("table", "json"), default="table", help="how to show the summary")


def run(args: argparse.Namespace) -> int:
    """Plan, verify, write, summarise; the exit code."""
    try:
        return _run(args)
    except (InputError, _OptionError) as error:
        output.note(str(error))
    except ProblemError as error:
        path = args.brokers if error.table == "brokers" else args.partitions
        output.note(f"{path}: {error}")
    except OSError as error:
        output.note(f"{args.output}: cannot be written: {error.strerror or error}")
    return BAD_INPUT


def _run(args: argparse.Namespace) -> int:
    began = time.monotonic()
    if args.engine == "spark":
        raise _OptionError("--engine spark: this build has no Spark engine; use --engine local")
    if args.throttle is not None and args.throttle < 1:
        raise _OptionError(f"--throttle {args.throttle}: has to be at least 1 byte per second")
    factors = [_topic_factor(text) for text in args.topic_factor]
    partitions, brokers = read_partitions(args.partitions), read_brokers(args.brokers)
    output.note(f"read {partitions.num_rows:,} partitions and {len(brokers):,} brokers")
    topics = _topics(partitions)
    problem = Problem(
        partitions, brokers, args.replication_factor, _factors(topics, factors), _exempt(topics, args.exempt)
    )
    plan = plan_local(problem)
    output.note(f"planned {plan.summary.moves:,} new replicas in {plan.summary.waves:,} waves; checking")
    broken = verify(problem, plan)
    if broken:
        output.note(f"the plan failed its own check, nothing was written (a defect): {'; '.join(broken)}")
        return DEFECT
    plan = replace(plan, summary=replace(plan.summary, seconds=round(time.monotonic() - began, 3)))
    write_plan(args.output, problem, plan)
    output.note(f"wrote plan.parquet, reassignment.json, summary.json and report.html to {args.output}")
    if args.form == "json":
        output.write(plan.summary.to_json(), "json")
    else:
        output.put(_table(plan, estimate(plan, problem.leaders_of_changed(), args.throttle)))
    return OK


def _topics(partitions: pa.Table) -> list[str]:
    if "topic" not in partitions.column_names:
        return []
    return names(compute.unique(partitions.column("topic").cast(pa.string())))


def _topic_factor(text: str) -> tuple[str, int]:
    pattern, _, number = text.rpartition("=")
    if not pattern or not number.isdecimal():
        raise _OptionError(f"--topic-factor {text}: has to be PATTERN=N")
    return pattern, int(number)


def _factors(topics: Iterable[str], factors: Sequence[tuple[str, int]]) -> dict[str, int]:
    _note_unmatched("--topic-factor", [pattern for pattern, _ in factors], topics)
    return {topic: number for pattern, number in factors for topic in topics if fnmatchcase(topic, pattern)}


def _exempt(topics: Iterable[str], patterns: Sequence[str]) -> frozenset[str]:
    _note_unmatched("--exempt", patterns, topics)
    return frozenset(topic for topic in topics if any(fnmatchcase(topic, pattern) for pattern in patterns))


def _note_unmatched(option: str, patterns: Iterable[str], topics: Iterable[str]) -> None:
    for pattern in patterns:
        if not any(fnmatchcase(topic, pattern) for topic in topics):
            output.note(f"{option} {pattern}: matches no topic")


def _table(plan: Plan, cost: Estimate) -> str:
    summary = plan.summary
    rows = [
        ("partitions changed", f"{summary.partitions:,}", ""),
        ("replicas added", f"{summary.moves:,}", f"{summary.lower_bound_moves:,}"),
        ("replicas per broker", *_spread(summary.replicas_per_broker)),
        ("preferred leaders per broker", *_spread(summary.leaders_per_broker)),
        ("rack violations", f"{summary.rack_violations:,}", f"{summary.rack_violations_bound:,}"),
        ("waves", f"{summary.waves:,}", ""),
        ("bytes to copy", _bytes(cost), ""),
    ]
    if cost.seconds is not None:
        rows.append(("time at the throttle, at least", _duration(cost.seconds), ""))
    rows.append(("planned in", f"{summary.seconds:.2f} s ({summary.engine})", ""))
    return output.table(("FIGURE", "THIS PLAN", "BEST POSSIBLE"), rows)


def _spread(spread: Spread) -> tuple[str, str]:
    return f"{spread.min:,} to {spread.max:,}", f"at most {spread.bound:,}"


def _bytes(cost: Estimate) -> str:
    amount, unit = float(cost.bytes_total), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    shown = f"{amount:.1f} {_UNITS[unit]}" if unit else f"{cost.bytes_total} B"
    return f"{shown} and {cost.unknown:,} partitions of unknown size" if cost.unknown else shown


def _duration(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"
