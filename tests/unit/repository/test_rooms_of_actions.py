"""An action is known in its own room and in the registry, and nowhere else."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from kafka_medic.playbook.changes import CHANGES
from kafka_medic.playbook.registry import ACTIONS, SEQUENCES
from kafka_medic.resources.vocabulary import ActionName

PACKAGE = Path(__file__).parents[3] / "operator" / "kafka_medic"
KNOWS_ALL = {PACKAGE / "playbook" / "registry.py", PACKAGE / "resources" / "vocabulary.py"}
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path not in KNOWS_ALL)


def room(action: ActionName) -> Path:
    return Path(inspect.getfile(type(ACTIONS[action]))).parent


@pytest.mark.parametrize("action", ActionName)
def test_nobody_else_names_it(action):
    """Neither its name in the vocabulary nor its class."""
    own = type(ACTIONS[action]).__name__
    found = []
    for path in FILES:
        if path.is_relative_to(room(action)):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            named = isinstance(node, ast.Attribute) and (node.attr == action.name or node.attr == own)
            imported = isinstance(node, ast.ImportFrom) and own in {alias.name for alias in node.names}
            written = isinstance(node, ast.Constant) and node.value == action.value
            if named or imported or written:
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert found == []


def test_every_room_is_a_package_beside_the_engine():
    assert {room(action).parent for action in ActionName} == {PACKAGE / "playbook"}


def test_every_action_is_in_a_sequence_and_whoever_leads_one_plans():
    assert {action for sequence in SEQUENCES for action in sequence} == set(ActionName)
    for sequence, leader in SEQUENCES.items():
        assert leader in sequence
        assert "plan" in {name for base in type(ACTIONS[leader]).__mro__[:-2] for name in vars(base)}, leader


def test_people_are_shown_what_every_action_changes():
    assert set(CHANGES) == set(ActionName)
    assert not [action.name for action in ACTIONS.values() if hasattr(action, "changes")]
