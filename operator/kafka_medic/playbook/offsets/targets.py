"""Where a committed offset would go, and why: in the words of Kafka's own kafka-consumer-groups, and one that heals.

`to-last-known-good` only concerns offsets that a log does not have, or had and lost. Of those that a shorter log put in
doubt it is where the commit's own leader epoch ends, as a consumer itself would find out (KIP-320), or else the log end
at the regression: the group had read everything below, and nothing that was written since.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from kafka_medic.cluster.document import timestamp
from kafka_medic.cluster.groups import Committed
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.diagnose.log_ends import MAX_GROUPS
from kafka_medic.report.units import many
from kafka_medic.resources.durations import parse_duration
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.kafkacluster_status import LogEndRegressionStatus
from kafka_medic.resources.scalars import MAX_INT64


class How(StrEnum):
    """What decides the new offset."""

    LAST_KNOWN_GOOD = "to-last-known-good"
    EARLIEST = "to-earliest"
    LATEST = "to-latest"
    CURRENT = "to-current"
    OFFSET = "to-offset"
    SHIFT_BY = "shift-by"
    DATETIME = "to-datetime"
    DURATION = "by-duration"


_ISO_DURATION = re.compile(r"P(?:(\d{1,5})D)?(?:T(?:(\d{1,4})H)?(?:(\d{1,5})M)?(?:(\d{1,6})S)?)?")
WAY_OUT = (
    "write one of to-last-known-good, to-earliest, to-latest, to-current, to-offset:N, shift-by:N, "
    "to-datetime:2026-01-31T12:00:00Z, by-duration:1h"
)


@dataclass(frozen=True, slots=True)
class Aim:
    """`number` goes with to-offset and shift-by, `moment` with to-datetime, `seconds` with by-duration."""

    how: How
    number: int | None = None
    moment: datetime | None = None
    seconds: float | None = None

    def since(self, now: datetime) -> int | None:
        """The time, in milliseconds since 1970, from which on records are wanted; None where no time decides."""
        if self.moment is not None:
            return int(self.moment.timestamp() * 1000)
        return None if self.seconds is None else int((now.timestamp() - self.seconds) * 1000)


def read_aim(text: str) -> Aim:
    """From `shift-by:-10` and the like. Raises ValueError, with the way out after a semicolon."""
    word, _, value = text.strip().partition(":")
    value = value.strip()
    try:
        how = How(word)
    except ValueError:
        raise ValueError(f"{text[:60]!r} is not an offset; {WAY_OUT}") from None
    match how:
        case How.OFFSET | How.SHIFT_BY:
            if not re.fullmatch(r"[+-]?\d{1,19}" if how is How.SHIFT_BY else r"\d{1,19}", value):
                raise ValueError(f"{how} needs a whole number; write {how}:10")
            if abs(int(value)) > MAX_INT64:
                raise ValueError(f"{how} is no offset of Kafka's; write a smaller number")
            return Aim(how, number=int(value))
        case How.DATETIME:
            return Aim(how, moment=_moment(value))
        case How.DURATION:
            return Aim(how, seconds=_seconds(value))
    if value:
        raise ValueError(f"{how} takes nothing after it; write {how} alone")
    return Aim(how)


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.year < 1971 or found.year > 9998:
        raise ValueError("to-datetime needs a date and a time; write to-datetime:2026-01-31T12:00:00Z")
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _seconds(text: str) -> float:
    """`1h30m` as the resources have it, or `PT1H30M` as Kafka's tool has it."""
    iso = _ISO_DURATION.fullmatch(text)
    if iso is not None and any(iso.groups()):
        days, hours, minutes, seconds = (int(part or 0) for part in iso.groups())
        return days * 86400.0 + hours * 3600.0 + minutes * 60.0 + seconds
    try:
        return parse_duration(text)
    except ResourceError:
        raise ValueError("by-duration needs a duration; write by-duration:1h30m") from None


@dataclass(frozen=True, slots=True)
class Spot:
    """One committed offset of a group, with the log that it lies in."""

    group: str
    state: str | None
    tp: TopicPartition
    committed: Committed
    log_start: int
    log_end: int
    leader_epoch: int | None = None
    topic_id: str | None = None
    regression: LogEndRegressionStatus | None = None
    leader: int | None = None
    epoch_end: int | None = None
    """Where the commit's own leader epoch ends in the log of whoever leads now; None where that was not told."""
    recreated: datetime | None = None
    """When the topic was seen to be another one of the same name; None where that was not seen."""

    @property
    def beyond(self) -> bool:
        return self.committed.offset > self.log_end

    @property
    def asked_epoch(self) -> int | None:
        """The commit's leader epoch, if there is a leader that can be asked about it."""
        return self.committed.leader_epoch if self.leader is not None and self.leader >= 0 else None


@dataclass(frozen=True, slots=True)
class Target:
    """The offset and what decided it. `skipped`, `read_again`: offsets that can be read, at most so many of them."""

    offset: int
    reason: str
    skipped: int
    read_again: int


def target(aim: Aim, spot: Spot, at: int | None = None) -> Target | None:
    """Within the log, always. None: the offset stays. `at`: the first offset written at the time that decides or later;
    None where nothing was."""
    before, start, end = spot.committed.offset, spot.log_start, spot.log_end
    match aim.how:
        case How.LAST_KNOWN_GOOD:
            found = _last_known_good(spot)
        case How.EARLIEST:
            found = _plain(spot, start, "log start")
        case How.LATEST:
            found = _plain(spot, end, "log end")
        case How.CURRENT:
            found = _plain(spot, before, "current committed offset")
        case How.OFFSET:
            found = _plain(spot, aim.number or 0, "requested offset")
        case How.SHIFT_BY:
            found = _plain(spot, before + (aim.number or 0), f"current committed offset {aim.number:+d}")
        case How.DATETIME | How.DURATION:
            words = "first record at or after that time" if at is not None else "no record since that time; log end"
            found = _plain(spot, end if at is None else at, words)
    return None if found is None or found.offset == before else found


def _plain(spot: Spot, wanted: int, reason: str) -> Target:
    before, start, end = spot.committed.offset, spot.log_start, spot.log_end
    offset = min(max(wanted, start), end)
    if offset != wanted:
        reason = f"{reason}: {wanted} is outside the log; nearest offset in the log"
    skipped = max(0, offset - max(before, start))
    again = max(0, min(before, end) - offset)
    return Target(offset, reason, skipped, again)


def _last_known_good(spot: Spot) -> Target | None:
    r, committed, start, end = spot.regression, spot.committed, spot.log_start, spot.log_end
    cut = spot.epoch_end is not None and spot.epoch_end < min(committed.offset, end)
    if spot.recreated is not None and (cut or spot.beyond or (r is not None and _doubtful(spot, r))):
        again = max(0, min(committed.offset, end) - start)
        words = (
            f"log start: the topic was deleted and recreated, seen at {timestamp(spot.recreated)}, and the commit may "
            f"be of the topic before; the group may read up to {many(again, 'offset')} again"
        )
        return Target(start, words, 0, again)
    if spot.epoch_end is not None and cut:
        offset = max(spot.epoch_end, start)
        words = (
            f"end of the commit's leader epoch {committed.leader_epoch} (KIP-320); the group has read everything "
            "before this offset and nothing after it"
        )
        return Target(offset, words, 0, 0)
    if r is not None and _doubtful(spot, r):
        offset = min(max(r.after, start), end)
        fresh = min(committed.offset, end) - offset
        lost = f"log end when the log became shorter ({r.before} to {r.after}, seen at {timestamp(r.at)})"
        if spot.beyond or committed.leader_epoch is not None:
            words = f"{lost}; the group has read everything before this offset and nothing after it"
            again = 0
        else:
            words = f"{lost}; the commit has no leader epoch, so the group may read up to {many(fresh, 'offset')} again"
            again = max(0, fresh)
        if r.after < start:
            words = f"{words}; records that retention has deleted are skipped"
        return Target(offset, words, 0, again)
    if not spot.beyond:
        return None
    epoch, now = committed.leader_epoch, spot.leader_epoch
    if epoch is not None and now is not None and epoch > now:
        words = f"topic recreated (leader epoch {now}, the commit's {epoch}); the group has read none of its records"
        return Target(start, words, 0, 0)
    if epoch is not None and epoch == now:
        words = (
            f"log start: within leader epoch {now} no log loses records, so the commit is of an earlier topic of that "
            f"name, or was set by hand; the group may read up to {many(end - start, 'offset')} again"
        )
        return Target(start, words, 0, end - start)
    words = "log end; the group reads nothing again"
    if spot.epoch_end is None:
        words += (
            ". The operator has seen no log become shorter, and cannot judge by the commit's leader epoch. If records "
            "were lost before the operator watched, the group skips the records written since then"
        )
    return Target(end, words, 0, 0)


def _doubtful(spot: Spot, r: LogEndRegressionStatus) -> bool:
    """Whether the offset was committed before the log became shorter, and counts records that are gone."""
    epoch = spot.committed.leader_epoch
    if epoch is not None and r.epoch_after is not None and epoch >= r.epoch_after:
        return False
    if spot.beyond:
        return True
    if not r.after < spot.committed.offset <= r.before:
        return False
    known = r.groups is not None and len(r.groups) < MAX_GROUPS
    return not known or spot.group in (r.groups or ())
