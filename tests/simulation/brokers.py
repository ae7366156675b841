"""The brokers of a Kafka cluster in memory: what is in their files and logs, who leads and who is in sync, and what
time, a death and a return do to that. `kafka.py` has the port to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka_medic.clients.ports import BrokerView, LogRecord
from kafka_medic.cluster.groups import Committed, GroupMember
from kafka_medic.cluster.snapshot import TopicPartition


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
    began: dict[int, int] = field(default_factory=dict)
    """The first offset of each leader epoch but the first."""

    def elect(self, leader: int) -> None:
        self.leader, self.epoch = leader, self.epoch + 1
        self.began[self.epoch] = self.end

    def withdraw(self, up: set[int]) -> bool:
        """Its reassignment goes back; refused where nobody would be left in sync, as by KRaft's controller."""
        left = [b for b in self.isr if b in self.before]
        if not left:
            return False
        self.replicas, self.adding, self.before, self.isr = self.before, [], [], left
        if self.leader not in left:
            self.elect(next((b for b in left if b in up), -1))
        return True


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
    """Bytes on the disks of each broker; None: it does not tell."""
    voted: int | None = None
    controllers: set[int] = field(default_factory=set)
    apart: tuple[int, ...] = ()
    logs: dict[TopicPartition, list[LogRecord]] = field(default_factory=dict)
    deaf: set[int] = field(default_factory=set)
    """Brokers that are up and do not answer when they are asked for their view."""
    mute: set[int] = field(default_factory=set)
    """Brokers that answer for the cluster and not for their logs, as with a disk that hangs."""
    stale: dict[int, BrokerView] = field(default_factory=dict)
    """Brokers that are cut off from the controller, and what they go on telling."""
    zombies: set[int] = field(default_factory=set)
    """Of those, the ones that are not members any more, until they are started anew."""
    zookeeper: bool = False
    """Whether brokers name the controller; KRaft's name any live broker (KIP-590)."""
    behind: set[int] = field(default_factory=set)
    """Voters that have not caught up for a minute."""
    alone: dict[tuple[int, TopicPartition], list[LogRecord]] = field(default_factory=dict)
    """What only that broker's log holds, until it is stopped: it leads no more, and has not heard of it."""
    parted: dict[tuple[int, TopicPartition], int] = field(default_factory=dict)
    """Where its log parted from the others'."""
    files: dict[int, dict[str, str]] = field(default_factory=dict)
    """What is in each broker's configuration file; somebody else's to change."""
    started_with: dict[int, dict[str, str]] = field(default_factory=dict)
    """What was in it when the broker was started last."""
    _told: tuple[Any, BrokerView] | None = field(default=None, repr=False, compare=False)

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

    def delete(self, name: str) -> None:
        """A topic goes, and its settings with it."""
        self.partitions = {tp: p for tp, p in self.partitions.items() if tp.topic != name}
        self.dynamic = {k: v for k, v in self.dynamic.items() if k[:2] != ("TOPIC", name)}

    def stop(self, broker: int) -> None:
        self.up.discard(broker)
        self.controllers.discard(broker)
        self.zombies.discard(broker)
        for part in self.partitions.values():
            if len(part.isr) > 1 and broker in part.isr:
                part.isr.remove(broker)
            if part.leader == broker:
                live = [b for b in part.isr if b in self.up]
                part.elect(live[0] if live else -1)

    def heal(self, broker: int) -> None:
        """It hears of the cluster again, and truncates what only it holds."""
        self.stale.pop(broker, None)
        self.alone = {key: log for key, log in self.alone.items() if key[0] != broker}
        self.parted = {key: end for key, end in self.parted.items() if key[0] != broker}

    def installed(self, broker: int, rack: str | None) -> None:
        """It has what it starts with; whether it is up is another matter."""
        self.racks[broker] = rack
        self.files[broker] = dict(self.files.get(broker, {"default.replication.factor": "3"}))
        self.started_with[broker] = dict(self.files[broker])

    def start(self, broker: int) -> None:
        if broker in self.apart:
            self.controllers.add(broker)
            return
        self.up.add(broker)
        self.started_with[broker] = dict(self.files[broker])
        for part in self.partitions.values():
            if part.leader == -1 and broker in part.isr:
                part.elect(broker)

    def tick(self) -> None:
        """Time passes: copying goes on, and a replica that has caught up joins the ISR one tick later."""
        left = self.copies_per_tick
        for part in self.partitions.values():
            if part.leader not in self.up:
                continue
            for broker in part.replicas:
                if broker not in part.isr and broker in self.up and left > 0:
                    part.isr.append(broker)
                    left -= 1
            if part.adding and set(part.replicas) <= set(part.isr):
                part.adding, part.before = [], []

    def controller(self) -> int:
        """Whoever was voted for, else the lowest that is up; -1 when none is, or too few to elect one."""
        able = self.controllers if self.apart else self.members
        if len(able) * 2 <= len(self.apart):
            return -1
        return self.voted if self.voted in able and self.voted is not None else min(able, default=-1)

    @property
    def nodes(self) -> set[int]:
        """Every process that is up."""
        return self.up | self.controllers

    @property
    def members(self) -> set[int]:
        return self.up - self.zombies

    # -- the port ---------------------------------------------------------------------------------
