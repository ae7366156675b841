"""Notices to the outside: each event goes to a webhook too. Out only; nothing is decided by a response."""

from __future__ import annotations

import html
import json
import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kafka_medic.clients.webhook import NotDelivered, Target, deliver
from kafka_medic.cluster.names import printable
from kafka_medic.controller.events import Note, Recorder, Unparsed
from kafka_medic.resources.base import Resource
from kafka_medic.resources.vocabulary import API_VERSION

_LOG = logging.getLogger(__name__)

WAITING = 200
"""Notices held while the receiver is away; the oldest give way."""
PAUSES = (1.0, 2.0, 4.0, 8.0)
"""Seconds before each further try. After the last one the notice is given up, and the next one is tried."""
_MAX_MESSAGE = 1024


def notice(about: Resource | Unparsed, note: Note, at: datetime) -> dict[str, Any]:
    """What is sent. `text` is what incoming webhooks of chat tools show: their markup (`<!channel>`, links) is
    neutralised in it, since names of topics and groups are anybody's."""
    kind, reason, message = note
    where = f"{about.namespace}/{about.name}" if about.namespace else about.name
    message = printable(message[:_MAX_MESSAGE])
    return {
        "apiVersion": API_VERSION,
        "kind": "Notice",
        "id": uuid.uuid4().hex,
        "at": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "type": kind,
        "reason": reason,
        "message": message,
        "about": {"kind": about.KIND, "namespace": about.namespace, "name": about.name, "uid": about.uid},
        "text": html.escape(f"{reason}: {about.KIND} {where}: {message}", quote=False),
    }


@dataclass(slots=True)
class Notices:
    """A thread of its own delivers them, one after the other. `send` never waits and never fails."""

    folder: Path
    pause: Callable[[float], object] = time.sleep
    _waiting: deque[Mapping[str, Any]] = field(default_factory=lambda: deque(maxlen=WAITING))
    _queued: threading.Event = field(default_factory=threading.Event)
    _dropped: int = 0

    def start(self) -> None:
        threading.Thread(target=self._loop, name="notices", daemon=True).start()

    def recording(self, record: Recorder) -> Recorder:
        """The same recorder, whose notes go out as well."""

        def both(about: Resource | Unparsed, note: Note) -> None:
            record(about, note)
            self.send(notice(about, note, datetime.now(UTC)))

        return both

    def send(self, what: Mapping[str, Any]) -> None:
        self._dropped += len(self._waiting) == WAITING
        self._waiting.append(what)
        self._queued.set()

    def deliver_waiting(self) -> None:
        """All that wait, each tried a few times."""
        while self._waiting:
            what = self._waiting.popleft()
            if self._dropped:
                _LOG.warning("webhook: %d notices were dropped, the receiver was away for too long", self._dropped)
                self._dropped = 0
            self._try(what)

    def _try(self, what: Mapping[str, Any]) -> None:
        body = json.dumps(what, ensure_ascii=True).encode()
        for pause in (*PAUSES, None):
            try:
                deliver(Target.read(self.folder), body, what["id"], int(time.time()))
            except NotDelivered as problem:
                if not problem.again or pause is None:
                    _LOG.warning("webhook: %s was not delivered: %s", what["reason"], problem)
                    return
                self.pause(pause)
            else:
                return

    def _loop(self) -> None:
        while True:
            self._queued.wait()
            self._queued.clear()
            try:
                self.deliver_waiting()
            except Exception as fault:  # noqa: BLE001
                # Its text may have the address in it, as a traceback has.
                _LOG.error("webhook: internal fault: %s", type(fault).__name__)
