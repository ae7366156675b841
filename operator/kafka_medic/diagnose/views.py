"""Brokers whose account of the cluster differs from what is decided, and partitions on which nothing is decided."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_medic.cluster.agreement import Disagreement, agreement
from kafka_medic.cluster.snapshot import Mode, Snapshot
from kafka_medic.diagnose.columns import some
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.scene import Scene, broker_name
from kafka_medic.report.units import many
from kafka_medic.resources.vocabulary import Severity

DIVERGED_FOR = 30.0
"""Seconds: two probes at the default interval. An election reaches every broker within one."""

MAX_EXAMPLES = 5


def detect(scene: Scene) -> Iterator[Finding]:
    """ViewDiverged, one for each broker whose account differs; MetadataUndecided."""
    found = agreement(scene.snapshot)
    for _, one in sorted(found.disagreements.items()):
        yield _diverged(scene, one)
    if found.undecided:
        yield _undecided(scene)


def _diverged(scene: Scene, one: Disagreement) -> Finding:
    broker, stale = one.broker, one.beliefs.num_rows
    evidence = [f"broker {broker}, {scene.read_from('views', 'kafka')}:"]
    if one.absent:
        evidence.append(f"lacks the registered {_ids(one.absent)}")
    if one.ghosts:
        evidence.append(f"still lists {_ids(one.ghosts)}, not registered, as a member")
    if one.controller is not None and scene.snapshot.controller is not None:
        actual = scene.snapshot.controller.id
        evidence.append(f"reports broker {one.controller} as controller; the controller is broker {actual}")
    if stale:
        more = f" and {stale - MAX_EXAMPLES} more" if stale > MAX_EXAMPLES else ""
        evidence.append(
            f"{many(stale, 'partition differs', 'partitions differ')}: {', '.join(one.examples(MAX_EXAMPLES))}{more}"
        )
    evidence += _only_here(scene.snapshot, broker)
    evidence.append(f"the authority is {_authority(scene.snapshot)}, so broker {broker} is stale: restart it first")
    return Finding(
        id=f"ViewDiverged/{broker_name(broker)}",
        type="ViewDiverged",
        severity=Severity.CRITICAL,
        message=f"broker {broker} has diverged metadata: its view differs from the authority's",
        affected=(broker_name(broker),),
        evidence=tuple(evidence),
        playbook="rolling-restart",
        for_seconds=DIVERGED_FOR,
    )


def _undecided(scene: Scene) -> Finding:
    found = agreement(scene.snapshot)
    examples = [f"{tp}: {'; '.join(found.accounts_of(tp))}" for tp in found.undecided[:MAX_EXAMPLES]]
    return Finding(
        id="MetadataUndecided",
        type="MetadataUndecided",
        severity=Severity.CRITICAL,
        message=(
            f"brokers differ on {many(len(found.undecided), 'partition')}, and neither a majority nor the "
            "controller decides"
        ),
        affected=tuple(map(str, found.undecided)),
        evidence=(
            *examples,
            f"{found.reporting} of {found.voters} registered brokers reported their partitions",
            "the operator changes nothing on these partitions. Compare the brokers' logs, then restart "
            "the stale broker by hand",
            scene.read_from("views", "kafka"),
        ),
        for_seconds=DIVERGED_FOR,
    )


def _only_here(snapshot: Snapshot, broker: int) -> Iterator[str]:
    """How many records the stale broker holds that the cluster does not, per partition."""
    view = next((v for v in snapshot.views or () if v.broker == broker), None)
    if view is None or view.diverged is None:
        yield "which records only it holds could not be measured: read its log before anything restarts it"
        return
    counted = [(log.tp, log.records) for log in view.diverged if log.records]
    unsure = [str(log.tp) for log in view.diverged if log.records is None]
    if counted:
        total = sum(records for _, records in counted if records)
        each = some([f"{tp}: {records}" for tp, records in counted], 10)
        yield (
            f"{many(total, 'record is', 'records are')} only in its own log, and lost at its restart unless saved: "
            f"{each}"
        )
    if unsure:
        yield f"how many records only it holds is not known for {some(unsure, 10)}: no leader to compare with"
    if not counted and not unsure:
        yield "no record is only in its log"


def only_propagating(scene: Scene, before: Scene) -> frozenset[str]:
    """Ids of ViewDiverged findings whose every difference is new since the snapshot before: changes that follow one
    upon another, each still on its way, and not one broker that stays behind."""
    now, then = agreement(scene.snapshot), agreement(before.snapshot)
    return frozenset(
        f"ViewDiverged/{broker_name(broker)}"
        for broker, one in now.disagreements.items()
        if (older := then.disagreements.get(broker)) is not None and not one.lasts_since(older)
    )


def _authority(snapshot: Snapshot) -> str:
    if snapshot.cluster.mode is Mode.ZOOKEEPER:
        return "ZooKeeper's records, else the majority of the brokers"
    return "the majority of the brokers, and the controller if it is a broker"


def _ids(ids: tuple[int, ...]) -> str:
    return ("broker " if len(ids) == 1 else "brokers ") + ", ".join(map(str, ids))
