"""What the types take, what they refuse, and what they say about it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pytest
import yaml

from kafka_medic.resources.approval import RemediationApproval
from kafka_medic.resources.base import Resource
from kafka_medic.resources.conditions import Condition, find_condition, set_condition
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.playbook import Parameter, Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_status import RemediationStatus, saved_from
from kafka_medic.resources.selectors import LabelSelector
from kafka_medic.resources.vocabulary import RemediationMode
from tests.unit.resources.refused import REFUSED, Refused
from tests.unit.resources.sources import DIGEST, NOW, ROOT, changed, documents, smallest

KINDS: Mapping[str, type[Resource]] = {
    kind.KIND: kind for kind in (KafkaCluster, Playbook, Remediation, RemediationApproval)
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_smallest_object_of_each_kind_is_taken_and_survives_a_round_trip(kind: str) -> None:
    parsed = KINDS[kind].parse(smallest(kind))
    assert KINDS[kind].parse(parsed.to_kubernetes()) == parsed
    assert KINDS[kind].parse(yaml.safe_load(yaml.safe_dump(parsed.to_kubernetes()))) == parsed


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_bad_field_is_refused_by_its_path(case: Refused) -> None:
    with pytest.raises(ResourceError) as caught:
        KINDS[case.kind].parse(case.object)
    assert any(problem.path.startswith(case.named) for problem in caught.value.problems), str(caught.value)
    assert len(caught.value.problems) == 1, str(caught.value)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_each_example_is_good(path) -> None:
    parsed = [KINDS[one["kind"]].parse(one) for one in documents(path) if one["kind"] in KINDS]
    assert parsed


def test_every_problem_is_told_at_once_and_none_of_them_quotes_the_input() -> None:
    secret = "hunter2hunter2"
    raw = changed("KafkaCluster", "spec.security.sasl", {"mechanism": secret, "password": secret, "secretRef": secret})
    with pytest.raises(ResourceError) as caught:
        KafkaCluster.parse(raw)
    error = caught.value
    assert {problem.path for problem in error.problems} == {
        "spec.security.sasl.mechanism",
        "spec.security.sasl.password",
        "spec.security.sasl.secretRef",
    }
    assert all(problem.way_out for problem in error.problems)
    assert secret not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None, "a chained validation error would be printed with the traceback"


def test_an_unknown_key_comes_with_the_nearest_known_one() -> None:
    with pytest.raises(ResourceError, match=r"minInsyncReplicas: .*did you mean minInSyncReplicas"):
        KafkaCluster.parse(changed("KafkaCluster", "spec.expectations.minInsyncReplicas", 1))


def test_only_the_api_servers_spelling_is_taken() -> None:
    with pytest.raises(ResourceError, match="bootstrap_servers"):
        KafkaCluster.parse(changed("KafkaCluster", "spec.bootstrap_servers", "a:1"))


@pytest.mark.parametrize("raw", [None, [], "text", 1])
def test_what_is_no_mapping_is_refused(raw: object) -> None:
    with pytest.raises(ResourceError, match="not a mapping"):
        KafkaCluster.parse(raw)


def test_a_read_only_view_is_taken() -> None:
    assert KafkaCluster.parse(MappingProxyType(smallest("KafkaCluster"))).name == "orders"


def test_another_version_is_refused() -> None:
    raw = smallest("KafkaCluster") | {"apiVersion": "kafkamedic.dev/v1"}
    with pytest.raises(ResourceError, match="apiVersion"):
        KafkaCluster.parse(raw)


def test_what_was_left_out_has_the_designed_defaults() -> None:
    spec = KafkaCluster.parse(smallest("KafkaCluster")).spec
    assert (spec.expectations.replication_factor, spec.expectations.min_in_sync_replicas) == (3, 2)
    assert spec.remediation.mode is RemediationMode.APPROVE
    assert spec.remediation.approvals.required == 1
    assert not spec.remediation.approvals.allow_requester
    assert not spec.probes.canary.enabled
    assert spec.metadata.zookeeper is None


def test_objects_cannot_be_changed_in_place() -> None:
    parsed = KafkaCluster.parse(smallest("KafkaCluster"))
    with pytest.raises(ValueError, match="frozen"):
        parsed.spec.bootstrap_servers = "other:1"  # type: ignore[misc]


def test_one_playbook_can_have_a_mode_of_its_own() -> None:
    overrides = [{"name": "careful", "mode": "Observe"}, {"name": "tuned", "parameters": {"batch": 5}}]
    policy = KafkaCluster.parse(changed("KafkaCluster", "spec.remediation.playbooks", overrides)).spec.remediation
    assert policy.mode_for("careful") is RemediationMode.OBSERVE
    assert policy.mode_for("tuned") is RemediationMode.APPROVE
    assert policy.override("tuned") is not None
    assert policy.mode_for("unnamed") is RemediationMode.APPROVE


def test_the_shipped_playbook_is_good_and_its_digest_is_over_all_of_it() -> None:
    (raw,) = documents(ROOT / "playbooks" / "raise-replication-factor.yaml")
    playbook = Playbook.parse(raw)
    assert playbook.digest() == Playbook.parse(playbook.to_kubernetes()).digest()
    raw["spec"]["steps"][0]["verify"]["consecutive"] = 2
    changed = Playbook.parse(raw)
    assert changed.digest() != playbook.digest()
    assert playbook.model_copy(update={"spec": changed.spec}).digest() == changed.digest()
    assert playbook.spec.parameter("throttleBytesPerSecond") is not None


def test_server_side_defaults_do_not_change_a_playbooks_digest() -> None:
    raw = smallest("Playbook")
    before = Playbook.parse(raw).digest()
    raw["spec"]["steps"][0]["onFailure"] = "Pause"
    raw["metadata"] |= {"uid": "u-1", "labels": {"helm.sh/chart": "x"}, "managedFields": [{"manager": "helm"}]}
    assert Playbook.parse(raw).digest() == before


@pytest.mark.parametrize(
    ("type_", "given", "read"),
    [
        ("integer", 5, 5),
        ("integer", "5", 5),
        ("boolean", "true", True),
        ("boolean", "false", False),
        ("duration", "5m", "5m"),
        ("string", "x", "x"),
        ("string", 5, "5"),
    ],
)
def test_a_parameter_reads_its_value(type_: str, given: int | str, read: object) -> None:
    assert Parameter(name="a", type=type_).read(given) == read  # type: ignore[arg-type]


@pytest.mark.parametrize(("type_", "given"), [("integer", "x"), ("boolean", "yes"), ("boolean", 1), ("duration", "5")])
def test_a_parameter_refuses_what_does_not_fit(type_: str, given: int | str) -> None:
    with pytest.raises(ValueError, match="parameter a"):
        Parameter(name="a", type=type_).read(given)  # type: ignore[arg-type]


def test_status_keeps_the_difference_between_unset_and_empty() -> None:
    entry = {
        "id": "throttle-1",
        "step": "add-replicas",
        "kind": "SetThrottle",
        "state": "Intended",
        "intendedAt": NOW,
        "saved": [{"name": "rate"}, {"name": "replicas", "value": ""}],
    }
    status = RemediationStatus.model_validate({"phase": "Running", "journal": [entry]})
    assert status.journal[0].saved_values() == {"rate": None, "replicas": ""}
    assert saved_from({"replicas": "", "rate": None}) == status.journal[0].saved
    assert status.to_kubernetes()["journal"][0]["saved"] == [{"name": "rate"}, {"name": "replicas", "value": ""}]


def test_moments_are_written_in_utc() -> None:
    plan = {"digest": DIGEST, "proposedAt": "2026-01-31T09:00:00+01:00", "expiresAt": "2026-01-31T09:00:00.5+00:00"}
    written = RemediationStatus.model_validate({"plan": plan}).to_kubernetes()["plan"]
    assert written["proposedAt"] == NOW
    assert written["expiresAt"] == "2026-01-31T09:00:00.500000Z"


def _condition(status: str, at: str) -> Condition:
    return Condition.model_validate({"type": "Ready", "status": status, "reason": "Why", "lastTransitionTime": at})


def test_a_condition_keeps_its_moment_while_its_status_stays() -> None:
    first = set_condition((), _condition("True", NOW))
    again = set_condition(first, _condition("True", "2026-02-01T00:00:00Z"))
    assert again == first
    turned = set_condition(again, _condition("Unknown", "2026-02-01T00:00:00Z"))
    assert len(turned) == 1
    assert turned[0].to_kubernetes()["lastTransitionTime"] == "2026-02-01T00:00:00Z"
    assert find_condition(turned, "Ready") == turned[0]
    assert find_condition(turned, "Reachable") is None


@pytest.mark.parametrize(
    ("expression", "labels", "matches"),
    [
        ({"key": "a", "operator": "In", "values": ["1", "2"]}, {"a": "1"}, True),
        ({"key": "a", "operator": "In", "values": ["1"]}, {}, False),
        ({"key": "a", "operator": "NotIn", "values": ["1"]}, {}, True),
        ({"key": "a", "operator": "NotIn", "values": ["1"]}, {"a": "1"}, False),
        ({"key": "a", "operator": "Exists"}, {"a": ""}, True),
        ({"key": "a", "operator": "DoesNotExist"}, {"a": ""}, False),
    ],
)
def test_selectors_match_as_in_kubernetes(expression: dict, labels: dict, matches: bool) -> None:
    assert LabelSelector.model_validate({"matchExpressions": [expression]}).matches(labels) is matches


def test_a_selector_writes_its_query() -> None:
    raw = {
        "matchLabels": {"b": "2", "a": "1"},
        "matchExpressions": [
            {"key": "c", "operator": "NotIn", "values": ["3", "4"]},
            {"key": "d", "operator": "In", "values": ["5"]},
            {"key": "e", "operator": "Exists"},
            {"key": "f", "operator": "DoesNotExist"},
        ],
    }
    assert LabelSelector.model_validate(raw).to_query() == "a=1,b=2,c notin (3,4),d in (5),e,!f"
