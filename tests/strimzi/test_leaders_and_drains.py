"""Leaders given back after a roll of Strimzi's, and a node that is drained with Strimzi's disruption budget."""

from __future__ import annotations

import time

from confluent_kafka.admin import AdminClient

from tests.incident import operator, records
from tests.strimzi.case import StrimziCase, Timeline, nothing_of_ours, under_load
from tests.testbed import get, kubectl, wait_for


def test_leaders_are_given_back(case: StrimziCase) -> None:
    line = Timeline("leaders given back")
    topic = case.topic([0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 2, 1], [1, 0, 2], [2, 1, 0])
    case.watch()
    case.condition("Ready", "True")
    with under_load(case, line):
        kubectl("delete", "pod", case.made_by_strimzi.pod_name(0), "-n", case.namespace)
        line.note("a Pod is deleted by hand")
        wait_for("broker 0 to lead nothing", lambda: leads(case, topic, 0) == 0, 60)
        case.made_by_strimzi.wait_ready()
        case.condition("Replicated", "True", seconds=120)
        line.note(f"broker 0 leads {leads(case, topic, 0)} of 6")
        run = case.approved("elect-preferred-leaders")
        line.note("approved")
        operator.wait_for_run(case.namespace, "Succeeded", 120, line.run, case.name, run["metadata"]["name"])
        line.note(f"broker 0 leads {leads(case, topic, 0)} of 6")
    assert leads(case, topic, 0) == 2
    nothing_of_ours(case)


def leads(case: StrimziCase, topic: str, broker: int) -> int:
    found = AdminClient({"bootstrap.servers": case.boot}).list_topics(topic, timeout=records.PATIENCE).topics[topic]
    return sum(p.leader == broker for p in found.partitions.values())


def test_a_node_is_drained_with_strimzis_budget(case: StrimziCase) -> None:
    kafka, line = case.made_by_strimzi, Timeline("a node is cordoned, its broker drained, then the node")
    topic = case.topic([0, 1, 2], [1, 2, 0], [2, 0, 1])
    playbook = '{"spec":{"trigger":{"for":"%s"}}}'
    kubectl("patch", "playbook", "drain-broker", "--type=merge", "-p", playbook % "2s")
    case.watch()
    case.condition("Ready", "True")
    node, uid = kafka.pod(0)["spec"]["nodeName"], kafka.uids()[0]
    budget = get("poddisruptionbudget", f"{kafka.name}-kafka", namespace=kafka.namespace)
    line.note(f"Strimzi's budget permits {budget['status']['disruptionsAllowed']} eviction")
    try:
        with under_load(case, line):
            kubectl("cordon", node)
            line.note(f"node {node} is cordoned")
            run = operator.wait_for_run(
                case.namespace, "AwaitingApproval", 120, line.run, case.name, playbook="drain-broker"
            )
            assert operator.approve(run, "alice").returncode == 0
            name = run["metadata"]["name"]
            wait_for("broker 0 to lead nothing", lambda: noted(case, line, name) and leads(case, topic, 0) == 0, 120)
            line.note("broker 0 leads nothing")
            pods = f"--pod-selector={kafka.selector}"
            kubectl("drain", node, pods, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s", timeout=130)
            line.note("kubectl drain has ended")
            assert kafka.uids_of_those_there().get(0) != uid
            time.sleep(5)
            kubectl("uncordon", node)
            line.note("uncordoned")
            kafka.wait_ready()
            wait_for("the run's end", lambda: noted(case, line, name) and over(case, name), 240)
            back = operator.wait_for_run(
                case.namespace, "AwaitingApproval", 120, line.run, case.name, playbook="undrain-broker"
            )
            assert operator.approve(back, "alice").returncode == 0
            operator.wait_for_run(case.namespace, "Succeeded", 120, line.run, case.name, back["metadata"]["name"])
            line.note(f"broker 0 leads {leads(case, topic, 0)} of 3 again")
    finally:
        kubectl("uncordon", node)
        kubectl("patch", "playbook", "drain-broker", "--type=merge", "-p", playbook % "1h")
    assert leads(case, topic, 0) == 1
    nothing_of_ours(case)


def noted(case: StrimziCase, line: Timeline, name: str) -> bool:
    line.run(case.run(name))
    return True


def over(case: StrimziCase, name: str) -> bool:
    return operator.phase(case.run(name)) in ("Succeeded", "Superseded")
