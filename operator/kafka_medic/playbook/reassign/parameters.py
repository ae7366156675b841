"""What reassignments are told: from the playbook, the KafkaCluster's overrides and the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_medic.playbook.parameters import parameter_value
from kafka_medic.resources.playbook import Playbook, Step

ADDED, REPLACED, RESTORED, MOVED = "added", "replaced", "restored", "moved"
SPREAD, EVENED, RELIEVED = "spread", "evened", "relieved"
"""What a step does about replicas: adds what topics lack, or replaces those of brokers that are gone (REPLACED), or of
log directories that have failed (RESTORED). For the step after to remove where they were, it copies those of brokers
that are to be empty, those that share a rack though they need not, as many as make brokers hold the same number, or
enough bytes off a volume that fills."""


@dataclass(frozen=True, slots=True)
class LeaveParameters:
    """`brokers`: ids such as `1,3`, or `cause` (the broker that the finding names). `onto`: ids of the brokers that get
    the replicas, or `any`. `batch`: partitions that lose replicas at a time."""

    brokers: str = "cause"
    onto: str = "any"
    batch: int = 50


@dataclass(frozen=True, slots=True)
class EvenParameters:
    """`moves`: replicas that are copied at most to make brokers even. `batch`: as in `LeaveParameters`.
    `balance`: what is to be even, `replicas`, `bytes` or `cause` (what the finding names; replicas without one)."""

    moves: int = 100
    batch: int = 50
    balance: str = "cause"


@dataclass(frozen=True, slots=True)
class RelieveParameters:
    """`brokers`, `batch`: as in `LeaveParameters`. `share`: percent of each volume that is to be free afterwards."""

    brokers: str = "cause"
    share: int = 25
    batch: int = 50


@dataclass(frozen=True, slots=True)
class WithinParameters:
    """`brokers`, `share`: as in `RelieveParameters`. `batch`, `batch_bytes`: replicas and bytes that a broker moves
    between its log directories at a time. `throttle_bytes_per_second`: of these copies, on each broker; None: none."""

    brokers: str = "cause"
    share: int = 25
    batch: int = 50
    batch_bytes: int | None = None
    throttle_bytes_per_second: int | None = 50_000_000


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


def asked_of(step: Step) -> str:
    """One of these words."""
    return str(step.with_.get("replicas", ADDED))


def leave_parameters(playbook: Playbook, step: Step, given: Mapping[str, int | str]) -> LeaveParameters:
    """What counts for this run, as in `reassign_parameters`."""
    plain = LeaveParameters()
    brokers = parameter_value(playbook, step, given, "brokers")
    onto, batch = (parameter_value(playbook, step, given, name) for name in ("onto", "batchSize"))
    return LeaveParameters(
        plain.brokers if brokers is None else str(brokers).strip(),
        plain.onto if onto is None else str(onto).strip(),
        plain.batch if batch is None else max(int(batch), 1),
    )


def even_parameters(playbook: Playbook, step: Step, given: Mapping[str, int | str]) -> EvenParameters:
    """What counts for this run, as in `reassign_parameters`."""
    plain = EvenParameters()
    moves, batch = (parameter_value(playbook, step, given, name) for name in ("maxMoves", "batchSize"))
    balance = parameter_value(playbook, step, given, "balance")
    return EvenParameters(
        plain.moves if moves is None else max(int(moves), 1),
        plain.batch if batch is None else max(int(batch), 1),
        plain.balance if balance is None else str(balance).strip(),
    )


def relieve_parameters(playbook: Playbook, step: Step, given: Mapping[str, int | str]) -> RelieveParameters:
    """What counts for this run, as in `reassign_parameters`."""
    plain = RelieveParameters()
    brokers = parameter_value(playbook, step, given, "brokers")
    share, batch = (parameter_value(playbook, step, given, name) for name in ("freeSharePercent", "batchSize"))
    return RelieveParameters(
        plain.brokers if brokers is None else str(brokers).strip(),
        plain.share if share is None else min(max(int(share), 1), 99),
        plain.batch if batch is None else max(int(batch), 1),
    )


def within_parameters(playbook: Playbook, step: Step, given: Mapping[str, int | str]) -> WithinParameters:
    """What counts for this run, as in `reassign_parameters`. A share of the network's bandwidth bounds no disk."""
    told = relieve_parameters(playbook, step, given)
    rate, size = (parameter_value(playbook, step, given, n) for n in ("throttleBytesPerSecond", "waveBytesPerBroker"))
    return WithinParameters(
        told.brokers,
        told.share,
        told.batch,
        None if size is None else int(size) or None,
        WithinParameters().throttle_bytes_per_second if rate is None else int(rate) or None,
    )
