"""`snapshot --command-config` connects as Kafka's own tools do with that file, or says what it cannot do."""

from __future__ import annotations

import pytest

from kafka_medic.cli.main import main
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import Connection, EnsembleConnection, OAuthClient, TlsMaterial
from kafka_medic.observe import command
from tests.simulation.kafka import SimKafka

LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"
SCRAM = "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
TOKENS = "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
PEM = "ssl.truststore.type=PEM\nssl.truststore.certificates=-----CA\\n-----\n"


@pytest.fixture
def connected(monkeypatch, tmp_path):
    """Runs the command on a file of that text; answers the connections that it would make."""
    made = []

    class Ensemble:
        def __init__(self, wanted: EnsembleConnection) -> None:
            made.append(wanted)

        def registrations(self):
            raise ReadFailed(FailureKind.UNREACHABLE, "simulated")

        ensemble = registrations

        def close(self) -> None: ...

    monkeypatch.setattr(command, "RealKafka", lambda wanted: made.append(wanted) or SimKafka())
    monkeypatch.setattr(command, "ZooKeeper", Ensemble)

    def run(text: str, *more: str) -> list:
        file = tmp_path / "client.properties"
        file.write_text(text)
        code = main(["snapshot", "--bootstrap-servers", "a:9093", "--command-config", str(file), *more])
        return made if code == 0 else [code]

    return run


def test_a_password_and_certificates_in_the_file(connected):
    jaas = f'sasl.jaas.config={LOGIN} username="u" \\\n   password="a\\\\"b=;c" ;\n'
    (made,) = connected(f"# a comment\n{SCRAM}{jaas}{PEM}request.timeout.ms=5\nssl.enabled.protocols=TLSv1.3\n")
    assert made == Connection(
        "a:9093", "SASL_SSL", "SCRAM-SHA-512", "u", 'a"b=;c', tls=TlsMaterial("-----CA\n-----"), timeout_seconds=10.0
    )


def test_certificates_in_files_of_their_own(connected, tmp_path):
    both = tmp_path / "client.pem"
    both.write_text("KEY AND CHAIN\n")
    store = f"ssl.keystore.type=PEM\nssl.keystore.location={both}\n"
    (made,) = connected(f"security.protocol=SSL\n{PEM}{store}")
    assert made.tls == TlsMaterial("-----CA\n-----", "KEY AND CHAIN", "KEY AND CHAIN")


@pytest.mark.parametrize(
    "client",
    [
        f'sasl.jaas.config={LOGIN} clientId="me" clientSecret="s" scope="kafka";\n',
        "sasl.oauthbearer.client.credentials.client.id=me\n"
        "sasl.oauthbearer.client.credentials.client.secret=s\nsasl.oauthbearer.scope=kafka\n",
    ],
)
def test_a_token_endpoint(connected, client):
    url = "sasl.oauthbearer.token.endpoint.url=https://idp/token\n"
    (made,) = connected(TOKENS + url + client + PEM)
    assert made.oauth == OAuthClient("https://idp/token", "me", "s", "kafka", "-----CA\n-----")


def test_an_ensemble_with_tls_and_without(connected):
    store = "".join(f"zookeeper.{line}\n" for line in PEM.splitlines())
    _, secured = connected(f"zookeeper.ssl.client.enable=true\n{store}", "--zookeeper", "zk:2281")
    assert secured == EnsembleConnection("zk:2281", TlsMaterial("-----CA\n-----"), 10.0)
    *_, clear = connected(store, "--zookeeper", "zk:2281")
    assert clear == EnsembleConnection("zk:2281", None, 10.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (SCRAM, "sasl.jaas.config: gives no username"),
        (f"{SCRAM}sasl.jaas.config={LOGIN} username=u;\n", "gives no password"),
        (TOKENS + f"sasl.jaas.config={LOGIN} clientId=me clientSecret=hunter2;\n", "token.endpoint.url"),
        ("security.protocol=TLS\n", "client.properties: security.protocol"),
        ("security.protocol=SASL_SSL\n", "client.properties: security"),
        ("security.protocol=SSL\nssl.truststore.location=/x.jks\n", "ssl.truststore.type: only PEM"),
        (
            "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/none\n",
            "truststore.location: FileNot",
        ),
        ("ssl.endpoint.identification.algorithm=\n", "host names are always verified"),
        ("ssl.key.password=hunter2\n", "ssl.key.password: is not supported"),
        ("sasl.kerberos.service.name=hunter2\n", "sasl.kerberos.service.name: is not supported"),
        ("security.protocol=\\u00zz\n", "not a properties file"),
        ("x=" + "y" * 1024 * 1024, "longer than"),
    ],
)
def test_what_cannot_be_done_is_named_and_no_secret_is_shown(connected, capsys, text, says):
    assert connected(text) == [4]
    told = capsys.readouterr().err
    assert says in told
    assert "hunter2" not in told
    assert "Traceback" not in told


def test_a_file_that_is_not_there_and_one_too_many(tmp_path, capsys):
    assert main(["snapshot", "--bootstrap-servers", "a:1", "--command-config", str(tmp_path / "none")]) == 4
    assert "FileNotFoundError" in capsys.readouterr().err
    cluster = tmp_path / "c.yaml"
    assert main(["snapshot", "--cluster", str(cluster), "--command-config", "x"]) == 4
    assert "goes with --bootstrap-servers only" in capsys.readouterr().err
