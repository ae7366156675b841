"""Servers that mean harm, all at once: what they cost the operator's process, and the clusters beside them.

The operator is a process of its own, with its real workers and clients. It prints its figures (pytest -s).
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.process import hostile_servers, operator
from tests.stub_cluster import Size, StubProcess

INTERVAL, TIMEOUT = 4.0, 2.0
"""Seconds, of every KafkaCluster."""
SECONDS, SETTLED = 26.0, 13.0
MEGABYTES = 200.0
"""Above a process that watches as many clusters that mean no harm."""
CHILDREN = 450.0
"""Megabytes: 100 for the process that all are forked off, and 5 to 6 for each KafkaCluster, all at the start."""
LATE = 2 * INTERVAL
"""Between two observations of a cluster whose servers are well; on a busy machine twice what it is without attacks."""
WELL = ("well-1", "well-2")


def spec(bootstrap: str, **more: Any) -> dict[str, Any]:
    probes = {"interval": f"{INTERVAL:g}s", "timeout": f"{TIMEOUT:g}s", **more.pop("probes", {})}
    return {"bootstrapServers": bootstrap, "probes": probes, "remediation": {"mode": "Observe"}, **more}


def attacked(bootstrap: str, servers: Any) -> dict[str, Any]:
    """A KafkaCluster for each attack. Only the attack's own server is not well."""
    found = {f"kafka-{attack}": spec(at) for attack, at in servers["kafka"].items()}
    for attack, at in servers["zookeeper"].items():
        found[f"zookeeper-{attack}"] = spec(bootstrap, metadata={"zookeeper": {"connect": at}})
    for attack, at in servers["http"].items():
        found[f"exporter-{attack}"] = spec(bootstrap, probes={"metricsPort": int(at.rpartition(":")[2])})
        security = {"protocol": "SASL_PLAINTEXT", "sasl": {"mechanism": "OAUTHBEARER", "secretRef": {"name": "user"}}}
        secret = {"tokenEndpoint": f"http://{at}/token", "clientId": "a", "clientSecret": "b"}
        found[f"token-{attack}"] = spec(bootstrap, security=security) | {"secret": secret}
    return found


def watched(clusters: dict[str, Any], seconds: float, log: Path) -> dict[str, Any]:
    """The last report after so many seconds."""
    with operator(clusters, log) as reports:
        return next(report for report in reports if report["seconds"] >= seconds)


@pytest.mark.timeout(300)
def test_what_they_cost(tmp_path: Path) -> None:
    with hostile_servers() as servers, StubProcess(Size(3, 300), 5) as stub:
        well = {name: spec(stub.place.bootstrap) for name in WELL}
        harmful = attacked(stub.place.bootstrap, servers)
        harmless = {name: spec(stub.place.bootstrap) for name in harmful}
        normal = watched({**well, **harmless}, SETTLED, tmp_path / "normal.log")
        found = watched({**well, **harmful}, SECONDS, tmp_path / "attacked.log")
    more, most = found["most"] - normal["most"], found["most"]
    print(f"\n{len(harmful)} attacks at once: {most:.0f} MB at most, {more:+.0f} MB against as many harmless")
    print(
        f"beside it librdkafka's processes: {found['children']:.0f} MB at most (harmless: {normal['children']:.0f} MB)"
    )
    print(f"threads: {found['threads']} (harmless: {normal['threads']})")
    for name in WELL:
        print(
            f"{name}: {found[name][0]} observations, at most {found[name][2]} s apart (harmless: {normal[name][2]} s)"
        )
    print(f"{'attack':36} observations  longest apart  Reachable")
    for name in harmful:
        count, _, gap, message = found[name]
        print(f"{name:36} {count:12}  {gap:11.1f} s  {(message or '')[:90]}")
    assert more <= MEGABYTES
    assert found["children"] <= CHILDREN
    for name in WELL:
        assert found[name][2] <= max(LATE, 2 * normal[name][2])
        assert found[name][3] == "", "Reachable"
    stuck = [n for n in harmful if not n.startswith("token-") and found[n][0] < 2]
    assert stuck == [], "their workers hang"
    log = (tmp_path / "attacked.log").read_text()
    assert "Traceback" not in log


def test_a_broker_that_ends_the_process_of_librdkafka_ends_only_that(tmp_path: Path) -> None:
    """Before, these were the last words of the operator."""
    with hostile_servers() as servers, StubProcess(Size(1, 30), 1) as stub:
        clusters = {"well": spec(stub.place.bootstrap), "harmful": spec(servers["kafka"]["null-brokers"])}
        with operator(clusters, tmp_path / "log") as reports:
            found = next(r for r in itertools.islice(reports, 30) if r["harmful"][0] >= 2)
    assert found["well"][3] == ""
    assert "its process ended" in found["harmful"][3]
