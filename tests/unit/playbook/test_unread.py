"""What was not read is neither absent nor as it was: of each topic, broker and group by itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from kafka_medic.cluster.log_dirs import Placed, ReplicaDirs
from kafka_medic.cluster.snapshot import Directory, Element, TopicPartition
from kafka_medic.diagnose.moves import LOG_DIR_RATE
from kafka_medic.guard.verdict import Verdict
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.effects import AlterLogDirs, ChangeSettings, Reassign, SetOffsets, setting_text
from kafka_medic.playbook.extra_reads import ExtraReads
from kafka_medic.playbook.offsets import offset_step, reset_plan
from kafka_medic.playbook.offsets.parameters import ResetParameters
from kafka_medic.playbook.offsets.reset_plan import aim_of, chosen, not_told
from kafka_medic.playbook.planning import propose
from kafka_medic.playbook.reassign import log_dirs_step
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.playbook.report import StepState
from kafka_medic.playbook.settings import defaults_step, min_isr_step, throttle_step
from kafka_medic.resources.kafkacluster_status import KafkaClusterStatus
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import (
    ConfigChange,
    ConfigResourceType,
    LogDirMove,
    LogDirMoves,
    OffsetChange,
    Plan,
)
from kafka_medic.resources.remediation_status import IntentState, JournalEntry
from tests.unit.cluster import worlds
from tests.unit.playbook import test_defaults, test_min_isr_plan
from tests.unit.playbook.adding_replicas import BEFORE, DONE, MOVING, STEP, assess, entry, plan, seen, throttled
from tests.unit.playbook.test_min_isr_step import FLOOR, SETTING, floors
from tests.unit.playbook.test_rate import BEHIND, copying

WHY = "Error: UnknownTopicOrPartitionError"
PLAYBOOKS = Path(__file__).parents[3] / "playbooks"


def unread(*names: str) -> dict[Element, str]:
    """Settings that were not read: a broker's id, a topic's name, or nothing for all brokers."""
    return {Element("configs", "BROKER" if n.isdigit() or not n else "TOPIC", n): WHY for n in names}


# Throttles


@pytest.mark.parametrize("name", ["1", "orders", "logs"])
def test_no_throttle_is_set_where_what_was_there_before_is_not_known(name):
    """It would be put back to nothing. Also of a topic whose wave comes later."""
    report = assess(seen(BEFORE, BEFORE, BEFORE, unread=unread(name)))
    assert report.state is StepState.UNKNOWN
    assert WHY in report.message
    assert isinstance(assess(seen(BEFORE, BEFORE, BEFORE, unread=unread("9", "other"))).intent, ChangeSettings)


@pytest.mark.parametrize("name", ["1", "orders"])
def test_no_reassignment_is_asked_for_while_its_throttle_cannot_be_read(name):
    """Also when the wave is in the journal already: that is how the check right before the effect finds it."""
    wanted, saved = throttled()
    begun = saved.model_copy(update={"state": IntentState.DONE}), entry("wave-0")
    assert isinstance(assess(seen(BEFORE, BEFORE, BEFORE, settings=wanted), *begun).intent, Reassign)
    report = assess(seen(BEFORE, BEFORE, BEFORE, settings=wanted, unread=unread(name)), *begun)
    assert report.state is StepState.UNKNOWN
    assert WHY in report.message
    copying = seen(MOVING, MOVING, BEFORE, settings=wanted, unread=unread(name))
    assert assess(copying, *begun).state is StepState.WAIT, "nothing is asked for"


def test_no_replica_moves_to_another_directory_while_the_throttle_of_its_broker_cannot_be_read():
    moves = [
        LogDirMove(broker=b, topic="orders", partition=0, source="/a", target="/b", batch=b - 1, size_bytes=9)
        for b in (1, 2)
    ]
    planned = plan(changes=()).with_parts(
        LogDirMoves(log_dir_moves=tuple(moves), log_dir_throttle_bytes_per_second=1000)
    )
    rates = {("BROKER", str(b), LOG_DIR_RATE): "1000" for b in (1, 2)}
    begun = {
        f"{STEP}/{name}": entry(name, IntentState.DONE, dict.fromkeys(map(setting_text, rates)), kind)
        for name, kind in (("throttle", "ChangeSettings"), ("batch-0", "AlterLogDirs"))
    }
    both = (Directory("/a", None, 1000, 900), Directory("/b", None, 1000, 900))
    orders = TopicPartition("orders", 0)
    dirs = {b: ReplicaDirs(both, {orders: Placed(path, 9)}, {}) for b, path in ((1, "/b"), (2, "/a"))}

    def report(settings, *names):
        at = seen(DONE, DONE, DONE, settings=settings, unread=unread(*names))
        return log_dirs_step.assess(STEP, planned, begun, at, dirs)

    assert isinstance(report(rates).intent, AlterLogDirs)
    assert isinstance(report(rates, "1").intent, AlterLogDirs), "its batch is over"
    missing = report(rates, "2")
    assert missing.state is StepState.UNKNOWN
    assert WHY in missing.message
    again = report({key: rate for key, rate in rates.items() if key[1] == "1"}).intent
    assert isinstance(again, ChangeSettings), "somebody has removed it before the batch"
    assert again.settings == {("BROKER", "2", LOG_DIR_RATE): "1000"}


@pytest.mark.parametrize("name", ["3", "logs"])
def test_a_throttle_that_could_not_be_read_is_not_called_restored(name):
    wanted, saved = throttled()
    left = {key: value for key, value in wanted.items() if key[1] != name}
    others = assess(seen(DONE, DONE, DONE, settings=left, unread=unread(name)), saved)
    assert isinstance(others.intent, ChangeSettings), "it does not leave the throttle on all the others"
    assert name not in {key[1] for key in others.intent.settings}
    report = assess(seen(DONE, DONE, DONE, unread=unread(name)), saved)
    assert report.state is StepState.UNKNOWN
    assert report.restores
    assert f"{'broker' if name == '3' else 'topic'} {name}" in report.message


def test_a_rate_that_could_not_be_read_is_not_changed():
    assert isinstance(assess(*copying(BEHIND)).intent, ChangeSettings)
    assert assess(*copying(BEHIND, unread=unread("2"))).state is StepState.WAIT
    assert assess(*copying(BEHIND, state=MOVING, unread=unread("other"))).intent is not None


LEFT = ("BROKER", "1", "leader.replication.throttled.rate")
REMOVAL = ConfigChange(
    resource_type=ConfigResourceType.BROKER, resource_name="1", name=LEFT[2], before="1000", after=None
)


def test_a_leftover_that_could_not_be_read_is_not_gone():
    there = worlds.healthy(configs=worlds.configs((*LEFT, "1000", True)))
    assert throttle_step.assess(STEP, plan(configs=(REMOVAL,)), {}, there).state is StepState.ACT
    missing = worlds.healthy(unread=unread("1"))
    assert throttle_step.assess(STEP, plan(configs=(REMOVAL,)), {}, missing).state is StepState.UNKNOWN


def leftover(**changes) -> Plan | Refusal:
    playbook = Playbook.parse(yaml.safe_load((PLAYBOOKS / "remove-leftover-throttles.yaml").read_text()))
    spec = {
        "clusterRef": {"name": "demo", "uid": "uid-demo"},
        "playbook": {"name": playbook.name, "digest": playbook.digest()},
        "requestedBy": "carol",
    }
    meta = {"name": "left", "namespace": "ns", "uid": "uid-left"}
    api = {"apiVersion": "kafkamedic.dev/v1alpha1", "kind": "Remediation"}
    run = Remediation.parse({**api, "metadata": meta, "spec": spec})
    return propose(PlanRequest(run, test_min_isr_plan.CLUSTER, playbook, worlds.healthy(**changes), worlds.NOW))


def test_no_throttle_found_is_not_no_throttle_while_some_could_not_be_read():
    assert leftover().nothing_to_do
    refused = leftover(unread=unread("1"))
    assert isinstance(refused, Refusal)
    assert not refused.nothing_to_do
    assert "broker 1" in refused.message
    found = leftover(unread=unread("orders"), configs=worlds.configs((*LEFT, "1000", True)))
    assert isinstance(found, Plan)
    assert "more throttles may be set on topic orders" in found.summary


# Minimums


def test_a_minimum_that_was_not_read_is_neither_set_nor_not():
    assert floors(seen(DONE, DONE, DONE, unread=unread("orders"))).state is StepState.UNKNOWN
    assert floors(seen(DONE, DONE, DONE, unread=unread("logs"))).state is StepState.ACT, "another topic's"
    there = seen(DONE, DONE, DONE, settings={FLOOR: "2"}, unread=unread("orders"))
    assert floors(there).state is StepState.UNKNOWN
    alone = plan(configs=(SETTING.model_copy(update={"before": "1"}),), changes=())
    assert min_isr_step.other_values(alone, worlds.healthy(unread=unread("orders"))) is None
    assert min_isr_step.may_begin(alone, worlds.healthy(unread=unread("orders"))).verdict is Verdict.UNKNOWN


def test_a_topic_that_was_not_read_is_none_without_a_low_minimum():
    nothing = worlds.configs(*((("TOPIC", "orders", "min.insync.replicas", "2", True),)))
    assert test_min_isr_plan.proposed(["orders", "audit"], configs=nothing).nothing_to_do
    refused = test_min_isr_plan.proposed(["orders", "audit"], configs=nothing, unread=unread("audit"))
    assert isinstance(refused, Refusal)
    assert not refused.nothing_to_do
    assert isinstance(test_min_isr_plan.proposed(["orders", "audit"], unread=unread("audit")), Plan)


THIN = [*worlds.ROWS, worlds.partition("scratch", 0, (1, 2))]


@pytest.mark.parametrize(
    ("how", "state"),
    [
        ({"unread": unread("")}, StepState.UNKNOWN),
        ({"unread": unread("3")}, StepState.UNKNOWN),
        ({"unread": unread("orders")}, StepState.ACT),  # it has a replica to spare, whatever it falls back on
        ({"unread": unread("scratch"), "rows": THIN}, StepState.UNKNOWN),
        ({"rows": THIN}, StepState.DRIFTED),
    ],
)
def test_a_default_is_set_only_where_everybody_who_falls_back_on_it_is_known(how, state):
    report = test_defaults.step(**how)
    assert report.state is state, report.message


def test_what_is_set_for_all_brokers_is_in_the_plan_only_if_it_was_read():
    seen = test_defaults.seen(b1=test_defaults.LOW, b2=test_defaults.LOW, b3=test_defaults.LOW, unread=unread(""))
    asked = PlanRequest(test_defaults.RUN, test_defaults.cluster(), test_defaults.PLAYBOOK, seen, worlds.NOW)
    refused = propose(asked)
    assert isinstance(refused, Refusal)
    assert refused.reasons[0].verdict is Verdict.UNKNOWN
    assert defaults_step.fallback(worlds.healthy(unread=unread("3")), 2).unread == (f"settings of broker 3: {WHY}",)


# Groups

ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("orders", 1)
NO_LIST = {Element("groups", "BROKER", "2"): "no answer"}
NO_OFFSETS = {Element("groups", "GROUP", "billing"): "no answer"}


def change(group: str, partition: int = 0) -> OffsetChange:
    return OffsetChange(
        group=group, topic="orders", partition=partition, before=120, after=100, log_start=0, log_end=100, reason="r"
    )


def offsets(*rows: tuple, plan=("billing", "audit"), over: tuple[str, ...] = (), **changes):
    planned = Plan(
        digest="sha256:" + "0" * 64, proposed_at=worlds.NOW, expires_at=worlds.NOW,
        offsets=tuple(change(group) for group in plan),
    )  # fmt: skip
    journal = {
        f"set/group-{n}": JournalEntry(
            id=f"set/group-{n}", step="set", kind="SetOffsets", intended_at=worlds.NOW,
            state=IntentState.DONE if group in over else IntentState.INTENDED,
        )
        for n, group in enumerate(plan)
    }  # fmt: skip
    return offset_step.assess("set", planned, journal, worlds.healthy(groups=worlds.groups(*rows), **changes))


def test_a_group_that_was_not_read_has_not_lost_its_offsets_and_the_others_go_on():
    audit = ("audit", "Empty", "orders", 0, 120)
    assert offsets(audit).state is StepState.DRIFTED, "billing is gone"
    for why in (NO_LIST, NO_OFFSETS):
        report = offsets(audit, unread=why)
        assert isinstance(report.intent, SetOffsets)
        assert report.intent.group == "audit"
        last = offsets(("audit", "Empty", "orders", 0, 100), unread=why)
        assert last.state is StepState.UNKNOWN
        assert "group billing" in last.message
        assert "no answer" in last.message


def test_no_offset_to_reset_is_not_nothing_to_do_while_a_group_was_not_read():
    settings = ResetParameters("to-latest", "billing", None, None)
    aim = aim_of(settings)
    for why, words in ((NO_LIST, "broker 2"), (NO_OFFSETS, "group billing"), ({}, "")):
        snapshot = worlds.healthy(groups=worlds.groups(("audit", "Empty", "orders", 0, 90)), unread=why)
        found = chosen(snapshot, settings, aim, KafkaClusterStatus())
        assert found.spots == ()
        assert [words in told for told in found.untold] == ([True] if why else [])
    other = {Element("groups", "GROUP", "shipping"): "no answer"}
    assert chosen(worlds.healthy(unread=other), settings, aim, KafkaClusterStatus()).untold == (), (
        "nobody asked for that one"
    )


def test_a_time_that_was_not_told_of_one_partition_moves_nothing_there():
    """None stands for `nothing was written since`, which goes to the log end."""
    settings = ResetParameters("to-datetime:2026-01-01T00:00:00Z", "billing", None, None)
    aim = aim_of(settings)
    rows = (("billing", "Empty", "orders", n, 50) for n in range(2))
    found = chosen(worlds.healthy(groups=worlds.groups(*rows)), settings, aim, KafkaClusterStatus())
    assert [s.tp for s in found.spots] == [ORDERS, PAYMENTS]
    told = ExtraReads(at={ORDERS: None})
    moved = reset_plan.changes(found.spots, aim, told)
    assert [(c.partition, c.after) for c in moved] == [(0, 100)]
    assert any("orders-1" in words for words in not_told(found.spots, aim, told))
    assert not_told(found.spots, aim, replace(told, at={ORDERS: None, PAYMENTS: 3})) == []
