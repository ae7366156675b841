"""What `spec.strimzi` stands for, by resources as Strimzi 1.2.0 writes them."""

from __future__ import annotations

import copy

import pytest

from kafka_medic.observe.strimzi_cluster import NotDerivedError, StrimziObjects, completed
from kafka_medic.resources.kafkacluster import KafkaCluster, RestartMethod
from tests.unit.resources.sources import smallest

PLAIN = {"name": "plain", "port": 9092, "type": "internal", "tls": False}
TLS = {"name": "tls", "port": 9093, "type": "internal", "tls": True}
MUTUAL = {"name": "mutual", "port": 9094, "type": "internal", "tls": True, "authentication": {"type": "tls"}}
SCRAM = {"name": "scram", "port": 9095, "type": "internal", "tls": True, "authentication": {"type": "scram-sha-512"}}
OPEN_SCRAM = SCRAM | {"name": "weak", "tls": False}
OUTSIDE = {"name": "outside", "port": 9096, "type": "nodeport", "tls": True}
CA = "my-cluster-ca-cert"


def kafka(*listeners, **status):
    known = [{"name": each["name"], "bootstrapServers": f"my-{each['name']}:{each['port']}"} for each in listeners]
    rack = {"topologyKey": "topology.kubernetes.io/zone"}
    return {
        "metadata": {"name": "my", "namespace": "ns"},
        "spec": {"kafka": {"listeners": list(listeners), "rack": rack}},
        "status": {"listeners": known, **status},
    }


def pool(name, ids, *roles, replicas=None, remove=None):
    return {
        "metadata": {"name": name, "annotations": {"strimzi.io/remove-node-ids": remove} if remove else None},
        "spec": {"roles": list(roles), "replicas": len(ids) if replicas is None else replicas},
        "status": {"nodeIds": ids, "roles": list(roles)},
    }


def user(kind, name="medic", **status):
    status = {"username": f"CN={name}" if kind == "tls" else name, "secret": name} | status
    return {
        "metadata": {"name": name, "labels": {"strimzi.io/cluster": "my"}},
        "spec": {"authentication": {"type": kind}},
        "status": status,
    }


def spec(strimzi=None, **beside):
    raw = smallest("KafkaCluster")
    raw["spec"] = {"strimzi": {"cluster": "my"} | (strimzi or {}), **beside}
    return KafkaCluster.parse(raw).spec


def derived(found, strimzi=None, **beside):
    return completed(spec(strimzi, **beside), found)


@pytest.mark.parametrize(
    ("listeners", "who", "address", "protocol", "secrets"),
    [
        ([PLAIN], None, "my-plain:9092", "PLAINTEXT", ()),
        ([PLAIN, TLS], None, "my-tls:9093", "SSL", (CA,)),
        ([OUTSIDE, PLAIN], None, "my-plain:9092", "PLAINTEXT", ()),
        ([PLAIN, MUTUAL], "tls", "my-mutual:9094", "SSL", (CA, "medic")),
        ([PLAIN, OPEN_SCRAM, SCRAM], "scram-sha-512", "my-scram:9095", "SASL_SSL", (CA, "medic")),
        ([PLAIN, OPEN_SCRAM], "scram-sha-512", "my-weak:9095", "SASL_PLAINTEXT", ("medic",)),
    ],
)
def test_an_internal_listener_that_fits_the_user_is_taken_the_encrypted_one_first(
    listeners, who, address, protocol, secrets
):
    found = StrimziObjects(kafka(*listeners), user=user(who) if who else None)
    whole, status = derived(found, {"user": "medic"} if who else {})
    assert (whole.bootstrap_servers, whole.security.protocol.value) == (address, protocol)
    assert (status.bootstrap_servers, status.protocol, status.secrets) == (address, protocol, secrets)
    if who == "scram-sha-512":
        assert whole.security.sasl.username == "medic"
        assert whole.security.sasl.secret_ref.password_key == "password"


def test_a_listener_that_is_named_is_taken_also_one_from_outside():
    whole, status = derived(StrimziObjects(kafka(PLAIN, OUTSIDE)), {"listener": "outside"})
    assert (whole.bootstrap_servers, status.listener) == ("my-outside:9096", "outside")


def test_pods_pools_and_racks():
    pools = [pool("c", [3, 4, 5], "controller"), pool("b", [0, 1, 2], "broker")]
    whole, status = derived(StrimziObjects(kafka(PLAIN), pools))
    assert whole.brokers.pod_selector.to_query() == "strimzi.io/broker-role=true,strimzi.io/cluster=my"
    apart = "strimzi.io/broker-role=false,strimzi.io/cluster=my,strimzi.io/controller-role=true"
    assert whole.controllers.pod_selector.to_query() == apart
    assert {whole.brokers.restart, whole.controllers.restart} == {RestartMethod.STRIMZI_ANNOTATION}
    assert [(p.name, p.roles, p.ids) for p in status.pools] == [
        ("b", ("broker",), (0, 1, 2)),
        ("c", ("controller",), (3, 4, 5)),
    ]
    assert status.rack_key == "topology.kubernetes.io/zone"
    assert status.set_by_hand == ()
    both, _ = derived(StrimziObjects(kafka(PLAIN), [pool("b", [0], "controller", "broker")]))
    assert both.controllers is None


@pytest.mark.parametrize(
    ("replicas", "remove", "leaving"),
    [
        (4, None, ()),
        (5, "[1]", ()),
        (3, None, (13,)),
        (2, "[11]", (11, 13)),
        (1, "[10-12]", (10, 11, 12)),
        (3, "[12-10]", (12,)),
        (2, " [ 99, 10 , 11-999999999 ] ", (10, 11)),
        (3, "10", (13,)),
        (3, "[a]", (13,)),
        (0, None, (10, 11, 12, 13)),
    ],
)
def test_the_nodes_that_a_scaled_down_pool_is_to_lose(replicas, remove, leaving):
    pools = [pool("b", [10, 11, 12, 13], "broker", replicas=replicas, remove=remove)]
    _, status = derived(StrimziObjects(kafka(PLAIN), pools))
    assert status.pools[0].leaving == leaving


def test_what_is_set_beside_it_counts_and_is_told():
    by_hand = {"podSelector": {"matchLabels": {"app": "kafka"}}}
    whole, status = derived(StrimziObjects(kafka(MUTUAL)), bootstrapServers="a:1", security={}, brokers=by_hand)
    assert (whole.bootstrap_servers, whole.brokers.pod_selector.to_query()) == ("a:1", "app=kafka")
    assert whole.brokers.restart is RestartMethod.DELETE_POD
    assert (status.set_by_hand, status.listener) == (("bootstrapServers", "security", "brokers"), None)
    whole, status = derived(StrimziObjects(kafka(MUTUAL)), security={"protocol": "SSL"})
    assert (whole.bootstrap_servers, status.secrets) == ("my-mutual:9094", ())


def changed(found, path, value):
    found = copy.deepcopy(found)
    *way, last = path.split(".")
    at = found
    for key in way:
        at = at[key]
    at[last] = value
    return found


OWN_CERTIFICATE = TLS | {"configuration": {"brokerCertChainAndKey": {"secretName": "x"}}}


@pytest.mark.parametrize(
    ("found", "strimzi", "why"),
    [
        (StrimziObjects(None), {}, "there is no Kafka my of Strimzi's in this namespace: correct spec.strimzi.cluster"),
        (StrimziObjects(kafka(PLAIN, listeners=[])), {}, "has no address of its listener plain yet: wait"),
        (StrimziObjects(kafka()), {}, "lets in nobody; internal ones and whom they let in: none"),
        (StrimziObjects(kafka(MUTUAL, SCRAM)), {}, "mutual (tls), scram (scram-sha-512). Set spec.strimzi.user"),
        (StrimziObjects(kafka(OUTSIDE)), {}, "or spec.strimzi.listener"),
        (StrimziObjects(kafka(PLAIN)), {"listener": "tls"}, "has no listener tls; it has plain"),
        (StrimziObjects(kafka(OWN_CERTIFICATE)), {}, "a certificate that Strimzi's CA did not sign: set spec.security"),
        (StrimziObjects(kafka(PLAIN)), {"user": "medic"}, "no KafkaUser medic in this namespace"),
        (StrimziObjects(kafka(PLAIN), user=user("tls")), {"user": "medic"}, "lets in KafkaUser medic (tls)"),
        (StrimziObjects(kafka(MUTUAL), user=user("tls-external")), {"user": "medic"}, "or set spec.security"),
        (StrimziObjects(kafka(MUTUAL), user=user("tls", secret="p-medic")), {"user": "medic"}, "is called p-medic"),
        (
            StrimziObjects(kafka(MUTUAL), user=changed(user("tls"), "status", {})),
            {"user": "medic"},
            "has no Secret yet: wait",
        ),
        (
            StrimziObjects(kafka(MUTUAL), user=changed(user("tls"), "metadata.labels", {})),
            {"user": "medic"},
            "is not of Kafka my",
        ),
        (StrimziObjects(changed(kafka(PLAIN), "metadata.deletionTimestamp", "now")), {}, "is being deleted"),
        (StrimziObjects(changed(kafka(PLAIN), "spec.zookeeper", {})), {}, "a ZooKeeper that only Strimzi may read"),
    ],
)
def test_what_cannot_be_told_is_not_guessed_and_the_way_out_is_said(found, strimzi, why):
    with pytest.raises(NotDerivedError) as told:
        derived(found, strimzi)
    assert why in str(told.value)


def test_with_security_by_hand_and_several_listeners_one_has_to_be_named():
    found = StrimziObjects(kafka(PLAIN, TLS))
    with pytest.raises(NotDerivedError, match=r"set spec\.strimzi\.listener as well, to one of plain, tls"):
        derived(found, security={"protocol": "SSL"})
    whole, _ = derived(found, {"listener": "tls"}, security={"protocol": "SSL"})
    assert whole.bootstrap_servers == "my-tls:9093"


@pytest.mark.parametrize("state", [{}, {"conditions": [{"type": "ReconciliationPaused", "status": "True"}]}])
def test_a_paused_cluster_and_one_that_strimzi_cannot_reconcile_are_watched_all_the_same(state):
    """Strimzi leaves the listeners out of such a status."""
    found = kafka(PLAIN, MUTUAL, listeners=[], clusterId="abc", **state)
    whole, _ = derived(StrimziObjects(found))
    assert whole.bootstrap_servers == "my-kafka-bootstrap.ns.svc:9092"
    paused = user("tls")
    paused["status"] = {"conditions": [{"type": "ReconciliationPaused", "status": "True"}]}
    whole, status = derived(StrimziObjects(found, user=paused), {"user": "medic"})
    assert (whole.bootstrap_servers, status.secrets) == ("my-kafka-bootstrap.ns.svc:9094", (CA, "medic"))
    apart = kafka(PLAIN | {"type": "cluster-ip"}, listeners=[], clusterId="abc")
    assert derived(StrimziObjects(apart))[0].bootstrap_servers == "my-kafka-plain-bootstrap.ns.svc:9092"
    outside = StrimziObjects(kafka(OUTSIDE, listeners=[], clusterId="abc"))
    with pytest.raises(NotDerivedError, match="no address of its listener outside"):
        derived(outside, {"listener": "outside"})
