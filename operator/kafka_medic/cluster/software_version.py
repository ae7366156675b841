"""Versions of Apache Kafka and of client libraries as they are told, and what may be concluded from them.

What is told is often less than a release: `3.9` (from the requests that a broker knows) is any of 3.9.0, 3.9.1 and so
on. And it may be somebody else's: a vendor numbers its builds as it likes, so a suffix makes a version unknown.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

_RELEASE = re.compile(r"\d{1,6}(?:\.\d{1,6}){1,3}", re.ASCII)
_PROTOCOL = re.compile(r"(\d{1,6}\.\d{1,6}(?:\.\d{1,6}){0,2})(?:-IV\d{1,4})?", re.ASCII)
_WITHIN = re.compile(r"(?:^|[^0-9A-Za-z])(?:lib)?rdkafka-v?(\d{1,6}(?:\.\d{1,6}){1,3})(?:$|-)", re.ASCII)
_LENGTH = 4
_END = 2**31


@dataclass(frozen=True, slots=True)
class Version:
    """The releases from `first` to `last`, which are one and the same when the version was told in full."""

    first: tuple[int, ...]
    last: tuple[int, ...]


@functools.lru_cache(maxsize=1024)
def parse_version(text: str | None) -> Version | None:
    """None for what is no version of the project's own, such as `7.5.0-ccs`. Apache's have three numbers, and four up
    to 0.11: with fewer the rest is open."""
    if text is None or not _RELEASE.fullmatch(text):
        return None
    numbers = tuple(int(n) for n in text.split("."))
    whole = 4 if numbers[0] == 0 else 3
    missing = _LENGTH - len(numbers)
    last = (*numbers, *[_END] * missing) if len(numbers) < whole else (*numbers, *[0] * missing)
    return Version((*numbers, *[0] * missing), last)


def parse_protocol(text: str | None) -> Version | None:
    """Of `inter.broker.protocol.version`, such as `2.6` or `2.6-IV0`; it has no patch releases."""
    found = _PROTOCOL.fullmatch(text or "")
    version = parse_version(found.group(1)) if found else None
    return Version(version.first, version.first) if version else None


def librdkafka_version(name: str, version: str) -> Version | None:
    """Of librdkafka itself or within the libraries around it, which call themselves e.g. `2.16.1-rdkafka-2.16.0`."""
    if name == "librdkafka":
        return parse_version(version.removeprefix("v"))
    found = _WITHIN.search(version)
    return parse_version(found.group(1)) if found else None


def within(version: Version, start: Version | None, before: Version | None) -> bool | None:
    """Whether a version lies in [start, before); None when some of the releases that it may be do and others do not."""
    low = start.first if start else ()
    high = before.first if before else (_END,)
    if version.last < low or version.first >= high:
        return False
    return True if version.first >= low and version.last < high else None
