"""CONTRIBUTING.md says how to add an action, a guard and a finding. Here somebody follows it, in a copy of the product:
an action that gives a topic more partitions, a guard that it demands, and a finding that names it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCAFFOLD = Path(__file__).parent / "scaffold"
MOST_FILES = 9
"""That a person writes for an action which needs no new request to Kafka: the write and its adapter are two more."""

ACTION = {
    "resources/vocabulary.py": [
        ('    SET_CLUSTER_DEFAULTS = "SetClusterDefaults"\n', '    ADD_PARTITIONS = "AddPartitions"\n'),
        ('    CLUSTER_DEFAULTS_SET = "ClusterDefaultsSet"\n', '    PARTITIONS_ADDED = "PartitionsAdded"\n'),
    ],
    "resources/remediation_plan.py": [
        ("AnyPart: TypeAlias = (\n", "    AddedPartitions |\n"),
        (
            "\n\nAnyPart: TypeAlias",
            '''

class AddedPartition(Model):
    """A topic, and how many partitions it is to have."""

    topic: TopicName = Field(description="The topic.")
    before: Count = Field(description="How many it has.")
    after: Count = Field(description="How many it would have.")


class AddedPartitions(Part):
    """Topics that get partitions."""

    added: Annotated[tuple[AddedPartition, ...], Field(max_length=100)] = Field(default=(), description="The topics.")

    digested: ClassVar = Digested(
        always=paths("added.topic added.before added.after"), where_any=paths("added")
    )

    def topics(self) -> Iterator[str]:
        yield from (a.topic for a in self.added)
''',
        ),
    ],
    "playbook/registry.py": [
        ("        SetClusterDefaults(),\n", "        AddPartitions(),\n"),
        (
            "    (ActionName.REMOVE_THROTTLES,): ActionName.REMOVE_THROTTLES,\n",
            "    (ActionName.ADD_PARTITIONS,): ActionName.ADD_PARTITIONS,\n",
        ),
        (
            "from kafka_medic.playbook.offsets.action import",
            "from kafka_medic.playbook.partitions.action import AddPartitions\n",
        ),
    ],
    "playbook/changes.py": [
        ("    **offsets.CHANGES,\n", "    **partitions.CHANGES,\n"),
        (
            "from kafka_medic.playbook.reassign import changes as reassign\n",
            "from kafka_medic.playbook.partitions import changes as partitions\n",
        ),
    ],
    "playbook/effects.py": [
        (
            "@dataclass(frozen=True, slots=True)\nclass Reassign(Intent):",
            '''@dataclass(frozen=True, slots=True)
class RaisePartitions(Intent):
    """Give a topic so many partitions."""

    topic: str
    total: int
    assignment: tuple[tuple[int, ...], ...]

    def describe(self) -> str:
        return f"give topic {self.topic} {self.total} partitions"

    def writes(self) -> Mapping[Hashable, str]:
        return {("partitions", self.topic, self.total): self.topic}

    def receivers(self, snapshot: Snapshot) -> frozenset[int]:  # noqa: ARG002
        return frozenset(b for replicas in self.assignment for b in replicas)


''',
        )
    ],
    "actuate/carry_out.py": [
        (
            "EFFECTS: Mapping[type[Intent], Callable[[Reach, Any], None]] = {\n",
            "    RaisePartitions: lambda to, i: to.kafka.add_partitions(i.topic, i.total, i.assignment),\n",
        ),
        ("    Intent,\n", "    RaisePartitions,\n"),
    ],
}
"""By file: after which text (or, where it is the start of a definition, before it) what is written."""

GUARD = {
    "resources/vocabulary.py": [
        ('    PREVIOUS_OFFSETS_KNOWN = "PreviousOffsetsKnown"\n', '    FEW_PARTITIONS = "FewPartitions"\n')
    ],
}
FINDING = {
    "resources/vocabulary.py": [
        ('    FOREIGN_REASSIGNMENT = "ForeignReassignment"\n', '    PARTITIONS_FEW = "PartitionsFew"\n')
    ],
    "diagnose/diagnosis.py": [
        ("    versions.detect,\n", "    few.detect,\n"),
        ("from kafka_medic.diagnose import (\n", "    few,\n"),
    ],
}
NEW = {
    "playbook/partitions/__init__.py": "partitions_room.py",
    "playbook/partitions/action.py": "add_partitions.py",
    "playbook/partitions/changes.py": "partitions_changes.py",
    "guard/few_partitions.py": "few_partitions.py",
    "diagnose/few.py": "few.py",
}


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("product")
    shutil.copytree(ROOT / "operator", folder / "operator", ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    package = folder / "operator" / "kafka_medic"
    for edits in (ACTION, GUARD, FINDING):
        for name, changes in edits.items():
            for anchor, addition in changes:
                write(package / name, anchor, addition)
    for name, source in NEW.items():
        (package / name).parent.mkdir(exist_ok=True)
        shutil.copy(SCAFFOLD / source, package / name)
    return folder


def write(path: Path, anchor: str, addition: str) -> None:
    text = path.read_text()
    assert text.count(anchor) == 1, f"{path.name}: {anchor!r} is not there once, as CONTRIBUTING.md supposes"
    before = anchor.startswith(("@", "\n", "from kafka_medic.playbook"))
    path.write_text(text.replace(anchor, addition + anchor if before else anchor + addition))


def test_an_action_takes_few_files():
    assert len({*ACTION, *(name for name in NEW if name.startswith("playbook/"))}) <= MOST_FILES


def test_the_trial_is_named_proposed_approved_and_done(product):
    """By the operator's own reconcile over a simulated Kafka and API server."""
    told = subprocess.run(
        [sys.executable, str(SCAFFOLD / "story.py")],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{product / 'operator'}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stdout[-2000:] + told.stderr[-4000:]
    assert told.stdout.splitlines() == [
        "found: PartitionsFew/orders names add-partitions",
        "planned: orders from 2 to 4 partitions, digest covers it",
        "refused meanwhile: FewPartitions",
        "ended: Succeeded with 4 partitions",
    ]
