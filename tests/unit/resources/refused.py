"""Objects that must be refused, by these types and by the API server alike.

Each with the field that has to be named, and whether the API server can tell as well: what it cannot express (unique
names across two lists, whether a default fits its type) is left to the operator's own check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.unit.resources.sources import changed


@dataclass(frozen=True)
class Refused:
    """One bad field of one kind."""

    kind: str
    path: str
    value: Any
    named: str
    by_server: bool = True

    @property
    def object(self) -> dict[str, Any]:
        return changed(self.kind, self.path, self.value)

    def __str__(self) -> str:
        return f"{self.kind}-{self.path}-{self.value}".replace(" ", "")[:80]


CLUSTER, PLAYBOOK, REMEDIATION, APPROVAL = "KafkaCluster", "Playbook", "Remediation", "RemediationApproval"
_WINDOW = {"days": ["Mon"], "start": "09:00", "end": "17:00"}
_VERIFY = {"probe": "FindingGone", "within": "5m"}
_STEP = {"name": "a", "action": "ReassignPartitions", "verify": _VERIFY}

REFUSED: tuple[Refused, ...] = (
    Refused(CLUSTER, "spec.bootstrapServers", "no-port", "spec.bootstrapServers"),
    Refused(CLUSTER, "spec.bootstrapServers", "", "spec.bootstrapServers"),
    Refused(CLUSTER, "spec.bootstrapServer", "a:1", "spec.bootstrapServer"),
    Refused(CLUSTER, "spec.security", {"protocol": "SASL_SSL"}, "spec.security"),
    Refused(
        CLUSTER,
        "spec.security",
        {"sasl": {"mechanism": "PLAIN", "secretRef": {"name": "s"}}},
        "spec.security",
    ),
    Refused(
        CLUSTER,
        "spec.security",
        {"protocol": "SASL_PLAINTEXT", "sasl": {"mechanism": "PLAIN", "secretRef": {"name": "s"}}},
        "spec.security",
    ),
    Refused(CLUSTER, "spec.security", {"tls": {"certSecretRef": {"name": "s"}}}, "spec.security"),
    Refused(CLUSTER, "spec.security.protocol", "ssl", "spec.security.protocol"),
    Refused(CLUSTER, "spec.metadata.zookeeper.connect", "zk", "spec.metadata.zookeeper.connect"),
    Refused(CLUSTER, "spec.brokers.podSelector", {}, "spec.brokers.podSelector"),
    Refused(
        CLUSTER,
        "spec.brokers",
        {"podSelector": {"matchLabels": {"a": "b"}}, "idFrom": "Label"},
        "spec.brokers",
    ),
    Refused(
        CLUSTER,
        "spec.brokers",
        {"podSelector": {"matchLabels": {"a": "b"}}, "idKey": "broker-id"},
        "spec.brokers",
    ),
    Refused(
        CLUSTER,
        "spec.brokers.podSelector.matchExpressions",
        [{"key": "a", "operator": "In"}],
        "spec.brokers.podSelector.matchExpressions[0]",
    ),
    Refused(CLUSTER, "spec.expectations.replicationFactor", 0, "spec.expectations.replicationFactor"),
    Refused(CLUSTER, "spec.expectations.replicationFactor", "3", "spec.expectations.replicationFactor"),
    Refused(CLUSTER, "spec.expectations.replicationFactor", 2, "spec.expectations"),
    Refused(CLUSTER, "spec.expectations.minInSyncReplicas", 3, "spec.expectations"),
    Refused(CLUSTER, "spec.expectations.topics", [{"pattern": "["}], "spec.expectations.topics[0].pattern"),
    Refused(
        CLUSTER,
        "spec.expectations.topics",
        [{"pattern": "a", "replicationFactor": 2, "minInSyncReplicas": 2}],
        "spec.expectations.topics[0]",
    ),
    Refused(CLUSTER, "spec.probes.interval", "15", "spec.probes.interval"),
    Refused(CLUSTER, "spec.probes.interval", "0s", "spec.probes.interval"),
    Refused(CLUSTER, "spec.probes.interval", "2h", "spec.probes.interval"),
    Refused(CLUSTER, "spec.probes.metricsPort", 0, "spec.probes.metricsPort"),
    Refused(CLUSTER, "spec.remediation.mode", "auto", "spec.remediation.mode"),
    Refused(CLUSTER, "spec.remediation.approvals.required", 0, "spec.remediation.approvals.required"),
    Refused(CLUSTER, "spec.remediation.approvals.expireAfter", "1s", "spec.remediation.approvals.expireAfter"),
    Refused(CLUSTER, "spec.remediation.paused", "yes", "spec.remediation.paused"),
    Refused(CLUSTER, "spec.remediation.breaker.openFor", "5s", "spec.remediation.breaker.openFor"),
    Refused(CLUSTER, "spec.remediation.breaker.tryAgainAt", "soon", "spec.remediation.breaker.tryAgainAt"),
    Refused(CLUSTER, "spec.remediation.auto.findings", ["Nonsense"], "spec.remediation.auto.findings[0]"),
    Refused(CLUSTER, "spec.remediation.auto.maxRisk", "Extreme", "spec.remediation.auto.maxRisk"),
    Refused(CLUSTER, "spec.remediation.auto.maxMoves", -1, "spec.remediation.auto.maxMoves"),
    Refused(CLUSTER, "spec.remediation.auto.maxBytes", "1GB", "spec.remediation.auto.maxBytes"),
    Refused(CLUSTER, "spec.remediation.auto.windows", [_WINDOW | {"end": "09:00"}], "spec.remediation.auto.windows[0]"),
    Refused(CLUSTER, "spec.remediation.windows", [_WINDOW | {"start": "9:00"}], "spec.remediation.windows[0].start"),
    Refused(CLUSTER, "spec.remediation.windows", [_WINDOW | {"start": "17:00"}], "spec.remediation.windows[0]"),
    Refused(CLUSTER, "spec.remediation.windows", [_WINDOW | {"days": []}], "spec.remediation.windows[0].days"),
    Refused(CLUSTER, "spec.remediation.windows", [_WINDOW | {"days": ["Mon", "Mon"]}], "spec.remediation.windows[0]"),
    Refused(CLUSTER, "spec.remediation.playbooks", [{"name": "a"}, {"name": "a"}], "spec.remediation"),
    Refused(
        CLUSTER,
        "spec.remediation.playbooks",
        [{"name": "a", "parameters": {"b": True}}],
        "spec.remediation.playbooks[0].parameters",
    ),
    Refused(CLUSTER, "metadata.name", "a" * 64, "metadata.name"),
    Refused(PLAYBOOK, "spec.steps.0.action", "RunScript", "spec.steps[0].action"),
    Refused(PLAYBOOK, "spec.steps.0.guards", ["Nothing"], "spec.steps[0].guards"),
    Refused(PLAYBOOK, "spec.steps.0.guards", ["SourcesFresh", "SourcesFresh"], "spec.steps[0]"),
    Refused(PLAYBOOK, "spec.steps.0.shell", "rm", "spec.steps[0].shell"),
    Refused(PLAYBOOK, "spec.steps.0.name", "Add Replicas", "spec.steps[0].name"),
    Refused(PLAYBOOK, "spec.steps.0.with", {"throttleBytesPerSecond": 1}, "spec"),
    Refused(PLAYBOOK, "spec.steps.0.with", {"deep": {"a": 1}}, "spec.steps[0].with.deep"),
    Refused(PLAYBOOK, "spec.steps.0.verify.consecutive", 0, "spec.steps[0].verify.consecutive"),
    Refused(PLAYBOOK, "spec.steps.0.verify.within", "0s", "spec.steps[0].verify.within"),
    Refused(PLAYBOOK, "spec.steps", [], "spec.steps"),
    Refused(PLAYBOOK, "spec.steps", [_STEP, _STEP], "spec"),
    Refused(PLAYBOOK, "spec.steps", [_STEP | {"name": f"s{n}"} for n in range(21)], "spec.steps"),
    Refused(PLAYBOOK, "spec.trigger.finding", "Unhappy", "spec.trigger.finding"),
    Refused(PLAYBOOK, "spec.trigger.for", "soon", "spec.trigger.for"),
    Refused(PLAYBOOK, "spec.risk", "none", "spec.risk"),
    Refused(PLAYBOOK, "spec.parameters.0.type", "float", "spec.parameters[0].type"),
    Refused(PLAYBOOK, "spec.parameters.0.maximum", 0, "spec.parameters[0]"),
    Refused(PLAYBOOK, "spec.parameters.0.default", "many", "spec.parameters[0]", by_server=False),
    Refused(PLAYBOOK, "spec.parameters.0.default", 0, "spec.parameters[0]", by_server=False),
    Refused(
        PLAYBOOK,
        "spec.parameters",
        [{"name": "a", "type": "string", "minimum": 1}],
        "spec.parameters[0]",
    ),
    Refused(PLAYBOOK, "spec.parameters", [{"name": "a", "type": "string"}, {"name": "a", "type": "string"}], "spec"),
    Refused(REMEDIATION, "spec.requestedBy", None, "spec"),
    Refused(REMEDIATION, "spec.cause", {"findingId": "a", "findingType": "BrokerDown"}, "spec"),
    Refused(REMEDIATION, "spec.playbook.digest", "sha256:0", "spec.playbook.digest"),
    Refused(REMEDIATION, "spec.clusterRef.uid", "", "spec.clusterRef.uid"),
    Refused(REMEDIATION, "spec.parameters", {"a": 1}, "spec.parameters.a"),
    Refused(REMEDIATION, "spec.parameters", {"a": "b" * 1025}, "spec.parameters.a"),
    Refused(APPROVAL, "spec.planDigest", "latest", "spec.planDigest"),
    Refused(APPROVAL, "spec.decision", "Yes", "spec.decision"),
    Refused(APPROVAL, "spec.approver", "", "spec.approver"),
    Refused(APPROVAL, "spec.reason", "b" * 1025, "spec.reason"),
    Refused(APPROVAL, "spec.remediationRef.name", "Not A Name", "spec.remediationRef.name"),
)
