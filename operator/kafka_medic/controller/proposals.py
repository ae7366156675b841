"""Which finding deserves which Remediation. Pure: the shell creates what comes out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from kafka_medic.diagnose.finding import Finding
from kafka_medic.playbook.parameters import check
from kafka_medic.resources.durations import parse_duration
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.phases import TERMINAL_PHASES, Phase
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.vocabulary import API_VERSION, RemediationMode

GAVE_UP = (Phase.REJECTED, Phase.EXPIRED, Phase.FAILED, Phase.ABORTED)


def due(
    cluster: KafkaCluster,
    findings: Sequence[Finding],
    playbooks: Mapping[str, Playbook],
    runs: Sequence[Remediation],
    now: datetime,
) -> list[dict[str, Any]]:
    """The Remediations to create now, one for each playbook at most: several findings of a type have one cure.

    A plan that was rejected, expired, failed or was stopped by a person is not proposed again while the same
    findings last: a person has seen it, and deleting that Remediation asks for a new one. One that was superseded,
    because the cluster was no longer as planned, is.
    """
    policy = cluster.spec.remediation
    bodies = []
    for name, playbook in sorted(playbooks.items()):
        if policy.mode_for(name) is RemediationMode.OBSERVE:
            continue
        mine = [f for f in findings if _treats(playbook, f, now)]
        known = [r for r in runs if r.spec.playbook.name == name and r.spec.cluster_ref.uid == cluster.uid]
        if not mine or any(r.status.phase not in TERMINAL_PHASES for r in known):
            continue
        fresh = [f for f in mine if not _declined(f, known)]
        if not fresh:
            continue
        try:
            check(playbook)
        except ResourceError:
            continue  # its own status says why
        bodies.append(_body(cluster, playbook, fresh[0], known))
    return bodies


def _treats(playbook: Playbook, finding: Finding, now: datetime) -> bool:
    """Firing, and for as long as the playbook's own `for` asks."""
    trigger = playbook.spec.trigger
    if not finding.firing() or finding.since is None or finding.playbook != playbook.name:
        return False
    return finding.type == trigger.finding.value and (now - finding.since).total_seconds() >= parse_duration(
        trigger.for_
    )


def _declined(finding: Finding, runs: Sequence[Remediation]) -> bool:
    return any(
        r.status.phase in GAVE_UP
        and finding.since is not None
        and r.metadata.creation_timestamp is not None
        and r.metadata.creation_timestamp >= finding.since
        for r in runs
    )


def _body(cluster: KafkaCluster, playbook: Playbook, finding: Finding, known: Sequence[Remediation]) -> dict[str, Any]:
    """The name is made of what it is for and how many there were, so that two turns cannot create it twice."""
    override = cluster.spec.remediation.override(playbook.name)
    parameters = {k: str(v) for k, v in (override.parameters if override else {}).items()}
    seed = f"{cluster.uid}/{finding.id}/{sorted(r.uid or '' for r in known)}"
    suffix = hashlib.sha256(seed.encode()).hexdigest()[:6]
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
