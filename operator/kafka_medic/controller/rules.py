"""What the administrator has set, as the chart hands it to the operator in one file."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Literal

from kafka_medic.clients.destinations import Destinations
from kafka_medic.resources.admission import ExpectedPolicy
from kafka_medic.resources.base import Model


class Destination(Model):
    """What KafkaClusters of a namespace may name besides the names of its own Services."""

    namespace: str
    servers: tuple[str, ...] = ()
    token_endpoints: tuple[str, ...] = ()


class Rules(Model):
    """The file of `--rules`. Without one, plans are proposed only."""

    version: Literal[1] = 1
    policies: tuple[ExpectedPolicy, ...] = ()
    destinations: tuple[Destination, ...] = ()

    def destinations_of(self, namespace: str, forbidden: Collection[str], *, loopback: bool) -> Destinations:
        """`forbidden`: addresses of the API server. The entries for every namespace (`*`) hold besides its own."""
        mine = [entry for entry in self.destinations if entry.namespace in (namespace, "*")]
        return Destinations(
            namespace=namespace,
            servers=tuple(name for entry in mine for name in entry.servers),
            token_endpoints=tuple(name for entry in mine for name in entry.token_endpoints),
            forbidden=frozenset(forbidden),
            loopback=loopback,
        )


def read_rules(file: Path) -> Rules:
    """Raises OSError, and ValueError that names the bad key."""
    return Rules.model_validate_json(file.read_bytes())
