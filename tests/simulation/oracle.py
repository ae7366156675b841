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
from tests.simulation.kafka import SimKafka

RUNS = "/apis/kafkamedic.dev/v1alpha1/namespaces/ns/remediations/"
CLUSTER = "/apis/kafkamedic.dev/v1alpha1/namespaces/ns/kafkaclusters/c"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/kafka-medic-c"
FRESH = 30.0
"""Seconds that a read may be old when a write rests on it."""
ACTING = ("Running", "Verifying", "Paused", "Blocked")
PROSE = ("proposedAt", "expiresAt", "summary")
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")

KINDS = {
    "views": "views", "memberships": "views", "reassignments": "moving", "quorum": "voters",
    "registrations": "controller", "ensemble": "ensemble", "broker_configs": "configs", "topic_configs": "configs",
}  # fmt: skip
PATHS = {
    "/pods": "pods", "/remediationapprovals": "words", "/remediations": "runs", "/c": "rules",
    "/statefulsets/kafka": "rollout", "/subjectaccessreviews": "rights",
}  # fmt: skip


class Violated(BaseException):
    """An invariant does not hold. No `except Exception` of the operator's may swallow it."""


class Oracle:
    """Sees every request with its answer. `foreign`: partitions that somebody else is moving; `by_us`: brokers that our
    eviction took down and that are not back yet."""

    def __init__(self, kafka: SimKafka, api: SimApi) -> None:
        self.kafka, self.api = kafka, api
        self.foreign: set[TopicPartition] = set()
        self.by_us: set[int] = set()
        self.restarted: set[tuple[str, int]] = set()
        self.effects: list[str] = []
        self.plans: dict[str, Any] = {}
        self.words: dict[tuple[str, str], int] = {}
        self.phases: dict[str, str | None] = {}
        self.versions: dict[str, str] = {}
        self.started: dict[str, float] = {}
        self.logs: dict[TopicPartition, dict[int, int]] = {}
        self.acked: dict[TopicPartition, int] = {}
        self.least: dict[TopicPartition, frozenset[int]] = {}
        self.original: dict[tuple[str, str, str], str] = {}

    def begin(self) -> None:
        """The world is set up: from now on nothing may be lost."""
        self.original = dict(self.kafka.dynamic)
        runs = [run for path, run in self.api.objects.items() if path.startswith(RUNS)]
        self.phases = {run["metadata"]["uid"]: (run.get("status") or {}).get("phase") for run in runs}
        for tp, part in self.kafka.partitions.items():
            self.logs[tp] = dict.fromkeys(part.replicas, part.end)
            self.acked[tp] = part.end
            self.least[tp] = frozenset(part.replicas)

    def blame(self, what: str) -> None:
        raise Violated(what)

    # -- the world -------------------------------------------------------------------------------------

    def min_isr(self, topic: str) -> int:
        return int(self.kafka.dynamic.get(("TOPIC", topic, "min.insync.replicas"), "1"))

    def produce(self) -> None:
        for tp, part in self.kafka.partitions.items():
            if part.leader in self.kafka.up and len(part.isr) >= self.min_isr(tp.topic):
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
        match name:
            case "memberships":
                seen["answered"] = now, frozenset(b for b, a in answer.items() if isinstance(a, BrokerView))
            case "elect_preferred":
                self.effects.append("elect")
            case "views":
                silent = kafka.up - {b for b, a in answer.items() if isinstance(a, BrokerView)}
                stale = {b for b, a in kafka.stale.items() if b in kafka.up and self._differs(a)}
                seen["views"] = (now, self._partitions(), frozenset(kafka.up), silent, stale)
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
            case "ensemble":
                seen["ensemble"] = (now, sum(v.lag is not None for v in answer.voters), len(answer.voters))
            case "broker_configs":
                seen["configs"] = (now, dict(kafka.dynamic))
            case "list" | "get":
                self._read_object(seen, args[0], answer, now)
            case "create" if args[0].endswith("/subjectaccessreviews"):
                seen["rights"] = (now, frozenset(self.api.approvers))
            case "create" if args[0].endswith("/eviction"):
                self._evicted(seen, args)
            case "alter_reassignments":
                self.effects.append("reassign")
            case "alter_configs":
                self.effects.append("configs")

    def _read_object(self, seen: dict[str, Any], path: str, answer: Any, now: float) -> None:
        if path.endswith("/pods"):
            seen["pods"] = now, {
                int(p["metadata"]["name"].rpartition("-")[2]): (
                    p["metadata"]["uid"], "deletionTimestamp" in p["metadata"],
                    p["status"]["conditions"][0]["status"] == "True",
                )
                for p in answer
            }  # fmt: skip
            seen["cordoned"] = now, set()
        elif "/nodes/" in path:
            if answer["spec"].get("unschedulable"):
                seen["cordoned"][1].add(path)
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

    # -- before each effect ----------------------------------------------------------------------------

    def before_effect(self, operator: Any, name: str, args: tuple[Any, ...], now: float) -> None:
        # A pause can come between the renewal and this request, but none between this and what is then sent.
        holder = (self.api.objects.get(LEASE) or {"spec": {}})["spec"].get("holderIdentity")
        if holder != operator.name:
            self.blame(f"{name} by {operator.name} while the Lease is {holder}'s")
        match name:
            case "create":
                self._before_eviction(operator.seen, args[1], now)
            case "alter_reassignments":
                self._before_reassignment(operator.seen, args[0], now)
            case "alter_configs":
                self._before_configs(operator.seen, args[0], now)
            case "elect_preferred":
                self._before_election(operator.seen, args[0], now)
            case _:
                self.blame(f"{name}: no step of these playbooks writes that")

    def _known(self, seen: dict[str, Any], kind: str, now: float) -> tuple[Any, ...]:
        found: tuple[Any, ...] | None = seen.get(kind)
        if found is None:
            self.blame(f"written without knowing {kind}: not read in this turn, or not answered")
        assert found is not None
        if now - found[0] > FRESH:
            self.blame(f"written on {kind} as of {now - found[0]:.0f} s ago")
        return found[1:]

    def _run_of(self, seen: dict[str, Any], kind: str, uid: str | None = None) -> dict[str, Any]:
        """The run that has written down what it is about to do: as it is, or, deleted since, as it was last read."""
        present = [run for path, run in self.api.objects.items() if path.startswith(RUNS)]
        for run in (*present, *seen.get("runs", (0, {}))[1].values()):
            status = run.get("status") or {}
            if status.get("phase") in ACTING:
                for entry in status.get("journal") or ():
                    if entry["kind"] == kind and uid in (None, entry.get("targetUid")):
                        return run
        self.blame(f"{kind} {uid or ''} without an intent in any journal")
        raise AssertionError

    def _permitted(self, run: dict[str, Any], seen: dict[str, Any], now: float) -> dict[str, Any]:
        """Somebody who may has approved exactly this plan, and every rule of the KafkaCluster permits it. The plan."""
        status, uid = run["status"], run["metadata"]["uid"]
        plan: dict[str, Any] = status["plan"]
        digest = plan["digest"]
        (words,), (rights,) = self._known(seen, "words", now), self._known(seen, "rights", now)
        exact = [w for w in words if (w["remediationRef"]["uid"], w["planDigest"]) == (uid, digest)]
        good = {(w["approver"], w["decision"]) for w in exact if w["approver"] in rights}
        if not any(d == "Approve" and who != run["spec"].get("requestedBy") for who, d in good):
            self.blame(f"written without a live approval of {digest}")
        if any(d == "Reject" for _, d in good):
            self.blame("written though it was rejected")
        if self.plans.get(digest) != {k: v for k, v in plan.items() if k not in PROSE}:
            self.blame("the plan is not the one that was read and approved")
        (rules,) = self._known(seen, "rules", now)
        if rules.get("paused"):
            self.blame("written while remediation is paused")
        if rules.get("windows"):
            self.blame("written outside every window")
        (runs,) = self._known(seen, "runs", now)
        others = {n: o.get("status") or {} for n, o in runs.items() if n != run["metadata"]["name"]}
        if acting := [n for n, s in others.items() if s.get("phase") in ACTING]:
            self.blame(f"written while {acting} acts as well")
        return plan

    def _before_eviction(self, seen: dict[str, Any], body: dict[str, Any], now: float) -> None:
        uid, pod = body["deleteOptions"]["preconditions"]["uid"], body["metadata"]["name"]
        broker = int(pod.rpartition("-")[2])
        run = self._run_of(seen, "RestartPod", uid)
        plan = self._permitted(run, seen, now)
        if (broker, pod, uid) not in [(r["broker"], r["pod"], r["podUid"]) for r in plan["restarts"]]:
            self.blame(f"Pod {pod} with uid {uid} is not one that was approved")
        left = [r["broker"] for r in plan["restarts"] if (run["metadata"]["uid"], r["broker"]) not in self.restarted]
        if broker not in left:
            self.blame(f"broker {broker} was restarted by this run already")
        if self.by_us - {broker}:
            self.blame(f"broker {broker} while {sorted(self.by_us)} is down by us")
        partitions, up, silent, stale = self._known(seen, "views", now)
        if silent - {broker}:  # what does not answer itself may be what its restart is to cure
            self.blame(f"broker {sorted(silent)} did not tell its view")
        if stale:
            self.blame(f"broker {sorted(stale)} told another story")
        if set(self.kafka.racks) - up - {broker}:
            self.blame(f"broker {broker} while {sorted(set(self.kafka.racks) - up)} is down")
        for tp, (replicas, isr, _, least) in partitions.items():
            if broker in replicas and (len(isr - {broker}) < max(least, 1) or len(replicas) <= least):
                self.blame(f"broker {broker} takes {tp} below min.insync.replicas {least}: ISR {sorted(isr)}")
            if replicas - isr - {broker}:
                self.blame(f"broker {broker} while {sorted(replicas - isr)} is out of the ISR of {tp}")
        moving, _ = self._known(seen, "moving", now)
        if moving:
            self.blame(f"broker {broker} while {sorted(moving)} are being reassigned")
        (controller,) = self._known(seen, "controller", now)
        if controller == broker and len(left) > 1:
            self.blame(f"broker {broker} is the active controller and {left} are left")
        if "voters" in seen:
            good, total = self._known(seen, "voters", now)
            if (len(good - {broker}) + (broker != controller and controller not in good)) * 2 <= total:
                self.blame(f"without broker {broker} the quorum has {sorted(good - {broker})} of {total} voters")
        else:
            serving, total = self._known(seen, "ensemble", now)
            if serving * 2 <= total:
                self.blame("the ZooKeeper ensemble has no majority")
        self._before_pod(seen, broker, uid, now)

    def _before_pod(self, seen: dict[str, Any], broker: int, uid: str, now: float) -> None:
        (pods,), (cordoned,) = self._known(seen, "pods", now), self._known(seen, "cordoned", now)
        if pods.get(broker, ("", True, False))[:2] != (uid, False):
            self.blame(f"Pod of broker {broker} was seen as {pods.get(broker)}, and {uid} is evicted")
        if any(deleting or not ready for b, (_, deleting, ready) in pods.items() if b != broker):
            self.blame(f"broker {broker} while another Pod is not Ready")
        if cordoned:
            self.blame(f"broker {broker} while {sorted(cordoned)} is cordoned")
        if "rollout" in seen and self._known(seen, "rollout", now)[0]:
            self.blame("evicted while a StatefulSet rolls out")

    def _evicted(self, seen: dict[str, Any], args: tuple[Any, ...]) -> None:
        uid = args[1]["deleteOptions"]["preconditions"]["uid"]
        broker = int(args[1]["metadata"]["name"].rpartition("-")[2])
        run = self._run_of(seen, "RestartPod", uid)
        self.effects.append(f"evict {broker}")
        key = run["metadata"]["uid"], broker
        if key in self.restarted:
            self.blame(f"broker {broker} was evicted twice by one run")
        self.restarted.add(key)
        if broker not in self.kafka.up:
            self.by_us.add(broker)

    def _before_reassignment(self, seen: dict[str, Any], targets: Any, now: float) -> None:
        run = self._run_of(seen, "Reassign")
        if all(t is None for t in targets.values()):
            if theirs := set(targets) & self._known(seen, "moving", now)[1]:
                self.blame(f"cancels somebody else's reassignment of {sorted(theirs)}")
            if not any(e["id"] == "give-up" for e in run["status"]["journal"]):
                self.blame("cancels though the run goes on")
            return
        plan = self._permitted(run, seen, now)
        planned = {TopicPartition(c["topic"], c["partition"]): c for c in plan["changes"]}
        partitions, up, silent, _ = self._known(seen, "views", now)
        moving, foreign = self._known(seen, "moving", now)
        if foreign:
            self.blame(f"reassigns while somebody else moves {sorted(foreign)}")
        if silent or set(self.kafka.racks) - up:
            self.blame("reassigns while a broker is down or silent")
        if len(up) < (plan.get("replicationFactor") or 1):
            self.blame("reassigns with fewer live brokers than the factor")
        for tp, replicas in targets.items():
            if tp not in planned or list(replicas) != planned[tp]["replicas"]:
                self.blame(f"{tp} to {replicas} is not in the plan")
            now_on, _, leader, _ = partitions[tp]
            if not set(replicas) >= now_on:
                self.blame(f"{tp} would lose {sorted(now_on - set(replicas))}")
            if sorted(now_on) != sorted(planned[tp]["replicasBefore"]):
                self.blame(f"{tp} is on {sorted(now_on)}, which is not where the plan found it")
            if leader not in up:
                self.blame(f"{tp} has no live leader to copy from")
        if all(moving.get(tp) == set(replicas) for tp, replicas in targets.items()):
            self.blame("reassigns what it has seen to be reassigned so already")
        rate = plan.get("throttleBytesPerSecond")
        brokers = {b for c in plan["changes"] for b in c["replicas"]}
        (configs,) = self._known(seen, "configs", now)
        if rate and any(("BROKER", str(b), name) not in configs for b in brokers for name in RATES):
            self.blame("reassigns without a throttle")

    def _before_election(self, seen: dict[str, Any], wanted: Sequence[TopicPartition], now: float) -> None:
        plan = self._permitted(self._run_of(seen, "ElectPreferred"), seen, now)
        planned = {(e["topic"], p): e["broker"] for e in plan["elections"] for p in e["partitions"]}
        partitions, up, _, _ = self._known(seen, "views", now)
        (answered,) = self._known(seen, "answered", now)
        moving, _ = self._known(seen, "moving", now)
        behind = {b for replicas, isr, _, _ in partitions.values() for b in replicas - isr}
        for tp in wanted:
            broker = planned.get(tp)
            if broker is None:
                self.blame(f"the election of {tp} is not in the plan")
            if broker not in partitions[tp][1] or broker not in up or broker not in answered:
                self.blame(f"elects broker {broker} for {tp}, which is not in sync or does not answer")
            if broker in behind:
                self.blame(f"elects broker {broker} while it catches up elsewhere")
            if tp in moving:
                self.blame(f"elects a leader of {tp}, which is being reassigned")

    def _before_configs(self, seen: dict[str, Any], changes: Any, now: float) -> None:
        wanted = {(c.resource_type, c.resource, c.name): c.value for c in changes}
        run = self._run_of(seen, "ChangeSettings")
        if all(self.original.get(key) == value for key, value in wanted.items()):
            return  # puts back what was there
        plan = self._permitted(run, seen, now)
        (configs,) = self._known(seen, "configs", now)
        if all(configs.get(key) == value for key, value in wanted.items()):
            self.blame("sets what it has seen to be so already")
        floors = {(c["resourceType"], c["resourceName"], c["name"]): c["after"] for c in plan.get("configChanges", ())}
        for key, value in wanted.items():
            if key[2] == "min.insync.replicas":
                if floors.get(key) != value:
                    self.blame(f"{key} to {value} is not in the plan")
                partitions, up, _, _ = self._known(seen, "views", now)
                if any(len(isr) <= int(value) for tp, (_, isr, _, _) in partitions.items() if tp.topic == key[1]):
                    self.blame(f"{key} to {value} with no replica to spare")
                if set(self.kafka.racks) - up:
                    self.blame(f"{key} to {value} while a broker is down")
            elif key[2] in RATES and value != str(plan["throttleBytesPerSecond"]):
                self.blame(f"{key} to {value} is not in the plan")
            elif "throttled" not in key[2]:
                self.blame(f"{key} is not ours to set")

    # -- after each event ------------------------------------------------------------------------------

    def after_event(self, now: float) -> None:
        if len(self.by_us) > 1:
            self.blame(f"brokers {sorted(self.by_us)} are down by us")
        for tp, part in self.kafka.partitions.items():
            if not self.least[tp] <= set(part.replicas):
                self.blame(f"{tp} lost a replica: {part.replicas}")
            if not part.adding and tp not in self.foreign and len(part.replicas) > len(self.least[tp]):
                self.least[tp] = frozenset(part.replicas)
            if part.leader >= 0 and (part.leader not in part.isr or self.logs[tp].get(part.leader, 0) < self.acked[tp]):
                self.blame(f"{tp}: broker {part.leader} leads and does not hold every acknowledged record")
        for path, run in list(self.api.objects.items()):
            if path.startswith(RUNS) and self.versions.get(path) != run["metadata"]["resourceVersion"]:
                self.versions[path] = run["metadata"]["resourceVersion"]
                self._run(run, now)
        if self.throttled() and not any(
            (r.get("status") or {}).get("restoreOwed") and r["metadata"].get("finalizers")
            for p, r in self.api.objects.items()
            if p.startswith(RUNS)
        ):
            self.blame(f"a throttle is left behind: {self.throttled()}")

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
            if after == "Succeeded" and any(e["state"] != "Done" for e in status.get("journal") or ()):
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
