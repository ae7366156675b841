"""Who keeps the metadata: the active controller, and the KRaft quorum or the ZooKeeper ensemble."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_medic.cluster.quorum import FETCH_TIMEOUT_MS
from kafka_medic.cluster.snapshot import Mode, Quorum, Voter
from kafka_medic.diagnose.columns import some
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.scene import Scene, blind
from kafka_medic.report.units import many
from kafka_medic.resources.vocabulary import Severity

CONTROLLER_FOR = 30.0
QUORUM_FOR = 30.0


def detect(scene: Scene) -> Iterator[Finding]:
    """ControllerMissing, QuorumDegraded."""
    if not blind(scene):
        yield from _controller(scene)
    yield from _quorum(scene)


def _controller(scene: Scene) -> Iterator[Finding]:
    controller = scene.snapshot.controller
    zookeeper = scene.snapshot.cluster.mode is Mode.ZOOKEEPER
    source = "zookeeper" if zookeeper else "quorum"
    # A null controller is one that could not be read; only one that was read and is nobody is missing.
    if controller is None or scene.unknown(source) or (controller.id is not None and controller.id >= 0):
        return
    where = "no broker is registered as controller" if zookeeper else "the quorum has no leader"
    cure = (
        "check that the brokers reach ZooKeeper; one of them then becomes controller"
        if zookeeper
        else "check that a majority of the voters runs and that they reach each other; they then elect one"
    )
    yield Finding(
        id="ControllerMissing",
        type="ControllerMissing",
        severity=Severity.CRITICAL,
        message="the cluster has no active controller, so no leader can be elected",
        affected=("controller",),
        evidence=(
            f"{where}, {scene.read_from(source, 'kafka')}",
            f"{cure}. The operator restarts no broker until then: no controller would elect other leaders",
        ),
        for_seconds=CONTROLLER_FOR,
    )


def _quorum(scene: Scene) -> Iterator[Finding]:
    quorum, mode = scene.snapshot.quorum, scene.snapshot.cluster.mode
    if quorum is None or mode is None or not quorum.voters:
        return
    zookeeper = mode is Mode.ZOOKEEPER
    behind = [v for v in quorum.voters if (_not_serving(v) if zookeeper else _behind(v, quorum))]
    if not behind:
        return
    total = len(quorum.voters)
    good = total - len(behind)
    kind = "ZooKeeper servers" if zookeeper else "KRaft voters"
    lost = good * 2 <= total
    yield Finding(
        id="QuorumDegraded",
        type="QuorumDegraded",
        severity=Severity.CRITICAL if lost or (good - 1) * 2 <= total else Severity.WARNING,
        message=f"{good} of {total} {kind} are {'serving' if zookeeper else 'caught up'}"
        + (", which is no majority" if lost else ""),
        affected=tuple(f"{'zookeeper' if zookeeper else 'voter'}-{v.id}" for v in behind),
        evidence=(
            some([_described(v, quorum, zookeeper) for v in behind]),
            scene.read_from(*(("ensemble", "zookeeper") if zookeeper else ("quorum",)), "kafka"),
        ),
        for_seconds=QUORUM_FOR,
    )


def _not_serving(voter: Voter) -> bool:
    """In the ensemble a null lag does say something: that server does not serve."""
    return voter.lag is None


def _behind(voter: Voter, quorum: Quorum) -> bool:
    if voter.id == quorum.leader:
        return False
    if voter.last_caught_up_ms is None:
        # The leader tells its own time always, and of another voter none until that one has fetched from it (KIP-836).
        # A broker older than that tells none of anybody.
        return any(v.id == quorum.leader and v.last_caught_up_ms is not None for v in quorum.voters)
    return voter.last_caught_up_ms >= FETCH_TIMEOUT_MS


def _described(voter: Voter, quorum: Quorum, zookeeper: bool) -> str:
    if zookeeper:
        return f"server {voter.id} does not serve"
    if voter.last_caught_up_ms is None:
        return f"voter {voter.id} has not caught up since voter {quorum.leader} leads"
    lag = "" if voter.lag is None else f" and is {many(voter.lag, 'record')} behind"
    return f"voter {voter.id} last caught up {voter.last_caught_up_ms} ms ago{lag}"
