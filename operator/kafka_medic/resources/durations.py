"""Durations as people write them in the resources: `15s`, `5m`, `1h30m`.

The grammar is the part of Go's `time.ParseDuration` (https://pkg.go.dev/time#ParseDuration) that CEL's
`duration()` also reads, so that the API server and this code agree on every value: whole numbers, units
from large to small, each at most once. Days are left out because CEL has none.
"""

from __future__ import annotations

import re
from functools import lru_cache

from .errors import Problem, ResourceError

DURATION_PATTERN = r"^([0-9]{1,4}h)?([0-9]{1,5}m)?([0-9]{1,6}s)?([0-9]{1,6}ms)?$"
"""RE2 and Python both read it. It lets the empty string through, which a minLength of 2 refuses."""
DURATION_MAX_LENGTH = 28

_PARTS = re.compile(r"(?:(?P<h>[0-9]{1,4})h)?(?:(?P<m>[0-9]{1,5})m)?(?:(?P<s>[0-9]{1,6})s)?(?:(?P<ms>[0-9]{1,6})ms)?")
NOT_A_DURATION = ("is not a duration", "write whole numbers with h, m, s or ms, such as 15s, 5m or 1h30m")
"""The problem of such a field, and the way out."""
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


@lru_cache(1024)  # the same few, again in every reconcile
def parse_duration(text: str, *, minimum: float = 0.0, maximum: float = 36_000_000.0, path: str = "") -> float:
    """The number of seconds that `text` stands for; a ResourceError naming `path` when it stands for none.

    The default maximum is what four digits of hours can say, so that no sum of units passes it unseen.
    """
    match = _PARTS.fullmatch(text) if len(text) <= DURATION_MAX_LENGTH else None
    if match is None or not text:
        raise _refused(path, *NOT_A_DURATION)
    seconds = sum(int(digits) * _SECONDS[unit] for unit, digits in match.groupdict(default="0").items())
    if not minimum <= seconds <= maximum:
        wanted = f"write a duration from {format_duration(minimum)} to {format_duration(maximum)}"
        raise _refused(path, "is out of bounds", wanted)
    return seconds


def format_duration(seconds: float) -> str:
    """`seconds` as the resources write it, to the millisecond: 5400.0 -> `1h30m`, 0 -> `0s`."""
    rest = round(seconds * 1000)
    if rest < 0:
        raise _refused("", "is negative", "a duration starts at 0s")
    parts = []
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def format_bytes(count: int) -> str:
    """In the unit of which there is at least one, of a thousand each: 1500 -> `1.5 kB`."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def _refused(path: str, message: str, way_out: str) -> ResourceError:
    return ResourceError("Duration", "", (Problem(path, message, way_out),))
