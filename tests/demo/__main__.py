"""The incident and its cure, told as it happens. Exits with 0 only if each figure was measured."""

from __future__ import annotations

import argparse
import sys
import time

from tests.incident import operator, records
from tests.incident.operator import Object
from tests.testbed import FACTOR_ONE, KafkaDeployment, deploy_kafka, get, kubectl, wait_for

NAMESPACE, PLAYBOOK = "demo", "raise-replication-factor"
TOPIC, GROUP, BUSY = "orders", "billing", "payments"
_BEGAN = time.monotonic()


class NotShownError(AssertionError):
    """A figure of the demo was not what it has to be."""


def tell(text: str) -> None:
    print(f"[{time.monotonic() - _BEGAN:6.1f}s] {text}", flush=True)


def show(what: str, measured: object, wanted: object) -> None:
    """Print a measured figure, and end the demo if it is not the one that was to be shown."""
    tell(f"   {what}: {measured}")
    if measured != wanted:
        raise NotShownError(f"{what}: measured {measured}, wanted {wanted}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.demo", description=__doc__)
    parser.add_argument("--mode", choices=("kraft", "zookeeper"), default="kraft", help="default: kraft")
    mode = parser.parse_args().mode
    try:
        incident(mode)
    except NotShownError as problem:
        tell(f"NOT SHOWN: {problem}")
        return 1
    return 0


def incident(mode: str) -> None:
    clear()
    tell(f"a Kafka cluster ({mode}) of three brokers in three zones, all defaults left at replication factor 1")
    kafka = deploy_kafka(NAMESPACE, mode, FACTOR_ONE, slot=0)  # type: ignore[arg-type]
    boot = kafka.bootstrap
    tell("kafka-medic, installed by its chart")
    operator.install()
    operator.people(NAMESPACE)

    tell(f"topic {TOPIC} on broker 1 alone; 21 records are written without an error, 10 read and committed")
    records.create_topic(boot, TOPIC, [[1]])
    records.create_topic(boot, BUSY, [[0], [1], [2]])
    show("records acknowledged", records.write(boot, TOPIC, [f"order-{n}" for n in range(21)]), 21)
    show("records read by the group", len(records.read_group(boot, GROUP, TOPIC, 10)), 10)
    show("committed offset", records.committed(boot, GROUP, TOPIC), 10)
    show("log end offset", records.log_end(boot, TOPIC), 21)
    operator.apply([operator.kafka_cluster(kafka, remediation={"mode": "Observe"})])

    tell("broker 1 goes down for maintenance: its node is cordoned and its Pod deleted")
    kafka.stop_broker(1)
    wait_for(f"{TOPIC}-0 without a leader", lambda: records.leader(boot, TOPIC) == -1, 60)
    readable = records.read_from(boot, TOPIC, 10, 11, seconds=8)
    show("records that cannot be read", 21 - 10 - len(readable), 11)
    operator.wait_condition(NAMESPACE, "demo", "Replicated", "False")
    tell(f"   the operator reports: {finding('PartitionLeaderless')}")

    tell("broker 1 is back")
    kafka.start_broker(1)
    wait_for(f"a leader of {TOPIC}-0", lambda: records.leader(boot, TOPIC) == 1, 60)
    traffic = records.Traffic(boot, BUSY)
    traffic.start()
    tell(f"an idempotent producer (acks=all) and a consumer run on topic {BUSY} from here to the end")
    try:
        heal(mode)
        tell("broker 1 goes down again")
        kafka.stop_broker(1)
        every = records.read_from(boot, TOPIC, 0, 21, seconds=60)
        show("records readable", len(every), 21)
        show("of which distinct", len({value for _, value in every}), 21)
        rest = records.read_group(boot, GROUP, TOPIC, 11)
        show("the group continues at offset", rest[0][0] if rest else None, 10)
        show("and reads what it had missed", len(rest), 11)
    finally:
        traffic.stop()
    show("acknowledged records of the running producer that were lost", len(traffic.lost), 0)
    show("read more than once", len(traffic.doubled), 0)
    show("that failed", len(traffic.failed), 0)
    tell(f"   ({len(traffic.acked)} records were acknowledged and read while all this went on)")
    kafka.start_broker(1)
    tell("done: nothing was lost, and you can stop broker 1 at any time")


def clear() -> None:
    """What an earlier demo left in a testbed that stayed up."""
    if kubectl("get", "namespace", NAMESPACE, check=False).returncode == 0:
        tell("clearing away an earlier demo")
        kubectl("delete", "kafkaclusters.kafkamedic.dev", "--all", "-n", NAMESPACE, check=False)
        KafkaDeployment(NAMESPACE, "zookeeper", {}).undeploy()


def heal(mode: str) -> None:
    tell("the KafkaCluster's mode is set from Observe to Approve; the operator proposes")
    patch = '{"spec":{"remediation":{"mode":"Approve"}}}'
    kubectl("patch", "kafkacluster", "demo", "-n", NAMESPACE, "--type=merge", "-p", patch)
    run = operator.wait_for_run(NAMESPACE, "AwaitingApproval", playbook=PLAYBOOK)
    plan = run["status"]["plan"]
    print("\n" + kubectl("get", "kmr", "-n", NAMESPACE).stdout)
    for line in plan["summary"].splitlines():
        print(f"      {line}")
    print(f"      digest {plan['digest']}\n", flush=True)
    show("replicas copied beyond the fewest possible", plan["moves"] - plan["lowerBoundMoves"], 0)

    for user, why in (("bob", "may only look"), ("mallory", "may create approvals but not approve")):
        answer = operator.approve(run, user)
        tell(f"{user}, who {why}, tries to approve: {answer.stderr.strip().splitlines()[-1][:230]}")
        show("refused", answer.returncode != 0, True)
    tell("alice, who has the approver's role, approves exactly this plan")
    show("taken", operator.approve(run, "alice").returncode, 0)

    said: list[str] = []

    def seen(state: Object) -> None:
        status = state.get("status", {})
        line = f"{status.get('phase', ''):<16} {status.get('currentStep', '') or '':<24} {status.get('message', '')}"
        if line not in said:
            said.append(line)
            tell(f"   {line.splitlines()[0][:160]}")

    run = operator.wait_for_run(NAMESPACE, "Succeeded", 240, seen, playbook=PLAYBOOK)
    for entry in run["status"]["journal"]:
        tell(f"   journal: {entry['id']:<40} {entry['state']:<6} {entry.get('detail', '')}")
    show("approved by", run["status"]["approvedBy"], "alice")
    boot = get("kafkacluster", "demo", namespace=NAMESPACE)["spec"]["bootstrapServers"]
    show("throttles left behind", operator.throttles(boot) or "none", "none")
    factors = operator.factors(boot)
    show("topics not fully in sync", sorted(t for t, f in factors.items() if f != {3}) or "none", "none")
    tell(f"   topics at factor 3, all in sync: {', '.join(sorted(factors))} ({mode})")


def finding(kind: str) -> str:
    found: list[str] = []

    def there() -> bool:
        status = get("kafkacluster", "demo", namespace=NAMESPACE).get("status", {})
        found[:] = [f["message"] for f in status.get("findings", []) if f["type"] == kind]
        return bool(found)

    wait_for(f"finding {kind}", there, 60)
    return found[0]


if __name__ == "__main__":
    sys.exit(main())
