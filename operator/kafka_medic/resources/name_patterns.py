"""The regular expressions that people write over names of topics and groups. They are read by RE2.

RE2 needs time in proportion to the text, whatever the pattern (Cox, Regular Expression Matching Can Be Simple And Fast,
2007). Python's own needs exponential time for some, and holds up all threads meanwhile. The API server reads `matches`
in schemas by RE2 too, so what a schema accepts can be read here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_OPEN = re.compile(r"\{,[0-9]*\}")


def refused(pattern: str) -> str | None:
    """Why RE2 does not read it; None when it does, alone and as a pattern over the whole name."""
    if _OPEN.search(pattern):
        return "a repetition without its least number is read as text: write {0,3} for {,3}"
    try:
        # Imported here: it takes a while to load, and the kubectl plugin, which has no Arrow, applies no pattern.
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.compute as pc  # noqa: PLC0415
    except ImportError:
        return None
    for text in (pattern, _whole(pattern)):
        try:
            pc.match_substring_regex(pa.array([""]), text)
        except pa.ArrowInvalid as problem:
            return str(problem).removeprefix("Invalid regular expression: ")
    return None


def matching(pattern: str, names: Sequence[str]) -> list[bool]:
    """Of each name, whether the pattern matches all of it. Raises ValueError for what RE2 does not read."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    try:
        found: Any = pc.match_substring_regex(pa.array(names, pa.string()), _whole(pattern))
    except pa.ArrowInvalid as problem:
        raise ValueError(str(problem)) from None
    selected: list[bool] = found.to_pylist()
    return selected


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Names that any of `include` matches (all, where there is none) and none of `exclude`."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def of(self, names: Iterable[str]) -> list[str]:
        """All names at once: each pattern is read once for them."""
        left = list(names)
        if self.include:
            left = _any(self.include, left, wanted=True)
        return _any(self.exclude, left, wanted=False) if self.exclude else left

    def __call__(self, name: str) -> bool:
        return bool(self.of([name]))


def among(wanted: Callable[[str], bool], names: Iterable[str]) -> list[str]:
    """Those names that are `wanted`."""
    return wanted.of(names) if isinstance(wanted, NameFilter) else [name for name in names if wanted(name)]


def _any(patterns: Sequence[str], names: list[str], *, wanted: bool) -> list[str]:
    hits = [False] * len(names)
    for pattern in patterns:
        hits = [a or b for a, b in zip(hits, matching(pattern, names), strict=True)]
    return [name for name, hit in zip(names, hits, strict=True) if hit is wanted]


def _whole(pattern: str) -> str:
    return rf"(?s)\A(?:{pattern})\z"
