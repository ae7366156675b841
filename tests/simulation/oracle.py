"""What must hold after every event, whatever happens: the project's invariants, said once more and by other means than
the guards say them. Nothing here asks a guard, a detector or the engine.

A write is judged by what was true when its operator last read it, in the same turn: between a read and a write the
world may change, and no operator could know. What was not read, or not answered, permits nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka_medic.clients.ports import BrokerView
from kafka_medic.cluster.snapshot import TopicPartition
from kafka_medic.resources.phases import TERMINAL_PHASES, Phase, may_transition
from tests.simulation.api import SimApi
from tests.simulation.effects import Effects
from tests.simulation.evictions import parallel
from tests.simulation.grounds import PROSE, RUNS, drains
from tests.simulation.kafka import SimKafka

CLUSTER = "/apis/kafkamedic.dev/v1alpha1/namespaces/ns/kafkaclusters/c"

KINDS = {
    "views": "views", "memberships": "views", "reassignments": "moving", "quorum": "voters",
    "registrations": "controller", "ensemble": "ensemble", "broker_configs": "configs", "topic_configs": "configs",
    "groups": "groups",
}  # fmt: skip
PATHS = {
    "/pods": "pods", "/remediationapprovals": "words", "/remediations": "runs", "/c": "rules",
    "/statefulsets/kafka": "rollout", "/subjectaccessreviews": "rights",
}  # fmt: skip


class Oracle(Effects):
    """Sees every request with its answer. `starting`: brokers that are recovering their logs; `foreign`: partitions
    that somebody else is moving; `theirs`: whose order somebody else has changed; `widened`: to which they have added a
    replica. `offsets`: what is committed, as far as anybody's doing explains it; `moved`: by somebody else. `through`:
    when a record of the canary was last read back."""

    def __init__(self, kafka: SimKafka, api: SimApi, starting: set[int]) -> None:
        super().__init__()
        self.kafka, self.api, self.starting = kafka, api, starting
        self.foreign: set[TopicPartition] = set()
        self.theirs: set[TopicPartition] = set()
        self.widened: set[TopicPartition] = set()
        self.plans: dict[str, Any] = {}
        self.words: dict[tuple[str, str], int] = {}
        self.phases: dict[str, str | None] = {}
        self.versions: dict[str, str] = {}
        self.started: dict[str, float] = {}
        self.logs: dict[TopicPartition, dict[int, int]] = {}
        self.acked: dict[TopicPartition, int] = {}
        self.least: dict[TopicPartition, frozenset[int]] = {}
        self.original: dict[tuple[str, str, str], str] = {}
        self.offsets: dict[tuple[str, TopicPartition], int] = {}
        self.moved: set[tuple[str, TopicPartition]] = set()
        self.through: dict[TopicPartition, float] = {}

    def begin(self) -> None:
        """The world is set up: from now on nothing may be lost."""
        self.original = dict(self.kafka.dynamic)
        runs = [run for path, run in self.api.objects.items() if path.startswith(RUNS)]
        self.phases = {run["metadata"]["uid"]: (run.get("status") or {}).get("phase") for run in runs}
        self.offsets = self.committed()
        for tp in self.kafka.partitions:
            self._is_there(tp)

    def _is_there(self, tp: TopicPartition) -> None:
        part = self.kafka.partitions[tp]
        self.logs[tp] = dict.fromkeys(part.isr, part.end)
        self.acked[tp] = part.end
        self.least[tp] = frozenset(part.replicas)

    # -- the world -------------------------------------------------------------------------------------

    def committed(self) -> dict[tuple[str, TopicPartition], int]:
        return {(group, tp): o for group, offsets in self.kafka.committed.items() for tp, o in offsets.items()}

    def min_isr(self, topic: str) -> int:
        return int(self.kafka.dynamic.get(("TOPIC", topic, "min.insync.replicas"), self.kafka.least()))

    def produce(self) -> None:
        for tp, part in self.kafka.partitions.items():
            if (
                not tp.topic.startswith("kafka-medic")
                and part.leader in self.kafka.up
                and len(part.isr) >= self.min_isr(tp.topic)
            ):
                part.end += 1
                self.acked[tp] = part.end
                self.logs[tp] |= dict.fromkeys(part.isr, part.end)

    def caught_up(self, tp: TopicPartition, broker: int) -> None:
        part = self.kafka.partitions[tp]
        self.logs[tp][broker] = self.logs[tp].get(part.leader, 0)

    def withdrawn(self, tp: TopicPartition, before: Sequence[int]) -> None:
        """Somebody else took replicas away again."""
        self.least[tp] = frozenset(before)
        self.foreign.discard(tp)

    def back(self, broker: int) -> None:
        self.by_us.discard(broker)

    # -- people ----------------------------------------------------------------------------------------

    def approved(self, run: dict[str, Any]) -> None:
        """A person has read the plan as it is now."""
        plan = run["status"]["plan"]
        self.plans[plan["digest"]] = {k: v for k, v in plan.items() if k not in PROSE}
        word = run["metadata"]["uid"], plan["digest"]
        self.words[word] = self.words.get(word, 0) + 1

    def said(self, run: dict[str, Any], digest: str) -> bool:
        return (run["metadata"]["uid"], digest) in self.words

    # -- what an operator has read ---------------------------------------------------------------------

    def read(self, operator: Any, name: str, args: tuple[Any, ...], answer: Any, now: float) -> None:
        seen, kafka = operator.seen, self.kafka
        if name in ("get", "list"):  # most of them
            return self._read_object(seen, args[0], answer, now)
        match name:
            case "memberships":
                seen["answered"] = now, frozenset(b for b, a in answer.items() if isinstance(a, BrokerView))
            case "elect_preferred":
                self.effects.append("elect")
            case "groups":
                known = seen.get("groups", (now, {}))[1]
                seen["groups"] = now, known | {g.group: (g.state, dict(g.committed)) for g in answer}
            case "commit_offsets":
                self.effects.append("offsets")
                self.offsets |= {(args[0], tp): c.offset for tp, c in args[1].items() if tp not in answer}
            case "log_bounds":
                told = [a for a in answer.values() if isinstance(a, dict)]
                served = {
                    tp for t in told for tp in t if kafka.partitions[tp].leader == kafka.partitions[tp].replicas[0]
                }
                for unserved in self.unserved.values():
                    unserved.difference_update(served)
            case "create_topic" | "add_partitions":
                for tp in kafka.partitions.keys() - self.least.keys():
                    self._is_there(tp)
            case "append":
                self.effects.append("save")
                tp = TopicPartition(*args[:2])
                self.acked[tp] = kafka.partitions[tp].end
                self.logs[tp] |= dict.fromkeys(kafka.partitions[tp].isr, self.acked[tp])
                saved = self.saved(tp.topic)
                if len(saved) > len(set(saved)) or len(kafka.logs.get(TopicPartition(tp.topic, 1), ())) > 1:
                    self.blame(f"the same was saved twice in {tp.topic}")
            case "describe_cluster" if not kafka.zookeeper:
                seen["recovering"] = now, frozenset(self.starting)
            case "views":
                silent = kafka.up - {b for b, a in answer.items() if isinstance(a, BrokerView)}
                stale = {b for b, a in kafka.stale.items() if b in kafka.up and self._differs(a)}
                seen["views"] = now, self._partitions(), frozenset(kafka.members), silent, stale, frozenset(self.away)
            case "reassignments":
                seen["moving"] = (
                    now,
                    {tp: frozenset(kafka.partitions[tp].replicas) for tp in answer},
                    set(self.foreign),
                )
            case "quorum":
                seen["controller"] = (now, answer.leader)
                seen["voters"] = (now, {v.id for v in answer.voters if v.lag == 0}, len(answer.voters))
            case "registrations":
                seen["controller"] = (now, answer.controller.id)
                seen["recovering"] = now, frozenset(self.starting)
            case "ensemble":
                seen["ensemble"] = (now, sum(v.lag is not None for v in answer.voters), len(answer.voters))
            case "broker_configs":
                seen["configs"] = (now, dict(kafka.dynamic))
                seen["read"] = {b: dict(told) for b, told in kafka.started_with.items()}
            case "create" if args[0].endswith("/subjectaccessreviews"):
                seen["rights"] = (now, frozenset(self.api.approvers))
            case "create" if args[0].endswith("/eviction"):
                self.after_eviction(seen, args)
            case "alter_reassignments":
                self.effects.append("reassign")
            case "alter_configs":
                self.effects.append("configs")
        return None

    def _read_object(self, seen: dict[str, Any], path: str, answer: Any, now: float) -> None:
        if path.endswith("/pods"):
            apart = any("controller-" in p["metadata"]["name"] for p in answer)
            told = {
                int(p["metadata"]["name"].rpartition("-")[2]): (
                    p["metadata"]["uid"], "deletionTimestamp" in p["metadata"],
                    p["status"]["conditions"][0]["status"] == "True",
                )
                for p in answer
            }  # fmt: skip
            # Controllers that are no brokers are listed by themselves.
            others = {n: p for n, p in seen.get("pods", (now, {}))[1].items() if (n in self.kafka.apart) != apart}
            seen["pods"] = now, others | told
            seen["cordoned"] = now, seen.get("cordoned", (now, set()))[1]
        elif "/nodes/" in path:
            if answer["spec"].get("unschedulable"):
                seen["cordoned"][1].add(path)
            else:
                seen["cordoned"][1].discard(path)
        elif "/statefulsets/" in path:
            seen["rollout"] = now, answer["metadata"]["generation"] > answer["status"]["observedGeneration"]
        elif path == CLUSTER:
            seen["rules"] = now, answer["spec"].get("remediation") or {}
        elif path.endswith("/remediationapprovals"):
            seen["words"] = now, [o["spec"] for o in answer]
            seen["rights"] = now, frozenset(self.api.approvers)
        elif path.endswith("/remediations"):
            seen["runs"] = now, {o["metadata"]["name"]: o for o in answer}

    def failed(self, operator: Any, name: str, args: tuple[Any, ...]) -> None:
        """What was asked and not answered is not known any more."""
        kind = KINDS.get(name)
        if kind is None and args and isinstance(args[0], str):
            kind = next((k for end, k in PATHS.items() if args[0].endswith(end)), None)
        operator.seen.pop(kind, None)
        if name == "quorum":
            operator.seen.pop("controller", None)

    def _partitions(self) -> dict[TopicPartition, tuple[frozenset[int], frozenset[int], int, int]]:
        return {
            tp: (frozenset(p.replicas), frozenset(p.isr), p.leader, self.min_isr(tp.topic))
            for tp, p in self.kafka.partitions.items()
        }

    def _differs(self, told: Any) -> bool:
        """Whether a view that was true once tells other members, leaders or epochs than there are now."""
        now = self.kafka.view()
        if told.members != now.members:
            return True
        columns = ["topic", "partition", "leader", "leaderEpoch"]
        return told.states is not now.states and not told.states.select(columns).equals(now.states.select(columns))

    # -- after each event ------------------------------------------------------------------------------

    def after_event(self, now: float) -> None:
        if len(self.by_us) > 1:
            self._several()
        for broker in list(self.away):
            if broker in self.kafka.nodes and all(
                broker in p.isr for p in self.kafka.partitions.values() if broker in p.replicas
            ):
                self.away.discard(broker)
                self.well[broker] = now
        for tp, part in self.kafka.partitions.items():
            if not self.least[tp] <= set(part.replicas):
                self.blame(f"{tp} lost a replica: {part.replicas}")
            if not part.adding and tp not in self.foreign and len(part.replicas) > len(self.least[tp]):
                self.least[tp] = frozenset(part.replicas)
            if part.leader < 0 and set(part.isr) <= self.by_us and not self.could_spare(tp, part.isr):
                self.blame(f"{tp} has no leader, since we took down broker {part.isr}")
            if part.leader >= 0 and (part.leader not in part.isr or self.logs[tp].get(part.leader, 0) < self.acked[tp]):
                self.blame(f"{tp}: broker {part.leader} leads and does not hold every acknowledged record")
        for path, run in list(self.api.objects.items()):
            if path.startswith(RUNS) and self.versions.get(path) != run["metadata"]["resourceVersion"]:
                self.versions[path] = run["metadata"]["resourceVersion"]
                self._run(run, now)
        if self.kafka.committed and self.offsets != self.committed():
            self.blame(f"an offset changed by itself: {self.offsets.items() ^ self.committed().items()}")
        if self.throttled() and not any(
            (r.get("status") or {}).get("restoreOwed") and r["metadata"].get("finalizers")
            for p, r in self.api.objects.items()
            if p.startswith(RUNS)
        ):
            self.blame(f"a throttle is left behind: {self.throttled()}")

    def _several(self) -> None:
        """More than one broker down by us: as many as was asked for, and never two that a partition cannot spare."""
        runs = [r for path, r in self.api.objects.items() if path.startswith(RUNS)]
        if len(self.by_us) > max(map(parallel, runs), default=1):
            self.blame(f"brokers {sorted(self.by_us)} are down by us")
        for tp, part in self.kafka.partitions.items():
            ours = self.by_us & set(part.replicas)
            if len(ours) > 1 and len(part.replicas) - len(ours) < max(self.min_isr(tp.topic), 1):
                self.blame(f"brokers {sorted(ours)} are down by us, and {tp} cannot spare both")

    def throttled(self) -> set[Any]:
        return {kv for kv in self.kafka.dynamic.items() ^ self.original.items() if "throttled" in kv[0][2]}

    def _run(self, run: dict[str, Any], now: float) -> None:
        status, uid = run.get("status") or {}, run["metadata"]["uid"]
        after, before = status.get("phase"), self.phases.get(uid)
        self.phases[uid] = after
        if after is None:
            return
        if not may_transition(None if before is None else Phase(before), Phase(after)):
            self.blame(f"{run['metadata']['name']}: {before} -> {after}")
        if not status.get("message"):
            self.blame(f"{run['metadata']['name']} is {after} and does not say why")
        ending = any(e["id"] == "give-up" for e in status.get("journal") or ())
        if after == "Blocked" and not status.get("waitingFor") and not ending:
            self.blame(f"{run['metadata']['name']} is Blocked and names no guard: {status['message']}")
        if after == "Running" and before == "Approved":
            self._begins(run, now)
        if after in TERMINAL_PHASES and before not in TERMINAL_PHASES:
            if self.throttled() or status.get("restoreOwed"):
                self.blame(f"{after} and a throttle is left: {self.throttled()}")
            for tp, drain in drains(status.get("plan") or {}):
                part = self.kafka.partitions[tp]
                left = part.replicas == drain["replicas"] != drain["replicasBefore"]
                if left and tp not in self.theirs | self.foreign:
                    self.blame(f"{after} and {tp} is left in the order {part.replicas}")
                order = [b for b in part.replicas if b in drain["replicasBefore"] or tp not in self.widened]
                if after == "Succeeded" and order != drain["replicasBefore"] and tp not in self.theirs:
                    self.blame(f"Succeeded and {tp} has the order {part.replicas}")
            for c in (status.get("plan") or {}).get("offsets", ()):
                key = c["group"], TopicPartition(c["topic"], c["partition"])
                if after == "Succeeded" and self.offsets[key] != c["after"] and key not in self.moved:
                    self.blame(f"Succeeded and {key} is at {self.offsets[key]}")
            if after == "Succeeded" and (wrong := self.misread(status.get("plan") or {})):
                self.blame(f"Succeeded and broker {wrong} has not read what it was to read")
            made_up_for = {id_ for (of, _), ids in self.wasted.items() if of == uid for id_ in ids}
            journal = status.get("journal") or ()
            if after == "Succeeded" and any(e["state"] != "Done" and e["id"] not in made_up_for for e in journal):
                self.blame("Succeeded with an effect that was never seen done")

    def _begins(self, run: dict[str, Any], now: float) -> None:
        """limits.cooldown and limits.perDay: how often runs begin."""
        rules = self.api.objects[CLUSTER]["spec"].get("remediation") or {}
        limits = rules.get("limits") or {}
        others = [
            r["status"] for p, r in self.api.objects.items() if p.startswith(RUNS) and r is not run and "status" in r
        ]
        if limits.get("cooldown", "0s") != "0s" and any(s.get("finishedAt") and s.get("startedAt") for s in others):
            self.blame("a run begins within the cooldown of the one before")
        if sum("startedAt" in s for s in others) >= limits.get("perDay", 1000):
            self.blame("more runs begin in a day than limits.perDay")
