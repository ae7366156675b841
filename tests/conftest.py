"""What tests on real parts share: one deployment of each shape a run, made when first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.testbed import FACTOR_ONE, KafkaDeployment, Shape, deploy_kafka, secured
from tests.testbed.kafka import slot_addresses
from tests.testbed.secured import Credentials

SLOTS: dict[Shape, int] = {"kraft": 1, "zookeeper": 2}


@pytest.fixture(scope="session")
def credentials() -> Credentials:
    """What the listeners of every deployment show and trust, and what clients may show them."""
    return Credentials.create([a for slot in SLOTS.values() for fixed in slot_addresses(slot) for a in fixed.values()])


@pytest.fixture(scope="session")
def kafka_of(credentials: Credentials) -> Iterator[Callable[[Shape], KafkaDeployment]]:
    """The deployment of a shape, three brokers whose defaults are all factor 1, with a listener of every kind."""
    made: dict[Shape, KafkaDeployment] = {}

    def get(shape: Shape) -> KafkaDeployment:
        if shape not in made:
            KafkaDeployment(f"e2e-{shape}", shape, {}, {0: ""}).undeploy()  # what a killed run left
            addresses, _ = slot_addresses(SLOTS[shape])
            made[shape] = deploy_kafka(
                f"e2e-{shape}",
                shape,
                FACTOR_ONE | secured.listeners(credentials) | {"auto.leader.rebalance.enable": "false"},
                SLOTS[shape],
                broker_overrides={n: secured.advertised(a) for n, a in addresses.items()},
                broker_ports={name.lower(): port for name, (_, port) in secured.LISTENERS.items()},
                zookeeper_overrides=secured.ENSEMBLE,
                zookeeper_ports={"secure": secured.ENSEMBLE_PORT},
                zookeeper_files=secured.ensemble_files(credentials),
            )
            secured.create_users(made[shape].bootstrap)
        return made[shape]

    yield get
    for deployment in made.values():
        deployment.undeploy(wait=False)


@pytest.fixture(scope="session", params=["kraft", "zookeeper"])
def kafka(request: pytest.FixtureRequest, kafka_of: Callable[[Shape], KafkaDeployment]) -> KafkaDeployment:
    return kafka_of(request.param)
