"""Logs that were lost under groups, and grew past their offsets since: found all the same, set back, read on from.

What the plan says is skipped and read again is held against what the groups then really read.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from tests.e2e.conftest import Case
from tests.gameday import cluster
from tests.gameday.scenario import Scene
from tests.incident import operator, records
from tests.testbed import kubectl, wait_for

Read = list[tuple[int, str]]


def test_a_log_cut_by_an_unclean_election(story: tuple[Scene, Case]) -> None:
    """Two replicas, of which the one that was behind leads: eleven acknowledged records are gone. One group commits the
    leader epoch, as consumers do by themselves, and one does not."""
    scene, case = story
    topic = case.topic([1, 2], config={"min.insync.replicas": "1", "unclean.leader.election.enable": "true"})
    billing, audit = f"{case.name}-billing", f"{case.name}-audit"
    orders, lost, later = (
        [f"{word}-{n}" for n in range(count)] for word, count in (("order", 10), ("lost", 11), ("later", 30))
    )
    assert records.write(case.boot, topic, orders) == 10
    for group in (billing, audit):  # with ZooKeeper __consumer_offsets is only made while all brokers are there
        records.commit_offset(case.boot, group, topic, 0)

    def alone() -> None:
        assert records.write(case.boot, topic, lost, acks="1") == 11
        assert len(records.read_group(case.boot, billing, topic, 21, tells_epoch=True)) == 21
        assert len(records.read_group(case.boot, audit, topic, 21)) == 21
        case.condition("OffsetsConsistent", "True", seconds=90)
        cluster.looked_at(scene)

    with cluster.led_uncleanly(scene, 1, 2, alone):
        wait_for("the replica that was behind to lead", lambda: records.leader(case.boot, topic) == 2, 90)
        assert records.log_end(case.boot, topic) == 10
        cut = time.monotonic()
        case.condition("OffsetsConsistent", "False", seconds=90)
        told_of(case, "a log cut is found", cut)
        found = {f["id"]: " ".join(f["evidence"]) for f in scene.findings()}
        for group in (billing, audit):
            assert f"{topic}-0 committed 21, log end 10" in found[f"OffsetBeyondLogEnd/{group}"]
        assert f"{topic}-0: log end 21" in found[f"LogEndRegressed/{topic}"]
        assert records.write(case.boot, topic, later) == 30
        wait_for("21 to lie in the log again", lambda: beyond(scene) == [], 60)
    cluster.looked_at(scene)
    assert f"LogEndRegressed/{topic}" in {f["id"] for f in scene.findings()}, "though new writes have hidden it"

    case.ask("reset-consumer-offsets", groups=f"{case.name}-.*")
    run = case.wait("AwaitingApproval")
    planned = {c["group"]: c for c in run["status"]["plan"]["offsets"]}
    told = {g: (c["before"], c["after"], c["logEnd"], c["skipped"]) for g, c in planned.items()}
    assert told == dict.fromkeys((billing, audit), (21, 10, 40, 0))
    carried_out(case, run)
    for group in (billing, audit):
        read = records.read_group(case.boot, group, topic, 30)
        assert read == [(10 + n, value) for n, value in enumerate(later)]
        skipped, again = costs(orders + lost, readable(case, topic, 40), read)
        assert skipped == planned[group]["skipped"]
        if group == billing:
            assert again == planned[group]["readAgain"] == 0
        else:  # which of them it had read, a commit without its leader epoch does not tell
            assert again == 0 <= planned[group]["readAgain"] == 11


def test_an_only_log_lost_with_its_disk(story: tuple[Scene, Case]) -> None:
    """While its broker is away, committed 10 of 21 is no offset problem: nothing is found, and nothing planned even for
    who asks. Once the disk is lost, it is one."""
    scene, case = story
    topic = case.topic([1], config={"min.insync.replicas": "1"})
    billing, slow = f"{case.name}-billing", f"{case.name}-slow"
    orders, later = ([f"{word}-{n}" for n in range(count)] for word, count in (("order", 21), ("later", 30)))
    assert records.write(case.boot, topic, orders) == 21
    assert len(records.read_group(case.boot, billing, topic, 21, tells_epoch=True)) == 21
    assert len(records.read_group(case.boot, slow, topic, 10)) >= 10
    records.commit_offset(case.boot, slow, topic, 10)
    case.condition("OffsetsConsistent", "True")
    cluster.looked_at(scene)

    def away() -> None:
        wait_for("11 records that cannot be read", lambda: "cannot read 11 records" in leaderless(scene), 120)
        assert beyond(scene) == []
        case.ask("reset-consumer-offsets", groups=f"{case.name}-.*")
        assert "an offset does no harm there without a leader" in case.wait_for_guard("TargetWithinLog")
        assert case.wait("Planning")["status"].get("plan") is None
        kubectl("delete", "remediation", str(case.asked), "-n", case.namespace)

    cluster.lose_log(scene, topic, 1, away)
    back = time.monotonic()
    wait_for("both groups to be found", lambda: beyond(scene) == sorted([billing, slow]), 90)
    told_of(case, "a lost log is found", back)
    assert records.write(case.boot, topic, later) == 30
    wait_for("both offsets to lie in the log again", lambda: beyond(scene) == [], 60)
    cluster.looked_at(scene)
    assert f"LogEndRegressed/{topic}" in {f["id"] for f in scene.findings()}

    case.ask("reset-consumer-offsets", groups=billing)
    run = case.wait("AwaitingApproval")
    (change,) = run["status"]["plan"]["offsets"]
    assert (change["before"], change["after"], change["logEnd"]) == (21, 0, 30)
    carried_out(case, run)
    read = records.read_group(case.boot, billing, topic, 30)
    assert read == list(enumerate(later)), "nothing skipped, nothing twice"
    assert costs(orders, readable(case, topic, 30), read) == (change["skipped"], change["readAgain"]) == (0, 0)


def test_what_is_skipped_and_read_again_is_as_planned(story: tuple[Scene, Case]) -> None:
    """One group on two topics, behind on the one and ahead on the other of where it is to go."""
    _, case = story
    group, values = f"{case.name}-billing", [f"order-{n}" for n in range(21)]
    topics = {case.topic([0, 1, 2], suffix="behind"): 10, case.topic([1, 2, 0], suffix="ahead"): 20}
    for topic, committed in topics.items():
        assert records.write(case.boot, topic, values) == 21
        records.commit_offset(case.boot, group, topic, committed)
    case.condition("OffsetsConsistent", "True")
    case.ask("reset-consumer-offsets", groups=group, to="to-offset:15")
    run = case.wait("AwaitingApproval")
    carried_out(case, run)
    for change in run["status"]["plan"]["offsets"]:
        topic, committed = change["topic"], topics[change["topic"]]
        read = records.read_group(case.boot, group, topic, 6)
        assert [offset for offset, _ in read] == list(range(15, 21))
        measured = costs(values[:committed], readable(case, topic, 21), read)
        assert measured == (change["skipped"], change["readAgain"]) == ((5, 0) if committed == 10 else (0, 5))


def carried_out(case: Case, run: operator.Object) -> None:
    """Approved, and seen to have succeeded."""
    approved = time.monotonic()
    assert operator.approve(run, "alice").returncode == 0
    case.wait("Succeeded")
    counts = [(c["before"], c["after"], c["skipped"], c["readAgain"]) for c in run["status"]["plan"]["offsets"]]
    told_of(case, f"from the approval to Succeeded, (from, to, skipped, read again) {counts}", approved)


def told_of(case: Case, what: str, since: float) -> None:
    print(f"{case.kafka.shape:<10} {what}: {time.monotonic() - since:.1f} s", flush=True)


def costs(had: Iterable[str], there: Read, read: Read) -> tuple[int, int]:
    """Of what can be read: how many records the group never got, and how many it got twice."""
    before, since = set(had), {value for _, value in read}
    return sum(value not in before | since for _, value in there), len(before & since)


def readable(case: Case, topic: str, end: int) -> Read:
    return records.read_from(case.boot, topic, 0, end, 30)


def beyond(scene: Scene) -> list[str]:
    """Groups of this story whose offset is found to lie beyond a log's end."""
    ids = [f["id"] for f in scene.findings() if f["type"] == "OffsetBeyondLogEnd"]
    return sorted(group for i in ids if (group := i.partition("/")[2]).startswith(scene.name))


def leaderless(scene: Scene) -> str:
    return " ".join(e for f in scene.findings() if f["type"] == "PartitionLeaderless" for e in f["evidence"])
