"""A plan in parts, whose document is flat."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_medic.resources.base import parse
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.remediation_plan import (
    PARTS,
    BrokerRestart,
    Elections,
    Plan,
    PlanHeader,
    Resignation,
    Resignations,
    Restarts,
)

HEADER: dict[str, Any] = {
    "digest": "sha256:" + "0" * 64,
    "proposedAt": "2026-01-01T00:00:00Z",
    "expiresAt": "2026-01-02T00:00:00Z",
}
RESTART = {"broker": 1, "pod": "kafka-1", "podUid": "u"}


def plan(**fields: Any) -> Plan:
    return parse(Plan, HEADER | fields)


def test_it_holds_only_parts_that_hold_something():
    assert plan().parts == plan(restarts=[], elections=[], waves=None).parts == ()
    found = plan(restarts=[RESTART])
    assert found.parts == (Restarts(restarts=(BrokerRestart(broker=1, pod="kafka-1", pod_uid="u"),)),)
    assert found.part(Elections) == Elections()


def test_a_part_takes_the_place_of_the_one_of_its_kind():
    found = plan(restarts=[RESTART], moves=3)
    resigns = Resignations(resignations=(Resignation(broker=1, epoch=2),))
    assert found.with_parts(resigns).parts == (*found.parts, resigns)
    assert found.with_parts(Restarts(), resigns).parts == (resigns,)
    assert found.with_parts(Restarts()) == plan(moves=3)


def test_fields_that_are_not_set_are_written_where_they_are_lists():
    lists = [name for name, value in plan().to_kubernetes().items() if value == []]
    assert " ".join(lists) == (
        "steps changes configChanges restarts staticSettings rescues reorders elections offsets drains resignations "
        "topics preconditions"
    )


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"parts": []}, "parts: is not a known field"),
        ({"static_settings": []}, "static_settings: is not a known field; did you mean staticSettings?"),
        ({"restarts": [{"broker": 1}]}, "restarts[0].pod: is missing"),
        ({"restarts": [RESTART | {"podUuid": "u"}]}, "restarts[0].podUuid: is not a known field; did you mean podUid?"),
        ({"workload": {"kind": "DaemonSet"}}, "workload.kind: is not an allowed value"),
    ],
)
def test_what_is_wrong_is_told_by_its_place_in_the_document(fields, told):
    with pytest.raises(ResourceError) as refused:
        plan(**fields)
    assert told in str(refused.value)


def test_a_parts_field_is_no_field_of_the_plan():
    assert not hasattr(plan(restarts=[RESTART]), "restarts")
    with pytest.raises(TypeError, match="restarts"):
        plan().model_copy(update={"restarts": ()})


def test_every_part_says_nothing_by_default_and_shares_no_field():
    names = [name for kind in (PlanHeader, *PARTS) for name in kind.model_fields]
    assert len(names) == len(set(names)) == len(Plan.document_fields())
    for kind in PARTS:
        assert set(kind().topics()) == set(kind().touched()) == set()
