"""Which broker each Pod runs, by what answers at the Pod's own address; remembered for as long as the Pod is there.

A Pod keeps what it has answered as. Its volumes are fixed (`spec.volumes` cannot change), and a new container finds
them as they were. Kafka does not start with another id than its `meta.properties` has: KafkaRaftServer and KafkaServer
call `MetaPropertiesEnsemble.verify`. So a broker that hangs later is still known, and is not asked again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.ports import ClusterDescription, KafkaReads, Node, PodAddress
from kafka_medic.cluster.snapshot import Pod, Snapshot

RARELY = 32
"""A Ready Pod that does not answer is asked in the 1st, 2nd, 4th, 8th, ... observation, and in every one of so many: a
listener that does not let the operator in logs each attempt."""

NAMED = 5
"""So many Pods are named in the source's error."""
Pods = Mapping[int, Pod]
"""By the id of the broker or controller that each is said to be. Numbers below 0 stand for Pods of which nothing says
it (`numbered`)."""


def numbered(pods: Iterable[Pod]) -> Pods:
    """Pods without a claim, to be asked beside those that have one."""
    return {-1 - place: pod for place, pod in enumerate(pods)}


@dataclass(slots=True)
class PodIdentities:
    """Kept from observation to observation. `answered`: the id, by Pod uid. `failed`: in how many observations a
    Ready Pod has not answered, and why. `eager`: a run is about to change something, so every Pod that has not answered
    is asked."""

    answered: dict[str, int] = field(default_factory=dict)
    failed: dict[str, tuple[int, str]] = field(default_factory=dict)
    eager: bool = False

    def keep(self, uids: Iterable[str | None]) -> None:
        """Pods that are gone never come back under their uid."""
        present = set(uids)
        self.answered = {uid: id_ for uid, id_ in self.answered.items() if uid in present}
        self.failed = {uid: problem for uid, problem in self.failed.items() if uid in present}

    def of(self, uid: str) -> int | None:
        """The id that the Pod of that uid has answered as."""
        return self.answered.get(uid)

    def by_what_runs(self, pods: Pods) -> dict[int, Pod]:
        """The same Pods by what each has answered as. That goes before what another is said to be."""
        answered = {self.answered[p.uid]: p for p in pods.values() if p.uid is not None and p.uid in self.answered}
        return {claimed: p for claimed, p in pods.items() if p.uid not in self.answered} | answered

    def due(self, pod: Pod) -> bool:
        count = self.failed.get(pod.uid or "", (0, ""))[0]
        return self.eager or count & (count - 1) == 0 or count % RARELY == 0

    def fail(self, pod: Pod, why: str | None = None) -> None:
        """None: for the reason that it failed for before."""
        assert pod.uid is not None
        count, before = self.failed.get(pod.uid, (0, ""))
        self.failed[pod.uid] = count + (pod.ready is True), before if why is None else why


def identify(
    kafka: KafkaReads,
    known: PodIdentities,
    pods: Pods,
    again: Callable[[], Pods],
    described: ClusterDescription,
    others: Iterable[int],
) -> str | None:
    """What is not known afterwards, and why. `again` lists the Pods once more: an address counts for a Pod that had it
    before the answer and after. `others`: ids that may answer besides those described and those of Pods. Raises
    ReadFailed."""
    known.keep(pod.uid for pod in pods.values())
    unknown = {claimed: pod for claimed, pod in pods.items() if pod.uid is not None and pod.uid not in known.answered}
    holders = Counter(pod.ip for pod in pods.values())
    addresses: dict[int, PodAddress] = {}
    for claimed, pod in unknown.items():
        if pod.ip is None or pod.deleting:
            known.fail(pod, "it is going" if pod.deleting else "it has no address yet")
        elif holders[pod.ip] > 1:
            known.fail(pod, f"{holders[pod.ip]} Pods have the address {pod.ip}")
        elif known.due(pod):
            addresses[claimed] = _address(claimed, pod, pod.ip, described.nodes)
        else:
            known.fail(pod)
    if addresses:
        ids = sorted({*(c for c in pods if c >= 0), *(node.id for node in described.nodes), *others})
        answers = kafka.identities(addresses, ids)
        met = any(not isinstance(answer, ReadFailed) for answer in answers.values())
        after = {pod.uid: pod for pod in again().values()} if met else {}
        for claimed in addresses:
            _settle(known, pods[claimed], answers[claimed], after)
    left = [
        f"Pod {p.name}: {known.failed[p.uid][1]}"
        for p in unknown.values()
        if p.uid is not None and p.uid in known.failed
    ]
    more = f"; and {len(left) - NAMED} more" if len(left) > NAMED else ""
    return "; ".join(left[:NAMED]) + more if left else None


def placed(
    found: Snapshot, known: PodIdentities, unclaimed: Collection[Pod], controllers: Collection[Pod] = ()
) -> Snapshot:
    """The same, with the Pods that had no claim at the nodes that they have answered as, and with those that are not
    placed anywhere. `controllers`: of the Pods without a claim, those that are selected as controllers."""
    every = (*unclaimed, *controllers)
    at = {known.answered[pod.uid]: pod for pod in every if pod.uid is not None and pod.uid in known.answered}
    brokers, quorum = found.brokers, found.quorum
    if brokers is not None:
        brokers = tuple(replace(b, pod=b.pod or at.get(b.id)) for b in brokers)
    if quorum is not None and brokers is not None:
        apart = {v.id for v in replace(found, brokers=brokers).controllers_apart()}
        voters = (replace(v, pod=v.pod or at.get(v.id)) if v.id in apart else v for v in quorum.voters)
        quorum = replace(quorum, voters=tuple(voters))
    found = replace(found, brokers=brokers, quorum=quorum)
    there = {pod.uid for pod in found.every_pod()}
    left, left_apart = (tuple(p for p in pods if p.uid not in there) for pods in (unclaimed, controllers))
    return replace(found, unplaced=left, unplaced_controllers=left_apart)


def identified(found: Snapshot, known: PodIdentities) -> Snapshot:
    """The same, with what each Pod has answered as."""

    def as_answered(pod: Pod | None) -> Pod | None:
        answered = known.answered.get(pod.uid) if pod is not None and pod.uid is not None else None
        return pod if pod is None or answered is None else replace(pod, answers_as=answered)

    brokers, quorum = found.brokers, found.quorum
    if brokers is not None:
        brokers = tuple(replace(b, pod=as_answered(b.pod)) for b in brokers)
    if quorum is not None:
        quorum = replace(quorum, voters=tuple(replace(v, pod=as_answered(v.pod)) for v in quorum.voters))
    return replace(found, brokers=brokers, quorum=quorum)


def _settle(known: PodIdentities, pod: Pod, answer: int | ReadFailed, after: Mapping[str | None, Pod]) -> None:
    now = after.get(pod.uid)
    if isinstance(answer, ReadFailed):
        known.fail(pod, str(answer))
    elif now is None or now.deleting or now.ip != pod.ip:
        known.fail(pod, f"the Pod was deleted or lost its address {pod.ip} during the read")
    elif pod.uid is not None:
        known.answered[pod.uid] = answer
        known.failed.pop(pod.uid, None)


def _address(claimed: int, pod: Pod, ip: str, nodes: tuple[Node, ...]) -> PodAddress:
    """The ports at which this broker and the others are announced, and those that the Pod declares. Names: one that
    names the Pod, whoever announces it, comes first."""
    own = [node.port for node in nodes if node.id == claimed]
    usual = [port for port, _ in Counter(node.port for node in nodes).most_common(1)]
    ports = tuple(dict.fromkeys((*own, *usual, *(pod.ports or ()))))
    likely = sorted(
        nodes, key=lambda node: (node.host.partition(".")[0] != pod.name and node.host != ip, node.id != claimed)
    )
    return PodAddress(ip, ports, tuple(dict.fromkeys(node.host for node in likely)))
