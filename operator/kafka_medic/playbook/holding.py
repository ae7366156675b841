"""What a run holds: what it has set and must take back, and what it has sent and not seen settled.

While a run holds something, no other run acts. Unless it has something to take back, it starts nothing more once the
cure of a graver finding is approved, and gives way as soon as it holds nothing (`guard.precedence`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from kafka_medic.cluster.snapshot import Pod, Snapshot
from kafka_medic.guard.freshness import MAX_AGE
from kafka_medic.playbook.effects import ChangeSettings, RestartPod
from kafka_medic.resources.remediation_status import IntentState, JournalEntry, RemediationStatus

GIVE_UP = "give-up"
"""Journal id of the decision to end a run early; its detail is the reason, its target the phase it will end in."""
ON_ITS_WAY = 60.0
"""Seconds within which a request that was sent may still be carried out: longer than its sender waits for an answer."""
AWAITED = 1800.0
"""Seconds for which the clean-up of a run that was given up awaits a broker that is down: longer than any rollout."""
RENEWED = 10.0
"""Seconds after which the time of an effect that is due again is written down again."""
SENT_WITHIN = MAX_AGE + RENEWED
"""Seconds from that time within which the effect is sent, or not at all: the reads that it rests on are older then."""


def holding(status: RemediationStatus, snapshot: Snapshot, now: datetime, *, binds: bool) -> str:
    """In words; empty for nothing. binds: others wait until it has taken back what it has set for a time."""
    return "; ".join([*(["changes to revert"] if binds else []), *_unseen(status, snapshot, now)])[:1024]


def renewed(entry: JournalEntry, now: datetime) -> JournalEntry:
    """The entry of an effect that is due again, whose outcome is to be seen anew. Settings that were seen once stay so:
    a value that differs later is a person's."""
    seen = entry.state is IntentState.DONE and entry.kind != ChangeSettings.__name__
    recent = (now - entry.last_asked).total_seconds() < RENEWED
    again = {"state": IntentState.INTENDED, "done_at": None} if seen else {}
    return entry.model_copy(update=again if recent else {**again, "asked_at": now})


def may_be_sent(entry: JournalEntry, now: datetime) -> bool:
    """Whether what is written down is recent enough for others to wait for its effect."""
    return (now - entry.last_asked).total_seconds() <= SENT_WITHIN


def on_its_way(entry: JournalEntry, snapshot: Snapshot) -> bool:
    """Whether a request whose outcome nobody has seen may still be carried out."""
    unseen = entry.state is IntentState.INTENDED
    return unseen and (snapshot.taken_at - entry.last_asked).total_seconds() < SENT_WITHIN + ON_ITS_WAY


def written_off(journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> frozenset[int]:
    """Brokers whose settings and log directories the clean-up of a run that was given up awaits no more: they are not
    registered and do not answer, and the run would keep their replicas from being replaced."""
    ending = journal.get(GIVE_UP)
    if ending is None or (snapshot.taken_at - ending.intended_at).total_seconds() < AWAITED:
        return frozenset()
    return frozenset(b.id for b in snapshot.brokers or () if b.registered is False and b.reachable is False)


def _unseen(status: RemediationStatus, snapshot: Snapshot, now: datetime) -> Iterator[str]:
    for entry in status.journal:
        if entry.state is not IntentState.INTENDED or entry.id == GIVE_UP:
            continue
        recent = (now - entry.last_asked).total_seconds() < SENT_WITHIN + ON_ITS_WAY
        if recent or (entry.kind == RestartPod.__name__ and not _as_it_was(entry, snapshot)):
            yield f"{entry.detail[:200]}: outcome not yet seen"


def _as_it_was(entry: JournalEntry, snapshot: Snapshot) -> bool:
    """Whether the Pod that was to be restarted is there, and stays: nothing was sent, or it was refused. Unless that is
    known, the broker is taken for one that is away."""
    source = snapshot.source("kubernetes")
    if source is None or not source.known:
        return False
    return any(_stays(pod) for pod in snapshot.every_pod() if pod.uid == entry.target_uid)


def _stays(pod: Pod) -> bool:
    return pod.deleting is False
