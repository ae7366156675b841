"""A reconcile of any length keeps its Lease; who cannot renew it in time, or stood still, sends nothing."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from typing import Any

import pytest

from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.clients.timeouts import MOST_SECONDS
from kafka_medic.controller import lease as figures
from kafka_medic.controller import run_reconciler
from kafka_medic.controller.lease import DURATION_SECONDS, ClusterLease
from kafka_medic.controller.renewals import THREADS, Renewals
from tests.simulation.api import SimApi
from tests.simulation.world import World, factor_one_cluster

PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/kafka-medic-c"
UNTIL_LOST = DURATION_SECONDS * (1 - figures.MARGIN)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Process:
    """An operator with its lease, and what its threads do as time passes."""

    def __init__(self, api: Any, name: str, clock: Clock) -> None:
        self.renewals = Renewals(clock)
        self.lease = self.renewals.keep(ClusterLease(api, "ns", "c", "uid", name, clock, lambda: 0.5))

    def renew(self) -> None:
        while not self.renewals.step():
            pass


class Line:
    """An API server that fails as it is told: `problem` of each request, `seconds` of the clock that each takes."""

    def __init__(self, inner: SimApi, clock: Clock) -> None:
        self.inner, self.clock = inner, clock
        self.problem: Exception | None = None
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)

        def call(*args: Any) -> Any:
            if self.problem is not None:
                raise self.problem
            self.clock.now += self.seconds
            return found(*args)

        return call if name in ("get", "create", "replace") else found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def api() -> SimApi:
    return SimApi()


def passes(clock: Clock, seconds: float, *running: Process, step: float = 0.25) -> None:
    for _ in range(round(seconds / step)):
        clock.now += step
        for process in running:
            process.renew()


@pytest.mark.parametrize("look", [20, 29, 34, 60, 300])
def test_of_two_one_decides_and_no_look_is_thrown_away(api: SimApi, clock: Clock, look: int) -> None:
    """Each begins with the lease, looks for so long, and may decide if it still has it."""
    one, two = processes = Process(api, "one", clock), Process(api, "two", clock)
    decided, lost = dict.fromkeys(processes, 0), dict.fromkeys(processes, 0)
    due, looking = {one: 1000.0, two: 1001.0}, dict.fromkeys(processes, False)
    while clock.now < 1000 + 6 * look:
        passes(clock, 0.5, *processes)
        for process in processes:
            if clock.now < due[process]:
                continue
            if not looking[process]:
                looking[process] = process.lease.hold() is True
                due[process] = clock.now + (look if looking[process] else 5)
            else:
                kept = process.lease.confirm() is True and process.lease.has_room()
                (decided if kept else lost)[process] += 1
                process.lease.rested()
                looking[process], due[process] = False, clock.now + 1
    assert sum(lost.values()) == 0
    assert decided[one] >= 4
    assert decided[two] == 0


def until_another_has_it(clock: Clock, mine: Process, other: Process) -> float:
    """The other one asks as a standby does. Answers how many seconds before its success this one had lost it."""
    lost_at = None
    for _ in range(400):
        passes(clock, 0.25, mine)
        if lost_at is None and not mine.lease.held():
            lost_at = clock.now
        if other.lease.hold() is True:
            assert lost_at is not None, "two have it"
            return clock.now - lost_at
    raise AssertionError("nobody took it")


@pytest.mark.parametrize(
    "problem", [ApiFailure(0, "no answer"), ApiFailure(500, "broken"), ApiFailure(409, "conflict"), ValueError("a bug")]
)
def test_who_cannot_renew_has_lost_it_before_another_takes_it(api: SimApi, clock: Clock, problem: Exception) -> None:
    line = Line(api, clock)
    mine, other = Process(line, "mine", clock), Process(api, "other", clock)
    assert mine.lease.hold() is True
    assert other.lease.hold() is False
    line.problem = problem
    assert until_another_has_it(clock, mine, other) >= DURATION_SECONDS * figures.MARGIN - 0.5
    line.problem = None
    assert mine.lease.confirm() is False
    assert mine.lease.hold() is False


def test_a_slow_answer_counts_from_when_its_request_was_sent(api: SimApi, clock: Clock) -> None:
    line = Line(api, clock)
    mine = Process(line, "mine", clock)
    mine.lease.hold()
    line.seconds = UNTIL_LOST / 2 + 1
    clock.now += 1
    assert mine.lease.confirm() is True, "two requests, the second of which renews"
    assert mine.lease.held()
    assert not mine.lease.has_room(), "not enough is left to send an effect"
    line.seconds = UNTIL_LOST
    mine.lease.hold()
    assert not mine.lease.held(), "answered when it had run out"


def test_the_wall_clock_is_not_asked(api: SimApi, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = itertools.cycle([0.0, -3600.0, 3600.0])
    monkeypatch.setattr(time, "time", lambda real=time.time: real() + next(steps))
    mine, other = Process(api, "mine", clock), Process(api, "other", clock)
    mine.lease.hold()
    for _ in range(60):
        passes(clock, 2, mine)
        assert other.lease.hold() is False
        assert mine.lease.confirm() is True


def test_a_process_that_stood_still_has_nothing_and_takes_nothing_by_itself(api: SimApi, clock: Clock) -> None:
    mine, other = Process(api, "mine", clock), Process(api, "other", clock)
    mine.lease.hold()
    before = api.get(PATH)
    clock.now += UNTIL_LOST
    mine.renew()
    assert (mine.lease.held(), mine.lease.confirm()) == (False, False)
    assert api.get(PATH) == before, "what its reconcile has read is as old as the pause"
    assert other.lease.hold() is False
    assert mine.lease.hold() is True, "nobody took it, and a new reconcile reads all anew"


def test_a_renewal_takes_nothing_that_is_anothers_free_deleted_or_made_anew(api: SimApi, clock: Clock) -> None:
    def meddled(what: Any) -> bool:
        process = Process(api, "mine", clock)
        assert process.lease.hold() is True
        what()
        before = api.objects.get(PATH)
        passes(clock, 12, process)
        assert api.objects.get(PATH) == before
        assert process.lease.due is None
        held = process.lease.held()
        api.objects.pop(PATH, None)
        return held

    def made_anew() -> None:
        api.delete(PATH)
        Process(api, "mine", clock).lease.hold()

    assert not meddled(lambda: api.touch(PATH)["spec"].update(holderIdentity="another"))
    assert not meddled(lambda: api.touch(PATH)["spec"].update(holderIdentity=""))
    assert not meddled(lambda: api.delete(PATH))
    assert not meddled(made_anew)


def test_a_renewal_whose_answer_was_lost_is_our_own(api: SimApi, clock: Clock) -> None:
    mine = Process(api, "mine", clock)
    mine.lease.hold()
    api.touch(PATH)
    passes(clock, 40, mine)
    assert mine.lease.held()


def test_closed_it_is_free_and_renewed_no_more(api: SimApi, clock: Clock) -> None:
    mine, other = Process(api, "mine", clock), Process(api, "other", clock)
    mine.lease.hold()
    mine.lease.close()
    assert not mine.lease.held()
    assert other.lease.hold() is True
    before = api.get(PATH)
    passes(clock, 40, mine)
    assert api.get(PATH) == before


def test_a_reconcile_that_hangs_lets_another_operator_in(api: SimApi, clock: Clock) -> None:
    mine, other = Process(api, "mine", clock), Process(api, "other", clock)
    mine.lease.hold()
    mine.lease.rested()
    passes(clock, figures.LONGEST_USE + 60, mine, step=1)
    assert mine.lease.held(), "at rest, until the next reconcile"
    mine.lease.hold()
    passes(clock, figures.LONGEST_USE - 60, mine, step=1)
    assert other.lease.hold() is False
    passes(clock, 120, mine, step=1)
    assert not mine.lease.held()
    assert other.lease.hold() is False, "the last renewal, seen for the first time"
    passes(clock, DURATION_SECONDS, mine)
    assert other.lease.hold() is True


def test_the_figures_leave_time_for_what_they_bound() -> None:
    assert DURATION_SECONDS * figures.ROOM >= MOST_SECONDS
    first = DURATION_SECONDS * figures.RENEWED
    again = first + DURATION_SECONDS * (figures.ANSWERED + figures.RETRIED)
    assert again + DURATION_SECONDS * figures.ANSWERED <= UNTIL_LOST, "a second try after one that hangs"


# -- with the threads of a process ------------------------------------------------------------------------


class Hanging:
    """One lease's requests hang until they are let go; the others are answered."""

    def __init__(self, inner: SimApi, name: str) -> None:
        self.inner, self.name = inner, name
        self.hangs = threading.Event()
        self.released = threading.Event()
        self.raises: Exception | None = None
        self.renewed: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def replace(self, path: str, body: Any) -> Any:
        lease = body["metadata"]["name"]
        if lease == self.name:
            self.hangs.set()
            if self.raises is not None:
                raise self.raises
            self.released.wait(20)
        self.renewed[lease] = self.renewed.get(lease, 0) + 1
        return self.inner.replace(path, body)


def wait_until(what: Any, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


@pytest.mark.parametrize("raises", [None, RuntimeError("a bug")])
def test_one_that_hangs_or_fails_keeps_no_other_from_being_renewed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, raises: Exception | None
) -> None:
    monkeypatch.setattr(figures, "DURATION_SECONDS", 3)
    monkeypatch.setattr(logging.getLogger("kafka_medic"), "propagate", True)
    line = Hanging(SimApi(), "kafka-medic-c0")
    line.raises = raises
    renewals = Renewals()
    leases = [renewals.keep(ClusterLease(line, "ns", f"c{n}", "uid", "mine")) for n in range(10)]  # type: ignore[arg-type]
    renewals.start()
    try:
        assert sum(thread.is_alive() for thread in renewals._threads) == THREADS
        assert all(lease.hold() for lease in leases)
        assert line.hangs.wait(20)
        wait_until(lambda: all(line.renewed.get(f"kafka-medic-c{n}", 0) >= 4 for n in range(1, 10)))
        assert [lease.held() for lease in leases[1:]] == [True] * 9
        wait_until(lambda: not leases[0].held())
        assert raises is None or "a lease could not be renewed" in caplog.text
    finally:
        line.released.set()
        renewals.stop()


# -- in a reconcile ---------------------------------------------------------------------------------------


class StandsStill:
    """The process stands still once the Lease has been renewed for the last time before an effect."""

    def __init__(self, inner: SimApi, world: World) -> None:
        self.inner, self.world = inner, world
        self.sending = False
        self.sent: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def replace(self, path: str, body: Any) -> Any:
        answer = self.inner.replace(path, body)
        if "/leases/" in path and self.sending:
            self.sending = False
            self.sent.append(len(self.world.kafka.dynamic))
            self.world.seconds_still = 31.0
            self.inner.touch(PATH)["spec"]["holderIdentity"] = "another"
        return answer


class MonotonicWorld(World):
    """Its leases are judged by a monotonic clock that goes on when the process stands still."""

    seconds_still = 0.0

    def lease_clock(self) -> float:
        return self._monotonic() + self.seconds_still


def test_a_process_that_is_stopped_between_check_and_send_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = MonotonicWorld(factor_one_cluster())
    world.install(remediation={"limits": {"cooldown": "0s"}})
    world.approve(world.until_phase("AwaitingApproval"))
    before, sent = len(world.kafka.writes), dict(world.kafka.dynamic)
    api = StandsStill(world.api, world)
    world.wrap_api = lambda _: api  # type: ignore[assignment, return-value]
    reconciler = world.operator()
    reconciler.lease = lambda c: ClusterLease(api, "ns", "c", c.uid or "", "operator", world.lease_clock)  # type: ignore[arg-type]
    carry_out = run_reconciler.carry_out  # type: ignore[attr-defined]

    def carried_out(*args: Any) -> None:
        api.sending = True
        carry_out(*args)

    monkeypatch.setattr(run_reconciler, "carry_out", carried_out)
    for _ in range(12):
        world.step(2.0)
    assert api.sent, "it came to an effect"
    assert len(world.kafka.writes) == before
    assert world.kafka.dynamic == sent


def test_what_was_lost_in_a_long_look_writes_nothing_and_the_canary_stops() -> None:
    world = MonotonicWorld(factor_one_cluster())
    world.install()
    world.step()
    looked = world.cluster()["status"]["lastObservedAt"]
    reconciler = world.operator()
    reconciler.lease = lambda c: ClusterLease(world.api, "ns", "c", c.uid or "", "operator", world.lease_clock)  # type: ignore[arg-type]
    describe = world.kafka.describe_cluster

    def slowly() -> Any:
        world.seconds_still = 31.0
        return describe()

    world.kafka.describe_cluster = slowly  # type: ignore[method-assign]
    runs = len(world.runs())
    world.step()
    assert world.cluster()["status"]["lastObservedAt"] == looked
    assert len(world.runs()) == runs
    world.kafka.describe_cluster = describe  # type: ignore[method-assign]
    world.step()
    assert world.cluster()["status"]["lastObservedAt"] > looked


def test_a_kafkacluster_that_is_gone_gives_its_lease_back() -> None:
    world = World(factor_one_cluster())
    world.install()
    renewals = Renewals(world._monotonic)
    reconciler = world.operator()
    kept = []

    def lease(cluster: Any) -> ClusterLease:
        kept.append(ClusterLease(world.api, "ns", "c", cluster.uid or "", "operator", world._monotonic))  # type: ignore[arg-type]
        return renewals.keep(kept[-1])

    reconciler.lease = lease
    world.step()
    (held,) = kept
    assert held.held()
    world.api.delete("/apis/kafkamedic.dev/v1alpha1/namespaces/ns/kafkaclusters/c")
    assert PATH not in world.api.objects, "as the garbage collector does"
    with pytest.raises(ApiFailure):
        world.step()
    assert held.due is None
    assert not held.held()
    assert PATH not in world.api.objects
    reconciler.close()
    assert held.closed


def test_a_kafkacluster_that_cannot_be_read_gives_its_lease_back() -> None:
    world = World(factor_one_cluster())
    world.install()
    world.step()
    assert world.api.get(PATH)["spec"]["holderIdentity"] == "operator"
    body = world.cluster()
    body["spec"]["bootstrapServers"] = 7
    world.put("kafkaclusters", body)
    world.step()
    assert world.api.get(PATH)["spec"]["holderIdentity"] == ""
