"""`kafka-medic plan` on Spark: its options, and the plan that it makes there."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from kafka_medic.cli import output
from kafka_medic.cli.plan_arguments import LARGEST_LOCAL, MASTER, REMOTE
from kafka_medic.cli.plan_check import refuse_broken
from kafka_medic.cli.plan_report import about_plan
from kafka_medic.cli.progress import Step, animated
from kafka_medic.plan.allowed import Allowed
from kafka_medic.plan.broker import Broker
from kafka_medic.plan.estimate import Estimate
from kafka_medic.plan.files.artifact import (
    LEFT_OUT,
    PLAN,
    REASSIGNMENT,
    plan_batches,
    plan_directory,
    reordered,
    write_left_out,
    write_reassignment,
    write_summary,
)
from kafka_medic.plan.files.inputs import InputError, is_parquet, parquet_rows, read_partitions
from kafka_medic.plan.files.partition_columns import listed_of_batches
from kafka_medic.plan.files.report_data import ReportData
from kafka_medic.plan.model import PREFERRED_ORDER, Summary
from kafka_medic.plan.relocation import Question as Moving
from kafka_medic.plan.spark.place import Place, address, is_address, place_of, to_read
from kafka_medic.plan.spark.session import SparkError, page, session, starts_slowly, tasks
from kafka_medic.plan.wanted import Wanted

if TYPE_CHECKING:
    from kafka_medic.plan.spark.read_back import ReadBack

LARGEST_REASSIGNMENT = 2_000_000
"""Partitions of a Spark plan up to which reassignment.json is written; Kafka takes 10,000 of them in one request."""
PROGRESS_SECONDS, DRAWN_SECONDS = 5.0, 0.5


def on_spark(
    args: argparse.Namespace,
    brokers: tuple[Broker, ...],
    ask: Wanted | Moving,
    allowed: Allowed,
    title: str,
    began: float,
) -> tuple[Summary, Estimate]:
    """Plan on Spark and write what is written of a plan. Raises ProblemError, SparkError, InputError, DefectError."""
    # Imported here: what is planned in this process does not wait for it.
    from kafka_medic.plan.spark.question import Question  # noqa: PLC0415

    question = Question(brokers, ask, by_bytes=getattr(args, "balance", "") == "bytes", allowed=allowed)
    settings = spark_settings(args)
    with (
        plan_directory(args.output.absolute(), overwrite=args.overwrite) as work,
        tempfile.TemporaryDirectory(dir=work) as own,
    ):
        source, small = _source(args, Path(own)), _rows(args)
        target = _target(args, work)
        with ExitStack() as planning:
            spark = planning.enter_context(session(*_where(args), settings, small=small))
            say = planning.enter_context(_progress(spark, args))
            if address := page(spark):
                output.note(f"Spark's page: {address}")
            from kafka_medic.plan.spark.engine import plan_spark  # noqa: PLC0415

            done = plan_spark(spark, source, question, target, say, partial(write_left_out, work))
            if starts_slowly(*_where(args)):
                say("keeping Spark's classes, so that it starts faster from now on (this happens once)")
            refuse_broken(done.problems)
            spark_ends = planning.pop_all().close
        with _beside(spark_ends):
            for_kafka = args.plan_to is None and done.summary.partitions <= LARGEST_REASSIGNMENT
            summary = replace(done.summary, order_file=for_kafka, seconds=round(time.monotonic() - began, 3))
            files = [*([PLAN] if args.plan_to is None else []), "summary.json", "report.html"]
            if for_kafka:
                files.insert(0, REASSIGNMENT)
                write_reassignment(work / REASSIGNMENT, plan_batches(work / PLAN))
                if summary.reordered:
                    write_reassignment(work / PREFERRED_ORDER, map(reordered, plan_batches(work / PLAN)))
            if any(summary.left_out.values()):
                files.append(LEFT_OUT)
            waves, details = done.details.waves, done.details
            listed = None
            if args.plan_to is None:
                listed = listed_of_batches(plan_batches(work / PLAN), summary.partitions)
            report = ReportData(
                question.standing, summary, done.replicas, done.leaders, *done.waves, waves.moved, waves.busiest,
                details.topics, args.throttle, title, uncounted=details.uncounted, sizes_unknown=done.unknown,
                listed=listed, about=about_plan(args.partitions),
            )  # fmt: skip
            write_summary(work, report, png=args.png)
    output.note(f"wrote {', '.join(files)} to {args.output}" + (f", the plan to {target}" if args.plan_to else ""))
    busiest_in = int(waves.received.max(initial=0))
    seconds = None if args.throttle is None else max(busiest_in, done.sent) / args.throttle
    return summary, Estimate(done.copied, busiest_in, done.sent, seconds, done.unknown)


def verified_on_spark(
    args: argparse.Namespace, brokers: tuple[Broker, ...], ask: Wanted | Moving, allowed: Allowed
) -> ReadBack:
    """Check a stored plan on Spark. Raises ProblemError, SparkError, InputError."""
    # Imported here: what is checked in this process does not wait for it.
    from kafka_medic.plan.spark.question import Question  # noqa: PLC0415

    question = Question(brokers, ask, allowed=allowed)
    settings = spark_settings(args)
    options = dict(_pair("--plan-option", text) for text in args.plan_option)
    if not isinstance(args.plan, str) and not is_parquet(args.plan):
        raise InputError(args.plan, None, "is not Parquet; on Spark name plan.parquet, or leave out --engine")
    stored = args.plan if isinstance(args.plan, str) else to_read(args.plan)
    with tempfile.TemporaryDirectory() as own:
        source = _source(args, Path(own))
        with (
            session(*_where(args), settings, small=_rows(args)) as spark,
            _progress(spark, args) as say,
        ):
            from kafka_medic.plan.spark.engine import BLOCK_ROWS  # noqa: PLC0415
            from kafka_medic.plan.spark.read_back import verify_on_spark  # noqa: PLC0415

            plan = place_of(stored, args.plan_format, options)
            return verify_on_spark(spark, source, plan, question, BLOCK_ROWS, say)


def spark_settings(args: argparse.Namespace) -> dict[str, str]:
    """Spark's own settings. Raises SparkError for what is none."""
    return dict(_pair("--spark-conf", text) for text in args.spark_conf)


def _source(args: argparse.Namespace, work: Path) -> Place:
    """The partitions; what Spark would not read as it is comes to lie in `work` as Parquet."""
    options = dict(_pair("--option", text) for text in args.option)
    given = args.partitions
    if isinstance(given, str) or args.format is not None:
        return place_of(given if isinstance(given, str) else to_read(given), args.format, options, args.where)
    if not is_parquet(given):
        given, options = work / "partitions.parquet", {}
        pq.write_table(read_partitions(args.partitions), given)
    elif given.is_file():
        parquet_rows(given)  # what is no Parquet is better refused before Spark starts
    elif not given.exists():
        raise InputError(given, None, "no such file or folder")
    place = place_of(to_read(given), None, options, args.where)
    # A server has files of its own, and Spark passes over hidden ones.
    one = given.is_file() and _where(args)[1] is None and not given.resolve().name.startswith(("_", "."))
    return replace(place, file=given) if one and not options else place


def _target(args: argparse.Namespace, work: Path) -> Place:
    options = dict(_pair("--plan-option", text) for text in args.plan_option)
    if args.plan_to is None:
        if args.plan_format is not None or options:
            raise SparkError("--plan-format and --plan-option are for --plan-to, which is not given")
        return Place(address(work / PLAN))
    if not is_address(args.plan_to):
        raise SparkError(f"--plan-to {args.plan_to}: must be an address, as s3a://BUCKET/PATH, or table:NAME")
    return place_of(args.plan_to, args.plan_format, options)


def _rows(args: argparse.Namespace) -> bool:
    """Whether so little is to be planned that Spark's JVM hardly gets warm; not known is not little."""
    given = args.partitions
    if isinstance(given, str) or args.format is not None:
        return False
    return not is_parquet(given) or (given.is_file() and parquet_rows(given) <= LARGEST_LOCAL // 2)


def _where(args: argparse.Namespace) -> tuple[str | None, str | None]:
    """(master, Connect server): the command line wins over the environment."""
    if args.spark_master or args.spark_remote:
        return args.spark_master, args.spark_remote
    return os.environ.get(MASTER) or None, os.environ.get(REMOTE) or None


def _pair(option: str, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise SparkError(f"{option} {text}: must be KEY=VALUE")
    return key, value


@contextmanager
def _beside(work: Callable[[], None]) -> Iterator[None]:
    """Does that work while the block runs, and raises what it raised at the block's end."""
    problems: list[BaseException] = []

    def begun() -> None:
        try:
            work()
        except BaseException as problem:  # noqa: BLE001 - raised again where somebody waits
            problems.append(problem)

    # A daemon, as nobody who interrupts the command a second time wants to wait for it.
    beside = threading.Thread(target=begun, daemon=True)
    beside.start()
    try:
        yield
    finally:
        beside.join()
    if problems:
        raise problems[0]


@contextmanager
def _progress(spark: Any, args: argparse.Namespace) -> Iterator[Any]:
    """A function that hears which pass begins. Meanwhile standard error names the pass and its tasks: in one line on a
    terminal, else in lines of their own."""
    began, ended = time.monotonic(), threading.Event()
    current = [""]
    drawn: Step | None = getattr(args, "step", None) if animated(sys.stderr) else None

    def say(name: str) -> None:
        current[0] = name
        if drawn is not None:
            drawn(name)
        else:
            output.note(f"{time.monotonic() - began:.0f} s: {name}")

    def watch() -> None:
        last = ""
        while not ended.wait(DRAWN_SECONDS if drawn is not None else PROGRESS_SECONDS):
            done = tasks(spark)
            if done and drawn is not None:
                drawn(current[0], *done)
            line = f"{current[0]}: {done[0]:,} of {done[1]:,} tasks" if done else ""
            if line and line != last and drawn is None:
                output.note(f"{time.monotonic() - began:.0f} s: {line}")
                last = line

    watching = threading.Thread(target=watch, name="progress", daemon=True)
    watching.start()
    try:
        yield say
    finally:
        ended.set()
        watching.join()
