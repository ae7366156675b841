"""The invariants of `kafka_medic.cluster.authority`, over all small worlds.

A world is the history of one topic (states in the order in which they were committed), which voters answer, and with
which state of that history. The last state is the committed one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_medic.clients.ports import BrokerView, PartitionState
from kafka_medic.cluster.accounts import TopicRecord, settle
from kafka_medic.cluster.authority import GONE, Leadership, incarnation, leadership, membership, weigh

State = tuple[str, Leadership | None]
"""A topic id or GONE, and who leads its only partition."""
A = [("A", Leadership(leader, epoch)) for leader, epoch in ((1, 57), (2, 58))]
B = [("B", Leadership(leader, epoch)) for leader, epoch in ((3, 0), (1, 1))]
HISTORIES: list[list[State]] = [
    A,
    [*A, (GONE, None)],
    [*A, B[0]],
    [*A, *B],
    [A[1], (GONE, None), B[0]],
    [(GONE, None), *B],
]
INVENTED: list[State] = [("A", Leadership(9, 99)), ("B", Leadership(9, 99)), ("C", Leadership(9, 0))]
CONTROLLERS = (None, 0)
"""One broker is like another, so the controller is always the first."""


def decide(accounts: dict[int, State], controller: int | None, voters: int) -> State | None:
    topic_id = incarnation({b: a[0] for b, a in accounts.items()}, controller, voters)
    if topic_id is None:
        return None
    if topic_id == GONE:
        return GONE, None
    led = leadership({b: a[1] for b, a in accounts.items() if a[0] == topic_id and a[1]}, controller, voters)
    return None if led is None else (topic_id, led)


Answers = tuple[State | None, ...]


def answers(history: list[State], voters: int, more: list[State] = []) -> Iterator[Answers]:  # noqa: B006
    """Each voter silent, or with any state."""
    return itertools.product([None, *history, *more], repeat=voters)


def reported(told: Answers) -> dict[int, State]:
    return {broker: state for broker, state in enumerate(told) if state is not None}


@pytest.mark.parametrize("voters", [3, 4, 5])
@pytest.mark.parametrize("history", HISTORIES, ids=lambda h: "-".join(f"{i}{led.epoch if led else ''}" for i, led in h))
def test_no_minority_and_no_missing_answer_makes_the_operator_believe_what_is_not_so(
    history: list[State], voters: int
) -> None:
    truth = history[-1]
    decided = 0
    for told in answers(history, voters):
        accounts = reported(told)
        if not accounts:
            continue
        current = sum(state == truth for state in accounts.values())
        for controller in CONTROLLERS:
            found = decide(accounts, controller, voters)
            decided += found is not None
            if current * 2 > voters:
                assert found in (truth, None), ("A", told, controller, found)
            if controller is not None and accounts.get(controller) == truth:
                assert found in (truth, None), ("B", told, controller, found)
            own = accounts.get(controller) if controller is not None else None
            if current * 2 > voters and (own is None or own[0] == truth[0]):
                assert found == truth, ("D", told, controller, found)
            if found is not None and len(set(accounts.values())) > 1:
                support = sum(state == found for state in accounts.values())
                assert support * 2 > voters or (own == found and support > 1), ("C", told, controller, found)
    assert decided, "a rule that never decides keeps every promise"


@pytest.mark.parametrize("voters", [3, 4])
@pytest.mark.parametrize("invented", INVENTED, ids=lambda s: f"{s[0]}{s[1].epoch}")
def test_a_larger_number_makes_nobody_the_authority(invented: State, voters: int) -> None:
    """One voter invents a state: an epoch that was never reached, or an incarnation that never was."""
    for history in HISTORIES:
        for told in answers(history, voters - 1):
            accounts = reported((*told, invented))
            for controller in CONTROLLERS:
                if len(accounts) > 1:
                    assert decide(accounts, controller, voters) != invented, (told, controller)


@pytest.mark.parametrize("voters", [3, 4, 5])
def test_a_missing_answer_never_turns_one_answer_into_another(voters: int) -> None:
    for history in HISTORIES:
        for told in answers(history, voters):
            for controller in CONTROLLERS:
                whole = reported(told)
                found = decide(whole, controller, voters) if whole else None
                if found is None:
                    continue
                for silent in whole:
                    fewer = {b: a for b, a in whole.items() if b != silent}
                    if len(set(fewer.values())) > 1:
                        assert decide(fewer, controller, voters) in (found, None), ("E", told, silent, controller)


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_a_topic_made_anew_is_not_judged_by_the_epochs_of_the_old_one(controller: int | None) -> None:
    """The old incarnation had reached epoch 57, the new one begins at 0: the larger number is the older one."""
    old, new = A[0], B[0]
    assert decide({0: new, 1: new, 2: old}, controller, 3) == new


def test_the_brokers_view_of_the_active_controller_is_not_believed_against_all_others() -> None:
    """Its metadata loader may hang while the same process goes on as controller."""
    old, new = A[0], B[0]
    assert decide({0: old, 1: new, 2: new}, 0, 3) is None
    assert decide({0: A[0], 1: A[1], 2: A[1]}, 0, 3) == A[1], "within one incarnation the order shows who is behind"


def test_without_a_majority_two_accounts_are_unknown_and_with_a_second_witness_the_controllers_counts() -> None:
    old, new = A[0], B[0]
    assert decide({1: new, 2: old}, None, 3) is None
    assert decide({0: new, 1: new, 2: old, 3: old}, 0, 5) == new
    assert decide({0: new, 2: old}, 0, 3) is None, "one account against one"


def test_isr_and_replicas_follow_the_majority_or_the_seconded_controller() -> None:
    assert weigh({0: (1, 2), 1: (1,), 2: (1,)}, None, 3) == (1,)
    assert weigh({0: (1, 2), 1: (1,)}, 0, 3) is None
    assert weigh({0: (1, 2), 1: (1, 2), 2: (1,), 3: ()}, 0, 5) == (1, 2)


# Membership


def test_a_fenced_broker_that_counts_itself_among_the_members_is_not_registered() -> None:
    views = {1: frozenset({1, 2}), 2: frozenset({1, 2}), 3: frozenset({1, 2, 3})}
    assert membership(views, None, frozenset({1, 2})) == (frozenset({1, 2}), frozenset())
    alone = {1: frozenset({1}), 2: frozenset({1, 2})}
    assert membership(alone, 1, frozenset({1})) == (frozenset({1}), frozenset())


def test_one_stale_broker_does_not_unregister_another() -> None:
    """Its metadata loader hung while the other one was away. Then it would be the whole majority."""
    views = {0: frozenset({0, 1}), 1: frozenset({1})}
    assert membership(views, None, frozenset({0, 1})) == (frozenset({1}), frozenset({0}))


def test_a_broker_that_half_of_the_others_name_is_neither_registered_nor_gone() -> None:
    views = {1: frozenset({1, 2, 3, 4}), 2: frozenset({1, 2, 3, 4}), 3: frozenset({1, 2, 3}), 5: frozenset({1, 2, 3})}
    registered, unsure = membership(views, None, frozenset({1, 2, 3}))
    assert 4 in unsure
    assert {1, 2, 3} <= registered


# The same over columns


def view(broker: int, *states: PartitionState) -> BrokerView:
    return BrokerView.of(broker, (0, 1, 2), None, states)


def state(topic: str = "t", number: int = 0, **changes: object) -> PartitionState:
    whole = {"leader": 1, "leader_epoch": 5, "replicas": (1, 2, 0), "isr": (1, 2, 0), "topic_id": "A"} | changes
    return PartitionState(topic, number, **whole)  # type: ignore[arg-type]


def rows(views: list[BrokerView], controller: int | None = None, voters: int = 3, records=None):
    tables = {v.broker: v.states for v in views if v.states is not None}
    return settle(tables, controller, voters, records)


def test_one_disputed_partition_leaves_the_others_as_they_are() -> None:
    """`no leader` of one, an epoch of another, a topic that only one knows: each is decided by itself."""
    plain = [state(number=n) for n in range(3)]
    ahead = [state(number=0, leader=2, leader_epoch=6), *plain[1:]]
    ghost = [*plain, state("ghost", topic_id="G")]
    found = rows([view(0, *plain), view(1, *ahead), view(2, *ghost)])
    told = {(r["topic"], r["partition"]): r for r in found.states.to_pylist()}
    assert set(told) == {("t", 0), ("t", 1), ("t", 2)}, "a majority says that there is no such topic"
    assert (told["t", 0]["leader"], told["t", 0]["leaderEpoch"], told["t", 0]["isr"]) == (None, None, None)
    assert told["t", 0]["replicas"] == [1, 2, 0], "of which nobody has another account"
    assert {told["t", n]["leader"] for n in (1, 2)} == {1}
    assert found.disputed == {"t", "ghost"}


def test_an_isr_from_behind_does_not_count() -> None:
    """The one that is behind names more in sync; it is the older account, and outvotes nobody."""
    new = state(leader=2, leader_epoch=6, isr=(2,))
    found = rows([view(0, new), view(1, new), view(2, state())])
    assert found.states.to_pylist() == [
        {"topic": "t", "partition": 0, "leader": 2, "leaderEpoch": 6, "replicas": [1, 2, 0], "isr": [2], "topicId": "A"}
    ]


def test_isrs_that_all_differ_are_unknown_and_the_leader_is_not() -> None:
    views = [view(b, state(isr=isr)) for b, isr in enumerate([(1, 2, 0), (1, 2), (1,)])]
    (row,) = rows(views).states.to_pylist()
    assert (row["leader"], row["isr"]) == (1, None)


def test_a_partition_that_was_added_is_there_for_the_majority() -> None:
    more = [state(), state(number=1)]
    found = rows([view(0, *more), view(1, *more), view(2, state())])
    assert found.states["partition"].to_pylist() == [0, 1]
    found = rows([view(0, *more), view(2, state())])
    assert found.states["leader"].to_pylist() == [1, None], "one account against one"


def test_zookeepers_record_decides_alone() -> None:
    record = TopicRecord("B", {0: (2, 0, (2, 0), (2, 0))})
    old, new = state(leader_epoch=57), state(topic_id="B", leader=2, leader_epoch=0, replicas=(2, 0), isr=(2, 0))
    views = [view(0, old), view(1, old), view(2, new)]
    (row,) = rows(views, 0, records={"t": record}).states.to_pylist()
    assert (row["topicId"], row["leader"], row["leaderEpoch"], row["isr"]) == ("B", 2, 0, [2, 0])
    assert not rows(views, 0, records={"t": None}).states.num_rows, "it does not exist"


def test_brokers_that_report_no_topic_ids_contradict_nobody_about_them() -> None:
    found = rows([view(0, state()), view(1, state(topic_id=None)), view(2, state())])
    assert found.states["topicId"].to_pylist() == ["A"]
    assert found.disputed == set()


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from("tu"), st.integers(0, 2), st.sampled_from("AB"), st.integers(0, 2)), max_size=5
        ),
        min_size=2,
        max_size=5,
    ),
    st.sampled_from([None, 0]),
)
def test_columns_decide_as_the_rules_do(told: list[list[tuple[str, int, str, int]]], controller: int | None) -> None:
    """Any accounts, one partition after the other by the rules, against all of them at once."""
    views, ids = {}, {}
    for broker, listed in enumerate(told):
        known = {(t, n): (i, e) for t, n, i, e in listed}
        ids[broker] = {t: i for (t, _), (i, _) in known.items()}
        views[broker] = view(
            broker,
            *(state(t, n, topic_id=ids[broker][t], leader=e % 3, leader_epoch=e) for (t, n), (_, e) in known.items()),
        )
    found = {
        (r["topic"], r["partition"]): (r["topicId"], r["leader"], r["leaderEpoch"])
        for r in rows(list(views.values()), controller, len(told)).states.to_pylist()
    }
    expected = {}
    for topic in {t for of in ids.values() for t in of}:
        topic_id = incarnation({b: ids[b].get(topic, GONE) for b in views}, controller, len(told))
        mine = {b: v for b, v in views.items() if topic_id is None or ids[b].get(topic) == topic_id}
        numbers = {p.partition for v in mine.values() for p in v.partitions if p.topic == topic}
        for number in numbers if topic_id != GONE else ():
            accounts = {
                b: {(p.topic, p.partition): Leadership(p.leader, p.leader_epoch) for p in v.partitions}.get(
                    (topic, number)
                )
                for b, v in mine.items()
            }
            there = weigh({b: a is not None for b, a in accounts.items()}, controller, len(told))
            led = leadership({b: a for b, a in accounts.items() if a is not None}, controller, len(told))
            if topic_id is None:
                expected[topic, number] = (None, None, None)
            elif there is not False:
                expected[topic, number] = (topic_id, *(led if led is not None and there else (None, None)))
    assert found == expected
