"""Settings in Kafka's own messages: DescribeConfigs (KIP-133), and, of the BROKER without a name, which is all of them
(KIP-226) and which librdkafka refuses, IncrementalAlterConfigs (KIP-339)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka import errors
from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from kafka_medic.clients.failures import ReadFailed, WriteFailed
from kafka_medic.clients.kafka_link import failure_of
from kafka_medic.clients.ports import ConfigChange
from kafka_medic.cluster.snapshot import ConfigValue

TOPIC, BROKER = 2, 4
"""KIP-133's resource types."""
EVERY_BROKER = ""
_SET, _DELETE = 0, 1
_OF_TOPIC, _OF_BROKER, _OF_EVERY_BROKER = 1, 2, 3
"""KIP-226's config sources: set while it runs, for this topic, for this broker, for all brokers."""


def configs_request(kind: int, resources: Sequence[str], names: Sequence[str] | None = None) -> Any:
    """`names`: which settings of each resource; None: all."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    keys = None if names is None else list(names)
    settings = [resource(resource_type=kind, resource_name=name, configuration_keys=keys) for name in resources]
    return DescribeConfigsRequest(resources=settings, include_synonyms=False)


def configs(answer: Any) -> dict[str, dict[str, ConfigValue] | ReadFailed]:
    """By name of the topic or broker, each with its own error: a topic may be deleted between two requests. A sensitive
    setting has no value. Dynamic is what was set on that very resource: of a topic, what shows through of its broker
    is not."""
    found: dict[str, dict[str, ConfigValue] | ReadFailed] = {}
    for result in answer.results:
        try:
            refuse(ReadFailed, result.error_code, f"settings of {result.resource_name or 'all'}", result.error_message)
        except ReadFailed as problem:
            found[result.resource_name] = problem
            continue
        own = _OF_TOPIC if result.resource_type == TOPIC else _OF_BROKER
        if result.resource_type == BROKER and result.resource_name == EVERY_BROKER:
            own = _OF_EVERY_BROKER
        found[result.resource_name] = {
            entry.name: ConfigValue(entry.value, entry.config_source == own) for entry in result.configs
        }
    return found


def alter_request(changes: Sequence[ConfigChange]) -> Any:
    """All of them on the BROKER without a name."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    entries = [
        resource.AlterableConfig(name=c.name, config_operation=_DELETE if c.value is None else _SET, value=c.value)
        for c in changes
    ]
    everybody = resource(resource_type=BROKER, resource_name=EVERY_BROKER, configs=entries)
    return IncrementalAlterConfigsRequest(resources=[everybody], validate_only=False)


def altered(answer: Any) -> None:
    """Raises WriteFailed with the broker's reason."""
    for result in answer.responses:
        refuse(WriteFailed, result.error_code, "settings of all brokers", result.error_message)


def refuse(as_type: type[ReadFailed] | type[WriteFailed], code: int, what: str, message: str | None = None) -> None:
    if code:
        raise failure_of(as_type, errors.for_code(code)(message or ""), what)
