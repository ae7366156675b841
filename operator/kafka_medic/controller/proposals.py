"""Which finding deserves which Remediation. Pure: the shell creates what comes out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from kafka_medic.cluster.snapshot import Snapshot
from kafka_medic.diagnose.finding import Finding
from kafka_medic.guard.breaker import BreakerState, breaker
from kafka_medic.guard.other_runs import OtherRun
from kafka_medic.playbook.acceptance import check
from kafka_medic.playbook.nothing_to_do import had_nothing_to_do
from kafka_medic.playbook.registry import once_for_a_finding, takes_back
from kafka_medic.playbook.triggers import SHIPPED, covers, is_due, is_for, place
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.phases import ACTING_PHASES, TERMINAL_PHASES, Phase
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import (
    MAX_INLINE_CHANGES,
    Elections,
    LogDirMoves,
    ReplicaRemovals,
)
from kafka_medic.resources.vocabulary import API_VERSION, RemediationMode, Severity

GAVE_UP = (Phase.REJECTED, Phase.EXPIRED, Phase.FAILED, Phase.ABORTED)
READ_AFTER = 120.0
"""Seconds: the operator reads the log directories of a quiet cluster each 45 s."""
DELETE_DELAY = "log.segment.delete.delay.ms"
"""After which a broker deletes the files of a removed replica (LogManager.deleteLogs)."""
USUAL_DELAY = 60.0
"""Seconds: Kafka's default."""
ROOM_AFTER = USUAL_DELAY + READ_AFTER


def due(
    cluster: KafkaCluster,
    findings: Sequence[Finding],
    playbooks: Mapping[str, Playbook],
    runs: Sequence[Remediation],
    now: datetime,
    delays: Mapping[str, float] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """The Remediations to create now, one for each playbook at most: several findings of a type have one cure, unless
    its plan is about the broker of its cause alone. The cure of the gravest finding comes first, then that of the
    oldest.

    Of the playbooks that are for a finding the first in their order is proposed, and only once no run of another one
    is open. A plan that was rejected, expired, failed or was stopped by a person is not proposed again while the same
    findings last: a person has seen it, and deleting that Remediation asks for a new one. The next playbook in the
    order is proposed instead. In mode Auto a plan may expire before the next window, so that one is made anew. One that
    was superseded, because the cluster was no longer as planned, is proposed again; an owner's own, which had nothing
    to do, is not.

    `delays`: see `delete_delays`.

    A person's request blocks a proposal only while it acts. Otherwise everybody who may request a run could keep
    the operator from proposing anything.
    """
    policy = cluster.spec.remediation
    if breaker(policy.breaker, [OtherRun.of(r) for r in runs], now).state is BreakerState.OPEN:
        return []  # it would be dropped at once
    able = [
        p
        for p in sorted(playbooks.values(), key=place)
        if policy.mode_for(p.name) is not RemediationMode.OBSERVE and covers(p, cluster)
    ]
    of = {
        p.name: [r for r in runs if r.spec.playbook.name == p.name and r.spec.cluster_ref.uid == cluster.uid]
        for p in playbooks.values()
    }
    auto = {p.name for p in able if policy.mode_for(p.name) is RemediationMode.AUTO}
    heard = {name: [r for r in runs if name not in auto or not _unanswered(r)] for name, runs in of.items()}
    cures = [p for p in able if not takes_back(p)]
    fresh: dict[str, list[Finding]] = {}
    for finding in findings:
        cure = None if _room_comes(finding, heard, now, delays) else _cure(finding, cures, heard, now)
        if cure is not None and not _being_treated(finding, cure, playbooks, of):
            fresh.setdefault(cure.name, []).append(finding)
    ways_back = [p for p in able if takes_back(p)]
    for ended in _over(cluster, playbooks, findings, runs):
        way_back = _way_back(ended, ways_back, playbooks, of)
        if way_back is not None:
            fresh.setdefault(way_back.name, []).append(ended)
    chosen: list[tuple[Finding, dict[str, Any]]] = []
    for playbook in able:
        known = [r for r in of[playbook.name] if r.spec.cause is not None]
        acting = any(r.status.phase in ACTING_PHASES for r in of[playbook.name])
        open_ = [r for r in known if r.status.phase not in TERMINAL_PHASES]
        left = [f for f in fresh.get(playbook.name, ()) if not any(_answers_for(r, f, playbook) for r in open_)]
        if acting or not left:
            continue
        cause = min(left, key=_urgency)
        chosen.append((cause, _body(cluster, playbook, cause, known)))
    return [body for _, body in sorted(chosen, key=lambda c: _urgency(c[0]))]


Runs = Mapping[str, Sequence[Remediation]]
"""Of this KafkaCluster, by the name of their playbook."""


def _cure(finding: Finding, able: Sequence[Playbook], of: Runs, now: datetime) -> Playbook | None:
    """The first playbook in their order that is due for the finding and was not declined for it. What is done once for
    a finding is not done again by another playbook; the others follow all the same."""
    drained = False
    for playbook in able:
        known = [r for r in of[playbook.name] if r.spec.cause is not None]
        if not is_due(playbook, finding, now) or _idle(finding, playbook, known):
            continue
        if once_for_a_finding(playbook):
            drained = drained or _drained(finding, known)
            if drained:
                continue
        declined = _declined(finding, [r for r in known if _answers_for(r, finding, playbook)])
        if not declined and not _did_not_cure(finding, playbook, known) and _runs(playbook):
            return playbook
    return None


def _answers_for(run: Remediation, finding: Finding, playbook: Playbook) -> bool:
    """Whether the plan of that proposal, and what a person said of it, is about that finding as well. Where it is about
    the broker of its cause alone, nobody was asked about another one."""
    if run.spec.cause is not None and run.spec.cause.finding_id == finding.id:
        return True
    brokers = playbook.spec.parameter("brokers")
    return run.spec.parameters.get("brokers", brokers.default if brokers else None) != "cause"


def delete_delays(snapshot: Snapshot) -> dict[str, float]:
    """By broker that reports it: the seconds after which it deletes the files of a removed replica."""
    told = ((b.id, snapshot.config("BROKER", str(b.id), DELETE_DELAY)) for b in snapshot.brokers or ())
    return {str(b): int(v.value) / 1000 for b, v in told if v is not None and (v.value or "").isdecimal() and v.value}


def _room_comes(finding: Finding, of: Runs, now: datetime, delays: Mapping[str, float]) -> bool:
    """Whether a run, whoever asked for it, has just removed replicas from that broker, or moved them between its log
    directories, so that Kafka still has to delete their files. `delays`: as in `delete_delays`. A broker that reports
    none counts as the slowest of the others, and as Kafka's default at least."""
    if finding.type != "DiskFilling":
        return False
    broker = finding.id.rpartition("/broker-")[2]
    since = (at for runs in of.values() for run in runs for at in _makes_room(run, broker))
    delay = delays.get(broker, max([USUAL_DELAY, *delays.values()]))
    return any(abs((now - at).total_seconds()) < delay + READ_AFTER for at in since)


def _makes_room(run: Remediation, broker: str) -> Iterator[datetime]:
    """When Kafka was left with files to delete on that broker."""
    plan = run.status.plan
    if plan is None:
        return
    changes = plan.part(ReplicaRemovals).each()
    if any(str(b) == broker for c in changes for b in set(c.replicas_before) - set(c.replicas)):
        yield from (e.done_at or e.last_asked for e in run.status.journal if e.kind == "DropReplicas")
    if broker in map(str, plan.part(LogDirMoves).brokers) and run.status.finished_at is not None:
        yield run.status.finished_at


def _being_treated(finding: Finding, cure: Playbook, playbooks: Mapping[str, Playbook], of: Runs) -> bool:
    """Whether a run of another playbook is open for the same finding, or acts at a person's request."""
    others = [p for p in playbooks.values() if p.name != cure.name and not takes_back(p)]
    return any(_open(run) and _is_about(run, finding, p) for p in others for run in of[p.name])


def _is_about(run: Remediation, finding: Finding, playbook: Playbook) -> bool:
    cause = run.spec.cause
    return is_for(playbook, finding) if cause is None else cause.finding_id == finding.id


def _open(run: Remediation) -> bool:
    """Whether it holds up proposals: what a person asked for does so only while it acts."""
    phase = run.status.phase
    return phase in ACTING_PHASES or (run.spec.cause is not None and phase not in TERMINAL_PHASES)


def _runs(playbook: Playbook) -> bool:
    try:
        check(playbook)
    except ResourceError:
        return False  # its own status says why
    return True


def _idle(finding: Finding, playbook: Playbook, runs: Sequence[Remediation]) -> bool:
    """Whether an owner's own playbook, as it is, had nothing to do about that finding. A shipped one treats what the
    diagnosis says that it can cure, so that this passes."""
    return playbook.name not in SHIPPED and any(
        had_nothing_to_do(r.status)
        and r.spec.playbook.digest == playbook.digest()
        and r.spec.cause is not None
        and r.spec.cause.finding_id == finding.id
        and finding.since is not None
        and _since(r, finding.since)
        for r in runs
    )


def _did_not_cure(finding: Finding, playbook: Playbook, runs: Sequence[Remediation]) -> bool:
    """Whether an owner's own playbook has succeeded for that finding, which lasts all the same. Not so where the plan
    was too long for one run."""
    return playbook.name not in SHIPPED and any(
        r.status.phase is Phase.SUCCEEDED
        and r.spec.cause is not None
        and r.spec.cause.finding_id == finding.id
        and finding.since is not None
        and _since(r, finding.since)
        and r.status.plan is not None
        and (r.status.plan.partitions or 0) < MAX_INLINE_CHANGES
        for r in runs
    )


def _urgency(finding: Finding) -> tuple[int, datetime]:
    """Smallest first."""
    return -list(Severity).index(finding.severity), finding.since or datetime.max.replace(tzinfo=UTC)


def in_order(runs: Sequence[Remediation]) -> list[Remediation]:
    """Those that have begun first, then by the severity of what they cure, then by age. Which of them acts does not
    rest on this order (`guard.precedence`): a run that is decided before another one only learns of it later."""
    active = [r for r in runs if r.status.phase not in TERMINAL_PHASES]
    return sorted(active, key=lambda r: (r.status.phase not in ACTING_PHASES, -OtherRun.of(r).gravity))


def _over(
    cluster: KafkaCluster,
    playbooks: Mapping[str, Playbook],
    findings: Sequence[Finding],
    runs: Sequence[Remediation],
) -> Iterator[Finding]:
    """What drains were made for and is over. Over is what neither this observation nor the last one
    found: one that could not be read stays in the status."""
    lasting = {f.id for f in findings} | {f.id for f in cluster.status.findings}
    for drain in runs:
        cause, plan, ended = drain.spec.cause, drain.status.plan, drain.status.finished_at
        if drain.status.phase is not Phase.SUCCEEDED or cause is None or plan is None or ended is None:
            continue
        made_by = playbooks.get(drain.spec.playbook.name)
        if cause.finding_id in lasting or (made_by is not None and takes_back(made_by)) or _gave_back(drain):
            continue
        if not plan.drained():
            continue
        yield Finding(cause.finding_id, cause.finding_type, Severity.INFO, "is over", (), (), since=ended)


def _gave_back(run: Remediation) -> bool:
    """Whether it made the broker of its cause a leader, which no drain does: its playbook may be gone by now."""
    cause, plan = run.spec.cause, run.status.plan
    broker = cause.finding_id.rpartition("/broker-")[2] if cause is not None else ""
    return plan is not None and any(str(e.broker) == broker for e in plan.part(Elections).elections)


def _way_back(
    over: Finding, ways_back: Sequence[Playbook], playbooks: Mapping[str, Playbook], of: Runs
) -> Playbook | None:
    """The first playbook in their order that takes that drain back and was not declined for it; none once a run of any
    of them has followed it."""
    follows = {p.name: [r for r in of[p.name] if _follows(r, over)] for p in playbooks.values() if takes_back(p)}
    if any(not _left_to_others(r) for runs in follows.values() for r in runs):
        return None
    for playbook in ways_back:
        # A shipped one takes back whatever a drain was for.
        fits = playbook.name in SHIPPED or playbook.spec.trigger.finding.value == over.type
        if fits and not follows[playbook.name] and _runs(playbook):
            return playbook
    return None


def _left_to_others(run: Remediation) -> bool:
    """Whether it was declined, or is an owner's own that had nothing to do."""
    own = run.spec.playbook.name not in SHIPPED
    return run.status.phase in GAVE_UP or (own and had_nothing_to_do(run.status))


def _never_begun(run: Remediation) -> bool:
    """Whether something else than its own plan has ended it: its playbook was changed, say."""
    status = run.status
    return status.phase is Phase.SUPERSEDED and status.started_at is None and not had_nothing_to_do(status)


def _follows(run: Remediation, over: Finding) -> bool:
    """Whether it was proposed for that end."""
    cause = run.spec.cause
    open_ = run.status.phase not in TERMINAL_PHASES
    return (
        cause is not None
        and not _never_begun(run)
        and cause.finding_id == over.id
        and over.since is not None
        and (open_ or _since(run, over.since))
    )


def _declined(finding: Finding, runs: Sequence[Remediation]) -> bool:
    return any(r.status.phase in GAVE_UP and finding.since is not None and _since(r, finding.since) for r in runs)


def _unanswered(run: Remediation) -> bool:
    """Whether there was a plan, which nobody has approved or rejected in time."""
    return run.status.phase is Phase.EXPIRED and run.status.plan is not None


def _since(run: Remediation, moment: datetime) -> bool:
    """Whether a run that has ended was planned, or found nothing to plan, at `moment` or later. The operator's clock
    dates findings, plans and ends, and the API server's an object's creation."""
    planned = run.status.plan.proposed_at if run.status.plan is not None else run.status.finished_at
    return planned is not None and planned >= moment


def _drained(finding: Finding, runs: Sequence[Remediation]) -> bool:
    """A machine may be about to go for days: its broker is drained once, or found to lead nothing once. Not so where
    a plan was too long for one run, or the run was dropped, or stopped because the cluster changed under it."""

    def enough(run: Remediation) -> bool:
        plan = run.status.plan
        if run.status.phase is Phase.SUPERSEDED:
            return had_nothing_to_do(run.status)
        return run.status.phase is Phase.SUCCEEDED and (plan is None or (plan.partitions or 0) < MAX_INLINE_CHANGES)

    return any(
        enough(r)
        and r.spec.cause is not None
        and r.spec.cause.finding_id == finding.id
        and finding.since is not None
        and _since(r, finding.since)
        for r in runs
    )


def renamed(body: Mapping[str, Any], taken_by: str) -> dict[str, Any]:
    """The same proposal under the name that follows where the object of that uid has its name. After a crash it is the
    same one, and however many names were taken, a next one follows."""
    stem, _, suffix = body["metadata"]["name"].rpartition("-")
    following = hashlib.sha256(f"{suffix}/{taken_by}".encode()).hexdigest()[:_SUFFIX]
    return {**body, "metadata": {**body["metadata"], "name": f"{stem}-{following}"}}


def is_that_proposal(found: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Whether the object under a proposal's name is the proposal itself, which an earlier reconcile has created."""
    spec, wanted = found.get("spec"), body["spec"]
    if not isinstance(spec, Mapping) or found["metadata"].get("deletionTimestamp") is not None:
        return False
    return {"parameters": {}, **spec} == wanted and found["metadata"].get("ownerReferences") is not None


_SUFFIX = 6


def _body(cluster: KafkaCluster, playbook: Playbook, finding: Finding, known: Sequence[Remediation]) -> dict[str, Any]:
    """The name is made of what it is for and how many there were, so that two reconciles cannot create it twice."""
    override = cluster.spec.remediation.override(playbook.name)
    parameters = {k: str(v) for k, v in (override.parameters if override else {}).items()}
    seed = f"{cluster.uid}/{finding.id}/{sorted(r.uid or '' for r in known)}"
    suffix = hashlib.sha256(seed.encode()).hexdigest()[:_SUFFIX]
    return {
        "apiVersion": API_VERSION,
        "kind": Remediation.KIND,
        "metadata": {
            "name": f"{cluster.name[:180]}-{playbook.name[:60]}-{suffix}",
            "namespace": cluster.namespace,
            "labels": {"app.kubernetes.io/managed-by": "kafka-medic"},
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": cluster.KIND,
                    "name": cluster.name,
                    "uid": cluster.uid,
                }
            ],
        },
        "spec": {
            "clusterRef": {"name": cluster.name, "uid": cluster.uid},
            "playbook": {"name": playbook.name, "digest": playbook.digest()},
            "parameters": parameters,
            "cause": {"findingId": finding.id, "findingType": finding.type},
        },
    }
