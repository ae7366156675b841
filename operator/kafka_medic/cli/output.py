"""Writing answers: a table for people, JSON and YAML for tools."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from kafka_medic.cluster.names import printable

if TYPE_CHECKING:
    from kafka_medic.cluster.snapshot import Snapshot

_OBEYED = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff]")
"""Control characters, marks that turn the direction of writing, and breaks of lines that are no line feed."""
_COLOUR = re.compile("\\x1b\\[([0-9]{1,2}(?:;[0-9]{1,2})*)m")
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

        # YAML lets the marks that turn the direction of writing stand as they are.
        plain = not _OBEYED.search(json.dumps(document, ensure_ascii=False))
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=plain, width=110)
    else:
        text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        # JSON lets DEL, the control characters above it and the like stand as they are; a terminal may obey them.
        text = _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    put(text)


def put(text: str) -> None:
    """Text on standard output. A reader that has seen enough (`| head`) is no error."""
    try:
        sys.stdout.write(disarmed(text))
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would complain once more when it closes the stream at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def disarmed(text: str) -> str:
    """Whatever is written passes here: what a terminal obeys is escaped, but for the colours of `paint`. What a cluster
    calls its topics may be no valid text either."""
    ours = {*_COLOURS.values(), "0"}
    parts, end = [], 0
    for found in _COLOUR.finditer(text):
        if ours.issuperset(found[1].split(";")):
            parts += [_escaped(text[end : found.start()]), found[0]]
            end = found.end()
    parts.append(_escaped(text[end:]))
    return "".join(parts).encode("utf-8", "backslashreplace").decode("utf-8")


def _escaped(text: str) -> str:
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def put_stderr(text: str) -> None:
    """Text on standard error, as it is: a question, or a progress."""
    print(disarmed(text), end="", file=sys.stderr, flush=True)


def note(text: str) -> None:
    """A remark that is not part of the answer; a way out stands on a line of its own."""
    lines = "\n".join(printable(line) for line in text.split("\n"))
    put_stderr(f"kafka-medic: {lines}\n")


def note_unknown(snapshot: Snapshot) -> None:
    """An answer from a snapshot with gaps says so: no finding about what was not seen means nothing."""
    for source in snapshot.sources:
        if not source.known:
            note(f"{source.name} is not known: {source.error or 'no reason given'}")


def coloured(stream: TextIO) -> bool:
    """Whether it is a terminal that people want colours on (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    """Coloured where `coloured`."""
    if not coloured(stream or sys.stdout):
        return text
    return f"\033[{_COLOURS[colour]}m{text}\033[0m"


def word(text: str, width: int = 0) -> str:
    """A word of the vocabulary in its colour, padded before it is painted."""
    colour = _OF_WORD.get(text)
    return paint(text.ljust(width), colour) if colour else text.ljust(width)


def counted(number: int, one: str) -> str:
    """`1 wave`, `1,234 waves`."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], optional: Sequence[str] = ()) -> str:
    """Columns as wide as their widest cell; the last one is not padded. Cells are shown, not obeyed. `optional`: what
    is left out, in this order, as long as the table is wider than the terminal."""
    rows = [[printable(cell) for cell in row] for row in rows]
    kept = _fitting(header, rows, optional)
    header, rows = [header[i] for i in kept], [[row[i] for i in kept] for row in rows]
    widths = [max(len(line[i]) for line in (header, *rows)) for i in range(len(header))]
    lines = [paint("  ".join(h.ljust(w) for h, w in zip(header, widths, strict=True)).rstrip(), "bold")]
    for row in rows:
        cells = [word(cell, width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def _fitting(header: Sequence[str], rows: Sequence[Sequence[str]], optional: Sequence[str]) -> list[int]:
    kept = list(range(len(header)))
    room = columns(sys.stdout) if optional else None
    if room is None:
        return kept
    widths = [max(len(line[i]) for line in (header, *rows)) + 2 for i in kept]
    for name in optional:
        if sum(widths[i] for i in kept) - 2 > room and name in header:
            kept.remove(header.index(name))
    return kept


def folded(text: str, indent: int) -> list[str]:
    """The text in lines that fit the terminal, where each is indented by so much. What is no terminal folds nothing."""
    room = columns(sys.stdout)
    if room is None or len(text) + indent <= room:
        return [text]
    kept = text[: len(text) - len(text.lstrip(" "))]
    lines = textwrap.wrap(text, max(room - indent, 20), break_long_words=False, break_on_hyphens=False)
    return [f"{kept}{lines[0]}", *lines[1:]] if lines else [text]


def columns(stream: TextIO) -> int | None:
    """The width of the terminal; None where the stream is none."""
    return shutil.get_terminal_size().columns if stream.isatty() else None
