"""What holds a roll of ours, controllers apart from brokers, and a pool that grows."""

from __future__ import annotations

import json

from tests.incident import operator
from tests.strimzi.case import (
    ROLL_SECONDS,
    StrimziCase,
    Timeline,
    every_pod_is_another_one,
    nothing_of_ours,
    under_load,
)
from tests.strimzi.conftest import NAMESPACE
from tests.testbed import kubectl, strimzi, wait_for
from tests.testbed.strimzi import Pool, StrimziKafka


def test_a_pause_a_rebalance_and_a_request_of_others_hold_ours(case: StrimziCase) -> None:
    """Each is reported by the guard while it lasts, and the approved run goes on afterwards by itself."""
    kafka, line = case.made_by_strimzi, Timeline("what holds a roll of ours")
    wait_for("Strimzi to be at rest", kafka.at_rest, 120, every=1)
    resource, pod = ("kafka", kafka.name, "-n", NAMESPACE), ("pod", kafka.pod_name(2), "-n", NAMESPACE)
    uids = kafka.uids()
    try:
        kubectl("annotate", *resource, "strimzi.io/pause-reconciliation=true")
        case.watch()
        case.condition("Ready", "True")
        run = case.approved("restart-broker", brokers="1")
        assert "its reconciliation is paused" in case.wait_for_guard("NoForeignRollout")
        line.note("held by the pause")
        # Strimzi would put the status of the next one right.
        cluster_operator(0)
        rebalancing()
        wait_for("the rebalance to be told", lambda: "KafkaRebalance" in _held(case), 60)
        line.note(f"held: {_held(case)[:200]}")
        # As Strimzi's Drain Cleaner does to a Pod that somebody evicts.
        kubectl("annotate", *pod, "strimzi.io/manual-rolling-update=true")
        wait_for("the request to be told", lambda: "so Strimzi will restart it" in _held(case), 60)
        line.note(f"held: {_held(case)[:300]}")
    finally:
        kubectl("annotate", *pod, "strimzi.io/manual-rolling-update-")
        kubectl("delete", "kafkarebalance", "full", "-n", NAMESPACE, "--ignore-not-found")
        kubectl("annotate", *resource, "strimzi.io/pause-reconciliation-")
        cluster_operator(1)
    line.note("all of it is over")
    operator.wait_for_run(case.namespace, "Succeeded", 300, line.run, case.name, run["metadata"]["name"])
    line.show()
    assert [node for node, uid in kafka.uids().items() if uids[node] != uid] == [1]
    nothing_of_ours(case)


def test_controllers_apart_are_found_and_rolled_as_such(case_apart: StrimziCase) -> None:
    case, kafka, line = (
        case_apart,
        case_apart.made_by_strimzi,
        Timeline("a roll of three brokers and three controllers"),
    )
    case.watch()
    case.condition("Ready", "True")
    derived = case.status()["strimzi"]
    assert {p["name"]: (p["roles"], p["ids"]) for p in derived["pools"]} == {
        "broker": (["broker"], [0, 1, 2]),
        "controller": (["controller"], [3, 4, 5]),
    }
    assert case.status()["brokers"] == {"expected": 3, "registered": 3, "reachable": 3}
    assert case.firing() == []
    before = kafka.uids()
    with under_load(case, line):
        run = case.approved("rolling-restart")
        line.note("approved")
        name = run["metadata"]["name"]
        done = operator.wait_for_run(case.namespace, "Succeeded", ROLL_SECONDS, line.run, case.name, name)
        line.journal(done)
    assert every_pod_is_another_one(kafka, before)
    nothing_of_ours(case)


def test_a_pool_grows_while_a_roll_is_approved(case_apart: StrimziCase) -> None:
    """The run waits while Strimzi adds a broker, and ends or asks again; the new broker is known afterwards."""
    case, kafka, line = case_apart, case_apart.made_by_strimzi, Timeline("a pool of brokers grows from 3 to 4")
    grown = StrimziKafka(NAMESPACE, kafka.name, (Pool("broker", (0, 1, 2, 6)), *kafka.pools[1:]))
    strimzi.make_volumes(grown)
    case.watch()
    case.condition("Ready", "True")
    with under_load(case, line):
        run = case.approved("rolling-restart")
        line.note("approved")
        patch = {"spec": {"replicas": 4}}
        kubectl("patch", "kafkanodepool", "broker", "-n", NAMESPACE, "--type=merge", "-p", json.dumps(patch))
        line.note("the pool is to have 4 nodes")
        line.note("held: " + case.wait_for_guard("NoForeignRollout", 120)[:160])
        name = run["metadata"]["name"]
        done = operator.wait_for_run(case.namespace, "Succeeded", ROLL_SECONDS, line.run, case.name, name)
        line.journal(done)
    assert case.status()["brokers"] == {"expected": 4, "registered": 4, "reachable": 4}
    assert {p["name"]: p["ids"] for p in case.status()["strimzi"]["pools"]}["broker"] == [0, 1, 2, 6]
    nothing_of_ours(case)


def _held(case: StrimziCase) -> str:
    waits = case.run()["status"].get("waitingFor", [])
    return "; ".join(w["message"] for w in waits if w["guard"] == "NoForeignRollout")


def cluster_operator(replicas: int) -> None:
    kubectl("scale", f"deployment/{strimzi.OPERATOR}", "-n", NAMESPACE, f"--replicas={replicas}")
    wait = ("rollout", "status", f"deployment/{strimzi.OPERATOR}", "-n", NAMESPACE, "--timeout=180s")
    kubectl(*wait, timeout=190)


def rebalancing() -> None:
    """A KafkaRebalance as it is while Cruise Control is moving replicas."""
    meta = {"name": "full", "namespace": NAMESPACE, "labels": {"strimzi.io/cluster": "events"}}
    body = {"apiVersion": "kafka.strimzi.io/v1", "kind": "KafkaRebalance", "metadata": meta, "spec": {}}
    operator.apply([body])
    told = {"status": {"conditions": [{"type": "Rebalancing", "status": "True"}]}}
    patch = ("--subresource=status", "--type=merge", "-p", json.dumps(told))
    kubectl("patch", "kafkarebalance", "full", "-n", NAMESPACE, *patch)
