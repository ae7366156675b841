"""What has to be true before an operator takes a broker away, and before it saves what only that one holds; a part of
the oracle."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from tests.simulation.grounds import ACTING, CANARY, RUNS, START, Grounds, TopicPartition, drains

NEVER_SENT = 60.0
"""Seconds after which what was begun and not seen done is taken for never sent."""


def parallel(run: dict[str, Any]) -> int:
    """How many brokers a run may have away at once."""
    return int(run["spec"].get("parameters", {}).get("maxParallel", "1"))


class Evictions(Grounds):
    """`by_us`: brokers that our eviction took down and that are not up yet; `away`: nor back in every ISR; `looked`:
    who was in sync by the last look before. `restarted`: by run. `rescues`: when each run began to save records.
    `well`: when a broker was back in every ISR. `wasted`: by run and broker, the restarts that were for nothing and
    have been made up for; `evicted`: likewise, the Pods. `late`: those of `by_us` that a request took which came late;
    `sent`: by uid of a Pod, the run that has asked for its eviction; `came`: when such a request came late; `together`:
    by broker, how many that run may have away at once. `heirs`: by broker, who was known to be stale when it was
    evicted, and what was served. `asked`: by uid of a Pod that Strimzi was asked to restart, the run, the Pod's path,
    and who was in sync before."""

    true_times: dict[tuple[str, str, str], float]

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.by_us: set[int] = set()
        self.late: set[int] = set()
        self.sent: dict[str, str] = {}
        self.away: set[int] = set()
        self.looked: dict[int, dict[TopicPartition, frozenset[int]]] = {}
        self.restarted: set[tuple[str, int]] = set()
        self.rescues: dict[str, float] = {}
        self.well: dict[int, float] = {}
        self.wasted: dict[tuple[str, int], set[str]] = {}
        self.evicted: dict[tuple[str, int], set[str]] = {}
        self.came: dict[str, float] = {}
        self.together: dict[int, int] = {}
        self.heirs: dict[int, tuple[frozenset[int], frozenset[TopicPartition]]] = {}
        self.asked: dict[str, tuple[str, str, dict[TopicPartition, frozenset[int]]]] = {}

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
        seen_so = START + timedelta(seconds=int(self.true_times[run["metadata"]["uid"], void[-1]["id"], "Void"]))
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

    def _begun_long_ago(self, run: dict[str, Any], broker: int, clock: datetime) -> bool:
        """And never sent, or sent away what it led: nobody else is begun before it is back."""
        if any(
            e["id"].endswith((f"/order-away-{broker}", f"/elect-away-{broker}-0"))
            or f"/restart-{broker}-again-" in e["id"]
            for e in run["status"]["journal"]
        ):
            return True
        begun = [e for e in run["status"].get("journal", []) if e["state"] == "Intended"]
        mine = [e for e in begun if e["id"].endswith(f"/restart-{broker}")]
        # By its own clock: what another one has written down may seem older than it is.
        ages = [(clock - datetime.fromisoformat(e["intendedAt"])).total_seconds() for e in mine]
        return begun == mine and any(age > NEVER_SENT for age in ages)

    def before_annotation(self, seen: dict[str, Any], args: tuple[Any, ...], now: float) -> None:
        """What asks Strimzi for a restart rests on all that a restart rests on; what asks no longer, on nothing."""
        path, meta = args[0], args[1]["metadata"]
        if not meta.get("uid"):
            self.blame(f"changes an annotation of {path}, whichever Pod that is by now")
        if all(value is None for value in meta["annotations"].values()):
            run = self.run_of(seen, "CallOffRestarts")
            if not any(e["id"] == "give-up" for e in run["status"]["journal"]):
                self.blame(f"calls the restart of {path} off, and the run goes on")
        else:
            self._before_restart(seen, path.rpartition("/")[2], meta["uid"], now)

    def before_eviction(self, seen: dict[str, Any], body: dict[str, Any], now: float) -> None:
        self._before_restart(seen, body["metadata"]["name"], body["deleteOptions"]["preconditions"]["uid"], now)

    def _before_restart(self, seen: dict[str, Any], pod: str, uid: str, now: float) -> None:
        broker = int(pod.rpartition("-")[2])
        run = self.run_of(seen, "RestartPod", uid)
        if self.came.get(uid, -1.0) >= seen.get("pods", (now,))[0]:
            return  # what was sent before has come since the last look, and this takes the same Pod
        plan = self.permitted(run, seen, now)
        there = {o["metadata"]["uid"] for path, o in self.api.objects.items() if "/pods/" in path}
        if uid not in there and uid in {of for of, *_ in seen.get("pods", (now, {}))[1].values()}:
            return  # somebody has replaced it since the last look: the precondition takes no other Pod
        done = {b for of, b in self.restarted if of == run["metadata"]["uid"]} | self._replaced(run)
        left = [r["broker"] for r in plan["restarts"] if r["broker"] not in done]
        if self._again(seen, run, broker, now):
            left.append(broker)
        elif (broker, pod, uid) not in [(r["broker"], r["pod"], r["podUid"]) for r in plan["restarts"]]:
            self.blame(f"Pod {pod} with uid {uid} is not one that was approved")
        if broker not in left:
            self.blame(f"broker {broker} was restarted by this run already")
        for other in set(self.misread(plan, seen)) - set(left) - {broker}:
            self.blame(f"broker {broker} though {other} has come back with its old configuration")
        claimed = self._claimed(seen, run)
        others = (self.by_us - self.late | claimed) - {broker}
        self.sent[uid], self.together[broker] = run["metadata"]["uid"], parallel(run)
        if len(others) >= parallel(run):
            self.blame(f"broker {broker} while {sorted(others)} is down by us")
        partitions, up, silent, stale, away = self.known(seen, "views", now)
        # Those that this run has away itself count as gone, whatever the metadata says, and nobody else may be away.
        ours = {broker} | (others | away if parallel(run) > 1 else set())
        # That one which this run has away is gone may be news to the others, which settles nothing.
        stale = {b for b in stale if not seen["apart"].get(b, {None}) <= ours - {broker}}
        (recovering,) = self.known(seen, "recovering", now)
        if broker in recovering and broker not in self.kafka.apart:  # whose log is small, and whom no quorum needs
            self.blame(f"broker {broker} while it recovers its log")
        if silent - ours:  # what does not answer itself may be what its restart is to cure
            self.blame(f"broker {sorted(silent)} did not tell its view")
        cured = {r["broker"] for r in plan["restarts"] if r.get("stale")} & set(left)
        blamed = {r["broker"] for r in plan["restarts"] if r.get("stale")}
        if broker in blamed - stale and stale:
            self.blame(f"broker {broker} as the stale one, and it is {sorted(stale)} that hears nothing")
        if stale - ours and not {broker, *stale} <= cured:
            self.blame(f"broker {sorted(stale)} told another story")
        if broker in stale and broker not in cured:
            self.blame(f"broker {broker} told another story, and nobody approved to restart it for that")
        if down := set(self.kafka.racks) - up - ours:
            self.blame(f"broker {broker} while {sorted(down)} is down")
        (disks,) = self.known(seen, "disks", now)
        (ids,) = self.known(seen, "ids", now)
        for tp, (replicas, isr, leader, minimums) in partitions.items():
            part = self.kafka.partitions.get(tp)
            if part is None or part.id(tp.topic) != ids[tp]:
                continue  # deleted since the views were read: nothing of that incarnation is left to lose
            least = max((minimums[b] for b in isr - ours), default=1)  # any of them may lead it then
            able = isr & up - ours - stale - silent
            if tp in seen["unserved"] and leader == broker in cured and able and len(replicas) > least:
                continue  # until it has gone, nobody can write there, nor catch up
            # Of those that the run restarts as a cure, who does not copy from the leader cannot catch up before that.
            stuck = {b for b in (cured & replicas) - isr if not self._copies(b, tp)} if broker in cured else set()
            loses = not (broker in stuck and able) and len(isr - ours) < max(least, 1)
            if broker in replicas and (loses or len(replicas) <= least):
                self.blame(f"broker {broker} takes {tp} below min.insync.replicas {least}: ISR {sorted(isr)}")
            # What is on a failed disk does not come back by waiting: it is gone, and counted so above.
            waits = tp in seen["unserved"] and leader in cured and broker in cured
            if replicas - isr - ours - stuck - {b for b, lost in disks.items() if tp in lost} and not waits:
                self.blame(f"broker {broker} while {sorted(replicas - isr)} is out of the ISR of {tp}")
        moving, _ = self.known(seen, "moving", now)
        if moving:
            self.blame(f"broker {broker} while {sorted(moving)} are being reassigned")
        (controller,) = self.known(seen, "controller", now)
        left = [b for b in left if (b in self.kafka.apart) == (broker in self.kafka.apart)]
        if (
            controller == broker
            and (len(left) > 1 or len(ours) > 1)
            and not self._begun_long_ago(run, broker, seen["clock"])
        ):
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
        if kept := [
            tp for tp, d in drains(plan) if d["broker"] == broker and tp in partitions and partitions[tp][2] == broker
        ]:
            self.blame(f"broker {broker} while it leads {kept}, which was to be moved off it first")
        earlier = {b for of, b in self.restarted if of == run["metadata"]["uid"]} - ours
        for tp, part in self.kafka.partitions.items():
            if tp.topic == CANARY:
                for b in earlier & set(part.replicas):
                    if self.through.get(tp, -1.0) < self.well.get(b, 0.0):
                        self.blame(f"broker {broker} before a record of the canary went through {tp} of broker {b}")
        self._before_pod(seen, broker, pod, uid, ours, now)
        self._before_loss(seen, run, broker)

    def _replaced(self, run: dict[str, Any]) -> set[int]:
        """Brokers whose Pod somebody replaced that this run was about to restart: they have been restarted."""
        there = {o["metadata"]["uid"] for path, o in self.api.objects.items() if "/pods/" in path}
        return {
            int(e["id"].rpartition("/restart-")[2].partition("-")[0])
            for e in run["status"]["journal"]
            if e["kind"] == "RestartPod" and e.get("targetUid") and e["targetUid"] not in there
        }

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

    def _before_pod(self, seen: dict[str, Any], broker: int, pod: str, uid: str, ours: set[int], now: float) -> None:
        (there,) = (o for p, o in self.api.objects.items() if p.endswith(f"/pods/{pod}"))
        if (runs := self.kafka.housed[there["status"]["podIP"]]) != broker:
            self.blame(f"Pod {pod} is evicted for broker {broker}, and runs broker {runs}")
        (pods,), (cordoned,) = self.known(seen, "pods", now), self.known(seen, "cordoned", now)
        if pods.get(broker, ("", True, False))[:2] != (uid, False):
            self.blame(f"Pod of broker {broker} was seen as {pods.get(broker)}, and {uid} is evicted")
        if any(deleting or not ready for b, (_, deleting, ready) in pods.items() if b not in ours):
            self.blame(f"broker {broker} while another Pod is not Ready")
        if cordoned:
            self.blame(f"broker {broker} while {sorted(cordoned)} is cordoned")
        if "rollout" in seen and self.known(seen, "rollout", now)[0]:
            self.blame("evicted while the Pods' owner rolls them")

    def annotated(self, seen: dict[str, Any], args: tuple[Any, ...]) -> None:
        """Told of each that was sent."""
        path, meta = args[0], args[1]["metadata"]
        if any(meta["annotations"].values()):
            run = self.run_of(seen, "RestartPod", meta["uid"])
            self.effects.append(f"ask {path.rpartition('-')[2]}")
            looked = {tp: isr for tp, (_, isr, *_) in seen["views"][1].items()}
            self.asked[meta["uid"]] = run["metadata"]["uid"], path, looked
        else:
            self.effects.append("call off")

    def rolled(self, broker: int, uid: str) -> None:
        """Strimzi does what it was asked for."""
        if uid in self.asked:
            run, _, looked = self.asked[uid]
            self.restarted.add((run, broker))
            self.by_us.add(broker)
            self.away.add(broker)
            self.looked[broker] = looked

    def nothing_asked_by_who_has_ended(self) -> None:
        """What asks for a restart goes with the run: however that ends."""
        for uid, (run, path, _) in self.asked.items():
            meta = self.api.objects[path]["metadata"]
            if meta["uid"] != uid or not meta.get("annotations") or "deletionTimestamp" in meta:
                continue
            alive = [r for p, r in self.api.objects.items() if p.startswith(RUNS) and r["metadata"]["uid"] == run]
            if not alive or (alive[0].get("status") or {}).get("phase") not in ACTING:
                self.blame(f"the annotation on {path} outlives its run")

    def after_eviction(self, seen: dict[str, Any], args: tuple[Any, ...]) -> None:
        uid = args[1]["deleteOptions"]["preconditions"]["uid"]
        self.taken_away(seen, args, self.run_of(seen, "RestartPod", uid)["metadata"]["uid"])

    def taken_away(self, seen: dict[str, Any], args: tuple[Any, ...], run: str) -> None:
        uid = args[1]["deleteOptions"]["preconditions"]["uid"]
        broker = int(args[1]["metadata"]["name"].rpartition("-")[2])
        self.effects.append(f"evict {broker}")
        key = run, broker
        pods = self.evicted.setdefault(key, set())
        if uid in pods and uid in self.came:
            return
        if uid in pods or len(pods) > len(self.wasted.get(key, ())):
            self.blame(f"broker {broker} was evicted twice by one run")
        pods.add(uid)
        self.restarted.add(key)
        if broker not in self.kafka.nodes:
            self.by_us.add(broker)
            self.away.add(broker)
            self.looked[broker] = {tp: isr for tp, (_, isr, *_) in seen["views"][1].items()}
            leaders = {tp: leader for tp, (_, _, leader, _) in seen["views"][1].items()}
            served = frozenset(tp for tp, leader in leaders.items() if leader not in seen["views"][4] - {broker})
            self.heirs[broker] = frozenset(seen["views"][4]) - {broker}, served - seen["unserved"]

    def _copies(self, broker: int, tp: TopicPartition) -> bool:
        return tp in self.kafka.partitions and self.kafka.follows(broker, tp)

    def left_to_stale(self) -> None:
        """What a broker led that we took down, or anybody who serves it, is led by one that was known to be stale."""
        for broker in self.by_us - self.late:
            known, served = self.heirs.get(broker, (frozenset(), frozenset()))
            for tp in served if known & self.kafka.stale.keys() else ():
                part = self.kafka.partitions.get(tp)
                if part is not None and part.leader in known & self.kafka.stale.keys() and not self.kafka.served(tp):
                    self.blame(f"{tp} is led by broker {part.leader}, known to be stale, since we took down {broker}")

    def could_spare(self, tp: TopicPartition, ours: Collection[int]) -> bool:
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
