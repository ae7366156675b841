"""What a Pod has answered as: asked at its own address while that is its own, and remembered as long as the Pod is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import ClusterDescription, Node, PodAddress
from kafka_medic.cluster.snapshot import Pod, Snapshot
from kafka_medic.observe.identities import RARELY, PodIdentities, placed
from kafka_medic.observe.snapshot import ClusterReaders, observe_cluster
from kafka_medic.playbook.effects import broker_gone
from tests.simulation.kafka import SimKafka
from tests.unit.cluster import worlds


def pod(number: int, **changes: Any) -> Pod:
    told = Pod(f"kafka-{number}", f"u{number}", ready=True, ip=f"10.0.0.{number}", deleting=False, ports=(9092, 9404))
    return replace(told, **changes)


class Cluster:
    """Three brokers and their Pods; what each observation asks is kept. `listed` once it is not what it was before."""

    def __init__(self) -> None:
        self.kafka = SimKafka(housed={f"10.0.0.{n}": n for n in (0, 1, 2)})
        self.kafka.topic("orders", [0, 1, 2])
        self.pods: dict[int, Pod] = {n: pod(n) for n in (0, 1, 2)}
        self.controllers: dict[int, Pod] = {}
        self.unclaimed: list[Pod] = []
        self.known = PodIdentities()
        self.asked: list[Mapping[int, PodAddress]] = []
        self.ids: Sequence[int] = ()
        self.between: dict[int, Pod | None] = {}
        self.described: ClusterDescription | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kafka, name)

    def describe_cluster(self) -> ClusterDescription:
        return self.described or self.kafka.describe_cluster()

    def identities(self, pods: Mapping[int, PodAddress], ids: Sequence[int]) -> Mapping[int, int | ReadFailed]:
        self.asked.append(pods)
        self.ids = ids
        answers = self.kafka.identities(pods, ids)
        for number, changed in self.between.items():
            self.pods.pop(number)
            if changed is not None:
                self.pods[number] = changed
        return answers

    def look(self) -> Snapshot:
        self.asked.clear()
        apart = (lambda: dict(self.controllers)) if self.controllers else None
        left: list[Pod] = []

        def listed() -> Mapping[int, Pod]:
            """As `BrokerPods` does: what has no claim and has not answered by now is told apart."""
            left[:] = [p for p in self.unclaimed if p.uid not in self.known.answered]
            return self.pods | {self.known.answered[p.uid or ""]: p for p in self.unclaimed if p not in left}

        readers: Any = ClusterReaders(self, pods=listed, controllers=apart, unidentified=lambda: list(left))  # type: ignore[arg-type]
        return observe_cluster("c", readers, known=self.known)

    def answers(self) -> dict[int, int | None]:
        return {b.id: b.pod.answers_as for b in self.look().brokers or () if b.pod is not None}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def why(snapshot: Snapshot) -> str:
    source = snapshot.source("pod-identity")
    assert source is not None
    assert source.known
    return source.error or ""


def test_each_pod_is_asked_once_at_its_own_address(cluster: Cluster) -> None:
    assert cluster.answers() == {0: 0, 1: 1, 2: 2}
    assert [set(asked) for asked in cluster.asked] == [{0, 1, 2}]
    assert cluster.asked[0][1] == PodAddress("10.0.0.1", (9092, 9404), ("broker-1", "broker-0", "broker-2"))
    assert cluster.answers() == {0: 0, 1: 1, 2: 2}
    assert cluster.asked == []


def test_a_broker_that_hangs_later_is_still_known_and_a_new_operator_does_not_know_it(cluster: Cluster) -> None:
    cluster.look()
    cluster.kafka.deaf.add(1)
    assert cluster.answers() == {0: 0, 1: 1, 2: 2}
    cluster.kafka.stop(1)
    assert cluster.answers() == {0: 0, 1: 1, 2: 2}, "nor does it matter that it is down"
    cluster.known = PodIdentities()
    assert cluster.answers() == {0: 0, 1: None, 2: 2}
    assert why(cluster.look()) == "Pod kafka-1: Unreachable: simulated: no answer"


def test_crossed_pods_are_told_by_what_answers(cluster: Cluster) -> None:
    cluster.kafka.housed |= {"10.0.0.1": 2, "10.0.0.2": 1}
    assert cluster.answers() == {0: 0, 1: 2, 2: 1}


def test_a_successor_is_asked_anew_and_what_is_gone_is_forgotten(cluster: Cluster) -> None:
    cluster.look()
    cluster.pods[1] = pod(1, uid="u1b", ip="10.0.0.9")
    cluster.kafka.housed["10.0.0.9"] = 1
    assert cluster.answers() == {0: 0, 1: 1, 2: 2}
    assert [set(asked) for asked in cluster.asked] == [{1}]
    assert set(cluster.known.answered) == {"u0", "u1b", "u2"}


def test_a_pod_that_starts_and_does_not_answer_yet_is_not_known_and_is_asked_again(cluster: Cluster) -> None:
    cluster.kafka.stop(1)
    cluster.pods[1] = pod(1, ready=False)
    for _ in range(7):
        assert cluster.answers()[1] is None
        assert cluster.asked, "it may answer at any moment"
    cluster.kafka.start(1)
    assert cluster.answers()[1] == 1


def test_a_pod_without_an_address_or_on_its_way_out_is_not_asked(cluster: Cluster) -> None:
    cluster.pods |= {0: pod(0, ip=None), 1: pod(1, deleting=True)}
    assert cluster.answers() == {0: None, 1: None, 2: 2}
    assert [set(asked) for asked in cluster.asked] == [{2}]
    assert why(cluster.look()) == "Pod kafka-0: it has no address yet; Pod kafka-1: it is going"


@pytest.mark.parametrize(
    "after",
    [None, pod(1, uid="another"), pod(1, ip="10.0.0.77"), pod(1, deleting=True)],
    ids=["gone", "new", "ip", "going"],
)
def test_an_answer_counts_only_if_the_pod_has_its_address_before_and_after(cluster: Cluster, after: Pod | None) -> None:
    """An address that another Pod got in the meantime, or that changed a moment ago."""
    cluster.kafka.housed["10.0.0.1"] = 2
    cluster.between = {1: after}
    snapshot = cluster.look()
    assert "u1" not in cluster.known.answered
    assert "lost its address 10.0.0.1" in why(snapshot)
    assert snapshot.broker(0).pod.answers_as == 0  # type: ignore[union-attr]


def test_an_address_that_two_pods_have_is_neithers(cluster: Cluster) -> None:
    """On the host's network; or of a Pod that has failed, whose status keeps an address that is another's by now."""
    cluster.pods[1] = pod(1, ip="10.0.0.2")
    assert cluster.answers() == {0: 0, 1: None, 2: None}
    assert "2 Pods have the address 10.0.0.2" in why(cluster.look())


def test_a_pod_that_never_answers_is_asked_more_and_more_rarely_unless_a_run_acts(cluster: Cluster) -> None:
    cluster.kafka.deaf.add(1)
    asked = []
    for number in range(2 * RARELY + 1):
        cluster.look()
        if cluster.asked:
            asked.append(number)
    assert asked == [0, 1, 2, 4, 8, 16, RARELY, 2 * RARELY]
    cluster.known.eager = True
    cluster.look()
    assert cluster.asked
    assert why(cluster.look()) == "Pod kafka-1: Unreachable: simulated: no answer"


def test_controllers_that_are_no_brokers_are_asked_among_all_ids(cluster: Cluster) -> None:
    cluster.kafka.apart, cluster.kafka.controllers = (10, 11, 12), {10, 11, 12}
    cluster.kafka.housed |= {"10.0.0.10": 11, "10.0.0.11": 10}
    cluster.controllers = {n: pod(n, name=f"controller-{n}") for n in (10, 11)}
    snapshot = cluster.look()
    assert cluster.ids == [0, 1, 2, 10, 11, 12]
    assert snapshot.quorum is not None
    assert {v.id: v.pod and v.pod.answers_as for v in snapshot.quorum.voters} == {10: 11, 11: 10, 12: None}


def test_where_to_ask_is_what_brokers_announce_and_pods_declare_the_likeliest_first(cluster: Cluster) -> None:
    nodes = (
        Node(0, "kafka-0.kafka.svc", 19092, None),
        Node(1, "kafka-2.kafka.svc", 9092, None),  # crossed: the name is that of the Pod that it runs in
        Node(2, "kafka-1.kafka.svc", 9092, None),
    )
    cluster.described = ClusterDescription("c", nodes, 0)
    cluster.look()
    assert cluster.asked[0][0] == PodAddress(
        "10.0.0.0", (19092, 9092, 9404), ("kafka-0.kafka.svc", "kafka-2.kafka.svc", "kafka-1.kafka.svc")
    )
    assert cluster.asked[0][1].hosts[0] == "kafka-1.kafka.svc"


def test_an_exporters_page_is_of_the_broker_that_runs_in_its_pod(cluster: Cluster) -> None:
    assert cluster.known.by_what_runs(cluster.pods) == cluster.pods, (
        "as they are said to be, while nothing has answered"
    )
    cluster.kafka.housed |= {"10.0.0.1": 2, "10.0.0.2": 1}
    cluster.kafka.stop(0)
    cluster.look()
    found = {broker: p.name for broker, p in cluster.known.by_what_runs(cluster.pods).items()}
    assert found == {0: "kafka-0", 1: "kafka-2", 2: "kafka-1"}


def test_pods_that_cannot_be_listed_and_a_cluster_that_does_not_answer_make_the_source_unknown(
    cluster: Cluster,
) -> None:
    cluster.look()
    cluster.kafka.reachable = False
    snapshot = cluster.look()
    source = snapshot.source("pod-identity")
    assert source is not None
    assert (source.known, source.error) == (False, "not tried: the cluster did not answer")
    assert {b.pod.answers_as for b in snapshot.brokers or () if b.pod} == {0, 1, 2}, "what was known is known"
    cluster.kafka.reachable = True

    def silent() -> Mapping[int, Pod]:
        raise ReadFailed(FailureKind.UNREACHABLE, "Kubernetes: 503")

    told = observe_cluster("c", ClusterReaders(cluster.kafka, pods=silent)).source("pod-identity")
    assert told is not None
    assert (told.known, told.error) == (False, "Error: not tried: the Pods could not be listed")


def test_without_kubernetes_there_is_no_such_source(cluster: Cluster) -> None:
    assert observe_cluster("c", ClusterReaders(cluster.kafka)).source("pod-identity") is None


def test_pods_without_a_claim_are_placed_by_what_they_answer_in_the_same_observation(cluster: Cluster) -> None:
    """Ids by no rule: two StatefulSets, volumes that came from elsewhere."""
    cluster.unclaimed, cluster.pods = [pod(2, name="b-0"), pod(0, name="a-0"), pod(1, name="a-1")], {}
    for _ in range(2):
        seen = cluster.look()
        placed = {b.id: (b.pod.name, b.pod.answers_as) for b in seen.brokers or () if b.pod is not None}
        assert placed == {0: ("a-0", 0), 1: ("a-1", 1), 2: ("b-0", 2)}
        assert why(seen) == ""
    assert cluster.asked == [], "each was asked once"


def test_a_pod_without_a_claim_that_does_not_answer_is_in_no_brokers_place(cluster: Cluster) -> None:
    cluster.unclaimed, cluster.pods = [pod(0), pod(1), pod(2)], {}
    cluster.kafka.deaf.add(1)
    seen = cluster.look()
    assert {b.id: b.pod is not None for b in seen.brokers or ()} == {0: True, 1: False, 2: True}
    assert why(seen) == "Pod kafka-1: Unreachable: simulated: no answer"
    assert cluster.ids == [0, 1, 2], "no number that stands for a Pod is asked for"
    cluster.kafka.deaf.discard(1)
    assert {b.id: b.pod is not None for b in cluster.look().brokers or ()} == {0: True, 1: True, 2: True}


def test_an_empty_broker_is_not_gone_while_a_pod_has_not_answered(cluster: Cluster) -> None:
    """A new operator: broker 3 has no replicas, is away for a restart, and its Pod was never asked."""
    cluster.kafka.housed["10.0.0.3"] = 3
    cluster.unclaimed, cluster.pods = [pod(n) for n in (0, 1, 2)], {}
    assert broker_gone(cluster.look(), 3), "no Pod, no registration, no replicas"
    cluster.unclaimed.append(pod(3, ready=False))
    seen = cluster.look()
    assert why(seen).startswith("Pod kafka-3: ")
    assert not broker_gone(seen, 3)
    assert [p.name for p in seen.unplaced] == ["kafka-3"]
    cluster.kafka.reachable = False
    assert [p.name for p in cluster.look().unplaced] == ["kafka-3"], "also while nobody can be asked"


def test_a_pod_that_answered_as_a_broker_that_nobody_lists_yet_is_not_lost() -> None:
    """It answers before it registers: in this observation it is in no broker's place."""
    answered, silent = pod(9), pod(10)
    seen = placed(worlds.healthy(), PodIdentities(answered={"u9": 9}), [answered], [silent])
    assert (seen.unplaced, seen.unplaced_controllers) == ((answered,), (silent,))
    assert not broker_gone(seen, 9)


def test_controllers_without_a_claim_are_placed_too(cluster: Cluster) -> None:
    cluster.kafka = SimKafka(controllers={10, 11, 12}, voted=11, housed={"10.0.0.10": 11})
    cluster.pods, cluster.unclaimed = {}, [pod(10)]
    seen = cluster.look()
    assert {v.id: v.pod.name for v in seen.controllers_apart() if v.pod is not None} == {11: "kafka-10"}
