"""Certificates near their end, each with the twin that looks alike and is well."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kafka_medic.cluster.certificates import CertificateUse, Nearness, Peer
from kafka_medic.cluster.clock import Skew
from kafka_medic.cluster.snapshot import Element
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.resources.vocabulary import Severity
from tests.unit.cluster import worlds
from tests.unit.cluster.worlds import certificate, served, shown, trusted

DAY, HOUR, MINUTE = 1.0, 1 / 24, 1 / 1440


def found(*chains, skew=None, unread=None, **changes):
    snapshot = worlds.healthy(certificates=worlds.certificates(*chains), unread=unread or {}, **changes)
    return {f.id.partition("/")[2]: f for f in diagnose(snapshot, skew=skew) if f.type == "CertificateExpiring"}


def leaf(days, lifetime=365.0, **changes):
    return certificate("CN=kafka-1", days=days, lifetime=lifetime, **changes)


# The thresholds


@pytest.mark.parametrize(
    ("left", "lifetime", "nearness"),
    [
        (21.001, 365, Nearness.FAR),
        (20.999, 365, Nearness.NEAR),
        (7.001, 365, Nearness.NEAR),
        (6.999, 365, Nearness.VERY_NEAR),
        (0.001, 365, Nearness.VERY_NEAR),
        (0, 365, Nearness.VERY_NEAR),
        (-0.001, 365, Nearness.PAST),
        (22, 10_000, Nearness.FAR),  # an authority for decades
        (20, 10_000, Nearness.NEAR),
        (30, 90, Nearness.FAR),  # Let's Encrypt: renewed with 30 days left
        (21.5, 84, Nearness.FAR),
        (20.9, 84, Nearness.NEAR),
        (15.1, 60, Nearness.FAR),
        (14.9, 60, Nearness.NEAR),
        (6.1, 60, Nearness.NEAR),
        (5.9, 60, Nearness.VERY_NEAR),
        (8 * HOUR, 1, Nearness.FAR),  # cert-manager renews when a third is left
        (6.01 * HOUR, 1, Nearness.FAR),
        (5.99 * HOUR, 1, Nearness.NEAR),
        (2.41 * HOUR, 1, Nearness.NEAR),
        (2.39 * HOUR, 1, Nearness.VERY_NEAR),
        (30 * MINUTE, HOUR, Nearness.FAR),  # SPIFFE renews when half is left
        (14 * MINUTE, HOUR, Nearness.NEAR),
        (5 * MINUTE, HOUR, Nearness.VERY_NEAR),
        (-1 * MINUTE, HOUR, Nearness.PAST),
        (5, -3, Nearness.FAR),  # not before is after not after: nobody can say how much of its life is left
        (-5, -3, Nearness.PAST),
        (5, 0, Nearness.FAR),
    ],
)
def test_how_near_the_end_is(left, lifetime, nearness):
    assert certificate(days=left, lifetime=lifetime).nearness(worlds.NOW) is nearness
    severity = {Nearness.FAR: None, Nearness.NEAR: Severity.WARNING}.get(nearness, Severity.CRITICAL)
    seen = found(served(1, leaf(left, lifetime))).get("listeners")
    assert (seen and seen.severity) == severity
    assert seen is None or seen.firing()


@pytest.mark.parametrize("end", [datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(1, 1, 2, tzinfo=UTC)])
def test_dates_at_the_end_of_all_time(end):
    odd = certificate("CN=kafka-1", days=0, lifetime=1, not_after=end, not_before=datetime(1, 1, 1, tzinfo=UTC))
    assert bool(found(served(1, odd), trusted(odd), shown(odd))) == (end.year == 1)


# Listeners


def test_whose_it_is_what_it_is_and_what_stops():
    finding = found(served(1, leaf(20)), skew=Skew(0, 1))["listeners"]
    assert (finding.severity, finding.affected, finding.playbook) == (Severity.WARNING, ("broker-1",), None)
    assert finding.message == "the certificate of broker 1's listener expires at 2026-02-20 12:00:00 UTC"
    assert finding.evidence[0] == (
        "the certificate of broker 1's listener: CN=kafka-1, issued by CN=ca, serial 1a2b, valid from 2025-02-20 "
        "12:00:00 UTC to 2026-02-20 12:00:00 UTC: 20 d of 365 d left; then clients refuse broker 1's listener; served "
        "at 2026-01-31 12:00:00 UTC"
    )
    assert finding.evidence[-1].endswith("judged by the operator's clock")
    assert "cmctl renew" in " ".join(finding.evidence)
    assert "strimzi" not in " ".join(finding.evidence).lower()


def test_an_expired_one_is_critical_and_says_since_when():
    finding = found(served(1, leaf(-2)), served(2, leaf(20)))["listeners"]
    assert finding.severity is Severity.CRITICAL
    assert finding.message == (
        "the certificate of broker 1's listener expired at 2026-01-29 12:00:00 UTC; 1 more certificate near the end"
    )
    assert "expired 2 d ago; clients refuse broker 1's listener" in finding.evidence[0]
    assert finding.affected == ("broker-1", "broker-2")


def test_a_broker_that_still_serves_the_former_certificate_is_named():
    evidence = " ".join(found(served(1, leaf(5)))["listeners"].evidence)
    assert "2 of 2 other brokers have a newer certificate. If that of broker 1 was replaced too" in evidence
    everybody = found(*(served(n, leaf(5)) for n in worlds.IDS))["listeners"]
    assert "newer" not in " ".join(everybody.evidence)


def test_hundreds_of_brokers_are_one_finding():
    brokers = [served(n, certificate(f"CN=kafka-{n}", days=5 + n / 1000)) for n in range(500)]
    finding = found(*brokers)["listeners"]
    assert len(finding.affected) == 500
    assert len(finding.evidence) <= 20
    assert "and 492 more certificates" in finding.evidence


def test_a_renewed_certificate_that_is_served_is_none():
    assert found() == {}
    assert found(served(1, leaf(365)), shown(certificate("CN=medic", "CN=clients-ca", days=365))) == {}


# Strimzi


def test_strimzis_way_out():
    by_strimzi = "CN=cluster-ca v0,O=io.strimzi"
    authority = certificate(by_strimzi, by_strimzi)
    chains = (
        trusted(authority, secret="orders-cluster-ca-cert"),
        shown(certificate("CN=medic", "CN=clients-ca v0,O=io.strimzi", days=3), secret="medic", key="user.crt"),
        *(served(n, certificate(f"CN=orders-kafka-{n}", by_strimzi, days=5)) for n in worlds.IDS),
    )
    seen = found(*chains)
    listeners, client = " ".join(seen["listeners"].evidence), " ".join(seen["client"].evidence)
    assert "kubectl annotate secret orders-cluster-ca-cert -n kafka strimzi.io/force-renew=true" in listeners
    assert "maintenanceTimeWindows" in listeners
    assert "kubectl annotate secret medic -n kafka strimzi.io/force-renew=true" in client
    assert "cmctl" not in listeners + client


# The operator's own


@pytest.mark.parametrize(
    ("peer", "lost"),
    [(Peer.KAFKA, "cannot connect to Kafka"), (Peer.ZOOKEEPER, "cannot connect to ZooKeeper")],
)
def test_the_operators_own_certificate(peer, lost):
    seen = found(shown(certificate("CN=medic", "CN=clients-ca", days=3), peer=peer))
    assert list(seen) == ["client"]
    assert seen["client"].affected == ("medic/tls.crt",)
    assert seen["client"].severity is Severity.CRITICAL
    assert seen["client"].message.startswith("the operator's certificate in Secret medic, key tls.crt expires at")
    assert f"then the operator {lost}" in seen["client"].evidence[0]


# Authorities

OLD = certificate("CN=old-ca", "CN=old-ca", days=-10, lifetime=3650)
ENDING = certificate("CN=ca", days=5, lifetime=3650)


def test_an_authority_on_which_brokers_rest():
    finding = found(trusted(ENDING))["authorities"]
    assert finding.severity is Severity.CRITICAL
    assert finding.affected == ("kafka-ca/ca.crt", "broker-1", "broker-2", "broker-3")
    assert "the authority in Secret kafka-ca, key ca.crt" in finding.message
    assert "then every certificate that it signed is refused; that of brokers 1, 2, 3 rests on it" in " ".join(
        finding.evidence
    )
    assert list(found(trusted(ENDING))) == ["authorities"]


@pytest.mark.parametrize(
    "bundle",
    [
        (worlds.AUTHORITY, OLD),
        (OLD, worlds.AUTHORITY),
        (worlds.AUTHORITY, ENDING),  # renewed with its key: both signed what is served
        (worlds.AUTHORITY, certificate("CN=ca", days=-10, lifetime=3650)),
    ],
)
def test_an_old_authority_beside_the_one_that_replaced_it_is_none(bundle):
    assert found(trusted(*bundle)) == {}
    others = tuple(served(n, certificate(f"CN=k{n}"), *bundle) for n in worlds.IDS)
    assert found(trusted(*bundle), *others) == {}, "and served beside"


def test_an_old_authority_of_which_one_broker_still_serves_a_certificate():
    late = certificate("CN=kafka-1", "CN=old-ca")
    finding = found(trusted(worlds.AUTHORITY, OLD), served(1, late))["authorities"]
    assert finding.affected == ("kafka-ca/ca.crt", "broker-1")
    assert "expired" in finding.message


def test_another_key_under_the_same_name_did_not_sign_it():
    other = certificate("CN=ca", days=-1, lifetime=3650, subject_key="former key")
    assert found(trusted(worlds.AUTHORITY, other)) == {}
    assert "authorities" in found(trusted(ENDING, certificate("CN=ca", subject_key="former key")))


def test_a_bundle_of_which_nothing_lasts():
    gone = certificate("CN=new-ca", "CN=new-ca", days=15, lifetime=3650)
    none = tuple(served(n, certificate(f"CN=kafka-{n}", "CN=stranger")) for n in worlds.IDS)
    finding = found(trusted(OLD, gone), *none)["authorities"]
    assert finding.severity is Severity.WARNING
    assert "2026-02-15" in finding.message, "that of the one that lasts longest"
    for peer in (Peer.ZOOKEEPER, Peer.TOKEN_ENDPOINT):
        assert found(trusted(OLD, secret="zk", peer=peer))["authorities"].affected == ("zk/ca.crt",)
        assert found(trusted(OLD, worlds.AUTHORITY, secret="zk", peer=peer)) == {}


def test_an_intermediate_that_brokers_serve():
    between = certificate("CN=between", "CN=ca", days=5)
    below = [served(n, certificate(f"CN=k{n}", "CN=between"), between) for n in worlds.IDS]
    finding = found(*below)["authorities"]
    assert finding.affected == ("broker-1", "broker-2", "broker-3")
    assert "the authority in what brokers serve" in finding.message
    lasting = certificate("CN=between", "CN=ca", days=200)
    assert found(trusted(worlds.AUTHORITY, lasting), *below) == {}, "the operator has a better one"
    system = tuple(c for c in worlds.healthy(certificates=tuple(below)).certificates or ())
    seen = diagnose(worlds.healthy(certificates=system))
    assert [f.id for f in seen] == ["CertificateExpiring/authorities"], "also where the system's are trusted"


def test_an_intermediate_of_the_operators_own():
    between = certificate("CN=between", "CN=root", days=5)
    own = certificate("CN=medic", "CN=between")
    finding = found(shown(own, between))["authorities"]
    assert finding.affected == ("medic/tls.crt",)
    assert found(shown(own, between, certificate("CN=between", "CN=root", days=100))) == {}


def test_strangers_that_signed_one_another_end_the_search():
    a, b = certificate("CN=a", "CN=b", days=5), certificate("CN=b", "CN=a", days=5)
    many = [certificate("CN=x", "CN=x", days=5, fingerprint=str(n), subject_key=None) for n in range(200)]
    ring = served(1, certificate("CN=k", "CN=a"), a, b)
    same = served(2, certificate("CN=k", "CN=x", authority_key=None), *many)
    assert "authorities" not in found(ring, same)


# What is not known


@pytest.mark.parametrize("certificates", [None, ()])
def test_what_was_not_read_is_no_finding(certificates):
    assert diagnose(worlds.healthy(certificates=certificates)) == ()


def test_no_authority_is_judged_while_a_part_of_what_is_trusted_is_not_known():
    unread = {Element("certificates", "SECRET", "kafka-ca/more.crt"): "certificate 2 of 2 cannot be read"}
    assert found(trusted(ENDING), unread=unread) == {}
    seen = found(trusted(ENDING), served(1, leaf(5)), unread=unread)
    assert list(seen) == ["listeners"]
    assert "not known: the certificate of kafka-ca/more.crt: certificate 2 of 2 cannot be read" in " ".join(
        seen["listeners"].evidence
    )


# Whose clock


def test_the_api_servers_time_counts_where_the_clocks_are_known_to_differ():
    ahead = Skew(86_399, 86_400)  # a day
    near = served(1, leaf(21.5))
    assert found(near) == {}
    finding = found(near, skew=ahead)["listeners"]
    assert "judged by the API server's clock: the operator's clock is about 86400 s behind" in finding.evidence[-1]
    assert found(served(1, leaf(20.5)), skew=Skew(-86_400, -86_399)) == {}


def test_a_difference_within_its_bound_changes_nothing():
    end = worlds.NOW + timedelta(days=21, seconds=-1)
    near = served(1, leaf(0, not_after=end))
    assert found(near, skew=Skew(-4, -3)).keys() == found(near).keys() == {"listeners"}


def test_every_use_has_a_word():
    assert {c.use for c in worlds.certificates()} == set(CertificateUse)
