"""Completions for shells and for kubectl, by argcomplete, with the names that the API server has."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shlex
from collections.abc import Sequence

import argcomplete
from argcomplete.completers import SuppressCompleter
from argcomplete.finders import CompletionFinder
from argcomplete.shell_integration import shellcode

from kafka_medic.cli import exits, output

NO_FILES = ":4"
"""kubectl reads completions as cobra writes them, with a last line of what else may be completed: here, no files."""


def script(shell: str) -> str:
    """What the shell has to evaluate."""
    return shellcode(["kafka-medic"], use_defaults=True, shell=shell)  # nosec B604 - the name of a shell, nothing is run


def answer_shell(parser: argparse.ArgumentParser) -> None:
    """Writes the completions where the shell's script reads them, and ends the process."""
    argcomplete.autocomplete(parser)


def answer_kubectl(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    """The last of the words is the one to complete; empty where none has begun."""
    *before, last = words or [""]
    line = " ".join(["kafka-medic", *map(shlex.quote, before), last])
    os.environ |= {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_DFS": "\t",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    found = io.StringIO()
    with contextlib.suppress(_EndedError):
        CompletionFinder()(
            parser,
            always_complete_options="long",
            exit_method=_ended,
            output_stream=found,
            append_space=False,
            default_completer=SuppressCompleter(),
        )
    # Of each: the word, a tab, and what it means.
    lines = [line.rstrip("\t") for line in found.getvalue().split("\n") if line]
    output.put("".join(f"{line}\n" for line in (*lines, NO_FILES)))
    return exits.OK


class _EndedError(Exception):
    """argcomplete is done."""


def _ended(_: int = 0) -> None:
    raise _EndedError
