"""What has to be true before an operator takes a broker away, and before it saves what only that one holds; a part of
the oracle."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from kafka_medic.cluster.snapshot import TopicPartition
from tests.simulation.grounds import CANARY, START, Grounds, drains


def parallel(run: dict[str, Any]) -> int:
    """How many brokers a run may have away at once."""
    return int(run["spec"].get("parameters", {}).get("maxParallel", "1"))


class Evictions(Grounds):
    """`by_us`: brokers that our eviction took down and that are not up yet; `away`: nor back in every ISR; `looked`:
    who was in sync by the last look before. `restarted`: by run. `rescues`: when each run began to save records.
    `well`: when a broker was back in every ISR. `wasted`: by run and broker, the restarts that were for nothing and
    have been made up for; `evicted`: likewise, the Pods."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.by_us: set[int] = set()
        self.away: set[int] = set()
        self.looked: dict[int, dict[TopicPartition, frozenset[int]]] = {}
        self.restarted: set[tuple[str, int]] = set()
        self.rescues: dict[str, float] = {}
        self.well: dict[int, float] = {}
        self.wasted: dict[tuple[str, int], set[str]] = {}
        self.evicted: dict[tuple[str, int], set[str]] = {}

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
        (words,) = self.known(seen, "words", now)
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

    def before_eviction(self, seen: dict[str, Any], body: dict[str, Any], now: float) -> None:
        uid, pod = body["deleteOptions"]["preconditions"]["uid"], body["metadata"]["name"]
        broker = int(pod.rpartition("-")[2])
        run = self.run_of(seen, "RestartPod", uid)
        plan = self.permitted(run, seen, now)
        left = [r["broker"] for r in plan["restarts"] if (run["metadata"]["uid"], r["broker"]) not in self.restarted]
        if self._again(seen, run, broker, now):
            left.append(broker)
        elif (broker, pod, uid) not in [(r["broker"], r["pod"], r["podUid"]) for r in plan["restarts"]]:
            self.blame(f"Pod {pod} with uid {uid} is not one that was approved")
        if broker not in left:
            self.blame(f"broker {broker} was restarted by this run already")
        for other in set(self.misread(plan, seen)) - set(left) - {broker}:
            self.blame(f"broker {broker} though {other} has come back with its old configuration")
        claimed = self._claimed(seen, run)
        others = (self.by_us | claimed) - {broker}
        if len(others) >= parallel(run):
            self.blame(f"broker {broker} while {sorted(others)} is down by us")
        partitions, up, silent, stale, away = self.known(seen, "views", now)
        # Those that this run has away itself count as gone, whatever the metadata says, and nobody else may be away.
        ours = {broker} | (others | away if parallel(run) > 1 else set())
        (recovering,) = self.known(seen, "recovering", now)
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
        moving, _ = self.known(seen, "moving", now)
        if moving:
            self.blame(f"broker {broker} while {sorted(moving)} are being reassigned")
        (controller,) = self.known(seen, "controller", now)
        left = [b for b in left if (b in self.kafka.apart) == (broker in self.kafka.apart)]
        if controller == broker and (len(left) > 1 or len(ours) > 1) and not self._begun_long_ago(run, broker, now):
            self.blame(f"broker {broker} is the active controller and {left} are left")
        if "voters" in seen:
            good, total = self.known(seen, "voters", now)
            good = good | {controller}  # the others' lag is measured against it
            if len(good - ours) * 2 <= total:
                self.blame(f"without broker {sorted(ours)} the quorum has {sorted(good - ours)} of {total} voters")
        else:
            serving, total = self.known(seen, "ensemble", now)
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

    def _claimed(self, seen: dict[str, Any], run: dict[str, Any]) -> set[int]:
        """Brokers whose Pod was about to be evicted, and is gone: by whom, nobody can tell."""
        uids = {pod[0] for pod in seen.get("pods", (0.0, {}))[1].values()}
        return {
            int(e["id"].rpartition("/restart-")[2].partition("-")[0])
            for e in run["status"]["journal"]
            if e["kind"] == "RestartPod" and e["state"] == "Intended" and e.get("targetUid") not in uids
        }

    def _before_loss(self, seen: dict[str, Any], run: dict[str, Any], broker: int) -> None:
        """What only this broker's log holds, and its return truncates, is saved: whatever was there by the last look at
        the cluster, or, of partitions that the plan says are saved, by the time when that began."""
        plan, looked = run["status"]["plan"], seen["views"][0]
        planned = {TopicPartition(r["topic"], r["partition"]) for r in plan.get("rescues", ()) if r["broker"] == broker}
        began = self.rescues.get(run["metadata"]["uid"], looked)
        saved = set(self.saved(plan.get("rescueTopic") or ""))
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

    def saved(self, topic: str) -> list[tuple[bytes | None, ...]]:
        names = ("kafka-medic-topic", "kafka-medic-partition", "kafka-medic-offset")
        records = [dict(r.headers) for r in self.kafka.logs.get(TopicPartition(topic, 0), ())]
        return [tuple(headers[name] for name in names) for headers in records]

    def _before_pod(self, seen: dict[str, Any], broker: int, uid: str, ours: set[int], now: float) -> None:
        (pods,), (cordoned,) = self.known(seen, "pods", now), self.known(seen, "cordoned", now)
        if pods.get(broker, ("", True, False))[:2] != (uid, False):
            self.blame(f"Pod of broker {broker} was seen as {pods.get(broker)}, and {uid} is evicted")
        if any(deleting or not ready for b, (_, deleting, ready) in pods.items() if b not in ours):
            self.blame(f"broker {broker} while another Pod is not Ready")
        if cordoned:
            self.blame(f"broker {broker} while {sorted(cordoned)} is cordoned")
        if "rollout" in seen and self.known(seen, "rollout", now)[0]:
            self.blame("evicted while a StatefulSet rolls out")

    def after_eviction(self, seen: dict[str, Any], args: tuple[Any, ...]) -> None:
        uid = args[1]["deleteOptions"]["preconditions"]["uid"]
        broker = int(args[1]["metadata"]["name"].rpartition("-")[2])
        run = self.run_of(seen, "RestartPod", uid)
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
            self.looked[broker] = {tp: isr for tp, (_, isr, *_) in seen["views"][1].items()}

    def could_spare(self, tp: TopicPartition, ours: Sequence[int]) -> bool:
        """Whether somebody else was in sync by the last look before each of these was evicted: who has gone since."""
        gone = self.by_us | self.away
        return bool(ours) and all(self.looked[broker].get(tp, frozenset()) - gone for broker in ours)

    def before_rescue(self, seen: dict[str, Any], topic: str, now: float) -> None:
        run = self.run_of(seen, "RescueRecords")
        plan = self.permitted(run, seen, now)
        self.known(seen, "views", now)
        if topic != plan.get("rescueTopic"):
            self.blame(f"topic {topic} is not in the plan")
        self.rescues.setdefault(run["metadata"]["uid"], now)

    def saving(self, seen: dict[str, Any], topic: str) -> None:
        run = self.run_of(seen, "RescueRecords")
        if topic != run["status"]["plan"].get("rescueTopic"):
            self.blame(f"writes into {topic}, which is not in the plan")
