"""What tests on real parts share: one deployment of each shape a run, made when first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.testbed import FACTOR_ONE, KafkaDeployment, Shape, deploy_kafka
from tests.testbed.kafka import slot_addresses

SLOTS: dict[Shape, int] = {"kraft": 1, "zookeeper": 2}
SASL_PORT = 9094
"""A listener that asks for a password, on the Pods' own addresses only: what a wrong password meets."""
_JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="right" user_admin="right";'
)


def _settings(shape: Shape) -> tuple[dict[str, object], dict[int, dict[str, object]]]:
    common = FACTOR_ONE | {
        "listeners": f"PLAINTEXT://:9092,CONTROLLER://:9093,SASL://:{SASL_PORT}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": _JAAS,
    }
    addresses, _ = slot_addresses(SLOTS[shape])
    each: dict[int, dict[str, object]] = {
        n: {"advertised.listeners": f"PLAINTEXT://{a}:9092,CONTROLLER://{a}:9093,SASL://{a}:{SASL_PORT}"}
        for n, a in addresses.items()
    }
    return common, each


@pytest.fixture(scope="session")
def kafka_of() -> Iterator[Callable[[Shape], KafkaDeployment]]:
    """The deployment of a shape, three brokers whose defaults are all factor 1."""
    made: dict[Shape, KafkaDeployment] = {}

    def get(shape: Shape) -> KafkaDeployment:
        if shape not in made:
            KafkaDeployment(f"e2e-{shape}", shape, {}, {0: ""}).undeploy()  # what a killed run left
            common, each = _settings(shape)
            made[shape] = deploy_kafka(f"e2e-{shape}", shape, common, SLOTS[shape], broker_overrides=each)
        return made[shape]

    yield get
    for deployment in made.values():
        deployment.undeploy()


@pytest.fixture(scope="session", params=["kraft", "zookeeper"])
def kafka(request: pytest.FixtureRequest, kafka_of: Callable[[Shape], KafkaDeployment]) -> KafkaDeployment:
    return kafka_of(request.param)
