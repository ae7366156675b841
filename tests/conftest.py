"""What tests on real parts share: one deployment of each shape a run, made when first asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import hypothesis
import pytest

from tests.testbed import FACTOR_ONE, KafkaDeployment, Shape, deploy_kafka, secured
from tests.testbed.kafka import slot_addresses
from tests.testbed.secured import Credentials

# The same examples every time, so that what is red is red for the change at hand; SEARCH=1 looks for new ones.
hypothesis.settings.register_profile("the same", derandomize=not os.environ.get("SEARCH"))
hypothesis.settings.load_profile("the same")

SLOTS: dict[Shape, int] = {"kraft": 1, "zookeeper": 2}


@pytest.fixture(scope="session")
def credentials() -> Credentials:
    """What the listeners of every deployment show and trust, and what clients may show them."""
    return Credentials.create([a for slot in SLOTS.values() for fixed in slot_addresses(slot) for a in fixed.values()])


class GivenBack:
    """The shared deployments go with the last test that asks for them: idle brokers cost the later ones time."""

    def __init__(self, last: pytest.Item) -> None:
        self.made: dict[Shape, KafkaDeployment] = {}
        self._last = last

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        if item is self._last:
            self.give_back()

    def give_back(self) -> None:
        while self.made:
            self.made.popitem()[1].undeploy(wait=False)


@pytest.fixture(scope="session")
def kafka_of(request: pytest.FixtureRequest, credentials: Credentials) -> Iterator[Callable[[Shape], KafkaDeployment]]:
    """The deployment of a shape, three brokers whose defaults are all factor 1, with a listener of every kind."""
    users = [item for item in request.session.items if "kafka_of" in getattr(item, "fixturenames", ())]
    shared = GivenBack(users[-1])
    request.config.pluginmanager.register(shared)
    made = shared.made

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
    shared.give_back()


@pytest.fixture(scope="session", params=["kraft", "zookeeper"])
def kafka(request: pytest.FixtureRequest, kafka_of: Callable[[Shape], KafkaDeployment]) -> KafkaDeployment:
    return kafka_of(request.param)
