"""`kafka-medic check`: may this be done now? The guards' answer, from a saved snapshot."""

from __future__ import annotations

import argparse
from typing import Any

from kafka_medic.cli import exits, output
from kafka_medic.cli.documents import check_fits, read_cluster, read_snapshot
from kafka_medic.cluster.snapshot import Snapshot, TopicPartition
from kafka_medic.guard.context import RestartContext
from kafka_medic.guard.elect import judge_elect
from kafka_medic.guard.evaluate import GuardFaultError
from kafka_medic.guard.reset_offsets import judge_reset_offsets, offsets_beyond_log_end
from kafka_medic.guard.restart import judge_restart
from kafka_medic.guard.run import judge_run
from kafka_medic.guard.verdict import Judgement, Reason, Verdict, judge
from kafka_medic.resources.vocabulary import Guard

_CODES = "Exit code: 0 Allow, 1 Deny, 2 Wait, 3 Unknown (unknown is never a yes), 4 input that cannot be used."
_EXAMPLES = f"""\
examples:
  kafka-medic check restart --broker 1 --snapshot now.json
  kafka-medic check restart --broker 1 --then 0 --then 2 --snapshot now.json -o json
  kafka-medic check elect --snapshot now.json
  kafka-medic check reset-offsets --group billing --to orders:0:21 --snapshot now.json

A saved snapshot is judged as of the moment it was taken. {_CODES}
"""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "check",
        help="ask the guards whether something may be done now",
        description="Ask every guard whether something may be done now, and get every reason.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    restart = _action(actions, "restart", "restart one broker")
    restart.add_argument("--broker", type=int, required=True, metavar="ID", help="the broker to restart")
    restart.add_argument(
        "--then", type=int, action="append", default=[], metavar="ID",
        help="a broker that is to be restarted after this one (repeat it): the active controller comes last",
    )  # fmt: skip
    restart.add_argument(
        "--cures", type=int, action="append", default=[], metavar="ID",
        help="a broker whose stale view the restarts are there to cure (repeat it)",
    )  # fmt: skip
    restart.add_argument(
        "--outside-kubernetes", action="store_true",
        help="the brokers do not run as Pods, so there is no Pod or node to look at",
    )  # fmt: skip
    restart.set_defaults(judge=_restart)
    elect = _action(actions, "elect", "elect preferred leaders")
    elect.add_argument(
        "--partition", type=_partition, action="append", metavar="TOPIC:N",
        help="a partition to elect (repeat it); default: all that another broker leads",
    )  # fmt: skip
    elect.set_defaults(judge=_elect)
    reset = _action(actions, "reset-offsets", "set a group's committed offsets")
    reset.add_argument("--group", required=True, help="the consumer group")
    reset.add_argument(
        "--to", type=_offset, action="append", metavar="TOPIC:N:OFFSET",
        help="a partition's new offset (repeat it); default: the log end wherever the group is beyond it",
    )  # fmt: skip
    reset.set_defaults(judge=_reset)


def run(args: argparse.Namespace) -> int:
    snapshot = read_snapshot(args.snapshot)
    own_rules: tuple[Reason, ...] = ()
    if args.cluster:
        cluster = read_cluster(args.cluster)
        check_fits(cluster, snapshot, args.cluster)
        # Leases and other remediations are Kubernetes' to tell; what the resource itself says is checked.
        guards = {Guard.NOT_PAUSED, Guard.WITHIN_WINDOW}
        rules = judge_run(cluster.spec.remediation, (), None, snapshot.taken_at, starting=False)
        own_rules = tuple(r for r in rules if r.guard in guards)
    try:
        judgement: Judgement = args.judge(snapshot, args)
        judgement = judge((*judgement.reasons, *own_rules))
    except GuardFaultError as fault:
        output.note(str(fault))
        judgement = judge([Reason(fault.guard, Verdict.UNKNOWN, str(fault))])
    # Refusals first, the worst of them before the others: that is what decides.
    worst = (Verdict.DENY, Verdict.UNKNOWN, Verdict.WAIT, Verdict.ALLOW)
    reasons = sorted(judgement.reasons, key=lambda r: worst.index(r.verdict))
    if args.output == "table":
        rows = [(r.verdict.value, r.guard.value, r.message) for r in reasons]
        table = output.table(("VERDICT", "GUARD", "REASON"), rows)
        output.put(f"{args.action}: {output.word(judgement.verdict.value)}\n\n{table}")
    else:
        documents = [{"guard": r.guard.value, "message": r.message, "verdict": r.verdict.value} for r in reasons]
        output.write({"verdict": judgement.verdict.value, "reasons": documents}, args.output)
    return exits.OF_VERDICT[judgement.verdict]


def _action(actions: Any, name: str, what: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name,
        help=f"may one {what}?",
        description=f"May one {what} now?",
        epilog=_CODES,
    )
    parser.add_argument("--snapshot", required=True, metavar="FILE", help="a saved snapshot; - is standard input")
    parser.add_argument("--cluster", metavar="FILE", help="a KafkaCluster: its pause and its windows count as well")
    parser.add_argument("-o", "--output", choices=output.FORMATS, default="table", help="default: table")
    return parser


def _restart(snapshot: Snapshot, args: argparse.Namespace) -> Judgement:
    context = RestartContext(
        remaining=frozenset(args.then),
        cures=frozenset(args.cures),
        outside_kubernetes=args.outside_kubernetes,
    )
    return judge_restart(snapshot, args.broker, snapshot.taken_at, context=context)


def _elect(snapshot: Snapshot, args: argparse.Namespace) -> Judgement:
    return judge_elect(snapshot, snapshot.taken_at, args.partition)


def _reset(snapshot: Snapshot, args: argparse.Namespace) -> Judgement:
    targets = dict(args.to) if args.to else offsets_beyond_log_end(snapshot, args.group)
    return judge_reset_offsets(snapshot, args.group, targets, snapshot.taken_at)


def _partition(text: str) -> TopicPartition:
    topic, colon, number = text.rpartition(":")
    if not colon or not topic or not number.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not TOPIC:N, such as orders:0")
    return TopicPartition(topic, int(number))


def _offset(text: str) -> tuple[TopicPartition, int]:
    partition, colon, offset = text.rpartition(":")
    if not colon or not offset.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not TOPIC:N:OFFSET, such as orders:0:21")
    return _partition(partition), int(offset)
