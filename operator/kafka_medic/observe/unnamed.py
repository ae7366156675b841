"""Brokers that the cluster does not name any more: asked all the same, at the address that they last had.

A broker that lost its registration is in nobody's metadata, so that only whoever remembers its address can find out
that it is alive and answers its clients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kafka_medic.clients.failures import ReadFailed
from kafka_medic.clients.ports import Address, BrokerView, ClusterDescription, KafkaReads
from kafka_medic.cluster.snapshot import Pod
from kafka_medic.observe import checks

AddressBook = dict[int, Address]
"""Where each broker last said that it is. Kept from look to look; what nobody names any more is dropped."""


def unnamed_views(
    kafka: KafkaReads,
    book: AddressBook,
    described: ClusterDescription,
    expected: Iterable[int],
    pods: Mapping[int, Pod] | None,
) -> dict[int, BrokerView | ReadFailed]:
    """What brokers that are `expected` (some partition has a replica there, or a Pod runs it) and not named say. Of one
    that may run where nobody knows of there is no answer: it was not asked. Raises ReadFailed when they could not be
    looked for."""
    named = {node.id: (node.host, node.port) for node in described.nodes}
    book.update(named)
    missing = sorted(set(expected) - set(named))
    for gone in set(book) - set(named) - set(missing):
        del book[gone]
    if not missing:
        return {}
    usual = [port for port, _ in Counter(port for _, port in named.values()).most_common(1)]
    candidates: dict[int, list[Address]] = {}
    for broker in missing:
        known = [book[broker]] if broker in book else []
        pod = None if pods is None else pods.get(broker)
        if pod is not None and pod.ip:
            # Advertised ports may be those of nodes or load balancers, where a Pod listens to nobody.
            known += [(pod.ip, port) for port in dict.fromkeys([*usual, *(pod.ports or ())])]
        # It runs nowhere: its Pod has no address yet, or is gone where every broker that is named has one.
        nowhere = pods is not None and (pod is not None or named.keys() <= pods.keys())
        if known or nowhere:
            candidates[broker] = known
    return {broker: _checked(answer) for broker, answer in kafka.unnamed_views(candidates).items()}


def _checked(answer: BrokerView | ReadFailed) -> BrokerView | ReadFailed:
    if isinstance(answer, ReadFailed):
        return answer
    try:
        return checks.view(answer)
    except checks.BadAnswer as problem:
        return problem
