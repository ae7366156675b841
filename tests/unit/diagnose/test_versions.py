"""Advisories as data: a bug is named where it is, and nothing is said of a version that is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError

from kafka_medic.cluster.snapshot import ClientSoftware, ClusterInfo, Mode
from kafka_medic.cluster.software_version import librdkafka_version, parse_protocol, parse_version, within
from kafka_medic.diagnose import advisories
from kafka_medic.diagnose.advisories import Advisory, Component, shipped
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.diagnose.versions import unjudged
from kafka_medic.resources.vocabulary import Severity
from tests.unit.cluster import worlds

PAST = "VersionAdvisory/kafka-past-support"


def of(*versions, mode=Mode.KRAFT, derived=None, **changes):
    """Three brokers that say these versions of themselves."""
    told = (*versions, *[versions[-1] if versions else None] * (3 - len(versions)))
    brokers = tuple(replace(worlds.broker(n), version=v, clients=None) for n, v in zip(worlds.IDS, told, strict=True))
    cluster = ClusterInfo("demo", "id", mode, derived)
    return worlds.healthy(mode, brokers=brokers, cluster=cluster, **changes)


def found(snapshot, **expectations):
    findings = diagnose(snapshot, expectations=Expectations(**expectations))
    return {f.id: f for f in findings if f.type == "VersionAdvisory"}


def with_client(name, version):
    client = ClientSoftware(name, version, 3)
    brokers = tuple(replace(worlds.broker(n), clients=(client,) if n != 3 else ()) for n in worlds.IDS)
    return worlds.healthy(brokers=brokers)


# The data


def test_every_advisory_names_its_source_and_its_own_issue():
    entries = shipped()
    assert len({a.id for a in entries}) == len(entries)
    for entry in entries:
        if entry.id.startswith("KAFKA-"):
            assert f"https://issues.apache.org/jira/browse/{entry.id}" in entry.sources
        for one in entry.affected:
            assert one.start or one.before
            start, before = parse_version(one.start), parse_version(one.before)
            assert start is None or before is None or start.first < before.first
    named = {"KAFKA-1407", "KAFKA-4084", "KAFKA-7181", "KAFKA-17993", "KIP-497"}
    assert named <= {a.id for a in entries}
    assert {a.component for a in entries} == set(Component)


@pytest.mark.parametrize(
    "change",
    [
        {"component": "switch"}, {"affected": []}, {"affected": [{"before": "4.x"}]}, {"sources": []},
        {"sources": ["http://example.com"]}, {"effect": ""}, {"note": "x"}, {"severity": "Bad"}, {"id": "a b"},
        {"affected": [{"after": "1.0"}]},
    ],
)  # fmt: skip
def test_a_bad_entry_is_refused(change):
    text = advisories.files("kafka_medic.diagnose").joinpath("advisories.yaml").read_text()
    good = yaml.safe_load(text)[0]
    TypeAdapter(Advisory).validate_python(good)
    with pytest.raises(ValidationError):
        TypeAdapter(Advisory).validate_python(good | change)


# Versions


@pytest.mark.parametrize(
    "text",
    [None, "", "7.5.0-ccs", "7.5.0-ce", "3.9.1-SNAPSHOT", "3.9.1.redhat-00001", "4", "v4.3.1", "4.3.1 ", "4.3.1.2.3",
     "\u0664.\u0663.\u0661", "unknown", "4..3", "9" * 4000],
)  # fmt: skip
def test_what_is_no_version_of_the_projects_own(text):
    assert parse_version(text) is None


@pytest.mark.parametrize(
    ("version", "start", "before", "answer"),
    [
        ("3.9.1", None, "4.1", True),
        ("4.1.0", None, "4.1", False),
        ("4.1", None, "4.1", False),
        ("4.0", None, "4.1", True),
        ("2.1", "2.1.0", "2.1.1", None),
        ("2.1.0", "2.1.0", "2.1.1", True),
        ("2.1.1", "2.1.0", "2.1.1", False),
        ("2.0.9", "2.1.0", "2.1.1", False),
        ("0.10.2", None, "0.10.2.1", None),
        ("0.10.2.0", None, "0.10.2.1", True),
        ("0.10.2.1", None, "0.10.2.1", False),
        ("0.11", None, "0.10.2.1", False),
        ("4.3.1", "3.9", None, True),
        ("3.8.1", "3.9", None, False),
        ("10.0.0", None, "4.1", False),
    ],
)
def test_within_a_range(version, start, before, answer):
    assert within(parse_version(version), parse_version(start), parse_version(before)) is answer


def test_versions_of_the_protocol_and_of_librdkafka():
    assert parse_protocol("2.6-IV0") == parse_protocol("2.6")
    assert parse_protocol("latest") is None
    assert librdkafka_version("librdkafka", "2.3.0") == parse_version("2.3.0")
    assert librdkafka_version("confluent-kafka-python", "2.4.0-librdkafka-2.3.0") == parse_version("2.3.0")
    assert librdkafka_version("confluent-kafka-go", "v2.4.0-librdkafka-v2.3.0") == parse_version("2.3.0")
    assert librdkafka_version("confluent-kafka-python", "2.16.1-rdkafka-2.16.0") == parse_version("2.16.0")
    assert librdkafka_version("sarama", "1.40.0") is None
    assert librdkafka_version("confluent-kafka-python", "2.3.0") is None


# Brokers


def test_a_line_that_is_not_maintained_any_more():
    finding = found(of("3.9.1", "4.3.1"))[PAST]
    assert finding.firing()
    assert finding.severity is Severity.INFO
    assert finding.affected == ("broker-1",)
    assert "3.9.1" in finding.message
    assert "from its metrics, read from metrics at" in finding.evidence[0]
    assert any(e.startswith("fix: ") for e in finding.evidence)
    assert any("https://" in e for e in finding.evidence)


@pytest.mark.parametrize("version", ["4.1.0", "4.2.1", "4.3.1", "5.0.0"])
def test_a_line_that_is_maintained(version):
    assert found(of(version)) == {}


def test_the_requests_that_a_broker_knows_tell_its_line():
    finding = found(of(None, derived="3.9"))[PAST]
    assert finding.affected == ("broker-1", "broker-2", "broker-3")
    assert "from the requests that the cluster supports" in finding.evidence[0]
    assert found(of(None, derived="4.3")) == {}


@pytest.mark.parametrize("told", [None, "7.5.0-ccs", "3.4.0-amzn-1", "unknown"])
def test_nothing_is_said_of_a_version_that_is_not_known_or_a_vendors(told):
    assert found(of(told), minimum_version="4.2") == {}


def test_a_vendors_build_is_not_judged_by_the_requests_it_knows():
    assert found(of("7.5.0-ccs", derived="3.5")) == {}


def test_bugs_of_the_time_of_zookeeper():
    old = found(of("0.10.2.0", mode=Mode.ZOOKEEPER))
    assert {"VersionAdvisory/KAFKA-1407", "VersionAdvisory/KAFKA-2729", "VersionAdvisory/KAFKA-4084"} <= set(old)
    assert old["VersionAdvisory/KAFKA-1407"].severity is Severity.CRITICAL
    fixed = found(of("0.10.2.1", mode=Mode.ZOOKEEPER))
    assert "VersionAdvisory/KAFKA-1407" not in fixed
    assert "VersionAdvisory/KAFKA-2729" in fixed
    assert set(found(of("1.1.0", mode=Mode.ZOOKEEPER))) == {PAST}
    unsure = found(of("0.10.2", mode=Mode.ZOOKEEPER))
    assert "VersionAdvisory/KAFKA-1407" not in unsure, "0.10.2 may be 0.10.2.1"


def protocol(value, mode):
    rows = [("BROKER", str(n), "inter.broker.protocol.version", value, False) for n in worlds.IDS]
    return found(of("3.9.1", mode=mode, configs=worlds.configs(*rows)))


def test_a_protocol_in_which_leaders_write_isrs_themselves():
    assert "VersionAdvisory/KIP-497" in protocol("2.6-IV0", Mode.ZOOKEEPER)
    assert "VersionAdvisory/KIP-497" in protocol("2.6", Mode.ZOOKEEPER)
    for value, mode in (("2.7", Mode.ZOOKEEPER), ("3.9-IV0", Mode.ZOOKEEPER), ("2.6", Mode.KRAFT)):
        assert "VersionAdvisory/KIP-497" not in protocol(value, mode)
    assert "VersionAdvisory/KIP-497" not in protocol(None, Mode.ZOOKEEPER)


def test_throttles_of_a_very_large_topic():
    def of_size(count):
        return found(worlds.healthy(rows=[worlds.partition("big", n) for n in range(count)], views=None))

    assert "VersionAdvisory/KAFKA-17993" in of_size(1500)
    assert of_size(1499) == {}


def test_the_oldest_version_that_is_expected():
    finding = found(of("4.1.1", "4.2.0"), minimum_version="4.2")["VersionAdvisory/minimum-version"]
    assert finding.severity is Severity.WARNING
    assert finding.affected == ("broker-1",)
    assert "expectations.minimumVersion is 4.2" in finding.message
    assert found(of("4.2.0"), minimum_version="4.2") == {}
    assert found(of(None, derived="4.2"), minimum_version="4.2.1") == {}, "4.2 may be 4.2.1"


# Clients


def test_a_client_library_with_a_known_bug():
    findings = found(with_client("confluent-kafka-go", "v2.1.0-librdkafka-v2.1.0"))
    assert {"VersionAdvisory/librdkafka-4261", "VersionAdvisory/librdkafka-past-support"} <= set(findings)
    finding = findings["VersionAdvisory/librdkafka-4261"]
    assert finding.affected == ("confluent-kafka-go v2.1.0-librdkafka-v2.1.0",)
    assert "connected to broker 1, broker 2" in finding.evidence[0]
    assert "VersionAdvisory/librdkafka-3575" in found(with_client("librdkafka", "1.8.0"))
    assert "VersionAdvisory/librdkafka-3575" not in found(with_client("librdkafka", "1.6.2"))
    assert "VersionAdvisory/KAFKA-7181" in found(with_client("apache-kafka-java", "2.1.1"))


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("librdkafka", "2.16.0"), ("apache-kafka-java", "3.6.0"), ("apache-kafka-java", "2.1.1-cp1"),
        ("apache-kafka-java", "unknown"), ("unknown", "unknown"), ("sarama", "1.0.0"), ("kafka-python", "1.4.7"),
    ],
)  # fmt: skip
def test_clients_of_which_nothing_is_known(name, version):
    assert found(with_client(name, version)) == {}


# Whether anything can be said


def test_why_a_version_cannot_be_judged():
    assert unjudged(of("4.3.1")) is None
    assert unjudged(of(None, derived="4.3")) is None
    assert "broker 1 is not known" in unjudged(of(None))
    assert "7.5.0-ccs, which is no version of Apache Kafka" in unjudged(of("7.5.0-ccs", derived="3.5"))
    assert unjudged(worlds.healthy(brokers=None)) == "the brokers are not known"
