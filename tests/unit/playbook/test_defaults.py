"""The brokers' defaults: what a plan asks of whom, what it leaves alone, and when the common minimum may rise."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kafka_medic.cluster.snapshot import Quorum, Snapshot, Voter
from kafka_medic.diagnose.defaults import DEFAULTS, FACTORS, MIN_ISR
from kafka_medic.playbook.acceptance import check
from kafka_medic.playbook.action import PlanRequest
from kafka_medic.playbook.effects import ChangeSettings
from kafka_medic.playbook.plan_digest import plan_digest
from kafka_medic.playbook.planning import propose
from kafka_medic.playbook.refusal import Refusal
from kafka_medic.playbook.report import StepReport, StepState
from kafka_medic.playbook.settings import defaults_step
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import ConfigChange, ConfigResourceType, Plan, Restarts, SettingChanges
from kafka_medic.resources.remediation_status import IntentState, JournalEntry
from tests.unit.cluster import worlds

RAW = yaml.safe_load((Path(__file__).parents[3] / "playbooks" / "raise-defaults.yaml").read_text())
PLAYBOOK = Playbook.parse(RAW)
BROKERS = {"podSelector": {"matchLabels": {"app": "kafka"}}}
ONE = {**dict.fromkeys(FACTORS, 1), "transaction.state.log.min.isr": 1, MIN_ISR: 1}
GOOD = {**dict.fromkeys(FACTORS, 3), "transaction.state.log.min.isr": 2, MIN_ISR: 2}
KEY = ("BROKER", "", MIN_ISR)


def cluster(expectations: dict[str, object] | None = None, **spec: object) -> KafkaCluster:
    body = {"bootstrapServers": "kafka:9092", "brokers": BROKERS, "expectations": expectations or {}, **spec}
    meta = {"name": "demo", "namespace": "ns", "uid": "uid-demo"}
    return KafkaCluster.parse(
        {"apiVersion": "kafkamedic.dev/v1alpha1", "kind": "KafkaCluster", "metadata": meta, "spec": body}
    )


RUN = Remediation.parse(
    {
        "apiVersion": "kafkamedic.dev/v1alpha1",
        "kind": "Remediation",
        "metadata": {"name": "defaults", "namespace": "ns", "uid": "uid-run"},
        "spec": {
            "clusterRef": {"name": "demo", "uid": "uid-demo"},
            "playbook": {"name": "raise-defaults", "digest": PLAYBOOK.digest()},
            "cause": {"findingId": "ReplicationFactorLow/broker-defaults", "findingType": "ReplicationFactorLow"},
        },
    }
)


def seen(
    *, rows=worlds.ROWS, own=(), everywhere: str | None = None, b1=ONE, b2=ONE, b3=ONE, more=(), **changes
) -> Snapshot:
    """Brokers with these defaults; topics in `own` have a min.insync.replicas of their own."""
    table = [
        ("BROKER", str(n), name, str(value), False)
        for n, told in ((1, b1), (2, b2), (3, b3))
        for name, value in told.items()
    ]
    table += [("TOPIC", t, MIN_ISR, "1", t in own) for t in sorted({r["topic"] for r in rows})]
    table += [("BROKER", "", MIN_ISR, everywhere, True)] if everywhere is not None else []
    return worlds.healthy(rows=rows, configs=worlds.configs(*table, *more), **changes)


def planned(snapshot: Snapshot, **spec: object) -> Plan | Refusal:
    return propose(PlanRequest(RUN, cluster(**spec), PLAYBOOK, snapshot, worlds.NOW))


def plan_of(snapshot: Snapshot, **spec: object) -> Plan:
    found = planned(snapshot, **spec)
    assert isinstance(found, Plan), found
    assert found.digest == plan_digest(RUN, found)
    return found


def refused(snapshot: Snapshot, **spec: object) -> Refusal:
    found = planned(snapshot, **spec)
    assert isinstance(found, Refusal), found.summary
    assert not found.permanent
    return found


THIN = [*worlds.ROWS, worlds.partition("scratch", 0, (1, 2), minIsr=1)]


def test_the_plan_says_which_value_on_which_broker_before_anybody_approves():
    plan = plan_of(seen(b3=GOOD | {"offsets.topic.replication.factor": 2}))
    told = {(s.name, s.before, s.after, s.brokers) for s in plan.part(Restarts).static_settings}
    assert told == {
        ("default.replication.factor", "1", "3", (1, 2)),
        ("offsets.topic.replication.factor", "1", "3", (1, 2)),
        ("offsets.topic.replication.factor", "2", "3", (3,)),
        ("transaction.state.log.replication.factor", "1", "3", (1, 2)),
        ("transaction.state.log.min.isr", "1", "2", (1, 2)),
    }
    assert sorted(r.broker for r in plan.part(Restarts).restarts) == [1, 2, 3]
    lines = plan.summary.splitlines()
    assert lines[0].endswith("one at a time, then set min.insync.replicas=2 for all brokers at run time")
    assert lines[1].startswith("BEFORE YOU APPROVE, change these brokers' configuration")
    assert "  default.replication.factor=3 on broker 1, 2 (now 1)" in lines
    assert [s.name for s in plan.steps] == ["restart-brokers", "set-cluster-defaults"]


def test_only_brokers_whose_value_is_low_are_restarted():
    plan = plan_of(seen(b1=GOOD, b3=GOOD))
    assert [r.broker for r in plan.part(Restarts).restarts] == [2]
    assert plan.part(SettingChanges).config_changes[0].after == "2"


def test_where_only_the_minimum_is_low_nobody_is_restarted():
    low = GOOD | {MIN_ISR: 1}
    plan = plan_of(seen(b1=low, b2=low, b3=low, everywhere="1"))
    assert plan.part(Restarts).restarts == plan.part(Restarts).static_settings == ()
    (change,) = plan.part(SettingChanges).config_changes
    assert (change.resource_type, change.resource_name) == (ConfigResourceType.BROKER, "")
    assert (change.name, change.before, change.after) == (MIN_ISR, "1", "2")
    assert "BEFORE" not in plan.summary


def test_what_is_approved_covers_what_has_to_be_read():
    one, other = plan_of(seen()), plan_of(seen(), expectations={"replicationFactor": 3, "minInSyncReplicas": 1})
    assert one.digest != other.digest
    own = one.part(Restarts)
    fewer = one.with_parts(own.model_copy(update={"static_settings": own.static_settings[1:]}))
    assert plan_digest(RUN, fewer) != one.digest


@pytest.mark.parametrize("expectations", [{"topics": [{"pattern": "scratch", "exempt": True}]}])
def test_a_topic_that_falls_back_on_the_minimum_and_could_not_spare_a_replica_leaves_it_out(expectations):
    """Exempt or not: Kafka does not know of that."""
    plan = plan_of(seen(rows=THIN), expectations=expectations)
    assert plan.part(SettingChanges).config_changes == ()
    assert plan.part(Restarts).restarts
    last = plan.summary.splitlines()[-1]
    assert last.startswith("min.insync.replicas stays unchanged: topics without their own min.insync.replicas")
    assert "scratch" in last
    assert last.endswith("first raise them, or set their own value")
    assert plan_of(seen(rows=THIN, own=("scratch",)), expectations=expectations).part(SettingChanges).config_changes
    low = GOOD | {MIN_ISR: 1}
    waits = refused(seen(rows=THIN, b1=low, b2=low, b3=low), expectations=expectations)
    assert waits.message == last


def test_topics_come_first():
    waits = refused(seen(rows=THIN))
    assert (
        "must be raised first (raise-replication-factor): scratch; or lower spec.expectations.topics" in waits.message
    )
    being_raised = [*worlds.ROWS, worlds.partition("scratch", 0, (1, 2, 3), isr=[1], adding=[2, 3])]
    assert "must be raised first" in refused(seen(rows=being_raised)).message


def test_a_default_that_no_topic_could_be_created_with_is_not_set():
    expectations = {"replicationFactor": 4, "topics": [{"pattern": ".*", "exempt": True}]}
    assert "no topic could be created with a default factor of 4" in refused(seen(), expectations=expectations).message


def test_what_is_not_known_is_not_planned_for():
    one_less = {k: v for k, v in ONE.items() if k != DEFAULTS[1]}
    assert "the defaults of broker 2 are not known" in refused(seen(b2=one_less)).message
    assert refused(seen(partitions=None)).reasons
    assert refused(worlds.healthy(configs=None)).reasons
    unread = [*worlds.ROWS, worlds.partition("orders", 3, isr=None)]
    low = GOOD | {MIN_ISR: 1}
    assert "not known: orders-3" in refused(seen(rows=unread, b1=low, b2=low, b3=low)).message


def test_nothing_low_is_nothing_to_do():
    found = refused(seen(b1=GOOD, b2=GOOD, b3=GOOD))
    assert found.nothing_to_do


def test_without_pods_it_waits_for_them_or_for_somebody_who_restarts_by_hand():
    assert "spec.brokers.podSelector" in refused(seen(), brokers=None).message


def test_a_broker_with_a_minimum_of_its_own_at_run_time_keeps_it():
    low = GOOD | {MIN_ISR: 1}
    told = {k: v for k, v in low.items() if k != MIN_ISR}
    waits = refused(seen(b1=low, b2=told, b3=low, more=[("BROKER", "2", MIN_ISR, "1", True)]))
    assert "broker 2 has its own min.insync.replicas at run time" in waits.message


def test_controllers_that_are_no_brokers_are_named_since_nobody_can_read_theirs():
    quorum = Quorum(11, tuple(Voter(n, 0, 0) for n in (10, 11, 12)))
    plan = plan_of(seen(quorum=quorum))
    assert sorted(r.broker for r in plan.part(Restarts).restarts) == [1, 2, 3]
    assert "controllers 10, 11, 12 are not brokers" in plan.summary


@pytest.mark.parametrize(
    ("steps", "way"),
    [
        ([1], r"spec.steps\[0\].action: s-0 \(SetClusterDefaults\) cannot come first"),
        ([1, 0], r"spec.steps\[0\].action: s-0 \(SetClusterDefaults\) cannot come first"),
        ([0, 1, 1], r"spec.steps\[2\].action: s-2 \(SetClusterDefaults\) cannot be planned together.*end the playbook"),
    ],
)
def test_the_minimum_is_raised_after_the_restarts_alone(steps, way):
    raw = {
        **RAW,
        "spec": {**RAW["spec"], "steps": [{**RAW["spec"]["steps"][n], "name": f"s-{i}"} for i, n in enumerate(steps)]},
    }
    raw["spec"].pop("parameters")
    with pytest.raises(ResourceError, match=way):
        check(Playbook.parse(raw))


@pytest.mark.parametrize("key", ["brokers", "maxParallel", "drainFirst"])
def test_no_other_brokers_and_never_several_at_once(key):
    first, second = RAW["spec"]["steps"]
    raw = {**RAW, "spec": {**RAW["spec"], "steps": [{**first, "with": {key: "2"}}, second]}}
    with pytest.raises(ResourceError, match=f"{key} does not go with brokers' defaults"):
        check(Playbook.parse(raw))


# The step that sets the minimum.

CHANGE = ConfigChange(resource_type=ConfigResourceType.BROKER, resource_name="", name=MIN_ISR, before=None, after="2")
PLAN = Plan(digest="sha256:" + "0" * 64, proposed_at=worlds.NOW, expires_at=worlds.NOW, config_changes=(CHANGE,))
ENTRY = JournalEntry(
    id="set/set", step="set", kind="ChangeSettings", state=IntentState.INTENDED, intended_at=worlds.NOW
)
LOW = GOOD | {MIN_ISR: 1}


def step(plan: Plan = PLAN, journal=(), **how) -> StepReport:
    told = {"b1": LOW, "b2": LOW, "b3": LOW} | how
    return defaults_step.assess("set", plan, {e.id: e for e in journal}, seen(**told))


def test_it_is_set_and_what_was_there_before_is_kept():
    report = step()
    assert report.state is StepState.ACT
    assert report.intent == ChangeSettings("set/set", {KEY: "2"})
    assert report.saved == {"BROKER//min.insync.replicas": None}
    was = PLAN.with_parts(SettingChanges(config_changes=(CHANGE.model_copy(update={"before": "1"}),)))
    assert step(was, everywhere="1").saved == {"BROKER//min.insync.replicas": "1"}


def test_it_is_done_when_every_broker_has_taken_it_in():
    report = step(journal=(ENTRY,), everywhere="2", b1=GOOD, b2=GOOD)
    assert (report.state, report.observed) == (StepState.WAIT, ("set/set",))
    assert "broker 3 has not applied it yet" in report.message
    assert step(journal=(ENTRY,), everywhere="2", b1=GOOD, b2=GOOD, b3=GOOD).state is StepState.REACHED


def test_what_somebody_else_has_set_is_theirs():
    report = step(everywhere="3")
    assert report.state is StepState.DRIFTED
    assert report.message == "min.insync.replicas of all brokers is 3 (planned from: none)"


@pytest.mark.parametrize(
    ("how", "state", "words"),
    [
        ({"rows": THIN}, StepState.DRIFTED, "scratch"),
        ({"rows": [*worlds.ROWS, worlds.partition("scratch", 0, isr=[1, 2])]}, StepState.WAIT, "scratch-0"),
        ({"rows": [*worlds.ROWS, worlds.partition("scratch", 0, isr=None)]}, StepState.UNKNOWN, "scratch-0"),
        ({"rows": [*worlds.ROWS, worlds.partition("scratch", 0, adding=None)]}, StepState.UNKNOWN, "scratch-0"),
        ({"b2": LOW | {FACTORS[0]: 2}}, StepState.DRIFTED, "default.replication.factor=2 on broker 2"),
        ({"b2": LOW | {FACTORS[1]: 1}}, StepState.DRIFTED, "offsets.topic.replication.factor=1 on broker 2"),
        ({"partitions": None}, StepState.UNKNOWN, "could not be read"),
    ],
)
def test_it_is_not_set_where_it_would_stop_producers(how, state, words):
    report = step(**how)
    assert (report.state, report.intent) == (state, None)
    assert words in report.message


def test_a_topic_with_a_minimum_of_its_own_does_not_stand_against_it():
    assert step(rows=THIN, own=("scratch",)).state is StepState.ACT


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("a", "b", "c")),
            st.lists(st.sampled_from((1, 2, 3)), min_size=1, max_size=3, unique=True),
            st.integers(1, 3),
        ),
        min_size=1,
        max_size=6,
    ),
    st.sets(st.sampled_from(("a", "b", "c"))),
    st.lists(st.integers(1, 3), min_size=6, max_size=6),
)
def test_whenever_it_is_set_every_producer_can_lose_a_replica_and_go_on(rows, own, factors):
    """Said by other means: take any one broker away, and every topic that falls back on it has as many in sync as it
    then needs; and so has every topic that would be created."""
    table = [worlds.partition(t, n, ids, isr=ids[:size]) for n, (t, ids, size) in enumerate(rows)]
    told = [LOW | {FACTORS[0]: factors[n], FACTORS[1]: factors[n + 3]} for n in range(3)]
    report = step(rows=table, own=own, b1=told[0], b2=told[1], b3=told[2])
    survives = all(len(set(r["isr"]) - {b}) >= 2 for r in table if r["topic"] not in own for b in (1, 2, 3))
    born = all(f - 1 >= 2 for f in factors)
    assert (report.state is StepState.ACT) == (survives and born)
