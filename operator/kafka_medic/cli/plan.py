"""`kafka-medic plan`: where new replicas should go, proven and checked before anything is written."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa

from kafka_medic.cli import exits, output
from kafka_medic.cli.plan_arguments import FOR_PEOPLE, LARGEST_LOCAL, LEAVING, LOWER, MOVING, RAISE, RELIEF, VERIFY
from kafka_medic.cli.plan_check import DefectError, checked_and_written
from kafka_medic.cli.plan_figures import figures
from kafka_medic.cli.plan_report import about_plan
from kafka_medic.cli.plan_spark import on_spark, spark_settings, verified_on_spark
from kafka_medic.cli.progress import working
from kafka_medic.plan.allowed import MOST, Allowed
from kafka_medic.plan.arrow import compute, leave_pandas_out, names
from kafka_medic.plan.broker import NoRoomError
from kafka_medic.plan.estimate import Estimate, estimate
from kafka_medic.plan.files.artifact import NotPlacedError, refuse_directory
from kafka_medic.plan.files.inputs import InputError, is_parquet, parquet_rows, read_brokers, read_partitions
from kafka_medic.plan.files.png import PngError, can_draw
from kafka_medic.plan.files.read_back import is_order, read_plan, verify_order, verify_read_back
from kafka_medic.plan.files.report_data import ReportData, report_data
from kafka_medic.plan.memory import keep_freed
from kafka_medic.plan.model import PREFERRED_ORDER, Plan, Summary
from kafka_medic.plan.problem import Broker, Problem, ProblemError
from kafka_medic.plan.relocation import Leave, LowerImbalance, Question, Relieve, Relocation, SpreadRacks
from kafka_medic.plan.solver.local import plan_local
from kafka_medic.plan.solver.relocate import plan_relocation
from kafka_medic.plan.spark.session import SparkError
from kafka_medic.plan.verify.moves import MovesCheck, verify_moves
from kafka_medic.plan.verify.rules import Check, verify
from kafka_medic.plan.wanted import Wanted

OK, DEFECT, BAD_INPUT = exits.OK, exits.REFUSED, exits.UNUSABLE_INPUT


class _OptionError(Exception):
    """An option whose value cannot be used."""


def run(args: argparse.Namespace) -> int:
    """Plan, verify, write, summarise; the exit code."""
    try:
        return _run(args)
    except (InputError, _OptionError, PngError, SparkError) as error:
        output.note(str(error))
    except ProblemError as error:
        path = args.brokers or args.partitions if error.table == "brokers" else args.partitions
        output.note(f"{path}: {error}{_more_room(args) if isinstance(error, NoRoomError) else ''}")
    except DefectError:
        return DEFECT
    except NotPlacedError as error:
        why = f"{args.output}: cannot be written: {error.strerror}"
        output.note(f"{why}. The plan is complete in {error.kept}\n  mv {error.kept} DIR, where DIR can be written")
    except OSError as error:
        output.note(f"{args.output}: cannot be written: {error.strerror or error}")
    return BAD_INPUT


def _more_room(args: argparse.Namespace) -> str:
    """What else helps where disks are full: an option of this question."""
    if args.asked == RELIEF:
        return ", or free fewer bytes"
    closely = ", or plan in one process, which packs disks more closely" if args.engine == "spark" else ""
    return f", or set --max-bytes-per-broker{closely}"


def _run(args: argparse.Namespace) -> int:
    began = time.monotonic()
    keep_freed()
    args.asked = args.of if args.question == VERIFY else args.question
    if args.question == VERIFY:
        _refuse_foreign(args)
    if not hasattr(args, "engine") or not _takes_spark(args):  # Spark Connect needs pandas
        leave_pandas_out()
    if args.question == VERIFY:
        return _verify_read_back(args)
    if args.throttle is not None and args.throttle < 1:
        raise _OptionError(f"--throttle {args.throttle}: must be at least 1 byte per second")
    if args.png:
        can_draw()
    if (why := refuse_directory(args.output, overwrite=args.overwrite)) is not None:
        replaced = ", or replace the plan in it with --overwrite" if args.output.is_dir() and not args.overwrite else ""
        raise _OptionError(f"--output {args.output}: {why}\n  name another folder{replaced}")
    with working("reading the partitions") as args.step:
        summary, cost = _raise(args, began) if args.question == RAISE else _move(args, began)
    if args.form == "json":
        output.write(summary.to_json(), "json")
    else:
        output.put(figures(summary, cost, "added" if args.question == RAISE else "moved"))
    return OK


def _refuse_foreign(args: argparse.Namespace) -> None:
    """Options of `plan verify` that the question does not have, and those that it lacks."""
    given = {
        "--replication-factor": args.replication_factor is not None,
        "--broker": args.broker is not None,
        "--free": args.free is not None,
        "--topic-factor": bool(args.topic_factor),
        "--skip-lost": args.skip_lost,
        "--balance bytes": args.balance == "bytes",
    }
    has: dict[str, Sequence[str]] = {
        "--replication-factor": (RAISE,), "--broker": LEAVING, "--free": (RELIEF,), "--topic-factor": (RAISE,),
        "--skip-lost": LEAVING[:1], "--balance bytes": (RAISE, LOWER),
    }  # fmt: skip
    for option in ("--replication-factor", "--broker", "--free"):
        if args.asked in has[option] and not given[option]:
            raise _OptionError(f"--of {args.asked}: needs {option}, as the plan was made with it")
    if args.asked == LOWER and args.max_moves is None:
        raise _OptionError(f"--of {LOWER}: needs --max-moves, as the plan was made with it")
    strange = [option for option, questions in has.items() if given[option] and args.asked not in questions]
    if args.asked == RELIEF:
        limits = ("max_moves", "max_bytes", "max_moves_per_broker", "max_bytes_per_broker")
        strange += [f"--{name.replace('_', '-')}" for name in limits if getattr(args, name) is not None]
        names = ("spark_master", "spark_remote", "spark_conf", "format", "option", "where")
        strange += [f"--{name.replace('_', '-')}" for name in names if getattr(args, name)]
        strange += ["--engine spark"] if args.engine == "spark" else []
        strange += [f"--plan {args.plan}"] if isinstance(args.plan, str) else []
    if strange:
        raise _OptionError(f"{strange[0]}: is no option of {args.asked}; --of names the question")


def _verify_read_back(args: argparse.Namespace) -> int:
    asked = _wanted(args) if args.asked == RAISE else _question(args)
    brokers = read_brokers(_brokers_file(args), beside=args.brokers is None)
    if _takes_spark(args):
        found = verified_on_spark(args, brokers, asked, _allowed(args))
        if found.broken:
            output.put("".join(f"broken: {rule}\n" for rule in found.broken))
            return DEFECT
        _put_kept(args, found.rows, found.moves)
        return OK
    request: Problem | Relocation
    by_bytes = args.balance == "bytes"
    if isinstance(asked, Wanted):
        request = _problem(args, asked, brokers, by_bytes=by_bytes)
    else:
        request = _relocation(args, asked, brokers)
    table, waved = read_plan(args.plan, request.partitions)
    if not waved and is_order(table):
        return _verify_order(args, request, table)
    if not waved and args.plan.name == PREFERRED_ORDER:
        raise InputError(args.plan, None, "names replicas that do not exist yet: first carry out reassignment.json")
    check = MovesCheck(request, table) if isinstance(request, Relocation) else Check(request, table)
    if broken := verify_read_back(check, waved=waved):
        output.put("".join(f"broken: {rule}\n" for rule in broken))
        return DEFECT
    _put_kept(args, table.num_rows, int(check.come().sum()))
    return OK


def _put_kept(args: argparse.Namespace, partitions: int, moves: int) -> None:
    what = output.counted(partitions, "partition"), output.counted(moves, "new replica")
    output.put(f"{args.plan} keeps every rule: {', '.join(what)}\n")


def _verify_order(args: argparse.Namespace, request: Problem | Relocation, table: pa.Table) -> int:
    """Check what comes after a reassignment."""
    if broken := verify_order(request, table):
        output.put("".join(f"broken: {rule}\n" for rule in broken))
        return DEFECT
    get = "gets" if table.num_rows == 1 else "get"
    partitions = output.counted(table.num_rows, "partition")
    output.put(f"{args.plan} keeps every rule: {partitions} {get} another order of their replicas\n")
    return OK


def _wanted(args: argparse.Namespace) -> Wanted:
    return Wanted(args.replication_factor, tuple(map(_topic_factor, args.topic_factor)), tuple(args.exempt))


def _problem(
    args: argparse.Namespace, wanted: Wanted, brokers: tuple[Broker, ...], *, by_bytes: bool = False
) -> Problem:
    partitions = read_partitions(args.partitions)
    _note_read(partitions, brokers)
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
        done = on_spark(args, brokers, wanted, _allowed(args), ReportData.title, began)
        _note_left_out(done[0])
        _note_order(done[0])
        return done
    return _here(args, wanted, brokers, began)


def _relocation(args: argparse.Namespace, asked: Question, brokers: tuple[Broker, ...]) -> Relocation:
    partitions = read_partitions(args.partitions)
    _note_read(partitions, brokers)
    allowed = _allowed(args)
    _note_unmatched_topics("--exclude-topic", allowed.exclude_topics, _topics(partitions))
    return Relocation(partitions, brokers, asked, allowed)


def _move(args: argparse.Namespace, began: float) -> tuple[Summary, Estimate]:
    """Plan what moves replicas."""
    asked = _question(args)
    brokers = read_brokers(_brokers_file(args), beside=args.brokers is None)
    if _takes_spark(args):
        done = on_spark(args, brokers, asked, _allowed(args), MOVING[args.question], began)
        _note_left_out(done[0])
        output.note(FOR_PEOPLE)
        _note_order(done[0])
        return done
    relocation = _relocation(args, asked, brokers)
    args.step(f"planning {output.counted(relocation.partitions.num_rows, 'partition')}")
    plan = plan_relocation(relocation)
    _note_planned(args, plan, "move")
    _note_left_out(plan.summary)
    leaders = relocation.leaders_of_changed(plan)
    title, about = MOVING[args.question], about_plan(args.partitions)
    drawn = partial(report_data, relocation, plan, leaders, args.throttle, title, about)
    plan = checked_and_written(
        args.output, plan, partial(verify_moves, relocation, plan), drawn, began, png=args.png, overwrite=args.overwrite
    )
    output.note(f"wrote plan.parquet, reassignment.json, summary.json and report.html to {args.output}. {FOR_PEOPLE}")
    _note_order(plan.summary)
    return plan.summary, estimate(plan, leaders, args.throttle)


def _allowed(args: argparse.Namespace) -> Allowed:
    """The limits of the command line; the topics of a raise are exempt by its factors."""
    for name in ("max_moves", "max_bytes", "max_moves_per_broker", "max_bytes_per_broker"):
        limit = getattr(args, name, None)
        if limit is not None and limit < 1:
            raise _OptionError(f"--{name.replace('_', '-')} {limit}: must be at least 1")
        if limit is not None and limit > MOST:
            raise _OptionError(f"--{name.replace('_', '-')} {limit}: must be {MOST} at most")
    if both := set(args.exclude_broker) & set(args.only_gives):
        raise _OptionError(f"--only-gives {min(both)}: is also excluded; name it once")
    return Allowed(
        frozenset(args.exclude_broker),
        frozenset(args.only_gives),
        tuple(_excluded_topics(args)),
        *(() if args.asked == RELIEF else _limits(args)),
    )


def _excluded_topics(args: argparse.Namespace) -> Sequence[str]:
    """Those of a raise are exempt by its factors. `plan verify` has one option for both."""
    if args.asked == RAISE:
        return ()
    excluded: Sequence[str] = args.exempt if args.question == VERIFY else args.exclude_topic
    return excluded


def _limits(args: argparse.Namespace) -> tuple[int | None, ...]:
    moves = None if args.asked == LOWER else args.max_moves
    return moves, args.max_bytes, args.max_moves_per_broker, args.max_bytes_per_broker


def _question(args: argparse.Namespace) -> Question:
    if args.asked == RELIEF:
        return Relieve(tuple(map(_bytes_to_free, args.free)))
    if args.asked == "spread-racks":
        return SpreadRacks()
    if args.asked == LOWER:
        return LowerImbalance(args.max_moves, by_bytes=args.balance == "bytes")
    gone = args.asked == "replace-broker"
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
    args.step(f"planning {output.counted(problem.partitions.num_rows, 'partition')}")
    plan = plan_local(problem)
    _note_planned(args, plan, "new replica")
    _note_left_out(plan.summary)
    leaders = problem.leaders_of_changed(plan)
    about = about_plan(args.partitions)
    drawn = partial(report_data, problem, plan, leaders, args.throttle, about=about)
    plan = checked_and_written(
        args.output, plan, partial(verify, problem, plan), drawn, began, png=args.png, overwrite=args.overwrite
    )
    output.note(f"wrote plan.parquet, reassignment.json, summary.json and report.html to {args.output}")
    _note_order(plan.summary)
    return plan.summary, estimate(plan, leaders, args.throttle)


def _takes_spark(args: argparse.Namespace) -> bool:
    """Whether the plan is made on Spark. Raises _OptionError for what no other engine reads, SparkError for settings
    that are none."""
    if args.asked == RELIEF:
        if isinstance(args.partitions, str):
            raise _OptionError(f"--partitions {args.partitions}: {RELIEF} is not planned on Spark; give a file")
        return False
    spark_settings(args)
    only_spark = [
        option
        for option, given in (
            (f"--partitions {args.partitions}", isinstance(args.partitions, str)), ("--format", args.format),
            ("--option", args.option), ("--where", args.where), ("--plan-to", getattr(args, "plan_to", None)),
            ("--spark-master", args.spark_master), ("--spark-remote", args.spark_remote),
            (f"--plan {getattr(args, 'plan', '')}", isinstance(getattr(args, "plan", None), str)),
        )
        if given
    ]  # fmt: skip
    if only_spark and args.engine == "local":
        raise _OptionError(f"{only_spark[0]}: is for Spark alone: leave out --engine local")
    if args.asked == LOWER and args.balance == "bytes":
        if only_spark or args.engine == "spark":
            raise _OptionError(
                f"{only_spark[0] if only_spark else '--engine spark'}: --balance bytes lowers imbalance in one process "
                "alone; give a file and leave out --engine"
            )
        return False
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
    try:
        return names(compute.unique(partitions.column("topic").cast(pa.string())))
    except UnicodeDecodeError:
        return []  # the planner refuses the column


def _topic_factor(text: str) -> tuple[str, int]:
    pattern, _, number = text.rpartition("=")
    if not pattern or not number.isdecimal():
        raise _OptionError(f"--topic-factor {text}: must be PATTERN=N")
    return pattern, int(number)


def _bytes_to_free(text: str) -> tuple[int, int]:
    """(broker, bytes)."""
    found = re.fullmatch(r"([0-9]{1,10})=([0-9]{1,18})", text)
    if found is None:
        raise _OptionError(f"--free {text[:60]}: must be N=BYTES, for example 7=500000000000")
    return int(found[1]), int(found[2])


def _note_read(partitions: pa.Table, brokers: Sequence[Broker]) -> None:
    what = output.counted(partitions.num_rows, "partition"), output.counted(len(brokers), "broker")
    output.note(f"read {' and '.join(what)}")


def _note_planned(args: argparse.Namespace, plan: Plan, what: str) -> None:
    moves, waves = output.counted(plan.summary.moves, what), output.counted(plan.summary.waves, "wave")
    output.note(f"planned {moves} in {waves}; checking")
    args.step(f"checking and writing {moves}")


def _note_order(summary: Summary) -> None:
    """The second file, without which preferred leaders stay as they are."""
    if summary.reordered and not summary.order_file:
        output.note("the preferred leaders of the summary are those of the plan's column preferredOrder")
    elif summary.reordered:
        output.note(
            f"reassignment.json keeps the preferred leaders. Carry out {PREFERRED_ORDER} after it, in the same way, "
            "then run kafka-leader-election.sh --election-type preferred"
        )


def _note_left_out(summary: Summary) -> None:
    """Partitions that stay as they are though the question concerns them."""
    for why, count in summary.left_out.items():
        if count:
            output.note(f"left out: {output.counted(count, 'partition')}; each {why.sentence}")


def _note_unmatched(wanted: Wanted, topics: Sequence[str]) -> None:
    _note_unmatched_topics("--topic-factor", [pattern for pattern, _ in wanted.factors], topics)
    _note_unmatched_topics("--exempt", wanted.exempt, topics)


def _note_unmatched_topics(option: str, patterns: Sequence[str], topics: Sequence[str]) -> None:
    for pattern in patterns:
        if not any(fnmatchcase(topic, pattern) for topic in topics):
            output.note(f"{option} {pattern}: matches no topic")
