"""Whatever is read of certificates and whatever is not: what is not known fires nothing and clears nothing."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.ports import Connection
from kafka_medic.cluster.certificates import CertificateUse, Nearness
from kafka_medic.controller.status import cluster_status, unseen
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.observe.certificates import CertificateReader
from kafka_medic.resources.kafkacluster import KafkaCluster
from tests.thorough import THOROUGH
from tests.unit.cluster import worlds

SETTINGS = settings(max_examples=400 if THOROUGH else 60)
ID = "CertificateExpiring/listeners"
CLUSTER = KafkaCluster.parse(
    {
        "apiVersion": "kafkamedic.dev/v1alpha1",
        "kind": "KafkaCluster",
        "metadata": {"name": "c", "namespace": "ns", "uid": "u", "generation": 1},
        "spec": {"bootstrapServers": "k:1"},
    }
)
NEAR, FAR = worlds.certificate(days=3), worlds.certificate(days=3000)
FAILED, AWAY = ReadFailed(FailureKind.UNREACHABLE, "timed out"), "away"
STEPS = st.lists(
    st.tuples(
        st.lists(st.sampled_from([(NEAR,), (FAR,), FAILED, AWAY]), min_size=3, max_size=3),
        st.sampled_from([15.0, 60.0, 600.0, 3600.0]),
        st.sampled_from(["known", "known", "known", "unread", "nobody", "another operator"]),
    ),
    min_size=2,
    max_size=12,
)


@SETTINGS
@given(steps=STEPS)
def test_only_what_was_read_begins_or_ends_a_finding(steps):
    seconds, status, present = 0.0, CLUSTER.status, {}

    def reader_of_another_operator():
        served = lambda _, brokers: {b: present[b] for b in brokers}  # noqa: E731
        return CertificateReader(served, lambda: worlds.later(seconds), lambda: seconds)

    reader = reader_of_another_operator()
    for answers, passed, what in steps:
        seconds += passed
        if what == "another operator":
            reader = reader_of_another_operator()
        present = {b: a for b, a in zip(worlds.IDS, answers, strict=True) if a is not AWAY}
        places = None if what == "nobody" else {b: (f"kafka-{b}", 9093) for b in present}
        present = present if places is not None else {**dict.fromkeys(worlds.IDS, FAILED), **present}
        told = {}
        if what == "unread":
            told = {"certificates": None, "sources": worlds.sources(certificates="timed out")}
        else:
            found = reader.read(Connection("k:1", "SSL"), (), places)
            told = {"certificates": found.chains, "unread": found.unread}
            gone = [b for b in worlds.IDS if what == "nobody" or b not in present]
            told["brokers"] = worlds.brokers(**{f"b{b}": {"reachable": False, "registered": False} for b in gone})
        snapshot = worlds.healthy(at=worlds.later(seconds), **told)
        seen = diagnose(snapshot)
        before = {f.id: f for f in status.findings}.get(ID)
        after = {f.id: f for f in (*seen, *unseen(status.findings, seen, snapshot))}.get(ID)
        known = {
            f"broker-{c.broker}": c.certificates[0].nearness(snapshot.taken_at)
            for c in snapshot.certificates or ()
            if c.use is CertificateUse.LISTENER
        }
        if before is None and after is not None:
            assert Nearness.FAR not in {known[name] for name in after.affected}
            assert after.firing()
        if before is not None and after is None:
            assert {known.get(name) for name in before.affected} == {Nearness.FAR}
        near = {name for name, nearness in known.items() if nearness is not Nearness.FAR}
        assert near <= set(after.affected if after else ())
        status = cluster_status(CLUSTER, snapshot, [after] if after else [], {}, (True, "Allowed", "yes"))


@SETTINGS
@given(left=st.timedeltas(), lifetime=st.timedeltas())
def test_every_date_is_judged(left, lifetime):
    """Also those of hostile certificates, within what a date can be."""
    try:
        end = worlds.NOW + left
        odd = worlds.certificate(days=0, lifetime=0, not_after=end, not_before=end - lifetime)
    except OverflowError:
        return
    nearness = odd.nearness(worlds.NOW)
    assert (nearness is Nearness.PAST) == (left < timedelta(0))
    if left >= timedelta(days=21) or (lifetime > timedelta(0) and left >= lifetime / 4):
        assert nearness is Nearness.FAR
    chains = worlds.certificates(worlds.served(1, odd), worlds.shown(odd), worlds.trusted(odd))
    found = [f for f in diagnose(worlds.healthy(certificates=chains)) if f.type == "CertificateExpiring"]
    assert bool(found) == (nearness is not Nearness.FAR)
