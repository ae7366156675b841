"""A connection is made of what the Secrets hold now; what is missing is named, and what is there is not shown."""

from __future__ import annotations

from collections import Counter

import pytest

from kafka_medic.clients.destinations import Destinations
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import OAuthClient, TlsMaterial
from kafka_medic.observe.connect import connection, ensemble_connection
from kafka_medic.resources.kafkacluster import KafkaCluster

HELD = {
    "user": {"username": b"operator", "password": b"hunter2\n", "other": b"\xff"},
    "oauth": {"tokenEndpoint": b"https://idp/token", "clientId": b"me", "clientSecret": b"hunter2\r\n"},
    "ca": {"ca.crt": b"CA", "mine.pem": b"MINE"},
    "cert": {"tls.crt": b"CRT", "tls.key": b"KEY"},
    "empty": {"username": b"operator", "password": b"\n"},
    "binary": {"username": b"operator", "password": b"hunter2\xff"},
}


def cluster(
    mechanism: str = "SCRAM-SHA-512", user: str = "user", tls: dict | None = None, zookeeper: dict | None = None, **sasl
):
    sasl = {"mechanism": mechanism, "secretRef": {"name": user}} | sasl
    security: dict = {"protocol": "SASL_SSL", "sasl": sasl}
    if tls is not None:
        security["tls"] = tls
    spec: dict = {"bootstrapServers": "kafka:9093", "security": security}
    if zookeeper is not None:
        spec["metadata"] = {"zookeeper": {"connect": "zk:2281/kafka", **zookeeper}}
    meta = {"name": "c", "namespace": "ns"}
    return KafkaCluster.parse(
        {"apiVersion": "kafkamedic.dev/v1alpha1", "kind": "KafkaCluster", "metadata": meta, "spec": spec}
    )


MUTUAL = {"caSecretRef": {"name": "ca", "key": "mine.pem"}, "certSecretRef": {"name": "cert"}}


def test_everything_that_a_secured_cluster_needs():
    made = connection(cluster(tls=MUTUAL), HELD.__getitem__)
    assert (made.protocol, made.sasl_mechanism) == ("SASL_SSL", "SCRAM-SHA-512")
    assert (made.sasl_username, made.sasl_password) == ("operator", "hunter2"), "without the line break of an editor"
    assert made.tls == TlsMaterial("MINE", "CRT", "KEY")
    assert "hunter2" not in repr(made)
    assert "KEY" not in repr(made)


def test_secrets_of_a_strimzi_user_fit_as_they_are():
    strimzi = HELD | {
        "user": {"ca.crt": b"CLIENTS-CA", "user.crt": b"CRT", "user.key": b"KEY", "user.p12": b"\x00"},
        "me": {"password": b"hunter2", "sasl.jaas.config": b"..."},
    }
    mutual = {"caSecretRef": {"name": "ca"}, "certSecretRef": {"name": "user"}}
    tls = ensemble_connection(cluster(zookeeper={"tls": mutual}), strimzi.__getitem__)
    assert tls.tls == TlsMaterial("CA", "CRT", "KEY")
    made = connection(cluster(user="me", username="kafka-medic"), strimzi.__getitem__)
    assert (made.sasl_username, made.sasl_password) == ("kafka-medic", "hunter2")
    with pytest.raises(ReadFailed, match=r"set security\.sasl\.username"):
        connection(cluster(user="me"), strimzi.__getitem__)


def test_while_strimzi_replaces_its_ca_both_are_trusted():
    """Brokers that have not been restarted yet show a certificate of the former CA."""
    former, other = "ca-2026-11-25T08-00-00Z.crt", "ca-2026.crt"
    held = HELD | {"ca": {"ca.crt": b"NEW\n", former: b"OLD\n", "ca.p12": b"\x00", other: b"OTHER"}}
    made = connection(cluster(tls={"caSecretRef": {"name": "ca"}}), held.__getitem__)
    assert made.tls.ca == "NEW\nOLD"
    named = connection(cluster(tls={"caSecretRef": {"name": "ca", "key": other}}), held.__getitem__)
    assert named.tls.ca == "OTHER"


def test_keys_of_any_name():
    held = {"mine": {"who": b"operator", "secret": b"hunter2", "chain.pem": b"CRT", "key.pem": b"KEY"}}
    reference = {"name": "mine", "usernameKey": "who", "passwordKey": "secret"}
    mutual = {"certSecretRef": {"name": "mine", "certificate": "chain.pem", "key": "key.pem"}}
    made = connection(cluster(tls=mutual, secretRef=reference), held.__getitem__)
    assert (made.sasl_username, made.sasl_password) == ("operator", "hunter2")
    assert made.tls == TlsMaterial(None, "CRT", "KEY")


def test_a_secret_of_bitnamis_chart():
    """SECRET-user-passwords has no user names, and the passwords of all users in one key."""
    one = {"system-user-password": b"hunter2", "inter-broker-password": b"x"}
    held = {"my": one | {"client-passwords": b"hunter2,hunter3"}}
    mutual = {"caSecretRef": {"name": "ca"}}

    def reads(key: str | None):
        reference = {"name": "my"} | ({"passwordKey": key} if key else {})
        made = connection(cluster(tls=mutual, username="user1", secretRef=reference), (HELD | held).__getitem__)
        return made.sasl_password

    assert reads("system-user-password") == "hunter2"
    with pytest.raises(ReadFailed, match=r"passwords of 2 users; set secretRef\.passwordKey") as problem:
        reads("client-passwords")
    assert "hunter" not in problem.value.message
    with pytest.raises(ReadFailed, match="to system-user-password, which is that of the first user"):
        reads(None)
    held["my"]["client-passwords"] = b"hunter2"
    assert reads("client-passwords") == "hunter2"


def test_a_certificate_is_never_taken_with_the_key_of_another():
    held = HELD | {"cert": {"tls.crt": b"CRT", "user.crt": b"OTHER", "user.key": b"KEY"}}
    with pytest.raises(ReadFailed, match=r"no key 'tls\.key'"):
        connection(cluster(tls={"certSecretRef": {"name": "cert"}}), held.__getitem__)


def test_a_secret_is_read_once_so_that_its_keys_are_of_one_version():
    asked = Counter()

    def secret(name):
        asked[name] += 1
        return HELD[name]

    connection(cluster(tls=MUTUAL), secret)
    assert set(asked.values()) == {1}


def test_tokens_with_and_without_scope_and_authority():
    made = connection(cluster("OAUTHBEARER", "oauth"), HELD.__getitem__)
    assert made.oauth == OAuthClient("https://idp/token", "me", "hunter2")
    assert made.sasl_password is None
    more = {"oauth": HELD["oauth"] | {"scope": b"kafka", "ca.crt": b"CA"}}
    assert connection(cluster("OAUTHBEARER", "oauth"), more.__getitem__).oauth == OAuthClient(
        "https://idp/token", "me", "hunter2", "kafka", "CA"
    )
    assert "hunter2" not in repr(made)


@pytest.mark.parametrize(
    ("user", "says"), [("ca", "no key 'username'"), ("empty", "'password': empty"), ("binary", "'password': not text")]
)
def test_what_is_missing_is_named(user, says):
    with pytest.raises(ReadFailed) as refused:
        connection(cluster(user=user), HELD.__getitem__)
    assert refused.value.kind is FailureKind.CREDENTIALS
    assert f"Secret {user}" in refused.value.message
    assert says in refused.value.message
    assert "hunter2" not in str(refused.value)


def test_an_ensemble_without_tls_with_tls_and_none_at_all():
    assert ensemble_connection(cluster(), HELD.__getitem__) is None
    plain = ensemble_connection(cluster(zookeeper={}), HELD.__getitem__)
    assert plain is not None
    assert plain.tls is None
    assert ensemble_connection(cluster(zookeeper={"tls": {}}), HELD.__getitem__).tls == TlsMaterial()
    secured = ensemble_connection(cluster(zookeeper={"tls": MUTUAL}), HELD.__getitem__)
    assert secured.tls == TlsMaterial("MINE", "CRT", "KEY")
    assert (secured.connect, "KEY" in repr(secured)) == ("zk:2281/kafka", False)


def test_servers_out_of_bounds_are_refused_before_a_secret_is_read() -> None:
    def secret(name: str) -> dict[str, bytes]:
        raise AssertionError(name)

    bounds = Destinations("another")
    with pytest.raises(ReadFailed) as refused:
        connection(cluster(tls=MUTUAL), secret, bounds)
    assert refused.value.kind is FailureKind.DESTINATION
    with pytest.raises(ReadFailed) as refused:
        ensemble_connection(cluster(zookeeper={"tls": MUTUAL}), secret, bounds)
    assert refused.value.kind is FailureKind.DESTINATION
