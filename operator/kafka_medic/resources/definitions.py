"""The CustomResourceDefinitions: names, printer columns and schemas of the five kinds.

https://kubernetes.io/docs/reference/kubernetes-api/extend-resources/custom-resource-definition-v1/
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .approval import RemediationApproval
from .base import Model, Resource
from .cel import VALIDATIONS, rule
from .digest import sha256_digest
from .kafkacluster import KafkaCluster
from .plan_part import PlanPart
from .playbook import Playbook
from .remediation import Remediation
from .schema import SchemaError, structural_schema
from .vocabulary import API_VERSION, CATEGORY, GROUP, VERSION

SCHEMA_DIGEST_ANNOTATION = f"{GROUP}/schema-digest"
"""On each CustomResourceDefinition. A server with an older one silently prunes newer fields, even the
journal's; the operator compares the digest before it writes."""

_SHORT_NAME = rule(
    "self.metadata.name.size() <= 63",
    "metadata.name is too long (limit 63 characters, because it becomes a label value); choose a shorter name",
)
_STATUS_RULES = (
    rule("!has(oldSelf.status) || has(self.status)", "status cannot be removed"),
    # Not on the phase itself: there, the API server skips a rule with oldSelf when there was no phase.
    rule(
        "!has(self.status) || !has(self.status.phase) || self.status.phase == 'Planning'"
        " || (has(oldSelf.status) && has(oldSelf.status.phase))",
        "the first status.phase must be Planning",
    ),
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0
    """0 is always shown, 1 with `-o wide`."""
    description: str = ""

    def to_kubernetes(self) -> dict[str, Any]:
        """As the CustomResourceDefinition has it."""
        column: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        if self.priority:
            column["priority"] = self.priority
        if self.description:
            column["description"] = self.description
        return column


_AGE = Column("Age", ".metadata.creationTimestamp", "date")


def _condition(type_: str, field: str = "status") -> str:
    return f'.status.conditions[?(@.type=="{type_}")].{field}'


@dataclass(frozen=True, slots=True)
class Definition:
    """The CustomResourceDefinition of one kind."""

    resource: type[Resource]
    singular: str
    short_name: str
    scope: str
    columns: Sequence[Column]
    rules: Sequence[dict[str, str]] = ()

    @property
    def file_name(self) -> str:
        """Where it lies under crds/."""
        return f"{self.resource.PLURAL}.{GROUP}.yaml"

    def schema(self) -> dict[str, Any]:
        """The whole object's structural schema."""
        fields = self.resource.model_fields
        properties: dict[str, Any] = {
            "apiVersion": {"description": f"{API_VERSION}.", "type": "string"},
            "kind": {"description": f"{self.resource.KIND}.", "type": "string"},
            "metadata": {"type": "object"},
            "spec": structural_schema(_model(fields["spec"].annotation)),
        }
        properties["spec"].pop("default", None)  # it is required
        if "status" in fields:
            properties["status"] = structural_schema(_model(fields["status"].annotation), with_defaults=False)
        schema: dict[str, Any] = {
            "description": (self.resource.__doc__ or "").strip(),
            "type": "object",
            "required": ["spec"],
            "properties": properties,
        }
        return schema | ({VALIDATIONS: list(self.rules)} if self.rules else {})

    def schema_digest(self) -> str:
        """What SCHEMA_DIGEST_ANNOTATION has to be."""
        return sha256_digest(self.schema())

    def to_kubernetes(self) -> dict[str, Any]:
        """The CustomResourceDefinition."""
        schema = self.schema()
        version: dict[str, Any] = {
            "name": VERSION,
            "served": True,
            "storage": True,
            "additionalPrinterColumns": [column.to_kubernetes() for column in self.columns],
            "schema": {"openAPIV3Schema": schema},
        }
        if "status" in self.resource.model_fields:
            version["subresources"] = {"status": {}}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": f"{self.resource.PLURAL}.{GROUP}",
                "annotations": {SCHEMA_DIGEST_ANNOTATION: sha256_digest(schema)},
                "labels": {
                    "app.kubernetes.io/name": "kafka-medic",
                    "app.kubernetes.io/part-of": "kafka-medic",
                },
            },
            "spec": {
                "group": GROUP,
                "names": {
                    "kind": self.resource.KIND,
                    "listKind": f"{self.resource.KIND}List",
                    "plural": self.resource.PLURAL,
                    "singular": self.singular,
                    "shortNames": [self.short_name],
                    "categories": [CATEGORY],
                },
                "scope": self.scope,
                "versions": [version],
            },
        }


def _model(annotation: Any) -> type[Model]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation
    raise SchemaError(f"{annotation} is not a model")


DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        resource=KafkaCluster,
        singular="kafkacluster",
        short_name="kmc",
        scope="Namespaced",
        rules=(_SHORT_NAME,),
        columns=(
            Column("Ready", _condition("Ready")),
            Column("Reason", _condition("Ready", "reason")),
            Column("Findings", ".status.findingsTotal", "integer"),
            Column("Brokers", ".status.brokers.reachable", "integer"),
            Column("Metadata", ".status.metadata", description="KRaft or ZooKeeper."),
            Column("Version", ".status.version"),
            Column("Mode", ".spec.remediation.mode", description="Observe, Approve or Auto."),
            Column("Reachable", _condition("Reachable"), priority=1),
            Column("Replicated", _condition("Replicated"), priority=1),
            Column("Paused", ".spec.remediation.paused", "boolean", priority=1),
            Column("Observed", ".status.lastObservedAt", "date", priority=1),
            Column("Message", _condition("Ready", "message"), priority=1),
            _AGE,
        ),
    ),
    Definition(
        resource=Playbook,
        singular="playbook",
        short_name="kmp",
        scope="Cluster",
        rules=(_SHORT_NAME,),
        columns=(
            Column("Treats", ".spec.trigger.finding"),
            Column("Risk", ".spec.risk"),
            Column("Accepted", _condition("Accepted")),
            Column("Reason", _condition("Accepted", "reason")),
            Column("Digest", ".status.digest", priority=1),
            Column("Message", _condition("Accepted", "message"), priority=1),
            _AGE,
        ),
    ),
    Definition(
        resource=Remediation,
        singular="remediation",
        short_name="kmr",
        scope="Namespaced",
        rules=_STATUS_RULES,
        columns=(
            Column("Cluster", ".spec.clusterRef.name"),
            Column("Playbook", ".spec.playbook.name"),
            Column("Risk", ".status.risk"),
            Column("Phase", ".status.phase"),
            Column("Step", ".status.currentStep"),
            Column("Approved By", ".status.approvedBy"),
            # A string, not a date: kubectl shows the age of a date, and that of one to come as <invalid>.
            Column("Expires", ".status.plan.expiresAt"),
            Column("Digest", ".status.plan.digest", priority=1),
            Column("Waits For", '.status.waitingFor[?(@.guard=="NoOtherRemediation")].remediation', priority=1),
            Column("Message", ".status.message", priority=1),
            _AGE,
        ),
    ),
    Definition(
        resource=RemediationApproval,
        singular="remediationapproval",
        short_name="kmra",
        scope="Namespaced",
        columns=(
            Column("Remediation", ".spec.remediationRef.name"),
            Column("Decision", ".spec.decision"),
            Column("Approver", ".spec.approver"),
            Column("Digest", ".spec.planDigest", priority=1),
            Column("Reason", ".spec.reason", priority=1, description="Reason that the approver gave."),
            _AGE,
        ),
    ),
    Definition(
        resource=PlanPart,
        singular="planpart",
        short_name="kmpp",
        scope="Namespaced",
        columns=(
            Column("Remediation", ".spec.remediationRef.name"),
            Column("Part", ".spec.part", "integer"),
            Column("Parts", ".spec.parts", "integer"),
            _AGE,
        ),
    ),
)
