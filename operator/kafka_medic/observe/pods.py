"""Which Pod is which broker, what says that it or its node is about to go, and what is being rolled out over them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi, Object
from kafka_medic.cluster.snapshot import Pod, Rollout
from kafka_medic.observe.maintenance import named_signs, node_signs, pod_signs, unschedulable
from kafka_medic.observe.pod_owners import UNNUMBERED, has_another_role, narrower, owner_of
from kafka_medic.observe.restart_method import hindrance
from kafka_medic.observe.rollouts import asks_for_roll, rollouts_of
from kafka_medic.resources.kafkacluster import STRIMZI_ROLL, BrokerIdSource, Brokers, MaintenanceSign

NODES_AT_ONCE = 8
_ORDINAL = re.compile(r"-(\d+)$")


class BrokerPods:
    """One look at the Pods that `brokers.podSelector` selects. Every method raises ReadFailed."""

    def __init__(
        self,
        api: KubernetesApi,
        namespace: str,
        brokers: Brokers,
        rules: Callable[[], Sequence[Object] | None] = lambda: None,
        field: str = "brokers",
        answered: Callable[[str], int | None] = lambda _: None,
    ) -> None:
        """rules: what the operator may do in the namespace, as `hindrance` takes them. field: of spec that selects the
        Pods, brokers or controllers. answered: as what the Pod of that uid has answered, for `idFrom: Answer`."""
        self._api = api
        self._rules = rules
        self._namespace = namespace
        self._brokers = brokers
        self._field = field
        self._answered = answered
        self._listed: Sequence[Object] | None = None
        self._unidentified: tuple[Pod, ...] = ()

    def pods(self) -> Mapping[int, Pod]:
        """Broker id -> Pod. Of the nodes only those that the Pods stand on are read. With `idFrom: Answer` only Pods
        that have answered; the others are `unidentified`."""
        try:
            query = {"labelSelector": self._brokers.pod_selector.to_query()}
            listed = self._api.list(f"/api/v1/namespaces/{self._namespace}/pods", query)
            self._listed = listed
            names = sorted({p["spec"].get("nodeName") or "" for p in listed} - {""})
            # One by one, since the right to list nodes would show all of a large cluster; but side by side.
            with ThreadPoolExecutor(NODES_AT_ONCE, "nodes") as pool:
                nodes = dict(zip(names, pool.map(self._node, names), strict=True))
        except ApiFailure as problem:
            raise ReadFailed(FailureKind.UNREACHABLE, f"Kubernetes: {problem}") from None
        found: dict[int, Pod] = {}
        waiting: list[Pod] = []
        rules, by_answer = self._rules(), self._brokers.id_from is BrokerIdSource.ANSWER
        for pod in listed:
            broker_id = self._answered(pod["metadata"]["uid"]) if by_answer else _claimed_id(pod, self._brokers)
            if (broker_id is None and not by_answer) or has_another_role(pod, self._field):
                another = has_another_role(pod, self._field)
                what = f"is none of the {self._field}" if another else "has no broker id"
                message = f"Pod {pod['metadata']['name']} is selected by {self._field}.podSelector but {what}: "
                raise ReadFailed(FailureKind.OTHER, message + narrower(pod, self._field))
            if broker_id in found:
                message = f"two Pods claim broker {broker_id}: check {self._field}.podSelector and idFrom"
                raise ReadFailed(FailureKind.OTHER, message)
            seen = _pod(pod, nodes, self._brokers.maintenance_signs)
            seen = replace(seen, hindrance=hindrance(pod, self._brokers.restart, rules))
            if broker_id is None:
                waiting.append(seen)
            else:
                found[broker_id] = seen
        self._unidentified = tuple(waiting)
        return found

    def unidentified(self) -> tuple[Pod, ...]:
        """Pods whose id only their own answer can tell, and that have not answered; asked after `pods`."""
        return self._unidentified

    def rollouts(self) -> tuple[Rollout, ...]:
        """What is being rolled out over these Pods; asked after `pods`."""
        if self._listed is None:
            raise ReadFailed(FailureKind.OTHER, "not tried: the Pods could not be listed")
        try:
            return rollouts_of(self._api, self._namespace, self._listed)
        except ApiFailure as problem:
            raise ReadFailed(FailureKind.UNREACHABLE, f"Kubernetes: {problem}") from None

    def _node(self, name: str) -> Object | None:
        """None when it does not exist any more."""
        try:
            return self._api.get(f"/api/v1/nodes/{name}")
        except ApiFailure as problem:
            if problem.not_found:
                return None
            raise


def _pod(pod: Object, nodes: Mapping[str, Object | None], named: Sequence[MaintenanceSign]) -> Pod:
    meta, name = pod["metadata"], pod["spec"].get("nodeName")
    node = nodes.get(name) if name else None
    gone = bool(name) and node is None
    signs = [f"node {name} no longer exists"] if gone else []
    signs += [*pod_signs(pod), *named_signs("Pod", pod, named)]
    if node:
        signs += [*node_signs(node), *named_signs("node", node, named)]
    return Pod(
        name=meta["name"],
        uid=meta["uid"],
        ready=_ready(pod),
        node=name,
        cordoned=unschedulable(node) if node else None,
        ip=(pod.get("status") or {}).get("podIP"),
        deleting=bool(meta.get("deletionTimestamp")),
        node_ready=False if gone else _node_ready(node) if node else None,
        maintenance=tuple(dict.fromkeys(signs)),
        ports=_ports(pod),
        restart_asked=asks_for_roll(pod, STRIMZI_ROLL),
    )


def _ports(pod: Object) -> tuple[int, ...]:
    """Containers need not declare what they listen to."""
    declared = (port for c in pod["spec"].get("containers") or () for port in c.get("ports") or ())
    return tuple(dict.fromkeys(p["containerPort"] for p in declared if p.get("protocol", "TCP") == "TCP"))


def _claimed_id(pod: Object, brokers: Brokers) -> int | None:
    meta = pod["metadata"]
    if brokers.id_from is BrokerIdSource.ORDINAL:
        owner = owner_of(pod)
        if owner is not None and owner.known_as in UNNUMBERED:
            return None
        found = _ORDINAL.search(meta["name"])
        return int(found.group(1)) + brokers.id_offset if found else None
    holder = meta.get("labels" if brokers.id_from is BrokerIdSource.LABEL else "annotations") or {}
    text = str(holder.get(brokers.id_key or "", ""))
    return int(text) if text.isdigit() else None


def _ready(pod: Object) -> bool:
    return not pod["metadata"].get("deletionTimestamp") and _condition(pod, "Ready") == "True"


def _node_ready(node: Object) -> bool | None:
    """A node whose kubelet is not heard any more has the condition with the status Unknown: it is not Ready."""
    status = _condition(node, "Ready")
    return None if status is None else status == "True"


def _condition(holder: Object, kind: str) -> str | None:
    conditions = (holder.get("status") or {}).get("conditions") or []
    return next((c.get("status") for c in conditions if c.get("type") == kind), None)
