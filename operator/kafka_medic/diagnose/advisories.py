"""Known bugs by component and version, as data: advisories.yaml beside this module, part of the package."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from importlib.resources import files
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter
from pydantic.alias_generators import to_camel

from kafka_medic.resources.vocabulary import ClusterMode, Severity

Text = Annotated[str, StringConstraints(min_length=10, max_length=400)]
Release = Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+){1,3}$")]


class Component(StrEnum):
    """What has a version."""

    BROKER = "broker"
    INTER_BROKER_PROTOCOL = "inter-broker-protocol"
    JAVA_CLIENT = "apache-kafka-java"
    LIBRDKAFKA = "librdkafka"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class Range(_Strict):
    """Releases from `start`, itself included, to `before`, itself not."""

    start: Release | None = Field(default=None, alias="from")
    before: Release | None = None


class Advisory(_Strict):
    """One entry. `mode`: only for clusters of that kind. `largest_topic_from`: only for clusters that have a topic of
    at least so many partitions."""

    id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9-]{1,62}$")]
    component: Component
    affected: Annotated[tuple[Range, ...], Field(min_length=1)]
    severity: Severity
    effect: Text
    fix: Text
    sources: Annotated[tuple[Annotated[str, StringConstraints(pattern=r"^https://[^ ]+$")], ...], Field(min_length=1)]
    mode: ClusterMode | None = None
    largest_topic_from: Annotated[int, Field(ge=1)] | None = None


@lru_cache(maxsize=1)
def shipped() -> tuple[Advisory, ...]:
    """The advisories of this release. A bad file is a fault of the release, which its tests find."""
    text = files(__package__).joinpath("advisories.yaml").read_text(encoding="utf-8")
    return TypeAdapter(tuple[Advisory, ...]).validate_python(yaml.safe_load(text))
