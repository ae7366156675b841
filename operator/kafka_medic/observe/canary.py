"""The canary: in each round one record to every partition of its topic, and the same record read back.

One thread for a cluster. What is bounded: one record a partition is under way at most, a round never waits for the
last one, and what a partition is known by is overwritten, not collected, so that an outage of hours costs what one of
seconds does. A record that failed is not sent again: the next round is the next try.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from kafka_medic.clients.failures import ClientFailure, FailureKind, ReadFailed
from kafka_medic.clients.ports import Broken, CanaryClient, CanaryEvent, Delivered, Returned, Undelivered, Unread
from kafka_medic.cluster.document import timestamp
from kafka_medic.cluster.snapshot import CANARY_SCHEMA

_LOG = logging.getLogger(__name__)

DELIVERY_SHARE = 0.8
"""Of the interval: a record is given up on before the next one is due."""
FIRST_BACKOFF, LAST_BACKOFF = 1.0, 60.0
"""Seconds until a client that broke is made anew; doubled each time until one record went through."""
CLOSE_LOOK_SECONDS, POLL_CLOSELY = 0.25, 0.005
POLL_SECONDS = 0.1
IDLE_SECONDS = 1.0
"""How long one poll waits: shortly while records of a healthy cluster are on their way, since a latency is as exact as
that; longer for what is late; longest when nothing is under way."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one partition in one round: seconds from send to acknowledgement and from send to read, or why not.
    `dropped`: nothing was sent, for a reason of our own, and nothing is said of the broker."""

    partition: int
    leader: int | None
    produce_seconds: float | None = None
    consume_seconds: float | None = None
    error: str | None = None
    dropped: bool = False


@dataclass(slots=True)
class _Track:
    """One partition. `outstanding`: the record whose delivery report is still to come."""

    leader: int | None = None
    value: bytes = b""
    sent_at: float = 0.0
    outstanding: bytes | None = None
    waiting: bool = False
    offset: int | None = None
    produced: float | None = None
    returned: tuple[int, float] | None = None
    followed: bool = False
    trouble: str | None = None
    """Why reading stopped; of interest only if the record is then missed."""
    refused: bool = False
    """It was the operator's rights that stood in the way."""
    fault: str | None = None
    """A record that came back wrong: the round has failed whatever else happens."""
    last_good: tuple[bytes, int] | None = None
    ok_at: datetime | None = None
    produce_ms: int | None = None
    consume_ms: int | None = None
    failures: int | None = None
    error: str | None = None


class Canary:
    """The rounds of one cluster. `watch` and `reading` answer at once and may be called from another thread."""

    def __init__(
        self,
        topic: str,
        connect: Callable[[float], CanaryClient],
        interval: float,
        timeout: float,
        report: Callable[[Outcome], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._topic, self._connect, self._report, self._clock, self._now = topic, connect, report, clock, now
        self._interval = interval
        self._timeout = min(timeout, DELIVERY_SHARE * interval)
        self._session = uuid.uuid4().hex[:12].encode()
        self._numbers = itertools.count(1)
        self._tracks: dict[int, _Track] = {}
        self._client: CanaryClient | None = None
        self._retry_at, self._backoff = 0.0, FIRST_BACKOFF
        self._next = 0.0
        self._watched: tuple[Mapping[int, int | None], float] = ({}, -1e9)
        self._shown: tuple[tuple[dict[str, object], ...], float] | None = None
        self._broken: str | None = None
        self._refused: str | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"canary-{self._topic}", daemon=True)
        self._thread.start()

    def close(self, seconds: float = 10.0) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(seconds)

    def watch(self, leaders: Mapping[int, int | None] | None) -> None:
        """The topic's partitions and who leads them; None: not known now, so as before. Without a call for some rounds
        nothing is sent: whoever calls may have lost its Lease."""
        before = self._watched[0]
        self._watched = (before if leaders is None else dict(leaders), self._clock())

    def reading(self) -> pa.Table:
        """How each partition stands, as CANARY_SCHEMA. Raises ReadFailed as long as there is nothing to tell."""
        shown = self._shown
        if shown is None:
            raise ReadFailed(FailureKind.OTHER, self._broken or "no round of the canary has ended yet")
        age = self._clock() - shown[1]
        if age > self._stale_after():
            message = f"the canary's last round was {age:.0f} s ago"
            raise ReadFailed(FailureKind.OTHER, f"{message}; {self._broken}" if self._broken else message)
        if self._refused is not None:
            raise ReadFailed(FailureKind.AUTHORIZATION, f"topic {self._topic}: {self._refused}")
        rows = [{"topic": self._topic, **row} for row in shown[0]]
        return pa.Table.from_pylist(rows, schema=CANARY_SCHEMA)

    def _stale_after(self) -> float:
        return 3 * self._interval + 60.0

    # -- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                wait = self.step()
            except Exception as problem:  # noqa: BLE001
                # A fault of ours: loud, and with the pauses of a broken client.
                _LOG.exception("canary %s: internal fault", self._topic)
                self._break(f"internal fault: {type(problem).__name__}")
                wait = IDLE_SECONDS
            if wait:
                self._stopping.wait(wait)
        self._drop_client()

    def step(self) -> float:
        """One small step; answers how long to pause before the next one."""
        now = self._clock()
        if now - self._watched[1] > self._stale_after():
            return IDLE_SECONDS
        if self._client is None:
            if now < self._retry_at:
                return min(IDLE_SECONDS, self._retry_at - now)
            try:
                self._client = self._connect(self._timeout)
            except ClientFailure as problem:
                self._break(str(problem))
                return IDLE_SECONDS
        if now >= self._next:
            self._next = now + self._interval
            # What was reported meanwhile first: a partition whose last record is done is free again.
            self._take_all(self._client, 0.0)
            if self._client is None:
                return 0.0
            self._begin(self._client, now)
        busy = any(t.waiting or t.outstanding is not None for t in self._tracks.values())
        fresh = now - (self._next - self._interval) < CLOSE_LOOK_SECONDS
        longest = (POLL_CLOSELY if fresh else POLL_SECONDS) if busy else IDLE_SECONDS
        wait = min(longest, max(0.0, self._next - now))
        self._take_all(self._client, wait)
        self._expire()
        return 0.0

    def _take_all(self, client: CanaryClient, seconds: float) -> None:
        for event in client.poll(seconds):
            self._take(event)
            if self._client is not client:
                return  # it broke, and what else it said went with it

    def _begin(self, client: CanaryClient, now: float) -> None:
        leaders = self._watched[0]
        for partition in sorted(set(self._tracks) - set(leaders)):
            client.forget(partition)
            del self._tracks[partition]
        for partition, leader in sorted(leaders.items()):
            track = self._tracks.setdefault(partition, _Track())
            value = b"%s %d %d" % (self._session, partition, next(self._numbers))
            if track.waiting or track.outstanding is not None or not client.send(partition, value):
                self._report(Outcome(partition, leader, dropped=True))
                continue
            track.leader, track.value, track.sent_at = leader, value, now
            track.waiting, track.outstanding = True, value
            track.offset = track.produced = track.returned = None
        self._show()

    def _take(self, event: CanaryEvent) -> None:
        match event:
            case Broken(error):
                self._break(error)
            case Delivered(partition, value, offset, seconds):
                self._delivered(partition, value, offset, seconds)
            case Undelivered(partition, value, error, refused):
                track = self._tracks.get(partition)
                if track is not None and track.outstanding == value:
                    track.outstanding, track.refused = None, refused
                    if track.waiting:
                        self._settle(partition, track, f"not acknowledged: {error}")
            case Returned(partition, offset, value):
                self._returned(partition, offset, value or b"")
            case Unread(partition, error, refused):
                track = self._tracks.get(partition)
                if track is not None:
                    track.followed, track.trouble, track.refused = False, f"reading stopped: {error}", refused

    def _delivered(self, partition: int, value: bytes, offset: int, seconds: float) -> None:
        track = self._tracks.get(partition)
        if track is None or track.outstanding != value:
            return
        track.outstanding, track.offset, track.produced = None, offset, seconds
        if not track.followed and self._client is not None:
            # From exactly the record that was acknowledged: nothing to look up, nothing to miss.
            self._client.follow(partition, offset)
            track.followed = True
        self._compare(partition, track)

    def _returned(self, partition: int, offset: int, value: bytes) -> None:
        track = self._tracks.get(partition)
        if track is None:
            return
        if value == track.value and track.waiting:
            track.returned = (offset, self._clock() - track.sent_at)
            self._compare(partition, track)
        elif track.last_good is not None and value == track.last_good[0] and offset != track.last_good[1]:
            track.fault = f"one record came back twice: offsets {track.last_good[1]} and {offset}"
        elif track.waiting and offset == track.offset:
            track.fault = f"another record than the one sent is at offset {offset}"

    def _compare(self, partition: int, track: _Track) -> None:
        if not track.waiting or track.offset is None or track.returned is None:
            return
        if track.returned[0] != track.offset:
            track.fault = f"acknowledged at offset {track.offset}, read at {track.returned[0]}"
        self._settle(partition, track, track.fault)

    def _expire(self) -> None:
        now = self._clock()
        for partition, track in self._tracks.items():
            if not track.waiting or now - track.sent_at < self._timeout:
                continue
            if track.produced is None:
                reason = f"not acknowledged within {self._timeout:g} s"
            else:
                reason = f"acknowledged after {_ms(track.produced)} ms, not read back within {self._timeout:g} s"
                # Behind, or lost its place: the next record is looked for where it is.
                track.followed = False
            self._settle(partition, track, "; ".join(filter(None, (reason, track.fault, track.trouble))))

    def _settle(self, partition: int, track: _Track, error: str | None) -> None:
        consumed = track.returned[1] if track.returned is not None else None
        track.waiting = False
        track.produce_ms = None if track.produced is None else _ms(track.produced)
        track.consume_ms = None if consumed is None else _ms(consumed)
        # Rights are the topic's and not a broker's, so one record that got through settles it.
        self._refused = error if error is not None and track.refused else None
        track.trouble, track.fault, track.refused = None, None, False
        if error is None:
            track.ok_at, track.failures, track.error = self._now(), 0, None
            assert track.offset is not None
            track.last_good = (track.value, track.offset)
            self._backoff, self._broken = FIRST_BACKOFF, None
        else:
            track.failures, track.error = (track.failures or 0) + 1, error
        self._report(Outcome(partition, track.leader, track.produced, consumed, error))
        self._show()

    def _break(self, error: str) -> None:
        _LOG.warning("canary %s: %s; a new client in %.0f s", self._topic, error, self._backoff)
        self._broken = error
        self._drop_client()
        for partition, track in self._tracks.items():
            track.followed, track.outstanding = False, None
            if track.waiting:
                self._settle(partition, track, f"the client broke: {error}")
        self._retry_at = self._clock() + self._backoff
        self._backoff = min(LAST_BACKOFF, 2 * self._backoff)

    def _drop_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _show(self) -> None:
        """What was measured so far, for other threads, as something that is never changed again."""
        rows: tuple[dict[str, object], ...] = tuple(
            {
                "partition": partition,
                "leader": track.leader,
                "lastOkAt": timestamp(track.ok_at) if track.ok_at else None,
                "produceMs": track.produce_ms,
                "consumeMs": track.consume_ms,
                "consecutiveFailures": track.failures,
                "lastError": track.error,
            }
            for partition, track in sorted(self._tracks.items())
        )
        measured = [row["consecutiveFailures"] is not None for row in rows]
        # Not before each partition has had its first round: what was not tried is not well.
        if rows and (all(measured) or (self._shown is not None and any(measured))):
            self._shown = (rows, self._clock())


def _ms(seconds: float) -> int:
    """Whole milliseconds, rounded up: nothing takes no time."""
    return max(1, round(seconds * 1000))
