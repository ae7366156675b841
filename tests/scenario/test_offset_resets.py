"""Whole runs that reset committed offsets: once the group is empty, and put back exactly."""

from __future__ import annotations

import base64

import pytest

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.cluster.groups import Committed, GroupMember
from kafka_medic.playbook.offsets import questions, reset_plan
from kafka_medic.resources.remediation_plan import OffsetChanges
from tests.scenario.offset_worlds import FOUND, ORDERS, PAYMENTS, beyond_the_end, commit, committed
from tests.simulation.kafka import SimKafka
from tests.simulation.world import World


@pytest.fixture
def bare() -> World:
    return beyond_the_end()


@pytest.fixture
def world(bare) -> World:
    """And a person has asked, which is sooner than the finding."""
    bare.ask("reset-consumer-offsets")
    return bare


def test_offsets_are_set_to_the_log_end(bare):
    before = committed(bare)
    run = bare.until_phase("AwaitingApproval")
    assert run.spec.playbook.name == "reset-consumer-offsets"
    (change,) = run.status.plan.part(OffsetChanges).offsets
    assert (change.group, change.topic, change.before, change.after) == ("billing", "orders", 32, 21)
    assert (change.before_epoch, change.before_metadata) == (3, "of the application")
    assert (change.skipped, change.read_again, change.log_start, change.log_end) == (0, 0, 0, 21)
    assert "orders-0: 32 to 21 (log 0 to 21): log end; the group reads nothing again" in run.status.plan.summary
    bare.to_the_end()
    assert bare.run().status.phase == "Succeeded", bare.run().status.message
    assert committed(bare) == before | {("billing", ORDERS): Committed(21)}
    assert bare.kafka.writes == ["commit billing [('orders-0', 21)]"]


def test_an_undo_restores_the_exact_commit(world):
    before = committed(world)
    world.to_the_end()
    first = world.run()
    world.ask("undo-offset-reset", remediation=first.name)
    second = world.until_phase("AwaitingApproval")
    assert "restored to offsets outside the log, as before: orders-0" in second.status.plan.summary
    world.approve(second)
    world.until(lambda: second.name not in [r.name for r in world.runs() if r.status.phase != "Succeeded"])
    assert committed(world) == before
    assert [w for w in world.kafka.writes if w.startswith("commit")] == [
        "commit billing [('orders-0', 21)]",
        "commit billing [('orders-0', 32)]",
    ]


@pytest.mark.parametrize(
    ("remediation", "told"),
    [
        (None, "name the Remediation"),
        ("nobody", "nobody is not a Remediation of this KafkaCluster that set offsets"),
    ],
)
def test_an_undo_of_nothing_is_refused(world, remediation, told):
    world.ask("undo-offset-reset", **({} if remediation is None else {"remediation": remediation}))
    assert told in world.until_phase("Failed").status.message


def test_an_undo_names_the_members_that_it_waits_for(world):
    world.to_the_end()
    first = world.run()
    world.kafka.states["billing"], world.kafka.members_of["billing"] = "Stable", [GroupMember("shop-1", "/10.0.0.7")]
    world.ask("undo-offset-reset", remediation=first.name)
    world.until(lambda: any("shop-1 at 10.0.0.7" in w.message for r in world.runs() for w in r.status.waiting_for))
    assert world.kafka.writes == ["commit billing [('orders-0', 21)]"]


def test_an_undo_reports_where_the_group_has_moved(world):
    world.to_the_end()
    first = world.run()
    commit(world.kafka, "billing", {ORDERS: Committed(15, 5)})
    world.ask("undo-offset-reset", remediation=first.name)
    (change,) = world.until_phase("AwaitingApproval").status.plan.part(OffsetChanges).offsets
    assert (change.before, change.before_epoch, change.after, change.after_epoch) == (15, 5, 32, 3)
    assert "the group has moved since it was set to 21" in change.reason
    assert change.skipped == 6


def test_a_regression_is_cured_after_new_writes(bare):
    kafka = bare.kafka
    commit(kafka, "billing", {ORDERS: Committed(21, 5, "m")})
    bare.step()
    part = kafka.partitions[ORDERS]
    part.end, part.epoch = 10, 6  # an election that lost eleven records
    bare.step()
    part.end = 40
    commit(kafka, "fresh", {ORDERS: Committed(18, 6)})  # has read what stands there now
    bare.step()
    assert bare.runs() == []
    bare.ask("reset-consumer-offsets")
    (change,) = bare.until_phase("AwaitingApproval").status.plan.part(OffsetChanges).offsets
    assert (change.group, change.before, change.after) == ("billing", 21, 10)
    assert (change.skipped, change.read_again) == (0, 0)
    assert "has read everything before this offset and nothing after it" in change.reason


def test_an_unobserved_loss_shows_in_the_commit_epoch(bare):
    """Records were lost while no operator ran. The leader epoch of the commit shows the last good offset."""
    part = bare.kafka.partitions[ORDERS]
    commit(bare.kafka, "billing", {ORDERS: Committed(21, 5)})
    commit(bare.kafka, "audit", {ORDERS: Committed(25, 6)})
    part.end = 10
    part.elect(0)  # epoch 6 begins at 10
    part.end = 40
    bare.step()
    assert bare.runs() == [], "nothing in the present shows it"
    bare.ask("reset-consumer-offsets", groups=".*")
    (change,) = bare.until_phase("AwaitingApproval").status.plan.part(OffsetChanges).offsets
    assert (change.group, change.before, change.after, change.read_again) == ("billing", 21, 10, 0)
    assert "end of the commit's leader epoch 5" in change.reason


def test_an_unreadable_epoch_is_not_taken_for_no_loss(bare):
    kafka, part = bare.kafka, bare.kafka.partitions[ORDERS]
    commit(kafka, "billing", {ORDERS: Committed(21, 5)})
    part.end = 10
    part.elect(0)
    part.end = 40

    class Silent:
        def __getattr__(self, name):
            return getattr(kafka, name)

        def epoch_ends(self, broker, epochs):
            raise ReadFailed(FailureKind.UNREACHABLE, f"broker {broker}")

    bare.wrap_kafka = lambda _: Silent()
    bare.operator()
    bare.ask("reset-consumer-offsets", groups="billing")
    for _ in range(3):
        bare.step()
    run = bare.run()
    assert run.status.phase == "Planning"
    assert "not known, because the leader does not answer: orders-0" in run.status.waiting_for[0].message


def test_commits_of_one_epoch_are_read_once(bare, monkeypatch):
    monkeypatch.setattr(reset_plan, "MAX_EPOCHS", 1)
    monkeypatch.setattr(questions, "MAX_EPOCHS", 1)
    part = bare.kafka.partitions[ORDERS]
    commit(bare.kafka, "billing", {ORDERS: Committed(21, 5)})
    commit(bare.kafka, "audit", {ORDERS: Committed(20, 5)})
    part.end = 10
    part.elect(0)
    part.end = 40
    bare.ask("reset-consumer-offsets", groups=".*")
    plan = bare.until_phase("AwaitingApproval").status.plan
    assert [(c.group, c.after) for c in plan.part(OffsetChanges).offsets] == [("audit", 10), ("billing", 10)]
    assert "could be read at once" not in plan.summary
    commit(bare.kafka, "audit", {ORDERS: Committed(20, 4)})
    bare.ask("reset-consumer-offsets", groups="audit|billing")
    bare.until(lambda: any("only 1 of 2 leader epochs" in r.status.plan.summary for r in bare.runs() if r.status.plan))


def test_a_partition_that_nobody_leads_is_no_offset_problem(bare):
    commit(bare.kafka, "billing", {ORDERS: Committed(10)})
    bare.kafka.partitions[ORDERS].leader = -1
    for _ in range(5):
        bare.step()
    assert [r for r in bare.runs() if r.spec.playbook.name == "reset-consumer-offsets"] == []
    bare.ask("reset-consumer-offsets")
    bare.until_phase("Superseded")
    assert bare.kafka.writes == []


def test_the_run_waits_for_a_group_with_members(world):
    """The run waits while the group has members, and names them."""
    kafka = world.kafka
    kafka.states["billing"] = "Stable"
    kafka.members_of["billing"] = [GroupMember("shop-1", "/10.0.0.7"), GroupMember("shop-2", "/10.0.0.8")]
    for _ in range(5):
        world.step()
    run = world.run()
    assert run.status.phase == "Planning"
    (waits,) = run.status.waiting_for
    assert waits.guard == "GroupEmpty"
    assert "billing is Stable: stop its consumers first, shop-1 at 10.0.0.7, shop-2 at 10.0.0.8" in waits.message
    kafka.states["billing"] = "Empty"
    world.to_the_end()
    assert kafka.committed["billing"][ORDERS] == 21


def test_a_group_that_starts_after_approval_is_left(world):
    """Consumers of the group start after the approval. Its offsets are not changed."""
    kafka = world.kafka
    run = world.until_phase("AwaitingApproval")
    kafka.states["billing"], kafka.members_of["billing"] = "Stable", [GroupMember("shop-1", "/10.0.0.7")]
    world.approve(run)
    for _ in range(5):
        world.step()
    assert kafka.writes == []
    messages = [w.message for w in world.run().status.waiting_for if w.guard == "GroupEmpty"]
    assert messages
    assert "shop-1 at 10.0.0.7" in messages[0]
    kafka.states["billing"] = "Empty"
    world.to_the_end()
    assert world.run().status.phase == "Succeeded"


def test_unreadable_members_block_no_other_group(world):
    kafka = world.kafka
    kafka.states["billing"] = "Stable"

    class Mute:
        def __getattr__(self, name):
            return getattr(kafka, name)

        def group_members(self, groups):
            raise ReadFailed(FailureKind.UNREACHABLE, f"members of {groups}")

    world.wrap_kafka = lambda _: Mute()
    world.operator()
    for _ in range(3):
        world.step()
    assert "billing is Stable: stop its consumers first, all of them" in world.run().status.waiting_for[0].message


def commit_of_somebody_else(kafka: SimKafka) -> None:
    commit(kafka, "billing", {ORDERS: Committed(33, 3, "of the application")})


def other_metadata(kafka: SimKafka) -> None:
    commit(kafka, "billing", {ORDERS: FOUND._replace(metadata="another")})


def shorter_log(kafka: SimKafka) -> None:
    kafka.partitions[ORDERS].end = 15


def made_anew(kafka: SimKafka) -> None:
    """The coordinator forgets what was committed on a topic that goes, and its consumers commit where they were."""
    kafka.delete("orders")
    kafka.topic("orders", [0, 1, 2])
    kafka.dynamic["TOPIC", "orders", "min.insync.replicas"] = "2"
    commit(kafka, "billing", {ORDERS: FOUND})


@pytest.mark.parametrize("change", [commit_of_somebody_else, other_metadata, shorter_log, made_anew])
def test_offsets_are_compared_with_the_plan_before_sending(world, change):
    run = world.until_phase("AwaitingApproval")
    change(world.kafka)
    world.approve(run)
    for _ in range(5):
        world.step()
    assert world.kafka.writes == [], "nobody has approved what there is now"
    assert world.run().status.plan.digest != run.status.plan.digest


def test_a_commit_before_the_request_is_kept(world):
    """The group commits between the last read and the request. The commit is not overwritten."""
    run = world.until_phase("AwaitingApproval")
    world.approve(run)
    kafka, looked = world.kafka, []

    class Late:
        """Between the look and the effect's own read somebody commits."""

        def __getattr__(self, name):
            return getattr(kafka, name)

        def groups(self, wanted, brokers=None):
            if not wanted("audit") and not looked:  # the effect reads its own group alone
                looked.append(True)
                commit(kafka, "billing", {ORDERS: Committed(30)})
            return kafka.groups(wanted, brokers)

    world.wrap_kafka = lambda _: Late()
    world.operator()
    world.until(lambda: bool(looked))
    for _ in range(5):
        world.step()
    assert [w for w in kafka.writes if "21" in w] == []
    assert kafka.committed["billing"][ORDERS] == 30


def test_healthy_offsets_are_set_for_named_groups_alone(bare):
    commit(bare.kafka, "billing", {ORDERS: Committed(20)})
    bare.ask("reset-consumer-offsets", to="to-earliest")
    assert "name the groups" in bare.until_phase("Failed").status.message
    bare.ask("reset-consumer-offsets", to="shift-by:-5", groups="bill.*|audit", excludeGroups="audit", topics="orders")
    (change,) = bare.until_phase("AwaitingApproval").status.plan.part(OffsetChanges).offsets
    assert (change.group, change.topic, change.before, change.after) == ("billing", "orders", 20, 15)
    assert change.read_again == 5


def test_an_offset_by_time_is_read_when_it_is_planned(bare):
    kafka = bare.kafka
    commit(kafka, "billing", {ORDERS: Committed(20)})
    start = int(bare.now.timestamp() * 1000)
    kafka.written_at[ORDERS] = {n: start - (21 - n) * 60_000 for n in range(21)}
    bare.ask("reset-consumer-offsets", to="by-duration:5m", groups="billing", topics="orders")
    (change,) = bare.until_phase("AwaitingApproval").status.plan.part(OffsetChanges).offsets
    assert (change.after, change.read_again) == (17, 3)


def test_the_plan_estimates_how_long_reading_takes(bare):
    """The plan says how long the group will read, if the operator has seen the group read."""
    kafka = bare.kafka
    for offset in (0, 3, 6):
        commit(kafka, "billing", {ORDERS: Committed(offset), PAYMENTS: Committed(21)})
        kafka.states["billing"] = "Stable"
        bare.step()
        kafka.states["billing"] = "Empty"
    bare.ask("reset-consumer-offsets", to="to-earliest", groups="billing|audit", topics="orders")
    summary = bare.until_phase("AwaitingApproval").status.plan.summary
    told = "21 to the log ends, about {} at {} a second, its fastest observed rate"
    assert (
        "group audit: 1 partition, 0 offsets skipped, at most 7 read again; 21 to the log ends, in an unknown time"
        in summary
    )
    assert "the operator has not seen it read" in summary
    assert told.format("1m45s", "0.2") in summary
    assert "upper bounds for compacted topics and transactions" in summary
    assert "a consumer that assigns its partitions itself is not a group member" in summary


def deleted(kafka: SimKafka) -> None:
    """As when it expires, or somebody deletes the group."""
    del kafka.committed["billing"][ORDERS]


def test_an_expired_offset_is_not_created_anew(world):
    world.approve(world.until_phase("AwaitingApproval"))
    deleted(world.kafka)
    for _ in range(3):
        world.step()
    assert world.kafka.writes == []
    assert world.run().status.phase in ("Superseded", "Planning"), world.run().status.message


def test_the_run_waits_for_an_open_transaction(world):
    world.kafka.unsettled_of["billing"] = [ORDERS]
    world.approve(world.until_phase("AwaitingApproval"))
    for _ in range(3):
        world.step()
    assert world.kafka.writes == []
    assert any("a transaction is open that commits offsets of group billing" in str(e) for e in world.api.events)
    del world.kafka.unsettled_of["billing"]
    world.to_the_end()
    assert world.run().status.phase == "Succeeded"


def test_the_plan_warns_about_streams_and_connect(world):
    kafka = world.kafka
    kafka.topic("billing-totals-changelog", [0, 1, 2])
    kafka.dynamic["TOPIC", "billing-totals-changelog", "min.insync.replicas"] = "2"
    commit(kafka, "connect-sink", {ORDERS: Committed(50)})
    commit(kafka, "totals", {ORDERS: Committed(50, None, base64.b64encode(b"\2" + bytes(8)).decode())})
    summary = world.until_phase("AwaitingApproval").status.plan.summary
    assert "billing looks like a Kafka Streams application (billing-totals-changelog)" in summary
    assert "connect-sink looks like a sink connector" in summary
    assert "totals looks like a Kafka Streams application (by the metadata of its commits)" in summary
    assert summary.count("looks like") == 3


def test_a_name_that_no_plan_can_hold_is_left_out(world):
    commit(world.kafka, "evil\x1b[2J", {ORDERS: Committed(50)})
    plan = world.until_phase("AwaitingApproval").status.plan
    assert {c.group for c in plan.part(OffsetChanges).offsets} == {"billing"}
    assert "cannot hold the name or the metadata: evil\\x1b[2J" in plan.summary
