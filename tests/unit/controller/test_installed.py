"""What `helm test`, `helm install` and `helm uninstall` check, each with what they say where it is not so."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.controller import installed
from kafka_medic.controller.installed import main
from kafka_medic.controller.metrics import Metrics
from kafka_medic.resources.definitions import DEFINITIONS
from kafka_medic.resources.vocabulary import RESTORE_FINALIZER
from tests.unit.resources.sources import ROOT, documents

PLAYBOOKS = [one for file in sorted((ROOT / "playbooks").glob("*.yaml")) for one in documents(file)]
ACCEPTED = {
    "type": "Accepted",
    "status": "True",
    "reason": "Accepted",
    "message": "",
    "lastTransitionTime": "2026-01-01T12:00:00Z",
}


class Api:
    """An API server that serves these kinds and holds these objects."""

    def __init__(self, kinds: list[str] | None, objects: list[dict[str, Any]] | None = None) -> None:
        self.kinds, self.objects, self.asked = kinds, objects or [], 0

    def get(self, path: str, query: Any = None) -> dict[str, Any]:
        self.asked += 1
        assert path == "/apis/kafkamedic.dev/v1alpha1"
        if self.kinds is None:
            raise ApiFailure(404, "not found")
        return {"resources": [{"name": kind} for kind in self.kinds]}

    def list(self, path: str, query: Any = None) -> list[dict[str, Any]]:
        namespace = path.split("/namespaces/")[1].partition("/")[0] if "/namespaces/" in path else None
        plural = path.rsplit("/", 1)[-1]
        mine = [o for o in self.objects if f"{o.get('kind', 'Remediation').lower()}s" == plural]
        return [o for o in mine if namespace in (None, o["metadata"].get("namespace"))]


EVERY = [d.resource.PLURAL for d in DEFINITIONS]


def test_definitions_that_are_not_served(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["definitions"], Api(None)) == 1  # type: ignore[arg-type]
    assert "serves no kafkamedic.dev/v1alpha1; apply crds/" in capsys.readouterr().err
    assert main(["definitions"], Api(EVERY[1:])) == 1  # type: ignore[arg-type]
    assert "does not serve kafkaclusters of" in capsys.readouterr().err
    assert main(["definitions"], Api([*EVERY, "kafkaclusters/status"])) == 0  # type: ignore[arg-type]


def test_it_waits_for_what_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(None)

    def appear(seconds: float) -> None:
        api.kinds = EVERY

    monkeypatch.setattr(installed.time, "sleep", appear)
    assert main(["--wait=10s", "definitions"], api) == 0  # type: ignore[arg-type]
    assert api.asked == 2


def test_playbooks_that_are_not_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["playbooks"], Api(EVERY)) == 1  # type: ignore[arg-type]
    assert "no Playbook exists" in capsys.readouterr().err
    good = [one | {"status": {"conditions": [ACCEPTED]}} for one in PLAYBOOKS]
    assert main(["playbooks"], Api(EVERY, good)) == 0  # type: ignore[arg-type]
    bad = ACCEPTED | {"status": "False", "message": "spec.steps[0] is odd"}
    for status, words in (({}, "has not read it yet"), ({"conditions": [bad]}, "spec.steps[0] is odd")):
        assert main(["playbooks"], Api(EVERY, [good[0] | {"status": status}, *good[1:]])) == 1  # type: ignore[arg-type]
        assert words in capsys.readouterr().err


def test_policies_that_the_chart_did_not_render(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policies"], Api(EVERY)) == 1  # type: ignore[arg-type]
    assert "without the chart's policies" in capsys.readouterr().err


def test_metrics_of_this_version_and_of_another(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, port = Metrics().serve(0)
    url = f"metrics=http://127.0.0.1:{port}/metrics"
    try:
        assert main([url], Api(EVERY)) == 0  # type: ignore[arg-type]
        monkeypatch.setattr(importlib.metadata, "version", lambda _: "9.9.9")
        assert main([url], Api(EVERY)) == 1  # type: ignore[arg-type]
        assert "reports another version than this image (9.9.9)" in capsys.readouterr().err
    finally:
        stop()
    assert main([url], Api(EVERY)) == 1  # type: ignore[arg-type]
    assert "does not answer" in capsys.readouterr().err
    assert main(["metrics=http://medic-metrics.ops.svc.invalid:1/metrics"], Api(EVERY)) == 1  # type: ignore[arg-type]
    assert "`kubectl get pods -n ops`" in capsys.readouterr().err


def test_a_run_that_has_to_take_something_back_keeps_the_operator(capsys: pytest.CaptureFixture[str]) -> None:
    held = {"metadata": {"namespace": "kafka", "name": "raise-1", "finalizers": [RESTORE_FINALIZER]}}
    free = {"metadata": {"namespace": "kafka", "name": "raise-2"}}
    assert main(["nothing-owed"], Api(EVERY, [free])) == 0  # type: ignore[arg-type]
    for options in ([], ["--watch-namespaces=other,kafka"]):
        assert main([*options, "nothing-owed"], Api(EVERY, [held, free])) == 1  # type: ignore[arg-type]
        told = capsys.readouterr().err
        assert "kafka/raise-1" in told
        assert "raise-2" not in told
        assert "kubectl kafka-medic abort" in told
    assert main(["--watch-namespaces=other", "nothing-owed"], Api(EVERY, [held])) == 0  # type: ignore[arg-type]
    cluster = {"kind": "KafkaCluster", "metadata": held["metadata"] | {"name": "orders"}}
    assert main(["nothing-owed"], Api(EVERY, [cluster])) == 1, "it would block its namespace too"  # type: ignore[arg-type]
    assert "KafkaCluster kafka/orders" in capsys.readouterr().err


def test_what_is_asked_for_has_to_be_known(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["weather"], Api(EVERY))  # type: ignore[arg-type]
    assert "'weather' is not one of definitions, playbooks, policies, nothing-owed" in capsys.readouterr().err
