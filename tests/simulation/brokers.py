"""The brokers of a Kafka cluster in memory: what is in their files and logs, who leads and who is in sync, and what
time, a death and a return do to that. `kafka.py` has the port to it.

The truth is the controller's: `partitions`, `members`. Each broker acts on its own image of it (`images.py`), which is
the truth unless `stale` or `lagging` holds an older one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from kafka_medic.clients.ports import BrokerView, LogRecord
from kafka_medic.cluster.groups import Committed, GroupMember
from kafka_medic.cluster.snapshot import TopicPartition
from tests.simulation.images import Belief, Image, image_of

MIN_ISR = "min.insync.replicas"
FILE_DELETE_DELAY = 60.0
"""Seconds: file.delete.delay.ms, as Kafka has it by default."""


@dataclass
class SimPartition:
    replicas: list[int]
    isr: list[int]
    leader: int
    epoch: int = 0
    size: int = 1000
    end: int = 21
    born: int = 0
    adding: list[int] = field(default_factory=list)
    before: list[int] = field(default_factory=list)
    removing: list[int] = field(default_factory=list)
    eligible: list[int] = field(default_factory=list)
    """Not in sync any more, and with every record that was acknowledged, since nothing is below min.insync.replicas
    (KIP-966)."""
    began: dict[int, int] = field(default_factory=dict)
    """The first offset of each leader epoch but the first."""

    def id(self, topic: str) -> str:
        """The topic's id: another one for each incarnation."""
        return f"id-{self.born}-{topic}"

    def elect(self, leader: int) -> None:
        self.leader, self.epoch = leader, self.epoch + 1
        self.began[self.epoch] = self.end

    def bump(self, times: int = 1) -> None:
        """The same leader in a later epoch."""
        for _ in range(times):
            self.elect(self.leader)

    def withdraw(self, up: set[int]) -> bool:
        """Its reassignment goes back; refused where nobody would be left in sync, as by KRaft's controller."""
        left = [b for b in self.isr if b in self.before]
        if not left:
            return False
        self.replicas, self.adding, self.before, self.removing, self.isr = self.before, [], [], [], left
        if self.leader not in left:
            self.elect(self.successor(up))
        return True

    def successor(self, able: Collection[int]) -> int:
        """Who leads next: the first of its replicas, in their order, that is in sync and able to; -1: nobody
        (KRaft: PartitionChangeBuilder.electAnyLeader; ZooKeeper: PartitionLeaderElectionAlgorithms)."""
        return next((b for b in self.replicas if b in self.isr and b in able), -1)


@dataclass
class SimBrokers:
    """`voted`: who is the controller while up; `controllers`: those that are no brokers and up, if there are any of
    that kind at all. `copies_per_tick`: new replicas that finish copying in one `tick`."""

    racks: dict[int, str | None] = field(default_factory=lambda: {0: "a", 1: "b", 2: "c"})
    copies_per_tick: int = 2
    up: set[int] = field(default_factory=set)
    partitions: dict[TopicPartition, SimPartition] = field(default_factory=dict)
    dynamic: dict[tuple[str, str, str], str] = field(default_factory=dict)
    committed: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    said: dict[tuple[str, TopicPartition], Committed] = field(default_factory=dict)
    """Commits that came with a leader epoch or with metadata."""
    members_of: dict[str, list[GroupMember]] = field(default_factory=dict)
    written_at: dict[TopicPartition, dict[int, int]] = field(default_factory=dict)
    """When records were written, by offset, in milliseconds; rising."""
    unsettled_of: dict[str, list[TopicPartition]] = field(default_factory=dict)
    """Partitions of which an open transaction will commit another offset, by group."""
    unreadable: set[str] = field(default_factory=set)
    made: int = 0
    reachable: bool = True
    writes: list[str] = field(default_factory=list)
    cluster_id: str = "sim"
    free: int | None = 1 << 50
    """Bytes that are free on the disks of each broker, whatever they hold; None: it does not tell."""
    volumes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Bytes of each volume of a broker, with a log directory on it. It has `free` where there are none."""
    voted: int | None = None
    controllers: set[int] = field(default_factory=set)
    apart: tuple[int, ...] = ()
    logs: dict[TopicPartition, list[LogRecord]] = field(default_factory=dict)
    deaf: set[int] = field(default_factory=set)
    """Brokers that are up and do not answer when they are asked for their view."""
    mute: set[int] = field(default_factory=set)
    """Brokers that answer for the cluster and not for their logs, as with threads that hang: a new process has none."""
    stale: dict[int, BrokerView] = field(default_factory=dict)
    """The images of brokers that hear nothing of the controller. Such a broker stays a member and stays in sync as long
    as it fetches: a KRaft broker whose metadata loader hangs sends heartbeats all the same, and a broker of a ZooKeeper
    cluster whose control plane is cut keeps its session."""
    lagging: dict[int, Image] = field(default_factory=dict)
    """The images of brokers that the last news has not reached yet."""
    zombies: set[int] = field(default_factory=set)
    """Of the stale ones, those that are not members any more, until they are started anew or hear again: fenced by the
    KRaft controller, or without a session with ZooKeeper."""
    lingering: set[int] = field(default_factory=set)
    """Processes that were killed, and whose session or heartbeat has not timed out yet: still members, in sync and
    leading, for all that the controller knows."""
    hanging: set[int] = field(default_factory=set)
    """Brokers whose graceful end takes longer than their Pod's grace period, so that it ends by SIGKILL."""
    buried: dict[tuple[TopicPartition, str], SimPartition] = field(default_factory=dict)
    """Partitions of topics that were deleted, by topic id: a broker that has not heard of that still holds them."""
    near: int | None = None
    """The broker that answers what any broker can answer; None: the lowest that is up and hears the controller."""
    zookeeper: bool = False
    """Whether brokers name the controller; KRaft's name any live broker (KIP-590)."""
    elapsed: float = 0.0
    """Seconds of true time, which every age is counted in."""
    behind: dict[int, float] = field(default_factory=dict)
    """Voters that do not fetch, and since when."""
    left_at: dict[int, float] = field(default_factory=dict)
    """When a process ended that is not back, or was fenced: a voter fetches nothing since."""
    heard: tuple[int, float] = (-1, 0.0)
    """The leader of the quorum, and since when: of voters that ended before, it knows nothing."""
    elr: bool = False
    """Whether the controller keeps eligible leader replicas (KIP-966; on in clusters made by Kafka 4.1 or later)."""
    alone: dict[tuple[int, TopicPartition], list[LogRecord]] = field(default_factory=dict)
    """What only that broker's log holds, until it is stopped: it leads no more, and has not heard of it."""
    parted: dict[tuple[int, TopicPartition], int] = field(default_factory=dict)
    """Where its log parted from the others'."""
    halted: dict[tuple[int, TopicPartition], int] = field(default_factory=dict)
    """Where the log of a fenced broker ends: it fetches as long as it knows the leader and the epoch that there are."""
    heard_settings: dict[int, dict[tuple[str, str, str], str]] = field(default_factory=dict)
    """What was set at run time when a broker was fenced: KRaft's settings come with the metadata (KIP-500)."""
    files: dict[int, dict[str, str]] = field(default_factory=dict)
    """What is in each broker's configuration file; somebody else's to change."""
    started_with: dict[int, dict[str, str]] = field(default_factory=dict)
    """What was in it when the broker was started last."""
    housed: dict[str, int] = field(default_factory=dict)
    """Which broker or controller runs in the Pod of this address, up or not, whatever the Pod is called."""
    closed: set[int] = field(default_factory=set)
    """Those that take no connection of the operator's at their Pods' own addresses."""
    failed_disk: dict[int, set[TopicPartition]] = field(default_factory=dict)
    """Brokers with a second log directory, which has failed, and the replicas on it."""
    deleting: list[tuple[int, float, int, int]] = field(default_factory=list)
    """Of replicas that were removed: the broker, when, the bytes of the files, which are still there, and on which of
    its volumes."""
    _truth: Image | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.up = self.up or set(self.racks)
        self.apart = tuple(sorted(self.controllers))
        for broker, rack in self.racks.copy().items():
            self.installed(broker, rack)

    def topic(self, name: str, *replicas: Sequence[int], size: int = 1000, end: int = 21) -> None:
        self.made += 1
        for number, ids in enumerate(replicas):
            self.partitions[TopicPartition(name, number)] = SimPartition(
                list(ids), list(ids), ids[0], size=size, end=end, born=self.made
            )

    def deletable(self, name: str) -> bool:
        """With ZooKeeper a deletion waits until every replica's broker has stopped its replica, as long as one of them
        is away or cannot be reached (TopicDeletionManager), and until no partition of the topic is being reassigned
        (KafkaController.processTopicDeletion). KRaft's is done once the controller has written it."""
        parts = [p for tp, p in self.partitions.items() if tp.topic == name]
        holders, moving = {b for p in parts for b in p.replicas}, any(p.adding or p.removing for p in parts)
        return bool(holders) and (not self.zookeeper or (holders <= self.up - self.stale.keys() and not moving))

    def delete(self, name: str) -> None:
        """A topic goes, and with it its settings, its records and what groups have committed on it."""
        gone = {tp for tp in self.partitions if tp.topic == name}
        for tp in gone:
            part = self.partitions.pop(tp)
            self._deletes(part, part.replicas, tp)
            self.buried[tp, part.id(name)] = part
            self.logs.pop(tp, None)
            self.written_at.pop(tp, None)
        self.dynamic = {k: v for k, v in self.dynamic.items() if k[:2] != ("TOPIC", name)}
        self.alone = {key: log for key, log in self.alone.items() if key[1] not in gone}
        self.parted = {key: end for key, end in self.parted.items() if key[1] not in gone}
        left = {g: {tp: o for tp, o in offsets.items() if tp not in gone} for g, offsets in self.committed.items()}
        # A group without offsets goes at once in Kafka 3 (GroupMetadataManager), and in Kafka 4 with the next clean-up.
        self.committed = {group: offsets for group, offsets in left.items() if offsets or not self.zookeeper}

    def stop(self, broker: int) -> None:
        """A graceful end: it hands over what it leads and leaves (ControlledShutdown)."""
        self._ends(broker)
        self._leaves(broker)

    def kill(self, broker: int) -> None:
        """An end without warning: nothing is handed over, and the controller learns of it by `expire`."""
        member = broker in self.members
        self._ends(broker)
        if member:
            self.lingering.add(broker)
        else:
            self._leaves(broker)

    def expire(self, broker: int) -> None:
        """The session of a process that was killed is over: others lead what it led."""
        if broker in self.lingering:
            self.lingering.discard(broker)
            self._leaves(broker)

    def fence(self, broker: int) -> None:
        """The controller has not heard of a broker for the whole session, and the broker hears nothing of that."""
        self.stale.setdefault(broker, self.image(broker).view)
        self.zombies.add(broker)
        self.left_at[broker] = self.elapsed
        self.halted |= {(broker, tp): p.end for tp, p in self.partitions.items()}
        self.heard_settings[broker] = dict(self.dynamic)
        self._leaves(broker)

    def _ends(self, broker: int) -> None:
        self.up.discard(broker)
        self.controllers.discard(broker)
        self.zombies.discard(broker)
        self.mute.discard(broker)
        self.heal(broker)
        self.left_at[broker] = self.elapsed

    def _leaves(self, broker: int) -> None:
        """With ZooKeeper, whoever leaves an ISR by its end leaves it in a new leader epoch, also where it followed
        (KafkaController.onReplicasBecomeOffline)."""
        for tp, part in self.partitions.items():
            in_sync = broker in part.isr
            if in_sync and (len(part.isr) > 1 or self.elr):
                part.isr.remove(broker)
                if self.elr and len(part.isr) < self.min_isr(tp.topic):
                    part.eligible.append(broker)
            if part.leader == broker:
                part.elect(part.successor(self.members))
            elif in_sync and self.zookeeper:
                part.bump()

    def default_minimum(self, broker: int) -> str:
        """The min.insync.replicas that this broker enforces for topics without one, in KIP-226's order."""
        static = self.started_with.get(broker, {}).get(MIN_ISR, "1")
        for_all = self.dynamic.get(("BROKER", "", MIN_ISR), static)
        return self.dynamic.get(("BROKER", str(broker), MIN_ISR), for_all)

    def enforced(self, topic: str, leader: int) -> int:
        """The min.insync.replicas that this broker enforces while it leads a partition of the topic."""
        return int(self.dynamic.get(("TOPIC", topic, MIN_ISR), self.default_minimum(leader)))

    def acknowledges(self, tp: TopicPartition) -> bool:
        """Whether its leader takes a record with acks=all: since 3.7 never for want of more replicas than there are
        (KAFKA-15583, `Partition.effectiveMinIsr`)."""
        part = self.partitions[tp]
        return part.leader in self.up and len(part.isr) >= min(self.enforced(tp.topic, part.leader), len(part.replicas))

    def disk_fails(self, broker: int, replicas: set[TopicPartition]) -> None:
        """A log directory of a broker that has two: these replicas are offline, and the broker goes on (KIP-112)."""
        self.failed_disk[broker] = replicas
        for tp in sorted(replicas):
            part = self.partitions[tp]
            if len(part.isr) > 1 and broker in part.isr:
                part.isr.remove(broker)
            if part.leader == broker:
                part.elect(part.successor(self.up - {broker}))

    def disk_replaced(self, broker: int) -> None:
        """With all that was on it: who is alone in sync leads again, the others have to catch up."""
        for tp in self.failed_disk.pop(broker, ()):
            part = self.partitions.get(tp)
            if part is not None and part.leader == -1 and broker in part.isr and broker in self.up:
                part.elect(broker)

    def heal(self, broker: int) -> None:
        """It hears of the cluster again, truncates what only it holds, and is a member again."""
        self.stale.pop(broker, None)
        self.lagging.pop(broker, None)
        self.left_at.pop(broker, None)
        self.zombies.discard(broker)
        self.heard_settings.pop(broker, None)
        self.halted = {key: end for key, end in self.halted.items() if key[0] != broker}
        self.alone = {key: log for key, log in self.alone.items() if key[0] != broker}
        self.parted = {key: end for key, end in self.parted.items() if key[0] != broker}
        if broker in self.up:
            self._comes_back(broker)

    def _comes_back(self, broker: int) -> None:
        """What has no leader is led by whom it may be, and nobody else."""
        for part in self.partitions.values():
            if part.leader == -1 and broker in (*part.isr, *part.eligible) and not self.on_failed_disk(broker, part):
                if broker not in part.isr:
                    part.isr.append(broker)
                part.elect(broker)

    def joins(self, tp: TopicPartition, broker: int) -> None:
        """A replica has caught up."""
        part = self.partitions[tp]
        part.isr.append(broker)
        if broker in part.eligible:
            part.eligible.remove(broker)
        if len(part.isr) >= self.min_isr(tp.topic):
            part.eligible.clear()

    def min_isr(self, topic: str) -> int:
        """As the controller has it, which keeps the eligible leader replicas (KIP-966)."""
        return self.enforced(topic, min(self.racks))

    # -- what each of them knows ----------------------------------------------------------------------

    def truth(self) -> Image:
        """What a broker knows that is cut off from nothing; the same object until something changes."""
        controller = self.controller() if self.zookeeper else None
        members = tuple(sorted(self.members))
        rows = {
            tp: Belief(p.leader, p.epoch, (*p.replicas,), (*p.isr,), p.id(tp.topic))
            for tp, p in sorted(self.partitions.items())
        }
        last = self._truth
        if last is None or (last.rows, last.members, last.controller) != (rows, members, controller):
            last = self._truth = Image(0 if last is None else last.number + 1, rows, members, controller)
        return last

    def view(self) -> BrokerView:
        return self.truth().view

    def image(self, broker: int) -> Image:
        kept = self.stale.get(broker)
        return image_of(kept) if kept is not None else self.lagging.get(broker) or self.truth()

    def believes(self, broker: int, tp: TopicPartition) -> Belief | None:
        """What a broker's own image says of a partition; None: it knows no such partition."""
        if broker in self.stale or broker in self.lagging:
            return self.image(broker).rows.get(tp)
        part = self.partitions.get(tp)
        if part is None:
            return None
        return Belief(part.leader, part.epoch, (*part.replicas,), (*part.isr,), part.id(tp.topic))

    def led_by(self, broker: int, tp: TopicPartition) -> Belief | None:
        """The same where the broker believes that it leads, and so serves."""
        belief = self.believes(broker, tp) if broker in self.up else None
        return belief if belief is not None and belief.leader == broker else None

    def knows(self, broker: int, tp: TopicPartition) -> bool:
        """Whether its image has the leader, the epoch and the incarnation that there are."""
        if broker not in self.stale and broker not in self.lagging:
            return tp in self.partitions
        belief, part = self.believes(broker, tp), self.partitions.get(tp)
        if belief is None or part is None:
            return False
        return (belief.leader, belief.epoch, belief.id) == (part.leader, part.epoch, part.id(tp.topic))

    def served(self, tp: TopicPartition) -> bool:
        """Whether the leader that the controller names knows that it leads. A leader that does not know it answers
        NOT_LEADER_OR_FOLLOWER, and followers that know a newer epoch than their leader are refused
        (UNKNOWN_LEADER_EPOCH, KIP-320): nobody serves the partition."""
        part = self.partitions[tp]
        return part.leader in self.up and self.knows(part.leader, tp)

    def follows(self, broker: int, tp: TopicPartition) -> bool:
        """Whether it copies from the leader that there is, under its epoch; an older one is refused
        (FENCED_LEADER_EPOCH, KIP-320), and no ISR takes who is no member (INELIGIBLE_REPLICA, KIP-841)."""
        if broker not in self.up or broker in self.zombies or not self.served(tp):
            return False
        if self.on_failed_disk(broker, self.partitions[tp]):
            return False
        if broker not in self.stale and broker not in self.lagging:
            return True
        belief = self.believes(broker, tp)
        return belief is not None and broker in belief.replicas and self.knows(broker, tp)

    def fenced_ones_fetch(self) -> None:
        """Nobody refuses the fetches of a fenced broker; only no ISR takes it (KIP-841)."""
        for broker, tp in self.halted:
            part = self.partitions.get(tp)
            if part is not None and part.leader != broker and self.served(tp) and self.knows(broker, tp):
                self.halted[broker, tp] = part.end

    def log_of(self, broker: int, tp: TopicPartition) -> SimPartition | None:
        """The incarnation of a partition of which that broker has a log: that of its own image."""
        belief = self.believes(broker, tp) if broker in self.up else None
        if belief is None or broker not in belief.replicas:
            return None
        part = self.partitions.get(tp)
        if part is not None and part.id(tp.topic) == belief.id:
            return part
        return self.buried.get((tp, belief.id))

    def installed(self, broker: int, rack: str | None) -> None:
        """It has what it starts with; whether it is up is another matter."""
        self.racks[broker] = rack
        self.files[broker] = dict(self.files.get(broker, {"default.replication.factor": "3", MIN_ISR: "2"}))
        self.started_with[broker] = dict(self.files[broker])

    def start(self, broker: int) -> None:
        """Registers once the session of its predecessor is over (NodeExists; DUPLICATE_BROKER_REGISTRATION)."""
        self.left_at.pop(broker, None)
        if broker in self.apart:
            self.controllers.add(broker)
            return
        self.expire(broker)
        self.up.add(broker)
        self.started_with[broker] = dict(self.files[broker])
        self._comes_back(broker)

    def has_copied(self, broker: int, part: SimPartition) -> bool:
        """Whether its log has the partition's bytes. A replica that is being added gets them when it is copied, and
        they go when the replica is deleted."""
        return broker in part.isr or broker not in part.adding

    def on_failed_disk(self, broker: int, part: SimPartition) -> bool:
        return bool(self.failed_disk) and any(
            self.partitions.get(tp) is part for tp in self.failed_disk.get(broker, ())
        )

    def tick(self) -> None:
        """Time passes: copying goes on, a replica that has caught up joins the ISR one tick later, and who cannot fetch
        leaves it."""
        left = self.copies_per_tick
        self.fenced_ones_fetch()
        for broker in sorted(self.lingering):
            self.expire(broker)
        for tp, part in self.partitions.items():
            if not self.served(tp):
                continue
            if part.leader not in self.stale:
                gone = {b for b in part.isr if b in self.stale and b != part.leader and not self.follows(b, tp)}
                part.isr = [b for b in part.isr if b not in gone]
            for broker in part.replicas:
                if broker not in part.isr and self.follows(broker, tp) and left > 0:
                    self.joins(tp, broker)
                    left -= 1
            self.completes(part)

    def completes(self, part: SimPartition) -> bool:
        """A reassignment ends once what it adds is in sync: KRaft asks no more, ZooKeeper for all that stay."""
        stay = [b for b in part.replicas if b not in part.removing]
        needed = set(stay) if self.zookeeper else set(part.adding)
        if not (part.adding or part.removing) or not needed <= set(part.isr) or not set(stay) & set(part.isr):
            return False
        removed = [b for b in part.removing if b in part.isr]
        self._deletes(part, part.removing)
        part.replicas, part.isr = stay, [b for b in part.isr if b in stay]
        fewer, part.adding, part.before, part.removing = bool(part.removing), [], [], []
        if part.leader not in stay:
            part.elect(part.successor(self.members))
        elif self.zookeeper or fewer:  # PartitionChangeBuilder.triggerLeaderEpochBumpForReplicaReassignmentIfNeeded
            part.bump()
        if self.zookeeper:
            part.bump(len(removed))
        return True

    def _deletes(self, part: SimPartition, brokers: Sequence[int], tp: TopicPartition | None = None) -> None:
        raise NotImplementedError

    def files_left(self, broker: int, volume: int) -> int:
        """Bytes that no directory names any more, and that take room for a while (file.delete.delay.ms)."""
        self.deleting = [d for d in self.deleting if self.elapsed - d[1] < FILE_DELETE_DELAY]
        return sum(size for b, _, size, n in self.deleting if (b, n) == (broker, volume))

    def controller(self) -> int:
        """Whoever was voted for, else the lowest that is up; -1 when none is, or too few to elect one."""
        able = self.controllers if self.apart else self.up - self.zombies
        if self.zookeeper:
            able = able | self.lingering  # whose session holds the znode /controller
        if len(able) * 2 <= len(self.apart):
            return -1
        able = able - self.stale.keys() or able
        return self.voted if self.voted in able and self.voted is not None else min(able, default=-1)

    @property
    def nodes(self) -> set[int]:
        """Every process that is up."""
        return self.up | self.controllers

    @property
    def members(self) -> set[int]:
        return self.up - self.zombies | self.lingering

    # -- the port ---------------------------------------------------------------------------------
