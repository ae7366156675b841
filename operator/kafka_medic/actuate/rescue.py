"""Save the records that only a stale broker's log holds, before that broker is restarted and truncates them away."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from kafka_medic.clients.failures import FailureKind, ReadFailed, WriteFailed
from kafka_medic.clients.ports import Kafka, LogRecord, MaySend, NewTopic, OwnRecord
from kafka_medic.playbook.effects import RescuePart, RescueRecords

PREFIX = "kafka-medic-"
"""Of the headers that say where a saved record came from; the record's own headers follow."""
Place = tuple[str, int, int, int]
"""Topic, partition, leader epoch, offset."""


def rescue(kafka: Kafka, intent: RescueRecords, may_send: MaySend) -> None:
    """Idempotent: what the rescue topic holds already is not written again, and its manifest, in partition 1, is
    written once everything else is acknowledged. Each part is read up to where the stale log ends now, which may be
    further than when the plan was made. `may_send` is asked before each write, since what was read before it can have
    taken longer than the Lease lasts. Raises WriteFailed."""
    try:
        kafka.create_topic(NewTopic(intent.topic, (intent.replicas, intent.replicas), _configs(len(intent.replicas))))
        saved = {place for record in kafka.read_topic(intent.topic, 0) if (place := _place(record)) is not None}
        counts = {}
        for part in intent.parts:
            count = 0
            for chunk in _chunks(kafka, part):
                missing = [r for r in chunk if (r.tp.topic, r.tp.partition, part.epoch, r.offset) not in saved]
                _ask(may_send)
                kafka.append(intent.topic, 0, (_copy(record, part) for record in missing))
                count += len(chunk)
            counts[f"{part.tp}"] = {"broker": part.broker, "epoch": part.epoch, "from": part.start, "records": count}
        if not any(True for _ in kafka.read_topic(intent.topic, 1)):
            _ask(may_send)
            manifest = json.dumps({"rescued": counts}, sort_keys=True).encode()
            kafka.append(intent.topic, 1, [OwnRecord(b"manifest", manifest)])
    except ReadFailed as problem:
        raise WriteFailed(problem.kind, f"rescue into {intent.topic}: {problem.message}") from None


def _ask(may_send: MaySend) -> None:
    if not may_send():
        raise WriteFailed(FailureKind.REFUSED, "not sent: the operator no longer holds the cluster's Lease")


def _configs(replicas: int) -> dict[str, str]:
    """Kept for ever, and with a replica to spare: else this very topic would stand against the restarts to come."""
    return {"retention.ms": "-1", "cleanup.policy": "delete", "min.insync.replicas": str(max(1, replicas - 1))}


def _chunks(kafka: Kafka, part: RescuePart) -> Iterator[Sequence[LogRecord]]:
    end = kafka.own_log_ends(part.broker, [part.tp]).get(part.tp)
    at = part.start
    while end is not None and at < end:
        chunk, at = kafka.read_log(part.broker, part.tp, at, end)
        yield chunk


def _copy(record: LogRecord, part: RescuePart) -> OwnRecord:
    text = {
        "topic": record.tp.topic,
        "partition": record.tp.partition,
        "leader-epoch": part.epoch,
        "offset": record.offset,
        "broker": part.broker,
    }
    headers = [(f"{PREFIX}{name}", str(value).encode()) for name, value in text.items()]
    return OwnRecord(record.key, record.value, record.timestamp_ms, (*headers, *record.headers))


def _place(record: LogRecord) -> Place | None:
    found = {key.removeprefix(PREFIX): value for key, value in record.headers if key.startswith(PREFIX)}
    try:
        numbers = [int(found[name] or b"") for name in ("partition", "leader-epoch", "offset")]
        return (found["topic"] or b"").decode(), *numbers  # type: ignore[return-value]
    except (KeyError, ValueError):
        return None  # not one of ours
