"""The step that raises min.insync.replicas: only where every partition has a replica to spare, and once."""

from __future__ import annotations

from kafka_medic.playbook.effects import ChangeSettings, setting_text
from kafka_medic.playbook.report import StepState
from kafka_medic.playbook.settings import min_isr_step
from kafka_medic.resources.remediation_plan import ConfigChange, ConfigResourceType
from tests.unit.cluster import worlds
from tests.unit.playbook.adding_replicas import BEFORE, CHANGES, DONE, STEP, entry, journal, plan, row, seen

FLOOR = ("TOPIC", "orders", "min.insync.replicas")
SETTING = ConfigChange(
    resource_type=ConfigResourceType.TOPIC, resource_name="orders", name=FLOOR[2], before=None, after="2"
)


def floors(snapshot, *entries, configs=(SETTING,)):
    return min_isr_step.assess(STEP, plan(configs=configs), journal(*entries), snapshot)


def test_the_minimum_is_raised_once_every_partition_has_a_replica_to_spare():
    report = floors(seen(DONE, DONE, DONE))
    assert report.state is StepState.ACT
    assert report.intent == ChangeSettings("add/set", {FLOOR: "2"})
    assert report.saved == {setting_text(FLOOR): None}
    assert floors(seen(DONE, "behind", BEFORE)).state is StepState.WAIT
    assert floors(seen(DONE, DONE, BEFORE)).state is StepState.ACT, "another topic's replicas do not matter"


def test_where_brokers_differ_on_who_leads_the_isr_is_nobodys_word():
    rows = [{**row(c, DONE), "leader": None} if c is CHANGES[0] else row(c, DONE) for c in CHANGES]
    assert floors(worlds.healthy(rows=rows)).state is StepState.WAIT


def test_a_minimum_that_is_there_is_reached_and_one_that_somebody_set_is_drift():
    assert floors(seen(DONE, DONE, DONE, settings={FLOOR: "2"}), entry("set")).observed == ("add/set",)
    assert floors(seen(DONE, DONE, DONE, settings={FLOOR: "2"})).state is StepState.REACHED
    assert floors(seen(DONE, DONE, DONE, settings={FLOOR: "3"})).state is StepState.DRIFTED
    assert floors(seen(DONE, DONE, DONE), configs=()).state is StepState.REACHED


def test_a_topic_that_has_grown_is_drift_once_the_others_have_their_minimum():
    """The plan that follows is for the new partitions alone."""
    logs = SETTING.model_copy(update={"resource_name": "logs"})
    rows = [*(row(c, DONE) for c in CHANGES), worlds.partition("orders", 9, (1,))]

    def then(*set_already, **more):
        table = worlds.configs(*((*key, "2", True) for key in set_already))
        return floors(worlds.healthy(rows=rows, configs=table, **more), configs=(SETTING, logs))

    other = ("TOPIC", "logs", FLOOR[2])
    report = then()
    assert report.intent == ChangeSettings("add/set", {other: "2"})
    assert set(report.saved) == {setting_text(FLOOR), setting_text(other)}
    grown = then(other)
    assert grown.state is StepState.DRIFTED
    assert "orders-9" in grown.message


def test_a_minimum_of_a_topic_that_is_gone_is_drift_and_is_not_asked_for_over_and_over():
    report = floors(seen(DONE, changes=CHANGES[2:]))
    assert report.state is StepState.DRIFTED
    assert "orders no longer exists" in report.message


def test_a_minimum_that_cannot_be_read_is_unknown():
    assert floors(seen(DONE, DONE, DONE, configs=None)).state is StepState.UNKNOWN
    assert floors(worlds.healthy(partitions=None)).state is StepState.UNKNOWN


def test_a_minimum_that_somebody_raised_further_is_not_undone():
    said = [
        min_isr_step.undone(plan(configs=(SETTING,)), seen(DONE, DONE, DONE, settings={FLOOR: value}))
        for value in "123"
    ]
    assert [each is not None for each in said] == [True, False, False]
