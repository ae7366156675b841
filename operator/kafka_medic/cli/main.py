"""The entry point of `kafka-medic`."""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from kafka_medic.cli import exits, output
from kafka_medic.cli.command_line import Parser
from kafka_medic.cli.exits import NoAnswerError, RefusedError, UnusableInputError

_DESCRIPTION = "Diagnose a Kafka cluster, check whether a cure is safe, and decide on cures."
_EXAMPLES = """\
examples:
  kafka-medic snapshot --bootstrap-servers kafka:9092 -o json > now.json
  kafka-medic diagnose --snapshot now.json
  kafka-medic check restart --broker 1 --outside-kubernetes --snapshot now.json
  kafka-medic offsets plan --bootstrap-servers kafka:9092
  kafka-medic status -A                      # of clusters that an operator watches, and of its runs
  kafka-medic SUBCOMMAND --help

As a kubectl plugin the same command is `kubectl kafka-medic`, which takes the commands of `remediation` directly:
`kubectl kafka-medic approve RUN -n kafka`.
"""


class _Version(argparse.Action):
    """argparse's own wants to know it beforehand, and looking it up takes as long as the rest of a command's start."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        output.put(_version() + "\n")
        parser.exit()


@functools.cache
def parser(*, plugin: bool = False, only: str | None = None) -> argparse.ArgumentParser:
    """The command line, of the kubectl plugin with the commands of `remediation` at the top as well.

    only: the subcommand that is wanted; without it all are there. Most load libraries that the others do not need.
    """
    root = Parser(
        prog="kubectl kafka-medic" if plugin else "kafka-medic",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    subparsers = root.add_subparsers(dest="command", required=True, metavar="SUBCOMMAND")
    for name, add in _SUBCOMMANDS.items():
        if only in (None, name) and (name not in _RUNS or has_arrow()):
            add(subparsers)
    if plugin and only is None:
        from kafka_medic.cli.remediation import arguments  # noqa: PLC0415

        arguments.add_commands(subparsers)
        subparsers.metavar = "COMMAND"
    return root


@functools.cache
def has_arrow() -> bool:
    """Whether this is more than the one-file plugin, which reads no Kafka and no snapshots."""
    return find_spec("pyarrow") is not None


def plugin() -> int:
    """`kubectl kafka-medic`: kubectl runs the program kubectl-kafka_medic."""
    return main(as_plugin=True)


def main(argv: Sequence[str] | None = None, *, as_plugin: bool = False) -> int:
    """Runs the command; returns its exit code. Bad input ends in one message, never in a traceback."""
    if "_ARGCOMPLETE" in os.environ:  # a shell asks for completions; see `completion`
        from kafka_medic.cli import completion  # noqa: PLC0415

        completion.answer_shell(parser(plugin=as_plugin))
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in _RUNS and not has_arrow():
        way_out = f"pip install kafka-medic, then: kafka-medic {words[0]}"
        output.note(f"{words[0]} is not part of the one-file plugin\n  {way_out}")
        return exits.UNUSABLE_INPUT
    only = words[0] if words and words[0] in _SUBCOMMANDS else None
    try:
        args = parser(plugin=as_plugin, only=only).parse_args(words)
    except SystemExit as end:  # argparse's way of --help and of usage errors
        return end.code if isinstance(end.code, int) else exits.OK
    try:
        code = (getattr(args, "run", None) or _RUNS[args.command])(args)
    except UnusableInputError as problem:
        output.note(str(problem))
        return exits.UNUSABLE_INPUT
    except RefusedError as problem:
        output.note(str(problem))
        return exits.REFUSED
    except NoAnswerError as problem:
        output.note(str(problem))
        return exits.NO_ANSWER
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    return int(code)


def complete_plugin() -> int:
    """`kubectl_complete-kafka_medic`: kubectl runs it for completions of `kubectl kafka-medic`."""
    from kafka_medic.cli import completion  # noqa: PLC0415

    return completion.answer_kubectl(parser(plugin=True), sys.argv[1:])


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        return f"kafka-medic {version('kafka-medic')}"
    except PackageNotFoundError:
        return "kafka-medic (not installed)"


def _print_version(_: argparse.Namespace) -> int:
    output.put(_version() + "\n")
    return exits.OK


def _print_completion(args: argparse.Namespace) -> int:
    from kafka_medic.cli import completion  # noqa: PLC0415

    output.put(completion.script(args.shell) + "\n")
    return exits.OK


# Each is imported where it is wanted: numpy, pydantic and the clients' libraries take a while to load.
def _snapshot(subparsers: Any) -> None:
    from kafka_medic.cli import snapshot_arguments  # noqa: PLC0415

    snapshot_arguments.add_parser(subparsers)


def _diagnose(subparsers: Any) -> None:
    from kafka_medic.cli import diagnose_arguments  # noqa: PLC0415

    diagnose_arguments.add_parser(subparsers)


def _check(subparsers: Any) -> None:
    from kafka_medic.cli import check_arguments  # noqa: PLC0415

    check_arguments.add_parser(subparsers)


def _plan(subparsers: Any) -> None:
    from kafka_medic.cli import plan_arguments  # noqa: PLC0415

    plan_arguments.add_parser(subparsers)


def _fleet(subparsers: Any) -> None:
    from kafka_medic.cli import fleet_arguments  # noqa: PLC0415

    fleet_arguments.add_parser(subparsers)


def _run_snapshot(args: argparse.Namespace) -> int:
    from kafka_medic.cli.snapshot import run  # noqa: PLC0415

    return run(args)


def _run_diagnose(args: argparse.Namespace) -> int:
    from kafka_medic.cli.diagnose import run  # noqa: PLC0415

    return run(args)


def _run_check(args: argparse.Namespace) -> int:
    from kafka_medic.cli.check import run  # noqa: PLC0415

    return run(args)


def _run_plan(args: argparse.Namespace) -> int:
    from kafka_medic.cli.plan import run  # noqa: PLC0415

    return run(args)


def _run_fleet(args: argparse.Namespace) -> int:
    from kafka_medic.cli.fleet import run  # noqa: PLC0415

    return run(args)


def _run_offsets(args: argparse.Namespace) -> int:
    from kafka_medic.cli.offsets.command import run  # noqa: PLC0415

    return run(args)


def _offsets(subparsers: Any) -> None:
    from kafka_medic.cli.offsets import arguments  # noqa: PLC0415

    arguments.add_parser(subparsers)


def _remediation(subparsers: Any) -> None:
    from kafka_medic.cli.remediation import arguments  # noqa: PLC0415

    arguments.add_group(subparsers)


def _report(subparsers: Any) -> None:
    from kafka_medic.cli.remediation import report_arguments  # noqa: PLC0415

    report_arguments.add_parser(subparsers)


def _status(subparsers: Any) -> None:
    from kafka_medic.cli.remediation import arguments  # noqa: PLC0415

    arguments.add_status(subparsers)


def _completion(subparsers: Any) -> None:
    completion = subparsers.add_parser(
        "completion",
        help="print a shell's completion script",
        description="Print the completion script of a shell, as in `source <(kafka-medic completion bash)`. kubectl "
        "completes its plugin by itself, where kubectl_complete-kafka_medic is on the PATH.",
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")
    completion.set_defaults(run=_print_completion)


def _versions(subparsers: Any) -> None:
    parser = subparsers.add_parser("version", help="print the version", description="Print the version.")
    parser.set_defaults(run=_print_version)


_SUBCOMMANDS: dict[str, Callable[[Any], None]] = {
    "snapshot": _snapshot,
    "diagnose": _diagnose,
    "check": _check,
    "plan": _plan,
    "fleet": _fleet,
    "offsets": _offsets,
    "status": _status,
    "remediation": _remediation,
    "report": _report,
    "completion": _completion,
    "version": _versions,
}
_RUNS: dict[str, Callable[[argparse.Namespace], int]] = {
    "snapshot": _run_snapshot,
    "diagnose": _run_diagnose,
    "check": _run_check,
    "plan": _run_plan,
    "fleet": _run_fleet,
    "offsets": _run_offsets,
}
"""Of the subcommands that need Arrow or a Kafka client, which take a while to load."""


if __name__ == "__main__":
    sys.exit(main())
