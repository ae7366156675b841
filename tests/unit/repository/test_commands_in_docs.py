"""Koperator has `kafkaclusters` too: what people type names ours by the short or the full name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kafka_medic.resources.definitions import DEFINITIONS
from tests.unit.resources.sources import ROOT

TEXTS = ("*.md", "docs/**/*.md", "charts/**/*.md", "charts/**/NOTES.txt", "charts/**/alerts.yaml", "examples/**/*.yaml",
         "operator/**/*.py", "playbooks/*.yaml", "tests/demo/*.py")  # fmt: skip
VERBS = "get|describe|delete|explain|edit|patch|annotate|label|wait|events"
BARE = "|".join(f"{d.singular}|{d.resource.PLURAL}" for d in DEFINITIONS)


def files() -> Iterator[Path]:
    for pattern in TEXTS:
        yield from ROOT.glob(pattern)


def test_no_command_uses_a_name_that_another_operator_has_too() -> None:
    bare = re.compile(rf"kubectl (?:-\S+ \S+ )*(?:{VERBS}) (?:-\S+ )*(?:\S+,)*(?:{BARE})(?![.\w-])", re.IGNORECASE)
    read = list(files())
    assert len(read) > 100
    found = [
        f"{file.relative_to(ROOT)}: {match[0]}"
        for file in read
        for line in file.read_text().splitlines()
        if "Koperator" not in line
        for match in bare.finditer(line)
    ]
    assert not found, "write kmc, kmp, kmr, kmra or the full name, such as kafkaclusters.kafkamedic.dev"


def test_the_pattern_finds_what_it_is_for() -> None:
    for wrong in (
        "kubectl get kafkacluster x",
        "kubectl -n kafka get pods,remediations",
        "kubectl describe playbooks a",
    ):
        assert re.search(rf"(?:{VERBS}) (?:\S+,)*(?:{BARE})(?![.\w-])", wrong)
