"""The operator's own processes: two of them, of which one acts; and a line to the API server on which everything fails.

And what it does by itself, and tells. Kafka is in memory, the API server and the operator's rights are real.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kafka_medic.clients.kubernetes_api import custom_path
from kafka_medic.controller.notices import PAUSES
from kafka_medic.resources.phases import Phase
from kafka_medic.resources.remediation import Remediation
from tests.incident.operator import kubeconfig, lists_namespaces
from tests.integration.operated_cluster import PLAYBOOK, Person, Place
from tests.integration.people import people
from tests.process.bad_line import READ, WATCH, WRITE, BadLine, Fault
from tests.process.sim_operator import LEASE_SECONDS, SLOW_SECONDS, STALLED_AFTER, SharedKafka
from tests.process.webhook import KEY, PATH, receiving
from tests.simulation.world import factor_one_cluster
from tests.testbed import external_kubeconfig, own_state, wait_for
from tests.unit.resources.sources import ROOT

NAMESPACE = "operator-process"
RECOVERED_WITHIN = 60.0
WHOLE_RUN = ["configs", "reassign", "configs", "configs"]
"""What is sent to Kafka when nothing goes wrong: the throttle, the moves, the throttle back, min.insync.replicas."""


@dataclass
class Process:
    name: str
    popen: subprocess.Popen[bytes]
    port: int
    log: Path

    def alive(self) -> int:
        """What the kubelet would be told."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as problem:
            return problem.code
        except OSError:
            return 0

    def stopped(self) -> bool:
        return Path(f"/proc/{self.popen.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def says(self, words: str) -> bool:
        return words in self.log.read_text()


Start = Callable[..., Process]


@pytest.fixture(scope="module")
def account(role: str, operator: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A kubeconfig of the operator's; people who ask and approve in the namespace."""
    if external_kubeconfig() is not None:
        pytest.skip("a caller's cluster has no kubeconfigs of the testbed's people")
    _, _, where, name = operator.split(":")
    file = kubeconfig(tmp_path_factory.mktemp("operator") / "kubeconfig", name, where)
    with people(NAMESPACE, role), lists_namespaces(name, where):
        yield file


Watched = tuple[Place, SharedKafka]


@pytest.fixture
def watch(account: Path, tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    """A KafkaCluster of that name and with those rules, and its Kafka, on which replicas are copied only when told."""
    made: list[Place] = []

    def begin(name: str, **policy: Any) -> Watched:
        at = f"127.0.0.{len(made) + 1}:9092"
        kafka = factor_one_cluster()
        kafka.cluster_id, kafka.copies_per_tick = name, 20
        shared = SharedKafka(tmp_path / at)
        shared.create(kafka)
        made.append(Place(Person.named(own_state().kubeconfig("admin")), NAMESPACE, name, at, policy))
        return made[-1], shared

    yield begin
    for place in made:
        place.leave()


def copied(kafka: SharedKafka) -> None:
    """Every replica that is being added has caught up."""
    with kafka.open() as held:
        while any(p.adding for p in held.partitions.values()):
            held.tick()


@pytest.fixture
def start(account: Path, tmp_path: Path) -> Iterator[Start]:
    """Start a process by a Pod's name; with `server`, it reaches the API server there."""
    started: list[Process] = []

    def begin(name: str, *how: str, server: str | None = None) -> Process:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        config = account
        if server is not None:
            known = json.loads(account.read_text())
            known["clusters"][0]["cluster"] = {"server": server}
            config = tmp_path / f"kubeconfig-{name}"
            config.write_text(json.dumps(known))
        command = [sys.executable, "-m", "tests.process.sim_operator", str(tmp_path), NAMESPACE]
        how = (*how, "--rules", str(account.with_name("rules.json")))
        environment = os.environ | {"KUBECONFIG": str(config), "POD_NAME": name, "POD_IP": "127.0.0.1"}
        environment["KAFKA_MEDIC_NAMESPACE"] = NAMESPACE
        log = tmp_path / f"{name}.log"
        with log.open("ab") as out:
            popen = subprocess.Popen([*command, str(port), *how], env=environment, stdout=out, stderr=out, cwd=ROOT)
        started.append(Process(name, popen, port, log))
        return started[-1]

    yield begin
    for process in started:
        process.popen.kill()
        process.popen.wait()


def holder(place: Place) -> str:
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{place.namespace}/leases/kafka-medic-{place.name}"
    found = place.admin.list(lease.rpartition("/")[0], {"fieldSelector": f"metadata.name=kafka-medic-{place.name}"})
    return str(found[0]["spec"].get("holderIdentity") or "") if found else ""


def looked(place: Place) -> str:
    """When the KafkaCluster was last looked at."""
    status = place.admin.get(place.path("kafkaclusters", place.name)).get("status") or {}
    return str(status.get("lastObservedAt") or "")


def looks_on(place: Place, within: float) -> None:
    """Another whole reconcile ends well."""
    before = looked(place)
    wait_for("another look", lambda: looked(place) > before, within)


def phase(place: Place, run: str, wanted: Phase, seconds: float = 60) -> Remediation:
    wait_for(f"the run in phase {wanted}", lambda: place.run(run).status.phase is wanted, seconds)
    return place.run(run)


def approved(place: Place, run: str) -> None:
    place.say(Person.named(own_state().kubeconfig("alice")), run)


def asked(place: Place) -> str:
    run = place.ask(Person.named(own_state().kubeconfig("bob")))
    phase(place, run, Phase.AWAITING_APPROVAL)
    return run


def kinds(kafka: SharedKafka) -> list[str]:
    return [what.split(" ", 1)[0] for _, what in kafka.writes()]


@pytest.mark.parametrize("moment", ["stop-before-effect", "stop-after-renewal"])
def test_of_two_one_acts_and_the_other_goes_on(watch: Callable[..., Watched], start: Start, moment: str) -> None:
    """SIGSTOP before the last check of the Lease, and between that check and the effect, until the other one acted."""
    place, kafka = watch(moment)
    first = start("first", moment)
    wait_for("the first at work", lambda: holder(place) == "first" and looked(place) != "", 60)
    second = start("second")
    wait_for("the second to stand by", lambda: second.says("Lease held by another operator"), 60)
    run = asked(place)
    approved(place, run)
    wait_for("the first to be stopped before its effect", first.stopped, 60)
    assert kafka.writes() == []

    began = time.monotonic()
    wait_for("the second in its place", lambda: holder(place) == "second", 60)
    # Its turn to ask comes every two seconds; the rest is a busy machine.
    assert time.monotonic() - began < LEASE_SECONDS + 10
    wait_for("the throttle and the moves", lambda: kinds(kafka)[:2] == WHOLE_RUN[:2], 60)

    os.kill(first.popen.pid, signal.SIGCONT)
    wait_for("the first to find that out", lambda: first.says("no longer holds the cluster's Lease"), 60)
    copied(kafka)
    phase(place, run, Phase.SUCCEEDED)
    assert kinds(kafka) == WHOLE_RUN
    assert {pid for pid, _ in kafka.writes()} == {second.popen.pid}, "under an old Lease nothing is written"
    wait_for("the first to stand by", lambda: first.says("Lease held by another operator"), 30)
    assert first.alive() == second.alive() == 200

    second.popen.kill()
    began = time.monotonic()
    wait_for("the first in its place", lambda: holder(place) == "first", 60)
    assert time.monotonic() - began < LEASE_SECONDS + 10
    looks_on(place, 30)


def test_observations_longer_than_the_lease_leave_it_where_it_is(watch: Callable[..., Watched], start: Start) -> None:
    """Of two, one observes again and again for twice as long as the Lease lasts, and the other only waits."""
    place, _ = watch("slow-to-observe")
    first = start("first", "slow-reads")
    wait_for("the first's lease", lambda: holder(place) == "first", 60)
    second = start("second", "slow-reads")
    wait_for("the second to stand by", lambda: second.says("Lease held by another operator"), 60)
    for _ in range(2):
        looks_on(place, 6 * SLOW_SECONDS)
    assert holder(place) == "first"
    assert not first.says("Lease held by another operator"), "no observation was thrown away"

    first.popen.terminate()
    first.popen.wait(60)
    began = time.monotonic()
    wait_for("the second in its place", lambda: holder(place) == "second", 60)
    assert time.monotonic() - began < LEASE_SECONDS, "given back, not waited for"


def answers(what: str | int, *kinds_of: str) -> Fault:
    """That goes wrong with each request of those kinds; access reviews and events are asked for like all else."""
    return lambda request, kind: what if kind in kinds_of else None


FAULTS: dict[str, Fault] = {
    "every write is a conflict": answers(409, WRITE),
    "every watch has expired": answers("told 410", WATCH),
    "every watch is refused as gone": answers(410, WATCH),
    "too many requests": answers(429, READ, WRITE, WATCH),
    "internal errors": answers(500, READ, WRITE, WATCH),
    "connections are reset": answers("reset", READ, WRITE, WATCH),
    "answers break off": answers("truncated", READ, WRITE),
    "watches say nothing": answers("silent", WATCH),
}


def test_whatever_the_line_does_nothing_wrong_is_done(
    watch: Callable[..., Watched], start: Start, account: Path
) -> None:
    """Each fault twice, before and after the approval: what is sent to Kafka is what an undisturbed run sends, each
    effect once; and the operator is back at work within a minute of each."""
    cluster = json.loads(account.read_text())["clusters"][0]["cluster"]
    place, kafka = watch("on-a-bad-line")
    with BadLine(cluster["server"], cluster["certificate-authority"]) as line:
        operator = start("operator", server=line.url)
        wait_for("the operator at work", lambda: looked(place) != "", 60)
        run = asked(place)

        def suffer(what: str) -> float:
            line.hit, line.fault = 0, FAULTS[what]
            line.break_watches()
            if what == "watches say nothing":
                looks_on(place, 30)  # which does not need them
            else:
                wait_for(f"the operator to meet it: {what}", lambda: line.hit >= 3, 30)
            line.fault = None
            began = time.monotonic()
            looks_on(place, RECOVERED_WITHIN)
            assert operator.alive() == 200, what
            return time.monotonic() - began

        slowest = max(suffer(what) for what in FAULTS)
        assert kafka.writes() == []
        assert place.run(run).status.phase is Phase.AWAITING_APPROVAL
        line.fault = FAULTS["internal errors"]
        approved(place, run)
        wait_for("the operator to meet it", lambda: line.hit >= 3, 30)
        assert kafka.writes() == []
        line.fault = None
        for what in FAULTS:
            slowest = max(slowest, suffer(what))
            assert kinds(kafka) == WHOLE_RUN[: len(kafka.writes())], what
        copied(kafka)
        phase(place, run, Phase.SUCCEEDED, 90)
        assert kinds(kafka) == WHOLE_RUN
        print(f"back at work after {slowest:.1f} s at most")

        # Deaf: a watch that stays open and tells nothing, while there is something to tell.
        line.fault = FAULTS["watches say nothing"]
        unheard = Place(place.admin, NAMESPACE, "unheard")
        try:
            wait_for("liveness to fail", lambda: operator.alive() == 500, STALLED_AFTER + 30)
        finally:
            unheard.leave()

        # What kopf does not go on after ends the process, and the kubelet starts another: it says so, and lets go of
        # its Leases, so that the next one need not wait.
        line.fault = answers("told 500", WATCH)
        line.break_watches()
        assert operator.popen.wait(30) == 1
        assert operator.says("Error in the watch-stream")
        assert operator.says("made up by the test")
        line.fault = None
        start("operator", server=line.url)
        looks_on(place, RECOVERED_WITHIN)


@pytest.fixture
def sooner(account: Path) -> Iterator[None]:
    """A finding is worth a proposal after a second."""
    path, admin = custom_path("playbooks", None, PLAYBOOK), Person.named(own_state().kubeconfig("admin"))
    before = admin.get(path)["spec"]["trigger"]["for"]
    admin.merge(path, {"spec": {"trigger": {"for": "1s"}}})
    yield
    admin.merge(path, {"spec": {"trigger": {"for": before}}})


def test_by_itself_it_does_what_bounds_and_limits_let_it_and_tells_all_of_it(
    watch: Callable[..., Watched], start: Start, sooner: None, tmp_path: Path
) -> None:
    folder = tmp_path / "webhook"
    with receiving(folder) as receiver:
        operator = start("operator", "--most-at-once", "1", "--webhook-directory", str(folder))

        # Auto, within its bounds: nobody is asked.
        free, its_kafka = watch("free", mode="Auto")
        wait_for("a run of its own accord", lambda: kinds(its_kafka) == WHOLE_RUN[:2], 90)
        (run,) = runs(free)
        assert run.status.approved_by == "policy:Auto"

        # Auto, beyond them: it asks. And what is approved then waits while another cluster's run is under way.
        bound, other = watch("bound", mode="Auto", auto={"maxPartitions": 1})
        wait_for("a question", lambda: [r.status.phase for r in runs(bound)] == [Phase.AWAITING_APPROVAL], 60)
        (beyond,) = runs(bound)
        wait_for("why it asks", lambda: "7 partitions, auto.maxPartitions is 1" in bound.why(beyond.name), 30)
        follows = approving(bound, beyond)
        wait_for("the limit to hold it", lambda: f"{NAMESPACE}/free" in bound.why(beyond.name), 60)
        assert "the operator's limit is 1 at once" in bound.why(beyond.name)
        assert bound.run(beyond.name).status.phase is Phase.APPROVED
        assert other.writes() == []
        copied(its_kafka)
        phase(free, run.name, Phase.SUCCEEDED)
        wait_for("its turn", lambda: kinds(other) == WHOLE_RUN[:2], 60)
        copied(other)
        assert phase(bound, beyond.name, Phase.SUCCEEDED).status.approved_by == "alice"
        shown, _ = follows.communicate(timeout=30)
        assert follows.returncode == 0, shown
        for words in (digest(beyond), "Succeeded"):
            assert words in shown, shown

        # All of it was told, each try signed anew; one notice that nobody takes is given up and holds nothing up.
        wait_for("the last notice", lambda: "Succeeded" in receiver.told(beyond.name), sum(PAUSES) + 30)
        operator.popen.kill()
        operator.popen.wait()

    told = operator.log.read_text()
    its = receiver.told(run.name)
    assert (its.count("Approved"), its.count("Effect"), its[-1]) == (1, len(WHOLE_RUN), "Succeeded")
    first, second, *rest = dict.fromkeys(d for _, d, _ in receiver.got)
    assert [receiver.tries(first), receiver.tries(second)] == [1 + len(PAUSES), 2]
    assert {receiver.tries(d) for d in rest} == {1}
    assert receiver.taken == [second, *rest], "in order, and none twice"
    assert told.count("was not delivered: answered 500") == 1
    for signature, delivery, body in receiver.got:
        at, _, mac = signature.removeprefix("t=").partition(",v1=")
        right = hmac.new(KEY.encode(), at.encode() + b"." + body, hashlib.sha256).hexdigest()
        assert hmac.compare_digest(right, mac)
        assert abs(time.time() - int(at)) < 300
        assert json.loads(body)["id"] == delivery

    stored = [free.admin.list(free.path(of)) for of in ("kafkaclusters", "remediations")]
    stored.append(free.admin.list(f"/api/v1/namespaces/{NAMESPACE}/events"))
    assert all(stored)
    for secret in (KEY, PATH):
        assert secret not in told
        assert secret not in json.dumps(stored)


def digest(run: Remediation) -> str:
    assert run.status.plan is not None
    return run.status.plan.digest


def approving(place: Place, run: Remediation) -> subprocess.Popen[str]:
    """alice's command, which approves that plan and then shows how its run goes, to its end."""
    command = [str(Path(sys.executable).parent / "kafka-medic"), "remediation", "approve", run.name]
    command += ["-n", place.namespace, "--kubeconfig", str(own_state().kubeconfig("alice"))]
    command += ["--yes", "--digest", digest(run), "--watch"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def runs(place: Place) -> list[Remediation]:
    found = [
        raw for raw in place.admin.list(place.path("remediations")) if raw["spec"]["clusterRef"]["uid"] == place.uid
    ]
    return [place.run(raw["metadata"]["name"]) for raw in found]
