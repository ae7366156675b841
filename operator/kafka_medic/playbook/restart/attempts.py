"""The journal entries of a broker's restarts: `restart-B`, and where it came back without having read what it was to
read, `restart-B-again-1` and so on. All but the last of them are Void. And which Pods they are for."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.guard.evaluate import some
from kafka_medic.guard.peers import nothing_rolls_out
from kafka_medic.guard.verdict import Verdict
from kafka_medic.playbook.restart import strimzi_restart
from kafka_medic.resources.remediation_plan import BrokerRestart, Plan, Restarts
from kafka_medic.resources.remediation_status import IntentState, JournalEntry
from kafka_medic.resources.vocabulary import ActionName


def attempts(step: str, broker: int, journal: Mapping[str, JournalEntry]) -> list[JournalEntry]:
    """The first one first."""
    first = f"{step}/restart-{broker}"
    ids = itertools.chain([first], (f"{first}-again-{n}" for n in itertools.count(1)))
    return [journal[id_] for id_ in itertools.takewhile(journal.__contains__, ids)]


def latest(step: str, broker: int, journal: Mapping[str, JournalEntry]) -> JournalEntry | None:
    return next(reversed(attempts(step, broker, journal)), None)


def is_in(entry: JournalEntry | None, *states: IntentState) -> bool:
    return entry is not None and entry.state in states


def on_their_way(plan: Plan, entries: Sequence[JournalEntry]) -> frozenset[int]:
    """Brokers, and controllers that are none, whose restart has been sent and that are not back yet."""
    journal = {entry.id: entry for entry in entries}
    steps = [step.name for step in plan.steps if step.action is ActionName.RESTART_BROKERS]
    brokers = [restart.broker for restart in plan.part(Restarts).restarts]
    return frozenset(b for b in brokers for s in steps if is_in(latest(s, b, journal), IntentState.INTENDED))


def due(step: str, restart: BrokerRestart, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> tuple[str, str]:
    """Journal id and Pod uid of the restart that is to be sent: the first time the Pod that was approved, the next time
    the one that is there by then."""
    made = attempts(step, restart.broker, journal)
    if not made:
        return f"{step}/restart-{restart.broker}", restart.pod_uid
    if made[-1].state is not IntentState.VOID:
        return made[-1].id, made[-1].target_uid or restart.pod_uid
    pod = snapshot.pod_of(restart.broker)
    uid = pod.uid if pod is not None else None
    return f"{step}/restart-{restart.broker}-again-{len(made)}", uid or restart.pod_uid


def other_pods(restarts: Sequence[BrokerRestart], snapshot: Snapshot) -> list[str]:
    """Brokers whose Pod somebody else replaced since the plan was made. One whose Pod is not there at all is for the
    guards: nothing is restarted while it is away."""
    found = []
    for restart in restarts:
        pod = snapshot.pod_of(restart.broker)
        if pod is not None and pod.uid is not None and pod.uid != restart.pod_uid:
            found.append(f"broker {restart.broker} runs in another Pod than planned (uid {pod.uid})")
    return found


def replaced_by_others(
    restarts: Sequence[BrokerRestart], journal: Mapping[str, JournalEntry], snapshot: Snapshot
) -> str | None:
    """The first broker whose Pod somebody else replaced since the plan was made. None while somebody rolls the brokers
    out: until that has ended, it is not known which of them are left."""
    others = nothing_rolls_out(snapshot, strimzi_restart.asked_for(journal.values()))
    if any(r.verdict is Verdict.WAIT for r in others):
        return None
    return next(iter(other_pods(restarts, snapshot)), None)


def none_left(plan: Plan, step: str, journal: Mapping[str, JournalEntry], snapshot: Snapshot) -> str | None:
    """That every broker which the plan has left to restart runs in another Pod, and is Ready. A stale broker, and one
    that is to read something when it starts, may need a restart of its own still."""
    own = plan.part(Restarts)
    left = [r for r in own.restarts if not is_in(latest(step, r.broker, journal), IntentState.DONE)]
    pods = [snapshot.pod_of(r.broker) for r in left]
    if not left or own.static_settings or any(r.stale for r in left) or len(other_pods(left, snapshot)) < len(left):
        return None
    if not all(pod is not None and pod.ready for pod in pods):
        return None
    return f"another client has restarted broker {some(sorted(r.broker for r in left))} since the plan"
