"""Each alert fires for its cause and not for the twin; each panel has an answer in what the operator exposes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.chart.series import alerts, exposed, queries, variables
from tests.unit.resources.sources import CHART

RULES = CHART / "files" / "alerts.yaml"
NEVER_BY_THEMSELVES = {
    # no answer while all is well: other states of what is exposed
    "alert KafkaMedicAbsent", "alert KafkaMedicClusterNotReconciled", "alert KafkaMedicNoLeaseHolder",
    "alert KafkaLeaderless", "alert KafkaCanarySlow", "alert KafkaConsumerBeyondLogEnd",
    "alert KafkaRemediationWaitsForApproval", "alert KafkaRemediationHeld", "alert KafkaRemediationEffectsFail",
    "alert KafkaBreakerOpen",
}  # fmt: skip


def promtool(tools: Path, *arguments: str | Path) -> str:
    done = subprocess.run([tools / "promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_takes_the_rules(tools: Path) -> None:
    assert f"{len(alerts())} rules found" in promtool(tools, "check", "rules", "--lint=all", "--lint-fatal", RULES)


def test_each_alert_fires_for_its_cause_and_not_for_its_twin(tools: Path, tmp_path: Path) -> None:
    source = (Path(__file__).parent / "alerts.yaml").read_text()
    tested = {
        one["alertname"]
        for test in yaml.safe_load(source)["tests"]
        for one in test["alert_rule_test"]
        if one["exp_alerts"]
    }
    assert tested == {alert["alert"] for alert in alerts()}
    file = tmp_path / "tests.yaml"
    file.write_text(source.replace("[RULES]", f"[{RULES}]"))
    promtool(tools, "test", "rules", file)


def test_what_the_chart_renders_is_the_same_but_for_the_place_of_the_runbooks(rendered) -> None:
    settings = ("metrics.prometheusRule.enabled=true", "metrics.prometheusRule.runbookUrl=https://wiki/alerts")
    own = ("metrics.prometheusRule.disabled={KafkaCanarySlow}", "metrics.prometheusRule.alertLabels.team=kafka")
    (rule,) = (o for o in rendered(*settings, *own) if o["kind"] == "PrometheusRule")
    (group,) = rule["spec"]["groups"]
    wanted = [alert for alert in alerts() if alert["alert"] != "KafkaCanarySlow"]
    for alert in wanted:
        alert["labels"] |= {"team": "kafka"}
        notes = alert["annotations"]
        notes["runbook_url"] = notes["runbook_url"].replace("RUNBOOKS", "https://wiki/alerts")
    assert group["rules"] == wanted


@pytest.fixture(scope="module")
def answers(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bool]:
    """Which queries have an answer, by the real PromQL, over half an hour of the operator's own series."""
    scraped = {"job": "kafka-medic", "instance": "10.0.0.1:8081"}
    series = []
    for name, samples in exposed().items():
        for labels, value in samples:
            pairs = ",".join(f'{k}="{v}"' for k, v in sorted({**labels, **scraped}.items()))
            grows = name.endswith(("_total", "_bucket", "_count"))
            series.append({"series": f"{name}{{{pairs}}}", "values": f"{value}+{value if grows else 0}x30"})
    asked = {q.place: q.expr for q in queries()} | {p: f"count by ({label}) ({s})" for p, s, label in variables()}
    found = {}
    for place, expr in asked.items():
        test: dict[str, Any] = {"interval": "1m", "input_series": series}
        test["promql_expr_test"] = [
            {"expr": f"count({expr}) >= bool 1", "eval_time": "20m", "exp_samples": [{"labels": "{}", "value": 1}]}
        ]
        found[place] = test
    folder = tmp_path_factory.mktemp("promql")
    told = {}
    for number, (place, test) in enumerate(found.items()):
        file = folder / f"{number}.yaml"
        file.write_text(yaml.safe_dump({"tests": [test]}))
        done = subprocess.run([tools / "promtool", "test", "rules", file], capture_output=True, text=True, check=False)
        assert "parse error" not in done.stdout + done.stderr, f"{place}: {done.stdout}{done.stderr}"
        told[place] = done.returncode == 0
    return told


def test_every_panel_and_variable_has_an_answer(answers: dict[str, bool]) -> None:
    assert len(answers) > 60
    assert {place for place, there in answers.items() if not there} <= NEVER_BY_THEMSELVES


def test_a_panel_of_a_series_that_nobody_exposes_has_none(tools: Path, tmp_path: Path) -> None:
    file = tmp_path / "test.yaml"
    test = {"interval": "1m", "input_series": [{"series": "a", "values": "1x30"}]}
    test["promql_expr_test"] = [
        {"expr": "count(b) >= bool 1", "eval_time": "20m", "exp_samples": [{"labels": "{}", "value": 1}]}
    ]
    file.write_text(yaml.safe_dump({"tests": [test]}))
    assert subprocess.run([tools / "promtool", "test", "rules", file], capture_output=True, check=False).returncode != 0
