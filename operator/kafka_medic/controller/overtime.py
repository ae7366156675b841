"""Computing that takes too long is cut off.

What a decision costs follows from what a Kafka cluster reports, and from what somebody wrote into a Remediation. Pure
Python in one thread slows all others down, and cannot be waited for with a timeout. So a watch ends it from outside, by
an exception that Python raises in that thread between two of its instructions. Only for pure code: nothing is half done
when it ends, since it does nothing.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import TypeVar

EVERY_SECONDS = 0.25
LONG_SECONDS = 10.0
LONG_AT_ONCE = 2
"""Of the computations that have taken LONG_SECONDS, only so many continue: those that began last are cut off. Each
slows all other threads down."""
T = TypeVar("T")


class Overtime(Exception):
    """`what` took more than `seconds` of processor time, or too long beside others that do."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} exceeded its processor time (limit {seconds:g} s) and was stopped")


class _Late(BaseException):
    """Raised in the thread that is late. No `except Exception` on the way takes it for a fault of a guard."""


class _Watch:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due: dict[int, tuple[float, float]] = {}
        """By thread, oldest first: its processor time at the beginning, and at which it is late."""
        self._thread: threading.Thread | None = None

    def begin(self, seconds: float) -> None:
        me = threading.get_ident()
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._loop, name="overtime", daemon=True)
                self._thread.start()
            now = time.thread_time()
            self._due[me] = now, now + seconds

    def end(self) -> None:
        me = threading.get_ident()
        with self._lock:
            if self._due.pop(me, None) is None:
                _raise_in(me, None)  # it was late, and may not have heard of it yet

    def _loop(self) -> None:
        while True:
            time.sleep(EVERY_SECONDS)
            with self._lock:
                long = 0
                for thread, (began, limit) in list(self._due.items()):
                    now = time.clock_gettime(time.pthread_getcpuclockid(thread))
                    long += now - began > LONG_SECONDS
                    if now > limit or (now - began > LONG_SECONDS and long > LONG_AT_ONCE):
                        del self._due[thread]
                        _raise_in(thread, _Late)


def _raise_in(thread: int, what: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(what) if what else None)


_WATCH = _Watch()


def within(seconds: float, what: str, compute: Callable[[], T]) -> T:
    """What `compute` answers. Raises Overtime once it has used so many seconds of processor time. It has to be pure.
    What it calls of libraries in C is not interrupted, and counts."""
    try:
        _WATCH.begin(seconds)
        try:
            return compute()
        finally:
            _WATCH.end()
    except _Late:
        raise Overtime(what, seconds) from None
