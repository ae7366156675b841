"""The options of `kafka-medic remediation`. Nothing here needs a library that takes long to load."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from kafka_medic.cli import output
from kafka_medic.cli.command_line import Parser
from kafka_medic.cli.remediation import report_arguments
from kafka_medic.cli.remediation.names import completer

_EXAMPLES = """\
examples:
  kubectl kafka-medic status -A --watch
  kubectl kafka-medic list -A
  kubectl kafka-medic show RUN -n kafka
  kubectl kafka-medic approve RUN -n kafka --watch
  kubectl kafka-medic approve RUN -n kafka --yes --digest sha256:...     # in a script: only this plan
  kubectl kafka-medic run raise-replication-factor --cluster orders -n kafka --set throttleBytesPerSecond=20000000
  kubectl kafka-medic pause orders --reason "until Monday" -n kafka
  kubectl kafka-medic history RUN -n kafka -o json > audit.json
  kubectl kafka-medic history --broker 2 --cluster orders -n kafka       # every restart of it, and how long it was down

`kafka-medic remediation ...` is the same. Every command acts as you: your kubeconfig, your rights.
"""


def _run(args: argparse.Namespace) -> int:
    # Imported here: the Kubernetes client takes a while to load, and --help does not need it.
    from kafka_medic.cli.remediation.command import run  # noqa: PLC0415

    return run(args)


def add_group(subparsers: Any) -> None:
    """`remediation` with all its commands below it."""
    parser = subparsers.add_parser(
        "remediation",
        help="read, approve, stop and follow runs in Kubernetes",
        description="Read, approve, stop and follow runs in Kubernetes, as yourself.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="action", required=True, metavar="COMMAND")
    add_commands(commands)
    report_arguments.add_parser(commands)


def add_status(subparsers: Any) -> None:
    """What one command shows of everything."""
    status = _command(subparsers, "status", "findings, runs that wait, and runs in progress", forms=LISTED)
    _cluster(status, nargs="?", what="this KafkaCluster alone")
    status.add_argument("-A", "--all-namespaces", action="store_true", help="in every namespace")
    _watch(status, "redraw at each change")


def add_commands(subparsers: Any) -> None:
    """The commands themselves, wherever they stand."""
    if "status" not in subparsers.choices:
        add_status(subparsers)
    listed = _command(subparsers, "list", "the runs, waiting runs first", forms=LISTED)
    listed.add_argument("-A", "--all-namespaces", action="store_true", help="in every namespace")
    _cluster(listed, "--cluster", what="of this KafkaCluster alone")
    _watch(listed, "print a line for each change")
    shown = _of_run(subparsers, "show", "one run: its plan with before and after, guards, who may approve")
    _watch(shown, "a line for each change until it has ended")
    different = _of_run(subparsers, "diff", "what its plan changes, as a diff")
    different.add_argument(
        "--plan-file",
        metavar="FILE",
        help="a copy of the file that a long plan names",
    )
    for name, what in (
        ("approve", "approve exactly the plan shown"),
        ("reject", "reject a plan"),
        ("abort", "stop a run: cancel what is in flight and remove the throttle"),
    ):
        decided = _of_run(subparsers, name, what)
        decided.add_argument("--reason", default="", type=_reason, help="why, for the record")
        decided.add_argument("--digest", metavar="SHA256:...", help="refuse if the plan has another digest")
        _yes(decided)
        _watch(decided, "follow it afterwards until it has ended")
    run = _command(subparsers, "run", "request a run of a playbook")
    _completed(
        run.add_argument("playbook", metavar="PLAYBOOK", help="the Playbook's name"), "playbooks", namespaced=False
    )
    _cluster(run, "--cluster", required=True)
    _example(run, "run raise-replication-factor --cluster orders")
    run.add_argument(
        "--set", type=_parameter, action="append", metavar="NAME=VALUE", help="a parameter of the playbook (repeat it)"
    )
    _yes(run)
    _watch(run, "follow it afterwards until it has ended")
    paused = _command(subparsers, "pause", "hold every run of a KafkaCluster")
    _cluster(paused)
    _example(paused, 'pause orders --reason "until Monday, ask Anna"')
    paused.add_argument("--reason", required=True, type=_reason, help="why, and until when, for the next person")
    resumed = _command(subparsers, "resume", "resume the runs of a KafkaCluster; if the breaker is open, allow one try")
    _cluster(resumed)
    _yes(resumed)
    _of_run(subparsers, "explain", "why a run waits, and what would change it")
    past = _command(subparsers, "history", "who decided and did what, in order; -o json exports it")
    which = past.add_mutually_exclusive_group(required=True)
    _completed(which.add_argument("name", metavar="RUN", nargs="?", help="the Remediation's name"), "remediations")
    which.add_argument("--broker", type=_broker, metavar="ID", help="instead: each restart of it, or of 'all'")
    _cluster(past, "--cluster", what="with --broker: of this KafkaCluster alone")
    past.add_argument("-A", "--all-namespaces", action="store_true", help="with --broker: of every namespace")


LISTED = ("table", "wide", "name", "json", "yaml")
"""The forms of a list, as kubectl has them."""


def _command(
    subparsers: Any, name: str, what: str, *, formats: bool = True, forms: Sequence[str] = output.FORMATS
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name, help=what, description=f"{what[:1].upper()}{what[1:]}."
    )
    parser.set_defaults(
        run=_run, remediation=name, all_namespaces=False, watch=False, yes=False, reason="", digest=None, cluster=None
    )
    parser.add_argument("-n", "--namespace", help="default: the context's")
    parser.add_argument("--context", help="a context of the kubeconfig; default: the current one")
    parser.add_argument("--kubeconfig", metavar="FILE", help="default: KUBECONFIG, else ~/.kube/config")
    if formats:
        parser.add_argument("-o", "--output", choices=forms, default="table", help="default: table")
    return parser


def _of_run(subparsers: Any, name: str, what: str, *, formats: bool = True) -> argparse.ArgumentParser:
    parser = _command(subparsers, name, what, formats=formats)
    _completed(parser.add_argument("name", metavar="RUN", help="the Remediation's name"), "remediations")
    return parser


def _cluster(parser: argparse.ArgumentParser, name: str = "cluster", what: str = "", **more: Any) -> None:
    action = parser.add_argument(name, metavar="KAFKACLUSTER", help=what or "the KafkaCluster's name", **more)
    _completed(action, "kafkaclusters")


def _completed(action: argparse.Action, plural: str, *, namespaced: bool = True) -> None:
    """Where argcomplete looks for names."""
    action.completer = completer(plural, namespaced=namespaced)  # type: ignore[attr-defined]


def _example(parser: argparse.ArgumentParser, words: str) -> None:
    assert isinstance(parser, Parser)
    parser.example = f"{parser.prog.rpartition(' ')[0]} {words}"


def _watch(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("-w", "--watch", action="store_true", help=what)


def _yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask; required without a terminal")


def _reason(text: str) -> str:
    if len(text) > 1024:
        raise argparse.ArgumentTypeError("is too long (limit 1024 characters)")
    return text


def _broker(text: str) -> str:
    if text != "all" and not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a broker's number nor 'all'")
    return text


def _parameter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value
