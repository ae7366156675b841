"""Whether a Pod can be restarted the way that the KafkaCluster says, by its owner and by the operator's own rights.

What is found is said before anything is proposed. An approved run would find out too, from a Pod that nobody replaces
or from the API server's 403.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka_medic.clients.kubernetes_api import Object
from kafka_medic.observe.pod_owners import KNOWN, STRIMZI_POD_SET, Owner, owner_of
from kafka_medic.resources.kafkacluster import RestartMethod

NEEDED = {RestartMethod.DELETE_POD: ("create", "pods/eviction"), RestartMethod.STRIMZI_ANNOTATION: ("patch", "pods")}
"""Verb and resource."""
WORDS = {RestartMethod.DELETE_POD: "evict", RestartMethod.STRIMZI_ANNOTATION: "annotate"}
WAY_OUT = {
    RestartMethod.DELETE_POD: "name it in the chart's restartablePods, or leave that list empty",
    RestartMethod.STRIMZI_ANNOTATION: "set strimzi.enabled in the chart, and where restartablePods has names, add it",
}


def hindrance(pod: Object, method: RestartMethod, rules: Sequence[Object] | None) -> str | None:
    """Why the method cannot work on this Pod, with the way out; None where nothing is known against it.

    rules: of a SelfSubjectRulesReview of the Pod's namespace (authorization.k8s.io/v1), None where they are not known.
    """
    name = pod["metadata"]["name"]
    if against := _against(name, owner_of(pod), method):
        return against
    verb, resource = NEEDED[method]
    if rules is None or any(_allows(rule, verb, resource, name) for rule in rules):
        return None
    return f"the operator may not {WORDS[method]} Pod {name}: {WAY_OUT[method]}"


def _against(name: str, owner: Owner | None, method: RestartMethod) -> str | None:
    """What speaks against it by the Pod's owner."""
    if owner is None:
        return (
            f"Pod {name} has no owner, so no controller would recreate it: run it by a StatefulSet or an operator, "
            "or restart its broker yourself"
        )
    strimzi, asks = owner.known_as == STRIMZI_POD_SET, method is RestartMethod.STRIMZI_ANNOTATION
    if strimzi and not asks:
        return (
            f"Pod {name} belongs to StrimziPodSet {owner.name}, and Strimzi restarts its Pods by itself: "
            f"set restart to {RestartMethod.STRIMZI_ANNOTATION.value}"
        )
    if owner.known_as not in KNOWN:
        return (
            f"Pod {name} belongs to {owner.kind} {owner.name} of {owner.version}. kafka-medic does not support how "
            "that owner replaces Pods: restart the broker as its documentation describes"
        )
    if asks and not strimzi:
        return (
            f"Pod {name} belongs to {owner.kind} {owner.name}, which does not act on Strimzi's annotation: "
            f"set restart to {RestartMethod.DELETE_POD.value}"
        )
    return None


def _allows(rule: Object, verb: str, resource: str, name: str) -> bool:
    def among(key: str, wanted: str) -> bool:
        return not {wanted, "*"}.isdisjoint(rule.get(key) or ())

    names = rule.get("resourceNames") or ()
    return (
        among("verbs", verb)
        and among("apiGroups", "")
        and among("resources", resource)
        and (not names or name in names)
    )
