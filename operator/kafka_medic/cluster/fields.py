"""Reading single values out of a document that nobody has checked yet: each failure names the path of the bad key."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

T = TypeVar("T")


class SnapshotDocumentError(ValueError):
    """The document is not a Snapshot; `path` names the first bad key."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC with milliseconds, as Kubernetes' MicroTime readers accept."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_timestamp(text: str) -> datetime:
    """Raises ValueError for anything but RFC 3339 with a zone."""
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone; write it like 2026-01-31T12:00:00Z")
    return moment.astimezone(UTC)


def mapping(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SnapshotDocumentError(path, f"must be an object, not {type(value).__name__}")
    return value


def required(holder: Mapping[str, Any], key: str, path: str) -> Any:
    if key not in holder:
        raise SnapshotDocumentError(f"{path}.{key}".lstrip("."), "is missing")
    return holder[key]


def optional(holder: Mapping[str, Any], key: str, path: str, kind: type[T]) -> T | None:
    value = holder.get(key)
    if value is None:
        return None
    # bool is an int in Python; a document that says true where a number belongs is wrong, not 1.
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise SnapshotDocumentError(f"{path}.{key}", f"must be {kind.__name__} or null, not {value!r}")
    return value


def number(holder: Mapping[str, Any], key: str, path: str) -> float | None:
    value = holder.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise SnapshotDocumentError(f"{path}.{key}", f"must be a number >= 0 or null, not {value!r}")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise SnapshotDocumentError(f"{path}.{key}", "is not a finite number; write null for unknown")
    return found


def moment(value: Any, path: str) -> datetime:
    try:
        return parse_timestamp(value)
    except (AttributeError, OverflowError, TypeError, ValueError) as problem:
        raise SnapshotDocumentError(
            path, f"must be an RFC 3339 time such as 2026-01-31T12:00:00Z: {problem}"
        ) from problem


def list_of(value: Any, path: str, read: Callable[[Any, str], T]) -> tuple[T, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise SnapshotDocumentError(path, f"must be a list, not {type(value).__name__}")
    return tuple(read(item, f"{path}[{i}]") for i, item in enumerate(value))


def whole(value: Any, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise SnapshotDocumentError(path, f"must be a whole number, not {value!r}")
    return value
