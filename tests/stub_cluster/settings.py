"""DescribeConfigs. `settings.json` has each public setting of topics and brokers with its default, as ConfigDef of
LogConfig and of AbstractKafkaConfig has them in Kafka 4.3.1: as many as a real broker answers with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka import errors
from kafka.protocol.admin import DescribeConfigsResponse

from tests.stub_cluster.description import Described, Sight

TOPIC, BROKER = 2, 4
OF_TOPIC, OF_BROKER, OF_EVERY_BROKER, OF_FILE, BY_DEFAULT = 1, 2, 3, 4, 5
"""KIP-226's config sources."""
_RESULT = DescribeConfigsResponse.DescribeConfigsResult
_ENTRY = _RESULT.DescribeConfigsResourceResult
Entries = Mapping[str, tuple[str | None, int]]
"""Value and source of each setting."""


def defaults(kind: str) -> dict[str, str | None]:
    """`kind`: topic or broker."""
    found: dict[str, dict[str, str | None]] = json.loads(Path(__file__).with_name("settings.json").read_text())
    return found[kind]


class Settings:
    def __init__(self, described: Described) -> None:
        self._described = described
        files, shared = described.files, described.shared
        self._broker: dict[str, tuple[str | None, int]] = {
            **{name: (value, BY_DEFAULT) for name, value in defaults("broker").items()},
            **{name: (value, OF_FILE) for name, value in files.items()},
            **{name: (value, OF_EVERY_BROKER) for name, value in shared.items()},
        }
        # What a topic does not set shows through of the brokers, as far as it has the same name there.
        self._topic: dict[str, tuple[str | None, int]] = {
            name: self._broker[name] if name in files or name in shared else (value, BY_DEFAULT)
            for name, value in defaults("topic").items()
        }

    def describe(self, broker: int, sight: Sight, request: Any) -> tuple[Any, bool]:
        """The answer, and whether all brokers with this sight give the same answer."""
        results = [self._result(broker, sight, asked) for asked in request.resources]
        anyones = all(r.resource_type == TOPIC or not r.resource_name for r in request.resources)
        return DescribeConfigsResponse(throttle_time_ms=0, results=results), anyones

    def _result(self, broker: int, sight: Sight, asked: Any) -> Any:
        kind, name = asked.resource_type, asked.resource_name
        code, why, entries = 0, None, {}
        if kind == TOPIC and name in sight.topics:
            own = {key: (value, OF_TOPIC) for key, value in sight.topics[name].settings.items()}
            entries = {**self._topic, **own}
        elif kind == TOPIC:
            code, why = errors.UnknownTopicOrPartitionError.errno, ""
        elif kind == BROKER and not name:
            entries = {key: (value, OF_EVERY_BROKER) for key, value in self._described.shared.items()}
        elif kind == BROKER and name == str(broker):
            own = {key: (value, OF_BROKER) for key, value in self._described.own.get(broker, {}).items()}
            entries = {**self._broker, "broker.id": (name, OF_FILE), "node.id": (name, OF_FILE), **own}
        elif kind == BROKER:
            code = errors.InvalidRequestError.errno
            why = f"Unexpected broker id, expected {broker} or empty string, but received {name}"
        else:
            code, why = errors.InvalidRequestError.errno, f"Unsupported resource type: {kind}"
        wanted = asked.configuration_keys
        shown = entries if wanted is None else {key: entries[key] for key in wanted if key in entries}
        return _RESULT(
            error_code=code,
            error_message=why,
            resource_type=kind,
            resource_name=name,
            configs=[_entry(key, *found) for key, found in shown.items()],
        )


def _entry(name: str, value: str | None, source: int) -> Any:
    return _ENTRY(
        name=name,
        value=value,
        read_only=False,
        config_source=source,
        is_default=source == BY_DEFAULT,
        is_sensitive=False,
        synonyms=[],
        config_type=0,
        documentation=None,
    )
