"""Figures as people read them. Bytes are decimal, as in throttles and in the operator's own messages."""

from __future__ import annotations

from datetime import UTC, datetime

from kafka_medic.resources.durations import format_bytes

__all__ = ["UNKNOWN", "bytes_text", "count", "duration", "many", "milliseconds", "moment", "rate"]

UNKNOWN = "unknown"
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def count(number: int | None) -> str:
    """1,234,567."""
    return UNKNOWN if number is None else f"{number:,}"


def many(number: int, one: str, more: str = "") -> str:
    """`1 wave`, `2 waves`."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def bytes_text(amount: int | None) -> str:
    """1.5 GB."""
    return UNKNOWN if amount is None else format_bytes(amount)


def rate(per_second: float | None) -> str:
    """1.5 GB/s."""
    return UNKNOWN if per_second is None else f"{format_bytes(round(per_second))}/s"


def duration(seconds: float | None) -> str:
    """The two largest units: `2 h 5 min`. Below ten seconds with a digit after the point."""
    if seconds is None:
        return UNKNOWN
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if round(seconds, 1) < 10 and seconds != int(seconds):
        return f"{seconds:.1f} s"
    rest, parts = round(seconds), list[str]()
    for at, (unit, size) in enumerate(_UNITS):
        if rest >= size:
            parts.append(f"{rest // size} {unit}")
            if at + 1 < len(_UNITS) and (below := rest % size // _UNITS[at + 1][1]):
                parts.append(f"{below} {_UNITS[at + 1][0]}")
            break
    return " ".join(parts) or "0 s"


def milliseconds(amount: int | None) -> str:
    """`340 ms`, `2.1 s`."""
    if amount is None:
        return UNKNOWN
    return f"{amount:,} ms" if amount < 1000 else duration(amount / 1000)


def moment(at: datetime | None) -> str:
    """2026-01-31 08:00:00 UTC."""
    return UNKNOWN if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
