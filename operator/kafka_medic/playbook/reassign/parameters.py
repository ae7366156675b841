"""What reassignments are told: from the playbook, the KafkaCluster's overrides and the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_medic.playbook.parameters import parameter_value
from kafka_medic.resources.playbook import Playbook, Step

ADDED, REPLACED = "added", "replaced"
"""What a step does about replicas: adds what topics lack, or replaces those of brokers that are gone."""


@dataclass(frozen=True, slots=True)
class ReplaceParameters:
    """`brokers`: ids such as `1,3`, or `cause` (the broker that the finding names). `onto`: ids of the brokers that get
    the replicas, or `any`."""

    brokers: str = "cause"
    onto: str = "any"


@dataclass(frozen=True, slots=True)
class ReassignParameters:
    """`throttle_bytes_per_second`: each broker's replication rate while replicas are copied; None: no throttle.
    `bandwidth`: bytes per second of a broker's network, of which the throttle is `bandwidth_share` percent; None: the
    throttle was given as it is.
    `wave_bytes_per_broker`: at most so many bytes into and out of a broker in one wave (a larger partition alone)."""

    throttle_bytes_per_second: int | None = 50_000_000
    wave_bytes_per_broker: int | None = None
    wave_partitions: int | None = None
    bandwidth: int | None = None
    bandwidth_share: int | None = None


def reassign_parameters(playbook: Playbook, step: Step, given: Mapping[str, int | str]) -> ReassignParameters:
    """What counts for this run: the step's constants, else the run's values, else the playbook's defaults. A value of 0
    switches a bound off."""

    def number(name: str) -> int | None:
        value = parameter_value(playbook, step, given, name)
        return None if value is None else int(value) or None

    rate, bandwidth, share = number("throttleBytesPerSecond"), number("bandwidthBytesPerSecond"), None
    if bandwidth is not None and (share := number("bandwidthSharePercent")) is not None:
        rate = max(bandwidth * share // 100, 1)
    return ReassignParameters(
        throttle_bytes_per_second=rate,
        wave_bytes_per_broker=number("waveBytesPerBroker"),
        wave_partitions=number("wavePartitions"),
        bandwidth=bandwidth if share is not None else None,
        bandwidth_share=share,
    )


def replaces(step: Step) -> bool:
    """Whether the step replaces brokers that are gone."""
    return step.with_.get("replicas", ADDED) == REPLACED


def replace_parameters(playbook: Playbook, step: Step, given: Mapping[str, int | str]) -> ReplaceParameters:
    """What counts for this run, as in `reassign_parameters`."""
    plain = ReplaceParameters()
    brokers = parameter_value(playbook, step, given, "brokers")
    onto = parameter_value(playbook, step, given, "onto")
    return ReplaceParameters(
        plain.brokers if brokers is None else str(brokers).strip(), plain.onto if onto is None else str(onto).strip()
    )
