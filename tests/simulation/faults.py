"""What can go wrong in the world, and people's doing; each a method of the stage."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kafka_medic.clients.ports import LogRecord
from kafka_medic.cluster.snapshot import TopicPartition
from tests.simulation.api import SimApi
from tests.simulation.brokers import MIN_ISR
from tests.simulation.grounds import ENDED, OWNER_PAUSE, OWNERS, RUNS, acts
from tests.simulation.kafka import SimKafka
from tests.simulation.oracle import CLUSTER, Oracle
from tests.simulation.pods import ROLLED_BY, SimPods
from tests.simulation.topic_operator import SimTopicOperator
from tests.simulation.world import World


class Faults:
    """`thinned`: as the oracle's."""

    kafka: SimKafka
    api: SimApi
    world: World
    oracle: Oracle
    pods: SimPods | None
    topic_operator: SimTopicOperator | None
    random: random.Random
    starting: set[int]
    copying: set[tuple[TopicPartition, int]]
    slow: set[int]
    thinned: dict[str, str | None]
    api_down: bool
    laden: float
    later: Callable[..., None]
    accept: Callable[[TopicPartition, list[LogRecord], int], None]
    approve: Callable[..., None]
    ends_without_warning: Callable[[int], None]
    runs: Callable[[], list[dict[str, Any]]]

    def on_fault(self, what: str, *args: Any) -> None:
        getattr(self, f"_{what}")(*args)

    def _dies(self, broker: int) -> None:
        """Its process ends, and is started again in the same Pod."""
        if broker in self.kafka.nodes:
            self.kafka.stop(broker)
            self._starts_anew(broker)

    def _killed(self, broker: int) -> None:
        """Its process is killed (out of memory, a lost node): nothing is handed over, and nobody serves what it led
        until its session is over."""
        if broker in self.kafka.nodes:
            self.kafka.kill(broker)
            self.ends_without_warning(broker)
            self._starts_anew(broker)

    def _starts_anew(self, broker: int) -> None:
        assert self.pods is not None
        self.pods._put(broker, ready=False, keep=True)
        self.starting.add(broker)
        recovery = self.random.uniform(30, 90) if broker in self.slow else self.random.uniform(3, 20)
        self.later(recovery, "pod_up", broker, self.pods.uid(broker))

    def _comes_back(self) -> None:
        """Brokers that were given up are started after all."""
        for broker in sorted(set(self.kafka.racks) - self.kafka.up - self.starting):
            self._starts_anew(broker)

    def _disk_back(self) -> None:
        """Failed disks are repaired, with what was on them, and their brokers restarted: Kafka opens a log directory at
        its start alone."""
        for broker in sorted(self.kafka.failed_disk):
            self._dies(broker)
            self.kafka.disk_replaced(broker)

    def _hanging(self, broker: int, seconds: float) -> None:
        """Its graceful end would take longer than the grace period: the kubelet kills it."""
        self.kafka.hanging.add(broker)
        self.later(seconds, "fault", "undo", "hanging", broker)

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

    def _unpaused(self, number: int) -> None:
        """Somebody takes the pause off a KafkaTopic."""
        paused = [p for p, o in sorted(self.api.objects.items()) if p.startswith(OWNERS) and not acts(o)]
        if paused:
            path = paused[number % len(paused)]
            found = self.api.touch(path)
            del found["metadata"]["annotations"][OWNER_PAUSE]
            self.oracle.by_people.add(found["spec"].get("topicName") or found["metadata"]["name"])
            self.later(0.5, "topic_operator_looks")

    def _topics_left(self, seconds: float) -> None:
        """The Topic Operator is down."""
        if self.topic_operator is not None:
            self.topic_operator.down = True
            self.later(seconds, "fault", "topics_seen")

    def _topics_seen(self) -> None:
        assert self.topic_operator is not None
        self.topic_operator.down = False
        self.later(0.5, "topic_operator_looks")

    def _controller_moves(self, broker: int) -> None:
        if broker not in self.kafka.stale:
            self.kafka.voted = broker

    def _revoked(self, seconds: float) -> None:
        self.api.approvers.discard("alice")
        self.later(seconds, "fault", "undo", "revoked", "alice")

    def _rejected(self) -> None:
        for run in self.runs():
            if (run.get("status") or {}).get("plan") and run["status"]["phase"] not in ENDED:
                self.approve(run, decision="Reject")

    def _blind(self, source: str, seconds: float) -> None:
        self.kafka.unreadable.add(source)
        self.later(seconds, "fault", "undo", "blind", source)

    def _stale(self, broker: int, seconds: float) -> None:
        """It goes on telling what it knew: cut off from the controller, or, with KRaft, the log of which its broker
        does not apply any more (MetadataLoader: a fault of a publisher is counted, and the process goes on). So the
        active controller may be one too."""
        if broker in self.kafka.up and self._may_be_stale(broker) and broker not in self.kafka.stale:
            self.kafka.stale[broker] = self.kafka.view()
            self.later(seconds, "fault", "undo", "stale", broker)

    def _may_be_stale(self, broker: int) -> bool:
        return not self.kafka.zookeeper or broker != self.kafka.controller()

    def _diverges(self, broker: int, number: int, seconds: float) -> None:
        """Cut off from the controller while another one comes to lead a partition: it never hears of that."""
        found = [
            (part, other)
            for part in self.kafka.partitions.values()
            for other in part.isr
            if part.leader not in (other, broker) and other in self.kafka.up - {broker}
        ]
        if broker in self.kafka.up and self._may_be_stale(broker) and found:
            self._stale(broker, seconds)
            part, other = found[number % len(found)]
            part.elect(other)

    def _fenced(self, broker: int, seconds: float) -> None:
        """Cut off from all that the controller is: it hears nothing, and after its session it is no member any more."""
        if broker in self.kafka.up and broker != self.kafka.controller() and broker not in self.kafka.stale:
            self._stale(broker, seconds)
            self.later(self.random.uniform(6.0, 18.0), "fault", "session_ends", broker)

    def _session_ends(self, broker: int) -> None:
        if broker in self.kafka.stale and broker in self.kafka.up:
            self.kafka.fence(broker)

    def _parts(self, broker: int) -> None:
        """From here on what it accepts for those that others lead now is in its own log alone."""
        for tp, part in self.kafka.partitions.items():
            believed = self.kafka.led_by(broker, tp)
            if believed is not None and believed.epoch < part.epoch and believed.id == part.id(tp.topic):
                self.kafka.parted.setdefault((broker, tp), part.began.get(believed.epoch + 1, part.end))

    def _remade(self, number: int, seconds: float | None) -> None:
        """Somebody deletes a topic, and makes it anew under its old name: another incarnation, which begins with leader
        epoch 0. None: it stays away."""
        names = sorted({tp.topic for tp in self.kafka.partitions if not tp.topic.startswith(("__", "kafka-medic"))})
        name = names[number % len(names)] if names else ""
        if len(names) < 2 or not self.kafka.deletable(name):  # a cluster without any topic is of no use here
            return
        replicas = [list(p.before or p.replicas) for tp, p in sorted(self.kafka.partitions.items()) if tp.topic == name]
        settings = {k: v for k, v in self.kafka.dynamic.items() if k[:2] == ("TOPIC", name) and "throttled" not in k[2]}
        if name in self.thinned:  # not for good
            settings.pop(("TOPIC", name, MIN_ISR), None)
            before = self.thinned[name]
            settings |= {} if before is None else {("TOPIC", name, MIN_ISR): before}
        self.kafka.delete(name)
        self.oracle.remade(name)
        if seconds is not None:
            self.later(seconds, "fault", "made", name, replicas, settings)

    def _made(self, name: str, replicas: list[list[int]], settings: dict[Any, str]) -> None:
        """With the brokers that are up, as Kafka insists."""
        members = self.kafka.members
        if any(set(ids) - members for ids in replicas):
            return self.later(1.0, "fault", "made", name, replicas, settings)
        self.kafka.topic(name, *replicas, size=0, end=0)
        self.kafka.dynamic |= settings
        self.oracle.remade(name)
        return None

    def _written(self, number: int) -> None:
        """A client that still takes a stale broker for the leader writes to one more partition."""
        if led := sorted(self.kafka.parted):
            broker, tp = led[number % len(led)]
            log = self.kafka.alone.setdefault((broker, tp), [])
            self.accept(tp, log, log[-1].offset + 1 if log else self.kafka.parted[broker, tp])

    def _near(self, broker: int) -> None:
        """From now on the operator's requests that any broker can answer go to this one."""
        self.kafka.near = broker

    def _deaf(self, broker: int, seconds: float) -> None:
        self.kafka.deaf.add(broker)
        self.later(seconds, "fault", "undo", "deaf", broker)

    def _mute(self, broker: int, seconds: float) -> None:
        """It answers, but not for its logs: what it leads, or comes to lead, does not serve."""
        self.kafka.mute.add(broker)
        self.later(seconds, "fault", "undo", "mute", broker)

    def _disk_fails(self, number: int, broker: int, seconds: float) -> None:
        """One of its two log directories fails with every third of its replicas, and is replaced after so long."""
        if broker in self.kafka.up and broker not in self.kafka.failed_disk:
            held = [tp for tp, p in sorted(self.kafka.partitions.items()) if broker in p.replicas and not p.adding]
            self.kafka.disk_fails(broker, set(held[number % 3 :: 3]))
            self.later(seconds, "fault", "undo", "disk_fails", broker)

    def _volume_fails(self, number: int, broker: int, seconds: float) -> None:
        """One of several disks of a broker fails, and is replaced after so long."""
        volumes = self.kafka.volumes.get(broker, ())
        if broker in self.kafka.up and broker not in self.kafka.failed_disk and len(volumes) > 1:
            self.kafka.volume_fails(broker, number % len(volumes))
            self.later(seconds, "fault", "undo", "disk_fails", broker)

    def _volume_fills(self, number: int, broker: int, seconds: float) -> None:
        """Somebody keeps other files on a volume for so long."""
        volumes = self.kafka.volumes.get(broker, ())
        if len(volumes) > 1:
            key = broker, number % len(volumes)
            self.kafka.others[key] = volumes[key[1]]
            self.later(seconds, "fault", "undo", "volume_fills", key)

    def _shifted(self, number: int, broker: int) -> None:
        """Somebody else moves a replica to another disk of its broker."""
        held = [tp for tp, p in sorted(self.kafka.partitions.items()) if broker in p.replicas]
        volumes = self.kafka.volumes.get(broker, ())
        if held and len(volumes) > 1 and broker in self.kafka.up:
            tp = held[number % len(held)]
            to = (self.kafka.dir_of(broker, tp) + number % len(volumes)) % len(volumes)
            self.oracle.shifted.add((broker, tp))
            self.kafka.alter_log_dirs(broker, {tp: f"/data/{to}"})

    def _offline(self, number: int, seconds: float) -> None:
        """The disk of the only replica that is in sync fails, and its broker goes on."""
        found = [tp for tp, p in sorted(self.kafka.partitions.items()) if len(p.isr) == 1 and p.leader in self.kafka.up]
        if found:
            tp = found[number % len(found)]
            self.kafka.partitions[tp].elect(-1)
            self.later(seconds, "fault", "undo", "offline", tp)

    def _unclean(self, number: int) -> None:
        """An administrator gives partitions that nobody in sync can lead to a replica that is behind: what that one
        lacks is lost by their doing."""
        up = self.kafka.up
        found = [
            (tp, b)
            for tp, part in sorted(self.kafka.partitions.items())
            if part.leader not in up and not up & {*part.isr, *part.eligible}
            for b in part.replicas
            if b in up
        ]
        if found:
            tp, broker = found[number % len(found)]
            part = self.kafka.partitions[tp]
            part.end = min(part.end, self.oracle.logs[tp].get(broker, 0))
            part.isr, part.eligible = [broker], []
            part.elect(broker)
            self.oracle.truncated(tp)

    def _laden(self, share: float, seconds: float) -> None:
        """The cluster is large or slow: each read of much takes so long."""
        self.laden = share
        self.later(seconds, "fault", "undo", "laden", 0)

    def _behind(self, broker: int, seconds: float) -> None:
        if broker != self.kafka.controller():
            self.kafka.behind.setdefault(broker, self.kafka.elapsed)
            self.later(seconds, "fault", "undo", "behind", broker)

    def _foreign(self, number: int, broker: int, seconds: float) -> None:
        """Somebody else with an admin client adds a replica on this broker."""
        fit = [tp for tp, p in sorted(self.kafka.partitions.items()) if broker not in p.replicas and not p.adding]
        if fit and broker in self.kafka.racks:
            part = self.kafka.partitions[tp := fit[number % len(fit)]]
            self.oracle.foreign.add(tp)
            self.oracle.widened.add(tp)
            self.kafka.reassigned(part, list(part.replicas), [*part.replicas, broker])
            self.copying.add((tp, broker))
            self.later(seconds, "caught_up", tp, broker)

    def _thinned(self, number: int, seconds: float) -> None:
        """Somebody asks for more in-sync replicas of a topic than it can spare one of."""
        tp = sorted(self.kafka.partitions)[number % len(self.kafka.partitions)]
        key = "TOPIC", tp.topic, MIN_ISR
        if tp.topic not in self.thinned:
            self.thinned[tp.topic] = self.kafka.dynamic.get(key)
            self.kafka.dynamic[key] = str(len(self.kafka.partitions[tp].replicas))
            self.later(seconds, "fault", "undo", "thinned", tp.topic)

    def _reordered(self, number: int) -> None:
        """Somebody else prefers another replica."""
        tp = sorted(self.kafka.partitions)[number % len(self.kafka.partitions)]
        part = self.kafka.partitions[tp]
        if not part.adding:
            self.kafka.reassigned(part, list(part.replicas), [*part.replicas[1:], part.replicas[0]])
            self.oracle.theirs.add(tp)

    def _elected(self, number: int) -> None:
        """Another replica in sync comes to lead a partition."""
        part = self.kafka.partitions[sorted(self.kafka.partitions)[number % len(self.kafka.partitions)]]
        others = [b for b in part.isr if b != part.leader and b in self.kafka.up]
        if others and part.leader >= 0:
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
        for path in filter(self.api.objects.__contains__, ROLLED_BY):
            self.api.touch(path)["metadata"]["generation"] = 2
            self.later(seconds, "fault", "undo", "rollout", path)

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
            case "laden":
                self.laden = 0.0
            case "hanging":
                self.kafka.hanging.discard(whom)
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
            case "offline" if (part := self.kafka.partitions.get(whom)) is not None and part.leader < 0:
                part.elect(part.successor(self.kafka.up))
            case "disk_fails":
                self.kafka.disk_replaced(whom)
            case "volume_fills":
                self.kafka.others.pop(whom, None)
            case "joined":
                self.kafka.states[whom] = "Empty"
            case "thinned":
                key, before = ("TOPIC", whom, MIN_ISR), self.thinned.pop(whom)
                if before is None:
                    self.kafka.dynamic.pop(key, None)
                else:
                    self.kafka.dynamic[key] = before
            case "behind":
                self.kafka.behind.pop(whom, None)
            case "told_to_pause":
                self._spec()["paused"] = False
            case "window_closes":
                self._spec().pop("windows", None)
            case "cordoned":
                self.api.touch(f"/api/v1/nodes/node-{whom}")["spec"].pop("unschedulable", None)
            case "unready" if whom in self.kafka.nodes and self.pods is not None:
                self.pods.ready(whom)
            case "rollout":
                self.api.touch(str(whom))["metadata"]["generation"] = 1
            case "budget" if self.pods is not None:
                self.pods.min_available = None
            case "api_down":
                self.api_down = False
