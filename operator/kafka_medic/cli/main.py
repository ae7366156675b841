"""The entry point of `kafka-medic`."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn

import shtab

from kafka_medic.cli import check, diagnose, exits, output, plan, snapshot
from kafka_medic.cli.exits import NotToldError, RefusedError, UnusableInputError
from kafka_medic.cli.offsets import arguments as offsets
from kafka_medic.cli.remediation import arguments as remediation

_DESCRIPTION = "Name what is wrong with a Kafka cluster, ask whether a cure may be applied, and decide on cures."
_EXAMPLES = """\
examples:
  kafka-medic snapshot --bootstrap-servers kafka:9092 -o json > now.json
  kafka-medic diagnose --snapshot now.json
  kafka-medic check restart --broker 1 --snapshot now.json
  kafka-medic offsets plan --bootstrap-servers kafka:9092
  kafka-medic remediation list -A
  kafka-medic SUBCOMMAND --help

As a kubectl plugin the same command is `kubectl kafka-medic`, which takes the commands of `remediation` directly:
`kubectl kafka-medic approve RUN`.
"""


class _Parser(argparse.ArgumentParser):
    """argparse exits with 2 on bad usage, which for `check` means Wait."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(exits.UNUSABLE_INPUT, f"{self.prog}: {message}\n")


@functools.cache
def parser(*, plugin: bool = False) -> argparse.ArgumentParser:
    """The whole command line; of the kubectl plugin, with the commands of `remediation` at the top as well."""
    root = _Parser(
        prog="kubectl kafka-medic" if plugin else "kafka-medic",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root.add_argument("--version", action="version", version=_version())
    subparsers = root.add_subparsers(dest="command", required=True, metavar="SUBCOMMAND")
    snapshot.add_parser(subparsers)
    diagnose.add_parser(subparsers)
    check.add_parser(subparsers)
    plan.add_parser(subparsers)
    offsets.add_parser(subparsers)
    remediation.add_group(subparsers)
    if plugin:
        remediation.add_commands(subparsers)
    completion = subparsers.add_parser(
        "completion",
        help="print a shell's completion script",
        description="Print the completion script of a shell, such as `source <(kafka-medic completion bash)`.",
    )
    completion.add_argument("shell", choices=shtab.SUPPORTED_SHELLS, help="the shell")
    subparsers.add_parser("version", help="print the version", description="Print the version.")
    return root


def plugin() -> int:
    """`kubectl kafka-medic`: kubectl runs the program kubectl-kafka_medic."""
    return main(as_plugin=True)


def main(argv: Sequence[str] | None = None, *, as_plugin: bool = False) -> int:
    """Runs the command; returns its exit code. Bad input ends in one message, never in a traceback."""
    try:
        args = parser(plugin=as_plugin).parse_args(argv)
    except SystemExit as end:  # argparse's way of --help and of usage errors
        code = end.code if isinstance(end.code, int) else exits.OK
        words = [w for w in (sys.argv[1:] if argv is None else argv) if not w.startswith("-")]
        # `plan` has codes of its own, and answers every input that cannot be used alike.
        return plan.BAD_INPUT if code == exits.UNUSABLE_INPUT and words[:1] == ["plan"] else code
    try:
        return _COMMANDS.get(args.command, _remediation)(args)
    except UnusableInputError as problem:
        output.note(str(problem))
        return exits.UNUSABLE_INPUT
    except RefusedError as problem:
        output.note(str(problem))
        return exits.REFUSED
    except NotToldError as problem:
        output.note(str(problem))
        return exits.NOT_TOLD
    except KeyboardInterrupt:
        return exits.INTERRUPTED


def _version() -> str:
    try:
        return f"kafka-medic {version('kafka-medic')}"
    except PackageNotFoundError:
        return "kafka-medic (not installed)"


def _print_version(_: argparse.Namespace) -> int:
    output.put(_version() + "\n")
    return exits.OK


def _print_completion(args: argparse.Namespace) -> int:
    output.put(shtab.complete(parser(), args.shell) + "\n")
    return exits.OK


def _offsets(args: argparse.Namespace) -> int:
    # Imported here: the clients' libraries take a while to load.
    from kafka_medic.cli.offsets.command import run  # noqa: PLC0415

    return run(args)


def _remediation(args: argparse.Namespace) -> int:
    # Imported here: the Kubernetes client takes a while to load, and no other subcommand needs it.
    from kafka_medic.cli.remediation.command import run  # noqa: PLC0415

    return run(args)


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "snapshot": snapshot.run,
    "diagnose": diagnose.run,
    "check": check.run,
    "plan": plan.run,
    "offsets": _offsets,
    "completion": _print_completion,
    "version": _print_version,
}


if __name__ == "__main__":
    sys.exit(main())
