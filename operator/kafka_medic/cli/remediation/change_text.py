"""A change of a plan as text."""

from __future__ import annotations

from kafka_medic.cluster.names import printable
from kafka_medic.playbook.change import Change


def as_diff(change: Change) -> list[str]:
    """Lines as diff writes them, with nothing in them that a terminal obeys."""
    note = f"  ({change.note})" if change.note else ""
    lines = [f"  {change.what}{note}"]
    if change.before is not None:
        lines.append(f"- {change.before}")
    if change.after is not None:
        lines.append(f"+ {change.after}")
    return [printable(line) for line in lines]


def as_line(change: Change) -> str:
    """The same in one line."""
    arrow = f": {change.before or 'not set'} -> {change.after}" if change.after is not None else ""
    return printable(f"{change.what}{arrow}" + (f" ({change.note})" if change.note else ""))
