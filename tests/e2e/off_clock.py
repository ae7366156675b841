"""Runs a module of the operator's while the operator's wall clock is off.

Usage: python -m tests.e2e.off_clock SECONDS MODULE [ARGUMENT ...]

Only what the product itself asks for the time is changed: a library that fakes the clock below Python breaks
librdkafka's own waiting, and another datetime for all breaks extension modules.
"""

from __future__ import annotations

import datetime
import runpy
import sys
import time
from typing import Any

from kafka_medic.controller import __main__ as controller

REAL, PRODUCT = time.time, controller.__name__.partition(".")[0]


class _AnyDatetime(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, datetime.datetime)


class OffDatetime(datetime.datetime, metaclass=_AnyDatetime):
    seconds = 0.0

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return datetime.datetime.now(tz) + datetime.timedelta(seconds=cls.seconds)


if __name__ == "__main__":
    OffDatetime.seconds = float(sys.argv[1])
    time.time = lambda: REAL() + OffDatetime.seconds
    for name, module in list(sys.modules.items()):
        if name.startswith(PRODUCT) and getattr(module, "datetime", None) is datetime.datetime:
            module.datetime = OffDatetime  # type: ignore[attr-defined]
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
