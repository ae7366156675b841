"""argparse, with suggestions for what is misspelt, one set of exit codes, and an example where one helps."""

from __future__ import annotations

import argparse
import difflib
import sys
from typing import Any, NoReturn

from kafka_medic.cli import exits
from kafka_medic.cli.output import put_stderr
from kafka_medic.cluster.names import shown


class _UnknownCommandError(argparse.ArgumentError):
    """A word that is no subcommand."""


class Parser(argparse.ArgumentParser):
    """argparse exits with 2 on wrong usage, which is Wait here."""

    example: str = ""
    """A whole command line that would be right, for who left something out."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        example = f"  for example: {self.example}\n" if self.example else ""
        self._end(f"{message}\n{example}")

    def _end(self, message: str) -> NoReturn:
        put_stderr(f"{self.prog}: {message}")
        self.exit(exits.UNUSABLE_INPUT)

    def format_help(self) -> str:
        return f"{super().format_help()}\n{exits.EPILOG}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        words = [str(choice) for choice in action.choices]
        near = difflib.get_close_matches(str(value), words, 3)
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        if isinstance(action, argparse._SubParsersAction):
            listed = "" if near else f"; the commands are {', '.join(words)}"
            self._end(
                f"command {shown(str(value))!r} does not exist{meant}{listed}\n  `{self.prog} --help` lists all\n"
            )
        raise argparse.ArgumentError(action, f"{shown(str(value))!r} is not one of {', '.join(words)}{meant}")
