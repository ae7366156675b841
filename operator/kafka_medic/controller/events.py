"""Kubernetes events: one for each change, none for each probe."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi
from kafka_medic.controller.status import held
from kafka_medic.diagnose.finding import Finding
from kafka_medic.resources.base import Resource
from kafka_medic.resources.kafkacluster_status import FindingStatus
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.remediation_status import RemediationStatus
from kafka_medic.resources.vocabulary import API_VERSION, FindingState

_LOG = logging.getLogger(__name__)

Note = tuple[str, str, str]
"""(Normal or Warning, reason word, sentence)."""


@dataclass(frozen=True, slots=True)
class Unparsed:
    """An object that this version cannot read, as far as an event needs to know it."""

    KIND: str
    name: str
    namespace: str | None
    uid: str | None

    @classmethod
    def of(cls, kind: type[Resource], raw: Mapping[str, Any]) -> Unparsed:
        metadata = raw.get("metadata") or {}
        return cls(kind.KIND, str(metadata.get("name", "")), metadata.get("namespace"), metadata.get("uid"))


Recorder = Callable[[Resource | Unparsed, Note], None]


OF_A_RESTART = frozenset({"QuorumDegraded", "NodeMaintenance"})
"""What a broker that is being restarted looks like. BrokerDown waits until its start takes too long, so it is news."""


def finding_notes(
    before: Sequence[FindingStatus], now: Sequence[Finding], restarting: Mapping[int, str] | None = None
) -> list[Note]:
    """What changed: findings that began to fire, and firing ones that are gone. restarting: brokers that runs have sent
    to restart, with the run's name; that they are away is no news to wake anybody for."""
    fired = {f.id for f in before if f.state is FindingState.FIRING}
    # Only what status has room for can be told from what was announced already; what merely lost its place there to
    # something worse has not gone.
    firing = {f.id for f in now if f.firing()}
    notes = [_begun(f, restarting or {}) for f in held(now) if f.firing() and f.id not in fired]
    notes += [("Normal", f"{f.type}Gone", f"gone: {f.message}") for f in before if f.id in fired and f.id not in firing]
    return notes


def _begun(finding: Finding, restarting: Mapping[int, str]) -> Note:
    ends = (name.rpartition("-")[2] for name in finding.affected)  # clients choose the names of groups
    ids = [int(number) for number in ends if number.isdecimal() and len(number) < 10]
    whole = len(ids) == len(finding.affected) == (finding.counted or len(ids))
    if finding.type in OF_A_RESTART and ids and whole and restarting.keys() >= set(ids):
        return "Normal", finding.type, f"{finding.message}; {restarting[ids[0]]} is restarting it"
    return "Warning", finding.type, finding.message


def run_notes(before: RemediationStatus, after: RemediationStatus) -> list[Note]:
    """What changed with a run: its phase, or a guard that holds it anew."""
    waits_anew = {w.guard for w in after.waiting_for} - {w.guard for w in before.waiting_for}
    if before.phase is after.phase and not waits_anew:
        return []
    bad = after.phase in (Phase.FAILED, Phase.ABORTED, Phase.BLOCKED, Phase.PAUSED, Phase.EXPIRED)
    reason = str(after.phase)
    return [("Warning" if bad else "Normal", reason, after.message or reason)]


def so_far(status: RemediationStatus) -> str:
    """What the event of an effect says of how far the step has come."""
    progress = next((s.progress for s in status.steps if s.name == status.current_step), None)
    return f"; so far {progress.describe()}" if progress is not None else ""


def recorder(api: KubernetesApi) -> Recorder:
    """Writes events and never fails a reconcile: an event that is lost is a line in the log all the same."""

    def record(about: Resource | Unparsed, note: Note) -> None:
        kind, reason, message = note
        _LOG.info("%s/%s %s: %s", about.KIND, about.name, reason, message)
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        # Of what has no namespace the API server takes events in this one.
        where = about.namespace or "default"
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{about.name[:200]}.", "namespace": where},
            "involvedObject": {
                "apiVersion": API_VERSION,
                "kind": about.KIND,
                "name": about.name,
                "namespace": about.namespace,
                "uid": about.uid,
            },
            "type": kind,
            "reason": reason[:128],
            "message": message[:1024],
            "source": {"component": "kafka-medic"},
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
        }
        try:
            api.create(f"/api/v1/namespaces/{where}/events", body)
        except ApiFailure as problem:
            _LOG.warning("event was not recorded: %s", problem)

    return record
