"""What the operator may do itself, as the API server answers."""

from __future__ import annotations

from typing import Any

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.clients.own_rights import KEPT, OwnRights
from tests.simulation.api import SimApi

ASKED = ("kafka.strimzi.io", "kafkatopics", "patch")


def test_a_single_right_is_asked_once_a_minute_and_a_silence_takes_nothing_back():
    api, now = SimApi(), [0.0]
    rights = OwnRights(api, "ns", lambda: now[0])  # type: ignore[arg-type]
    assert rights.may(*ASKED) is True
    api.rules = []
    assert rights.may(*ASKED) is True, "kept"
    now[0] = KEPT
    assert rights.may(*ASKED) is False
    answers = api.create

    def silent(*_: Any) -> Any:
        raise ApiFailure(0, "no answer")

    api.create = silent  # type: ignore[method-assign]
    now[0] = 2 * KEPT
    assert rights.may(*ASKED) is False, "as it was answered last"
    assert rights.may("", "pods", "list") is None
    api.create = answers  # type: ignore[method-assign]
    now[0] = 3 * KEPT
    assert rights.may("", "pods", "list") is False
