"""The options of `kafka-medic check`. Nothing here needs a library that takes long to load."""

from __future__ import annotations

import argparse
from typing import Any

from kafka_medic.cli import output

_EXAMPLES = """\
examples:
  kafka-medic check restart --broker 1 --outside-kubernetes --snapshot now.json
  kafka-medic check restart --broker 1 --then 0 --then 2 --outside-kubernetes --snapshot now.json -o json
  kafka-medic check elect --snapshot now.json
  kafka-medic check reset-offsets --group billing --to orders:0:21 --snapshot now.json

A saved snapshot is judged as of the moment it was taken.
"""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "check",
        help="check whether the guards allow a change now",
        description="Evaluate every guard for a change now, and show every reason.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    restart = _action(actions, "restart", "restart one broker")
    restart.add_argument("--broker", type=int, required=True, metavar="ID", help="the broker to restart")
    restart.add_argument(
        "--then", type=int, action="append", default=[], metavar="ID",
        help="a broker to restart after this one (repeat it): the active controller restarts last",
    )  # fmt: skip
    restart.add_argument(
        "--cures", type=int, action="append", default=[], metavar="ID",
        help="a broker whose stale view the restarts cure (repeat it)",
    )  # fmt: skip
    restart.add_argument(
        "--outside-kubernetes", action="store_true",
        help="the brokers do not run as Pods, or you check Pods, nodes and rollouts yourself: `snapshot` reads none",
    )  # fmt: skip
    elect = _action(actions, "elect", "elect preferred leaders")
    elect.add_argument(
        "--partition", type=_partition, action="append", metavar="TOPIC:N",
        help="a partition to elect (repeat it); default: all not led by the preferred replica",
    )  # fmt: skip
    reset = _action(actions, "reset-offsets", "set a group's committed offsets")
    reset.add_argument("--group", required=True, help="the consumer group")
    reset.add_argument(
        "--to", type=_offset, action="append", metavar="TOPIC:N:OFFSET",
        help="a partition's new offset (repeat it); default: the log end where the group is beyond it",
    )  # fmt: skip


def _action(actions: Any, name: str, what: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name,
        help=f"may one {what}?",
        description=f"May one {what} now?",
    )
    parser.add_argument("--snapshot", required=True, metavar="FILE", help="a saved snapshot; - is standard input")
    parser.add_argument("--cluster", metavar="FILE", help="a KafkaCluster: its pause and its windows apply too")
    parser.add_argument("-o", "--output", choices=output.FORMATS, default="table", help="default: table")
    return parser


def _partition(text: str) -> tuple[str, int]:
    topic, colon, number = text.rpartition(":")
    if not colon or not topic or not number.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not TOPIC:N, such as orders:0")
    return topic, int(number)


def _offset(text: str) -> tuple[tuple[str, int], int]:
    partition, colon, offset = text.rpartition(":")
    if not colon or not offset.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not TOPIC:N:OFFSET, such as orders:0:21")
    return _partition(partition), int(offset)
