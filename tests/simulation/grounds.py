"""What an operator's write may rest on: what it has read in that turn, what its run has written down, and who has said
yes to that; a part of the oracle."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kafka_medic.cluster.snapshot import TopicPartition
from tests.simulation.api import SimApi
from tests.simulation.kafka import SimKafka

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
RUNS = "/apis/kafkamedic.dev/v1alpha1/namespaces/ns/remediations/"
FRESH = 30.0
"""Seconds that a read may be old when a write rests on it."""
ACTING = ("Running", "Verifying", "Paused", "Blocked")
PROSE = ("proposedAt", "expiresAt", "summary")
CANARY = "kafka-medic-canary"


class Violated(BaseException):
    """An invariant does not hold. No `except Exception` of the operator's may swallow it."""


def drains(plan: dict[str, Any]) -> list[tuple[TopicPartition, dict[str, Any]]]:
    """What is led elsewhere while its broker is restarted, by partition."""
    return [(TopicPartition(d["topic"], p), d) for d in plan.get("drains", ()) for p in d["partitions"]]


class Grounds:
    kafka: SimKafka
    api: SimApi
    plans: dict[str, Any]
    theirs: set[TopicPartition]
    through: dict[TopicPartition, float]

    def blame(self, what: str) -> None:
        raise Violated(what)

    def known(self, seen: dict[str, Any], kind: str, now: float) -> tuple[Any, ...]:
        found: tuple[Any, ...] | None = seen.get(kind)
        if found is None:
            self.blame(f"written without knowing {kind}: not read in this turn, or not answered")
        assert found is not None
        if now - found[0] > FRESH:
            self.blame(f"written on {kind} as of {now - found[0]:.0f} s ago")
        return found[1:]

    def run_of(self, seen: dict[str, Any], kind: str, uid: str | None = None) -> dict[str, Any]:
        """The run that has written down what it is about to do: as it is, or, deleted since, as it was last read."""
        present = [run for path, run in self.api.objects.items() if path.startswith(RUNS)]
        for run in (*present, *seen.get("runs", (0, {}))[1].values()):
            status = run.get("status") or {}
            if status.get("phase") in ACTING:
                for entry in status.get("journal") or ():
                    if entry["kind"] == kind and uid in (None, entry.get("targetUid")):
                        return run
        self.blame(f"{kind} {uid or ''} without an intent in any journal")
        raise AssertionError

    def permitted(self, run: dict[str, Any], seen: dict[str, Any], now: float) -> dict[str, Any]:
        """Somebody who may has approved exactly this plan, and every rule of the KafkaCluster permits it. The plan."""
        status, uid = run["status"], run["metadata"]["uid"]
        plan: dict[str, Any] = status["plan"]
        digest = plan["digest"]
        (words,), (rights,) = self.known(seen, "words", now), self.known(seen, "rights", now)
        exact = [w for w in words if (w["remediationRef"]["uid"], w["planDigest"]) == (uid, digest)]
        good = {(w["approver"], w["decision"]) for w in exact if w["approver"] in rights}
        if not any(d == "Approve" and who != run["spec"].get("requestedBy") for who, d in good):
            self.blame(f"written without a live approval of {digest}")
        if any(d == "Reject" for _, d in good):
            self.blame("written though it was rejected")
        if self.plans.get(digest) != {k: v for k, v in plan.items() if k not in PROSE}:
            self.blame("the plan is not the one that was read and approved")
        (rules,) = self.known(seen, "rules", now)
        if rules.get("paused"):
            self.blame("written while remediation is paused")
        if rules.get("windows"):
            self.blame("written outside every window")
        (runs,) = self.known(seen, "runs", now)
        others = {n: o.get("status") or {} for n, o in runs.items() if n != run["metadata"]["name"]}
        if acting := [n for n, s in others.items() if s.get("phase") in ACTING]:
            self.blame(f"written while {acting} acts as well")
        return plan

    def intends(self, kind: str) -> dict[str, Any] | None:
        for path, run in self.api.objects.items():
            status = run.get("status") or {}
            open_ = [e["kind"] for e in status.get("journal") or () if e["state"] == "Intended"]
            if path.startswith(RUNS) and status.get("phase") in ACTING and kind in open_:
                return run
        return None
