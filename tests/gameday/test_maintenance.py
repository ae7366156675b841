"""Leaders after maintenance, and a controller that is there and does nothing."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import partial

import pytest

from kafka_medic.diagnose.leaders import IMBALANCED_FOR
from kafka_medic.diagnose.unled import STUCK_FOR
from tests.gameday import cluster
from tests.gameday.cluster import Cuts
from tests.gameday.conftest import SETTINGS
from tests.gameday.scenario import Act, Expected, Scenario, Scene, Twin, run
from tests.testbed import KafkaDeployment, deploy_kafka

SLOT = 9
LONG = 600_000


def test_leaders_after_maintenance(scenes: list[Scene]) -> None:
    run(scenes, acts, cluster.restore)


def acts(scene: Scene) -> Iterator[Act]:
    yield Twin("a restart in good order", partial(cluster.restart, scene, 2), partial(cluster.home, scene), 30)
    yield Twin(
        "a rollout of all brokers",
        partial(cluster.roll, scene),
        partial(cluster.home, scene),
        30,
        # All of it true: nobody elects the preferred leaders here, the topic with one replica has no leader while its
        # broker starts, and one broker after another is out of the ISR.
        may=frozenset({"LeadersImbalanced", "PartitionLeaderless", "PartitionUnderReplicated"}),
    )
    yield Scenario(
        "a broker back without leaderships",
        (Expected("LeadersImbalanced", IMBALANCED_FOR, ("broker 0 leads 0 of the",)),),
        partial(cluster.restart, scene, 0),
        partial(cluster.home, scene),
        settle=15,
    )


@pytest.fixture
def long_session(installed: None) -> Iterator[Scene]:
    """Sessions of ten minutes, and brokers that end theirs without asking the controller first."""
    KafkaDeployment("gameday-stuck", "zookeeper", {}, {0: ""}).undeploy()  # what a killed run left
    settings = SETTINGS | {"zookeeper.session.timeout.ms": LONG, "controlled.shutdown.enable": "false"}
    kafka = deploy_kafka(
        "gameday-stuck", "zookeeper", settings, SLOT, zookeeper_overrides={"maxSessionTimeout": LONG + 1}
    )
    scene = Scene(kafka, f"stuck-{uuid.uuid4().hex[:4]}")
    cluster.fill(scene)
    scene.watch(expectations=cluster.EXPECTATIONS)
    yield scene
    kafka.undeploy()


def test_a_controller_that_nobody_replaces(long_session: Scene) -> None:
    run([long_session], stuck, cluster.restore)


def stuck(scene: Scene) -> Iterator[Act]:
    controller = cluster.controller(scene)
    away = next(b for b in cluster.others(controller) if b != cluster.THIN_ON)
    cuts = Cuts()

    def fault() -> None:
        cluster.cut_from_authority(scene, controller, cuts)
        cluster.stop(scene, away)

    def cure() -> None:
        cuts.mend()
        cluster.start(scene, away)

    words = (f"broker {controller} is the controller and answers", f"broker {away} (not registered)")
    yield Scenario(
        "a controller cut off that nobody replaces",
        (Expected("ControllerStuck", STUCK_FOR, words),),
        fault,
        cure,
        # Nobody told the brokers, so that all of them still count the one that went.
        also=frozenset({"ViewDiverged"}),
        settle=5,
        keep=15,
    )
