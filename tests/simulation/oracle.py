"""What must hold after every event, whatever happens: the project's invariants, said once more and by other means than
the guards say them. Nothing here asks a guard, a detector or the engine, nor imports anything of the product.

A write is judged by what was true when its operator last read it, in the same reconcile: between a read and a write the
world may change, and no operator could know. What was not read, or not answered, permits nothing.

A request that is carried out after its caller gave up was judged when it was sent. What it then meets is nobody's
fault, as far as the protocol cannot fence it:
- an eviction names the Pod's uid, so it cannot hit a successor, but no number of brokers that are down stops it;
- a reassignment, or another order of replicas, states the whole list, so that it ends as sent once, whatever was
  changed in between; an election takes only what is in sync then;
- settings and offsets are overwritten. A throttle that comes after it was taken back is left for whoever finds it.
The Lease fences none of them. All other invariants hold all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tests.simulation.effects import LOG_DIR_RATE, Effects
from tests.simulation.grounds import (
    ACTING,
    ENDED,
    PROSE,
    RUNS,
    TopicPartition,
    acts,
    annotates,
    binds,
    drains,
    last_asked,
    may_follow,
)

if TYPE_CHECKING:
    from tests.simulation.api import SimApi
    from tests.simulation.images import Belief, Image
    from tests.simulation.kafka import SimKafka

CLUSTER = "/apis/kafkamedic.dev/v1alpha1/namespaces/ns/kafkaclusters/c"

KINDS = {
    "views": "views", "memberships": "views", "slices": "views", "reassignments": "moving", "quorum": "voters",
    "registrations": "controller", "ensemble": "ensemble", "broker_configs": "configs", "topic_configs": "configs",
    "groups": "groups", "log_dirs": "disks",
}  # fmt: skip
PATHS = {
    "/pods": "pods", "/remediationapprovals": "words", "/remediations": "runs", "/c": "rules",
    "/statefulsets/kafka": "rollout", "/kafkas/kafka": "rollout", "/subjectaccessreviews": "rights",
    "/kafkatopics": "owners",
}  # fmt: skip


FETCH_TIMEOUT = 2.0
"""Seconds; controller.quorum.fetch.timeout.ms."""
PATIENCE = 250.0
"""Seconds that an approved cure may wait for a lighter run: what that one has sent may come about within 100 of them,
and an operator that dies or stands still takes some more."""


class Oracle(Effects):
    """Sees every request with its answer. `starting`: brokers that are recovering their logs; `foreign`: partitions
    that somebody else is moving; `theirs`: whose order somebody else has changed; `widened`: to which they have added a
    replica. `offsets`: what is committed, as far as anybody's doing explains it; `moved`: by somebody else. `through`:
    when a record of the canary was last read back. `anew`: partitions of topics that somebody has deleted or made anew;
    `incarnations`: by plan, the topic ids there were when a person has read it. `late_settings`: made by requests that
    came late, as `late_moves` between disks, or left on a dead broker; `shifted`: replicas that somebody else has moved
    between disks; `true_times`: when an entry of a journal was first seen in that state, or to be sent at that time, as
    clocks are off. `waits`: by approved run that only a lighter run at rest keeps waiting, since when."""

    def __init__(self, kafka: SimKafka, api: SimApi, starting: set[int]) -> None:
        super().__init__()
        self.kafka, self.api, self.starting = kafka, api, starting
        self.foreign: set[TopicPartition] = set()
        self.theirs: set[TopicPartition] = set()
        self.widened: set[TopicPartition] = set()
        self.late_settings: set[tuple[str, str, str]] = set()
        self.late_moves: set[tuple[int, TopicPartition]] = set()
        self.shifted: set[tuple[int, TopicPartition]] = set()
        self.true_times: dict[tuple[str, str, str], float] = {}
        self.anew: set[TopicPartition] = set()
        self.plans: dict[str, Any] = {}
        self.incarnations: dict[str, dict[TopicPartition, str]] = {}
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
        self.waits: dict[str, float] = {}

    def truncated(self, tp: TopicPartition) -> None:
        """Somebody has elected a leader that lacks records."""
        part = self.kafka.partitions[tp]
        self.acked[tp] = part.end
        self.logs[tp] = dict.fromkeys(part.isr, part.end)

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

    def remade(self, name: str) -> None:
        """Somebody has deleted a topic, or made it anew: what it held is lost by their doing."""
        there = {tp for tp in self.kafka.partitions if tp.topic == name}
        gone = {tp for tp in self.least if tp.topic == name}
        self.anew |= there | gone
        for tp in gone:
            del self.least[tp], self.logs[tp], self.acked[tp]
        for marked in (self.theirs, self.foreign, self.widened):
            marked.difference_update(gone)
        for tp in there:
            self._is_there(tp)
        self.moved |= {key for key in self.offsets if key[1] in gone}
        self.offsets = {key: offset for key, offset in self.offsets.items() if key[1] not in gone}
        self.original = {k: v for k, v in self.original.items() if k[:2] != ("TOPIC", name)} | {
            k: v for k, v in self.kafka.dynamic.items() if k[:2] == ("TOPIC", name)
        }

    # -- the world -------------------------------------------------------------------------------------

    def committed(self) -> dict[tuple[str, TopicPartition], int]:
        return {(group, tp): o for group, offsets in self.kafka.committed.items() for tp, o in offsets.items()}

    def minimums(self, topic: str, replicas: Iterable[int]) -> dict[int, int]:
        """What each of these brokers enforces while it leads."""
        return {b: self.kafka.enforced(topic, b) for b in replicas}

    def produce(self) -> None:
        """With acks=all: what the leader has and everybody in the ISR has fetched."""
        sick = self.kafka.stale or self.kafka.lagging or self.kafka.lingering
        for tp, part in self.kafka.partitions.items():
            if (
                not tp.topic.startswith("kafka-medic")
                and self.kafka.acknowledges(tp)
                and (not sick or all(self.kafka.follows(b, tp) for b in part.isr))
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
        self.late.discard(broker)

    # -- people ----------------------------------------------------------------------------------------

    def approved(self, run: dict[str, Any]) -> None:
        """A person has read the plan as it is now."""
        plan = run["status"]["plan"]
        self.plans[plan["digest"]] = {k: v for k, v in plan.items() if k not in PROSE}
        ids = {tp: part.id(tp.topic) for tp, part in self.kafka.partitions.items()}
        self.incarnations.setdefault(plan["digest"], ids)
        word = run["metadata"]["uid"], plan["digest"]
        self.words[word] = self.words.get(word, 0) + 1

    def said(self, run: dict[str, Any], digest: str) -> bool:
        return (run["metadata"]["uid"], digest) in self.words

    # -- what an operator has read ---------------------------------------------------------------------

    def read(self, operator: Any, name: str, args: tuple[Any, ...], answer: Any, now: float) -> None:
        seen, kafka = operator.seen, self.kafka
        if name in ("get", "list"):  # most of them
            return self._read_object(seen, args[0], answer, now)
        if name == "describe_cluster":
            seen["told"] = {}  # an observation begins
        match name:
            case "memberships":
                seen["answered"] = now, frozenset(b for b, a in answer.items() if hasattr(a, "members"))
            case "elect_preferred":
                self.effects.append("elect")
            case "groups":
                known = seen.get("groups", (now, {}))[1]
                seen["groups"] = now, known | {g.group: (g.state, dict(g.committed)) for g in answer.offsets}
            case "commit_offsets":
                self.effects.append("offsets")
                self.offsets |= {(args[0], tp): c.offset for tp, c in args[1].items() if tp not in answer}
            case "log_bounds":
                tables = [a for a in answer.values() if hasattr(a, "num_rows")]
                told = [(row["topic"], row["partition"]) for t in tables for row in t.to_pylist()]
                parts = {tp: kafka.partitions[tp] for tp in told if tp in kafka.partitions}
                served = {tp for tp, part in parts.items() if part.leader == part.replicas[0]}
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
            case "views" | "slices":
                self._read_views(seen, answer, args[0] if name == "slices" else {}, now)
            case "reassignments":
                seen["moving"] = (
                    now,
                    {tp: frozenset(kafka.partitions[tp].replicas) for tp in answer},
                    set(self.foreign),
                )
            case "quorum":
                seen["controller"] = (now, answer.leader)
                good = {v.id for v in answer.voters if v.id in kafka.nodes and not self._left_behind(v.id, now)}
                seen["voters"] = (now, good, len(answer.voters))
            case "registrations":
                seen["controller"] = (now, answer.controller.id)
                seen["recovering"] = now, frozenset(self.starting)
            case "ensemble":
                seen["ensemble"] = (now, sum(v.lag is not None for v in answer.voters), len(answer.voters))
            case "log_dirs":
                seen["disks"] = now, {b: frozenset(lost) for b, lost in kafka.failed_disk.items()}
                self._read_log_dirs(seen, answer, now)
            case "broker_configs":
                seen["configs"] = (now, dict(kafka.dynamic))
                seen["read"] = {b: dict(told) for b, told in kafka.started_with.items()}
            case "create" if args[0].endswith("/subjectaccessreviews"):
                seen["rights"] = (now, frozenset(self.api.approvers))
            case "create" if args[0].endswith("/eviction"):
                self.after_eviction(seen, args)
            case "merge" if annotates(name, args):
                self.annotated(seen, args)
            case "alter_reassignments":
                self.effects.append("reassign")
            case "alter_configs":
                self.effects.append("configs")
            case "alter_log_dirs":
                self.effects.append(f"log_dirs {args[0]}")
        return None

    def _read_log_dirs(self, seen: dict[str, Any], answer: Any, now: float) -> None:
        """Where replicas were by the last answer of each broker, the room there was, and who had a failed disk."""
        _, where, free, failed = seen.get("placed", (now, {}, {}, frozenset()))
        told = {b for b, a in answer.items() if hasattr(a, "directories")}
        where = {key: path for key, path in where.items() if key[0] not in told}
        for broker in told:
            for directory in answer[broker].directories:
                free = free | {(broker, directory.path): directory.usable or 0}
                where |= {(broker, TopicPartition(*tp)): directory.path for tp in directory.sizes or ()}
        seen["placed"] = now, where, free, (failed - told) | (told & self.kafka.failed_disk.keys())

    def _left_behind(self, voter: int, now: float) -> bool:
        """Longer than controller.quorum.fetch.timeout.ms, after which it would vote for another leader."""
        return now - self.kafka.behind.get(voter, now) >= FETCH_TIMEOUT

    def arrived(self, seen: dict[str, Any], name: str, args: tuple[Any, ...], answer: Any) -> None:
        """Late, that is: judged when it was sent."""
        match name:
            case "create":
                broker = int(args[1]["metadata"]["name"].rpartition("-")[2])
                if broker not in self.kafka.nodes:
                    self.late.add(broker)
                uid = args[1]["deleteOptions"]["preconditions"]["uid"]
                run = self.sent.get(uid, "")
                self.came[uid] = self.kafka.elapsed  # sent once more meanwhile, it takes the same Pod
                self.taken_away(seen, args, run)
            case "alter_reassignments":
                self.effects.append("reassign")
                for tp in args[0].keys() & self.kafka.partitions.keys():
                    part = self.kafka.partitions[tp]
                    self.least[tp] = frozenset(part.before or part.replicas) - frozenset(part.removing)
                    self.theirs.add(tp)
            case "alter_log_dirs":
                self.effects.append(f"log_dirs {args[0]}")
                self.late_moves |= {(args[0], tp) for tp in args[1]}
            case "alter_configs":
                self.effects.append("configs")
                self.late_settings |= {(c.resource_type, c.resource, c.name) for c in args[0]}
            case "elect_preferred":
                self.effects.append("elect")
            case "commit_offsets":
                self.effects.append("offsets")
                taken = {(args[0], tp): c.offset for tp, c in args[1].items() if tp not in answer}
                self.offsets |= taken
                self.moved |= taken.keys()

    def _read_views(self, seen: dict[str, Any], answer: Any, topics: Mapping[int, Collection[str]], now: float) -> None:
        """What brokers have answered; `topics`: by broker, what it was asked about, if not all. Where all are behind
        the truth alike, or most of them, nobody can know it: what most report is then what can be known. `apart`: those
        that differ in nothing but these members. `unserved`: what a broker is to lead and, as far as it knows, another
        one does."""
        kafka, truth = self.kafka, self.kafka.truth()
        told = seen.setdefault("told", {})
        for broker, view in answer.items():
            image = kafka.image(broker)
            about, before = topics.get(broker), told.get(broker)
            if about is not None and before is not None:  # read once more, or of more topics
                about = None if before[2] is None else {*about, *before[2]}
            told[broker] = (image, image is truth, about) if hasattr(view, "members") else None
        known = {b: t for b, t in told.items() if t is not None}
        asked = {b: about for b, (_, _, about) in known.items()}
        whole = {b: truth if so else image for b, (image, so, _) in known.items()}
        images = {b: image.of(asked[b]) for b, image in whole.items()}
        newest, rows, members = truth, truth.rows, frozenset(truth.members)
        stale = _unlike(newest, images, asked)
        if stale and stale == images.keys():
            newest = max(whole.values(), key=lambda image: image.number)
            stale, rows = _unlike(newest, images, asked), newest.rows
            members = frozenset(newest.members)
        if len(stale) * 2 > len(newest.members):
            rows = _as_most_report(images, asked, len(newest.members), newest.rows)
            named = [b for image in images.values() for b in image.members]
            members = frozenset(b for b in named if named.count(b) * 2 > len(images))
            most = {tp: row[:2] + row[4:] for tp, row in rows.items()}
            stale = {
                b
                for b, i in images.items()
                if {tp: row[:2] + row[4:] for tp, row in i.rows.items()}
                != {tp: row for tp, row in most.items() if asked[b] is None or tp.topic in asked[b]}
            }
        elif any(image is not truth for image in whole.values()):
            rows = _with_isr_of_most(images, len(newest.members), rows)
        partitions = {
            tp: (frozenset(row.replicas), frozenset(row.isr), row.leader, self.minimums(tp.topic, row.replicas))
            for tp, row in rows.items()
        }
        up = members & kafka.up
        seen["views"] = now, partitions, up, kafka.up - images.keys(), stale, frozenset(self.away)
        seen["apart"] = {
            b: set(images[b].members) ^ set(newest.members)
            for b in stale
            if images[b].led[1] == newest.of(asked[b]).led[1]
        }
        seen["preferred"] = {tp: row.replicas[0] for tp, row in rows.items()}
        seen["unserved"] = {
            tp
            for tp, row in rows.items()
            if row.leader in stale
            and (asked[row.leader] is None or tp.topic in asked[row.leader])
            and ((mine := images[row.leader].rows.get(tp)) is None or mine.id != row.id or mine.leader != row.leader)
        }
        seen["ids"] = now, {tp: row.id for tp, row in rows.items()}

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
        elif "/statefulsets/" in path or "/kafkas/" in path:
            seen["rollout"] = now, answer["metadata"]["generation"] > answer["status"]["observedGeneration"]
        elif path.endswith("/kafkatopics"):
            seen["owners"] = now, {o["spec"].get("topicName") or o["metadata"]["name"] for o in answer if acts(o)}
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

    # -- after each event ------------------------------------------------------------------------------

    def after_event(self, now: float) -> None:
        if len(self.by_us) > 1:
            self._several()
        if self.by_us and self.kafka.stale:
            self.left_to_stale()
        for broker in list(self.away):
            if broker in self.kafka.nodes and all(
                broker in p.isr or self.kafka.on_failed_disk(broker, p)
                for p in self.kafka.partitions.values()
                if broker in p.replicas
            ):
                self.away.discard(broker)
                self.well[broker] = now
        for tp, part in self.kafka.partitions.items():
            if not self.least[tp] <= set(part.replicas):
                self.blame(f"{tp} lost a replica: {part.replicas}")
            moves = part.adding or part.removing or tp in self.foreign
            if not moves and len(part.replicas) > len(self.least[tp]):
                self.least[tp] = frozenset(part.replicas)
            able = {*part.isr, *part.eligible}
            if part.leader < 0 and able and able <= self.by_us - self.late and not self.could_spare(tp, able):
                self.blame(f"{tp} has no leader, since we took down broker {sorted(able)}")
            if part.leader >= 0 and (part.leader not in part.isr or self.logs[tp].get(part.leader, 0) < self.acked[tp]):
                self.blame(f"{tp}: broker {part.leader} leads and does not hold every acknowledged record")
        for path, run in list(self.api.objects.items()):
            if path.startswith(RUNS) and self.versions.get(path) != run["metadata"]["resourceVersion"]:
                self.versions[path] = run["metadata"]["resourceVersion"]
                self._run(run, now)
                self._waiting(now)
        if self.waits and now - min(self.waits.values()) > PATIENCE:
            self.blame(f"{', '.join(self.waits)} is approved, and a lighter run at rest keeps it waiting")
        if self.kafka.committed and self.offsets != self.committed():
            self.blame(f"an offset changed by itself: {self.offsets.items() ^ self.committed().items()}")
        if self.asked:
            self.nothing_asked_by_who_has_ended()
        if self.paused:
            self.no_pause_outlives_its_run()
        if self.throttled() and not any(
            (r.get("status") or {}).get("restoreOwed") and r["metadata"].get("finalizers")
            for p, r in self.api.objects.items()
            if p.startswith(RUNS)
        ):
            self.blame(f"a throttle is left behind: {self.throttled()}")

    def _several(self) -> None:
        """More than one broker down by us: as many as was asked for, and never two that a partition cannot spare."""
        by_us = self.by_us - self.late
        if len(by_us) > max((self.together.get(b, 1) for b in by_us), default=1):
            self.blame(f"brokers {sorted(by_us)} are down by us")
        for tp, part in self.kafka.partitions.items():
            ours = by_us & set(part.replicas)
            left = [least for broker, least in self.minimums(tp.topic, part.replicas).items() if broker not in ours]
            if len(ours) > 1 and len(left) < max(left, default=1):
                self.blame(f"brokers {sorted(ours)} are down by us, and {tp} cannot spare both")

    def throttled(self) -> set[Any]:
        changed = self.kafka.dynamic.items() ^ self.original.items()
        named = {kv for kv in changed if "throttled" in kv[0][2] or kv[0][2] == LOG_DIR_RATE}
        return {kv for kv in named if kv[0] not in self.late_settings}

    def _on_dead_brokers(self, status: dict[str, Any]) -> set[Any]:
        """The throttles that a run which was given up may leave: nobody can read or set them. That it awaits these
        brokers for half an hour is a scenario's, since clocks are set here."""
        if all(entry["id"] != "give-up" for entry in status.get("journal") or ()):
            return set()
        return {key for key, _ in self.throttled() if key[0] == "BROKER" and int(key[1]) not in self.kafka.up}

    def _run(self, run: dict[str, Any], now: float) -> None:
        status, uid = run.get("status") or {}, run["metadata"]["uid"]
        after, before = status.get("phase"), self.phases.get(uid)
        self.phases[uid] = after
        for entry in status.get("journal") or ():
            for what in (entry["state"], str(last_asked(entry))):
                self.true_times.setdefault((uid, entry["id"], what), now)
        if after is None:
            return
        if not may_follow(before, after, acted=bool(status.get("journal"))):
            self.blame(f"{run['metadata']['name']}: {before} -> {after}")
        if not status.get("message"):
            self.blame(f"{run['metadata']['name']} is {after} and does not say why")
        ending = any(e["id"] == "give-up" for e in status.get("journal") or ())
        if after == "Blocked" and not status.get("waitingFor") and not ending:
            self.blame(f"{run['metadata']['name']} is Blocked and names no guard: {status['message']}")
        if after == "Running" and before == "Approved":
            self._begins(run, now)
        if after in ENDED and before not in ENDED:
            self.late_settings |= self._on_dead_brokers(status)
            if self.throttled() or status.get("restoreOwed"):
                self.blame(f"{after} and a throttle is left: {self.throttled()}")
            self._moved_within(status, after)
            for tp, drain in drains(status.get("plan") or {}):
                if tp in self.anew:
                    continue
                part = self.kafka.partitions[tp]
                left = part.replicas == drain["replicas"] != drain["replicasBefore"]
                if left and tp not in self.theirs | self.foreign:
                    self.blame(f"{after} and {tp} is left in the order {part.replicas}")
                order = [b for b in part.replicas if b in drain["replicasBefore"] or tp not in self.widened]
                if after == "Succeeded" and order != drain["replicasBefore"] and tp not in self.theirs:
                    self.blame(f"Succeeded and {tp} has the order {part.replicas}")
            for c in (status.get("plan") or {}).get("offsets", ()):
                key = c["group"], TopicPartition(c["topic"], c["partition"])
                if after == "Succeeded" and self.offsets.get(key) != c["after"] and key not in self.moved:
                    self.blame(f"Succeeded and {key} is at {self.offsets.get(key)}")
            if after == "Succeeded" and (wrong_owner := self.owners_agree(status.get("plan") or {})):
                self.blame(f"Succeeded and {wrong_owner}")
            if after == "Succeeded" and (wrong := self.misread(status.get("plan") or {})):
                self.blame(f"Succeeded and broker {wrong} has not read what it was to read")
            made_up_for = {id_ for (of, _), ids in self.wasted.items() if of == uid for id_ in ids}
            journal = status.get("journal") or ()
            if after == "Succeeded" and any(e["state"] != "Done" and e["id"] not in made_up_for for e in journal):
                self.blame("Succeeded with an effect that was never seen done")

    def _moved_within(self, status: dict[str, Any], after: str) -> None:
        """No copy between disks is left, and a run that succeeded has moved what it was to move. A copy is Kafka's own
        matter where its source has failed."""
        for m in (status.get("plan") or {}).get("logDirMoves", ()):
            broker, tp = key = m["broker"], TopicPartition(m["topic"], m["partition"])
            part = self.kafka.partitions.get(tp)
            if part is None or tp in self.anew or key in self.late_moves or key in self.shifted:
                continue
            lost = self.kafka.on_failed_disk(broker, part)
            if key in self.kafka.futures and not lost:
                self.blame(f"{after} and {tp} of broker {broker} is still being copied to another disk")
            path = f"/data/{self.kafka.dir_of(broker, tp)}"
            if after == "Succeeded" and broker in part.replicas and path != m["target"]:
                self.blame(f"Succeeded and {tp} of broker {broker} is in {path}")

    def _waiting(self, now: float) -> None:
        runs = {
            path.removeprefix(RUNS): run.get("status") or {}
            for path, run in self.api.objects.items()
            if path.startswith(RUNS)
        }
        waits = {}
        for name, status in runs.items():
            told = [(w["guard"], w.get("remediation")) for w in status.get("waitingFor") or ()]
            if status.get("phase") != "Approved" or len(told) != 1 or told[0][0] != "NoOtherRemediation":
                continue
            if runs.get(str(told[0][1]), {}).get("phase") == "Approved":
                continue  # one that has not begun either goes first
            acting = [other for other in runs.values() if other.get("phase") in ACTING]
            if acting and all(_at_rest(other) and _grave(other) < _grave(status) for other in acting):
                waits[name] = self.waits.get(name, now)
        self.waits = waits

    def _begins(self, run: dict[str, Any], now: float) -> None:
        """limits.cooldown and limits.perDay: how often runs begin."""
        rules = self.api.objects[CLUSTER]["spec"].get("remediation") or {}
        limits = rules.get("limits") or {}
        others = [
            r["status"] for p, r in self.api.objects.items() if p.startswith(RUNS) and r is not run and "status" in r
        ]
        as_grave = [
            s for s in others if s.get("finishedAt") and s.get("startedAt") and _grave(s) >= _grave(run["status"])
        ]
        if limits.get("cooldown", "0s") != "0s" and as_grave:
            self.blame("a run begins within the cooldown of the one before")
        if sum("startedAt" in s for s in others) >= limits.get("perDay", 1000):
            self.blame("more runs begin in a day than limits.perDay")


def _unlike(image: Image, others: Mapping[int, Image], asked: Mapping[int, Collection[str] | None]) -> set[int]:
    """Those of the others that say something else, in what they were asked about."""
    return {b for b, other in others.items() if other is not image and other.led != image.of(asked[b]).led}


def _as_most_report(
    images: Mapping[int, Image],
    asked: Mapping[int, Collection[str] | None],
    members: int,
    otherwise: Mapping[TopicPartition, Belief],
) -> dict[TopicPartition, Belief]:
    """Each partition as more than half of the members report it; as it is, if no such half agrees."""
    rows = {}
    for tp in {tp for image in images.values() for tp in image.rows} | otherwise.keys():
        about = [b for b, topics in asked.items() if topics is None or tp.topic in topics]
        accounts = [images[b].rows.get(tp) for b in about]
        known = [row[:2] + row[4:] if row else None for row in accounts]
        account, times = Counter(known).most_common(1)[0] if known else (None, 0)
        found = accounts[known.index(account)] if times * 2 > members else otherwise.get(tp)
        if found is not None:
            rows[tp] = found
    return rows


def _with_isr_of_most(
    images: Mapping[int, Image], members: int, rows: Mapping[TopicPartition, Belief]
) -> dict[TopicPartition, Belief]:
    """The ISR as more than half of the members report it: news of it may have reached its leader alone."""
    found = dict(rows)
    for tp, row in rows.items():
        told = [mine for i in images.values() if (mine := i.rows.get(tp)) and mine[:2] == row[:2] and mine.id == row.id]
        isr, times = Counter(mine.isr for mine in told).most_common(1)[0] if told else ((), 0)
        if times * 2 > members:
            found[tp] = row._replace(isr=isr)
    return found


def _at_rest(status: dict[str, Any]) -> bool:
    """Whether that run does nothing, has nothing to take back and has no broker down."""
    restarts = any(e["kind"] == "RestartPod" and e["state"] == "Intended" for e in status.get("journal") or ())
    return status.get("phase") in ("Paused", "Blocked") and not binds(status) and not restarts


def _grave(status: dict[str, Any]) -> int:
    return ("Info", "Warning", "Critical").index(status["cures"]["severity"]) + 1 if "cures" in status else 0
