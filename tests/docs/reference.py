"""Writes docs/reference/ from the code, the CustomResourceDefinitions, the Playbooks and the chart.

    python -m tests.docs.reference          # write the pages; `make reference`

A test compares the pages with the code (tests/unit/repository/test_reference.py).
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.core import Metric

from kafka_medic.cli import main as command
from kafka_medic.cli.remediation.explain import WHAT_TO_DO
from kafka_medic.cluster.clock import Skew
from kafka_medic.controller.metrics import Metrics
from kafka_medic.controller.status import CONDITION_OF, NEEDED, SOURCES_OF
from kafka_medic.guard.cluster_wide import CLUSTER_WIDE
from kafka_medic.playbook.registry import ACTIONS, takes_back
from kafka_medic.resources.definitions import DEFINITIONS
from kafka_medic.resources.phases import LEGAL_TRANSITIONS, Phase
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.vocabulary import FindingType, Guard

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"
DIAGNOSIS = ROOT / "operator" / "kafka_medic" / "diagnose"
HEADER = "<!-- Written by `make reference` from {source}. Change it there. -->\n\n"


def write() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    pages = rendered()
    for old in FOLDER.glob("*.md"):
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def rendered() -> dict[str, str]:
    """The text of each page, by file name."""
    return {f"{name}.md": HEADER.format(source=source) + page() for name, (source, page) in PAGES.items()}


# -- findings, guards, phases, playbooks -------------------------------------------------------------


def _playbooks() -> list[dict[str, Any]]:
    files = sorted((ROOT / "playbooks").glob("*.yaml"))
    return [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]


def _proposed(playbook: Mapping[str, Any]) -> bool:
    """Whether the operator proposes it: the diagnosis names it, or it takes a drain back."""
    named = (f'"{playbook["metadata"]["name"]}"' in file.read_text(encoding="utf-8") for file in DIAGNOSIS.glob("*.py"))
    return any(named) or takes_back(Playbook.parse(playbook))


def findings() -> str:
    treated: dict[str, list[str]] = {}
    for playbook in filter(_proposed, _playbooks()):
        treated.setdefault(playbook["spec"]["trigger"]["finding"], []).append(playbook["metadata"]["name"])
    rows = []
    for finding in FindingType:
        condition = CONDITION_OF.get(finding.value, "")
        sources = SOURCES_OF.get(finding.value) or NEEDED.get(condition, ())
        names = ", ".join(f"[{n}](playbooks.md#{n})" for n in treated.get(finding.value, ()))
        rows.append((f"`{finding.value}`", condition or "none", ", ".join(sources), names or "none"))
    text = (
        "# Index of findings\n\nEvery type of finding, the condition of the KafkaCluster that it makes False, the "
        "sources that it needs, and the shipped Playbooks that the operator proposes for it. "
        "[Findings](../findings.md) explains each type.\n\n"
    )
    return text + _table(("type", "condition", "sources", "Playbooks"), rows)


def guards() -> str:
    rows = []
    for guard in sorted(Guard):
        asked = [a.name.value for a in ACTIONS.values() if guard in a.asked]
        everybody = len(asked) >= len(ACTIONS) - 1
        rows.append(
            (
                f"`{guard.value}`",
                "every action" if everybody else ", ".join(asked) or "none",
                "yes" if guard in CLUSTER_WIDE else "no",
                WHAT_TO_DO[guard],
            )
        )
    text = (
        "# Index of guards\n\nA guard answers Allow, Deny, Wait or Unknown, and only Allow permits an effect. "
        "`kubectl kafka-medic explain RUN` prints the guards that hold a run, with their reasons. "
        "[Guards](../guards.md) explains what each one requires.\n\n"
    )
    return text + _table(("guard", "checked by", "a Playbook may add it", "what you can do"), rows)


def phases() -> str:
    rows = []
    for phase in Phase:
        after = sorted(p.value for p in LEGAL_TRANSITIONS.get(phase, ()))
        rows.append((f"`{phase.value}`", ", ".join(after) or "none: the run has ended"))
    text = (
        "# Index of phases\n\nThe API server refuses every other transition. The operator does not use each of these. "
        "It ends a run that has not started as Rejected, and a run that has started as Aborted. A Remediation that is "
        "deleted ends as Aborted too. [Why is my run waiting?](../run-phases.md) explains the phases.\n\n"
    )
    return text + _table(("phase", "can become"), rows)


def playbooks() -> str:
    parts = [
        "# Shipped Playbooks\n\n`kubectl get kmp` lists the Playbooks that are installed. The time of a trigger counts "
        "from the first observation of the finding. It includes the time for which the finding is Pending.\n"
    ]
    for playbook in _playbooks():
        spec = playbook["spec"]
        trigger = spec["trigger"]
        parts.append(f"## {playbook['metadata']['name']}\n")
        parts.append(f"{spec['description'].strip()}\n")
        link = f"[{trigger['finding']}](../findings.md#{trigger['finding'].lower()})"
        when = f"{link} is Firing, and began {trigger.get('for', '0s')} ago or earlier"
        if not _proposed(playbook):
            when = "none; a person requests the run"
        elif takes_back(Playbook.parse(playbook)):
            when = f"the end of {link} after a drain"
        parts.append(f"Trigger: {when}. Risk: {spec['risk']}.\n")
        if spec.get("parameters"):
            rows = [
                (
                    f"`{p['name']}`",
                    p["type"],
                    f"`{p['default']}`" if "default" in p else "",
                    _bounds(p),
                    p["description"],
                )
                for p in spec["parameters"]
            ]
            parts.append(_table(("parameter", "type", "default", "bounds", "description"), rows))
        steps = [_step(s) for s in spec["steps"]]
        parts.append(_table(("step", "action", "probe", "times in a row", "within", "on failure"), steps))
    return "\n".join(parts)


def _step(step: Mapping[str, Any]) -> tuple[str, ...]:
    verify = step["verify"]
    in_a_row = str(verify.get("consecutive", 1))
    return step["name"], step["action"], verify["probe"], in_a_row, verify["within"], step.get("onFailure", "Pause")


def _bounds(parameter: Mapping[str, Any]) -> str:
    low, high = parameter.get("minimum"), parameter.get("maximum")
    return "" if low is None and high is None else f"{low} to {high}"


# -- resources ---------------------------------------------------------------------------------------


def resources() -> str:
    parts = ["# Resources\n\nGroup `kafkamedic.dev`, version `v1alpha1`. `kubectl explain` prints the same texts.\n"]
    for definition in DEFINITIONS:
        body = definition.to_kubernetes()
        names, scope = body["spec"]["names"], body["spec"]["scope"]
        schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        short = ", ".join(f"`{n}`" for n in names.get("shortNames", ()))
        parts.append(f"## {names['kind']}\n")
        parts.append(f"Plural `{names['plural']}`, short {short or 'none'}, {scope.lower()}.\n")
        for section in ("spec", "status"):
            if section in schema["properties"]:
                rows = list(_fields(schema["properties"][section], section))
                parts.append(_table(("field", "type", "default", "description"), rows))
    return "\n".join(parts)


def _fields(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, str, str]]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        default = field.get("default")
        shown = "" if default is None or isinstance(default, dict) else f"`{_scalar(default)}`"
        words = field.get("description", "")
        if field.get("enum"):
            words += f" One of {', '.join(f'`{v}`' for v in field['enum'])}."
        yield f"`{here}`", field.get("type", "any"), "required" if name in required else shown, words
        yield from _fields(field, here)
        if isinstance(field.get("items"), dict):
            yield from _fields(field["items"], f"{here}[]")


def _scalar(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# -- metrics -----------------------------------------------------------------------------------------


def metrics() -> str:
    owner = Metrics(lambda: Skew(0.0, 0.0), consumer_groups=True)
    labels: dict[str, Sequence[str]] = {}
    for value in vars(owner).values():
        if hasattr(value, "_labelnames") and hasattr(value, "describe"):
            labels.update({m.name: value._labelnames for m in value.describe()})
    rows = []
    ours = [m for m in owner.registry.collect() if m.name.startswith("kafka_medic_")]
    for family in sorted(ours, key=lambda m: m.name):
        names = labels.get(family.name) or getattr(family, "_labelnames", None) or ()
        rows.append((f"`{_series(family)}`", family.type, ", ".join(f"`{n}`" for n in names), family.documentation))
    text = (
        "# Metrics of the operator\n\nThe operator serves these metrics on port 8081. "
        "[Metrics, alerts and dashboards](../operator-metrics.md) explains how to use them. `kafka_medic_group_lag_*` "
        "needs `metrics.consumerGroups`. The process has `process_*` and `python_gc_*` as well.\n\n"
    )
    return text + _table(("metric", "type", "labels", "meaning"), rows)


def _series(family: Metric) -> str:
    return family.name + ("_total" if family.type == "counter" else "")


# -- command -----------------------------------------------------------------------------------------


def cli() -> str:
    parts = [
        "# The command\n\n`kafka-medic SUBCOMMAND --help` prints the same, with examples. "
        "`kubectl kafka-medic show RUN` is `kafka-medic remediation show RUN`. The same holds for every command of "
        "`remediation`.\n"
    ]
    for name, help_text, parser in _commands(command.parser(), "kafka-medic"):
        parts.append(f"## {name}\n")
        if words := parser.description or help_text:
            parts.append(f"{' '.join(words.split())}\n")
        rows = [_argument(a) for a in parser._actions if _shown(a)]
        if rows:
            parts.append(_table(("argument", "default", "meaning"), rows))
    return "\n".join(parts)


def _commands(
    parser: argparse.ArgumentParser, name: str, words: str = ""
) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not below:
        yield name, words, parser
    for action in below:
        helps = {c.dest: c.help or "" for c in action._choices_actions}
        for choice, child in action.choices.items():
            yield from _commands(child, f"{name} {choice}", helps.get(choice, ""))


def _shown(action: argparse.Action) -> bool:
    return action.help != argparse.SUPPRESS and not isinstance(action, argparse._HelpAction)


def _argument(action: argparse.Action) -> tuple[str, str, str]:
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.choices is not None:
        value = "|".join(str(c) for c in action.choices)
    takes_value = action.nargs != 0
    names = [f"{n} {value}" if takes_value else n for n in action.option_strings] or [value]
    default = action.default
    shown = "" if default in (None, False, argparse.SUPPRESS) or default == [] else f"`{default}`"
    if getattr(action, "required", False) and action.option_strings:
        shown = "required"
    words = " ".join((action.help or "").replace("%%", "%").split())
    return ", ".join(f"`{n}`" for n in names), shown, words


# -- chart -------------------------------------------------------------------------------------------

_KEY = re.compile(r"^( *)([A-Za-z][\w-]*):(?: (.*))?$")


def chart_values() -> str:
    """Each value with the comment above it. What is nested in lists or given as an example is not a value."""
    text = (ROOT / "charts" / "kafka-medic" / "values.yaml").read_text(encoding="utf-8")
    path: list[tuple[int, str]] = []
    comment: list[str] = []
    rows = []
    for line in text.splitlines():
        if line.strip().startswith("#"):
            comment.append(line.strip().removeprefix("#").removeprefix(" "))
            continue
        if (found := _KEY.match(line)) is not None:
            indent, key, value = len(found[1]), found[2], found[3]
            path = [(i, k) for i, k in path if i < indent] + [(indent, key)]
            value = "" if value is None else value.split(" #")[0]
            if value or comment:
                rows.append((f"`{'.'.join(k for _, k in path)}`", f"`{value}`" if value else "", _words(comment)))
        comment = []
    text = "# Values of the chart\n\n`helm show values charts/kafka-medic` prints them with their comments.\n\n"
    return text + _table(("value", "default", "meaning"), rows)


def _words(comment: list[str]) -> str:
    """A comment as one line; an example in it, which is indented, as code."""
    words = [f"`{line.strip()}`" if line.startswith("  ") else line for line in comment]
    return " ".join(words)


# -- writing -----------------------------------------------------------------------------------------


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(_cell(c) for c in row)} |\n" for row in lines)


def _cell(text: str) -> str:
    """In one line. A bar would end the cell; outside of code a star begins emphasis and a bracket HTML."""
    pieces = re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split())).split("`")
    pieces[::2] = [p.replace("*", r"\*").replace("<", "&lt;") for p in pieces[::2]]
    return "`".join(pieces)


PAGES: Mapping[str, tuple[str, Callable[[], str]]] = {
    "findings": ("operator/kafka_medic/controller/status.py and playbooks/", findings),
    "guards": ("operator/kafka_medic/playbook and operator/kafka_medic/cli/remediation/explain.py", guards),
    "phases": ("operator/kafka_medic/resources/phases.py", phases),
    "playbooks": ("playbooks/", playbooks),
    "resources": ("operator/kafka_medic/resources", resources),
    "metrics": ("operator/kafka_medic/controller/metrics.py", metrics),
    "command": ("operator/kafka_medic/cli", cli),
    "chart-values": ("charts/kafka-medic/values.yaml", chart_values),
}

if __name__ == "__main__":
    write()
    sys.exit(0)
