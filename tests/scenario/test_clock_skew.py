"""The API server, the quorum and the operator each have a clock of their own: a minute between them changes nothing but
what is said of it."""

from __future__ import annotations

import pytest

from kafka_medic.resources.phases import Phase
from tests.simulation.world import World, factor_one_cluster


@pytest.mark.parametrize("ahead", [-60.0, 0.0, 60.0])
def test_a_skew_of_a_minute_refuses_nothing_safe(ahead):
    """The clocks differ by a minute. The operator reports it and refuses nothing that is safe."""
    world = World(factor_one_cluster(), ahead=ahead)
    world.install()
    before = world.until_phase("AwaitingApproval")
    allowed = world.condition("RemediationAllowed")
    assert allowed["status"] == "True"
    way = "behind" if ahead > 0 else "ahead of"
    said = f"; the operator's clock is about 60 s {way} the API server's (limit 5 s)"
    assert (said in allowed["message"]) == bool(ahead)
    assert {f["type"] for f in world.cluster()["status"]["findings"]} == {"ReplicationFactorLow"}, "nothing else"
    world.approve(before)
    world.until_phase("Succeeded")
    for _ in range(3):
        world.step()
    assert world.run().status.phase is Phase.SUCCEEDED
    assert not world.cluster()["status"].get("findings")


@pytest.mark.parametrize("ahead", [-60.0, 60.0])
def test_a_rejected_plan_is_not_proposed_again(ahead):
    """The finding is seconds old by then, and the two clocks a minute apart."""
    world = World(factor_one_cluster(), ahead=ahead)
    world.install()
    world.approve(world.until_phase("AwaitingApproval"), decision="Reject")
    world.until_phase("Rejected")
    for _ in range(20):
        world.step()
    assert len(world.runs()) == 1
