"""What an operator's write may rest on: what that reconcile has read, what its run has written down, and who has said
yes to that; a part of the oracle."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tests.simulation.api import SimApi
    from tests.simulation.kafka import SimKafka

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
RUNS = "/apis/kafkamedic.dev/v1alpha1/namespaces/ns/remediations/"
FRESH = 30.0
"""Seconds that a read may be old when a write rests on it."""
BEFORE = ("Planning", "AwaitingApproval", "Approved")
ACTING = ("Running", "Verifying", "Paused", "Blocked")
ENDED = ("Succeeded", "Failed", "Aborted", "Rejected", "Expired", "Superseded")
PROSE = ("proposedAt", "expiresAt", "summary")
CANARY = "kafka-medic-canary"
OWNERS = "/apis/kafka.strimzi.io/v1/namespaces/ns/kafkatopics/"
OWNER_PAUSE = "strimzi.io/pause-reconciliation"


class TopicPartition(NamedTuple):
    """A partition's address, equal to whatever else names it by the same two."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def may_follow(before: str | None, after: str, *, acted: bool) -> bool:
    """Whether a run may be `after` when it was last seen `before`. `acted`: it has begun something."""
    if before is None:
        return after == "Planning"
    if before == after:
        return True
    sources: dict[str, tuple[str, ...]] = {
        "Planning": BEFORE[1:],  # a new plan, as long as nothing was done by the old one
        "AwaitingApproval": ("Planning", "Approved"),
        "Approved": ("AwaitingApproval",),
        "Running": ("Approved", *ACTING),
        "Verifying": ACTING,
        "Paused": ("Approved", *ACTING),
        "Blocked": ("Approved", *ACTING),
        "Succeeded": ("Verifying",),
        "Failed": ("Planning", *ACTING),
        "Aborted": (*BEFORE, *ACTING),
        "Superseded": (*BEFORE, *ACTING),
    }
    undone = (*BEFORE[1:], *(() if acted else ("Paused", "Blocked")))
    return before in sources.get(after, undone)


def binds(status: dict[str, Any]) -> bool:
    """Whether others wait until the run has taken back what it set for a time. Replicas that are in sync and too many
    hinder nobody, unless the run is given up and takes them away."""
    if any(e["id"] == "give-up" for e in status.get("journal") or ()):
        return bool(status.get("restoreOwed"))
    open_ = {s["action"] for s in status.get("steps") or () if s["phase"] not in ("Succeeded", "Skipped")}
    removes = "RemoveReplicas" in open_ and not open_ & {"ReassignPartitions", "AlterReplicaLogDirs", "StopConsumers"}
    return bool(status.get("restoreOwed")) and not removes


class Violated(BaseException):
    """An invariant does not hold. No `except Exception` of the operator's may swallow it."""


def drains(plan: dict[str, Any]) -> list[tuple[TopicPartition, dict[str, Any]]]:
    """What is led elsewhere while its broker is restarted, by partition."""
    return [(TopicPartition(d["topic"], p), d) for d in plan.get("drains", ()) for p in d["partitions"]]


def last_asked(entry: dict[str, Any]) -> datetime:
    """When the effect was written down to be sent for the last time."""
    return datetime.fromisoformat(entry.get("askedAt") or entry["intendedAt"])


def annotates(name: str, args: tuple[Any, ...]) -> bool:
    """Whether a request sets or takes off an annotation of a Pod."""
    return name == "merge" and "/pods/" in args[0]


def of_owner(name: str, args: tuple[Any, ...]) -> bool:
    """Whether a request changes a KafkaTopic."""
    return name == "merge" and "/kafkatopics/" in args[0]


def acts(found: dict[str, Any]) -> bool:
    """Whether the Topic Operator acts on that KafkaTopic."""
    return (found["metadata"].get("annotations") or {}).get(OWNER_PAUSE) != "true"


class Grounds:
    kafka: SimKafka
    api: SimApi
    plans: dict[str, Any]
    incarnations: dict[str, dict[TopicPartition, str]]
    theirs: set[TopicPartition]
    through: dict[TopicPartition, float]

    def blame(self, what: str) -> None:
        raise Violated(what)

    def known(self, seen: dict[str, Any], kind: str, now: float) -> tuple[Any, ...]:
        found: tuple[Any, ...] | None = seen.get(kind)
        if found is None:
            self.blame(f"written without knowing {kind}: not read in this reconcile, or not answered")
        assert found is not None
        if now - found[0] > FRESH:
            self.blame(f"written on {kind} as of {now - found[0]:.0f} s ago")
        return found[1:]

    def row(self, partitions: dict[TopicPartition, Any], tp: TopicPartition) -> Any:
        """Of what was read last."""
        if tp not in partitions:
            self.blame(f"{tp} was gone when the views were read last, and is written to")
        return partitions[tp]

    def run_of(self, seen: dict[str, Any], kind: str, uid: str | None = None) -> dict[str, Any]:
        """The run that has written down what it is about to do: as it is, or, deleted since, as it was last read."""
        present = [run for path, run in self.api.objects.items() if path.startswith(RUNS)]
        for runs in (present, seen.get("runs", (0, {}))[1].values()):
            found = [
                (entry["state"] == "Intended", last_asked(entry), number)
                for number, run in enumerate(runs)
                if (run.get("status") or {}).get("phase") in ACTING
                for entry in run["status"].get("journal") or ()
                if entry["kind"] == kind and uid in (None, entry.get("targetUid"))
            ]
            if found:
                return list(runs)[max(found)[2]]
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
        others = {n: o for n, o in runs.items() if n != run["metadata"]["name"] and o.get("status")}
        if acting := [n for n, o in others.items() if o["status"].get("phase") in ACTING and not self._at_rest(o, now)]:
            self.blame(f"written while {acting} acts as well")
        return plan

    def _at_rest(self, run: dict[str, Any], now: float) -> bool:
        """Whether nothing that the run has sent, or set for a time, may still change anything: its throttles are off,
        its Pods are as they were, and its requests were carried out or lost."""
        status = run["status"]
        if binds(status):
            return False
        for entry in status.get("journal") or ():
            if entry["state"] != "Intended" or entry["id"] == "give-up":
                continue
            pods = [o["metadata"] for path, o in self.api.objects.items() if "/pods/" in path]
            stays = [m for m in pods if m["uid"] == entry.get("targetUid") and "deletionTimestamp" not in m]
            ago = now - self.true_times[run["metadata"]["uid"], entry["id"], str(last_asked(entry))]
            if ago < 60.0 or (entry["kind"] == "RestartPod" and not stays):
                return False
        return True

    def intends(self, kind: str) -> dict[str, Any] | None:
        """The run that was last about to do such a thing, and has not seen it done."""
        latest: tuple[datetime, dict[str, Any]] | None = None
        for path, run in self.api.objects.items():
            status = run.get("status") or {}
            if not path.startswith(RUNS) or status.get("phase") not in ACTING:
                continue
            for entry in status.get("journal") or ():
                open_ = entry["kind"] == kind and entry["state"] == "Intended"
                if open_ and (latest is None or last_asked(entry) > latest[0]):
                    latest = last_asked(entry), run
        return latest[1] if latest else None
