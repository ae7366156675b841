"""KafkaCluster.status says no more than was seen: nothing found because nothing was seen is not health."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_medic.cluster.snapshot import Element, Mode, Source, SourceState
from kafka_medic.controller.status import ADVICE, CONDITION_OF, NEEDED, SOURCES_OF, cluster_status, unseen
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.diagnose.finding import Finding
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.kafkacluster_status import CONDITION_TYPES, MAX_AFFECTED, MAX_FINDINGS
from kafka_medic.resources.vocabulary import FindingState, FindingType, Severity
from tests.simulation.world import API_VERSION
from tests.unit.cluster import worlds

ALLOWED = (True, "Allowed", "yes")
CLUSTER = KafkaCluster.parse(
    {
        "apiVersion": API_VERSION, "kind": "KafkaCluster",
        "metadata": {"name": "c", "namespace": "ns", "uid": "u", "generation": 4},
        "spec": {"bootstrapServers": "k:1"},
    }
)  # fmt: skip


def finding(kind, state=FindingState.FIRING, ident=None, **more):
    return Finding(
        id=ident or f"{kind}/x", type=kind, severity=Severity.WARNING, message=f"{kind} is so", affected=("t",),
        evidence=("seen",), since=worlds.NOW, state=state, **more,
    )  # fmt: skip


def status(snapshot=None, findings=(), treated=None, allowed=ALLOWED, of=CLUSTER):
    return cluster_status(of, snapshot or worlds.healthy(), findings, treated or {}, allowed)


def conditions(*args, **kwargs):
    return {c.type: (str(c.status), c.reason) for c in status(*args, **kwargs).conditions}


def known(found):
    """A cluster whose status is `found`, as the next reconcile reads it."""
    return CLUSTER.model_copy(update={"status": found})


def test_a_healthy_cluster_is_ready_and_what_nobody_probes_is_not_called_healthy():
    found = conditions()
    assert set(found) == set(CONDITION_TYPES)
    assert found["Ready"] == ("True", "Healthy")
    assert found["Replicated"] == ("True", "AsExpected")
    assert found["CanaryHealthy"] == ("Unknown", "NotProbed")


@pytest.mark.parametrize(("kind", "condition"), CONDITION_OF.items())
def test_each_kind_of_finding_makes_its_condition_false_and_ready_too(kind, condition):
    found = conditions(findings=[finding(kind)])
    assert found[condition] == ("False", kind)
    assert found["Ready"][0] == ("True" if condition in ADVICE else "False")
    assert conditions(findings=[finding(kind, FindingState.PENDING)])[condition][0] != "False"


def test_every_kind_is_either_illness_or_news():
    assert {t.value for t in FindingType} == set(CONDITION_OF) | set(SOURCES_OF)


@pytest.mark.parametrize(("condition", "source"), [(c, s) for c, names in NEEDED.items() for s in names])
def test_a_source_that_cannot_be_read_is_unknown_and_never_true(condition, source):
    snapshot = worlds.healthy(sources=worlds.sources(**{source.replace("-", "_"): "Unreachable: timed out"}))
    found = conditions(snapshot)
    assert found[condition][0] != "True"
    if source in worlds.SOURCES and condition not in ADVICE:
        assert found["Ready"][0] in ("Unknown", "False")


def test_unreachable_says_why_by_the_failures_own_word():
    for error, reason in (
        ("AuthenticationFailed: wrong password", "AuthenticationFailed"),
        ("TlsFailed: expired", "TlsFailed"),
        ("no colon at all", "Unreachable"),
    ):
        snapshot = worlds.healthy(sources=worlds.sources(kafka=error))
        assert conditions(snapshot)["Reachable"] == ("False", reason)


def test_known_facts_outlive_an_unreachable_cluster():
    before = status()
    dark = worlds.healthy(brokers=None, cluster=replace(worlds.healthy().cluster, id=None, version=None))
    after = status(dark, of=known(before))
    assert (after.cluster_id, after.version) == (before.cluster_id, before.version)
    assert after.brokers is None


def test_brokers_of_whom_nothing_is_known_are_not_counted_as_none():
    unsure = worlds.brokers(**{f"b{n}": {"registered": None, "reachable": None} for n in worlds.IDS})
    counted = status(worlds.healthy(brokers=unsure)).brokers
    assert counted is not None
    assert (counted.registered, counted.reachable, counted.expected) == (None, None, 3)
    silent = status(worlds.healthy(brokers=worlds.brokers(b3={"pod": None}), unplaced=(worlds.pod(3),))).brokers
    assert silent is not None
    assert silent.expected == 3, "a Pod that has not answered is one all the same"


def test_a_condition_keeps_its_time_while_it_stays_as_it_is():
    first = status(findings=[finding("BrokerDown")])
    later = status(worlds.healthy(at=worlds.later(60)), [finding("BrokerDown")], of=known(first))
    times = {c.type: c.last_transition_time for c in later.conditions}
    assert times["Reachable"] == worlds.NOW
    gone = status(worlds.healthy(at=worlds.later(60)), of=known(first))
    assert {c.type: c.last_transition_time for c in gone.conditions}["Reachable"] == worlds.later(60)


def test_findings_are_bounded_and_counted_in_full():
    many = [finding("BrokerDown", ident=f"BrokerDown/{n}") for n in range(MAX_FINDINGS + 5)]
    wide = replace(many[0], affected=tuple(f"t{n}" for n in range(MAX_AFFECTED + 7)))
    found = status(findings=[wide, *many[1:]], treated={"BrokerDown/0": "run-1"})
    assert (len(found.findings), found.findings_total) == (MAX_FINDINGS, MAX_FINDINGS + 5)
    assert (len(found.findings[0].affected), found.findings[0].affected_count) == (MAX_AFFECTED, MAX_AFFECTED + 7)
    assert found.findings[0].remediation == "run-1"


def test_what_the_operator_may_do_is_a_condition_of_its_own():
    found = conditions(allowed=(False, "Paused", "freeze"))
    assert found["RemediationAllowed"] == ("False", "Paused")
    assert found["Ready"] == ("True", "Healthy")


# unseen


def before(*findings):
    return status(findings=findings).findings


def test_a_finding_whose_source_is_blind_has_not_gone():
    low = before(finding("ReplicationFactorLow", playbook="raise-replication-factor"))
    blind = worlds.healthy(sources=worlds.sources(configs="timed out"))
    (kept,) = unseen(low, (), blind)
    assert (kept.id, kept.since, kept.state) == (low[0].id, low[0].since, low[0].state)
    assert kept.playbook is None, "no playbook is started for what is not seen"
    assert "configs can no longer be read" in kept.evidence[-1]
    again = unseen(status(blind, [kept]).findings, (), blind)
    assert again[0].evidence == kept.evidence, "said once, not once a reconcile"


def test_a_finding_that_is_not_there_any_more_has_gone_and_one_that_is_seen_is_not_kept_twice():
    low = before(finding("ReplicationFactorLow"))
    assert unseen(low, (), worlds.healthy()) == ()
    assert unseen(low, (), worlds.healthy(sources=worlds.sources(groups="timed out"))) == ()
    blind = worlds.healthy(sources=worlds.sources(configs="timed out"))
    assert unseen(low, (finding("ReplicationFactorLow"),), blind) == ()


@pytest.mark.parametrize(("kind", "sources"), SOURCES_OF.items())
def test_news_is_kept_as_well_while_it_cannot_be_seen(kind, sources):
    for source in sources:
        blind = worlds.healthy(sources=worlds.sources(**{source.replace("-", "_"): "timed out"}))
        assert [f.id for f in unseen(before(finding(kind)), (), blind)] == [f"{kind}/x"]


def test_that_the_cluster_did_not_answer_is_judged_afresh_each_time():
    blind = worlds.healthy(sources=worlds.sources(kafka="timed out"))
    assert unseen(before(finding("ClusterUnreachable")), (), blind) == ()


@pytest.mark.parametrize("source", ["views", "configs", "groups", "log-ends"])
def test_a_source_that_is_absent_is_as_blind_as_one_that_failed(source):
    kind = {"views": "ViewDiverged", "configs": "ReplicationFactorLow"}.get(source, "OffsetBeyondLogEnd")
    sources = tuple(s for s in worlds.healthy().sources if s.name != source)
    blind = worlds.healthy(sources=sources)
    (kept,) = unseen(before(finding(kind)), (), blind)
    assert source in kept.evidence[-1]
    assert conditions(blind)["Ready"] == ("Unknown", "NotProbed")


@pytest.mark.parametrize(
    ("mode", "source", "kind"),
    [
        (Mode.KRAFT, "quorum", "QuorumDegraded"),
        (Mode.KRAFT, "quorum", "ControllerMissing"),
        (Mode.ZOOKEEPER, "ensemble", "QuorumDegraded"),
        (Mode.ZOOKEEPER, "zookeeper", "ControllerMissing"),
        (Mode.ZOOKEEPER, "kafka", "ControllerMissing"),
    ],
)
def test_who_keeps_the_metadata_is_unknown_while_it_cannot_be_asked(mode, source, kind):
    ill = before(finding(kind))
    assert unseen(ill, (), worlds.healthy(mode)) == ()
    assert conditions(worlds.healthy(mode))["MetadataConsistent"] == ("True", "AsExpected")
    blind = worlds.healthy(mode, sources=worlds.sources(mode, **{source: "timed out"}))
    (kept,) = unseen(ill, (), blind)
    assert source in kept.evidence[-1]
    if source != "kafka":
        assert conditions(blind)["MetadataConsistent"] == ("Unknown", "SourceUnknown")
        assert conditions(blind)["Ready"] == ("Unknown", "SourceUnknown")
    assert conditions(blind, [kept])["MetadataConsistent"] == ("False", kind)


def test_pods_that_are_selected_and_not_known_are_nothing_to_be_ready_with():
    sources = worlds.sources(kubernetes="two Pods claim broker 7")
    found = conditions(worlds.healthy(sources=sources))
    assert found["Ready"] == found["RestartsPossible"] == ("Unknown", "SourceUnknown")


def test_a_broker_whose_pod_has_not_answered_is_nothing_to_be_ready_with():
    told = worlds.healthy()
    first, *others = told.brokers or ()
    gap = Source("pod-identity", told.taken_at, SourceState.KNOWN, "Pod k-x: no answer")
    sources = (*(s for s in told.sources if s.name != gap.name), gap)
    homeless = replace(told, brokers=(replace(first, pod=None), *others), sources=sources)
    assert conditions(homeless)["RestartsPossible"] == conditions(homeless)["Ready"] == ("Unknown", "SourceUnknown")
    assert conditions(replace(told, sources=sources))["Ready"] == ("True", "Healthy")


def test_what_nobody_asked_for_any_more_keeps_no_finding_alive():
    sources = tuple(s for s in worlds.healthy().sources if s.name != "kubernetes")
    assert unseen(before(finding("NodeMaintenance")), (), worlds.healthy(sources=sources)) == ()


def versions_supported(**changes):
    return conditions(worlds.healthy(**changes))["VersionsSupported"]


def test_versions_supported_is_unknown_for_a_version_that_cannot_be_judged():
    assert versions_supported() == ("True", "AsExpected")
    vendors = tuple(replace(b, version="7.5.0-ccs") for b in worlds.brokers())
    assert versions_supported(brokers=vendors) == ("Unknown", "VersionUnknown")
    assert versions_supported(sources=worlds.sources(version="timed out")) == ("Unknown", "SourceUnknown")


def test_an_old_version_is_advice_and_no_illness():
    old = worlds.healthy(brokers=tuple(replace(b, version="3.9.1") for b in worlds.brokers()))
    seen = conditions(old, diagnose(old))
    assert seen["VersionsSupported"] == ("False", "VersionAdvisory")
    assert seen["Ready"] == ("True", "Healthy")


# One element of a source


def test_a_condition_that_holds_as_far_as_is_known_says_what_is_not():
    sources = tuple(replace(s, error="topic t: gone") if s.name == "configs" else s for s in worlds.sources())
    found = {c.type: c for c in status(worlds.healthy(sources=sources)).conditions}
    assert (found["Replicated"].status, found["Replicated"].message) == (
        "True", "not known in full: configs: topic t: gone",
    )  # fmt: skip
    assert found["Ready"].status == "True"
    assert found["LeadersBalanced"].message == ""


def told(kind, element, affected, ident=None):
    """Whether a finding about these is kept while that element was not read, and whether while another was not."""
    source, what, name = element
    old = before(replace(finding(kind, ident=ident), affected=affected))
    for other in (name, "9"):
        snapshot = worlds.healthy(unread={Element(source, what, other): "timed out"})
        yield [f.evidence[-1] for f in unseen(old, (), snapshot)]


@pytest.mark.parametrize(
    ("kind", "element", "affected", "ident"),
    [
        ("LogDirFailed", ("log-dirs", "BROKER", "1"), ("broker-1", "/d"), "LogDirFailed/broker-1"),
        ("DiskFilling", ("log-dirs", "BROKER", "1"), ("broker-1", "/d"), "DiskFilling/broker-1"),
        ("CertificateExpiring", ("certificates", "BROKER", "1"), ("broker-1",), "CertificateExpiring/listeners"),
        ("CertificateExpiring", ("certificates", "SECRET", "medic/x"), ("medic/x",), "CertificateExpiring/client"),
        ("OffsetBeyondLogEnd", ("groups", "GROUP", "billing"), ("billing", "orders-0"), None),
        ("ClientStalled", ("groups", "GROUP", "billing"), ("billing", "orders-0"), None),
        ("MinInsyncReplicasLow", ("configs", "TOPIC", "orders"), ("orders", "t"), None),
        ("LeftoverThrottle", ("configs", "TOPIC", "orders"), ("broker 1", "topic orders"), None),
        ("LeftoverThrottle", ("configs", "BROKER", "1"), ("broker 1", "topic orders"), None),
    ],
)
def test_a_finding_about_an_element_that_was_not_read_has_not_gone(kind, element, affected, ident):
    kept, other = told(kind, element, affected, ident)
    assert len(kept) == 1
    assert kept[0].startswith("last seen before ")
    assert "timed out can no longer be read" in kept[0]
    assert other == []


LISTENERS = replace(finding("CertificateExpiring", ident="CertificateExpiring/listeners"), affected=("broker-1",))
LATER = {Element("certificates", "BROKER", "2"): "not read yet"}


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({}, False),  # it has a new one
        ({"certificates": None}, False),  # nothing uses TLS any more
        ({"certificates": None, "sources": worlds.sources(certificates="timed out")}, True),
        ({"certificates": (worlds.served(2),)}, True),  # it is away, and another operator than the one before
        ({"certificates": (), "unread": LATER}, True),
        ({"certificates": (worlds.served(2),), "brokers": worlds.brokers()[1:]}, False),  # nobody names it any more
        ({"certificates": (worlds.served(2),), "brokers": None}, True),
        ({"certificates": (worlds.trusted(),)}, False),  # the listener does without; ZooKeeper does not
        ({"certificates": (worlds.trusted(),), "brokers": None}, True),
        ({"certificates": (), "brokers": tuple(worlds.broker(n, reachable=False) for n in worlds.IDS)}, True),
    ],
)
def test_a_certificate_that_is_not_known_may_still_be_near_its_end(change, kept):
    assert [f.id for f in unseen(before(LISTENERS), (), worlds.healthy(**change))] == [LISTENERS.id] * kept


def test_what_status_had_no_room_for_may_be_what_was_not_read():
    many = before(replace(LISTENERS, counted=300))
    other = {Element("certificates", "BROKER", "3"): "timed out"}
    assert len(unseen(many, (), worlds.healthy(unread=other))) == 1
    assert unseen(before(LISTENERS), (), worlds.healthy(unread=other)) == ()


def test_an_authority_stays_near_its_end_while_a_part_of_what_is_trusted_is_not_known():
    above = before(replace(LISTENERS, id="CertificateExpiring/authorities", affected=("kafka-ca/ca.crt",)))
    of_another = {Element("certificates", "SECRET", "kafka-ca/former.crt"): "no PEM"}
    assert len(unseen(above, (), worlds.healthy(unread=of_another))) == 1
    assert unseen(above, (), worlds.healthy(unread=LATER)) == ()


def test_defaults_that_one_broker_did_not_tell_may_still_be_low():
    ident = "ReplicationFactorLow/broker-defaults"
    old = before(finding("ReplicationFactorLow", ident=ident))
    assert unseen(old, (), worlds.healthy(unread={Element("configs", "BROKER", "1"): "timed out"}))[0].id == ident
    assert unseen(old, (), worlds.healthy(unread={Element("configs", "TOPIC", "t"): "timed out"})) == ()
    topics = before(finding("ReplicationFactorLow", ident="ReplicationFactorLow/topics"))
    assert unseen(topics, (), worlds.healthy(unread={Element("configs", "BROKER", "1"): "timed out"})) == ()


def test_a_group_that_no_list_has_may_be_one_of_a_broker_that_gave_none():
    old = before(replace(finding("OffsetBeyondLogEnd"), affected=("gone", "orders-0")))
    silent = {Element("groups", "BROKER", "2"): "timed out"}
    assert "broker 2 did not list its groups" in unseen(old, (), worlds.healthy(unread=silent))[0].evidence[-1]
    there = before(replace(finding("OffsetBeyondLogEnd"), affected=("billing", "orders-0")))
    assert unseen(there, (), worlds.healthy(unread=silent)) == (), "it is listed, and well"


@pytest.mark.parametrize(
    ("kind", "affected", "column"),
    [("OffsetBeyondLogEnd", ("billing", "orders-0"), "logEnd"), ("PartitionUnderMinIsr", ("orders-0",), "minIsr")],
)
def test_a_partition_of_which_that_is_not_known_has_not_got_well(kind, affected, column):
    old = before(replace(finding(kind), affected=affected))
    rows = [{**worlds.ROWS[0], column: None}, *worlds.ROWS[1:]]
    assert "orders-0 can no longer be read" in unseen(old, (), worlds.healthy(rows=rows))[0].evidence[-1]
    assert unseen(old, (), worlds.healthy(rows=[worlds.ROWS[0], {**worlds.ROWS[1], column: None}])) == ()
    assert unseen(old, (), worlds.healthy(rows=worlds.ROWS[1:])) == (), "the topic is gone"


@pytest.mark.parametrize(
    ("of", "change", "kept"),
    [
        ("replicas", {}, None),
        ("replicas", {"brokers": worlds.brokers(b3={"reachable": False})}, "broker 3 is not known to be up"),
        ("replicas", {"brokers": None}, "which broker has which replica"),
        ("replicas", {"rows": [{**worlds.ROWS[0], "adding": [2]}]}, "1 partition is being reassigned"),
        ("replicas", {"rows": [{**worlds.ROWS[0], "adding": None}]}, "the replicas of 1 partition"),
        ("replicas", {"rows": [{**worlds.ROWS[0], "sizeBytes": None}]}, None),
        ("bytes", {"rows": [{**worlds.ROWS[0], "sizeBytes": None}]}, "the size of 1 partition"),
        ("traffic", {"brokers": worlds.brokers(b2={"bytes_in_rate": None})}, "bytes in of broker 2"),
        ("traffic", {}, None),
    ],
)
def test_unequal_shares_have_not_gone_while_they_cannot_be_compared(of, change, kept):
    found = unseen(before(finding("LoadUneven", ident=f"LoadUneven/{of}")), (), worlds.healthy(**change))
    assert [kept in f.evidence[-1] for f in found] == ([] if kept is None else [True])
