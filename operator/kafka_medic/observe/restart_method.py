"""Whether a Pod can be restarted the way that the KafkaCluster says, by its owner and by the operator's own rights.

What is found is said before anything is proposed. An approved run would find out too, from a Pod that nobody replaces
or from the API server's 403.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka_medic.clients.kubernetes_api import Object
from kafka_medic.resources.kafkacluster import RestartMethod

POD_SET = "StrimziPodSet"
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
    meta = pod["metadata"]
    name = meta["name"]
    owner = next((o for o in meta.get("ownerReferences") or () if o.get("controller")), None)
    if owner is not None:
        strimzi, asks = owner["kind"] == POD_SET, method is RestartMethod.STRIMZI_ANNOTATION
        if asks and not strimzi:
            return (
                f"Pod {name} belongs to {owner['kind']} {owner['name']}, which does not act on Strimzi's annotation: "
                f"set restart to {RestartMethod.DELETE_POD.value}"
            )
        if strimzi and not asks:
            return (
                f"Pod {name} belongs to {POD_SET} {owner['name']}, and Strimzi restarts its Pods by itself: "
                f"set restart to {RestartMethod.STRIMZI_ANNOTATION.value}"
            )
    verb, resource = NEEDED[method]
    if rules is None or any(_allows(rule, verb, resource, name) for rule in rules):
        return None
    return f"the operator may not {WORDS[method]} Pod {name}: {WAY_OUT[method]}"


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
