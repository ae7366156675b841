"""No snapshot whatsoever lets a restart pass that would take a partition below min.insync.replicas, or that rests on
something not known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafka_medic.cluster.certificates import SOURCE as CERTIFICATES
from kafka_medic.cluster.document import SnapshotDocumentError, from_document, to_document
from kafka_medic.cluster.snapshot import Mode
from kafka_medic.guard.restart import judge_restart
from kafka_medic.guard.verdict import Verdict
from tests.thorough import THOROUGH
from tests.unit.cluster import worlds

BROKERS = (1, 2, 3, 4)
SETTINGS = settings(max_examples=150 if THOROUGH else 25)
"""More in `make simulate` than in `make check`."""


@st.composite
def rows(draw):
    found = []
    for number in range(draw(st.integers(1, 4))):
        replicas = draw(st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True))
        isr = draw(st.one_of(st.just(replicas), st.lists(st.sampled_from(replicas), unique=True)))
        removing = draw(st.one_of(st.just([]), st.just([]), st.lists(st.sampled_from(replicas), unique=True)))
        least = draw(st.integers(0, 4))
        row = worlds.partition("t", number, replicas, isr=isr, removing=removing, minIsr=least)
        found.append(row)
    return found


def snapshot_of(listed, mode=Mode.KRAFT):
    four = (*worlds.brokers(), worlds.broker(4))
    views = tuple(worlds.view(n, listed, members=BROKERS) for n in BROKERS)
    return worlds.healthy(mode, rows=listed, brokers=four, views=views)


@SETTINGS
@given(listed=rows(), broker=st.sampled_from(BROKERS), mode=st.sampled_from(list(Mode)))
@example(listed=[worlds.partition("t", 0, (1, 2, 3), minIsr=2)], broker=1, mode=Mode.KRAFT)
def test_never_below_min_isr(listed, broker, mode):
    judgement = judge_restart(snapshot_of(listed, mode), broker, worlds.NOW)
    safe = True
    for row in listed:
        others_behind = (set(row["replicas"]) - set(row["isr"])) - {broker}
        if row["removing"] or others_behind:
            safe = False
        if broker in row["replicas"]:
            least = max(row["minIsr"], 1)
            safe = safe and len(row["replicas"]) > least and len(set(row["isr"]) - {broker}) >= least
    # Both ways: nothing unsafe passes, and nothing safe is refused.
    assert (judgement.verdict is Verdict.ALLOW) == safe, judgement.refusals


NOT_NEEDED = {
    # Nothing about a restart turns on these, or (a voter that leads, the target's own state) they cannot be otherwise.
    "cluster.name", "cluster.id", "cluster.namespace", "controller.epoch", "rack", "host", "port", "bytesInRate",
    "diskFree", "node",
    "name", "logStart", "logEnd", "sizeBytes", "error", "groups", "configs", "apiVersion", "version", "clients",
    "connections", "remainingLogsToRecover", "remainingSegmentsToRecover", "ip", "durationMs", "canary", "diverged",
    "topicId",
    # Additions to the format that another writer may lack: what they say is in tests/unit/guard/test_elements.py.
    "directories", "offlineReplicas", "unread", "unplacedPods", "unplacedControllerPods",
    # Read together with `cordoned`, which is asked for.
    "deleting", "nodeReady", "maintenance", "ports", "restartAsked",
    # Null says that nothing is known to be in the way; the API server itself refuses what the operator may not do.
    "hindrance",
    # Restarts change no topic, and delete none.
    "owners", "unknownTopics",
    # A restart may be how a broker gets its new certificate. How near the end of the old one is decides nothing: that
    # compares two clocks.
    "certificates",
}  # fmt: skip


def nullable_paths(node, path=()):
    """Every place of the document where a null may stand."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        here = (*path, key)
        if isinstance(key, str) and key not in NOT_NEEDED and ".".join(map(str, here)) not in NOT_NEEDED:
            yield here
        if key not in ("groups", "configs", "certificates"):
            yield from nullable_paths(value, here)


def with_null(document, path):
    if not path:
        return None
    head, *rest = path
    if isinstance(document, dict):
        return {k: with_null(v, rest) if k == head else v for k, v in document.items()}
    return [with_null(v, rest) if i == head else v for i, v in enumerate(document)]


def _excused(path, document, broker):
    if path[0] == "sources" and len(path) > 1 and document["sources"][path[1]]["name"] == CERTIFICATES:
        return True  # see NOT_NEEDED
    if path[0] == "quorum" and path[-1] == "pod":
        return True  # of controllers that are no brokers; here there is none
    if path[0] == "quorum" and path[1:2] == ("voters",) and len(path) == 4:
        voter = document["quorum"]["voters"][path[2]]
        if document["cluster"]["mode"] == "ZooKeeper":
            return True  # there a null lag is a statement: the server does not serve
        return voter["id"] in (document["quorum"]["leader"], broker)
    if path[0] == "brokers" and path[-1] in ("ready", "uid", "answersAs"):
        is_target = document["brokers"][path[1]]["id"] == broker
        return is_target == (path[-1] == "ready")
    if path[0] == "views" and path[-1] == "controller":
        return document["cluster"]["mode"] == "KRaft"
    return path[0] == "views" and path[-1] == "observedAt"  # the source `views` says when


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("broker", [1, 2])
def test_any_needed_value_that_is_null_never_permits(broker, mode):
    """Every place of the document, not a sample: there are only so many."""
    document = to_document(worlds.healthy(mode))
    tried = 0
    for path in nullable_paths(document):
        if _excused(path, document, broker):
            continue
        try:
            snapshot = from_document(with_null(document, path))
        except SnapshotDocumentError:
            continue  # null is no value there, and the document is refused
        assert judge_restart(snapshot, broker, worlds.NOW).verdict is not Verdict.ALLOW, path
        tried += 1
    assert tried > 70


@SETTINGS
@given(
    seconds=st.floats(-1e6, 1e6, allow_nan=False),
    name=st.sampled_from([s.name for s in worlds.sources() if s.name != CERTIFICATES]),
)
def test_a_stale_source_never_permits(seconds, name):
    fresh = worlds.sources()
    moved = tuple(replace(s, observed_at=worlds.later(seconds)) if s.name == name else s for s in fresh)
    judgement = judge_restart(worlds.healthy(sources=moved), 2, worlds.NOW)
    observed = next(s.observed_at for s in moved if s.name == name)
    assert (judgement.verdict is Verdict.ALLOW) == (abs((worlds.NOW - observed).total_seconds()) <= 30)
