"""What people type. Koperator has `kafkaclusters` too, so commands name ours by the short or the full name. A command
without a namespace reaches the one of the reader's context."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from kafka_medic.resources.definitions import DEFINITIONS
from tests.unit.resources.sources import ROOT

TEXTS = ("*.md", "docs/**/*.md", "charts/**/*.md", "charts/**/NOTES.txt", "charts/**/alerts.yaml", "examples/**/*.yaml",
         "operator/**/*.py", "playbooks/*.yaml", "tests/demo/*.py")  # fmt: skip
VERBS = "get|describe|delete|explain|edit|patch|annotate|label|wait|events"
BARE = "|".join(f"{d.singular}|{d.resource.PLURAL}" for d in DEFINITIONS)
CLUSTER_SCOPED = "crd|kmp|namespace|node|clusterrole"
CHANGES = re.compile(rf"kubectl (?:annotate|delete|edit|label|patch|scale) (?!(?:{CLUSTER_SCOPED})\b)[^`]*")
SHOWN = re.compile(rf"kubectl (?:get|describe|kafka-medic [a-z]+) (?!-o|-A|(?:{CLUSTER_SCOPED})\b)[^`]*")
"""Besides what changes something, in what the product itself prints."""
PRINTED = ("operator", "NOTES.txt", "alerts.yaml")


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


def lines_of(file: Path) -> Iterator[str]:
    """Of Python, its strings, with {} for each value of an f-string. Of other text, its lines, joined after a `\\`."""
    text = file.read_text()
    if file.suffix != ".py" or "kubectl" not in text:
        yield from text.replace("\\\n", "").splitlines()
        return
    tree = ast.parse(text)
    within = {id(part) for one in ast.walk(tree) if isinstance(one, ast.JoinedStr) for part in one.values}
    for one in ast.walk(tree):
        if isinstance(one, ast.JoinedStr):
            yield from "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in one.values).splitlines()
        elif isinstance(one, ast.Constant) and isinstance(one.value, str) and id(one) not in within:
            yield from one.value.splitlines()


def nowhere(line: str, *, printed: bool) -> list[str]:
    """The commands of a line that reach whatever namespace the reader's context has."""
    patterns = (CHANGES, SHOWN) if printed else (CHANGES,)
    found = [match[0] for pattern in patterns for match in pattern.finditer(line)]
    return [one for one in found if not re.search(r" (?:-n|-A)\b", one)]


def test_every_command_names_the_namespace_of_its_object() -> None:
    found = [
        f"{file.relative_to(ROOT)}: {command}"
        for file in files()
        if "design" not in file.parts
        for line in lines_of(file)
        for command in nowhere(line, printed=bool({*file.relative_to(ROOT).parts} & {*PRINTED}))
    ]
    assert not found


def test_a_command_without_a_namespace_is_found() -> None:
    for wrong in ("kubectl annotate {} {} {}=true", "restart it: kubectl delete pod {}", "kubectl kafka-medic show {}"):
        assert nowhere(wrong, printed=True)
    for right in ("kubectl annotate {} {} -n {} {}=true", "kubectl get kmp {} -o yaml", "kubectl kafka-medic list -A"):
        assert not nowhere(right, printed=True)
