"""In which order brokers are restarted, and why."""

from __future__ import annotations

from collections.abc import Collection

from kafka_medic.cluster.agreement import agreement
from kafka_medic.cluster.snapshot import Mode, Snapshot
from kafka_medic.guard.succession import harmless_first
from kafka_medic.report.units import many

REFUSED_STOP = (
    "the controller refuses its controlled shutdown, so it stops after its retries, by default 3 times 5 s "
    "(controlled.shutdown.max.retries and controlled.shutdown.retry.backoff.ms), or after its Pod's "
    "terminationGracePeriodSeconds if sooner"
)
UNHEARD_STOP = (
    "no controller may receive its controlled shutdown, so it may stop only after its Pod's "
    "terminationGracePeriodSeconds (by default 30 s), and then recovers its log"
)
"""With KRaft a broker asks by its heartbeats (KIP-631), which nobody answers one that is cut off."""


def stale_brokers(snapshot: Snapshot) -> frozenset[int]:
    """Brokers whose view differs from what is decided, or that answer without being registered. Which broker serves the
    traffic decides nothing."""
    differing = set(agreement(snapshot).disagreements)
    zombies = {b.id for b in snapshot.brokers or () if b.reachable is True and b.registered is False}
    return frozenset(differing | zombies)


def restart_order(snapshot: Snapshot, wanted: Collection[int]) -> tuple[int, ...]:
    """KRaft controllers that are no brokers before the brokers; then the stale side first, of which those first that
    leave nothing to another stale one; then who is not ready, then by id. The active controller last of its kind, so
    that it changes hands once. A run looks the controller up again before each restart (`next_broker`)."""
    stale, controller = stale_brokers(snapshot), active_controller(snapshot)
    apart = {v.id for v in snapshot.controllers_apart()}
    harmless = {b: n for n, b in enumerate(harmless_first(snapshot, sorted(stale & set(wanted))))}

    def place(node: int) -> tuple[bool, bool, bool, int, bool, int]:
        last = node == controller
        return (node not in apart, node not in stale, last, harmless.get(node, 0), _ready(snapshot, node), node)

    return tuple(sorted(wanted, key=place))


def next_broker(snapshot: Snapshot, order: Collection[int], cures: Collection[int]) -> int | None:
    """The first of those that are left which is not the active controller at this moment; it, when nobody else is.
    Controllers that are no brokers come before all brokers. Before the others come those of `cures`, which the plan
    names as stale, that are stale still."""
    controller = active_controller(snapshot)
    apart = {v.id for v in snapshot.controllers_apart()}
    order = [node for node in order if node in apart] or order
    if stale := [node for node in order if node in cures and node in stale_brokers(snapshot)]:
        order = harmless_first(snapshot, stale)
    return next((b for b in order if b != controller), next(iter(order), None))


def active_controller(snapshot: Snapshot) -> int | None:
    """None when nobody is known to be it."""
    found = snapshot.controller.id if snapshot.controller else None
    return found if found is not None and found >= 0 else None


def why(snapshot: Snapshot, broker_id: int) -> str:
    """A sentence for the person who approves: the place in the order, and what to expect of the stop."""
    broker = snapshot.broker(broker_id)
    if broker is not None and broker.reachable is True and broker.registered is False:
        stop = REFUSED_STOP if snapshot.cluster.mode is Mode.ZOOKEEPER else UNHEARD_STOP
        return f"answers but is not registered; {stop}; {only_there(snapshot, broker_id)}"
    apart = broker_id in {v.id for v in snapshot.controllers_apart()}
    stale = broker_id in stale_brokers(snapshot)
    if broker_id == active_controller(snapshot) and not stale:
        return "the active controller, after the other controllers" if apart else "the active controller, last"
    if apart:
        return "a controller, before the brokers"
    if stale:
        return f"its view of the cluster is stale, so it restarts first; {only_there(snapshot, broker_id)}"
    if not _ready(snapshot, broker_id):
        return "not ready, so before the ready brokers"
    return ""


def only_there(snapshot: Snapshot, broker_id: int) -> str:
    """What a restart of a stale broker would lose."""
    view = next((v for v in snapshot.views or () if v.broker == broker_id), None)
    if view is None or view.diverged is None or any(log.records is None for log in view.diverged):
        return "how many records only it holds is not known"
    lost = [(log.tp, log.records) for log in view.diverged if log.records]
    if not lost:
        return "it holds no record that the others lack"
    each = ", ".join(f"{tp}: {records}" for tp, records in lost[:5]) + (", ..." if len(lost) > 5 else "")
    return f"it loses {many(sum(records or 0 for _, records in lost), 'record')} that only it holds ({each})"


def _ready(snapshot: Snapshot, node: int) -> bool:
    broker, pod = snapshot.broker(node), snapshot.pod_of(node)
    return (broker is None or broker.live) and pod is not None and pod.ready is True
