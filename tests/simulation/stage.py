"""A world in which everything is an event of one queue: operators' reconciles, Pods that stop and start, replicas that
catch up, people, faults. The clock moves only from one event to the next, and by what each request of an operator
takes; so whatever happens may happen between any two requests of a reconcile.

All chance comes from one seeded generator, so a schedule runs the same way every time. `freeze` is the whole world at
one moment; what is thawed goes on with new operator processes, as after a kill -9.
"""

from __future__ import annotations

import functools
import heapq
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from kafka_medic.clients.failures import FailureKind, ReadFailed, WriteFailed
from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.clients.ports import LogRecord
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.controller.clients import Clients
from kafka_medic.controller.events import recorder
from kafka_medic.controller.lease import ClusterLease
from kafka_medic.controller.metrics import Metrics
from kafka_medic.controller.reconciler import Reconciler
from kafka_medic.controller.renewals import Renewals
from tests.simulation import frozen
from tests.simulation.api import SimApi
from tests.simulation.brokers import MIN_ISR
from tests.simulation.canary import SimCanary
from tests.simulation.faults import Faults
from tests.simulation.grounds import ENDED, RUNS, START, annotates, of_owner
from tests.simulation.kafka import SimKafka
from tests.simulation.lines import API_CALLS, EFFECTS, KAFKA_CALLS, LATE, Line, Operator, SimZooKeeper
from tests.simulation.oracle import Oracle
from tests.simulation.pods import NODES, OWNER, SimPods
from tests.simulation.serial import Rounds, one_after_another
from tests.simulation.store import SimStore
from tests.simulation.topic_operator import SimTopicOperator
from tests.simulation.world import POLICIES, Killed, World

SPACING = 3.0
"""Seconds that lie at least between two reconciles; the real one would look at a broker that is away twice a second."""
REPLICA_LAG = 10.0, 20.0
"""Seconds after which a follower that fetches nothing leaves the ISR (replica.lag.time.max.ms, shortened)."""
SESSION = 6.0, 18.0
"""Seconds until a process that was killed is no member any more (broker.session.timeout.ms is 9 s, ZooKeeper's 18)."""
SKEW = 60.0
"""Seconds by which a machine's clock may be off from the API server's."""
TIMEOUT = 5.0
"""Seconds after which an operator gives up a request."""
AWAKE = 0.01
"""Seconds between two events of the threads that renew leases, at least; after a pause another thread may run first."""
UNHELD = 5.0
"""Seconds until a process that holds no lease is asked again whether one is to be renewed."""
READS = frozenset({"views", "slices", "topic_configs", "broker_configs", "log_bounds", "log_dirs", "groups"})
"""What takes time in proportion to the cluster."""
LATE_NEWS = 0.15
"""How often news reaches a broker later than the others."""
SERIES = Metrics()

Fault = list[Any]
"""["at", seconds, what, ...], or aimed at an operator's requests: ["crash" or "lost", kind, nth, "before" or "after"]
with the kinds effect, status, call and renewal (of a lease, beside the reconcile); ["pause", nth, seconds], before that
request, or with a last "after" once it was answered; ["late", "effect" or "renewal", nth, seconds]: the caller times
out, and the request is carried out so much later than it was sent."""


class Stage(Faults):
    """`elapsed`: seconds since the beginning. `aimed`: faults at requests that have not been met yet. `until`: the
    seconds before which more is to come, whatever has ended. `chance`: of what the faults do not choose, such as how
    long news takes; None in an undisturbed run, in which it takes no time. `falling`: followers that fetch nothing.
    `laden`: the seconds that each read of much takes."""

    def __init__(self, kafka: SimKafka, seed: int = 0, *, zookeeper: bool = False) -> None:
        self.kafka, self.api = kafka, SimApi()
        kafka.zookeeper, kafka.elr = zookeeper, not zookeeper
        self.random = random.Random(seed)
        self.elapsed, self.number, self.reconciles, self.events, self.processes = 0.0, 0, 0, 0, 0
        self.queue: list[tuple[float, int, str, tuple[Any, ...]]] = []
        self.pods: SimPods | None = None
        self.topic_operator: SimTopicOperator | None = None
        self.starting: set[int] = set()
        self.copying: set[tuple[TopicPartition, int]] = set()
        self.between: set[tuple[int, TopicPartition]] = set()
        """Copies between two disks of a broker that are under way."""
        self.slow: set[int] = set()
        self.api_down = False
        self.willing = True
        self.until = 0.0
        self.aimed: list[Fault] = []
        self.chance: random.Random | None = None
        self.laden = 0.0
        self.falling: set[tuple[TopicPartition, int]] = set()
        self.truth = kafka.truth()
        self.operators: dict[str, Operator] = {}
        self.oracle = Oracle(kafka, self.api, self.starting)
        self.thinned = self.oracle.thinned
        self._begin()

    def _begin(self) -> None:
        self.world = World(self.kafka, api=self.api, series=SERIES)
        self.world.now = self.now()

    # -- one moment, kept and gone back to ------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("world", "operators")} | {
            "operators": sorted(self.operators)
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        names = state.pop("operators")
        self.__dict__.update(state)
        self.operators = {}
        self._begin()
        for name in names:
            self.operators[name] = Operator(name)
            self._process(self.operators[name])

    def freeze(self) -> bytes:
        return frozen.freeze(self)

    @staticmethod
    def thaw(kept: bytes, seed: int) -> Stage:
        stage: Stage = frozen.thaw(kept)
        stage.random, stage.chance = random.Random(seed), random.Random(f"nature {seed}")
        for operator in stage.operators.values():
            operator.skew = stage.chance.uniform(-SKEW, SKEW)
        return stage

    # -- time -----------------------------------------------------------------------------------------

    def later(self, seconds: float, what: str, *args: Any) -> None:
        self.number += 1
        heapq.heappush(self.queue, (self.elapsed + seconds, self.number, what, args))

    def pass_time(self, seconds: float) -> None:
        """Everything that is due by then happens, each in its turn."""
        end = self.elapsed + seconds
        while self.queue and self.queue[0][0] <= end:
            self.next()
        self._to(max(self.elapsed, end))

    def next(self) -> None:
        at, _, what, args = heapq.heappop(self.queue)
        self._to(max(self.elapsed, at))
        self.world.now = self.now()
        self.events += 1
        getattr(self, f"on_{what}")(*args)
        self.settle()
        self.oracle.after_event(self.elapsed)

    def _to(self, elapsed: float) -> None:
        self.elapsed = self.kafka.elapsed = elapsed

    def now(self, operator: Operator | None = None) -> datetime:
        """By the API server's clock, or by that of an operator's machine."""
        return START + timedelta(seconds=self.elapsed + (operator.skew if operator else 0.0))

    # -- operators ------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        skew = self.chance.uniform(-SKEW, SKEW) if self.chance else 0.0
        self.operators[name] = Operator(name, skew=skew)
        self._process(self.operators[name])
        self.later(0.5, "reconcile", name)

    def _process(self, operator: Operator) -> None:
        api: Any = Line(self, operator, self.api, API_CALLS)
        kafka: Any = Line(self, operator, self.kafka, KAFKA_CALLS)
        clients = Clients(
            store=SimStore(api, policies=POLICIES),
            record=recorder(api),
            kafka=lambda _: kafka,
            zookeeper=lambda _: Line(self, operator, SimZooKeeper(self.kafka), KAFKA_CALLS),  # type: ignore[arg-type,return-value]
            canary=lambda _, topic, __: SimCanary(self.kafka, topic, self.kafka.mute, through=self._through),
            series=SERIES,
            now=lambda: self.now(operator),
            monotonic=lambda: self.elapsed,
        )
        clock = lambda: self.elapsed  # noqa: E731
        renewals = operator.renewals = Renewals(clock)
        chance = random.Random(f"renewals {operator.name}").random
        operator.reconciler = Reconciler(
            "ns", "c", clients,
            lambda c: renewals.keep(ClusterLease(api, "ns", "c", c.uid or "", operator.name, clock, chance)),
        )  # fmt: skip
        operator.seen, operator.busy, operator.canaries = {}, False, []
        self.processes += 1
        operator.process = self.processes
        self.later(UNHELD, "renews", operator.name, operator.process)

    def on_renews(self, name: str, process: int) -> None:
        """What the threads do that renew leases beside the reconciles: whenever one is due, while their process
        runs."""
        operator = self.operators[name]
        if operator.process != process or operator.renewals is None:
            return None  # killed since
        rest = max(operator.stopped_until, operator.hung_until) - self.elapsed
        if rest > 0:
            return self.later(rest + AWAKE, "renews", name, process)
        operator.beside = True
        try:
            while not (wait := operator.renewals.step()):
                pass
        finally:
            operator.beside = False
        return self.later(max(min(wait, UNHELD), AWAKE), "renews", name, process)

    def _renewal(self, operator: Operator, name: str, send: Callable[[], Any], args: tuple[Any, ...]) -> Any:
        """It takes no time of the reconcile's."""
        operator.counts["renewal"] += 1
        fault = self._met(operator, "renewal") if self.aimed else None
        if fault is not None:
            operator.hung_until = self.elapsed + TIMEOUT
            if fault[0] == "late" and name in ("create", "replace"):
                self.later(fault[3], "arrives", name, args, {})
            elif fault[3] == "after":
                send()
        if fault is not None or self.api_down:
            raise ApiFailure(0, "simulated: no answer")
        return send()

    def on_reconcile(self, name: str) -> None:
        operator = self.operators[name]
        if operator.busy:  # it is in the middle of one: a long pause
            return self.later(SPACING, "reconcile", name)
        if operator.reconciler is None:
            self._process(operator)
        operator.busy, operator.seen = True, {}
        assert operator.reconciler is not None
        self.reconciles += 1
        try:
            with one_after_another(functools.partial(self._rounds, operator)):
                wait = operator.reconciler.reconcile()
        except ApiFailure as problem:
            wait = 0.2 if problem.conflict else 5.0
        except Killed:
            operator.reconciler, operator.renewals, operator.canaries, wait = None, None, [], self.random.uniform(1, 20)
        operator.busy = False
        self.later(max(wait, SPACING), "reconcile", name)
        return None

    def _rounds(self, operator: Operator, *args: Any) -> Rounds:
        rounds = Rounds(*args, clock=lambda: self.elapsed, now=lambda: self.now(operator))
        operator.canaries.append(rounds)
        return rounds

    def _through(self, tp: TopicPartition) -> None:
        self.oracle.through[tp] = self.elapsed

    def on_canary(self) -> None:
        """What the canaries' own threads do: records are sent, acknowledged and read back."""
        self.later(1.0, "canary")
        for operator in self.operators.values():
            operator.canaries = [c for c in operator.canaries if not c.ended]
            for canary in operator.canaries:
                for _ in range(3):
                    canary.step()

    def request(self, operator: Operator, name: str, send: Callable[[], Any], args: tuple[Any, ...]) -> Any:
        """One request of an operator: some of the queue, the fault that is aimed at it, and what the oracle says."""
        if operator.beside:
            return self._renewal(operator, name, send, args)
        kind = self.kind(name, args)
        operator.counts["call"] += 1
        if kind != "call":
            operator.counts[kind] += 1
        fault = self._met(operator, kind) if self.aimed else None
        stops = fault is not None and fault[0] == "pause"
        if fault is not None and stops and fault[3:] != ["after"]:
            self._stands_still(operator, fault[2])
        elif kind != "effect":
            # What Kafka is sent, it is sent right after the clock was read; how long that took nobody can fence.
            self.pass_time(self.random.uniform(0.005, 0.05) + (self.laden if name in READS else 0.0))
        when = fault[3] if fault is not None and fault[0] in ("crash", "lost") else None
        if when == "before":
            self._lost(operator, fault, name)
        if kind == "effect":
            self.oracle.before_effect(operator, name, args, self.elapsed)
            if fault is not None and fault[0] == "late" and name in LATE:
                self.oracle.unanswered(name, args)
                self.later(fault[3], "arrives", name, args, dict(operator.seen))
                self.pass_time(TIMEOUT)
                self._lost(operator, fault, name)
        if self.api_down and name in API_CALLS:
            self.oracle.failed(operator, name, args)
            raise ApiFailure(0, "simulated: no answer")
        if name == "create":
            self.world.now = self.now()
            self.api.created_at = self.world.timestamp()
        try:
            answer = send()
        except (ReadFailed, WriteFailed, ApiFailure):
            self.oracle.failed(operator, name, args)
            raise
        self.oracle.read(operator, name, args, answer, self.elapsed)
        if of_owner(name, args):
            self.later(self.random.uniform(0.1, 3.0), "topic_operator_looks")
        if name == "merge" and "/kafkas/" in args[0]:
            self.later(self.random.uniform(0.1, 3.0), "strimzi_looks")
        if kind != "call":
            self.settle()
            self.oracle.after_event(self.elapsed)
        if when == "after":
            self._lost(operator, fault, name)
        if fault is not None and stops and fault[3:] == ["after"]:
            self._stands_still(operator, fault[2])
        return answer

    def _stands_still(self, operator: Operator, seconds: float) -> None:
        operator.stopped_until = self.elapsed + seconds
        self.pass_time(seconds)

    def on_arrives(self, name: str, args: tuple[Any, ...], seen: dict[str, Any]) -> None:
        """A request whose caller gave up is carried out."""
        try:
            if name == "create":
                answer = self.api.create(*args)
            elif name == "replace":
                self.api.replace(*args)
                return
            else:
                answer = getattr(self.kafka, name)(*(args[:1] if name == "alter_configs" else args))
        except (WriteFailed, ApiFailure):
            if name != "alter_configs":
                return
            answer = {}  # some brokers are down, and the others have changed theirs
        self.oracle.arrived(seen, name, args, answer)

    def kind(self, name: str, args: tuple[Any, ...]) -> str:
        if name in ("get", "list"):  # most of them
            return "call"
        if (
            name in EFFECTS
            or (name == "create" and args[0].endswith("/eviction"))
            or annotates(name, args)
            or of_owner(name, args)
        ):
            return "effect"
        if name in ("replace", "create", "merge") and not args[0].endswith(("/subjectaccessreviews", "/events")):
            return "status"
        return "call"

    def _met(self, operator: Operator, kind: str) -> Fault | None:
        for fault in self.aimed:
            if fault[0] == "pause":
                may = kind in ("call", "status") if fault[3:] == ["after"] else kind == "call"
                met = may and operator.counts["call"] >= fault[1]
            elif "renewal" in (kind, fault[1]):
                met = kind == fault[1] and operator.counts[kind] == fault[2]
            else:
                met = operator.counts[fault[1]] == fault[2] and fault[1] in (kind, "call")
            if met:
                self.aimed.remove(fault)
                return fault
        return None

    def _lost(self, operator: Operator, fault: Fault | None, name: str) -> None:
        assert fault is not None
        if fault[0] == "crash":
            raise Killed
        if name in API_CALLS:
            raise ApiFailure(0, "simulated: the answer was lost")
        kind = WriteFailed if name in EFFECTS else ReadFailed
        raise kind(FailureKind.UNREACHABLE, "simulated: the answer was lost")

    # -- nature ---------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Whatever has to come, comes in time: news, and replicas that lag catch up, one event each."""
        kafka = self.kafka
        self._news()
        for broker in kafka.stale:
            self._parts(broker)
        odd = kafka.stale or kafka.lingering or kafka.lagging
        for tp, part in kafka.partitions.items():
            if len(part.isr) < len(part.replicas):
                for broker in part.replicas:
                    key = (tp, broker)
                    if broker not in part.isr and key not in self.copying and kafka.follows(broker, tp):
                        self.copying.add(key)
                        self.later(self.random.uniform(0.5, 6.0), "caught_up", tp, broker)
            if odd and part.leader >= 0:
                self._fall_behind(tp)
        for broker, tp in kafka.futures:
            if (broker, tp) not in self.between and kafka.copies(broker, tp):
                self.between.add((broker, tp))
                self.later(self.random.uniform(2.0, 30.0), "other_disk", broker, tp)

    def _news(self) -> None:
        """What has changed is known everywhere at once, or reaches a broker somewhat later."""
        before, self.truth = self.truth, self.kafka.truth()
        if self.chance is None or self.truth is before:
            return
        for broker in sorted(self.kafka.up - self.kafka.stale.keys() - self.kafka.lagging.keys()):
            if self.chance.random() < LATE_NEWS:
                self.kafka.lagging[broker] = before
                self.later(self.chance.choice((0.02, 0.1, 0.5, 2.0)) * self.chance.random(), "hears", broker)

    def on_hears(self, broker: int) -> None:
        self.kafka.lagging.pop(broker, None)

    def _fall_behind(self, tp: TopicPartition) -> None:
        kafka, part = self.kafka, self.kafka.partitions[tp]
        for broker in part.isr:
            if broker == part.leader or (tp, broker) in self.falling or kafka.follows(broker, tp):
                continue
            self.falling.add((tp, broker))
            self.later(self.random.uniform(*REPLICA_LAG), "falls_behind", tp, broker)

    def on_falls_behind(self, tp: TopicPartition, broker: int) -> None:
        """Its leader takes it out of the ISR, if that leader knows that it leads and the controller hears it."""
        self.falling.discard((tp, broker))
        part = self.kafka.partitions.get(tp)
        if part is None or broker not in part.isr or self.kafka.follows(broker, tp) or part.leader == broker:
            return
        if self.kafka.served(tp) and part.leader not in self.kafka.stale:
            part.isr.remove(broker)

    def with_pods(self, owner: dict[str, Any] = OWNER, crossed: dict[int, int] | None = None) -> None:
        self.pods = SimPods(self.api, self.kafka, crossed=crossed or {})
        self.pods.stopped = self.stopped
        self.pods.create(owner)

    def stopped(self, broker: int) -> None:
        self.starting.discard(broker)
        self.later(self.random.uniform(0.5, 4.0), "pod_gone", broker)
        self.ends_without_warning(broker)

    def ends_without_warning(self, broker: int) -> None:
        if broker in self.kafka.lingering:
            self.later(self.random.uniform(*SESSION), "expires", broker)

    def on_expires(self, broker: int) -> None:
        self.kafka.expire(broker)

    def with_topic_operator(self, *topics: str, **how: Any) -> None:
        """Strimzi's; these topics have a KafkaTopic."""
        self.topic_operator = self.world.with_topic_operator(**how)
        self.world.topic_operator = None
        for topic in topics:
            self.topic_operator.create(topic)
        self.later(60.0, "topic_operator")

    def on_topic_operator(self) -> None:
        """Its timer."""
        self.later(120.0, "topic_operator")
        self._topic_operator_looks(everything=True)

    def on_topic_operator_looks(self) -> None:
        """An informer tells it of a change."""
        self._topic_operator_looks(everything=False)

    def _topic_operator_looks(self, *, everything: bool) -> None:
        assert self.topic_operator is not None
        before = len(self.topic_operator.acted)
        self.topic_operator.look(everything=everything)
        for topic, what in self.topic_operator.acted[before:]:
            # What a person has set for a while is not what the run set.
            if what != MIN_ISR or topic not in self.thinned:
                self.oracle.put_back(topic, what)

    def on_strimzi(self) -> None:
        """Its timer."""
        self.later(self.random.uniform(20, 40), "strimzi")
        self.on_strimzi_looks()

    def on_strimzi_looks(self) -> None:
        """Its reconciles: the annotated Pods are listed once, and restarted one by one for as long as it takes."""
        assert self.pods is not None
        for broker, uid in self.pods.annotated().items():
            self.later(self.random.uniform(1, 15), "strimzi_rolls", broker, uid)

    def on_strimzi_rolls(self, broker: int, uid: str) -> None:
        assert self.pods is not None
        if self.pods.uid(broker) == uid and self.kafka.up >= set(self.kafka.racks) - {broker}:
            self.oracle.rolled(broker, uid)
            self.pods.roll(broker, uid)

    def on_pod_gone(self, broker: int) -> None:
        assert self.pods is not None
        self.pods.gone(broker)
        self.on_pod_waits(broker, self.pods.uid(broker))

    def on_pod_waits(self, broker: int, uid: str) -> None:
        """For its node, as long as that takes no Pods."""
        assert self.pods is not None
        if self.pods.uid(broker) != uid:
            return None
        if self.api.objects[f"{NODES}/node-{broker}"]["spec"].get("unschedulable"):
            return self.later(5.0, "pod_waits", broker, uid)
        self.starting.add(broker)
        recovery = self.random.uniform(40, 120) if broker in self.slow else self.random.uniform(1, 6)
        return self.later(recovery, "pod_up", broker, uid)

    def on_pod_up(self, broker: int, uid: str) -> None:
        """Its log is recovered and it is registered, which is when it is Ready."""
        assert self.pods is not None
        if broker in self.starting and self.pods.uid(broker) == uid:
            if broker in self.kafka.lingering:  # its id is taken until the session of its predecessor is over
                return self.later(1.0, "pod_up", broker, uid)
            self.starting.discard(broker)
            self.kafka.start(broker)
            self.pods.ready(broker)
            self.oracle.back(broker)
        return None

    def on_caught_up(self, tp: TopicPartition, broker: int) -> None:
        self.copying.discard((tp, broker))
        part = self.kafka.partitions.get(tp)
        if part is None or broker not in part.replicas or broker in part.isr or broker not in self.kafka.up:
            return
        if tp in self.oracle.foreign and self.kafka.stale.keys() & set(part.replicas):
            self.withdraw(tp)  # it would never end
            return
        if not self.kafka.follows(broker, tp):
            return
        self.kafka.joins(tp, broker)
        self.oracle.caught_up(tp, broker)
        if self.kafka.completes(part):
            self.oracle.foreign.discard(tp)

    def on_other_disk(self, broker: int, tp: TopicPartition) -> None:
        """A copy between two disks of a broker is done, unless that broker is away, or somebody has cancelled it."""
        self.between.discard((broker, tp))
        if self.kafka.copies(broker, tp):
            self.kafka.replaces(broker, tp)

    def on_produce(self) -> None:
        """Every producer asks for acks=all; a partition below min.insync.replicas acknowledges nothing. Those of a
        broker that leads no more and has not heard of it have never asked for more than its own word."""
        self.oracle.produce()
        for (broker, tp), log in self.kafka.alone.items():
            if self.kafka.led_by(broker, tp):
                self.accept(tp, log, log[-1].offset + 1)
        self.later(2.0, "produce")

    def accept(self, tp: TopicPartition, log: list[LogRecord], offset: int) -> None:
        log.append(LogRecord(tp, offset, int(self.elapsed * 1000), b"k", b"v"))

    # -- people ---------------------------------------------------------------------------------------

    def on_people(self) -> None:
        """Whoever may approves what waits for it, and gives a paused run as much time again."""
        self.later(6.0, "people")
        if not self.willing or self.api_down:
            return
        for run in self.runs():
            status = run.get("status") or {}
            plan, phase = status.get("plan"), status.get("phase")
            if not plan:
                continue
            said = self.oracle.said(run, plan["digest"])
            if phase == "Paused":
                self._configured(plan)
            if (phase == "AwaitingApproval" and not said) or phase == "Paused":
                self.approve(run)

    def _configured(self, plan: dict[str, Any]) -> None:
        """Whoever owns the brokers' configuration does what the plan has asked for."""
        for setting in plan.get("staticSettings", ()):
            for broker in setting["brokers"]:
                self.kafka.files[broker][setting["name"]] = setting["after"]

    def approve(self, run: dict[str, Any], user: str = "alice", decision: str = "Approve") -> None:
        self.oracle.approved(run)
        plan, meta = run["status"]["plan"], run["metadata"]
        spec = {
            "remediationRef": {"name": meta["name"], "uid": meta["uid"]},
            "planDigest": plan["digest"],
            "decision": decision,
            "approver": user,
        }
        self.number += 1
        name = {"name": f"{meta['name']}-{user}-{self.number}", "namespace": "ns"}
        self.world.put("remediationapprovals", {"kind": "RemediationApproval", "metadata": name, "spec": spec})

    def runs(self) -> list[dict[str, Any]]:
        return [o for p, o in self.api.objects.items() if p.startswith(RUNS)]

    def quiet(self) -> bool:
        """Every run there was has ended, or was deleted, and no other one is to come."""
        to_come = not self.oracle.phases or self.kafka.parted or self.elapsed < self.until
        return self.ended() and not to_come

    def beyond_cure(self) -> bool:
        """A partition has nobody in sync but brokers that do not know that one of them leads: only their restart cures
        that, and it takes the last replica in sync. Or one such broker was elected, and another one took records as the
        leader that it still thinks it is, which can be compared with nobody's. Or a broker is gone for good. Or a
        partition has one replica, since a person did not want more, and a run plans nothing as long. That is for a
        person to decide, and a run may wait for it."""
        kafka = self.kafka
        if set(kafka.racks) - kafka.up - self.starting:
            return True
        told = [(r["spec"]["playbook"]["name"], (r.get("status") or {}).get("phase")) for r in self.runs()]
        waiting = {each for each in told if each[1] not in ENDED}
        refused = ("raise-replication-factor", "Aborted") in told
        thin = any(len(p.replicas) == 1 for p in kafka.partitions.values())
        if refused and thin and waiting == {("rolling-restart", "Planning")}:
            return True
        unserved = [(tp, p) for tp, p in kafka.partitions.items() if p.isr and not kafka.served(tp)]
        parted = {tp for broker, tp in kafka.parted if broker in kafka.stale}
        return any(set(p.isr) <= kafka.stale.keys() or (tp in parted and p.leader in kafka.stale) for tp, p in unserved)

    def waits_for_owners(self) -> list[dict[str, Any]]:
        """Runs that wait since somebody took their pause off, who pauses again or rejects them."""
        if not self.oracle.by_people:
            return []
        found = [(run, run.get("status") or {}) for run in self.runs()]
        return [
            run
            for run, status in found
            if any(w["guard"] == "OwnersPaused" for w in status.get("waitingFor", ()))
            or (status.get("phase") == "Paused" and status.get("currentStep") == "pause-owners")
        ]

    def ended(self) -> bool:
        return all((r.get("status") or {}).get("phase") in ENDED for r in self.runs())
