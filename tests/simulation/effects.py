"""What has to be true before each effect of an operator, by its last reads in that reconcile; a part of the oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from tests.simulation.grounds import ACTING, CANARY, START, TopicPartition, drains, of_owner
from tests.simulation.owned import Owned

LEASE = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/kafka-medic-c"
FACTORS = ("default.replication.factor", "offsets.topic.replication.factor")
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def committed_of(change: dict[str, Any], when: str) -> tuple[int, int | None, str]:
    """What a plan says was committed `before`, or is to be `after`: offset, leader epoch, metadata."""
    return change[when], change.get(f"{when}Epoch"), change.get(f"{when}Metadata", "")


class Effects(Owned):
    """`unserved`: elected by a run, and not seen to serve since."""

    original: dict[tuple[str, str, str], str]

    def __init__(self) -> None:
        super().__init__()
        self.offsets_set: set[tuple[str, str, TopicPartition]] = set()
        self.unserved: dict[str, set[TopicPartition]] = {}

    def before_effect(self, operator: Any, name: str, args: tuple[Any, ...], now: float) -> None:
        # A pause can come between the renewal and this request, but none between this and what is then sent.
        holder = (self.api.objects.get(LEASE) or {"spec": {}})["spec"].get("holderIdentity")
        if holder != operator.name:
            self.blame(f"{name} by {operator.name} while the Lease is {holder}'s")
        operator.seen["clock"] = START + timedelta(seconds=now + operator.skew)
        match name:
            case _ if self._of_canary(name, args):
                self._before_canary(operator.seen, now)
            case "create":
                self.before_eviction(operator.seen, args[1], now)
            case "merge" if of_owner(name, args):
                self.before_owner(operator.seen, args, now)
            case "merge":
                self.before_annotation(operator.seen, args, now)
            case "alter_reassignments":
                self._before_reassignment(operator.seen, args[0], now)
            case "alter_log_dirs":
                self._before_log_dirs(operator.seen, *args, now)
            case "alter_configs":
                self._before_configs(operator.seen, args[0], now)
            case "elect_preferred":
                self._before_election(operator.seen, args[0], now)
            case "create_topic":
                self.before_rescue(operator.seen, args[0].name, now)
            case "append":
                self.saving(operator.seen, args[0])
            case "commit_offsets":
                self._before_offsets(operator.seen, *args, now)
            case _:
                self.blame(f"{name}: no step of these playbooks writes that")

    def unanswered(self, name: str, args: tuple[Any, ...]) -> None:
        """Sent, and not known to have come: what has no effect yet may be sent once more."""
        if name == "commit_offsets":
            self.offsets_set = {k for k in self.offsets_set if k[1] != args[0] or k[2] not in args[1]}

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
        (runs,) = self.known(seen, "runs", now)
        if acting := [n for n, o in runs.items() if (o.get("status") or {}).get("phase") in ACTING]:
            self.blame(f"changes the canary's topic while {acting} acts")
        _, up, *_ = self.known(seen, "views", now)
        (moving, _) = self.known(seen, "moving", now)
        if set(self.kafka.racks) - up or moving:
            self.blame("changes the canary's topic while a broker is down or partitions move")

    def _before_reorder(self, run: dict[str, Any], seen: dict[str, Any], targets: Any, now: float) -> None:
        plan, back = run["status"]["plan"], {tp: d["replicasBefore"] for tp, d in drains(run["status"]["plan"])}
        if any(e["id"] == "give-up" for e in run["status"]["journal"]):
            partitions, *_ = self.known(seen, "views", now)
            moving, _ = self.known(seen, "moving", now)
            for tp, replicas in targets.items():
                if list(replicas) != back.get(tp) or set(replicas) != self.row(partitions, tp)[0] or tp in moving:
                    self.blame(f"{tp} to {replicas} does not put back what was there, and the run is given up")
            return
        self.permitted(run, seen, now)
        planned = {TopicPartition(c["topic"], c["partition"]): [c["replicas"]] for c in plan.get("reorders", ())}
        planned |= {tp: [d["replicas"], d["replicasBefore"]] for tp, d in drains(plan)}
        partitions, up, silent, stale, _ = self.known(seen, "views", now)
        moving, _ = self.known(seen, "moving", now)
        self.known(seen, "controller", now)
        behind = {b for replicas, isr, *_ in partitions.values() for b in replicas - isr}
        for tp, replicas in targets.items():
            if list(replicas) not in planned.get(tp, ()):
                self.blame(f"{tp} to {replicas} is not in the plan")
            now_on, isr, *_ = self.row(partitions, tp)
            if set(replicas) != now_on or len(replicas) != len(now_on):
                self.blame(f"{tp} has replicas {sorted(now_on)}, and another order of them is {replicas}")
            if replicas[0] not in isr & up or replicas[0] in behind:
                self.blame(f"prefers broker {replicas[0]} for {tp}, which is not in sync or not up")
            if replicas[0] in stale | silent:
                self.blame(f"prefers broker {replicas[0]} for {tp}, which would not know that it leads")
            if tp in moving:
                self.blame(f"changes the order of {tp}, which is being reassigned")

    def _before_reassignment(self, seen: dict[str, Any], targets: Any, now: float) -> None:
        reorders = self.intends("Reorder")
        if reorders is not None:
            return self._before_reorder(reorders, seen, targets, now)
        removing = self.intends("DropReplicas")
        if removing is not None and None not in targets.values():
            return self._before_removal(removing, seen, targets, now)
        run = self.run_of(seen, "Reassign")
        if all(t is None for t in targets.values()):
            if theirs := set(targets) & self.foreign_to(run, self.known(seen, "moving", now)[1]):
                self.blame(f"cancels somebody else's reassignment of {sorted(theirs)}")
            if not any(e["id"] == "give-up" for e in run["status"]["journal"]):
                self.blame("cancels though the run goes on")
            return None
        plan = self.permitted(run, seen, now)
        planned = {TopicPartition(c["topic"], c["partition"]): c for c in plan["changes"]}
        partitions, up, silent, stale, _ = self.known(seen, "views", now)
        moving, foreign = self.known(seen, "moving", now)
        if foreign := self.foreign_to(run, foreign):
            self.blame(f"reassigns while somebody else moves {sorted(foreign)}")
        replaced = set(plan.get("replacedBrokers") or ())
        if silent - replaced or set(self.kafka.racks) - up - replaced:
            self.blame("reassigns while a broker is down or silent")
        serving = replaced & (up | self.kafka.zombies)
        lost = self.known(seen, "disks", now)[0] if serving else {}
        for tp in targets:
            if works := {b for b in serving & partitions[tp][0] if tp not in lost.get(b, ())}:
                self.blame(f"replaces {tp} of broker {sorted(works)}, which is a member or serves clients")
        if len(up) < (plan.get("replicationFactor") or 1):
            self.blame("reassigns with fewer live brokers than the factor")
        for tp, replicas in targets.items():
            if tp not in planned or list(replicas) != planned[tp]["replicas"]:
                self.blame(f"{tp} to {replicas} is not in the plan")
            now_on, isr, leader, _ = self.row(partitions, tp)
            gives_up = now_on - set(replicas)
            if gives_up - replaced:
                self.blame(f"{tp} would lose {sorted(gives_up - replaced)}")
            if gives_up & isr or len(replicas) < len(now_on):
                self.blame(f"{tp} would give up {sorted(gives_up)}, in sync or for nobody")
            if tp in self.least:
                self.least[tp] -= gives_up
            if sorted(now_on) != sorted(planned[tp]["replicasBefore"]):
                self.blame(f"{tp} is on {sorted(now_on)}, which is not where the plan found it")
            if deaf := (set(replicas) - now_on) & stale:
                self.blame(f"{tp} gets replicas on {sorted(deaf)}, which would not know of them")
            if leader in stale:
                self.blame(f"{tp} is led by broker {leader}, which would not know of its new replicas")
            # With ZooKeeper every reassignment is a new leader epoch, with KRaft one that takes a replica away.
            if (self.kafka.zookeeper or gives_up) and (deaf := isr & set(replicas) & stale):
                self.blame(f"{tp} gets a new leader epoch, of which {sorted(deaf)} in its ISR would not hear")
            if leader not in up:
                self.blame(f"{tp} has no live leader to copy from")
        self.owners_are_off({tp.topic for tp in targets}, seen, now)
        if all(moving.get(tp) == set(replicas) | partitions[tp][0] for tp, replicas in targets.items()):
            self.blame("reassigns what it has seen to be reassigned so already")
        rate = plan.get("throttleBytesPerSecond")
        brokers = {b for c in plan["changes"] for b in c["replicas"]}
        (configs,) = self.known(seen, "configs", now)
        if rate and any(("BROKER", str(b), name) not in configs for b in brokers for name in RATES):
            self.blame("reassigns without a throttle")
        for tp, replicas in targets.items() if rate else ():
            sends = partitions[tp][0]
            for name, brokers in zip(LISTS, (sends, set(replicas) - sends), strict=True):
                listed = configs.get(("TOPIC", tp.topic, name), "")
                if listed != "*" and not {f"{tp.partition}:{b}" for b in brokers} <= set(listed.split(",")):
                    self.blame(f"reassigns {tp}, and {name} is {listed}")
        return None

    def foreign_to(self, run: dict[str, Any], foreign: set[TopicPartition]) -> set[TopicPartition]:
        """Of these those that the run cannot take for its own. Kafka does not tell who has asked for a reassignment
        (KIP-455), and one that the journal has begun may have been sent before a crash."""
        status = run["status"]
        waves = {e["id"].rpartition("/wave-")[2] for e in status["journal"] if e["kind"] == "Reassign"}
        wanted = {
            TopicPartition(c["topic"], c["partition"]): set(c["replicas"])
            for c in status["plan"].get("changes", ())
            if str(c.get("wave", 0)) in waves
        }
        parts = self.kafka.partitions
        return {tp for tp in foreign if tp in parts and set(parts[tp].replicas) != wanted.get(tp)}

    def _before_removal(self, run: dict[str, Any], seen: dict[str, Any], targets: Any, now: float) -> None:
        """Replicas go whose place others have taken, or, of a run that ends early, those that it has added."""
        plan = run["status"]["plan"]
        partitions, up, silent, stale, _ = self.known(seen, "views", now)
        moving, foreign = self.known(seen, "moving", now)
        ends = any(e["id"] == "give-up" for e in run["status"]["journal"])
        if not ends:
            self.permitted(run, seen, now)
            if silent or set(self.kafka.racks) - up:
                self.blame("removes replicas while a broker is down or silent")
            if foreign:
                self.blame(f"removes replicas while somebody else moves {sorted(foreign)}")
        planned = {
            TopicPartition(c["topic"], c["partition"]): c["replicasBefore" if ends else "replicas"]
            for c in plan["changes" if ends else "removals"]
        }
        for tp, replicas in targets.items():
            now_on, isr, leader, minimums = self.row(partitions, tp)
            if list(replicas) != planned.get(tp):
                self.blame(f"{tp} to {replicas} is not in the plan")
            if not set(replicas) < now_on or tp in moving:
                self.blame(f"{tp} is on {sorted(now_on)}, and {replicas} is not what remains of it")
            if not set(replicas) <= isr:
                self.blame(f"{tp} would lose replicas, and of {replicas} only {sorted(isr)} are in sync")
            if not ends and len(replicas) < max(minimums.values(), default=1):
                self.blame(f"{tp} would be left below min.insync.replicas")
            if not ends and leader not in replicas and set(replicas) & (stale | silent):
                self.blame(f"{tp} would be led by one of {replicas}, which would not know that it leads")
            if tp in self.least:
                self.least[tp] = frozenset(replicas)
        self.owners_are_off({tp.topic for tp in targets}, seen, now)

    def _before_log_dirs(
        self, seen: dict[str, Any], broker: int, targets: Mapping[TopicPartition, str], now: float
    ) -> None:
        """Replicas move between the directories of a broker, or, of a run that ends early, stay where they are."""
        run = self.run_of(seen, "AlterLogDirs")
        plan = run["status"]["plan"]
        moves = {(m["broker"], TopicPartition(m["topic"], m["partition"])): m for m in plan.get("logDirMoves", ())}
        where, free, failed = self.known(seen, "placed", now)
        if any(e["id"] == "give-up" for e in run["status"]["journal"]):
            for tp, path in targets.items():
                if moves.get((broker, tp), {}).get("source") != path or where.get((broker, tp)) != path:
                    self.blame(f"{tp} of broker {broker} to {path} is not where it is, and the run is given up")
            return
        self.permitted(run, seen, now)
        _, up, silent, _, _ = self.known(seen, "views", now)
        _, foreign = self.known(seen, "moving", now)
        if foreign:
            self.blame(f"moves replicas between disks while somebody else moves {sorted(foreign)}")
        if silent or set(self.kafka.racks) - up:
            self.blame("moves replicas between disks while a broker is down or silent")
        if broker in failed:
            self.blame(f"moves replicas between disks of broker {broker}, of which one has failed")
        (configs,) = self.known(seen, "configs", now)
        if plan.get("logDirThrottleBytesPerSecond") and ("BROKER", str(broker), LOG_DIR_RATE) not in configs:
            self.blame("moves replicas between disks without a throttle")
        coming: dict[str, int] = {}
        for tp, path in targets.items():
            planned = moves.get((broker, tp), {})
            if planned.get("target") != path:
                self.blame(f"{tp} of broker {broker} to {path} is not in the plan")
            if where.get((broker, tp)) != planned.get("source"):
                self.blame(f"{tp} of broker {broker} is in {where.get((broker, tp))}, not where the plan found it")
            part = self.kafka.partitions.get(tp)
            coming[path] = coming.get(path, 0) + (part.size if part is not None else 0)
        for path, size in coming.items():
            if size > free[broker, path]:
                self.blame(f"moves {size} bytes to {path} of broker {broker}, which has {free[broker, path]}")

    def _before_election(self, seen: dict[str, Any], wanted: Sequence[TopicPartition], now: float) -> None:
        run = self.run_of(seen, "ElectPreferred")
        plan = self.permitted(run, seen, now)
        waiting = {
            tp
            for tp in self.unserved.setdefault(run["metadata"]["uid"], set()) - set(wanted)
            if (part := self.kafka.partitions.get(tp)) is not None and part.leader in (-1, part.replicas[0])
        }
        again = set(wanted) <= self.unserved[run["metadata"]["uid"]]  # what is left of the same batch
        if waiting and not again:
            self.blame(f"elects the next batch, and {sorted(waiting)} of the last one does not serve")
        self.unserved[run["metadata"]["uid"]] |= set(wanted)
        planned = {(e["topic"], p): {e["broker"]} for e in plan.get("elections", ()) for p in e["partitions"]}
        planned |= {tuple(tp): {d["replicas"][0], d["replicasBefore"][0]} for tp, d in drains(plan)}
        partitions, up, silent, stale, _ = self.known(seen, "views", now)
        self.known(seen, "controller", now)
        (answered,) = self.known(seen, "answered", now)
        moving, _ = self.known(seen, "moving", now)
        behind = {b for replicas, isr, _, _ in partitions.values() for b in replicas - isr}
        for tp in wanted:
            self.row(partitions, tp)
            if tp not in self.kafka.partitions:
                continue  # deleted since
            broker = self.kafka.partitions[tp].replicas[0]
            if broker != seen["preferred"][tp] and tp in self.theirs:
                continue  # another order since
            if broker not in planned.get(tp, ()) and tp not in self.theirs:
                self.blame(f"the election of broker {broker} for {tp} is not in the plan")
            if broker not in partitions[tp][1] or broker not in up or broker not in answered:
                self.blame(f"elects broker {broker} for {tp}, which is not in sync or does not answer")
            if broker in stale | silent:
                self.blame(f"elects broker {broker} for {tp}, which would not know that it leads")
            if broker in behind:
                self.blame(f"elects broker {broker} while it catches up elsewhere")
            if tp in moving:
                self.blame(f"elects a leader of {tp}, which is being reassigned")

    def _before_offsets(
        self, seen: dict[str, Any], group: str, wanted: Mapping[TopicPartition, Any], now: float
    ) -> None:
        run = self.run_of(seen, "SetOffsets")
        plan = self.permitted(run, seen, now)
        planned = {(c["group"], TopicPartition(c["topic"], c["partition"])): c for c in plan.get("offsets", ())}
        (groups,) = self.known(seen, "groups", now)
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
            if tp not in self.kafka.partitions:
                continue  # deleted since: the coordinator refuses it
            (ids,) = self.known(seen, "ids", now)
            if ids.get(tp) != self.incarnations[plan["digest"]].get(tp):
                self.blame(f"{committed} of {group} was planned for another topic of the name {tp.topic}")
            if not 0 <= committed.offset <= self.kafka.partitions[tp].end:
                self.blame(f"{committed} of {group} is not in the log of {tp}")
            key = run["metadata"]["uid"], group, tp
            if key in self.offsets_set:
                self.blame(f"{group} on {tp} is set twice by one run")
            self.offsets_set.add(key)

    def _before_configs(self, seen: dict[str, Any], changes: Any, now: float) -> None:
        wanted = {(c.resource_type, c.resource, c.name): c.value for c in changes}
        run = self.run_of(seen, "ChangeSettings")
        if all(self.original.get(key) == value for key, value in wanted.items()):
            return  # puts back what was there
        told = seen.get("configs", (now, {}))[1]
        if all(key[2] in RATES and value and 0 < int(value) < int(told.get(key) or 0) for key, value in wanted.items()):
            return  # takes back some of what was permitted
        plan = self.permitted(run, seen, now)
        (configs,) = self.known(seen, "configs", now)
        if all(configs.get(key) == value for key, value in wanted.items()):
            self.blame("sets what it has seen to be so already")
        planned = plan.get("configChanges", ())
        floors = {(c["resourceType"], c["resourceName"], c["name"]): c["after"] for c in planned}
        self.owners_are_off({key[1] for key in wanted if key[0] == "TOPIC"}, seen, now)
        for key, value in wanted.items():
            if key[2] == "min.insync.replicas":
                if floors.get(key) != value:
                    self.blame(f"{key} to {value} is not in the plan")
                partitions, up, *_ = self.known(seen, "views", now)
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
            elif key[2] == LOG_DIR_RATE:
                if value != str(plan.get("logDirThrottleBytesPerSecond")):
                    self.blame(f"{key} to {value} is not in the plan")
            elif key[2] in RATES and not 0 < int(value) <= plan["throttleBytesPerSecond"]:
                self.blame(f"{key} to {value} is not in the plan")
            elif "throttled" not in key[2]:
                self.blame(f"{key} is not ours to set")
