"""Pages that people write have a place for each word of the code, and their examples work."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

from kafka_medic.cli.main import main
from kafka_medic.controller.status import CONDITION_OF
from kafka_medic.plan.files.inputs import PARTITION_TYPES
from kafka_medic.plan.model import PLAN_SCHEMA
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.vocabulary import FindingType, Guard
from tests.docs import prose

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"


def text(name: str) -> str:
    return (ROOT / name).read_text()


@pytest.mark.parametrize("finding", FindingType)
def test_every_finding_has_a_section_and_a_line_in_the_symptoms_or_the_advisories(finding):
    page = text("docs/findings.md")
    assert f"\n### {finding.value}\n" in page
    assert f"\n| [{finding.value}](#{finding.value.lower()}) |" in page


def test_conditions_are_those_of_the_code():
    rows = dict(
        re.findall(r"^\| (\w+) \| ([^|]*) \|$", text("docs/findings.md").partition("## Conditions")[2], re.MULTILINE)
    )
    told = {
        f: condition
        for condition, cell in rows.items()
        for f in re.findall(r"\b[A-Z]\w+\b", cell)
        if f in set(FindingType)
    }
    assert told == dict(CONDITION_OF)


@pytest.mark.parametrize("guard", Guard)
def test_every_guard_is_explained(guard):
    assert f"\n| {guard.value} |" in text("docs/guards.md")


@pytest.mark.parametrize("phase", Phase)
def test_every_phase_is_explained(phase):
    assert re.search(rf"^\| (\w+, )?{phase.value}(, \w+)? \|", text("docs/run-phases.md"), re.MULTILINE)


def test_the_columns_of_plans_are_documented():
    page = text("docs/planning.md")
    given = page.partition("## Input: partitions")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", given, re.MULTILINE) == list(PARTITION_TYPES)
    written = page.partition("column of `plan.parquet`")[2].partition("\n\n")[0]
    columns = re.findall(r"^\| `(\w+)` \| ([a-z0-9 ]+) \|", written, re.MULTILINE)
    words = {pa.string(): "string", pa.int32(): "int32", pa.list_(pa.int32()): "list of int32"}
    assert columns == [(f.name, words[f.type]) for f in PLAN_SCHEMA]


def test_the_example_of_the_planning_page_is_planned(tmp_path, monkeypatch, capsys):
    (command,) = re.findall(
        r"^    kafka-medic (plan .*examples.*(?:\n      .*)+)", text("docs/planning.md"), re.MULTILINE
    )
    monkeypatch.chdir(ROOT)
    words = [
        str(tmp_path / "plan") if w == "plan" and i else w
        for i, w in enumerate(shlex.split(command.replace("\\\n", "")))
    ]
    assert main(words) == 0, capsys.readouterr().err
    assert (tmp_path / "plan" / "report.html").is_file()


def yaml_blocks(name: str) -> list[dict[str, object]]:
    blocks = re.findall(r"```yaml\n(.*?)```", text(name), re.DOTALL)
    return [d for block in blocks for d in yaml.safe_load_all(block) if isinstance(d, dict)]


@pytest.mark.parametrize(
    "name",
    ["README.md", *(str(p.relative_to(ROOT)) for p in sorted([*DOCS.glob("*.md"), *DOCS.glob("runbooks/*.md")]))],
)
def test_what_is_shown_of_a_kafkacluster_is_valid(name):
    for document in yaml_blocks(name):
        if document.get("kind", "KafkaCluster") != "KafkaCluster" or "spec" not in document:
            continue
        spec = dict(document["spec"])
        if "strimzi" not in spec:
            spec.setdefault("bootstrapServers", "kafka.kafka.svc:9092")
        if "brokers" in spec:
            spec["brokers"] = {"podSelector": {"matchLabels": {"app": "kafka"}}} | spec["brokers"]
        metadata = document.get("metadata") or {"name": "orders", "namespace": "kafka"}
        KafkaCluster.model_validate(
            {"apiVersion": "kafkamedic.dev/v1alpha1", "kind": "KafkaCluster", "metadata": metadata, "spec": spec}
        )


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {
        re.sub(r"[^\w -]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", h)).lower().replace(" ", "-") for h in headings
    }


@pytest.mark.parametrize(
    "name",
    [
        *(p.name for p in ROOT.glob("*.md")),
        "charts/kafka-medic/README.md",
        *(str(p.relative_to(ROOT)) for p in (ROOT / "tests").glob("**/README.md")),
    ],
)
def test_links_outside_of_the_site_lead_somewhere(name):
    """`make docs` checks those between the pages of docs/."""
    for target, _, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(#([^)\s]+))?\)", text(name)):
        page = (ROOT / name).parent / target if target else ROOT / name
        assert page.exists(), f"{name}: {target}"
        assert not anchor or anchor in anchors(page), f"{name}: {target}#{anchor}"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda p: str(p.relative_to(DOCS)))
def test_links_from_the_site_to_headings_outside_lead_somewhere(page):
    """`make docs` checks that such a file exists, and no heading in it."""
    for target, anchor in re.findall(r"\]\(((?:\.\./)+[^)#\s]+)#([^)\s]+)\)", page.read_text()):
        led = (page.parent / target).resolve()
        assert led.is_relative_to(DOCS) or anchor in anchors(led), f"{target}#{anchor}"


def test_readme_has_the_two_commands_and_is_short():
    readme = text("README.md")
    assert "\n    make demo " in readme
    assert "\n    make test " in readme
    assert "exec make test" in text(".ci/run")
    assert len(readme.encode()) <= 8192


def test_no_sentence_of_the_docs_is_too_long(capsys):
    assert prose.main([]) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("markdown", "sentences"),
    [
        ("One sentence. `code` begins another, e.g. this one.", 2),
        ("# A heading\n\n    code is no prose.\n\n| a | b |\n| - | - |\n| in a. table. | |\n", 0),
        ("- An item\n  of two lines\n- and another.", 2),
    ],
)
def test_sentences_are_counted(markdown, sentences):
    assert len([s for p in prose.prose(markdown) for s in prose.sentences(p)]) == sentences
