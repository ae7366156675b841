"""Whatever is found, the API server and etcd take the status: one that they refuse would leave an old one standing."""

from __future__ import annotations

from dataclasses import replace

from kafka_medic.controller import status_room
from kafka_medic.controller.status import cluster_status, unseen
from kafka_medic.controller.status_room import DETAIL, MAX_BYTES, fitted, size
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.log_ends import Regression
from kafka_medic.diagnose.memory import DetectorMemory
from kafka_medic.resources.kafkacluster_status import MAX_FINDINGS, MAX_REGRESSIONS, KafkaClusterStatus
from kafka_medic.resources.vocabulary import FindingState, Severity
from tests.unit.cluster import worlds
from tests.unit.controller.test_status import ALLOWED, CLUSTER

WIDE = "\N{GRINNING FACE}"
"""Four bytes in UTF-8, as in the name of a group: Kafka takes any text."""


def findings(affected: int, evidence: int, text: str = WIDE) -> list[Finding]:
    return [
        Finding(
            id=f"ViewDiverged/{'b' * 110}{n}", type="ViewDiverged", severity=Severity.CRITICAL, message=text * 2000,
            affected=(text * 2000,) * affected, evidence=(text * 2000,) * evidence, since=worlds.NOW,
            state=FindingState.FIRING, playbook="p" * 63,
        )
        for n in range(MAX_FINDINGS + 10)
    ]  # fmt: skip


def status(found: list[Finding], memory: DetectorMemory | None = None) -> KafkaClusterStatus:
    return cluster_status(CLUSTER, worlds.healthy(), found, {f.id: "r" * 63 for f in found}, ALLOWED, memory)


def largest() -> KafkaClusterStatus:
    """Every list and every text at its bound."""
    one = Regression("t" * 249, 2**31 - 1, 2**63 - 1, 0, worlds.NOW, 1, 2, (WIDE * 300,) * 10)
    memory = DetectorMemory(regressions=tuple(replace(one, partition=n) for n in range(MAX_REGRESSIONS)))
    return status(findings(500, 50), memory)


def test_all_bounds_at_once_still_fit():
    told = largest()
    assert size(told) <= MAX_BYTES
    assert len(told.findings) == MAX_FINDINGS
    assert {f.affected_count for f in told.findings} == {500}, "how many there are is told all the same"
    assert {r.groups for r in told.log_end_regressions} == {None}, "not known, rather than fewer than there were"
    assert len(told.log_end_regressions) == MAX_REGRESSIONS


def test_a_status_of_which_nothing_can_be_left_out_is_not_measured(monkeypatch):
    monkeypatch.setattr(status_room, "size", None)
    told = status([])
    assert told.conditions
    assert fitted(told) is told


def test_detail_goes_only_as_far_as_it_has_to():
    small = status(findings(500, 50, "x")[:3])
    assert {(len(f.affected), len(f.evidence)) for f in small.findings} == {DETAIL[0][:2]}
    medium = status(findings(500, 50, "x"))
    assert size(medium) <= MAX_BYTES
    assert {(len(f.affected), len(f.evidence)) for f in medium.findings} == {DETAIL[2][:2]}
    assert fitted(medium) == medium


def test_groups_that_lost_records_stay_as_long_as_anything_else_can_go():
    """By them it is decided whose offsets are reset. Of a shorter list, the others would go on and skip records."""
    groups = tuple(f"group-{n}" for n in range(7))
    memory = DetectorMemory(regressions=(Regression("orders", 0, 1000, 900, worlds.NOW, 1, 2, groups),))
    for found in ([], findings(500, 50, "x"), findings(100, 50, "\N{GREEK SMALL LETTER ALPHA}")):
        (kept,) = status(found, memory).log_end_regressions
        assert kept.groups == groups


def test_what_is_unseen_keeps_its_count_though_it_was_cut() -> None:
    told = status(findings(60, 0)[:1])
    assert told.findings[0].affected_count == 60
    cut = told.findings[0].model_copy(update={"affected": told.findings[0].affected[:3]})
    blind = worlds.healthy(sources=worlds.sources(views="timed out"))
    kept = list(unseen((cut,), (), blind))
    (again,) = status(kept).findings
    assert (len(again.affected), again.affected_count) == (3, 60)
