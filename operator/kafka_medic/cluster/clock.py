"""How far the clock of another machine is ahead of the operator's, and what a time of that clock is by the operator's.

The API server dates each of its answers in whole seconds (RFC 9110, section 6.6.1). It did so between the request and
the answer, which the operator dates itself. So the difference lies in an interval, as wide as the round trip and one
second.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

RESOLUTION = 1.0
"""Seconds of a `Date`, and of an object's creationTimestamp: what is left of the second is cut off."""
BOUND = 5.0
"""Seconds of difference that are not reported: measured, they change no decision."""


@dataclass(frozen=True, slots=True)
class Skew:
    """The other clock is ahead by at least `least` seconds and at most `most`; negative where it is behind."""

    least: float
    most: float

    @property
    def about(self) -> float:
        return (self.least + self.most) / 2

    @property
    def width(self) -> float:
        return self.most - self.least

    def agrees(self, other: Skew) -> bool:
        """Whether both may be true."""
        return self.least <= other.most and other.least <= self.most

    @property
    def certain(self) -> float:
        """The seconds by which the clocks differ at the very least."""
        return max(self.least, -self.most, 0.0)

    def latest(self, theirs: datetime) -> datetime:
        """By the operator's clock the latest that a time of the other clock, cut to whole seconds, may have been."""
        return theirs + timedelta(seconds=RESOLUTION - self.least)


EXACT = Skew(0.0, 0.0)
"""One and the same clock."""


def measured(date: str | None, sent: datetime, answered: datetime) -> Skew | None:
    """From the `Date` of an answer; None without one that can be read. `sent` and `answered`: by the operator's
    clock."""
    try:
        date_ = parsedate_to_datetime(date or "")
    except ValueError:
        return None
    if date_.tzinfo is None or answered < sent:
        return None
    return Skew((date_ - answered).total_seconds(), (date_ - sent).total_seconds() + RESOLUTION)


def remark(skew: Skew | None) -> str | None:
    """The sentence that reports the difference to the API server's clock; None within BOUND."""
    if skew is None or skew.certain <= BOUND:
        return None
    way = "behind" if skew.about > 0 else "ahead of"
    about = BOUND * round(abs(skew.about) / BOUND)  # so that it stays the same from one measurement to the next
    return (
        f"the operator's clock is about {about:.0f} s {way} the API server's (limit {BOUND:g} s); "
        "synchronise the clocks of the operator's node and the control plane"
    )
