"""DescribeConfigs. `settings.json` has each public setting of topics and brokers with its default, as ConfigDef of
LogConfig and of AbstractKafkaConfig has them in Kafka 4.3.1: as many as a real broker answers with."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from kafka import errors
from kafka.protocol.admin import DescribeConfigsResponse

from tests.stub_cluster.description import Sight
from tests.stub_cluster.messages import body, length
from tests.stub_cluster.state import BROKER, TOPIC, Changes, State

OF_TOPIC, OF_BROKER, OF_EVERY_BROKER, OF_FILE, BY_DEFAULT = 1, 2, 3, 4, 5
"""KIP-226's config sources."""
FLEXIBLE = 4
"""The first version with compact arrays (KIP-482)."""
ANYONE = -1
"""Stands for the broker where all brokers give the same answer."""
_RESULT = DescribeConfigsResponse.DescribeConfigsResult
_ENTRY = _RESULT.DescribeConfigsResourceResult
Entries = Mapping[str, tuple[str | None, int]]
"""Value and source of each setting."""
Resource = tuple[int, str]
"""Type and name."""
Kept = dict[tuple[int, str, tuple[str, ...] | None, int], bytes]
"""By broker, sight, wanted settings and version."""


@cache
def defaults(kind: str) -> Mapping[str, str | None]:
    """`kind`: topic or broker."""
    found: dict[str, dict[str, str | None]] = json.loads(Path(__file__).with_name("settings.json").read_text())
    return found[kind]


class Settings:
    """Each resource is encoded once for each set of wanted settings, as long as nobody changes it."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._pieces: defaultdict[Resource, Kept] = defaultdict(dict)
        self._inherit()

    def _inherit(self) -> None:
        """What brokers and topics show that have set nothing themselves."""
        files, shared = self._state.described.files, self._state.shared
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

    def forget(self, changes: Changes) -> None:
        if (BROKER, "") in changes.settings:
            topic = self._topic
            self._inherit()
            outdated = {BROKER} if topic == self._topic else {BROKER, TOPIC}
            for kept in [key for key in self._pieces if key[0] in outdated]:
                del self._pieces[kept]
        for resource in changes.settings:
            self._pieces.pop(resource, None)

    def describe(self, broker: int, sight: Sight, request: Any) -> tuple[bytes, bool]:
        """The answer, and whether all brokers with this sight give the same answer."""
        version = request.API_VERSION
        anyones = all(r.resource_type == TOPIC or not r.resource_name for r in request.resources)
        if version < FLEXIBLE:
            results = [self._result(broker, sight, asked) for asked in request.resources]
            return body(DescribeConfigsResponse(throttle_time_ms=0, results=results), version), anyones
        pieces = [self._piece(broker, sight, asked, version) for asked in request.resources]
        none = body(DescribeConfigsResponse(throttle_time_ms=0, results=[]), version)
        return b"".join((none[:4], length(len(pieces)), *pieces, none[5:])), anyones

    def _piece(self, broker: int, sight: Sight, asked: Any, version: int) -> bytes:
        kind, name, wanted = asked.resource_type, asked.resource_name, asked.configuration_keys
        whose = broker if kind == BROKER and name else ANYONE
        key = (whose, sight.name, None if wanted is None else tuple(wanted), version)
        known = kind == BROKER or name in sight.topics
        if known and (found := self._pieces[kind, name].get(key)) is not None:
            return found
        alone = body(DescribeConfigsResponse(throttle_time_ms=0, results=[self._result(broker, sight, asked)]), version)
        piece = alone[5:-1]  # behind the throttle time and the number of results, before the tagged fields
        if known:
            self._pieces[kind, name][key] = piece
        return piece

    def _result(self, broker: int, sight: Sight, asked: Any) -> Any:
        kind, name, state = asked.resource_type, asked.resource_name, self._state
        code, why, entries = 0, None, {}
        if kind == TOPIC and name in sight.topics:
            own = {key: (value, OF_TOPIC) for key, value in sight.topics[name].settings.items()}
            entries = {**self._topic, **own}
        elif kind == TOPIC:
            code, why = errors.UnknownTopicOrPartitionError.errno, ""
        elif kind == BROKER and not name:
            entries = {key: (value, OF_EVERY_BROKER) for key, value in state.shared.items()}
        elif kind == BROKER and name == str(broker):
            own = {key: (value, OF_BROKER) for key, value in state.own[broker].items()}
            entries = {**self._broker, "broker.id": (name, OF_FILE), "node.id": (name, OF_FILE), **own}
        elif kind == BROKER:
            code, why = errors.InvalidRequestError.errno, unexpected(broker, name)
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


def unexpected(broker: int, name: str) -> str:
    """A broker describes and changes its own settings and those of all brokers."""
    return f"Unexpected broker id, expected {broker} or empty string, but received {name}"


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
