"""What half an hour without any broker costs the operator and its canary."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from tests.e2e.conftest import Case, kraft_case
from tests.e2e.test_canary import ROUND_SECONDS, broker_address, leaders, metrics, operator_pod, watch
from tests.incident import operator
from tests.testbed import faults, get, wait_for

__all__ = ["kraft_case"]

OUTAGE_ROUNDS = 120
"""As many as half an hour has at the default interval of 15 s."""
SETTLED_ROUNDS = 30
GROWTH_BYTES = 6 * 1024 * 1024
BUSY_SHARE = 0.25
"""Of one processor, reconciles and canary together, while nothing answers."""


def usage(process: int) -> tuple[int, float]:
    """Resident bytes and processor seconds of a process."""
    status = Path(f"/proc/{process}/status").read_text()
    resident = int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return resident, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_an_outage_costs_no_memory_and_no_busy_loop_and_ends_clean(kraft_case: Case) -> None:
    case = kraft_case
    topic = watch(case)
    case.condition("CanaryHealthy", "True", seconds=90)
    pod = operator_pod()
    restarts = pod["status"]["containerStatuses"][0]["restartCount"]
    process = max(faults.processes_of(pod), key=lambda p: usage(p)[0])
    failures = f'kafka_medic_canary_failures_total{{broker="0",cluster="{case.name}"'

    def rounds() -> float:
        return sum(v for k, v in metrics().items() if k.startswith(failures)) - before

    before = 0.0
    before = rounds()
    brokers = {n: broker_address(case.kafka, n) for n in (0, 1, 2)}
    try:
        for address in brokers.values():
            faults.cut(pod["status"]["podIP"], address, 9092)
        wait_for(f"{SETTLED_ROUNDS} rounds of the outage", lambda: rounds() >= SETTLED_ROUNDS, 180)
        settled, spent = usage(process)
        from_round = rounds()
        wait_for(f"{OUTAGE_ROUNDS} rounds of the outage", lambda: rounds() >= OUTAGE_ROUNDS, 400)
        resident, spent_then = usage(process)
        took = (rounds() - from_round) * ROUND_SECONDS
        print(json.dumps({"settled": settled, "end": resident, "cpuSeconds": spent_then - spent, "seconds": took}))
        assert resident - settled < GROWTH_BYTES
        assert spent_then - spent < BUSY_SHARE * took
        kinds = {f["type"] for f in get("kafkacluster", case.name, namespace=case.namespace)["status"]["findings"]}
        assert kinds & {"ClusterUnreachable", "OperatorIsolated"}
        assert "CanaryFailing" not in kinds
        assert operator.condition(case.namespace, case.name, "CanaryHealthy")["status"] == "Unknown"
    finally:
        faults.mend()
    case.condition("Reachable", "True", seconds=60)
    case.condition("CanaryHealthy", "True", seconds=60)
    assert operator_pod()["status"]["containerStatuses"][0]["restartCount"] == restarts
    assert sorted(leader for leader, _ in leaders(case, topic).values()) == [0, 1, 2]
