"""Whatever the cluster and the people do meanwhile: a run keeps to the table of phases, writes nothing without a
counted approval, takes no replica away, and leaves no throttle behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import Phase as Search
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_medic.clients.ports import ConfigChange, MaySend, always
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.phases import TERMINAL_PHASES, Phase, may_transition
from kafka_medic.resources.vocabulary import RESTORE_FINALIZER, Decision
from tests.simulation.kafka import SimKafka
from tests.simulation.world import BASE, NO_ELECTIONS, World
from tests.thorough import THOROUGH

BROKERS = (0, 1, 2, 3)
SOURCES = ("views", "reassignments", "configs", "log-dirs", "kafka")
EXAMPLES = 40 if THOROUGH else 2
"""More in `make simulate` than in `make check`."""
RATE = "follower.replication.throttled.rate"


@dataclass
class Guarded(SimKafka):
    """Holds every write to what must be so at that moment."""

    world: Any = None
    foreign: set[TopicPartition] = field(default_factory=set)

    def approved(self) -> bool:
        acting = [r for r in self.world.runs() if r.status.phase not in TERMINAL_PHASES]
        words = [a for r in acting for a in r.status.approvals if a.counted and a.decision is Decision.APPROVE]
        return "alice" in self.world.api.approvers and any(a.approver == "alice" for a in words)

    def alter_reassignments(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> Any:
        cancels = all(t is None for t in targets.values())
        assert cancels or self.approved(), f"sent without an approval: {targets}"
        assert not set(targets) & self.foreign, "touched somebody else's reassignment"
        before = {tp: set(self.partitions[tp].before or self.partitions[tp].replicas) for tp in targets}
        answer = super().alter_reassignments(targets)
        for tp in targets:
            assert set(self.partitions[tp].replicas) >= before[tp], f"{tp} lost a replica"
        return answer

    def alter_configs(self, changes: Sequence[ConfigChange], may_send: MaySend = always) -> None:
        # A restoring write needs no approval; then it only puts back what was there.
        restores = all(c.value == self.original.get((c.resource_type, c.resource, c.name)) for c in changes)
        assert restores or self.approved(), f"set without an approval: {changes}"
        super().alter_configs(changes, may_send)

    original: dict[tuple[str, str, str], str] = field(default_factory=dict)


@st.composite
def clusters(draw: Any) -> Guarded:
    kafka = Guarded(racks=dict(zip(BROKERS, "aabc", strict=True)), copies_per_tick=draw(st.integers(1, 4)))
    for number in range(draw(st.integers(1, 3))):
        ids = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True)
        kafka.topic(f"t{number}", *draw(st.lists(ids, min_size=1, max_size=3)))
    kafka.topic("low", [draw(st.sampled_from(BROKERS))])
    if draw(st.booleans()):
        kafka.dynamic["BROKER", "1", RATE] = "777"
    if draw(st.booleans()):
        kafka.dynamic["TOPIC", "low", "leader.replication.throttled.replicas"] = "*"
    kafka.original = dict(kafka.dynamic)
    return kafka


EVENTS = st.one_of(
    st.tuples(st.just("stop"), st.sampled_from(BROKERS)),
    st.tuples(st.just("start"), st.sampled_from(BROKERS)),
    st.tuples(st.just("blind"), st.sampled_from(SOURCES)),
    st.tuples(st.just("see"), st.none()),
    st.tuples(st.just("approve"), st.sampled_from(("alice", "alice", "mallory"))),
    st.tuples(st.just("reject"), st.sampled_from(("alice", "mallory", "mallory"))),
    st.tuples(st.just("foreign"), st.integers(0, 20)),
    st.tuples(st.just("cancel"), st.integers(0, 20)),
    st.tuples(st.just("revoke"), st.none()),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("delete"), st.none()),
    st.tuples(st.just("pass"), st.integers(1, 4)),
    st.tuples(st.just("pass"), st.integers(1, 4)),
)


class Story:
    """A world in which things happen between reconciles, and what every reconcile is held to."""

    def __init__(self, kafka: Guarded) -> None:
        self.kafka, self.world = kafka, World(kafka)
        kafka.world = self.world
        self.world.install(remediation={"limits": {"cooldown": "0s", "perDay": 1000}, **NO_ELECTIONS})
        self.phases: dict[str, Phase | None] = {}
        self.smallest = {tp: set(p.replicas) for tp, p in kafka.partitions.items()}

    def reconcile(self) -> None:
        self.world.step()
        for run in self.world.runs():
            uid, after = run.uid or "", run.status.phase
            before = self.phases.get(uid)
            # A reconcile writes each run at most once, so no phase is passed unseen.
            assert after is None or may_transition(before, after), f"{before} -> {after}"
            if after in TERMINAL_PHASES and before not in TERMINAL_PHASES:
                self.ended(run)
            self.phases[uid] = after
        for uid in set(self.phases) - {r.uid for r in self.world.runs()}:
            phase = self.phases.pop(uid)
            assert not self.throttled(), f"deleted in {phase}: a throttle is left: {self.throttled()}"
        if self.throttled():
            assert any(r.status.restore_owed and r.held for r in self.world.runs())
            assert RESTORE_FINALIZER in self.world.cluster()["metadata"]["finalizers"]
        for tp, part in self.kafka.partitions.items():
            assert set(part.replicas) >= self.smallest[tp], f"{tp} shrank to {part.replicas}"

    def throttled(self) -> set[tuple[tuple[str, str, str], str]]:
        """Throttles that are not as they were before any run."""
        return {kv for kv in self.kafka.dynamic.items() ^ self.kafka.original.items() if "throttled" in kv[0][2]}

    def ended(self, run: Any) -> None:
        assert not self.throttled(), f"{run.status.phase}: a throttle is left: {self.throttled()}"
        assert not run.status.restore_owed
        assert run.status.message

    def happen(self, what: str, which: Any) -> None:
        kafka, world = self.kafka, self.world
        match what:
            case "stop" if len(kafka.up) > 1:
                kafka.stop(which)
            case "start" if which not in kafka.up:
                kafka.start(which)
            case "blind":
                kafka.unreadable.add(which)
            case "see":
                kafka.unreadable.clear()
            case "approve" | "reject":
                for run in world.runs():
                    if run.status.plan is not None and run.status.phase not in TERMINAL_PHASES:
                        world.approve(run, which, what.title())
            case "revoke":
                world.api.approvers ^= {"alice"}
            case "restart":
                world.operator()
            case "delete":
                for run in world.runs():
                    world.api.delete(f"{BASE}/namespaces/ns/remediations/{run.name}")
            case "foreign" | "cancel":
                self.others(what, which)
            case "pass":
                for _ in range(which):
                    self.reconcile()

    def others(self, what: str, which: int) -> None:
        """Somebody else with an admin client."""
        tp = sorted(self.kafka.partitions)[which % len(self.kafka.partitions)]
        part = self.kafka.partitions[tp]
        spare = [b for b in BROKERS if b not in part.replicas]
        if what == "cancel" and part.adding:
            SimKafka.alter_reassignments(self.kafka, {tp: None})
        elif what == "foreign" and not part.adding and spare:
            SimKafka.alter_reassignments(self.kafka, {tp: [*part.replicas, spare[0]]})
            self.smallest[tp] = set(part.before)

    def calm(self) -> None:
        """Everything is well again, and whoever may approves."""
        self.kafka.unreadable.clear()
        for broker in BROKERS:
            if broker not in self.kafka.up:
                self.kafka.start(broker)
        self.world.api.approvers = {"alice"}
        for _ in range(100):
            if self.quiet():
                return
            for run in self.world.runs():
                approved = any(a.counted for a in run.status.approvals)
                # A step whose time has run out meanwhile is given as much once more.
                if run.status.phase is Phase.PAUSED or (run.status.phase is Phase.AWAITING_APPROVAL and not approved):
                    self.world.approve(run)
            self.reconcile()
        raise AssertionError([(r.status.phase, r.status.message) for r in self.world.runs()])

    def quiet(self) -> bool:
        runs = self.world.runs()
        cured = not runs and all(len(p.replicas) >= 3 for p in self.kafka.partitions.values())
        return cured or (bool(runs) and all(r.status.phase in TERMINAL_PHASES for r in runs))


# Not made smaller: that would take minutes, and a story is read as it is.
@settings(max_examples=EXAMPLES, phases=(Search.explicit, Search.reuse, Search.generate))
@given(kafka=clusters(), events=st.lists(EVENTS, max_size=16))
def test_a_run_is_safe_whatever_happens_and_ends_when_all_is_well(
    kafka: Guarded, events: list[tuple[str, Any]]
) -> None:
    story = Story(kafka)
    for _ in range(4):
        story.reconcile()
    story.happen("approve", "alice")
    for what, which in events:
        story.happen(what, which)
        story.reconcile()
    story.calm()
