"""Each guard made permissive in turn: at least one test has to fail. `make mutate-guards`.

A guard that no test misses would protect nobody the day somebody breaks it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from kafka_medic.guard.cluster_wide import CLUSTER_WIDE
from kafka_medic.guard.restart import RESTART_GUARDS
from tests.mutation.allow import VARIABLE

TESTS = ("tests/unit/guard", "tests/unit/playbook", "tests/unit/controller", "tests/scenario")
MUTANTS = (
    *(f"restart:{name}" for name, _ in RESTART_GUARDS),
    *(f"cluster_wide:{name}" for name in CLUSTER_WIDE),
    "restart:sources_fresh:SourcesFresh",
    "reassign:cluster_reachable:ClusterReachable",
    "reassign:_enough_live_brokers:EnoughLiveBrokers",
    "reassign:_targets_alive:TargetsAlive",
    "reassign:_no_foreign_reassignment:NoForeignReassignment",
    "reassign:brokers_stable:BrokersStable",
    "reassign:_preconditions_hold:PreconditionsHold",
    "reassign:_replaced_brokers_down:ReplacedBrokersDown",
    "removal:_replacements_in_sync:ReplacementsInSync",
    "removal:_no_foreign_reassignment:NoForeignReassignment",
    "removal:_preconditions_hold:PreconditionsHold",
    "reorder:_preconditions_hold:PreconditionsHold",
    "disk_room:disk_has_room:DiskHasRoom",
    "log_dirs:log_dirs_online:LogDirsOnline",
    "log_dirs:volumes_have_room:DiskHasRoom",
    "elect:_partitions_known:PartitionsKnown",
    "elect:controller_active:ControllerActive",
    "elect:_in_isr:PreferredInIsr",
    "fit:fit_to_receive:FitToReceive",
    "elect:_caught_up:PreferredCaughtUp",
    "elect:_not_reassigning:NotReassigning",
    "reset_offsets:_group_empty:GroupEmpty",
    "reset_offsets:_partitions_led:PartitionsLed",
    "reset_offsets:_target_within_log:TargetWithinLog",
    "reset_offsets:_previous_known:PreviousOffsetsKnown",
    "run:_not_paused:NotPaused",
    "run:within_window:WithinWindow",
    "run:_lease:LeaseHeld",
    "precedence:goes_first:NoOtherRemediation",
    "run:_within_limits:WithinLimits",
    "owners:owners_paused:OwnersPaused",
)


def caught_by(mutant: str) -> str | None:
    """The first test that fails while this guard permits everything; None when none does."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "tests.mutation.allow", "--no-header", *TESTS]
    done = subprocess.run(
        command, env=os.environ | {VARIABLE: mutant}, capture_output=True, text=True, check=False, timeout=600
    )
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if done.returncode == 1 and found:
        return found.group(1)
    if done.returncode != 0:
        raise RuntimeError(f"{mutant}: pytest itself failed\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return None


def main() -> int:
    survivors = []
    with ThreadPoolExecutor(2) as pool:
        for mutant, test in zip(MUTANTS, pool.map(caught_by, MUTANTS), strict=True):
            print(f"{mutant:<52} {test or 'NOBODY NOTICED'}", flush=True)
            if test is None:
                survivors.append(mutant)
    print(f"{len(MUTANTS) - len(survivors)} of {len(MUTANTS)} permissive guards were noticed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
