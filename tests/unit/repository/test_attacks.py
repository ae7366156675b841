"""Each attack in docs/security.md names a test that exists, and the table is sorted by topic."""

from __future__ import annotations

import re

from tests.unit.resources.sources import ROOT

ROW = re.compile(r"^\| (\w+) \|.*\| `(?:(tests/\S+/))?(\w+\.py)::(\w+)` \|$", re.MULTILINE)


def test_the_attacks_are_tested_and_sorted() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    rows = ROW.findall(text)
    assert len(rows) == text.count("::test_") > 40
    for _, folder, file, name in rows:
        assert f"def {name}(" in (ROOT / (folder or "tests/integration") / file).read_text(), name
    topics = [row[0].lower() for row in rows]
    assert topics == sorted(topics)
