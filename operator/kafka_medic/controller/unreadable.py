"""Objects that this version cannot read: an event on the object reports it."""

from __future__ import annotations

import logging
from typing import Any

from kafka_medic.controller.events import Recorder, Unparsed
from kafka_medic.resources.base import Resource
from kafka_medic.resources.errors import ResourceError

_LOG = logging.getLogger(__name__)


class Unreadable:
    """An event for each version of each of them, once in the life of the operator's process."""

    def __init__(self, record: Recorder) -> None:
        self._record = record
        self._reported: dict[str | None, object] = {}

    def check(self, kind: type[Resource], raw: dict[str, Any]) -> None:
        metadata = raw.get("metadata") or {}
        uid, generation = metadata.get("uid"), metadata.get("generation")
        try:
            kind.parse(raw)
        except ResourceError as problem:
            if uid in self._reported and self._reported[uid] == generation:
                return
            self._reported[uid] = generation
            _LOG.error("unreadable: %s", problem)
            note = ("Warning", "Unreadable", f"this version of the operator cannot read it: {problem}")
            self._record(Unparsed.of(kind, raw), note)
        else:
            self._reported.pop(uid, None)

    def forget(self, raw: dict[str, Any]) -> None:
        """It is gone."""
        self._reported.pop((raw.get("metadata") or {}).get("uid"), None)
