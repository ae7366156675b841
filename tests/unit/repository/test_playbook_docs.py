"""docs/playbooks.md says what the code knows: actions, parameters, probes, guards, sequences and fields."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kafka_medic.guard.cluster_wide import CLUSTER_WIDE
from kafka_medic.playbook.acceptance import check
from kafka_medic.playbook.action import EVERY_EFFECT
from kafka_medic.playbook.registry import ACTIONS, SEQUENCES
from kafka_medic.resources.playbook import Parameter, Playbook, PlaybookSpec, Step, Trigger

TEXT = (Path(__file__).parents[3] / "docs" / "playbooks.md").read_text()


def section(title: str) -> list[str]:
    """The lines of one section, without those under headings of its own."""
    _, _, after = TEXT.partition(f"\n{title}\n")
    assert after, title
    return after.split("\n#", maxsplit=1)[0].splitlines()


def table(title: str) -> dict[str, list[str]]:
    """By first cell: the others, of each row of the section's table."""
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in section(title) if line.startswith("| ")]
    return {first.strip("`"): rest for first, *rest in rows[2:]}


def test_the_playbook_on_the_page_is_accepted():
    check(Playbook.model_validate(yaml.safe_load(TEXT.partition("```yaml\n")[2].partition("```")[0])))


def test_every_action_has_its_parameters_and_its_probe():
    rows = table("## Actions")
    assert {name: cells[1:] for name, cells in rows.items()} == {
        a.name.value: [", ".join(sorted(a.parameters)) or "none", a.probe.value] for a in ACTIONS.values()
    }


def test_every_action_has_the_guards_that_it_demands():
    lines = section("### Guards that are always checked")
    assert all(any(g.value in line for line in lines) for g in EVERY_EFFECT)
    rows = table("### Guards that are always checked")
    assert {name: set(cells[0].split(", ")) for name, cells in rows.items()} == {
        a.name.value: {g.value for g in a.asked - frozenset(EVERY_EFFECT)} for a in ACTIONS.values() if not a.gives_back
    }


def test_every_guard_that_can_be_added_is_there_and_for_which_actions_it_is_not():
    rows = table("### Guards that you can add")
    assert {name: cells[1] for name, cells in rows.items()} == {
        g.value: ", ".join(
            a.name.value
            for a in ACTIONS.values()
            if g not in a.addable | a.asked and not a.gives_back
        ) or "-"
        for g in CLUSTER_WIDE
    }  # fmt: skip


def test_the_sequences_are_those_that_can_be_planned():
    told = [line[2:].split(", then ") for line in section("### Sequences") if line.startswith("- ")]
    assert told == [[a.value for a in s] for s in SEQUENCES]


@pytest.mark.parametrize(
    ("title", "model", "prefix"), [("## The fields", PlaybookSpec, "spec."), ("## Triggers", Trigger, "")]
)
def test_every_field_is_there(title, model, prefix):
    told = {name for name in table(title) if name.startswith(prefix)}
    assert {prefix + (f.alias or n) for n, f in model.model_fields.items()} <= told


def test_fields_of_steps_and_parameters_are_there():
    lines = "\n".join(section("## The fields"))
    for model in (Step, Parameter):
        names = [field.alias or name for name, field in model.model_fields.items()]
        assert all(f"`{name}`" in lines for name in names), names
