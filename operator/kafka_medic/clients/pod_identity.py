"""The part of the port to Kafka that finds out which broker a Pod runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kafka_medic.clients.failures import ReadFailed


@dataclass(frozen=True, slots=True)
class PodAddress:
    """Where to ask which broker a Pod runs. `hosts`: names by which brokers advertise themselves, the likeliest first;
    with TLS the Pod's certificate has to be for one of them, since it is hardly ever for its IP."""

    ip: str
    ports: tuple[int, ...]
    hosts: tuple[str, ...]


class PodIdentityReads(Protocol):
    """A part of KafkaReads."""

    def identities(self, pods: Mapping[int, PodAddress], ids: Sequence[int]) -> Mapping[int, int | ReadFailed]:
        """Which broker or KRaft controller answers at the own address of each Pod; the key is the id that the Pod is
        said to have. `ids`: all there are. One that answers has shown that it is that one. Takes a short time at most,
        and a Pod that does not answer fails alone."""
