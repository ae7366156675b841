"""The entry point of `kafka-medic`."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from kafka_medic.cli import exits, output
from kafka_medic.cli.exits import NoAnswerError, RefusedError, UnusableInputError

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
    root = _Parser(
        prog="kubectl kafka-medic" if plugin else "kafka-medic",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    subparsers = root.add_subparsers(dest="command", required=True, metavar="SUBCOMMAND")
    for name, add in _SUBCOMMANDS.items():
        if only in (None, name):
            add(subparsers)
    if plugin and only is None:
        from kafka_medic.cli.remediation import arguments  # noqa: PLC0415

        arguments.add_commands(subparsers)
    return root


def plugin() -> int:
    """`kubectl kafka-medic`: kubectl runs the program kubectl-kafka_medic."""
    return main(as_plugin=True)


def main(argv: Sequence[str] | None = None, *, as_plugin: bool = False) -> int:
    """Runs the command; returns its exit code. Bad input ends in one message, never in a traceback."""
    words = list(sys.argv[1:] if argv is None else argv)
    only = words[0] if words and words[0] in _SUBCOMMANDS else None
    try:
        args = parser(plugin=as_plugin, only=only).parse_args(words)
    except SystemExit as end:  # argparse's way of --help and of usage errors
        code = end.code if isinstance(end.code, int) else exits.OK
        named = [word for word in words if not word.startswith("-")]
        # `plan` has codes of its own, and answers every input that cannot be used alike.
        return exits.UNUSABLE_PLAN if code == exits.UNUSABLE_INPUT and named[:1] == ["plan"] else code
    try:
        code = args.run(args)
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
    import shtab  # noqa: PLC0415

    output.put(shtab.complete(parser(), args.shell) + "\n")
    return exits.OK


# Each is imported where it is wanted: numpy, pydantic and the clients' libraries take a while to load.
def _snapshot(subparsers: Any) -> None:
    from kafka_medic.cli import snapshot  # noqa: PLC0415

    snapshot.add_parser(subparsers)


def _diagnose(subparsers: Any) -> None:
    from kafka_medic.cli import diagnose  # noqa: PLC0415

    diagnose.add_parser(subparsers)


def _check(subparsers: Any) -> None:
    from kafka_medic.cli import check  # noqa: PLC0415

    check.add_parser(subparsers)


def _plan(subparsers: Any) -> None:
    from kafka_medic.cli import plan  # noqa: PLC0415

    plan.add_parser(subparsers)


def _fleet(subparsers: Any) -> None:
    from kafka_medic.cli import fleet  # noqa: PLC0415

    fleet.add_parser(subparsers)


def _offsets(subparsers: Any) -> None:
    from kafka_medic.cli.offsets import arguments  # noqa: PLC0415

    arguments.add_parser(subparsers)


def _remediation(subparsers: Any) -> None:
    from kafka_medic.cli.remediation import arguments  # noqa: PLC0415

    arguments.add_group(subparsers)


def _completion(subparsers: Any) -> None:
    import shtab  # noqa: PLC0415

    completion = subparsers.add_parser(
        "completion",
        help="print a shell's completion script",
        description="Print the completion script of a shell, such as `source <(kafka-medic completion bash)`.",
    )
    completion.add_argument("shell", choices=shtab.SUPPORTED_SHELLS, help="the shell")
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
    "remediation": _remediation,
    "completion": _completion,
    "version": _versions,
}


if __name__ == "__main__":
    sys.exit(main())
