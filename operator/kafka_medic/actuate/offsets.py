"""Set the committed offsets of a group without members (KIP-396)."""

from __future__ import annotations

from collections.abc import Callable

from kafka_medic.clients.failures import FailureKind, ReadFailed, WriteFailed
from kafka_medic.clients.ports import Kafka
from kafka_medic.cluster.groups import EMPTY
from kafka_medic.playbook.effects import SetOffsets
from kafka_medic.report.units import many


def set_offsets(kafka: Kafka, intent: SetOffsets, ask: Callable[[], None]) -> None:
    """Idempotent: what is committed as wanted already is left alone. The group is read once more right before: Kafka
    refuses a group that has members, but has no compare-and-set for what is committed. `ask` raises if, after that
    read, it may not be sent any more. Raises WriteFailed; what was set by then stays so, and the next look tells."""
    try:
        unsettled = kafka.unsettled(intent.group)  # first: once it is over, what it has committed is read
        found = kafka.groups(lambda name: name == intent.group)
    except ReadFailed as problem:
        raise WriteFailed(problem.kind, f"not sent: {problem.message}") from None
    if unsettled:
        where = ", ".join(map(str, unsettled[:5]))
        text = f"a transaction is open that commits offsets of group {intent.group} on {where}"
        raise WriteFailed(FailureKind.REFUSED, f"not sent: {text}; it ends by itself, or at its timeout")
    if why := found.unread.get(intent.group):
        raise WriteFailed(why.kind, f"not sent: {why.message}")
    group = next(iter(found.offsets), None)
    if group is None and found.unlisted:
        silent = ", ".join(map(str, sorted(found.unlisted)[:5]))
        text = f"broker {silent} did not list its groups, so whether group {intent.group} exists is not known"
        raise WriteFailed(FailureKind.UNREACHABLE, f"not sent: {text}")
    if group is None or group.state != EMPTY:
        state = group.state or "in an unknown state" if group else "gone"
        raise WriteFailed(FailureKind.REFUSED, f"not sent: group {intent.group} is {state} now")
    present = group.committed
    if unknown := sorted(tp for tp in intent.offsets if tp in present and present[tp] is None):
        names = ", ".join(map(str, unknown[:5]))
        raise WriteFailed(FailureKind.OTHER, f"not sent: what group {intent.group} has committed on {names} is unknown")
    due = {tp: after for tp, (_, after) in intent.offsets.items() if present.get(tp) != after}
    changed = sorted(tp for tp in due if present.get(tp) != intent.offsets[tp][0])
    if changed:
        names = ", ".join(map(str, changed[:5]))
        raise WriteFailed(FailureKind.REFUSED, f"not sent: group {intent.group} has committed since on {names}")
    if not due:
        return
    ask()
    refused = kafka.commit_offsets(intent.group, due)
    if refused:
        shown = "; ".join(f"{tp}: {why}" for tp, why in sorted(refused.items())[:5])
        raise WriteFailed(FailureKind.REFUSED, f"{len(refused)} of {many(len(due), 'offset')} refused: {shown}")
