"""The options of `kafka-medic offsets`. Nothing here needs a library that takes long to load."""

from __future__ import annotations

import argparse
from typing import Any

from kafka_medic.cli import output
from kafka_medic.cli.connecting_arguments import add_options

_EXAMPLES = """\
examples:
  kafka-medic offsets show --bootstrap-servers kafka:9092 --group 'billing-.*'
  kafka-medic offsets backup --bootstrap-servers kafka:9092 --group billing > before.json
  kafka-medic offsets plan --bootstrap-servers kafka:9092
  kafka-medic offsets plan --bootstrap-servers kafka:9092 --group billing --to to-datetime:2026-01-31T12:00:00Z
  kafka-medic offsets plan --bootstrap-servers kafka:9092 --group billing --execute --backup before.json
  kafka-medic offsets restore --bootstrap-servers kafka:9092 --from before.json --execute --backup undo.json

Only --execute sets offsets, and only if every guard allows every group; the current offsets are first written to
--backup first.
"""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "offsets",
        help="read and set the committed offsets of consumer groups",
        description="Read the committed offsets of consumer groups, plan better ones, and set them with a way back.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    shown = _action(actions, "show", "committed offsets, with log start and log end")
    _chosen(shown)
    kept = _action(actions, "backup", "save the committed offsets of groups, for `restore`", ("json", "yaml"))
    _chosen(kept)
    planned = _action(actions, "plan", "plan new committed offsets: what they skip and read again")
    _chosen(planned)
    planned.add_argument(
        "--to", default="to-last-known-good", metavar="WHERE",
        help="to-last-known-good (default), to-earliest, to-latest, to-current, to-offset:N, shift-by:N, "
        "to-datetime:2026-01-31T12:00:00Z, by-duration:1h; all but the first need --group",
    )  # fmt: skip
    _executed(planned)
    back = _action(actions, "restore", "set committed offsets from a file")
    back.add_argument(
        "--from", dest="file", required=True, metavar="FILE",
        help="what `backup` wrote, or the Remediation that set them (kubectl get -o yaml), restored exactly; or CSV as "
        "Kafka's own tool exports it; - is standard input",
    )  # fmt: skip
    back.add_argument("--group", metavar="NAME", help="the group of a CSV file of topic,partition,offset")
    _executed(back)


def _action(actions: Any, name: str, what: str, formats: tuple[str, ...] = output.FORMATS) -> argparse.ArgumentParser:
    description = f"{what[0].upper()}{what[1:]}."
    parser: argparse.ArgumentParser = actions.add_parser(name, help=what, description=description)
    add_options(parser)
    parser.add_argument("-o", "--output", choices=formats, default=formats[0], help=f"default: {formats[0]}")
    return parser


def _chosen(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--group", metavar="PATTERN", help="a regular expression over whole group names")
    parser.add_argument("--exclude-group", metavar="PATTERN", help="groups that are left out though they match")
    parser.add_argument("--topic", metavar="PATTERN", help="a regular expression over whole topic names")


def _executed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--execute", action="store_true", help="set them, if every guard allows it; needs --backup")
    parser.add_argument("--backup", metavar="FILE", help="a new file for what was committed, written first")
