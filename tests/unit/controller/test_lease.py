"""One writer: a lease is taken over only when it has stood still for its whole duration by our own clock."""

from __future__ import annotations

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.controller.lease import DURATION_SECONDS, ClusterLease
from tests.simulation.api import SimApi

PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/kafka-medic-c"


class Clock:
    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


CLOCK = Clock()


@pytest.fixture
def clock():
    return CLOCK


@pytest.fixture
def api():
    return SimApi()


def lease(api, who):
    return ClusterLease(api, "ns", "c", "c-uid", who, CLOCK.monotonic)


def spec(api):
    return api.get(PATH)["spec"]


def test_the_first_takes_it_and_renews_it_and_the_second_waits(api, clock):
    one, two = lease(api, "one"), lease(api, "two")
    assert one.hold() is True
    taken = spec(api)["acquireTime"]
    assert two.hold() is False
    assert one.hold() is True
    assert spec(api)["holderIdentity"] == "one"
    assert spec(api)["acquireTime"] == taken
    assert spec(api)["leaseTransitions"] == 0
    assert api.get(PATH)["metadata"]["ownerReferences"][0]["uid"] == "c-uid"


def test_one_that_stands_still_for_its_whole_duration_is_taken_over(api, clock):
    lease(api, "dead").hold()
    mine = lease(api, "me")
    assert mine.hold() is False
    clock.now += DURATION_SECONDS - 0.1
    assert mine.hold() is False
    clock.now += 0.1
    assert mine.hold() is True
    assert spec(api)["holderIdentity"] == "me"
    assert spec(api)["leaseTransitions"] == 1


def test_every_renewal_starts_the_wait_anew(api, clock):
    alive, mine = lease(api, "alive"), lease(api, "me")
    alive.hold()
    for _ in range(5):
        assert mine.hold() is False
        clock.now += DURATION_SECONDS - 1
        assert alive.hold() is True
    assert mine.hold() is False


def test_the_time_written_in_it_does_not_count(api, clock):
    lease(api, "other").hold()
    stored = api.objects[PATH]
    stored["spec"]["renewTime"] = stored["spec"]["acquireTime"] = "1999-01-01T00:00:00.000000Z"
    assert lease(api, "me").hold() is False, "the other machine's clock may be wrong"


def test_its_own_duration_counts(api, clock):
    lease(api, "other").hold()
    api.objects[PATH]["spec"]["leaseDurationSeconds"] = 300
    mine = lease(api, "me")
    mine.hold()
    clock.now += 299
    assert mine.hold() is False
    clock.now += 1
    assert mine.hold() is True


def test_an_old_holder_that_wakes_up_finds_that_it_is_not_the_holder(api, clock):
    old, new = lease(api, "old"), lease(api, "new")
    old.hold()
    new.hold()
    clock.now += DURATION_SECONDS
    assert new.hold() is True
    assert old.hold() is False


def test_released_it_is_free_at_once_and_only_by_its_holder(api, clock):
    one, two = lease(api, "one"), lease(api, "two")
    one.hold()
    two.release()
    assert two.hold() is False
    one.release()
    assert two.hold() is True


def test_a_lost_race_is_no_and_a_silent_server_is_unknown(api, clock, monkeypatch):
    mine = lease(api, "me")
    mine.hold()

    def fail(status):
        def raising(*_):
            raise ApiFailure(status, "simulated")

        return raising

    monkeypatch.setattr(api, "replace", fail(409))
    assert mine.hold() is True, "no renewal is due"
    clock.now += DURATION_SECONDS / 2
    assert mine.hold() is False
    monkeypatch.setattr(api, "replace", fail(0))
    assert mine.hold() is None
    monkeypatch.setattr(api, "get", fail(404))
    monkeypatch.setattr(api, "create", fail(409))
    assert mine.hold() is False
