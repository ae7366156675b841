"""What can go wrong in the world, and people's doing; each a method of the stage."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kafka_medic.clients.ports import LogRecord
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.phases import TERMINAL_PHASES
from tests.simulation.api import SimApi
from tests.simulation.grounds import RUNS
from tests.simulation.kafka import SimKafka
from tests.simulation.oracle import CLUSTER, Oracle
from tests.simulation.pods import SETS_PATH, SimPods
from tests.simulation.world import World


class Faults:
    """`thinned`: topics whose min.insync.replicas somebody has raised, and what it was."""

    kafka: SimKafka
    api: SimApi
    world: World
    oracle: Oracle
    pods: SimPods | None
    random: random.Random
    starting: set[int]
    copying: set[tuple[TopicPartition, int]]
    slow: set[int]
    thinned: dict[str, str | None]
    api_down: bool
    later: Callable[..., None]
    accept: Callable[[TopicPartition, list[LogRecord], int], None]
    approve: Callable[..., None]
    runs: Callable[[], list[dict[str, Any]]]

    def on_fault(self, what: str, *args: Any) -> None:
        getattr(self, f"_{what}")(*args)

    def _dies(self, broker: int) -> None:
        """Its process ends, and is started again in the same Pod."""
        if broker in self.kafka.nodes:
            assert self.pods is not None
            self.kafka.stop(broker)
            self.kafka.heal(broker)
            self.pods._put(broker, ready=False, keep=True)
            self.starting.add(broker)
            recovery = self.random.uniform(30, 90) if broker in self.slow else self.random.uniform(3, 20)
            self.later(recovery, "pod_up", broker, self.pods.uid(broker))

    def _slow_recovery(self, broker: int, seconds: float) -> None:
        self.slow.add(broker)
        self.later(seconds, "fault", "undo", "slow", broker)

    def _pod_replaced(self, broker: int) -> None:
        """Somebody else deletes the Pod."""
        assert self.pods is not None
        if broker in self.kafka.nodes:
            self.pods.stop(broker)

    def _isr_shrinks(self, number: int, broker: int, seconds: float) -> None:
        """A follower lags for so long. Who is alone in the ISR stays there, dead or alive."""
        found = [
            tp
            for tp, part in sorted(self.kafka.partitions.items())
            if broker in part.isr and len(part.isr) > 1 and broker != part.leader and (tp, broker) not in self.copying
        ]
        if found:
            tp = found[number % len(found)]
            self.kafka.partitions[tp].isr.remove(broker)
            self.copying.add((tp, broker))
            self.later(seconds, "caught_up", tp, broker)

    def _controller_moves(self, broker: int) -> None:
        if broker not in self.kafka.stale:
            self.kafka.voted = broker

    def _revoked(self, seconds: float) -> None:
        self.api.approvers.discard("alice")
        self.later(seconds, "fault", "undo", "revoked", "alice")

    def _rejected(self) -> None:
        for run in self.runs():
            if (run.get("status") or {}).get("plan") and run["status"]["phase"] not in TERMINAL_PHASES:
                self.approve(run, decision="Reject")

    def _blind(self, source: str, seconds: float) -> None:
        self.kafka.unreadable.add(source)
        self.later(seconds, "fault", "undo", "blind", source)

    def _stale(self, broker: int, seconds: float) -> None:
        """Cut off from the controller: it goes on telling what it knew."""
        if broker in self.kafka.up and broker != self.kafka.controller() and broker not in self.kafka.stale:
            self.kafka.stale[broker] = self.kafka.view()
            self.later(seconds, "fault", "undo", "stale", broker)

    def _diverges(self, broker: int, number: int, seconds: float) -> None:
        """Cut off from the controller while another one comes to lead a partition: it never hears of that."""
        found = [
            (part, other)
            for part in self.kafka.partitions.values()
            for other in part.isr
            if part.leader not in (other, broker) and other in self.kafka.up - {broker}
        ]
        if broker in self.kafka.up and broker != self.kafka.controller() and found:
            self._stale(broker, seconds)
            part, other = found[number % len(found)]
            part.elect(other)

    def _written(self, number: int) -> None:
        """A client that still takes a stale broker for the leader writes to one more partition."""
        if led := sorted(self.kafka.parted):
            broker, tp = led[number % len(led)]
            log = self.kafka.alone.setdefault((broker, tp), [])
            self.accept(tp, log, log[-1].offset + 1 if log else self.kafka.parted[broker, tp])

    def _deaf(self, broker: int, seconds: float) -> None:
        self.kafka.deaf.add(broker)
        self.later(seconds, "fault", "undo", "deaf", broker)

    def _mute(self, broker: int, seconds: float) -> None:
        """It answers, but not for its logs: what it leads, or comes to lead, does not serve."""
        self.kafka.mute.add(broker)
        self.later(seconds, "fault", "undo", "mute", broker)

    def _offline(self, number: int, seconds: float) -> None:
        """The disk of the only replica that is in sync fails, and its broker goes on."""
        found = [tp for tp, p in sorted(self.kafka.partitions.items()) if len(p.isr) == 1 and p.leader in self.kafka.up]
        if found:
            tp = found[number % len(found)]
            self.kafka.partitions[tp].elect(-1)
            self.later(seconds, "fault", "undo", "offline", tp)

    def _behind(self, broker: int, seconds: float) -> None:
        if broker != self.kafka.controller():
            self.kafka.behind.add(broker)
            self.later(seconds, "fault", "undo", "behind", broker)

    def _foreign(self, number: int, broker: int, seconds: float) -> None:
        """Somebody else with an admin client adds a replica on this broker."""
        fit = [tp for tp, p in sorted(self.kafka.partitions.items()) if broker not in p.replicas and not p.adding]
        if fit and broker in self.kafka.racks:
            part = self.kafka.partitions[tp := fit[number % len(fit)]]
            self.oracle.foreign.add(tp)
            self.oracle.widened.add(tp)
            part.before, part.adding = list(part.replicas), [broker]
            part.replicas = [*part.replicas, broker]
            self.copying.add((tp, broker))
            self.later(seconds, "caught_up", tp, broker)

    def _thinned(self, number: int, seconds: float) -> None:
        """Somebody asks for more in-sync replicas of a topic than it can spare one of."""
        tp = sorted(self.kafka.partitions)[number % len(self.kafka.partitions)]
        key = "TOPIC", tp.topic, "min.insync.replicas"
        if tp.topic not in self.thinned:
            self.thinned[tp.topic] = self.kafka.dynamic.get(key)
            self.kafka.dynamic[key] = str(len(self.kafka.partitions[tp].replicas))
            self.later(seconds, "fault", "undo", "thinned", tp.topic)

    def _reordered(self, number: int) -> None:
        """Somebody else prefers another replica."""
        tp = sorted(self.kafka.partitions)[number % len(self.kafka.partitions)]
        part = self.kafka.partitions[tp]
        if not part.adding:
            part.replicas = [*part.replicas[1:], part.replicas[0]]
            self.oracle.theirs.add(tp)

    def _elected(self, number: int) -> None:
        """Another replica in sync comes to lead a partition."""
        part = self.kafka.partitions[sorted(self.kafka.partitions)[number % len(self.kafka.partitions)]]
        others = [b for b in part.isr if b != part.leader and b in self.kafka.up]
        if others and part.leader >= 0 and not self.kafka.stale:
            part.elect(others[0])

    def _joined(self, number: int, seconds: float) -> None:
        """A group's consumers start, and stop again."""
        groups = sorted(self.kafka.committed)
        if groups:
            group = groups[number % len(groups)]
            self.kafka.states[group] = "Stable"
            self.later(seconds, "fault", "undo", "joined", group)

    def _committed(self, number: int) -> None:
        """A group, or somebody for it, commits something else."""
        found = sorted(self.oracle.committed())
        if found:
            group, tp = key = found[number % len(found)]
            self.kafka.committed[group][tp] = self.oracle.offsets[key] = max(0, self.kafka.partitions[tp].end - number)
            self.oracle.moved.add(key)

    def _cancelled(self, number: int) -> None:
        """Somebody else cancels what is in flight."""
        self.withdraw(sorted(self.kafka.partitions)[number % len(self.kafka.partitions)])

    def withdraw(self, tp: TopicPartition) -> None:
        part = self.kafka.partitions[tp]
        if part.adding and part.withdraw(self.kafka.up):
            self.oracle.withdrawn(tp, part.replicas)

    def _told_to_pause(self, seconds: float) -> None:
        self._spec()["paused"] = True
        self.later(seconds, "fault", "undo", "told_to_pause", "")

    def _window_closes(self, seconds: float) -> None:
        self._spec()["windows"] = [{"days": ["Mon"], "start": "03:00", "end": "03:01", "timeZone": "UTC"}]
        self.later(seconds, "fault", "undo", "window_closes", "")

    def _spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.api.touch(CLUSTER)["spec"]["remediation"]
        return spec

    def _cordoned(self, broker: int, seconds: float) -> None:
        self.api.touch(f"/api/v1/nodes/node-{broker}")["spec"]["unschedulable"] = True
        self.later(seconds, "fault", "undo", "cordoned", broker)

    def _unready(self, broker: int, seconds: float) -> None:
        """Its readiness probe fails, though it serves."""
        assert self.pods is not None
        if broker in self.kafka.nodes:
            self.pods._put(broker, ready=False, keep=True)
            self.later(seconds, "fault", "undo", "unready", broker)

    def _rollout(self, seconds: float) -> None:
        if SETS_PATH in self.api.objects:
            self.api.touch(SETS_PATH)["metadata"]["generation"] = 2
            self.later(seconds, "fault", "undo", "rollout", "")

    def _budget(self, seconds: float) -> None:
        assert self.pods is not None
        self.pods.min_available = len(self.kafka.racks)
        self.later(seconds, "fault", "undo", "budget", "")

    def _api_down(self, seconds: float) -> None:
        self.api_down = True
        self.later(seconds, "fault", "undo", "api_down", "")

    def _asked(self, playbook: str) -> None:
        """A person asks for another run meanwhile."""
        self.world.ask(playbook)

    def _deleted(self) -> None:
        for run in self.runs():
            self.api.delete(f"{RUNS}{run['metadata']['name']}")

    def _undo(self, what: str, whom: Any) -> None:
        match what:
            case "slow":
                self.slow.discard(whom)
            case "revoked":
                self.api.approvers.add(whom)
            case "blind":
                self.kafka.unreadable.discard(whom)
            case "stale":
                self.kafka.heal(whom)
            case "deaf":
                self.kafka.deaf.discard(whom)
            case "mute":
                self.kafka.mute.discard(whom)
            case "offline" if self.kafka.partitions[whom].leader < 0:
                part = self.kafka.partitions[whom]
                part.elect(next((b for b in part.isr if b in self.kafka.up), -1))
            case "joined":
                self.kafka.states[whom] = "Empty"
            case "thinned":
                key, before = ("TOPIC", whom, "min.insync.replicas"), self.thinned.pop(whom)
                if before is None:
                    self.kafka.dynamic.pop(key, None)
                else:
                    self.kafka.dynamic[key] = before
            case "behind":
                self.kafka.behind.discard(whom)
            case "told_to_pause":
                self._spec()["paused"] = False
            case "window_closes":
                self._spec().pop("windows", None)
            case "cordoned":
                self.api.touch(f"/api/v1/nodes/node-{whom}")["spec"].pop("unschedulable", None)
            case "unready" if whom in self.kafka.nodes and self.pods is not None:
                self.pods.ready(whom)
            case "rollout":
                self.api.touch(SETS_PATH)["metadata"]["generation"] = 1
            case "budget" if self.pods is not None:
                self.pods.min_available = None
            case "api_down":
                self.api_down = False
