"""`make simulate` and `make soak`: many schedules in as many processes as there are processors.

    python -m tests.simulation.soak --schedules 10000 --seed 0
    python -m tests.simulation.soak --seed 4711 --schedules 1 --show
    python -m tests.simulation.soak --schedules 400 --without ViewsAgree
    python -m tests.simulation.soak --schedules 200000 --journal soak.jsonl

The last one is a campaign while that guard permits everything, which has to be noticed; `all` takes one guard after the
other. Otherwise a seed that fails is printed with the command that repeats it, made smaller, and printed again as a
line for tests/simulation/kept.json, which tests/unit/simulation replays for ever. A run with a journal may be ended at
any time, and goes on where it was with the same command, as long as the code is the same.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import itertools
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from tests.mutation.__main__ import MUTANTS
from tests.mutation.allow import without
from tests.simulation import schedules
from tests.simulation.scenarios import SCENARIOS, prefix

CHUNK = 50
ROOT = Path(__file__).parents[2]


def _begin() -> None:
    """A process of its own makes the undisturbed runs once. What lives as long as it does is never garbage."""
    gc.disable()
    for name in SCENARIOS:
        prefix(name).to_the_end()
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 20)
    gc.enable()


GUARDED = {
    "restart": "evict",
    "reassign": "reassign",
    "removal": "reassign",
    "disk_room": "reassign",
    "log_dirs": "log_dirs",
    "elect": "elect",
    "reset_offsets": "offsets",
    "owners": "PauseObjects",
}
"""By module of guards: what they stand before."""


def _concerns(mutant: str, scenario: str) -> bool:
    effect = GUARDED.get(mutant.partition(":")[0], "")
    _, sharp = prefix(scenario).to_the_end()
    return any(wrote.startswith(effect) for effects in sharp.values() for wrote in effects)


def _noticed(job: tuple[str, range]) -> tuple[str, schedules.Schedule | None, str, int]:
    """The first schedule, from the first of these seeds on, in which a missing guard is noticed, made smaller, how, and
    how many were tried: only those in which it would be asked count."""
    mutant, seeds = job
    found = (s for seed in itertools.count(seeds.start) if _concerns(mutant, (s := schedules.of_seed(seed)).scenario))
    with without(mutant):
        for tried, schedule in enumerate(itertools.islice(found, len(seeds)), 1):
            if schedules.run(schedule).violation is not None:
                small = schedules.shrunk(schedule)
                return mutant, small, schedules.run(small).violation or "", tried
    return mutant, None, "NOBODY NOTICED", len(seeds)


def _campaigns(wanted: str, seeds: range, processes: int) -> int:
    """Every guard that is asked for, permissive. Answers how many nobody noticed."""
    mutants = [m for m in MUTANTS if wanted in ("all", m.split(":")[-1])]
    if not mutants:
        sys.exit(f"no guard is called {wanted}; there are {', '.join(m.split(':')[-1] for m in MUTANTS)}")
    missed = 0
    with multiprocessing.get_context("spawn").Pool(min(processes, len(mutants)), _begin) as pool:
        for mutant, small, told, tried in pool.imap(_noticed, [(m, seeds) for m in mutants]):
            missed += small is None
            print(f"{mutant.split(':')[-1]:24} after {tried:4}: {told.splitlines()[0]}", flush=True)
            if small is not None:
                print(f"  {json.dumps({'without': mutant, 'schedule': small.plain()})}", flush=True)
    print(f"{len(mutants) - missed} of {len(mutants)} missing guards were noticed")
    return missed


def _chunk(seeds: range) -> tuple[int, int, int, float, list[tuple[int, str, str]]]:
    """How many reconciles, events and effects these seeds took, the processor seconds, and what failed."""
    began = time.process_time()
    reconciles = events = effects = 0
    failed = []
    for seed in seeds:
        schedule = schedules.of_seed(seed)
        try:
            outcome = schedules.run(schedule)
        except Exception as problem:  # noqa: BLE001 - the other seeds run all the same
            failed.append((seed, f"raised {problem!r}", json.dumps(schedule.plain())))
            continue
        reconciles, events, effects = (
            reconciles + outcome.reconciles,
            events + outcome.events,
            effects + outcome.effects,
        )
        if outcome.violation is not None:
            small = schedules.shrunk(schedule)
            told = schedules.run(small).violation or outcome.violation
            failed.append((seed, told, json.dumps(small.plain())))
    return reconciles, events, effects, time.process_time() - began, failed


def _code() -> str:
    """What a run depends on: a journal of other code says nothing of this one."""
    found = hashlib.sha256()
    for folder in ("operator", "tests/simulation", "playbooks"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".yaml", ".json"):
                found.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def _journal(path: Path, run: dict[str, Any]) -> tuple[TextIO, list[dict[str, Any]]]:
    """The journal, open for more, and the chunks that are done. A line that was cut off by a kill is done again."""
    lines = []
    if path.exists():
        whole = path.read_bytes().rpartition(b"\n")[0] + b"\n"
        lines = [json.loads(line) for line in whole.splitlines() if line]
        path.write_bytes(whole if lines else b"")
    if lines and lines[0] != run:
        sys.exit(f"{path} is of another run ({lines[0]}, and this is {run}): take another file, or remove it")
    journal = path.open("a")
    if not lines:
        print(json.dumps(run), file=journal, flush=True)
    return journal, lines[1:]


def _tell(failed: list[tuple[int, str, str]]) -> int:
    for seed, told, kept in failed:
        print(f"FAILED seed {seed}: {told}", flush=True)
        print(f"  again: python -m tests.simulation.soak --seed {seed} --schedules 1 --show", flush=True)
        print(f"  kept:  {kept}", flush=True)
    return len(failed)


def _soak(seeds: range, processes: int, kept_in: Path | None) -> int:
    began, done, seconds_before, processor, sums, failures = time.monotonic(), 0, 0.0, 0.0, [0, 0, 0], 0
    chunks = [seeds[i : i + CHUNK] for i in range(0, len(seeds), CHUNK)]
    run = {"code": _code(), "seed": seeds.start, "chunk": CHUNK}
    journal, before = (None, []) if kept_in is None else _journal(kept_in, run)
    for entry in before:
        done, processor, seconds_before = done + entry["schedules"], processor + entry["used"], entry["seconds"]
        sums = [a + b for a, b in zip(sums, entry["sums"], strict=True)]
        failures += _tell(entry["failed"])
    if before:
        print(f"  {done} schedules are in the journal, {seconds_before:.0f} s", flush=True)
    # spawn: Arrow has threads of its own, which do not live through a fork.
    with multiprocessing.get_context("spawn").Pool(processes, _begin) as pool:
        rest = chunks[len(before) :]
        for number, (*counts, used, failed) in enumerate(pool.imap(_chunk, rest), 1):
            done, processor = done + len(rest[number - 1]), processor + used
            sums = [a + b for a, b in zip(sums, counts, strict=True)]
            failures += _tell(failed)
            seconds = seconds_before + time.monotonic() - began
            if journal is not None:
                entry = {"schedules": len(rest[number - 1]), "used": used, "seconds": seconds}
                print(json.dumps(entry | {"sums": counts, "failed": failed}), file=journal, flush=True)
            if number % 20 == 0:
                print(f"  {done} schedules, {seconds:.0f} s", flush=True)
    seconds = seconds_before + time.monotonic() - began
    print(
        f"{done} schedules, {sums[0]} reconciles, {sums[1]} events, {sums[2]} effects in {seconds:.0f} s "
        f"({done / seconds:.0f} a second; {1000 * processor / done:.0f} ms of a processor each), {failures} failed"
    )
    return 1 if failures else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.soak", description="Seeded schedules of the operator."
    )
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="the first; the others follow")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--without", metavar="GUARD", help="make this guard permissive (all: one after the other)")
    parser.add_argument("--show", action="store_true", help="print each schedule and its outcome")
    parser.add_argument("--journal", type=Path, metavar="FILE", help="keep what is done, and go on where it was")
    args = parser.parse_args()
    seeds = range(args.seed, args.seed + args.schedules)
    if args.without:
        return 1 if _campaigns(args.without, seeds, args.processes) else 0
    if args.show:
        for seed in seeds:
            schedule = schedules.of_seed(seed)
            print(json.dumps(schedule.plain()), schedules.run(schedule), sep="\n")
        return 0
    return _soak(seeds, args.processes, args.journal)


if __name__ == "__main__":
    sys.exit(main())
