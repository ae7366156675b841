"""Nothing is given to a broker that is not fit to receive it, whatever effect would give it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_medic.actuate.carry_out import EFFECTS as CARRIED_OUT
from kafka_medic.cluster.groups import Committed
from kafka_medic.cluster.owners import OwnerObject
from kafka_medic.cluster.snapshot import Source, SourceState, TopicPartition
from kafka_medic.guard.fit import fit_to_receive, unfit
from kafka_medic.guard.verdict import Verdict
from kafka_medic.playbook import effects, guards
from kafka_medic.playbook.effects import (
    AlterLogDirs,
    CallOffRestarts,
    ChangeSettings,
    DropReplicas,
    EditObjects,
    ElectPreferred,
    Intent,
    PauseObjects,
    Reassign,
    Reorder,
    RescuePart,
    RescueRecords,
    ResignController,
    RestartPod,
    ResumeObjects,
    ScaleWorkload,
    SetOffsets,
)
from kafka_medic.resources.vocabulary import WorkloadKind
from tests.unit.cluster import worlds

TP, OWNER = TopicPartition("orders", 0), OwnerObject("KafkaTopic", "orders", "u")
EFFECTS: dict[type, tuple[Any, set[int]]] = {
    ChangeSettings: (ChangeSettings("i", {("TOPIC", "orders", "min.insync.replicas"): "2"}), set()),
    Reassign: (Reassign("i", {TP: (1, 2, 3, 4)}), {4}),
    AlterLogDirs: (AlterLogDirs("i", {(2, TP): "/data/1"}), {2}),
    RestartPod: (RestartPod("i", 1, "kafka-1", "uid-1"), set()),
    CallOffRestarts: (CallOffRestarts("i", (("kafka-1", "uid-1"),)), set()),
    RescueRecords: (RescueRecords("i", "rescue", (2, 3), (RescuePart(1, TP, 4, 10),)), {2, 3}),
    ElectPreferred: (ElectPreferred("i", {TP: 1}), {1}),
    DropReplicas: (DropReplicas("i", {TP: (2, 3)}), {2, 3}),
    Reorder: (Reorder("i", {TP: (3, 1, 2)}), {3}),
    SetOffsets: (SetOffsets("i", "billing", {TP: (Committed(1), Committed(0))}), set()),
    ScaleWorkload: (ScaleWorkload("i", WorkloadKind.DEPLOYMENT, "app", "u", 1, 0), set()),
    ResignController: (ResignController("i", 1, 7), set()),
    PauseObjects: (PauseObjects("i", (OWNER,)), set()),
    EditObjects: (EditObjects("i", {OWNER: {"replicas": ("1", "3")}}), set()),
    ResumeObjects: (ResumeObjects("i", (OWNER,)), set()),
}
"""An example of each effect, and who receives something by it."""


def test_every_effect_says_whom_it_gives_something() -> None:
    """A new kind of effect has to stand in this table, with its receivers, before it can be used."""
    kinds = {k for k in vars(effects).values() if isinstance(k, type) and issubclass(k, Intent) and k is not Intent}
    assert set(EFFECTS) == kinds == set(CARRIED_OUT)
    for example, receives in EFFECTS.values():
        assert example.receivers(worlds.healthy()) == receives
    assert Reassign("i", {TP: None}).receivers(worlds.healthy()) == frozenset(), "a cancellation takes away"
    for kind in (Reassign, DropReplicas):
        assert kind("i", {TP: (2, 1)}).receivers(worlds.healthy()) == {2}, "Kafka elects who stands first by itself"
        assert kind("i", {TP: (1, 2)}).receivers(worlds.healthy()) == frozenset()


@pytest.mark.parametrize("kind", EFFECTS, ids=lambda kind: kind.__name__)
def test_the_guard_is_asked_before_every_effect_that_gives_something(
    kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the guards of its action come about: they may leave it out, and it is asked all the same."""
    example, receives = EFFECTS[kind]
    monkeypatch.setattr(guards, "_forward", lambda *_: ())

    class Observed:
        snapshot = worlds.healthy(
            views=tuple(worlds.view(n, told={("orders", 1): (1, 4)} if n in receives else None) for n in worlds.IDS)
        )

    found = guards.forward_reasons(None, Observed(), example)  # type: ignore[arg-type]
    assert {r.guard for r in found} == ({"FitToReceive"} if receives else set())
    assert all(r.verdict is not Verdict.ALLOW for r in found)


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({"registered": False}, Verdict.DENY, "not registered"),
        ({"reachable": False}, Verdict.DENY, "does not answer"),
        ({"registered": None}, Verdict.UNKNOWN, "is not known"),
        ({"recovering": True}, Verdict.WAIT, "recovering its log"),
        ({"recovering": None}, Verdict.UNKNOWN, "recovering its log is not known"),
        ({"pod": worlds.pod(2, deleting=True)}, Verdict.WAIT, "being deleted"),
        ({"pod": worlds.pod(2, cordoned=True)}, Verdict.WAIT, "cordoned"),
        ({"pod": worlds.pod(2, maintenance=("a drain is announced",))}, Verdict.WAIT, "a drain is announced"),
        ({"pod": worlds.pod(2, maintenance=None)}, Verdict.UNKNOWN, "about to go is not known"),
    ],
)
def test_a_broker_that_is_not_fit(changes: dict[str, Any], verdict: Verdict, words: str) -> None:
    members = (1, 3) if changes.get("registered") is False else worlds.IDS
    views = tuple(worlds.view(n, members=members) for n in worlds.IDS)
    snapshot = worlds.healthy(brokers=worlds.brokers(b2=changes), views=views)
    found = [r for r in fit_to_receive(snapshot, {2}) if words in r.message]
    assert [r.verdict for r in found] == [verdict]
    assert "fit to receive" in fit_to_receive(worlds.healthy(), {2})[0].message
    assert fit_to_receive(snapshot, {1})[0].verdict is Verdict.ALLOW, "the other one is"


@pytest.mark.parametrize(
    ("view", "verdict", "words"),
    [
        (None, Verdict.UNKNOWN, "did not report its own view"),
        (worlds.view(2, members=None), Verdict.UNKNOWN, "did not report its own view"),
        (worlds.view(2, told={("orders", 1): (1, 4)}), Verdict.DENY, "orders-1 leader 1 epoch 4"),
        (worlds.view(2, members=(2,)), Verdict.DENY, "lacks broker 1, 3"),
        (worlds.view(2, worlds.ROWS[1:]), Verdict.DENY, "orders-0 not reported"),
        (
            worlds.view(2, [{**r, "topicId": None} for r in worlds.ROWS]),
            Verdict.UNKNOWN,
            "without ids",
        ),
    ],
)
def test_a_broker_whose_own_view_is_unknown_or_stale_is_not_fit(view: Any, verdict: Verdict, words: str) -> None:
    views = [worlds.view(1), worlds.view(3), *([view] if view else [])]
    found = list(unfit(worlds.healthy(views=tuple(views)), 2))
    assert [r.verdict for r in found] == [verdict]
    assert words in found[0].message


def test_a_broker_that_may_run_in_a_pod_that_has_not_answered_is_not_known_to_be_fit() -> None:
    podless = worlds.healthy(brokers=worlds.brokers(b2={"pod": None}))
    assert not list(unfit(podless, 2)), "none of the Pods that were listed runs it"
    (reason,) = unfit(replace(podless, unplaced=(worlds.pod(2, cordoned=True),)), 2)
    assert reason.verdict is Verdict.UNKNOWN
    assert "whether the Pod of broker 2 is about to go is not known" in reason.message
    assert not list(unfit(replace(podless, unplaced=(worlds.pod(2),)), 1)), "this one runs in a Pod of its own"


def test_one_view_alone_makes_nobody_fit() -> None:
    """It agrees with what is decided, since it alone decided it."""
    lonely = worlds.healthy(views=(worlds.view(2),))
    (reason,) = fit_to_receive(lonely, {2})
    assert reason.verdict is Verdict.UNKNOWN
    assert "1 of 3 registered brokers reported their view" in reason.message


def test_what_brokers_dispute_is_given_to_nobody_nor_anything_to_whoever_may_be_wrong() -> None:
    views = (worlds.view(1), worlds.view(2), worlds.view(3, told={("orders", 0): (2, 9)}))
    snapshot = worlds.healthy(views=views)
    assert fit_to_receive(snapshot, {2}, [TP])[0].verdict is Verdict.UNKNOWN
    assert fit_to_receive(snapshot, {2}, [TopicPartition("orders", 1)])[0].verdict is Verdict.UNKNOWN


def test_without_kubernetes_there_is_no_pod_to_go() -> None:
    bare = tuple(replace(b, pod=None) for b in worlds.brokers())
    sources = tuple(s for s in worlds.sources() if s.name != "kubernetes")
    assert fit_to_receive(worlds.healthy(brokers=bare, sources=sources), {1, 2, 3})[0].verdict is Verdict.ALLOW
    listed = worlds.healthy(brokers=(*bare[:1], *worlds.brokers()[1:]))
    assert fit_to_receive(listed, {1})[0].verdict is Verdict.ALLOW, "no Pod runs it, so none can go"
    failed = (*sources, Source("kubernetes", worlds.NOW, SourceState.UNKNOWN, "timed out"))
    assert fit_to_receive(worlds.healthy(brokers=bare, sources=failed), {1})[0].verdict is Verdict.UNKNOWN
