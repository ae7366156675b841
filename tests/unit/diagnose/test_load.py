"""Brokers that hold clearly unequal shares, and what only looks like that."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from kafka_medic.cluster.snapshot import Directory, Snapshot
from kafka_medic.diagnose.diagnosis import diagnose
from kafka_medic.diagnose.expectations import Expectations
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.load import clouded
from kafka_medic.plan.problem import Broker as PlanBroker
from kafka_medic.plan.relocation import LowerImbalance, Relocation
from kafka_medic.plan.solver.relocate import plan_relocation
from kafka_medic.resources import kafkacluster
from kafka_medic.resources.vocabulary import FindingState, Severity
from tests.unit.cluster import worlds

GB, MB = 10**9, 10**6


def loaded(
    replicas: list[list[int]],
    racks: dict[int, str | None],
    *,
    topic: str = "orders",
    size: int | None = 1000,
    more: tuple[dict[str, object], ...] = (),
    **changed: dict[str, object],
) -> Snapshot:
    """A cluster with these partitions; `b3={...}` changes a broker."""
    rows = [worlds.partition(topic, n, ids, sizeBytes=size) for n, ids in enumerate(replicas)]
    brokers = tuple(worlds.broker(n, rack=rack, **changed.get(f"b{n}", {})) for n, rack in racks.items())
    return worlds.healthy(rows=[*rows, *more], brokers=brokers, views=None)


def shares(snapshot: Snapshot, **how: object) -> dict[str, Finding]:
    return {f.id: f for f in diagnose(snapshot, **how) if f.type == "LoadUneven"}  # type: ignore[arg-type]


def expecting(**spec: object) -> Expectations:
    return Expectations.from_spec(kafkacluster.Expectations.model_validate(spec))


NO_RACKS: dict[int, str | None] = dict.fromkeys((1, 2, 3, 4))
THREE_FULL_ONE_EMPTY = [[1, 2, 3]] * 40
"""Each of three brokers holds 40 replicas, and broker 4 none: an even share is 30."""


def test_brokers_with_unequal_shares_are_named_with_the_share_that_would_be_even():
    (finding,) = shares(loaded(THREE_FULL_ONE_EMPTY, NO_RACKS)).values()
    assert finding.id == "LoadUneven/replicas"
    assert finding.severity is Severity.INFO
    assert finding.affected == ("broker-1", "broker-2", "broker-3", "broker-4")
    assert "0 to 40 replicas" in finding.message
    assert any("broker 4 has 0 (even: 30)" in line for line in finding.evidence)
    assert finding.playbook == "rebalance"


def test_a_new_broker_has_half_an_hour():
    snapshot = loaded(THREE_FULL_ONE_EMPTY, NO_RACKS)
    for ago, state in ((29, FindingState.PENDING), (30, FindingState.FIRING)):
        remembered = {"LoadUneven/replicas": worlds.later(-60 * ago)}
        assert shares(snapshot, remembered=remembered)["LoadUneven/replicas"].state is state


@pytest.mark.parametrize(
    ("replicas", "why"),
    [
        ([[1, 2, 3]] * 13, "an even share is 9.75, so that broker 4 lacks less than 10"),
        ([[1, 2, 3], [2, 3, 4], [3, 4, 1], [4, 1, 2]] * 100, "even"),
        ([[1, 2, 3], [2, 3, 4], [3, 4, 1], [4, 1, 2]] * 100 + [[1, 2, 3]] * 60, "less than 20 % away"),
    ],
)
def test_few_replicas_and_small_differences_are_no_finding(replicas: list[list[int]], why: str):
    assert not shares(loaded(replicas, NO_RACKS)), why


def test_the_percentage_is_the_owners_and_zero_switches_it_off():
    a_little = [[1, 2, 3], [2, 3, 4], [3, 4, 1], [4, 1, 2]] * 100 + [[1, 2, 3]] * 60
    assert shares(loaded(a_little, NO_RACKS), expectations=expecting(unevenPercent=10))
    for percent in (0, 100):
        assert not shares(loaded(THREE_FULL_ONE_EMPTY, NO_RACKS), expectations=expecting(unevenPercent=percent))


def test_a_controller_that_a_pool_is_to_lose_is_no_broker_without_a_share():
    leaving = {9: "KafkaNodePool controllers is scaled down"}
    (finding,) = shares(loaded(THREE_FULL_ONE_EMPTY, NO_RACKS), leaving=leaving).values()
    assert not any("broker 9" in line for line in finding.evidence)


def volume(total: int, free: int) -> dict[str, object]:
    return {"directories": (Directory("/data/0", None, total, free),), "disk_free": free}


def test_a_broker_that_is_short_of_room_is_not_filled_and_others_share_the_rest():
    """relieve-disk frees 25 % of a volume by default, and nothing is to undo that."""
    full, room = volume(1000 * GB, 255 * GB), volume(1000 * GB, 400 * GB)
    assert not shares(loaded(THREE_FULL_ONE_EMPTY, NO_RACKS, size=GB, b4=full))
    assert shares(loaded(THREE_FULL_ONE_EMPTY, NO_RACKS, size=GB, b4=room))
    five: dict[int, str | None] = dict.fromkeys((1, 2, 3, 4, 5))
    finding = shares(loaded(THREE_FULL_ONE_EMPTY, five, size=GB, b4=full, b5=room))["LoadUneven/replicas"]
    assert any("broker 5 has 0 (even: 30)" in line for line in finding.evidence)
    assert any("broker 4 gets nothing" in line for line in finding.evidence)


def test_brokers_that_are_full_may_give():
    """A broker was added because the others are full."""
    full = {f"b{n}": volume(1000 * GB, 50 * GB) for n in (1, 2, 3)}
    finding = shares(loaded(THREE_FULL_ONE_EMPTY, NO_RACKS, size=GB, **full, b4=volume(1000 * GB, 900 * GB)))
    assert "broker-1" in finding["LoadUneven/replicas"].affected
    assert not shares(loaded([[1, 2, 3]] * 40, {1: None, 2: None, 3: None}, size=GB, **full))


RACKS: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "c"}


def test_racks_of_unequal_size_force_unequal_shares():
    """With three replicas in three racks brokers 3 and 4 hold one of each partition, whatever moves."""
    even_in_racks = [[1, 3, 4], [2, 3, 4]] * 50
    assert not shares(loaded(even_in_racks, RACKS))
    assert shares(loaded(even_in_racks, RACKS), expectations=expecting(rackAware=False))
    uneven = shares(loaded([[1, 3, 4]] * 80 + [[2, 3, 4]] * 20, RACKS))["LoadUneven/replicas"]
    assert uneven.affected == ("broker-1", "broker-2")


def test_with_racks_to_choose_from_a_small_rack_is_not_to_hold_more_than_its_share():
    """Two replicas in three racks: broker 3 need not hold half of all."""
    assert shares(loaded([[1, 3], [2, 3]] * 50, RACKS))["LoadUneven/replicas"].affected[-1] == "broker-4"
    fair = [[1, 3], [2, 4], [1, 4], [2, 3]] * 25
    assert not shares(loaded(fair, RACKS))


def test_a_broker_that_is_down_has_its_own_cure():
    for change in ({"reachable": False}, {"registered": False, "reachable": None}, {"reachable": None}):
        snapshot = loaded([[1, 2, 3]] * 40 + [[2, 3, 4]] * 5, NO_RACKS, b4=change)
        assert not shares(snapshot)
        assert "broker 4" in (clouded(snapshot) or "")
    gone = loaded([[1, 2, 3]] * 40, NO_RACKS, b4={"reachable": False})
    assert not shares(gone), "three brokers hold the same"
    assert clouded(gone) is None, "a broker without replicas hides nothing"
    unlisted = loaded([[1, 2, 3]] * 40 + [[2, 3, 9]], NO_RACKS)
    assert not shares(unlisted)
    assert "broker 9" in (clouded(unlisted) or "")


def test_nothing_is_judged_while_partitions_move_or_while_that_is_not_known():
    for change in ({"adding": [4]}, {"removing": [1]}, {"adding": None}, {"replicas": None, "isr": None}):
        other = {**worlds.partition("payments", 0, (1, 2, 3)), **change}
        snapshot = loaded(THREE_FULL_ONE_EMPTY, NO_RACKS, more=(other,))
        assert not shares(snapshot), change
        assert clouded(snapshot), change
    assert not shares(replace(loaded(THREE_FULL_ONE_EMPTY, NO_RACKS), brokers=None))


def test_ids_of_any_size_are_told_apart():
    for high in (1_000, 2_000_000_000):
        ids = {n: high + n for n in NO_RACKS}
        found = shares(loaded([[ids[b] for b in row] for row in THREE_FULL_ONE_EMPTY], dict.fromkeys(ids.values())))
        assert f"broker {high + 4} has 0 (even: 30)" in found["LoadUneven/replicas"].evidence[0]
        for stray in (high - 1, high + 5, 2_100_000_000):
            rows = [[ids[b] for b in row] for row in THREE_FULL_ONE_EMPTY] + [[ids[1], ids[2], stray]]
            assert f"broker {stray} is not known to be up" in (clouded(loaded(rows, dict.fromkeys(ids.values()))) or "")


def test_a_broker_that_is_to_go_gets_no_share():
    snapshot = loaded(THREE_FULL_ONE_EMPTY, NO_RACKS)
    assert not shares(snapshot, leaving={4: "Remediation evacuate-1 empties it"})
    uneven = [[1, 2, 3]] * 60 + [[1, 2, 5]] * 20
    found = shares(loaded(uneven, {**NO_RACKS, 5: None}), leaving={4: "Remediation evacuate-1 empties it"})
    finding = found["LoadUneven/replicas"]
    assert "broker-4" not in finding.affected
    assert "broker 4 gets no share: Remediation evacuate-1 empties it" in finding.evidence
    for pod in ({"cordoned": True}, {"maintenance": ("the node is to be shut down",)}):
        assert not shares(
            loaded(THREE_FULL_ONE_EMPTY, NO_RACKS, b4={"pod": worlds.pod(1, name="k-4", answers_as=4, **pod)})
        )
    assert not shares(loaded(THREE_FULL_ONE_EMPTY, NO_RACKS, b4={"recovering": True}))


def test_topics_that_are_exempt_stay_where_they_are():
    stay = expecting(topics=[{"pattern": "orders", "exempt": True}])
    assert not shares(loaded(THREE_FULL_ONE_EMPTY, NO_RACKS), expectations=stay)


@pytest.mark.parametrize(
    "topic", ["strimzi.cruisecontrol.metrics", "__CruiseControlMetrics", "_confluent_balancer_api_state"]
)
def test_where_another_balances_the_cluster_it_is_named_only(topic: str):
    own = tuple(worlds.partition(topic, n, (1, 2, 3)) for n in range(2))
    finding = shares(loaded(THREE_FULL_ONE_EMPTY, NO_RACKS, more=own))["LoadUneven/replicas"]
    assert finding.playbook is None
    assert any(topic in line for line in finding.evidence)


def with_sizes(sizes: list[tuple[list[int], int | None]], racks: dict[int, str | None], **changed: dict[str, object]):
    rows = tuple(worlds.partition("sized", n, ids, sizeBytes=size) for n, (ids, size) in enumerate(sizes))
    return loaded([], racks, more=rows, **changed)


EVEN = [[1, 2, 3], [2, 3, 4], [3, 4, 1], [4, 1, 2]]


def test_unequal_bytes_are_a_finding_for_rebalance():
    sizes = [(ids, 2 * GB if 4 not in ids else GB // 10) for ids in EVEN * 20]
    (finding,) = shares(with_sizes(sizes, NO_RACKS)).values()
    assert finding.id == "LoadUneven/bytes"
    assert finding.playbook == "rebalance"
    assert "broker-4" in finding.affected


def test_a_broker_that_is_short_of_room_gets_no_more_bytes():
    """What relieve-disk took off a small volume is not to come back."""
    sizes = [(ids, 2 * GB if 4 not in ids else GB // 10) for ids in EVEN * 20]
    assert not shares(with_sizes(sizes, NO_RACKS, b4=volume(100 * GB, 24 * GB)))
    assert shares(with_sizes(sizes, NO_RACKS, b4=volume(1000 * GB, 900 * GB)))


def test_bytes_that_no_move_could_make_even_are_no_finding():
    one_large = [([1, 2, 3], 900 * GB), *((ids, GB // 10) for ids in EVEN * 20)]
    assert not shares(with_sizes(one_large, NO_RACKS))
    little = [(ids, 20 * MB if 4 not in ids else MB) for ids in EVEN * 20]
    assert not shares(with_sizes(little, NO_RACKS)), "what is little in all"


def test_with_a_size_that_is_not_known_bytes_are_not_judged_and_the_evidence_says_so():
    sizes: list[tuple[list[int], int | None]] = [(ids, 2 * GB if 4 not in ids else GB // 10) for ids in EVEN * 20]
    assert not shares(with_sizes([*sizes, ([1, 2, 3], None)], NO_RACKS))
    finding = shares(loaded(THREE_FULL_ONE_EMPTY, NO_RACKS, size=None))["LoadUneven/replicas"]
    assert "bytes are not judged: the size of 40 partitions is not known" in finding.evidence


def test_unequal_traffic_is_named_and_other_leaders_are_proposed():
    busy = {f"b{n}": {"bytes_in_rate": rate} for n, rate in enumerate((90e6, 10e6, 12e6, 11e6), start=1)}
    (finding,) = shares(loaded(EVEN * 20, NO_RACKS, **busy)).values()
    assert finding.id == "LoadUneven/traffic"
    assert finding.affected == ("broker-1",)
    assert finding.playbook == "rebalance-leaders"
    assert not shares(loaded(EVEN * 20, NO_RACKS, **{**busy, "b3": {"bytes_in_rate": None}}))
    idle = {name: {"bytes_in_rate": change["bytes_in_rate"] / 1e4} for name, change in busy.items()}
    assert not shares(loaded(EVEN * 20, NO_RACKS, **idle))


def test_brokers_without_room_can_lead_less_all_the_same():
    """No data moves for it, so that a replica more or less on full brokers says nothing either."""
    full = volume(1000 * GB, 50 * GB)
    rates = {f"b{n}": full | {"bytes_in_rate": rate} for n, rate in enumerate((90e6, 10e6, 12e6, 11e6), start=1)}
    (finding,) = shares(loaded([*EVEN * 20, [1, 2, 3]], NO_RACKS, size=GB, **rates)).values()
    assert finding.id == "LoadUneven/traffic"


def test_a_broker_that_leads_nothing_has_no_share_of_the_traffic():
    led_by_three = [[1, 2, 3], [2, 3, 4], [3, 4, 1], [2, 1, 4]] * 20
    rates = {f"b{n}": {"bytes_in_rate": rate} for n, rate in enumerate((11e6, 12e6, 11e6, 0.0), start=1)}
    assert not shares(loaded(led_by_three, NO_RACKS, **rates))


def test_while_replicas_are_uneven_bytes_and_traffic_are_evidence_alone():
    rates = {f"b{n}": {"bytes_in_rate": rate} for n, rate in enumerate((90e6, 10e6, 12e6, 0.0), start=1)}
    (finding,) = shares(loaded(THREE_FULL_ONE_EMPTY, NO_RACKS, size=GB, **rates)).values()
    assert finding.id == "LoadUneven/replicas"
    assert any(line.startswith("bytes: ") for line in finding.evidence)


def random_cluster(random: Random) -> Snapshot:
    count = random.randint(3, 9)
    names: list[str | None] = [random.choice("abcd") for _ in range(count)]
    racks = dict(enumerate(names if random.random() < 0.7 else [None] * count, start=1))
    weights = [random.choice((0, 1, 1, 3)) or 0.01 for _ in racks]
    rows = []
    for _ in range(random.randint(20, 160)):
        factor = random.randint(1, min(3, count))
        placed: list[int] = []
        for _ in range(factor):
            # Racks first, as Kafka and the planner place.
            used = [racks[b] for b in placed]
            free = [b for b in racks if b not in placed]
            least = min(used.count(racks[b]) if racks[b] else 0 for b in free)
            able = [b for b in free if (used.count(racks[b]) if racks[b] else 0) == least]
            placed += random.choices(able, [weights[b - 1] for b in able])
        rows.append(placed)
    return loaded(rows, racks)


@pytest.mark.parametrize("seed", range(25))
def test_what_is_proposed_has_something_to_move_and_is_no_finding_afterwards(seed: int):
    snapshot = random_cluster(Random(seed))
    finding = shares(snapshot).get("LoadUneven/replicas")
    if finding is None:
        return
    assert snapshot.partitions is not None
    columns = snapshot.partitions.select(["topic", "partition", "replicas", "leader", "isr", "sizeBytes"])
    brokers = tuple(PlanBroker(b.id, b.rack, b.live, None) for b in snapshot.brokers or ())
    plan = plan_relocation(Relocation(columns, brokers, LowerImbalance(500)))
    assert plan.summary.partitions, finding.evidence
    moved = {(row["topic"], row["partition"]): row["replicas"] for row in plan.table.to_pylist()}
    after = [moved.get(row.tp, list(row.replicas or ())) for row in snapshot.rows()]
    assert not shares(loaded(after, {b.id: b.rack for b in snapshot.brokers or ()}))


def test_the_random_clusters_have_both():
    found = [bool(shares(random_cluster(Random(seed)))) for seed in range(25)]
    assert 10 < sum(found) < 25
