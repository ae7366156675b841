"""kafka-python: names resolved, and connected to, within the bounds of a namespace.

kafka-python connects to whatever brokers advertise. Its proxies are classes by the scheme of `proxy_url`: here the
scheme stands for bounds, and no proxy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar
from urllib.parse import urlsplit

from kafka import errors
from kafka.net.inet import KafkaNetSocket

from kafka_medic.clients.destinations import Destinations, is_address
from kafka_medic.clients.failures import ReadFailed

SCHEME = "kafka-medic"


class Bounds:
    """Of one client. `addresses`: those that are permitted besides; never names."""

    def __init__(self, destinations: Destinations) -> None:
        self.destinations = destinations
        self.addresses: set[str] = set()

    def permit(self, hosts: Iterable[str]) -> None:
        self.addresses.update(host for host in hosts if is_address(host))

    @property
    def url(self) -> str:
        _KNOWN[str(id(self))] = self
        return f"{SCHEME}://{id(self)}"

    def close(self) -> None:
        _KNOWN.pop(str(id(self)), None)


_KNOWN: dict[str, Bounds] = {}


class _Bounded(KafkaNetSocket):  # type: ignore[misc]
    SCHEMES: ClassVar = (SCHEME,)

    def __init__(self, proxy_url: str) -> None:
        self._bounds = _KNOWN.get(urlsplit(proxy_url).netloc)

    def dns_lookup(self, host: str, port: int, raise_error: bool = False) -> Any:
        if self._bounds is None:
            raise errors.KafkaConnectionError("the client is closed")
        destinations = self._bounds.destinations
        try:
            if host in self._bounds.addresses:
                destinations.address(host)
                return super().dns_lookup(host, port, raise_error)
            return destinations.server(host, port)
        except ReadFailed as problem:
            raise errors.KafkaConnectionError(problem.message) from None
