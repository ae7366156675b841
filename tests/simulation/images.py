"""What one broker knows of the cluster: its metadata image, which may be older than the truth.

A broker acts on its own image alone (Kafka: MetadataCache and ReplicaManager.applyDelta in KRaft, LeaderAndIsr and
UpdateMetadata requests with ZooKeeper). It leads what its image says that it leads, under the epoch in the image.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kafka_medic.clients.ports import BrokerView, PartitionState
from kafka_medic.cluster.snapshot import TopicPartition


class Belief(NamedTuple):
    """What an image says of one partition. `id`: of the topic's incarnation (KIP-516)."""

    leader: int
    epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    id: str


class Image:
    """`number` rises with each change of the truth, so that of two images the newer one is known."""

    def __init__(
        self, number: int, rows: Mapping[TopicPartition, Belief], members: tuple[int, ...], controller: int | None
    ) -> None:
        self.number, self.rows, self.members, self.controller = number, rows, members, controller
        self._view: BrokerView | None = None

    @property
    def view(self) -> BrokerView:
        """What a metadata request is answered; made when the first one comes."""
        if self._view is None:
            rows = [PartitionState(*tp, b.leader, b.epoch, b.replicas, b.isr, b.id) for tp, b in self.rows.items()]
            self._view = BrokerView.of(-1, self.members, self.controller, rows)
            _remember(self._view, self)
        return self._view

    def of(self, topics: Collection[str] | None) -> Image:
        """What it says of these topics; None: of all."""
        if topics is None:
            return self
        rows = {tp: belief for tp, belief in self.rows.items() if tp.topic in topics}
        return Image(self.number, rows, self.members, self.controller)

    @property
    def led(self) -> tuple[tuple[int, ...], dict[TopicPartition, tuple[int, int, str]]]:
        """What two brokers that know the same have in common, whatever the ISRs are at the moment."""
        return self.members, {tp: (b.leader, b.epoch, b.id) for tp, b in self.rows.items()}


_OF: dict[int, tuple[BrokerView, Image]] = {}
MOST = 2000


def _remember(view: BrokerView, image: Image) -> None:
    if len(_OF) >= MOST:
        _OF.clear()
    _OF[id(view.states)] = view, image


def image_of(view: BrokerView) -> Image:
    """Of a view that somebody has kept; its partitions are taken apart once."""
    if id(view.states) not in _OF:
        rows = {
            TopicPartition(p.topic, p.partition): Belief(
                p.leader, p.leader_epoch or 0, p.replicas, p.isr, p.topic_id or ""
            )
            for p in view.partitions
        }
        _remember(view, Image(-1, rows, view.members, view.controller))
    return _OF[id(view.states)][1]
