"""What holds for the whole repository and no linter checks."""

from __future__ import annotations

import ast
import operator
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "operator" / "kafka_medic"
PURE = ("cluster", "resources", "diagnose", "fleet", "guard", "plan", "playbook")
CLOCKS = {("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today"), ("date", "today"), ("time", "time")}
# In two parts, so that this file does not name them either.
REGISTRIES = tuple(
    "".join(parts)
    for parts in (
        ("pypi", ".org"), ("python", "hosted"), ("repo", ".maven"), ("repo1", ".maven"),
        ("registry", ".npmjs"), ("proxy", ".golang.org"), ("crates", ".io"), ("docker", ".io"),
    )
)  # fmt: skip


def files() -> list[Path]:
    """What git holds or would take in."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_the_directory_operator_does_not_shadow_the_standard_library():
    assert not (ROOT / "operator" / "__init__.py").exists()
    assert operator.itemgetter(0)("a") == "a"
    told = subprocess.run(
        [sys.executable, "-c", "import operator; print(operator.__file__)"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert not Path(told.strip()).is_relative_to(ROOT / "operator")


def test_the_source_root_holds_exactly_the_package():
    kept = {p.name for p in (ROOT / "operator").iterdir() if p.name != "__pycache__"}
    assert kept == {"kafka_medic"}


def test_what_check_leaves_out_simulate_runs():
    """Wherever a test is marked `thorough`, or does more where THOROUGH is set."""
    told = subprocess.run(
        ["make", "--dry-run", "simulate"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout  # fmt: skip
    (line,) = (line for line in told.splitlines() if line.startswith("THOROUGH=1 "))
    run = [ROOT / word for word in line.split() if word.startswith("tests/")]
    tests = [p for folder in ("unit", "scenario", "property") for p in (ROOT / "tests" / folder).rglob("test_*.py")]
    left_out = [p for p in tests if p != Path(__file__) and "thorough" in p.read_text().lower()]
    assert len(left_out) > 20
    assert [p for p in left_out if not any(p.is_relative_to(folder) for folder in run)] == []


def test_what_check_runs_make_test_runs():
    """Once, in one of its two parts that need no testbed."""
    told = subprocess.run(
        ["make", "--dry-run", "beside-simulate", "simulate"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout  # fmt: skip
    beside = next(line for line in told.splitlines() if "--ignore=" in line).split()
    simulated = next(line for line in told.splitlines() if line.startswith("THOROUGH=1 ")).split()
    ignored = {word.removeprefix("--ignore=") for word in beside if word.startswith("--ignore=")}
    assert ignored == {word for word in simulated if word.startswith("tests/")}
    whole = {word for word in (*beside, *simulated) if word.startswith("tests/")}
    assert {"tests/unit", "tests/scenario", "tests/property"} <= whole


def test_no_file_names_a_package_registry():
    """Where packages come from is the user's configuration, not ours."""
    found = []
    for path in files():
        content = path.read_bytes()
        found += [f"{path.relative_to(ROOT)}: {host}" for host in REGISTRIES if host.encode() in content]
    assert found == []


@pytest.mark.parametrize("room", PURE)
def test_a_pure_room_reads_no_clock(room):
    found = []
    for path in (PACKAGE / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            owner = node.func.value
            holder = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
            if (holder, node.func.attr) in CLOCKS:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert found == []
