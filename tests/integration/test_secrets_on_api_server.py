"""Whose Secrets a KafkaCluster may have sent to its servers: real users, the chart's policy, the operator's rights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.kubernetes_api import KubernetesApi
from kafka_medic.controller.store import Store
from kafka_medic.resources.kafkacluster import KafkaCluster
from tests.integration.operated_cluster import Person, chart_rules, persons
from tests.integration.people import Object, create, created, patch, people, placed, refused
from tests.testbed import kubectl, wait_for

NAMESPACE = "secrets"
DATABASE, KAFKA, LABELLED = "postgres-superuser", "kafka-user", "kafka-labelled"
EVIL, OWN = "kafka.evil.example.com:9092", f"kafka.{NAMESPACE}.svc:9093"


@pytest.fixture(scope="module")
def operator_api(role: str, operator: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """dora edits KafkaClusters and may get no Secret; erin edits them and may get one. The operator may get all."""
    _, _, where, account = operator.split(":")
    editors = [(f"edits-{who}", f"--clusterrole={role}-editor", who) for who in ("dora", "erin")]
    with people(NAMESPACE, role, *editors):
        for name in (DATABASE, KAFKA, LABELLED):
            kubectl("-n", NAMESPACE, "create", "secret", "generic", name, "--from-literal=username=u",
                    f"--from-literal=password=of-{name}")  # fmt: skip
        kubectl("-n", NAMESPACE, "label", "secret", LABELLED, "kafkamedic.dev/credentials=true")
        get = ("--verb=get", "--resource=secrets")
        kubectl("-n", NAMESPACE, "create", "role", "one-secret", *get, f"--resource-name={KAFKA}")
        kubectl("-n", NAMESPACE, "create", "rolebinding", "one-secret", "--role=one-secret", "--user=erin")
        kubectl("-n", NAMESPACE, "create", "role", "all-secrets", *get)
        bound = ("--role=all-secrets", f"--serviceaccount={where}:{account}")
        kubectl("-n", NAMESPACE, "create", "rolebinding", "all-secrets", *bound)
        may = ("auth", "can-i", "get", f"secrets/{KAFKA}", "-n", NAMESPACE, "--as=erin")
        wait_for("erin's right", lambda: kubectl(*may, check=False).stdout.strip() == "yes", seconds=30)
        yield persons(tmp_path_factory.mktemp("operator"), operator)["operator"]


def naming(secret: str, bootstrap: str = OWN, **security: Any) -> Object:
    sasl = {"mechanism": "SCRAM-SHA-512", "secretRef": {"name": secret}}
    security = {"protocol": "SASL_SSL", "sasl": sasl} | security
    return placed("KafkaCluster", NAMESPACE, bootstrapServers=bootstrap, security=security)


def read(api: KubernetesApi, stored: Object, secret: str) -> bytes:
    """As the operator reads it for that KafkaCluster."""
    store = Store(api, [NAMESPACE], chart_rules().policies)
    return store.secret(KafkaCluster.parse(stored), secret)["password"]


def unread(api: KubernetesApi, stored: Object, secret: str) -> str:
    with pytest.raises(ReadFailed) as problem:
        read(api, stored, secret)
    assert f"of-{secret}" not in problem.value.message
    return problem.value.message


WITHHELD = (
    "user dora may not get Secret {} in namespace secrets, so may not send it to a Kafka cluster; ask a user who "
    "may get the Secret to write this KafkaCluster, or set spec.security.labelledSecretsOnly: true and label the "
    "Secret kafkamedic.dev/credentials=true"
)


@pytest.mark.parametrize(
    "spec",
    [
        {"security": {"sasl": {"mechanism": "PLAIN", "secretRef": {"name": DATABASE}}, "protocol": "SASL_SSL"}},
        {"security": {"protocol": "SSL", "tls": {"caSecretRef": {"name": DATABASE}}}},
        {"security": {"protocol": "SSL", "tls": {"certSecretRef": {"name": DATABASE}}}},
        {"metadata": {"zookeeper": {"connect": "zk:2181", "tls": {"caSecretRef": {"name": DATABASE}}}}},
        {"metadata": {"zookeeper": {"connect": "zk:2181", "tls": {"certSecretRef": {"name": DATABASE}}}}},
    ],
)
def test_a_secret_that_its_author_may_not_get(operator_api: Person, spec: Object) -> None:
    """In whichever field: the attack on a database's password by somebody who edits KafkaClusters."""
    theirs = placed("KafkaCluster", NAMESPACE, bootstrapServers=EVIL, **spec)
    refused(create(theirs, "--as=dora"), WITHHELD.format(DATABASE))


def test_one_that_its_author_may_get_is_read(operator_api: Person) -> None:
    stored = created(naming(KAFKA), "--as=erin")
    assert read(operator_api, stored, KAFKA) == f"of-{KAFKA}".encode()


def test_who_may_not_get_it_may_not_lead_it_elsewhere(operator_api: Person) -> None:
    """erin's KafkaCluster is edited by dora: not where it leads, but how the operator acts."""
    stored = created(naming(KAFKA), "--as=erin")
    selector = {"podSelector": {"matchLabels": {"app": "mine"}}}
    for change in (
        {"bootstrapServers": EVIL},
        {"security": {"protocol": "SASL_PLAINTEXT"}},
        {"security": {"tls": {"caSecretRef": {"name": LABELLED}}}},
        {"brokers": selector},
        {"controllers": selector},
        {"metadata": {"zookeeper": {"connect": "zk.evil.example.com:2181"}}},
    ):
        refused(patch(stored, {"spec": change}, "--as=dora"), f"may not get Secret {KAFKA}")
    done = patch(stored, {"spec": {"remediation": {"paused": True}, "probes": {"interval": "30s"}}}, "--as=dora")
    assert done.returncode == 0, done.stderr
    assert read(operator_api, json.loads(done.stdout), KAFKA) == f"of-{KAFKA}".encode()
    moved = patch(stored, {"spec": {"bootstrapServers": f"other.{NAMESPACE}.svc:9093"}}, "--as=erin")
    assert moved.returncode == 0, moved.stderr


def test_as_many_as_there_can_be_are_checked(operator_api: Person) -> None:
    """Each question to the authorizer costs, and what is too dear is refused."""
    tls = {"caSecretRef": {"name": KAFKA}, "certSecretRef": {"name": KAFKA}}
    ensemble = {"zookeeper": {"connect": f"zk.{NAMESPACE}.svc:2281", "tls": tls}}
    most = naming(KAFKA, tls=tls)
    most["spec"]["metadata"] = ensemble
    created(most, "--as=erin")
    ensemble["zookeeper"]["tls"] = tls | {"certSecretRef": {"name": DATABASE}}
    refused(create(most, "--as=erin"), f"user erin may not get Secret {DATABASE}")


def test_labelled_secrets_may_be_named_by_whoever_edits_kafkaclusters(operator_api: Person) -> None:
    stored = created(naming(LABELLED, labelledSecretsOnly=True), "--as=dora")
    assert read(operator_api, stored, LABELLED) == f"of-{LABELLED}".encode()


def test_whoever_says_that_secrets_are_labelled_gets_no_other(operator_api: Person) -> None:
    stored = created(naming(DATABASE, EVIL, labelledSecretsOnly=True), "--as=dora")
    told = unread(operator_api, stored, DATABASE)
    assert (
        "it lacks the label kafkamedic.dev/credentials: 'true', and spec.security.labelledSecretsOnly is true" in told
    )
    assert f"kubectl label secret {DATABASE} -n {NAMESPACE} kafkamedic.dev/credentials=true" in told
    # and cannot take it back
    refused(
        patch(stored, {"spec": {"security": {"labelledSecretsOnly": False}}}, "--as=dora"), WITHHELD.format(DATABASE)
    )


def test_an_operator_that_does_not_know_the_policy_reads_labelled_secrets_alone(operator_api: Person) -> None:
    """As with admission.enabled=false: nobody has asked who the author is."""
    stored = KafkaCluster.parse(created(naming(KAFKA)))
    store = Store(operator_api, [NAMESPACE])
    with pytest.raises(ReadFailed, match="nothing checks who may name Secrets"):
        store.secret(stored, KAFKA)
    assert store.secret(stored, LABELLED)["password"] == f"of-{LABELLED}".encode()


def test_a_kafkacluster_from_before_the_policy(operator_api: Person) -> None:
    """What it names was checked by nobody."""
    stored = created(naming(KAFKA), "--as=erin")
    stored["metadata"] |= {"creationTimestamp": "2020-01-01T00:00:00Z", "uid": "an-older-one"}
    assert "the KafkaCluster is older than the check of who may name Secrets" in unread(operator_api, stored, KAFKA)


def test_a_password_crosses_no_network_readable_unless_somebody_says_so(operator_api: Person) -> None:
    plain = {"protocol": "SASL_PLAINTEXT", "sasl": {"mechanism": "PLAIN", "secretRef": {"name": KAFKA}}}
    refused(
        create(naming(KAFKA, **plain), "--as=erin"), "sends the password unencrypted; use SASL_SSL or SCRAM-SHA-512"
    )
    created(naming(KAFKA, **plain, allowPlaintextPassword=True), "--as=erin")
    scram = {"protocol": "SASL_PLAINTEXT"}
    created(naming(KAFKA, **scram), "--as=erin")
