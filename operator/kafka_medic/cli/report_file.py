"""A page in a file. What is overwritten is at most an earlier page."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from kafka_medic.cli import output
from kafka_medic.cli.exits import UnusableInputError
from kafka_medic.report.units import bytes_text

__all__ = ["write_page"]

OURS = b'<meta name="generator" content="kafka-medic">'
HEAD = 4096


def write_page(path: Path, page: str) -> None:
    """The whole page or nothing; `-` is standard output. Raises UnusableInputError."""
    if str(path) == "-":
        sys.stdout.write(page)
        return
    try:
        if path.exists() and not _is_page(path):
            raise UnusableInputError(str(path), "exists and is no report of kafka-medic", "choose another --output")
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".", delete=False) as file:
            file.write(page)
        made = Path(file.name)
        made.chmod(0o666 & ~_umask())
        made.replace(path)
    except OSError as problem:
        why = problem.strerror or str(problem)
        raise UnusableInputError(str(path), f"cannot be written: {why}", "choose another --output") from None
    output.note(f"wrote {path} ({bytes_text(len(page.encode()))})")


def _is_page(path: Path) -> bool:
    with path.open("rb") as file:
        return OURS in file.read(HEAD)


def _umask() -> int:
    """It can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
