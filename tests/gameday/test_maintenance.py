"""Leaders after maintenance, and a controller that is there and does nothing."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator
from functools import partial

import pytest

from kafka_medic.diagnose.controller_stuck import STUCK_FOR
from kafka_medic.diagnose.leaderless import DEFAULT_API_TIMEOUT_MS
from kafka_medic.diagnose.leaders import IMBALANCED_FOR
from tests.gameday import cluster
from tests.gameday.cluster import Cuts
from tests.gameday.committing import Committing, committing, coordinated_by
from tests.gameday.conftest import SETTINGS
from tests.gameday.scenario import Act, Expected, Scenario, Scene, Twin, patch, run
from tests.incident import operator
from tests.testbed import deployed, faults, wait_for

SLOT = 9
LONG = 600_000
ADVISED_MS = 600_000


HUNG = frozenset(
    {"BrokerDown", "QuorumDegraded", "PartitionUnderReplicated", "PartitionLeaderless", "LeadersImbalanced"}
)


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
    if scene.kafka.shape == "kraft":
        # What is a stuck controller with ZooKeeper: here the quorum elects another one. That the broker hangs is said.
        broker = cluster.controller(scene)
        hang = partial(faults.pause_broker, scene.kafka, broker)
        yield Twin("the active controller hangs", hang, partial(cluster.resume, scene, broker), 75, may=HUNG)


@pytest.fixture
def long_session(installed: None) -> Iterator[Scene]:
    """Sessions of ten minutes, and brokers that end theirs without asking the controller first."""
    settings = SETTINGS | {"zookeeper.session.timeout.ms": LONG, "controlled.shutdown.enable": "false"}
    ensemble = {"maxSessionTimeout": LONG + 1}
    with deployed("gameday-stuck", "zookeeper", settings, SLOT, zookeeper_overrides=ensemble) as kafka:
        scene = Scene(kafka, f"stuck-{uuid.uuid4().hex[:4]}")
        cluster.fill(scene)
        scene.watch(expectations=cluster.EXPECTATIONS)
        yield scene


@pytest.mark.parametrize("mode", ["Approve", "Auto"])
def test_a_controller_that_nobody_replaces(long_session: Scene, mode: str) -> None:
    """Consumers commit all the while: with Kafka's default `default.api.timeout.ms`, and with more than is advised."""
    scene = long_session
    controller = cluster.controller(scene)
    away = next(b for b in cluster.others(controller) if b != cluster.THIN_ON)
    with scene.client() as client:
        offsets = [p for p in cluster.states(client, controller) if p.topic == "__consumer_offsets"]
    theirs = next(p.partition for p in offsets if p.leader == away)
    groups = [coordinated_by(theirs, len(offsets), name) for name in ("as-ever", "as-advised")]
    with contextlib.ExitStack() as applications:

        def start(group: str, timeout: int) -> Committing:
            return applications.enter_context(committing("zookeeper", scene.boot, group, cluster.ORDERS, timeout))

        old, advised = start(groups[0], DEFAULT_API_TIMEOUT_MS), start(groups[1], ADVISED_MS)
        run([scene], partial(stuck, controller=controller, away=away, mode=mode), cluster.restore)
        wait_for("commits after the cure", lambda: max(advised.commits()) > DEFAULT_API_TIMEOUT_MS, 30)
        assert advised.alive, advised.death()
        assert "TimeoutException" in old.death(), "Kafka's default is too short for this outage"
        status = scene.status()
        advice = status["impliedDefaultApiTimeoutMs"]
        print(
            f"\nlongest time without a leader {status['longestLeaderlessMs'] / 1000:.0f} s, advised "
            f"default.api.timeout.ms {advice}; with {DEFAULT_API_TIMEOUT_MS}: {old.death()[:120]}; "
            f"with {ADVISED_MS}: the longest commit took {max(advised.commits()) / 1000:.0f} s"
        )
        assert status["longestLeaderlessMs"] > DEFAULT_API_TIMEOUT_MS
        assert max(advised.commits()) < advice <= ADVISED_MS, "the advice would have done"


def stuck(scene: Scene, controller: int, away: int, mode: str) -> Iterator[Act]:
    cuts = Cuts()

    def fault() -> None:
        cluster.cut_from_authority(scene, controller, cuts)
        cluster.stop(scene, away)

    def gives_way() -> None:
        """By the operator's own proposal, while the controller is still cut off and the other broker still away."""
        before = scene.kafka.pod(controller)["metadata"]["uid"]
        operator.people(scene.kafka.namespace)
        patch(scene, json.dumps({"spec": {"remediation": {"mode": mode, "auto": {"maxRisk": "High"}}}}))

        def mine() -> list[operator.Object]:
            runs = operator.runs(scene.kafka.namespace)
            return [r for r in runs if r["spec"]["playbook"]["name"] == "restart-controller"]

        if mode == "Approve":
            wait_for("the proposal", lambda: [operator.phase(r) for r in mine()] == ["AwaitingApproval"], 150)
            assert operator.approve(mine()[0], "alice").returncode == 0
        wait_for("another controller", lambda: [operator.phase(r) for r in mine()] == ["Succeeded"], 270)
        assert f"broker {controller} resigns as controller" in mine()[0]["status"]["plan"]["summary"]
        assert mine()[0]["status"]["approvedBy"] == ("policy:Auto" if mode == "Auto" else "alice")
        assert cluster.controller(scene) != controller
        assert scene.kafka.pod(controller)["metadata"]["uid"] == before, "nothing is restarted"

    def cure() -> None:
        try:
            gives_way()
        finally:
            patch(scene, '{"spec":{"remediation":{"mode":"Observe"}}}')
            cuts.mend()
            cluster.start(scene, away)

    words = (f"broker {controller} is the controller and", f"broker {away} (not registered)")
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
