"""kafka-python: which broker answers at a Pod's own address.

Of all ids a broker describes the configuration of its own and refuses every other: "Unexpected broker id"
(kafka.server.ConfigHelper). A KRaft controller that is no broker does the same on its own listener since 3.7
(kafka.server.ControllerApis, KIP-919). It has to be of the same Kafka cluster as well: brokers of two clusters share
their ids.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address
from typing import Any

from kafka import errors
from kafka.net.connection import KafkaConnection
from kafka.net.inet import create_connection
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.metadata import MetadataRequest

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.kafka_discovery import TRY_SECONDS, confirms, identity_request
from kafka_medic.clients.ports import Address, PodAddress
from kafka_medic.clients.tls import names_another_host

_LOG = logging.getLogger(__name__)
CONTROLLERS = 2
"""KIP-919's endpoint type."""


async def identify(client: Any, claimed: int, pod: PodAddress, ids: Sequence[int], seconds: float) -> int:
    """The id that answers there. `claimed`: the id that the Pod is said to have, below 0 where nothing says it. Raises
    what kept it from answering."""
    if claimed >= 0 and await _over_the_link(client, claimed, pod.ip, seconds):
        return claimed
    end = time.monotonic() + TRY_SECONDS
    pending = [
        client._manager.call_soon(_at, client, (pod.ip, port), pod.hosts, claimed, ids, end) for port in pod.ports
    ]
    found: set[int] = set()
    problems: list[Exception] = []
    for answer in pending:
        try:
            found.add(await answer)
        except Exception as problem:  # noqa: BLE001 - another port may be the right one; the first failure is reported
            problems.append(problem)
    if len(found) > 1:
        raise ReadFailed(FailureKind.OTHER, f"brokers {sorted(found)} all answer at {pod.ip}")
    if found:
        return found.pop()
    raise problems[0] if problems else ReadFailed(FailureKind.OTHER, "no port is known")


async def _over_the_link(client: Any, broker: int, ip: str, seconds: float) -> bool:
    """Whether the connection that there is to that broker anyway, or has to be, ends at this very IP."""
    manager = client._manager
    try:
        manager.reset_backoff(broker)
        connection = manager.get_connection(broker)
        # With the usual time limit, since kafka-python closes a connection on which a request has run out of time.
        sent = connection.send_request(identity_request([broker]), int(seconds * 1000))
        answer = await manager.wait_for(sent, TRY_SECONDS * 1000)
        return confirms(answer) and _plain(connection.transport.getPeer()[0]) == _plain(ip)
    except Exception as problem:  # noqa: BLE001 - then it is asked at the Pod's own address
        _LOG.debug("broker %s: not identified by the connection to it: %s", broker, problem)
        return False


async def _at(client: Any, address: Address, hosts: Sequence[str], claimed: int, ids: Sequence[int], end: float) -> int:
    """By a connection of its own, which is closed again. The certificate has to be for one of these hosts."""
    for host in hosts if client._manager.ssl_enabled else ():
        try:
            return await _ask(client, address, host, claimed, ids, end)
        except ssl.SSLCertVerificationError as problem:
            if not names_another_host(problem) or host == hosts[-1]:
                raise
    return await _ask(client, address, address[0], claimed, ids, end)


async def _ask(client: Any, address: Address, host: str, claimed: int, ids: Sequence[int], end: float) -> int:
    connection = await _connected(client, address, host, end)
    try:
        found = await _own_id(connection, claimed, ids, end)
        cluster = await _cluster(connection, end)
        if cluster != client._manager.cluster.cluster_id:
            raise ReadFailed(FailureKind.OTHER, f"broker {found} of another Kafka cluster, {cluster}, answers")
        return found
    finally:
        connection.close()


async def _own_id(connection: Any, claimed: int, ids: Sequence[int], end: float) -> int:
    for part in ([claimed] if claimed >= 0 else [], [i for i in ids if i != claimed]):
        answer = await connection.send_request(identity_request(part), _left(end)) if part else None
        for result in answer.results if answer is not None else ():
            if result.error_code == 0:
                return int(result.resource_name)
            if result.error_code == errors.ClusterAuthorizationFailedError.errno:
                raise errors.ClusterAuthorizationFailedError(result.error_message or "")
    raise ReadFailed(FailureKind.OTHER, f"none of the brokers {', '.join(map(str, ids))} answers")


async def _cluster(connection: Any, end: float) -> str | None:
    """A controller that is no broker answers no metadata request."""
    if MetadataRequest.API_KEY in connection.broker_version_data.api_versions:
        request: Any = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    else:
        request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
    answer = await connection.send_request(request, _left(end))
    if code := getattr(answer, "error_code", 0):
        raise errors.for_code(code)(getattr(answer, "error_message", None) or "")
    return str(answer.cluster_id) if answer.cluster_id is not None else None


async def _connected(client: Any, address: Address, host: str, end: float) -> Any:
    """Every wait in here ends by `end`; the manager's own way to connect waits for a handshake without limit, and takes
    the name for the certificate from where it connects to."""
    manager = client._manager
    net, config = manager._net, {**manager.config, "metrics": None}
    plain = await create_connection(net, *address, config["socket_options"], timeout_at=end)
    if manager.ssl_enabled:
        transport = KafkaSSLTransport(net, plain, host=host, ssl_context=config["ssl_context"])
    else:
        transport = KafkaTCPTransport(net, plain, host=host)
    connection = KafkaConnection(net, node_id=f"pod-{address[0]}-{address[1]}", **config)
    try:
        if manager.ssl_enabled:
            await _handshake(net, transport._sock, end)
        connection.connection_made(transport)
    except BaseException:
        transport.close()
        raise
    await connection.initialize(timeout_at=end)
    await connection
    return connection


async def _handshake(net: Any, link: ssl.SSLSocket, end: float) -> None:
    while True:
        try:
            return link.do_handshake()
        except ssl.SSLWantReadError:
            await net.wait_read(link, timeout_at=end)
        except ssl.SSLWantWriteError:
            await net.wait_write(link, timeout_at=end)


def _left(end: float) -> int:
    """In milliseconds."""
    return max(1, int((end - time.monotonic()) * 1000))


def _plain(ip: str) -> Any:
    """An IPv4 address may come in IPv6's clothes."""
    found = ip_address(ip)
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found
