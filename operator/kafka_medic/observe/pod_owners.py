"""Who makes a broker's Pod anew, by its owner reference, and what the owner's own labels say of the Pod.

With Confluent for Kubernetes StatefulSets own the Pods. Koperator owns them itself and makes a Pod that is gone anew,
under another name (`Reconciler.reconcileKafkaPod`, labels by `BrokerConfig.GetBrokerLabels`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_medic.clients.kubernetes_api import Object
from kafka_medic.resources.kafkacluster import STRIMZI_CLUSTER

STATEFUL_SET = ("apps", "StatefulSet")
STRIMZI_POD_SET = ("core.strimzi.io", "StrimziPodSet")
KOPERATOR = ("kafka.banzaicloud.io", "KafkaCluster")
CONFLUENT_GROUP = "platform.confluent.io"
KNOWN = frozenset({STATEFUL_SET, STRIMZI_POD_SET, KOPERATOR})
"""By API group and kind: owners that replace a Pod which is gone, and whose rollouts can be read."""
UNNUMBERED = frozenset({KOPERATOR, ("apps", "ReplicaSet"), ("batch", "Job")})
"""Owners whose Pods' names end in five random letters and digits, now and then in five digits."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller in a Pod's owner references."""

    version: str
    kind: str
    name: str

    @property
    def known_as(self) -> tuple[str, str]:
        return self.version.partition("/")[0], self.kind


@dataclass(frozen=True, slots=True)
class Roles:
    """What one project's labels say a Pod is. `mark`: the label that all of its Pods have. `role`: by the field of spec
    that selects Pods, the label and the value that such a Pod has."""

    mark: str
    role: Mapping[str, tuple[str, str]]
    otherwise: str


STRIMZI_ROLES = {"brokers": "strimzi.io/broker-role", "controllers": "strimzi.io/controller-role"}
"""Strimzi's labels of the Pods of Kafka's nodes, "true" or "false", by the field of spec that selects such Pods."""
ROLES = (
    Roles(
        STRIMZI_CLUSTER,
        {field: (key, "true") for field, key in STRIMZI_ROLES.items()},
        ", or set spec.strimzi in place of it",
    ),
    Roles("kafka_cr", {"brokers": ("isBrokerNode", "true"), "controllers": ("isControllerNode", "true")}, ""),
    Roles(
        "confluent-platform",
        {
            "brokers": ("platform.confluent.io/type", "kafka"),
            "controllers": ("platform.confluent.io/type", "kraftcontroller"),
        },
        "",
    ),
)
KOPERATOR_ID = "brokerId"
"""The label in which Koperator writes a node's id."""


def owner_of(holder: Object) -> Owner | None:
    """The one that manages the object; None where nobody does."""
    found = next((o for o in holder["metadata"].get("ownerReferences") or () if o.get("controller")), None)
    return Owner(found["apiVersion"], found["kind"], found["name"]) if found else None


def roles_of(pod: Object) -> Roles | None:
    """None where the Pod has no labels of a project that is known here."""
    labels = pod["metadata"].get("labels") or {}
    return next((roles for roles in ROLES if roles.mark in labels), None)


def has_another_role(pod: Object, field: str) -> bool:
    """Whether its labels say that the Pod is something else than what `spec.<field>` selected it for. A Pod without
    the label is not judged by it."""
    roles = roles_of(pod)
    if roles is None:
        return False
    key, value = roles.role[field]
    return bool((pod["metadata"].get("labels") or {}).get(key, value) != value)


def narrower(pod: Object, field: str) -> str:
    """The way out for a selector that takes in a Pod which is no such node, or whose id cannot be read."""
    roles, owner = roles_of(pod), owner_of(pod)
    labels = pod["metadata"].get("labels") or {}
    if owner is not None and owner.known_as == KOPERATOR and not has_another_role(pod, field):
        return f"set idFrom to Label and idKey to {KOPERATOR_ID}" + ("" if KOPERATOR_ID in labels else ", and add it")
    if roles is not None:
        key, value = roles.role[field]
        value = f"'{value}'" if value == "true" else value
        return f"add {key}: {value} to its matchLabels{roles.otherwise}"
    return "add a label that only these Pods have, or set idFrom"
