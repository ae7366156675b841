"""Writing answers: a table for people, JSON and YAML for tools."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from kafka_medic.cluster.names import printable

if TYPE_CHECKING:
    from kafka_medic.cluster.snapshot import Snapshot

_OBEYED = re.compile("[\\x7f-\\x9f\\u2028-\\u202e\\u2066-\\u2069]")
FORMATS = ("table", "json", "yaml")
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "grey": "90", "bold": "1"}
_OF_WORD = {
    "Critical": "red", "Warning": "yellow", "Info": "grey", "Firing": "bold", "Pending": "grey",
    "Allow": "green", "Deny": "red", "Wait": "yellow", "Unknown": "yellow", "Known": "green",
}  # fmt: skip


def write(document: Any, form: str) -> None:
    """A document as JSON or YAML on standard output."""
    if form == "yaml":
        import yaml  # noqa: PLC0415 - takes its time to load, and few ask for it

        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)
    else:
        text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        # JSON lets DEL, the control characters above it and the like stand as they are; a terminal may obey them.
        text = _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    put(text)


def put(text: str) -> None:
    """Text on standard output. A reader that has seen enough (`| head`) is no error."""
    try:
        # What a cluster calls its topics may be no valid text; that must not end in a traceback here.
        sys.stdout.write(text.encode("utf-8", "backslashreplace").decode("utf-8"))
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would complain once more when it closes the stream at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(text: str) -> None:
    """A remark that is not part of the answer; a way out stands on a line of its own."""
    told = "\n".join(printable(line) for line in text.split("\n"))
    print(f"kafka-medic: {told}", file=sys.stderr)


def note_unknown(snapshot: Snapshot) -> None:
    """An answer from a snapshot with gaps says so: no finding about what was not seen means nothing."""
    for source in snapshot.sources:
        if not source.known:
            note(f"{source.name} is not known: {source.error or 'no reason given'}")


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    """Coloured on a terminal only, and not with NO_COLOR (https://no-color.org)."""
    out = stream or sys.stdout
    if not out.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\033[{_COLOURS[colour]}m{text}\033[0m"


def word(text: str, width: int = 0) -> str:
    """A word of the vocabulary in its colour, padded before it is painted."""
    colour = _OF_WORD.get(text)
    return paint(text.ljust(width), colour) if colour else text.ljust(width)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; the last one is not padded. Cells are shown, not obeyed."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in (header, *rows)) for i in range(len(header))]
    lines = [paint("  ".join(h.ljust(w) for h, w in zip(header, widths, strict=True)).rstrip(), "bold")]
    for row in rows:
        cells = [word(cell, width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"
