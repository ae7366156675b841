"""A healthy three-broker cluster as a snapshot, and the small changes that make it sick."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from kafka_medic.cluster.certificates import Certificate, CertificateChain, CertificateUse
from kafka_medic.cluster.groups import GROUPS_SCHEMA
from kafka_medic.cluster.snapshot import (
    CONFIGS_SCHEMA,
    LEADERS_SCHEMA,
    PARTITIONS_SCHEMA,
    Broker,
    ClientSoftware,
    ClusterInfo,
    Controller,
    Mode,
    Pod,
    Quorum,
    Snapshot,
    Source,
    SourceState,
    View,
    Voter,
)

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
IDS = (1, 2, 3)
SOURCES = (
    "kafka",
    "views",
    "reassignments",
    "log-dirs",
    "configs",
    "groups",
    "log-ends",
    "kubernetes",
    "rollouts",
    "topic-owners",
    "pod-identity",
    "metrics",
    "version",
    "certificates",
)
DEFAULTS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)


def partition(topic: str, number: int, replicas: Iterable[int] = IDS, **changes: Any) -> dict[str, Any]:
    """A row of `partitions`, led by its first replica and fully in sync."""
    ids = list(replicas)
    row = {
        "topic": topic,
        "partition": number,
        "leader": ids[0],
        "leaderEpoch": 5,
        "replicas": ids,
        "isr": ids,
        "adding": [],
        "removing": [],
        "logStart": 0,
        "logEnd": 100,
        "sizeBytes": 1000,
        "minIsr": 2,
        "topicId": f"id-{topic}",
    }
    return {**row, **changes}


ROWS = (
    partition("orders", 0, (1, 2, 3)),
    partition("orders", 1, (2, 3, 1)),
    partition("orders", 2, (3, 1, 2)),
    partition("__consumer_offsets", 0, (2, 1, 3)),
)


def broker(number: int, **changes: Any) -> Broker:
    pod = Pod(
        f"kafka-{number}",
        f"uid-{number}",
        ready=True,
        node=f"node-{number}",
        cordoned=False,
        ip=f"10.0.0.{number}",
        deleting=False,
        node_ready=True,
        maintenance=(),
        ports=(9092,),
        answers_as=number,
    )
    healthy = Broker(
        number,
        rack=f"zone-{number}",
        host=f"kafka-{number}",
        port=9092,
        registered=True,
        reachable=True,
        recovering=False,
        bytes_in_rate=1000.0,
        unknown_topics=(),
        pod=pod,
        version="4.3.1",
        clients=(ClientSoftware("apache-kafka-java", "4.3.1", 4),),
    )
    return replace(healthy, **changes)


def brokers(**changed: Mapping[str, Any]) -> tuple[Broker, ...]:
    """The three, with changes: `brokers(b2={"registered": False})`."""
    return tuple(broker(n, **changed.get(f"b{n}", {})) for n in IDS)


def pod(number: int, **changes: Any) -> Pod:
    healthy = broker(number).pod
    assert healthy is not None
    return replace(healthy, **changes)


def partitions(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([dict(r) for r in rows], schema=PARTITIONS_SCHEMA)


def groups(*rows: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(GROUPS_SCHEMA.names, r, strict=False)) for r in rows], schema=GROUPS_SCHEMA)


def configs(*rows: tuple[str, str, str, str | None, bool]) -> pa.Table:
    names = CONFIGS_SCHEMA.names
    return pa.Table.from_pylist([dict(zip(names, r, strict=True)) for r in rows], schema=CONFIGS_SCHEMA)


def view(
    number: int,
    rows: Iterable[Mapping[str, Any]] = ROWS,
    *,
    members: tuple[int, ...] | None = IDS,
    controller: int | None = 1,
    told: Mapping[tuple[str, int], tuple[int, int]] | None = None,
) -> View:
    """What a broker believes: what `rows` say, except for the leaders and epochs in `told`."""
    entries = []
    for r in rows:
        leader, epoch = (told or {}).get((r["topic"], r["partition"]), (r["leader"], r["leaderEpoch"]))
        told_by = {"topic": r["topic"], "partition": r["partition"], "leader": leader, "epoch": epoch}
        entries.append(told_by | {"topicId": r["topicId"]})
    return View(number, members, controller, pa.Table.from_pylist(entries, schema=LEADERS_SCHEMA))


def sources(mode: Mode = Mode.KRAFT, at: datetime = NOW, **errors: str) -> tuple[Source, ...]:
    """Every source known as of `at`; `sources(groups="refused")` makes that one Unknown (`_` stands for `-`)."""
    own = ("quorum",) if mode is Mode.KRAFT else ("zookeeper", "ensemble")
    failed = {name.replace("_", "-"): why for name, why in errors.items()}
    return tuple(
        Source(name, at, SourceState.UNKNOWN if name in failed else SourceState.KNOWN, failed.get(name))
        for name in (*SOURCES, *own)
    )


def certificate(
    subject: str = "CN=kafka", issuer: str = "CN=ca", *, days: float = 300.0, lifetime: float = 365.0, **changes: Any
) -> Certificate:
    """With so many days left at NOW, of so many."""
    end = changes.pop("not_after", None) or NOW + timedelta(days=days)
    made = Certificate(
        subject,
        issuer,
        serial="1a2b",
        not_before=end - timedelta(days=lifetime),
        not_after=end,
        fingerprint=f"{subject}/{issuer}/{end.isoformat()}/{lifetime}",
        subject_key=subject,
        authority_key=issuer,
    )
    return replace(made, **changes)


def served(number: int, *chain: Certificate, **changes: Any) -> CertificateChain:
    """By a broker."""
    own = chain or (certificate(f"CN=kafka-{number}"),)
    return replace(CertificateChain(CertificateUse.LISTENER, own, broker=number, read_at=NOW), **changes)


def trusted(*found: Certificate, **changes: Any) -> CertificateChain:
    chain = CertificateChain(CertificateUse.TRUSTED, found, secret="kafka-ca", key="ca.crt")
    return replace(chain, **changes)


def shown(*found: Certificate, **changes: Any) -> CertificateChain:
    """By the operator."""
    chain = CertificateChain(CertificateUse.CLIENT, found, secret="medic", key="tls.crt")
    return replace(chain, **changes)


AUTHORITY = certificate("CN=ca", lifetime=3650)


def certificates(*other: CertificateChain) -> tuple[CertificateChain, ...]:
    """Those of a healthy cluster, with others in place of those of the same holder."""
    own = (trusted(AUTHORITY), shown(certificate("CN=medic", "CN=clients-ca")), *(served(n) for n in IDS))
    return tuple({c.holder: c for c in (*own, *other)}.values())


def healthy(
    mode: Mode = Mode.KRAFT,
    *,
    rows: Iterable[Mapping[str, Any]] = ROWS,
    at: datetime = NOW,
    **changes: Any,
) -> Snapshot:
    """Nothing is wrong with it: no finding, and every broker may be restarted."""
    listed = tuple(rows)
    voters = tuple(Voter(n, 0, 0) for n in IDS)
    snapshot = Snapshot(
        # No release that runs on ZooKeeper is maintained any more, so a healthy one is of a version that is not known.
        cluster=ClusterInfo("demo", "cluster-id", mode, "4.3.1" if mode is Mode.KRAFT else None, "kafka"),
        taken_at=at,
        sources=sources(mode, at),
        brokers=brokers() if mode is Mode.KRAFT else tuple(replace(b, version=None) for b in brokers()),
        controller=Controller(1, 7),
        quorum=Quorum(1, voters),
        views=tuple(view(n, listed) for n in IDS),
        partitions=partitions(listed),
        groups=groups(("billing", "Stable", "orders", 0, 90)),
        configs=configs(*(("BROKER", str(n), name, "3", False) for n in IDS for name in DEFAULTS)),
        rollouts=(),
        owners=(),
        certificates=certificates(),
    )
    return replace(snapshot, **changes)


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)
