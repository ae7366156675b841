"""A whole cluster rolled by the installed operator, on both kinds of cluster, with records in flight, and timed."""

from __future__ import annotations

import time
import uuid
from datetime import datetime

from tests.e2e.conftest import Case, at_the_same_time
from tests.incident import operator, records
from tests.incident.watcher import Watcher
from tests.testbed import KafkaDeployment


def uids(kafka: KafkaDeployment) -> dict[int, str]:
    return {b: kafka.pod(b)["metadata"]["uid"] for b in (0, 1, 2)}


def test_a_whole_cluster_is_rolled_under_load(installed: None, steady: list[KafkaDeployment]) -> None:
    at_the_same_time(rolled, steady)


def rolled(steady: KafkaDeployment) -> None:
    operator.people(steady.namespace)
    case = Case(steady, f"roll-{uuid.uuid4().hex[:6]}")
    orders = case.topic([0, 1, 2], [1, 2, 0], [2, 0, 1], config={"min.insync.replicas": "2"})
    assert records.write(case.boot, orders, ["first"]) == 1
    assert records.read_group(case.boot, f"{case.name}-group", orders, 1)  # so that the offsets topic is there
    operator.apply([operator.kafka_cluster(steady, case.name)])
    before = uids(steady)
    case.ask("rolling-restart")
    run = case.wait("AwaitingApproval")
    planned = [r["broker"] for r in run["status"]["plan"]["restarts"]]
    assert sorted(planned) == [0, 1, 2]
    traffic, watcher = records.Traffic(case.boot, orders), Watcher(steady)
    traffic.start()
    watcher.start()
    try:
        taken = operator.approve(run, "alice")
        assert taken.returncode == 0, taken.stderr
        done = case.wait("Succeeded", 600)
        ended = datetime.fromisoformat(done["status"]["finishedAt"]).timestamp() - (time.time() - time.monotonic())
    finally:
        watcher.stop()
        traffic.stop()
    after = uids(steady)
    assert all(after[b] != before[b] for b in before), "every Pod is another one"
    journal = done["status"]["journal"]
    assert [e["state"] for e in journal] == ["Done"] * 3
    assert {e["targetUid"] for e in journal} == set(before.values())
    assert watcher.most_away == 1
    assert watcher.thinnest >= 2
    assert traffic.acked
    assert (traffic.lost, traffic.doubled, traffic.failed) == (set(), [], [])
    report(steady, ended, watcher, traffic, journal)
    case.end()


def report(
    kafka: KafkaDeployment, ended: float, watcher: Watcher, traffic: records.Traffic, journal: list[operator.Object]
) -> None:
    """The roll against its lower bound, as measured: each broker's stopping, starting and catching up."""
    took, whole = watcher.took(), ended - watcher.began()
    assert sorted(took) == [0, 1, 2]
    bound = sum(took.values())
    each = ", ".join(f"broker {b} {seconds:.1f}" for b, seconds in sorted(took.items()))
    print(
        f"\n{kafka.shape}: whole roll {whole:.1f} s, lower bound {bound:.1f} s ({each}; ratio {whole / bound:.2f}), "
        f"{len(traffic.acked)} records acknowledged and read meanwhile, {watcher.looks} looks; "
        f"waiting 12 checks of 10 s a broker would have taken {bound + 3 * 120:.0f} s"
    )
    zero = time.time() - time.monotonic()
    for broker, restart in watcher.restarts.items():
        back = max(restart.ready or 0.0, watcher.in_sync.get(broker, 0.0)) + zero
        entry = next(e for e in journal if e["id"].endswith(f"restart-{broker}"))
        intended, done = (datetime.fromisoformat(entry[at]).timestamp() for at in ("intendedAt", "doneAt"))
        print(
            f"  broker {broker}: written down, then told to go {restart.told + zero - intended:.1f} s later; "
            f"back, then seen so for good {done - back:.1f} s later"
        )
