"""Brokers on the loopback that speak Kafka's own messages, as far as finding out who they are needs it."""

from __future__ import annotations

import io
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import trustme
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from kafka.protocol.consumer.offsets import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse

from kafka_medic.clients.kafka_admin import KafkaAdmin
from kafka_medic.clients.ports import Connection

REQUESTS = {
    c.API_KEY: c
    for c in (
        ApiVersionsRequest,
        MetadataRequest,
        DescribeConfigsRequest,
        DescribeClusterRequest,
        ElectLeadersRequest,
        DescribeLogDirsRequest,
        ListOffsetsRequest,
    )
}
INVALID_REQUEST, UNAUTHORIZED = 42, 31
_PORTS: set[int] = set()
"""That some broker of these tests has had."""


@dataclass
class WireBroker:
    """Listens at its own address. `error`: what it answers for its own id; `controller`: it knows no metadata. `mute`:
    it takes connections and says nothing. `cut_off`: it cannot pass an election on. `opened`: connections so far."""

    id: int
    ip: str
    error: int = 0
    cluster: str = "c"
    controller: bool = False
    mute: bool = False
    cut_off: bool = False
    certificate: trustme.LeafCert | None = None
    peers: Sequence[tuple[int, str, int]] = ()
    """What it tells of the cluster: id, host, port."""
    metadata_version: int = 4
    """The latest that it knows of Metadata."""
    topics: Sequence[Any] = ()
    """MetadataResponseTopics, for whoever requests all."""
    metadata_error: int = 0
    unaware: int = 0
    """How many Metadata requests it answers without a broker or a controller, as one that has just started."""
    malformed: bytes | None = None
    """In place of a whole Metadata response behind its header, and of each about logs."""
    logs_version: int = 4
    """The latest that it knows of DescribeLogDirs and ListOffsets."""
    logs: Mapping[tuple[str, int], tuple[int, int, int]] = field(default_factory=dict)
    """Of each of its partitions where its log starts and ends, and its bytes."""
    epochs: list[int] = field(default_factory=list)
    """In ListOffsets requests so far."""
    opened: int = 0
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.listener = _listener(self.ip)
        self.port: int = self.listener.getsockname()[1]
        self.links: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for link in (self.listener, *self.links):
            link.close()

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self.listener.accept()
            except OSError:
                return
            self.opened += 1
            self.links.append(link)
            if not self.mute:
                threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        try:
            if self.certificate is not None:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                self.certificate.configure_cert(context)
                link = context.wrap_socket(link, server_side=True)
                self.links.append(link)
            while head := _exactly(link, 4):
                if answer := self._answer(_exactly(link, struct.unpack(">i", head)[0])):
                    link.sendall(answer)
        except (OSError, EOFError):
            link.close()

    def _answer(self, data: bytes) -> bytes:
        key, version = struct.unpack(">hh", data[:4])
        request_type = REQUESTS[key]
        rest = io.BytesIO(data)
        header = request_type.parse_header(rest, version=version)
        request = request_type.decode(data[rest.tell() :], version=version)
        if self.cut_off and key == ElectLeadersRequest.API_KEY:
            self.asked.append(("elect",))
            return b""
        response: Any = {
            ApiVersionsRequest.API_KEY: self._versions,
            MetadataRequest.API_KEY: self._metadata,
            DescribeConfigsRequest.API_KEY: self._configs,
            DescribeClusterRequest.API_KEY: self._cluster,
            ElectLeadersRequest.API_KEY: self._elected,
            DescribeLogDirsRequest.API_KEY: self._log_dirs,
            ListOffsetsRequest.API_KEY: self._offsets,
        }[key](request)
        response.API_VERSION = version
        response.with_header(correlation_id=header.correlation_id)
        logs = key in (DescribeLogDirsRequest.API_KEY, ListOffsetsRequest.API_KEY)
        whole = logs or (key == MetadataRequest.API_KEY and request.topics is None)
        if self.malformed is not None and whole:
            frame = response.encode_header(flexible=response.flexible_version_q(version)) + self.malformed
            return struct.pack(">i", len(frame)) + frame
        return bytes(response.encode(header=True, framed=True))

    def _versions(self, _: Any) -> Any:
        one = ApiVersionsResponse.ApiVersion
        known = [c for c in REQUESTS.values() if not (self.controller and c is MetadataRequest)]
        logs = self.logs_version
        latest = {MetadataRequest: self.metadata_version, DescribeLogDirsRequest: logs, ListOffsetsRequest: logs}
        keys = [one(api_key=c.API_KEY, min_version=0, max_version=min(latest.get(c, 4), c.max_version)) for c in known]
        return ApiVersionsResponse(error_code=0, api_keys=keys, throttle_time_ms=0)

    def _metadata(self, request: Any) -> Any:
        self.unaware -= (unaware := self.unaware > 0)
        one = MetadataResponse.MetadataResponseBroker
        nodes = [one(node_id=id_, host=host, port=port, rack=None) for id_, host, port in self.peers]
        return MetadataResponse(
            throttle_time_ms=0,
            brokers=[] if unaware else nodes,
            cluster_id=self.cluster,
            controller_id=-1 if unaware else 1,
            topics=list(self.topics) if request.topics is None else [],
            error_code=self.metadata_error if request.topics is None else 0,
        )

    def _log_dirs(self, _: Any) -> Any:
        directory = DescribeLogDirsResponse.DescribeLogDirsResult
        topic = directory.DescribeLogDirsTopic
        topics = [
            topic(
                name=name,
                partitions=[
                    topic.DescribeLogDirsPartition(
                        partition_index=tp[1], partition_size=self.logs[tp][2], offset_lag=0, is_future_key=False
                    )
                    for tp in tps
                ],
            )
            for name, tps in groupby(self.logs, key=lambda tp: tp[0])
        ]
        one = directory(error_code=0, log_dir="/data", topics=topics, total_bytes=9, usable_bytes=4, is_cordoned=False)
        return DescribeLogDirsResponse(throttle_time_ms=0, error_code=0, results=[one])

    def _offsets(self, request: Any) -> Any:
        """The topics in another order than requested, as some versions of Kafka have them."""
        topic = ListOffsetsResponse.ListOffsetsTopicResponse
        part = topic.ListOffsetsPartitionResponse

        def told(name: str, asked: Any) -> Any:
            self.epochs.append(asked.current_leader_epoch)
            log = self.logs.get((name, asked.partition_index))
            offset = -1 if log is None else log[{-2: 0, -1: 1}[asked.timestamp]]
            return part(
                partition_index=asked.partition_index,
                error_code=3 if log is None else 0,
                old_style_offsets=[],
                timestamp=-1,
                offset=offset,
                leader_epoch=-1,
            )

        assert request.replica_id == -1
        topics = [topic(name=t.name, partitions=[told(t.name, p) for p in t.partitions]) for t in request.topics]
        return ListOffsetsResponse(throttle_time_ms=0, topics=topics[::-1])

    def _cluster(self, request: Any) -> Any:
        """As kafka.server.AuthHelper does: who is asked for the other kind refuses."""
        code = 0 if request.endpoint_type == (2 if self.controller else 1) else 114
        return DescribeClusterResponse(throttle_time_ms=0, error_code=code, cluster_id=self.cluster, brokers=[])

    def _elected(self, request: Any) -> Any:
        self.asked.append(("elect",))
        return ElectLeadersResponse(throttle_time_ms=0, error_code=0, replica_election_results=[])

    def _configs(self, request: Any) -> Any:
        """As kafka.server.ConfigHelper does."""
        result = DescribeConfigsResponse.DescribeConfigsResult
        self.asked.append(tuple(r.resource_name for r in request.resources))
        found = []
        for r in request.resources:
            code = self.error or (0 if r.resource_name == str(self.id) else INVALID_REQUEST)
            told = f"Unexpected broker id, expected {self.id} or empty string, but received {r.resource_name}"
            found.append(
                result(
                    error_code=code,
                    error_message=told if code else None,
                    resource_type=r.resource_type,
                    resource_name=r.resource_name,
                    configs=[],
                )
            )
        return DescribeConfigsResponse(throttle_time_ms=0, results=found)


@dataclass
class Relay:
    """An address in front of a broker, as a Service's: whoever connects to it does not see where it ends."""

    ip: str
    to: WireBroker

    def __post_init__(self) -> None:
        self.listener = _listener(self.ip)
        self.port: int = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self.listener.accept()
            except OSError:
                return
            there = socket.create_connection((self.to.ip, self.to.port))
            for one, other in ((link, there), (there, link)):
                threading.Thread(target=_pass_on, args=(one, other), daemon=True).start()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    try:
        while data := one.recv(4096):
            other.sendall(data)
    except OSError:
        pass
    other.close()


def _listener(ip: str) -> socket.socket:
    """At a port of its own: whoever asks one broker at another's port is to find nobody."""
    while (found := socket.create_server((ip, 0))).getsockname()[1] in _PORTS:
        found.close()
    _PORTS.add(found.getsockname()[1])
    return found


def _exactly(link: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = link.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


Make = Callable[..., tuple[Any, list["WireBroker"]]]


@contextmanager
def two_brokers(network: str, **usual: Any) -> Iterator[Make]:
    """Makes brokers 1 and 2 at `network`1 and `network`2, and a client that knows both. All are closed at the end."""
    with ExitStack() as opened:

        def make(**how: Any) -> tuple[Any, list[WireBroker]]:
            brokers = [opened.enter_context(closing(WireBroker(n, f"{network}{n}", **usual | how))) for n in (1, 2)]
            for broker in brokers:
                broker.peers = [(b.id, b.ip, b.port) for b in brokers]
            first = f"{brokers[0].ip}:{brokers[0].port}"
            admin = opened.enter_context(closing(KafkaAdmin(Connection(first, timeout_seconds=3.0))))
            admin.members()
            return admin, brokers

        yield make
