"""Settings of topics and brokers, and what is set at run time for all brokers, each with its own failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TypeVar

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import KafkaReads
from kafka_medic.cluster.elements import BROKER, CONFIGS, TOPIC, resource_name
from kafka_medic.cluster.snapshot import ConfigValue, Element
from kafka_medic.observe.sources import failure_summary
from kafka_medic.observe.tables import BROKER_CONFIGS, TOPIC_CONFIGS

Values = Mapping[str, ConfigValue]
T = TypeVar("T")
K = TypeVar("K", str, int)


@dataclass(slots=True)
class Settings:
    """What was read, and what was not. `everywhere`: what is set at run time for all brokers (KIP-226)."""

    topics: dict[str, Values] = field(default_factory=dict)
    brokers: dict[int, Values] = field(default_factory=dict)
    everywhere: Values = field(default_factory=dict)
    unread: dict[Element, str] = field(default_factory=dict)

    @property
    def gaps(self) -> str | None:
        """What was not read, in words."""
        return failure_summary({resource_name(e.kind, e.name): why for e, why in self.unread.items()})


def read_settings(
    kafka: KafkaReads,
    pool: Executor,
    topics: Sequence[str],
    brokers: Sequence[int],
    silent: Mapping[int, ReadFailed],
    among: Sequence[int] | None = None,
) -> Settings:
    """The three reads go side by side. `silent`: brokers that are not asked, and why. `among`: who is asked about what
    any broker can report. Raises ReadFailed when nothing at all could be read."""
    of_brokers = pool.submit(_tried, lambda: kafka.broker_configs(brokers, BROKER_CONFIGS))
    of_all = pool.submit(_tried, lambda: {"": kafka.cluster_configs(among)})
    of_topics = _tried(lambda: kafka.topic_configs(topics, among, TOPIC_CONFIGS))
    found = Settings(unread={Element(CONFIGS, BROKER, str(b)): str(why) for b, why in silent.items()})
    shared: dict[str, Values] = {}
    failed = [
        *_taken(of_topics, topics, TOPIC, found.topics, found.unread),
        *_taken(of_brokers.result(), brokers, BROKER, found.brokers, found.unread),
        *_taken(of_all.result(), [""], BROKER, shared, found.unread),
    ]
    found.everywhere = shared.get("", {})
    if failed and not (found.topics or found.brokers or shared):
        raise failed[0]
    return found


def _tried(read: Callable[[], T]) -> T | ReadFailed:
    try:
        return read()
    except ReadFailed as problem:
        return problem


def _taken(
    answers: Mapping[K, Values | ReadFailed] | ReadFailed,
    wanted: Sequence[K],
    kind: str,
    into: dict[K, Values],
    unread: dict[Element, str],
) -> list[ReadFailed]:
    """Each of these elements goes to where it belongs: what was read into `into`, the rest into `unread`."""
    missing = ReadFailed(FailureKind.OTHER, "not in the answer")
    failed = []
    for name in wanted:
        found = answers if isinstance(answers, ReadFailed) else answers.get(name, missing)
        if isinstance(found, ReadFailed):
            unread[Element(CONFIGS, kind, str(name))] = str(found)
            failed.append(found)
        else:
            into[name] = found
    return failed
