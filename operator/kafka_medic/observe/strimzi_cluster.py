"""What a KafkaCluster with `spec.strimzi` would say if a person had written it out, from Strimzi's own resources.

Field names are those of Strimzi 1.2.0's api module (Kafka, KafkaNodePool, KafkaUser); `v1beta2` has them as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka_medic.clients.kubernetes_api import Object
from kafka_medic.observe.pod_owners import STRIMZI_ROLES
from kafka_medic.resources.kafkacluster import (
    STRIMZI_CLUSTER,
    Brokers,
    CaSecretRef,
    CertSecretRef,
    KafkaClusterSpec,
    RestartMethod,
    Sasl,
    SaslMechanism,
    SaslSecretRef,
    Security,
    SecurityProtocol,
    StrimziCluster,
    Tls,
)
from kafka_medic.resources.kafkacluster_status import MAX_POOL_IDS, MAX_POOLS, NodePoolStatus, StrimziStatus
from kafka_medic.resources.selectors import LabelSelector

BROKER_ROLE, CONTROLLER_ROLE = STRIMZI_ROLES["brokers"], STRIMZI_ROLES["controllers"]
TAKEN_OVER = ("bootstrapServers", "security", "brokers", "controllers")
"""Fields of spec that are filled in where they are absent."""
INSIDE = ("internal", "cluster-ip")
"""Types of listeners whose addresses are good inside of the Kubernetes cluster."""
REMOVE_FIRST = "strimzi.io/remove-node-ids"
"""Annotation of a KafkaNodePool: which nodes go first when it is scaled down."""
ID_RANGES = re.compile(r"\s*\[(\s*\d{1,9}\s*(?:-\s*\d{1,9}\s*)?(?:,\s*\d{1,9}\s*(?:-\s*\d{1,9}\s*)?)*)\]\s*")
PLAIN, MUTUAL_TLS, SCRAM = None, "tls", "scram-sha-512"
USERS = (MUTUAL_TLS, SCRAM)
"""Authentication of KafkaUsers whose Secret the User Operator makes."""


class NotDerivedError(Exception):
    """Why Strimzi's resources do not say enough, with the way out. Nothing is guessed."""


@dataclass(frozen=True, slots=True)
class StrimziObjects:
    """As the API server has them. kafka, user: None where there is none of that name."""

    kafka: Object | None
    pools: Sequence[Object] = ()
    user: Object | None = None


def completed(spec: KafkaClusterSpec, found: StrimziObjects) -> tuple[KafkaClusterSpec, StrimziStatus]:
    """The spec with what it leaves to Strimzi filled in, and what that was. Raises NotDerivedError."""
    wanted = spec.strimzi
    assert wanted is not None
    kafka = _usable(found.kafka, wanted.cluster)
    filled: dict[str, Any] = {}
    listener: Mapping[str, Any] | None = None
    if spec.bootstrap_servers is None or spec.security is None:
        listener = _listener(wanted, kafka, found.user, by_hand=spec.security is not None)
        if spec.bootstrap_servers is None:
            filled["bootstrap_servers"] = _addresses(kafka, wanted.cluster, listener)
        if spec.security is None:
            filled["security"] = _security(wanted, listener, found.user)
    pools = tuple(_pool(pool) for pool in sorted(found.pools, key=lambda pool: str(pool["metadata"]["name"])))
    if spec.brokers is None:
        filled["brokers"] = _pods(wanted.cluster, {BROKER_ROLE: "true"})
    if spec.controllers is None and any("controller" in p.roles and "broker" not in p.roles for p in pools):
        filled["controllers"] = _pods(wanted.cluster, {BROKER_ROLE: "false", CONTROLLER_ROLE: "true"})
    whole = spec.model_copy(update=filled)
    by_hand = [name for name in TAKEN_OVER if getattr(spec, _FIELDS[name]) is not None]
    rack = (kafka["spec"].get("kafka") or {}).get("rack") or {}
    assert whole.security is not None
    assert whole.bootstrap_servers is not None
    return whole, StrimziStatus(
        cluster=wanted.cluster,
        listener=listener["name"] if listener is not None else None,
        bootstrap_servers=whole.bootstrap_servers[:256],
        protocol=whole.security.protocol.value,
        secrets=_secrets(whole.security),
        pools=pools[:MAX_POOLS],
        rack_key=rack.get("topologyKey"),
        set_by_hand=tuple(by_hand),
    )


_FIELDS = {
    "bootstrapServers": "bootstrap_servers",
    "security": "security",
    "brokers": "brokers",
    "controllers": "controllers",
}


def _usable(kafka: Object | None, name: str) -> Object:
    if kafka is None:
        raise NotDerivedError(f"there is no Kafka {name} of Strimzi's in this namespace: correct spec.strimzi.cluster")
    if kafka["metadata"].get("deletionTimestamp"):
        raise NotDerivedError(f"Kafka {name} is being deleted")
    if "zookeeper" in kafka["spec"] and (kafka.get("status") or {}).get("kafkaMetadataState") != "KRaft":
        raise NotDerivedError(
            f"Kafka {name} keeps its metadata in a ZooKeeper that only Strimzi may read: "
            "move it to KRaft, with Strimzi 0.45 or older"
        )
    return kafka


def _listener(wanted: StrimziCluster, kafka: Object, user: Object | None, *, by_hand: bool) -> Mapping[str, Any]:
    """The listener to connect to. by_hand: spec.security is set, so how the listener authenticates is not asked."""
    every: list[Mapping[str, Any]] = (kafka["spec"].get("kafka") or {}).get("listeners") or []
    names = ", ".join(each["name"] for each in every)
    if wanted.listener is not None:
        named = next((each for each in every if each["name"] == wanted.listener), None)
        if named is None:
            raise NotDerivedError(f"Kafka {wanted.cluster} has no listener {wanted.listener}; it has {names or 'none'}")
        every = [named]
    else:
        every = [each for each in every if each["type"] in INSIDE]
    if by_hand:
        if len(every) != 1:
            raise NotDerivedError(f"spec.security is set: set spec.strimzi.listener as well, to one of {names}")
        return every[0]
    shown = _authentication_of(wanted, user)
    fitting = [each for each in every if _authentication(each) == shown]
    if not fitting:
        asked = ", ".join(f"{each['name']} ({_authentication(each) or 'none'})" for each in every) or "none"
        who = f"KafkaUser {wanted.user} ({shown})" if wanted.user else "nobody"
        raise NotDerivedError(
            f"no listener of Kafka {wanted.cluster} lets in {who}; internal ones and whom they let in: {asked}. "
            "Set spec.strimzi.user to a KafkaUser of such a kind, or spec.strimzi.listener"
        )
    return max(fitting, key=lambda each: bool(each.get("tls")))


def _authentication(listener: Mapping[str, Any]) -> str | None:
    return (listener.get("authentication") or {}).get("type")


def _authentication_of(wanted: StrimziCluster, user: Object | None) -> str | None:
    """What the KafkaUser can show. Raises NotDerivedError for one that is not ready for it."""
    name = wanted.user
    if name is None:
        return PLAIN
    if user is None:
        raise NotDerivedError(f"there is no KafkaUser {name} in this namespace: correct spec.strimzi.user")
    if (user["metadata"].get("labels") or {}).get(STRIMZI_CLUSTER) != wanted.cluster:
        raise NotDerivedError(f"KafkaUser {name} is not of Kafka {wanted.cluster} (its label {STRIMZI_CLUSTER})")
    kind = _authentication(user["spec"])
    if kind not in USERS:
        raise NotDerivedError(
            f"KafkaUser {name} authenticates by {kind or 'nothing'}, for which Strimzi makes no Secret: "
            "take one with tls or scram-sha-512, or set spec.security"
        )
    status = user.get("status") or {}
    if not status:
        raise NotDerivedError(f"KafkaUser {name} has no Secret yet: wait until the User Operator has made it")
    # A paused KafkaUser does not say.
    if (secret := status.get("secret", name)) != name:
        # A policy has asked whether the author may get the Secret of the user's name.
        raise NotDerivedError(f"the Secret of KafkaUser {name} is called {secret}: set spec.security")
    return kind


def _addresses(kafka: Object, cluster: str, listener: Mapping[str, Any]) -> str:
    """As Strimzi has it in status. Strimzi leaves listeners out while the Kafka resource is paused, and after a
    reconcile that failed (`KafkaAssemblyOperator.createOrUpdate` of 1.2.0). The cluster is there all the same, and its
    Services have the names that Strimzi gives them."""
    name, status = listener["name"], kafka.get("status") or {}
    known = status.get("listeners") or []
    if servers := next((each.get("bootstrapServers") for each in known if each.get("name") == name), None):
        return str(servers)
    if not status.get("clusterId") or listener["type"] not in INSIDE:
        raise NotDerivedError(f"Kafka {cluster} has no address of its listener {name} yet: wait until it is Ready")
    service = "kafka-bootstrap" if listener["type"] == "internal" else f"kafka-{name}-bootstrap"
    return f"{cluster}-{service}.{kafka['metadata']['namespace']}.svc:{listener['port']}"


def _security(wanted: StrimziCluster, listener: Mapping[str, Any], user: Object | None) -> Security:
    shown, encrypted = _authentication(listener), bool(listener.get("tls"))
    if encrypted and (listener.get("configuration") or {}).get("brokerCertChainAndKey"):
        raise NotDerivedError(
            f"listener {listener['name']} has a certificate that Strimzi's CA did not sign: set spec.security"
        )
    tls = sasl = None
    if encrypted:
        own = CertSecretRef(name=wanted.user) if shown == MUTUAL_TLS and wanted.user else None
        tls = Tls(ca_secret_ref=CaSecretRef(name=f"{wanted.cluster}-cluster-ca-cert"), cert_secret_ref=own)
    if shown == SCRAM and wanted.user and user is not None:
        name = str((user.get("status") or {}).get("username") or wanted.user)
        sasl = Sasl(mechanism=SaslMechanism.SCRAM_SHA_512, username=name, secret_ref=SaslSecretRef(name=wanted.user))
    protocol = {
        (False, False): SecurityProtocol.PLAINTEXT,
        (False, True): SecurityProtocol.SSL,
        (True, False): SecurityProtocol.SASL_PLAINTEXT,
        (True, True): SecurityProtocol.SASL_SSL,
    }[sasl is not None, encrypted]
    return Security(protocol=protocol, sasl=sasl, tls=tls)


def _secrets(security: Security) -> tuple[str, ...]:
    tls, sasl = security.tls, security.sasl
    refs = (tls and tls.ca_secret_ref, tls and tls.cert_secret_ref, sasl and sasl.secret_ref)
    return tuple(ref.name for ref in refs if ref)


def _pods(cluster: str, roles: Mapping[str, str]) -> Brokers:
    """A Pod's name ends in the id of its node, whatever pool it is in."""
    selector = LabelSelector(match_labels={STRIMZI_CLUSTER: cluster, **roles})
    return Brokers(pod_selector=selector, restart=RestartMethod.STRIMZI_ANNOTATION)


def _pool(pool: Object) -> NodePoolStatus:
    status = pool.get("status") or {}
    roles = status.get("roles") or pool["spec"].get("roles") or ()
    return NodePoolStatus(
        name=pool["metadata"]["name"],
        roles=tuple(sorted(roles)),
        ids=tuple(sorted(status.get("nodeIds") or ())[:MAX_POOL_IDS]),
        leaving=tuple(sorted(_leaving(pool))[:MAX_POOL_IDS]),
    )


def _leaving(pool: Object) -> Sequence[int]:
    """The nodes that go when the pool is scaled down: those that the annotation lists, in its order, then those with
    the highest ids (Strimzi's `NodeIdAssignor`). While one of them holds replicas, Strimzi keeps the pool as it is."""
    spec, status = pool["spec"], pool.get("status") or {}
    ids = sorted(status.get("nodeIds") or (), reverse=True)
    wanted = spec.get("replicas")
    excess = 0 if wanted is None else max(len(ids) - int(wanted), 0)
    text = str((pool["metadata"].get("annotations") or {}).get(REMOVE_FIRST, ""))
    return list(dict.fromkeys([*_listed(text, ids), *ids]))[:excess]


def _listed(text: str, ids: Sequence[int]) -> Iterator[int]:
    """Those of the ids that a text such as `[2, 4-6]` lists; none of another text, which Strimzi ignores."""
    if not (inside := ID_RANGES.fullmatch(text)):
        return
    for part in inside.group(1).split(","):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        yield from sorted((n for n in ids if min(low, high) <= n <= max(low, high)), reverse=high < low)
