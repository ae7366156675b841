"""What has to be true before each effect of an operator, by what it read last in that turn; a part of the oracle."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from kafka_medic.cluster.groups import Committed
from kafka_medic.cluster.snapshot import TopicPartition
from tests.simulation.api import SimApi
from tests.simulation.kafka import SimKafka

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
RUNS = "/apis/kafkamedic.dev/v1alpha1/namespaces/ns/remediations/"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/kafka-medic-c"
FRESH = 30.0
"""Seconds that a read may be old when a write rests on it."""
ACTING = ("Running", "Verifying", "Paused", "Blocked")
PROSE = ("proposedAt", "expiresAt", "summary")
CANARY = "kafka-medic-canary"
FACTORS = ("default.replication.factor", "offsets.topic.replication.factor")
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


class Violated(BaseException):
    """An invariant does not hold. No `except Exception` of the operator's may swallow it."""


def parallel(run: dict[str, Any]) -> int:
    """How many brokers a run may have away at once."""
    return int(run["spec"].get("parameters", {}).get("maxParallel", "1"))


def drains(plan: dict[str, Any]) -> list[tuple[TopicPartition, dict[str, Any]]]:
    """What is led elsewhere while its broker is restarted, by partition."""
    return [(TopicPartition(d["topic"], p), d) for d in plan.get("drains", ()) for p in d["partitions"]]


def committed_of(change: dict[str, Any], when: str) -> Committed:
    """What a plan says was committed `before`, or is to be `after`."""
    return Committed(change[when], change.get(f"{when}Epoch"), change.get(f"{when}Metadata", ""))


class Effects:
    """`by_us`: brokers that our eviction took down and that are not up yet; `away`: nor back in every ISR. `restarted`:
    by run. `rescues`: when each run began to save records. `unserved`: elected by a run, and not seen to serve since.
    `well`: when a broker was back in every ISR. `wasted`: by run and broker, the restarts that were for nothing and
    have been made up for; `evicted`: likewise, the Pods."""

    kafka: SimKafka
    api: SimApi
    plans: dict[str, Any]
    original: dict[tuple[str, str, str], str]
    theirs: set[TopicPartition]
    through: dict[TopicPartition, float]

    def __init__(self) -> None:
        self.by_us: set[int] = set()
        self.away: set[int] = set()
        self.restarted: set[tuple[str, int]] = set()
        self.effects: list[str] = []
        self.rescues: dict[str, float] = {}
        self.offsets_set: set[tuple[str, str, TopicPartition]] = set()
        self.unserved: dict[str, set[TopicPartition]] = {}
        self.well: dict[int, float] = {}
        self.wasted: dict[tuple[str, int], set[str]] = {}
        self.evicted: dict[tuple[str, int], set[str]] = {}

    def blame(self, what: str) -> None:
        raise Violated(what)

    def before_effect(self, operator: Any, name: str, args: tuple[Any, ...], now: float) -> None:
        # A pause can come between the renewal and this request, but none between this and what is then sent.
        holder = (self.api.objects.get(LEASE) or {"spec": {}})["spec"].get("holderIdentity")
        if holder != operator.name:
            self.blame(f"{name} by {operator.name} while the Lease is {holder}'s")
        match name:
            case _ if self._of_canary(name, args):
                self._before_canary(operator.seen, now)
            case "create":
                self._before_eviction(operator.seen, args[1], now)
            case "alter_reassignments":
                self._before_reassignment(operator.seen, args[0], now)
            case "alter_configs":
                self._before_configs(operator.seen, args[0], now)
            case "elect_preferred":
                self._before_election(operator.seen, args[0], now)
            case "create_topic":
                self._before_rescue(operator.seen, args[0].name, now)
            case "append":
                self._saving(operator.seen, args[0])
            case "commit_offsets":
                self._before_offsets(operator.seen, *args, now)
            case _:
                self.blame(f"{name}: no step of these playbooks writes that")

    @staticmethod
    def _of_canary(name: str, args: tuple[Any, ...]) -> bool:
        """Whether it concerns the canary's own topic and no other."""
        match name:
            case "create_topic":
                return bool(args[0].name == CANARY)
            case "add_partitions":
                return bool(args[0] == CANARY)
            case "alter_reassignments" | "elect_preferred":
                return {tp.topic for tp in args[0]} == {CANARY}
        return False

    def _before_canary(self, seen: dict[str, Any], now: float) -> None:
        """A KafkaCluster that asks for a canary permits what its topic needs, while nothing else goes on."""
        (cluster,) = (o for path, o in self.api.objects.items() if path.endswith("/kafkaclusters/c"))
        if not cluster["spec"].get("probes", {}).get("canary", {}).get("enabled"):
            self.blame("writes to the canary's topic, and nobody asked for a canary")
        (runs,) = self._known(seen, "runs", now)
        if acting := [n for n, o in runs.items() if (o.get("status") or {}).get("phase") in ACTING]:
            self.blame(f"changes the canary's topic while {acting} acts")
        _, up, *_ = self._known(seen, "views", now)
        (moving, _) = self._known(seen, "moving", now)
        if set(self.kafka.racks) - up or moving:
            self.blame("changes the canary's topic while a broker is down or partitions move")

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

    def misread(self, plan: dict[str, Any], seen: dict[str, Any] | None = None) -> list[int]:
        """Brokers that have not read what the plan says they are to read; by what was `seen`, or as it is."""
        if seen is not None and plan.get("staticSettings") and "configs" not in seen:
            self.blame("restarts without knowing what brokers have read")
        read = self.kafka.started_with if seen is None else seen.get("read", {})
        return [
            b
            for setting in plan.get("staticSettings", ())
            for b in setting["brokers"]
            if int(read[b][setting["name"]]) < int(setting["after"])
        ]

    def _again(self, seen: dict[str, Any], run: dict[str, Any], broker: int, now: float) -> bool:
        """It came back as it was, and somebody who may has approved the plan since that was seen."""
        mine = [e for e in run["status"]["journal"] if re.search(rf"/restart-{broker}(-again-\d+)?$", e["id"])]
        void = [e for e in mine if e["state"] == "Void"]
        if not void or (run["metadata"]["uid"], broker) not in self.restarted:
            return False
        if len(self.wasted.setdefault((run["metadata"]["uid"], broker), set()) | {void[-1]["id"]}) != len(void):
            self.blame(f"broker {broker} is restarted twice on one word")
        self.wasted[run["metadata"]["uid"], broker].add(void[-1]["id"])
        if broker not in self.misread(run["status"]["plan"], seen):
            self.blame(f"broker {broker} is restarted again, and has read what it was to read")
        seen_so = datetime.fromisoformat(void[-1]["doneAt"]).replace(microsecond=0)
        (words,) = self._known(seen, "words", now)
        said = [
            w for w in words
            if w["planDigest"] == run["status"]["plan"]["digest"] and w["decision"] == "Approve"
        ]  # fmt: skip
        later = [
            o for path, o in self.api.objects.items()
            if "/remediationapprovals/" in path and o["spec"] in said
            and datetime.fromisoformat(o["metadata"]["creationTimestamp"]) >= seen_so
        ]  # fmt: skip
        if not later:
            self.blame(f"broker {broker} is restarted again, and nobody has said so since it came back as it was")
        return True

    @staticmethod
    def _begun_long_ago(run: dict[str, Any], broker: int, now: float) -> bool:
        """And never sent, or sent away what it led: nobody else is begun before it is back."""
        if any(
            e["id"].endswith((f"/order-away-{broker}", f"/elect-away-{broker}-0"))
            or f"/restart-{broker}-again-" in e["id"]
            for e in run["status"]["journal"]
        ):
            return True
        begun = [e for e in run["status"].get("journal", []) if e["state"] == "Intended"]
        mine = [e for e in begun if e["id"].endswith(f"/restart-{broker}")]
        at = START + timedelta(seconds=now)
        return begun == mine and any(at - datetime.fromisoformat(e["intendedAt"]) > timedelta(minutes=1) for e in mine)

    def _before_eviction(self, seen: dict[str, Any], body: dict[str, Any], now: float) -> None:
        uid, pod = body["deleteOptions"]["preconditions"]["uid"], body["metadata"]["name"]
        broker = int(pod.rpartition("-")[2])
        run = self._run_of(seen, "RestartPod", uid)
        plan = self._permitted(run, seen, now)
        left = [r["broker"] for r in plan["restarts"] if (run["metadata"]["uid"], r["broker"]) not in self.restarted]
        if self._again(seen, run, broker, now):
            left.append(broker)
        elif (broker, pod, uid) not in [(r["broker"], r["pod"], r["podUid"]) for r in plan["restarts"]]:
            self.blame(f"Pod {pod} with uid {uid} is not one that was approved")
        if broker not in left:
            self.blame(f"broker {broker} was restarted by this run already")
        for other in set(self.misread(plan, seen)) - set(left) - {broker}:
            self.blame(f"broker {broker} though {other} has come back with its old configuration")
        others = self.by_us - {broker}
        if len(others) >= parallel(run):
            self.blame(f"broker {broker} while {sorted(others)} is down by us")
        partitions, up, silent, stale, away = self._known(seen, "views", now)
        # Those that this run has away itself count as gone, whatever the metadata says, and nobody else may be away.
        ours = {broker} | (others | away if parallel(run) > 1 else set())
        (recovering,) = self._known(seen, "recovering", now)
        if broker in recovering and broker not in self.kafka.apart:  # whose log is small, and whom no quorum needs
            self.blame(f"broker {broker} while it recovers its log")
        if silent - ours:  # what does not answer itself may be what its restart is to cure
            self.blame(f"broker {sorted(silent)} did not tell its view")
        cured = {r["broker"] for r in plan["restarts"] if r.get("stale")} & set(left)
        if stale - ours and not {broker, *stale} <= cured:
            self.blame(f"broker {sorted(stale)} told another story")
        if broker in stale and broker not in cured:
            self.blame(f"broker {broker} told another story, and nobody approved to restart it for that")
        if down := set(self.kafka.racks) - up - ours:
            self.blame(f"broker {broker} while {sorted(down)} is down")
        for tp, (replicas, isr, _, least) in partitions.items():
            if broker in replicas and (len(isr - ours) < max(least, 1) or len(replicas) <= least):
                self.blame(f"broker {broker} takes {tp} below min.insync.replicas {least}: ISR {sorted(isr)}")
            if replicas - isr - ours:
                self.blame(f"broker {broker} while {sorted(replicas - isr)} is out of the ISR of {tp}")
        moving, _ = self._known(seen, "moving", now)
        if moving:
            self.blame(f"broker {broker} while {sorted(moving)} are being reassigned")
        (controller,) = self._known(seen, "controller", now)
        left = [b for b in left if (b in self.kafka.apart) == (broker in self.kafka.apart)]
        if controller == broker and (len(left) > 1 or len(ours) > 1) and not self._begun_long_ago(run, broker, now):
            self.blame(f"broker {broker} is the active controller and {left} are left")
        if "voters" in seen:
            good, total = self._known(seen, "voters", now)
            good = good | {controller}  # the others' lag is measured against it
            if len(good - ours) * 2 <= total:
                self.blame(f"without broker {sorted(ours)} the quorum has {sorted(good - ours)} of {total} voters")
        else:
            serving, total = self._known(seen, "ensemble", now)
            if serving * 2 <= total:
                self.blame("the ZooKeeper ensemble has no majority")
        if kept := [tp for tp, d in drains(plan) if d["broker"] == broker and partitions[tp][2] == broker]:
            self.blame(f"broker {broker} while it leads {kept}, which was to be moved off it first")
        earlier = {b for of, b in self.restarted if of == run["metadata"]["uid"]} - ours
        for tp, part in self.kafka.partitions.items():
            if tp.topic == CANARY:
                for b in earlier & set(part.replicas):
                    if self.through.get(tp, -1.0) < self.well.get(b, 0.0):
                        self.blame(f"broker {broker} before a record of the canary went through {tp} of broker {b}")
        self._before_pod(seen, broker, uid, ours, now)
        self._before_loss(seen, run, broker)

    def _before_loss(self, seen: dict[str, Any], run: dict[str, Any], broker: int) -> None:
        """What only this broker's log holds, and its return truncates, is saved: whatever was there by the last look at
        the cluster, or, of partitions that the plan says are saved, by the time when that began."""
        plan, looked = run["status"]["plan"], seen["views"][0]
        planned = {TopicPartition(r["topic"], r["partition"]) for r in plan.get("rescues", ()) if r["broker"] == broker}
        began = self.rescues.get(run["metadata"]["uid"], looked)
        saved = set(self._saved(plan.get("rescueTopic") or ""))
        for (holder, tp), log in self.kafka.alone.items():
            by = began if tp in planned else looked
            lost = [
                r.offset
                for r in log
                if r.timestamp_ms <= by * 1000
                and (tp.topic.encode(), b"%d" % tp.partition, b"%d" % r.offset) not in saved
            ]
            if holder == broker and lost:
                self.blame(f"offsets {lost} of {tp} that only broker {broker} holds are lost with it")

    def _saved(self, topic: str) -> list[tuple[bytes | None, ...]]:
        names = ("kafka-medic-topic", "kafka-medic-partition", "kafka-medic-offset")
        records = [dict(r.headers) for r in self.kafka.logs.get(TopicPartition(topic, 0), ())]
        return [tuple(headers[name] for name in names) for headers in records]

    def _before_pod(self, seen: dict[str, Any], broker: int, uid: str, ours: set[int], now: float) -> None:
        (pods,), (cordoned,) = self._known(seen, "pods", now), self._known(seen, "cordoned", now)
        if pods.get(broker, ("", True, False))[:2] != (uid, False):
            self.blame(f"Pod of broker {broker} was seen as {pods.get(broker)}, and {uid} is evicted")
        if any(deleting or not ready for b, (_, deleting, ready) in pods.items() if b not in ours):
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
        pods = self.evicted.setdefault(key, set())
        if uid in pods or len(pods) > len(self.wasted.get(key, ())):
            self.blame(f"broker {broker} was evicted twice by one run")
        pods.add(uid)
        self.restarted.add(key)
        if broker not in self.kafka.nodes:
            self.by_us.add(broker)
            self.away.add(broker)

    def _before_rescue(self, seen: dict[str, Any], topic: str, now: float) -> None:
        run = self._run_of(seen, "RescueRecords")
        plan = self._permitted(run, seen, now)
        self._known(seen, "views", now)
        if topic != plan.get("rescueTopic"):
            self.blame(f"topic {topic} is not in the plan")
        self.rescues.setdefault(run["metadata"]["uid"], now)

    def _saving(self, seen: dict[str, Any], topic: str) -> None:
        run = self._run_of(seen, "RescueRecords")
        if topic != run["status"]["plan"].get("rescueTopic"):
            self.blame(f"writes into {topic}, which is not in the plan")

    def _before_reorder(self, run: dict[str, Any], seen: dict[str, Any], targets: Any, now: float) -> None:
        plan, back = run["status"]["plan"], {tp: d["replicasBefore"] for tp, d in drains(run["status"]["plan"])}
        if any(e["id"] == "give-up" for e in run["status"]["journal"]):
            partitions, *_ = self._known(seen, "views", now)
            moving, _ = self._known(seen, "moving", now)
            for tp, replicas in targets.items():
                if list(replicas) != back.get(tp) or set(replicas) != partitions[tp][0] or tp in moving:
                    self.blame(f"{tp} to {replicas} does not put back what was there, and the run is given up")
            return
        self._permitted(run, seen, now)
        planned = {TopicPartition(c["topic"], c["partition"]): [c["replicas"]] for c in plan.get("reorders", ())}
        planned |= {tp: [d["replicas"], d["replicasBefore"]] for tp, d in drains(plan)}
        partitions, up, _, _, _ = self._known(seen, "views", now)
        moving, _ = self._known(seen, "moving", now)
        self._known(seen, "controller", now)
        behind = {b for replicas, isr, *_ in partitions.values() for b in replicas - isr}
        for tp, replicas in targets.items():
            if list(replicas) not in planned.get(tp, ()):
                self.blame(f"{tp} to {replicas} is not in the plan")
            now_on, isr, *_ = partitions[tp]
            if set(replicas) != now_on or len(replicas) != len(now_on):
                self.blame(f"{tp} has replicas {sorted(now_on)}, and another order of them is {replicas}")
            if replicas[0] not in isr & up or replicas[0] in behind:
                self.blame(f"prefers broker {replicas[0]} for {tp}, which is not in sync or not up")
            if tp in moving:
                self.blame(f"changes the order of {tp}, which is being reassigned")

    def _intends(self, kind: str) -> dict[str, Any] | None:
        for path, run in self.api.objects.items():
            status = run.get("status") or {}
            open_ = [e["kind"] for e in status.get("journal") or () if e["state"] == "Intended"]
            if path.startswith(RUNS) and status.get("phase") in ACTING and kind in open_:
                return run
        return None

    def _before_reassignment(self, seen: dict[str, Any], targets: Any, now: float) -> None:
        reorders = self._intends("Reorder")
        if reorders is not None:
            return self._before_reorder(reorders, seen, targets, now)
        run = self._run_of(seen, "Reassign")
        if all(t is None for t in targets.values()):
            if theirs := set(targets) & self._known(seen, "moving", now)[1]:
                self.blame(f"cancels somebody else's reassignment of {sorted(theirs)}")
            if not any(e["id"] == "give-up" for e in run["status"]["journal"]):
                self.blame("cancels though the run goes on")
            return None
        plan = self._permitted(run, seen, now)
        planned = {TopicPartition(c["topic"], c["partition"]): c for c in plan["changes"]}
        partitions, up, silent, _, _ = self._known(seen, "views", now)
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
        for tp, replicas in targets.items() if rate else ():
            sends = partitions[tp][0]
            for name, brokers in zip(LISTS, (sends, set(replicas) - sends), strict=True):
                listed = configs.get(("TOPIC", tp.topic, name), "")
                if listed != "*" and not {f"{tp.partition}:{b}" for b in brokers} <= set(listed.split(",")):
                    self.blame(f"reassigns {tp}, and {name} is {listed}")
        return None

    def _before_election(self, seen: dict[str, Any], wanted: Sequence[TopicPartition], now: float) -> None:
        run = self._run_of(seen, "ElectPreferred")
        plan = self._permitted(run, seen, now)
        waiting = {
            tp
            for tp in self.unserved.setdefault(run["metadata"]["uid"], set()) - set(wanted)
            if self.kafka.partitions[tp].leader in (-1, self.kafka.partitions[tp].replicas[0])
        }
        if waiting:
            self.blame(f"elects the next batch, and {sorted(waiting)} of the last one does not serve")
        self.unserved[run["metadata"]["uid"]] |= set(wanted)
        planned = {(e["topic"], p): {e["broker"]} for e in plan.get("elections", ()) for p in e["partitions"]}
        planned |= {tuple(tp): {d["replicas"][0], d["replicasBefore"][0]} for tp, d in drains(plan)}
        partitions, up, _, _, _ = self._known(seen, "views", now)
        self._known(seen, "controller", now)
        (answered,) = self._known(seen, "answered", now)
        moving, _ = self._known(seen, "moving", now)
        behind = {b for replicas, isr, _, _ in partitions.values() for b in replicas - isr}
        for tp in wanted:
            broker = self.kafka.partitions[tp].replicas[0]
            if broker not in planned.get(tp, ()) and tp not in self.theirs:
                self.blame(f"the election of broker {broker} for {tp} is not in the plan")
            if broker not in partitions[tp][1] or broker not in up or broker not in answered:
                self.blame(f"elects broker {broker} for {tp}, which is not in sync or does not answer")
            if broker in behind:
                self.blame(f"elects broker {broker} while it catches up elsewhere")
            if tp in moving:
                self.blame(f"elects a leader of {tp}, which is being reassigned")

    def _before_offsets(
        self, seen: dict[str, Any], group: str, wanted: Mapping[TopicPartition, Committed], now: float
    ) -> None:
        run = self._run_of(seen, "SetOffsets")
        plan = self._permitted(run, seen, now)
        planned = {(c["group"], TopicPartition(c["topic"], c["partition"])): c for c in plan.get("offsets", ())}
        (groups,) = self._known(seen, "groups", now)
        state, present = groups.get(group, ("gone", {}))
        if state != "Empty":
            self.blame(f"sets offsets of group {group}, which is {state}")
        for tp, committed in wanted.items():
            change = planned.get((group, tp))
            if change is None or committed != committed_of(change, "after"):
                self.blame(f"{committed} of {group} on {tp} is not in the plan")
                continue
            if present.get(tp) != committed_of(change, "before"):
                self.blame(f"{group} on {tp} was seen at {present.get(tp)}, which is not what the plan saw")
            if not 0 <= committed.offset <= self.kafka.partitions[tp].end:
                self.blame(f"{committed} of {group} is not in the log of {tp}")
            key = run["metadata"]["uid"], group, tp
            if key in self.offsets_set:
                self.blame(f"{group} on {tp} is set twice by one run")
            self.offsets_set.add(key)

    def _before_configs(self, seen: dict[str, Any], changes: Any, now: float) -> None:
        wanted = {(c.resource_type, c.resource, c.name): c.value for c in changes}
        run = self._run_of(seen, "ChangeSettings")
        if all(self.original.get(key) == value for key, value in wanted.items()):
            return  # puts back what was there
        plan = self._permitted(run, seen, now)
        (configs,) = self._known(seen, "configs", now)
        if all(configs.get(key) == value for key, value in wanted.items()):
            self.blame("sets what it has seen to be so already")
        planned = plan.get("configChanges", ())
        floors = {(c["resourceType"], c["resourceName"], c["name"]): c["after"] for c in planned}
        for key, value in wanted.items():
            if key[2] == "min.insync.replicas":
                if floors.get(key) != value:
                    self.blame(f"{key} to {value} is not in the plan")
                partitions, up, *_ = self._known(seen, "views", now)
                own = {name for kind, name, setting in configs if (kind, setting) == ("TOPIC", key[2])}
                if key[0] == "TOPIC":
                    floored = [isr for tp, (_, isr, _, _) in partitions.items() if tp.topic == key[1]]
                else:
                    floored = [isr for tp, (_, isr, _, _) in partitions.items() if tp.topic not in own]
                    born = [told[n] for told in seen["read"].values() for n in FACTORS]
                    if any(int(factor) <= int(value) for factor in born):
                        self.blame(f"{key} to {value} while topics are created with {sorted(born)} replicas")
                if any(len(isr) <= int(value) for isr in floored):
                    self.blame(f"{key} to {value} with no replica to spare")
                if set(self.kafka.racks) - up:
                    self.blame(f"{key} to {value} while a broker is down")
            elif key[2] in RATES and not 0 < int(value) <= plan["throttleBytesPerSecond"]:
                self.blame(f"{key} to {value} is not in the plan")
            elif "throttled" not in key[2]:
                self.blame(f"{key} is not ours to set")
