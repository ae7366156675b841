"""In mode Auto, on real clusters of both kinds: a stale leader that took records is found, they are saved, and every
broker is restarted, the stale one first, without a person."""

from __future__ import annotations

from functools import partial

from tests.e2e.conftest import at_the_same_time
from tests.e2e.test_stale_leader import torn_and_mended
from tests.testbed import KafkaDeployment, faults


def test_a_stale_leader_is_restarted_without_a_person(installed: None, steady: list[KafkaDeployment]) -> None:
    try:
        at_the_same_time(partial(torn_and_mended, mode="Auto"), steady)
    finally:
        faults.mend()
