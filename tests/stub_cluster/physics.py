"""What Kafka's KRaft controller does when a broker leaves or returns, and when it is ordered to move or elect.

A new leader raises the leader epoch. An in-sync set that shrinks or grows does not (KAFKA-15021). A reassignment that
removes a replica does (`PartitionChangeBuilder.triggerLeaderEpochBumpForReplicaReassignmentIfNeeded`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from kafka import errors

from tests.stub_cluster.description import Move, Partition
from tests.stub_cluster.state import State

Key = tuple[str, int]
"""Topic and number of a partition."""
Result = tuple[int, str | None]
"""Error code and message."""
DONE: Result = (0, None)
NOBODY = -1
COPYING, RETURNING = 5.0, 2.0


class Physics:
    """`copying`: seconds until an added replica has caught up. `returning`: the same where the broker was away.
    None: never. Both may change at any time, also for replicas that are already on their way."""

    def __init__(self, state: State, clock: Callable[[], float] = time.monotonic) -> None:
        self.state = state
        self.copying: float | None = COPYING
        self.returning: float | None = RETURNING
        self.away: dict[int, float] = {}
        """Since when a broker is away."""
        self.clock = clock
        self._behind: dict[tuple[str, int, int], float] = {}
        """Replicas that fetch and are not in sync, and since when."""
        self._next = math.inf
        now = clock()
        for (name, number), move in state.moves.items():
            partition = state.fresh.topics[name].partitions[number]
            behind = set(partition.replicas).intersection(move.adding) - set(partition.isr)
            self._behind |= {(name, number, broker): now for broker in behind}
        self._schedule()

    def pace(self, copying: float | None, returning: float | None) -> None:
        self.advance()
        self.copying, self.returning = copying, returning
        self._schedule()

    def advance(self) -> None:
        """Let every replica that is due join the in-sync set."""
        now = self.clock()
        if now < self._next:
            return
        due: dict[str, list[tuple[int, int]]] = {}
        for name, number, broker in self._behind:
            led = self.state.fresh.topics[name].partitions[number].leader != NOBODY
            if led and self._due(name, number, broker) <= now:
                due.setdefault(name, []).append((number, broker))
        for name, replicas in due.items():
            partitions = self.state.fresh.topics[name].partitions
            changed: dict[int, Partition] = {}
            for number, broker in replicas:
                partition = changed.get(number, partitions[number])
                if self._behind.pop((name, number, broker), None) is None:
                    continue  # a reassignment that ended just now has removed it
                joined = partition._replace(isr=(*partition.isr, broker))
                changed[number] = self._completed((name, number), joined)
            self.state.put(name, changed)
        self._schedule()

    def go(self, broker: int) -> None:
        """A broker leaves by a controlled shutdown. The last replica in sync stays in sync, and nobody leads."""
        if broker not in self.state.members:
            return
        self.advance()
        self.away[broker] = self.clock()
        self.state.leave(broker)
        for name, numbers in self.state.held[broker].items():
            partitions = self.state.fresh.topics[name].partitions
            changed = {}
            for number in numbers:
                partition = partitions[number]
                left = tuple(b for b in partition.isr if b != broker) or partition.isr
                changed[number] = self._led(partition._replace(isr=left))
                self._behind.pop((name, number, broker), None)
            self.state.put(name, changed)
        self._schedule()

    def come(self, broker: int) -> None:
        """A broker returns. It leads at once what nobody leads and where it is in sync, and catches up elsewhere."""
        if broker in self.state.members:
            return
        self.advance()
        now = self.clock()
        self.away.pop(broker, None)
        self.state.join(broker)
        for name, numbers in self.state.held[broker].items():
            partitions = self.state.fresh.topics[name].partitions
            # All partitions change: none of them has this replica offline any more.
            changed = {number: self._led(partitions[number]) for number in numbers}
            self._behind |= {(name, number, broker): now for number, p in changed.items() if broker not in p.isr}
            self.state.put(name, changed)
        self._schedule()

    def reassign(self, key: Key, target: Sequence[int] | None) -> Result:
        """As `ReplicationControlManager.alterPartitionReassignment` does it. None cancels."""
        self.advance()
        partition = self.state.fresh.partition(*key)
        if partition is None:
            return errors.UnknownTopicOrPartitionError.errno, "This server does not host this topic-partition."
        return self._cancelled(key, partition) if target is None else self._begun(key, partition, tuple(target))

    def elect(self, key: Key) -> Result:
        """The first replica leads, if it is a member and in sync."""
        self.advance()
        partition = self.state.fresh.partition(*key)
        if partition is None:
            return errors.UnknownTopicOrPartitionError.errno, f"No such topic as {key[0]}"
        preferred = partition.replicas[0]
        if partition.leader == preferred:
            return errors.ElectionNotNeededError.errno, "Leader election not needed for topic partition."
        if preferred not in partition.isr or preferred not in self.state.members:
            return errors.PreferredLeaderNotAvailableError.errno, "The preferred leader was not available."
        self.state.put(key[0], {key[1]: partition._replace(leader=preferred, epoch=partition.epoch + 1)})
        return DONE

    def _cancelled(self, key: Key, partition: Partition) -> Result:
        move = self.state.moves.get(key)
        if move is None:
            return errors.NoReassignmentInProgressError.errno, "No partition reassignment is in progress."
        isr = tuple(b for b in partition.isr if b not in move.adding)
        if not isr:
            # KRaft refuses this without unclean elections: nobody who stays has all records.
            return errors.InvalidReplicationAssignmentError.errno, "Unable to revert partition assignment"
        del self.state.moves[key]
        self._forget(key, move.adding)
        replicas = tuple(b for b in partition.replicas if b not in move.adding)
        after = partition._replace(replicas=replicas, isr=isr)
        self.state.put(key[0], {key[1]: self._led(after, fewer=bool(move.adding))})
        return DONE

    def _begun(self, key: Key, partition: Partition, target: tuple[int, ...]) -> Result:
        unknown = [broker for broker in target if broker not in self.state.racks]
        if not target or unknown or len(set(target)) < len(target):
            why = f"no such broker is registered: {unknown}" if unknown else "empty, or the same broker twice"
            return (
                errors.InvalidReplicationAssignmentError.errno,
                f"The manual partition assignment is not valid: {why}",
            )
        adding = tuple(b for b in target if b not in partition.replicas)
        removing = tuple(b for b in partition.replicas if b not in target)
        # What a former reassignment has added counts as present, in sync or not.
        self.state.moves.pop(key, None)
        after = partition._replace(replicas=(*target, *removing))
        if adding or removing:
            self.state.moves[key] = Move(after.replicas, adding, removing)
            now = self.clock()
            for broker in self.state.members.intersection(adding):
                self._behind.setdefault((*key, broker), now)
        after = self._completed(key, after)
        self._forget(key, set(partition.replicas) - set(after.replicas))
        self.state.put(key[0], {key[1]: after})
        self._schedule()
        return DONE

    def _completed(self, key: Key, partition: Partition) -> Partition:
        """A reassignment ends once all that it adds is in sync."""
        move = self.state.moves.get(key)
        isr = () if move is None else tuple(b for b in partition.isr if b not in move.removing)
        if move is None or not isr or not set(move.adding) <= set(isr):
            return partition
        del self.state.moves[key]
        self._forget(key, move.removing)
        replicas = tuple(b for b in partition.replicas if b not in move.removing)
        return self._led(partition._replace(replicas=replicas, isr=isr), fewer=bool(move.removing))

    def _led(self, partition: Partition, *, fewer: bool = False) -> Partition:
        """With a leader that is a member and in sync, if there is one. `fewer`: a replica was removed."""
        able = [b for b in partition.replicas if b in partition.isr and b in self.state.members]
        leader = partition.leader if partition.leader in able else next(iter(able), NOBODY)
        if leader == partition.leader and not fewer:
            return partition
        return partition._replace(leader=leader, epoch=partition.epoch + 1)

    def _forget(self, key: Key, brokers: Sequence[int] | set[int]) -> None:
        for broker in brokers:
            self._behind.pop((*key, broker), None)

    def _due(self, name: str, number: int, broker: int) -> float:
        move = self.state.moves.get((name, number))
        seconds = self.copying if move is not None and broker in move.adding else self.returning
        return math.inf if seconds is None else self._behind[name, number, broker] + seconds

    def _schedule(self) -> None:
        self._next = min((self._due(*replica) for replica in self._behind), default=math.inf)
