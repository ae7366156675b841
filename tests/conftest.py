"""What tests on real parts share: one deployment of each shape a run, made when first asked for."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping

import hypothesis
import pytest

from kafka_medic.plan.arrow import leave_pandas_out
from tests.testbed import FACTOR_ONE, KafkaDeployment, Shape, deploy_kafka, secured
from tests.testbed.kafka import slot_addresses
from tests.testbed.kafka_settings import Settings
from tests.testbed.secured import Credentials
from tests.thorough import THOROUGH

# The same examples every time, so that what is red is red for the change at hand; SEARCH=1 looks for new ones. And on a
# busy machine no example fails for its time.
hypothesis.settings.register_profile(
    "the same", derandomize=not os.environ.get("SEARCH"), deadline=None, max_examples=100 if THOROUGH else 25
)
hypothesis.settings.load_profile("the same")

leave_pandas_out()  # half a second in each process, for nothing that is done here


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is marked `thorough` is left to `make simulate`."""
    if THOROUGH:
        return
    later = [item for item in items if item.get_closest_marker("thorough")]
    if later:
        config.hook.pytest_deselected(items=later)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]


def pytest_collection_finish() -> None:
    """What is imported and collected by now lives as long as the process: nobody looks through it for garbage."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


SLOTS: dict[Shape, int] = {"kraft": 1, "zookeeper": 2}


@pytest.fixture(scope="session")
def credentials() -> Credentials:
    """What the listeners of every deployment show and trust, and what clients may show them."""
    return Credentials.create([a for slot in SLOTS.values() for fixed in slot_addresses(slot) for a in fixed.values()])


class GivenBack:
    """What tests share goes with the last one that asks for it: idle brokers cost the later ones time."""

    def __init__(self, last: pytest.Item, give_back: Callable[[], None]) -> None:
        self._last, self._give_back = last, give_back

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        if item is self._last:
            self._give_back()


def undeployed_after_last_user(request: pytest.FixtureRequest, made: list[KafkaDeployment]) -> None:
    """`made` may grow meanwhile. At the end of the session at the latest."""

    def give_back() -> None:
        while made:
            made.pop().undeploy(wait=False)

    request.addfinalizer(give_back)
    users = [item for item in request.session.items if request.fixturename in getattr(item, "fixturenames", ())]
    request.config.pluginmanager.register(GivenBack(users[-1], give_back))


def one_of_each_kind(
    request: pytest.FixtureRequest, name: str, settings: Settings, slots: Mapping[Shape, int]
) -> list[KafkaDeployment]:
    """For the fixture that asks: both are started at once, and go with the last test that uses it."""
    made: list[KafkaDeployment] = []
    undeployed_after_last_user(request, made)
    for shape, slot in slots.items():
        made.append(deploy_kafka(f"{name}-{shape}", shape, settings, slot, wait=False))
    for deployment in made:
        deployment.wait_ready()
    return list(made)


@pytest.fixture(scope="session")
def kafka_of(request: pytest.FixtureRequest, credentials: Credentials) -> Callable[[Shape], KafkaDeployment]:
    """The deployment of a shape, three brokers whose defaults are all factor 1, with a listener of every kind."""
    made: list[KafkaDeployment] = []
    undeployed_after_last_user(request, made)

    def get(shape: Shape) -> KafkaDeployment:
        found = next((kafka for kafka in made if kafka.shape == shape), None)
        if found is None:
            addresses, _ = slot_addresses(SLOTS[shape])
            found = deploy_kafka(
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
            made.append(found)
            secured.create_users(found.bootstrap)
        return found

    return get


@pytest.fixture(scope="session", params=["kraft", "zookeeper"])
def kafka(request: pytest.FixtureRequest, kafka_of: Callable[[Shape], KafkaDeployment]) -> KafkaDeployment:
    return kafka_of(request.param)
