"""What has to be true before an operator writes a KafkaTopic, or a topic that has one, and what it leaves there; a part
of the oracle."""

from __future__ import annotations

from typing import Any

from tests.simulation.evictions import Evictions
from tests.simulation.grounds import ACTING, OWNER_PAUSE, OWNERS, RUNS, TopicPartition, acts

SAYS = {"replicas": ("replicas",), "min.insync.replicas": ("config", "min.insync.replicas")}
"""Where a KafkaTopic says it, by the name of an edit."""


def said(found: dict[str, Any], name: str) -> str | None:
    value: Any = found["spec"]
    for key in SAYS[name]:
        value = (value or {}).get(key)
    return None if value is None else str(value)


class Owned(Evictions):
    """`paused`: KafkaTopics that a run has paused, by name, with its uid. `by_people`: topics whose owner's pause
    somebody has taken off, or whose owner somebody has edited. `thinned`: topics whose min.insync.replicas somebody has
    raised for a time, and what it was."""

    late_settings: set[tuple[str, str, str]]
    anew: set[TopicPartition]
    least: dict[TopicPartition, frozenset[int]]
    foreign: set[TopicPartition]
    widened: set[TopicPartition]

    def __init__(self) -> None:
        super().__init__()
        self.paused: dict[str, str] = {}
        self.by_people: set[str] = set()
        self.thinned: dict[str, str | None] = {}

    def throttled(self) -> set[Any]:
        """Throttles that are not as they were at first."""
        raise NotImplementedError

    def owners(self) -> dict[str, dict[str, Any]]:
        """KafkaTopics as they are, by name."""
        return {p.removeprefix(OWNERS): o for p, o in self.api.objects.items() if p.startswith(OWNERS)}

    def owners_are_off(self, topics: set[str], seen: dict[str, Any], now: float) -> None:
        """Nothing of a topic is changed while its owner was seen to act."""
        if self.owners():
            (acting,) = self.known(seen, "owners", now)
            if found := topics & acting:
                self.blame(f"changes {sorted(found)}, whose owner acts")

    def before_owner(self, seen: dict[str, Any], args: tuple[Any, ...], now: float) -> None:
        path, meta = args[0], args[1]["metadata"]
        name, spec = path.removeprefix(OWNERS), args[1].get("spec")
        if not meta.get("uid") or not meta.get("resourceVersion"):
            self.blame(f"changes KafkaTopic {name}, whatever has become of it")
        notes = meta.get("annotations") or {}
        if set(notes) - {OWNER_PAUSE} or (spec is None) == (not notes):
            self.blame(f"changes {args[1]} of KafkaTopic {name}")
        kind = "EditObjects" if spec else "PauseObjects" if notes[OWNER_PAUSE] else "ResumeObjects"
        run = self.run_of(seen, kind)
        planned = [o for o in run["status"]["plan"].get("ownedTopics", ()) if o["by"] == "Operator"]
        owned = next((o for o in planned if (o["name"], o["uid"]) == (name, meta["uid"])), None)
        if owned is None:
            self.blame(f"changes KafkaTopic {name}, which is not in the plan")
            return
        if kind == "PauseObjects":
            self.permitted(run, seen, now)
            if owned.get("paused"):
                self.blame(f"pauses KafkaTopic {name}, which somebody else had paused")
            self.paused[name] = run["metadata"]["uid"]
        elif kind == "ResumeObjects":
            self._before_resume(name, owned)
        else:
            self._before_edit(spec, owned, seen)
        self.effects.append(kind)

    def _before_resume(self, name: str, owned: dict[str, Any]) -> None:
        if name not in self.paused:
            self.blame(f"takes a pause off KafkaTopic {name} that the run did not set")
        if left := [key for key in self.throttled() if key[0][1] == owned["topic"]]:
            self.blame(f"KafkaTopic {name} is to act again, and its topic has {left}")
        moving = {tp for tp, p in self.kafka.partitions.items() if tp.topic == owned["topic"] and p.adding}
        if moving - self.foreign:
            self.blame(f"KafkaTopic {name} is to act again, and {sorted(moving)} is copied")
        found = self.owners()[name]
        if any(tp.topic == owned["topic"] for tp in self.anew):
            return  # what the plan made of it went with it
        for edit in owned.get("edits", ()):
            before = said(found, edit["name"]) == edit.get("before")
            if before and self._is_so(owned["topic"], edit) and owned["topic"] not in self.by_people:
                self.blame(f"KafkaTopic {name} is to act again, and says {edit['name']} {edit.get('before')} still")

    def _before_edit(self, spec: dict[str, Any], owned: dict[str, Any], seen: dict[str, Any]) -> None:
        """A setting is so, or was when it was read last: somebody may set another value a moment before the edit."""
        if acts(self.owners()[owned["name"]]) and owned["topic"] not in self.by_people:
            self.blame(f"edits KafkaTopic {owned['name']} while it acts")
        planned = {e["name"]: e for e in owned.get("edits", ())}
        wanted = {k: str(v) for k, v in spec.items() if k != "config"}
        wanted |= {k: str(v) for k, v in spec.get("config", {}).items()}
        for name, value in wanted.items():
            if name not in planned or planned[name]["after"] != value:
                self.blame(f"{name} {value} of KafkaTopic {owned['name']} is not in the plan")
            present = said(self.owners()[owned["name"]], name)
            if value != present and int(value) <= int(present or 1):
                self.blame(f"lowers {name} of KafkaTopic {owned['name']} from {present} to {value}")
            _, read = seen.get("configs", (0.0, {}))
            so = self._is_so(owned["topic"], planned[name]) or read.get(("TOPIC", owned["topic"], name)) == value
            raised = name == "min.insync.replicas" and owned["topic"] in self.thinned
            if not so and not raised and not self._theirs(owned["topic"]):
                self.blame(f"KafkaTopic {owned['name']} is to say {name} {value}, which is not so")

    def _is_so(self, topic: str, edit: dict[str, Any]) -> bool:
        if edit["name"] != "replicas":
            return self.kafka.dynamic.get(("TOPIC", topic, edit["name"])) == edit["after"]
        return {len(p.replicas) for tp, p in self.kafka.partitions.items() if tp.topic == topic} == {int(edit["after"])}

    def put_back(self, topic: str, what: str) -> None:
        """The Topic Operator has changed something of a topic."""
        if ("TOPIC", topic, what) not in self.late_settings and not self._theirs(topic):
            self.blame(f"the Topic Operator undid {what} of {topic}")
        if what == "replicas":  # by its owner's word, which a person let it carry out
            for tp in self.least:
                if tp.topic == topic:
                    self.least[tp] = frozenset(self.kafka.partitions[tp].replicas)

    def no_pause_outlives_its_run(self) -> None:
        found = self.owners()
        for name, uid in self.paused.items():
            if name not in found or acts(found[name]):
                continue
            alive = [r for p, r in self.api.objects.items() if p.startswith(RUNS) and r["metadata"]["uid"] == uid]
            if not alive or (alive[0].get("status") or {}).get("phase") not in ACTING:
                self.blame(f"the pause of KafkaTopic {name} outlives its run")

    def owners_agree(self, plan: dict[str, Any]) -> str | None:
        """What is not so at the end of a run that has succeeded."""
        found = self.owners()
        for owned in plan.get("ownedTopics", ()):
            if self._theirs(owned["topic"]) or owned["name"] not in found:
                continue
            for edit in owned.get("edits", ()):
                if said(found[owned["name"]], edit["name"]) != edit["after"]:
                    return f"KafkaTopic {owned['name']} does not say {edit['name']} {edit['after']}"
                raised = edit["name"] == "min.insync.replicas" and owned["topic"] in self.thinned
                if not raised and not self._is_so(owned["topic"], edit):
                    return f"{edit['name']} of {owned['topic']} is not {edit['after']}"
        return None

    def _theirs(self, topic: str) -> bool:
        """Whether somebody else has changed it, or what its owner says."""
        changed: set[TopicPartition] = self.theirs | self.foreign | self.widened | self.anew
        return topic in self.by_people or any(tp.topic == topic for tp in changed)
