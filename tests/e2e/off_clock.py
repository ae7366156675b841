"""Runs a module whose wall clock is off. A library that replaces it below Python breaks librdkafka's own waiting.

Usage: python -m tests.e2e.off_clock SECONDS MODULE [ARGUMENT ...]
"""

from __future__ import annotations

import datetime
import runpy
import sys
import time
from typing import Any

REAL = time.time


class OffDatetime(datetime.datetime):
    seconds = 0.0

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return super().now(tz) + datetime.timedelta(seconds=cls.seconds)


if __name__ == "__main__":
    OffDatetime.seconds = float(sys.argv[1])
    datetime.datetime = OffDatetime  # type: ignore[misc]
    time.time = lambda: REAL() + OffDatetime.seconds
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
