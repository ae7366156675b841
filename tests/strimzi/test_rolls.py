"""Rolls of the same cluster by ours and by Strimzi: alone, at the same time, and aborted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.incident import operator, records
from tests.incident.watcher import Watcher
from tests.strimzi.case import StrimziCase, Timeline
from tests.testbed import kubectl, wait_for
from tests.testbed.strimzi import ROLL_ANNOTATION, StrimziKafka

ROLL_SECONDS = 900


@contextmanager
def under_load(case: StrimziCase, line: Timeline) -> Iterator[Watcher]:
    """Records flow and Pods are watched; afterwards nothing is lost, and never two brokers were away."""
    topic = case.topic([0, 1, 2], [1, 2, 0], [2, 0, 1], config={"min.insync.replicas": "2"})
    watcher = Watcher(case.made_by_strimzi)
    zero = time.time() - time.monotonic()
    with records.flowing(case.boot, topic) as traffic:
        watcher.start()
        try:
            yield watcher
        finally:
            watcher.stop()
            for broker, restart in watcher.restarts.items():
                line.note(f"broker {broker}: its Pod is told to go", restart.told + zero)
                if restart.ready is not None:
                    line.note(f"broker {broker}: its successor is Ready", restart.ready + zero)
                    line.note(f"broker {broker}: in every ISR again", watcher.in_sync.get(broker, restart.ready) + zero)
            line.show()
    print(
        f"  {len(traffic.acked)} records acknowledged and read, {len(traffic.failed)} failed, {len(traffic.lost)} "
        f"lost; at most {watcher.most_away} away, smallest ISR {watcher.thinnest}, {watcher.looks} looks"
    )
    assert traffic.acked
    assert (traffic.lost, traffic.doubled, traffic.failed) == (set(), [], [])
    assert watcher.most_away == 1
    assert watcher.thinnest >= 2


def asked(case: StrimziCase) -> operator.Object:
    """A roll of all brokers, that awaits approval."""
    case.watch()
    case.condition("Ready", "True")
    case.ask("rolling-restart")
    return case.wait("AwaitingApproval")


def whole(watcher: Watcher) -> float:
    """Seconds from the first Pod told to go until the last broker is back in every ISR."""
    backs = [max(r.ready or 0, watcher.in_sync.get(b, 0)) for b, r in watcher.restarts.items()]
    return max(backs) - watcher.began()


def test_our_roll_beside_their_own(case: StrimziCase) -> None:
    kafka = case.made_by_strimzi
    theirs, before = Timeline("a roll by Strimzi, by the annotation of its StrimziPodSet"), kafka.uids()
    with under_load(case, theirs) as watcher:
        began = theirs.note("annotated")
        roll_by_strimzi(kafka)
        wait_for("Strimzi's roll", lambda: not set(before.values()) & set(kafka.uids().values()), ROLL_SECONDS, every=1)
        kafka.wait_ready()
        their_whole = theirs.note("Kafka resource Ready") - began
    their_pods = whole(watcher)

    ours, before = Timeline("the same roll by ours"), kafka.uids()
    run = asked(case)
    with under_load(case, ours) as watcher:
        assert operator.approve(run, "alice").returncode == 0
        began = ours.note("approved")
        name = run["metadata"]["name"]
        done = operator.wait_for_run(case.namespace, "Succeeded", ROLL_SECONDS, ours.run, case.name, name)
        our_whole = ours.note("Succeeded") - began
        ours.journal(done)
    our_pods = whole(watcher)
    assert not set(before.values()) & set(kafka.uids().values()), "every Pod is another one"
    assert kafka.asked_to_roll() == []
    print(
        f"\nwhole roll: Strimzi {their_whole:.0f} s, ours {our_whole:.0f} s, ratio {our_whole / their_whole:.2f}; "
        f"from the first Pod away to the last one back: {their_pods:.0f} s, {our_pods:.0f} s, "
        f"ratio {our_pods / their_pods:.2f}"
    )


def test_an_aborted_roll_leaves_no_annotation(case: StrimziCase) -> None:
    kafka, line = case.made_by_strimzi, Timeline("a roll that is aborted while a Pod is annotated")
    run = asked(case)
    with under_load(case, line):
        assert operator.approve(run, "alice").returncode == 0
        line.note("approved")
        wait_for("a Pod to be annotated", lambda: bool(kafka.asked_to_roll()), 120, every=0.1)
        line.note(f"annotated: {kafka.asked_to_roll()}")
        uids = kafka.uids()
        assert operator.approve(run, "alice", "Reject").returncode == 0
        line.note("rejected")
        name = run["metadata"]["name"]
        operator.wait_for_run(case.namespace, "Aborted", 120, line.run, case.name, name)
        wait_for("no Pod to be annotated", lambda: kafka.asked_to_roll() == [], 60)
        line.note("no Pod is annotated")
        seen = kafka.reconciled()
        kafka.reconcile()
        wait_for("Strimzi to have looked", lambda: kafka.reconciled() != seen, 180, every=1)
        line.note("Strimzi has looked")
        changed = [node for node, uid in kafka.uids().items() if uids[node] != uid]
        line.note(f"restarted since the abort: {changed}")
    assert len(changed) <= 1, "one that Strimzi had begun with"


def test_their_roll_begins_while_ours_is_approved(case: StrimziCase) -> None:
    """A setting that wants a restart is changed in the Kafka resource, just after ours was approved."""
    kafka, line = case.made_by_strimzi, Timeline("Strimzi rolls by itself, just after ours was approved")
    both_at_once(case, line, lambda: change_a_static_setting(kafka, line))


def both_at_once(case: StrimziCase, line: Timeline, theirs: Callable[[], None]) -> None:
    kafka = case.made_by_strimzi
    run, before = asked(case), kafka.uids()
    with under_load(case, line):
        assert operator.approve(run, "alice").returncode == 0
        line.note("approved")
        theirs()
        wait_for("all Pods to be others", lambda: not set(before.values()) & set(kafka.uids().values()), ROLL_SECONDS)
        line.note("every Pod is another one")
        kafka.wait_ready()
        line.note("Kafka resource Ready")

        def settled() -> bool:
            now = case.runs()
            for each in now:
                line.run(each)
            return operator.phase(next(r for r in now if r["metadata"]["name"] == run["metadata"]["name"])) in (
                "Succeeded", "Failed", "Aborted", "Superseded", "AwaitingApproval", "Expired"
            )  # fmt: skip

        wait_for("the run to end, or to ask again", settled, ROLL_SECONDS, every=0.5)
    assert kafka.asked_to_roll() == []


def change_a_static_setting(kafka: StrimziKafka, line: Timeline) -> None:
    value = 1048576 + int(time.time()) % 1000
    patch = {"spec": {"kafka": {"config": {"socket.request.max.bytes": 104857600 + value}}}}
    kubectl("patch", "kafka", kafka.name, "-n", kafka.namespace, "--type=merge", "-p", json.dumps(patch))
    line.note("a static setting is changed in the Kafka resource")


def roll_by_strimzi(kafka: StrimziKafka) -> None:
    for pool in kafka.pools:
        sets = f"strimzipodset/{kafka.name}-{pool.name}"
        kubectl("annotate", sets, "-n", kafka.namespace, f"{ROLL_ANNOTATION}=true", "--overwrite")
    kafka.reconcile()
