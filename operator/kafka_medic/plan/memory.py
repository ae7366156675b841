"""What glibc does with arrays that are freed."""

from __future__ import annotations

import contextlib
import ctypes

__all__ = ["keep_freed"]

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""The names that glibc's `mallopt` has for them."""
LARGEST = 1 << 25
"""Bytes up to which glibc lets a block be kept."""
NEVER = (1 << 31) - 1


def keep_freed() -> None:
    """Keep arrays of megabytes that are freed for the next ones. The kernel clears each page that it takes back and
    gives anew, which takes a sixth of the time of a large plan. Elsewhere than under glibc nothing changes."""
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(MMAP_THRESHOLD, LARGEST)
        libc.mallopt(TRIM_THRESHOLD, NEVER)
