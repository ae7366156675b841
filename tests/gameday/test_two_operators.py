"""Two Pods of the operator, as the chart has them: the one that looks after a cluster is killed, the other goes on."""

from __future__ import annotations

import json
import time

from kafka_medic.controller.lease import DURATION_SECONDS
from tests.gameday.scenario import Scene
from tests.incident import operator
from tests.testbed import get, kubectl, wait_for

SLACK = 15.0
"""Seconds on top of the Lease's: who waits asks every five, and a look takes its time."""


def test_the_other_one_goes_on(scenes: list[Scene]) -> None:
    deployment, scene = ("deployment", operator.RELEASE, "-n", operator.NAMESPACE), scenes[0]
    kubectl("scale", *deployment, "--replicas=2")
    try:
        kubectl("rollout", "status", *deployment, "--timeout=120s", timeout=130)
        first = holder(scene)
        began = time.monotonic()
        kubectl("delete", "pod", first, "-n", operator.NAMESPACE, "--grace-period=0", "--force", "--wait=false")
        wait_for("another holder", lambda: holder(scene) not in ("", first), DURATION_SECONDS + SLACK)
        before = looked(scene)
        wait_for("a look of its own", lambda: looked(scene) > before, SLACK)
        print(f"another operator went on after {time.monotonic() - began:.1f} s")
    finally:
        kubectl("scale", *deployment, "--replicas=1")
        kubectl("rollout", "status", *deployment, "--timeout=120s", timeout=130)
        last = looked(scene)
        wait_for("whoever is left to look", lambda: looked(scene) > last, DURATION_SECONDS + SLACK)


def holder(scene: Scene) -> str:
    lease = kubectl("get", "lease", f"kafka-medic-{scene.name}", "-n", scene.kafka.namespace, "-o", "json").stdout
    return str(json.loads(lease)["spec"].get("holderIdentity") or "")


def looked(scene: Scene) -> str:
    status = get("kafkacluster", scene.name, namespace=scene.kafka.namespace).get("status", {})
    return str(status.get("lastObservedAt", ""))
