"""Where the operator may connect to on behalf of a namespace.

Whoever may write a KafkaCluster, and every broker by what it advertises, names hosts that the operator then connects to
from within the cluster, with credentials. The administrator bounds them (chart value `destinations`). What a name
resolves to is bounded as well, right before the connection.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from kafka_medic.clients.failures import FailureKind, ReadFailed

IpAddress: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"
Sockaddr: TypeAlias = "tuple[int, int, int, str, tuple[str, int]]"
"""As `socket.getaddrinfo` answers: family, type, protocol, canonical name, address."""
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
"""NAT64 (RFC 6052): the last four bytes are an IPv4 address."""


@dataclass(frozen=True, slots=True)
class Destinations:
    """Of one namespace. `servers`: brokers, ZooKeeper servers and exporters; `token_endpoints`: OAuth token endpoints.
    Both hold host names, `*.` and a suffix, and networks for addresses. `forbidden`: addresses of the API server."""

    namespace: str
    servers: tuple[str, ...] = ()
    token_endpoints: tuple[str, ...] = ()
    forbidden: frozenset[str] = frozenset()
    loopback: bool = False
    """For tests on one machine."""

    def check_servers(self, hosts: Iterable[str]) -> None:
        for host in hosts:
            self._named(host, self.servers, "servers")

    def server(self, host: str, port: int) -> list[Sockaddr]:
        """Where that is, to be connected to as it is answered. Raises ReadFailed."""
        return self._resolved(host, port, self.servers, "servers")

    def token_endpoint(self, host: str, port: int) -> list[Sockaddr]:
        return self._resolved(host, port, self.token_endpoints, "tokenEndpoints")

    def address(self, text: str) -> None:
        """For an address that Kubernetes or a resolver answered. Raises ReadFailed."""
        self._possible(text, text)

    def _named(self, host: str, allowed: tuple[str, ...], kind: str) -> None:
        ip = _ip(host)
        if ip is not None:
            self._possible(host, host)
            listed_networks = (network for entry in allowed if (network := _network(entry)) is not None)
            if ip.is_loopback or any(ip in network for network in listed_networks):
                return
        elif self._internal(host) or any(_matches(host, entry) for entry in allowed):
            return
        inside = f"*.{self.namespace}.svc and *.{self.namespace}.svc.cluster.local"
        listed = f", {', '.join(allowed)}" if allowed else ""
        raise ReadFailed(
            FailureKind.DESTINATION,
            f"{host}: not a destination for namespace {self.namespace}, which may name {inside}{listed}; "
            f"an administrator adds it to the chart value destinations ({kind})",
        )

    def _resolved(self, host: str, port: int, allowed: tuple[str, ...], kind: str) -> list[Sockaddr]:
        self._named(host, allowed, kind)
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_CANONNAME)
        except (OSError, UnicodeError) as problem:
            raise ReadFailed(FailureKind.UNREACHABLE, f"{host}: {problem}") from None
        # A Service of type ExternalName is an alias for a name anywhere.
        alias = str(found[0][3]).rstrip(".").lower()
        if alias and _ip(alias) is None and alias != host.rstrip(".").lower():
            self._named(alias, allowed, kind)
        for one in found:
            self._possible(str(one[4][0]), host)
        return [(family, kind_, proto, name, (str(a[0]), port)) for family, kind_, proto, name, a in found]

    def _internal(self, host: str) -> bool:
        name = host.rstrip(".").lower()
        return name.endswith((f".{self.namespace}.svc", f".{self.namespace}.svc.cluster.local"))

    def _possible(self, address: str, host: str) -> None:
        ip = _ip(address)
        if ip is None:
            raise ReadFailed(FailureKind.DESTINATION, f"{host}: {address} is no address")
        what = None
        if ip.is_loopback or ip.is_unspecified or ip in ipaddress.ip_network("0.0.0.0/8"):
            what = None if self.loopback and ip.is_loopback else "the operator's own Pod"
        elif ip.is_link_local or ip.is_multicast:
            what = "link-local or multicast"
        elif str(ip) in self.forbidden:
            what = "the API server"
        if what is not None:
            at = host if host == address else f"{host}, which is {address}"
            raise ReadFailed(FailureKind.DESTINATION, f"{at}: {what}, never a destination; correct the address")


def is_address(host: str) -> bool:
    return _ip(host) is not None


def _ip(text: str) -> IpAddress | None:
    """IPv4 also where it is written as IPv6."""
    try:
        ip = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return ip.ipv4_mapped
        if ip in _TRANSLATED:
            return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip


def _network(entry: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return None


def _matches(host: str, entry: str) -> bool:
    name, entry = host.rstrip(".").lower(), entry.rstrip(".").lower()
    return name.endswith(entry[1:]) if entry.startswith("*.") else name == entry
