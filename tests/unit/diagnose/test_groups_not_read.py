"""A group that was not read has not stopped, has not begun anew, and has not committed nothing."""

from __future__ import annotations

import pytest

from kafka_medic.cluster.snapshot import Element
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.diagnose.memory import DetectorMemory, remember
from tests.unit.cluster import worlds

NO_OFFSETS = {Element("groups", "GROUP", "billing"): "no answer"}
NO_LIST = {Element("groups", "BROKER", "2"): "no answer"}


def look(at, end, *groups, unread=None):
    rows = [worlds.partition("orders", 0, logEnd=end)]
    listed = worlds.groups(*((group, "Stable", "orders", 0, offset) for group, offset in groups))
    return worlds.healthy(rows=rows, at=worlds.later(at), groups=listed, unread=unread or {})


def after(*snapshots):
    memory = DetectorMemory()
    for snapshot in snapshots:
        memory = remember(memory, snapshot)
    return memory, {f.id: f for f in diagnose(snapshots[-1], memory=memory)}


@pytest.mark.parametrize("unread", [NO_OFFSETS, NO_LIST])
def test_a_group_that_was_not_read_for_a_while_goes_on_standing_still(unread):
    before = [look(0, 100, ("billing", 50), ("audit", 9)), look(60, 110, ("billing", 50), ("audit", 10))]
    blind = look(120, 120, ("audit", 11), unread=unread)
    _, found = after(*before, blind)
    assert "ClientStalled/billing" not in found, "what is not known is no finding"
    memory, found = after(*before, blind, look(180, 130, ("billing", 50), ("audit", 12)))
    assert found["ClientStalled/billing"].firing()
    assert found["ClientStalled/billing"].since <= worlds.later(60), "and not from the look before on"
    assert set(memory.paces) == {"audit"}
    _, found = after(*before, look(120, 120, ("audit", 11)), look(180, 130, ("billing", 50), ("audit", 12)))
    assert "ClientStalled/billing" not in found, "it was gone, and began anew"


@pytest.mark.parametrize("unread", [NO_OFFSETS, NO_LIST])
def test_how_fast_a_group_reads_is_kept_while_it_is_not_read(unread):
    reading = [look(0, 100, ("billing", 10)), look(60, 160, ("billing", 70))]
    memory, _ = after(*reading, look(120, 200, unread=unread))
    assert memory.paces == {"billing": 1.0}
    memory, _ = after(*reading, look(120, 200))
    assert memory.paces == {}


def test_who_had_committed_beyond_a_shorter_log_is_not_known_while_a_group_is_not():
    """A list that lacks some would say of those that they are fine."""
    evidence = {}
    for name, unread in (("all", {}), ("some", NO_LIST)):
        _, found = after(look(0, 100, ("audit", 9)), look(15, 60, ("audit", 9), unread=unread))
        evidence[name] = " ".join(found["LogEndRegressed/orders"].evidence)
    assert "no group had committed beyond it" in evidence["all"]
    assert "which groups had committed beyond it is not known" in evidence["some"]


def test_who_waits_for_a_partition_that_nobody_leads_is_not_known_in_full():
    rows = [worlds.partition("orders", 0, leader=-1, isr=[1], logEnd=None)]
    listed = worlds.groups(("audit", "Stable", "orders", 0, 9))
    for unread in ({}, NO_LIST, NO_OFFSETS):
        snapshot = worlds.healthy(rows=rows, groups=listed, unread=unread)
        found = {f.id: f for f in diagnose(snapshot)}
        told = [e for e in found["PartitionLeaderless"].evidence if "other groups wait" in e]
        assert len(told) == len(unread)
