"""`make simulate` and `make soak`: many schedules in as many processes as there are processors.

    python -m tests.simulation.soak --schedules 10000 --seed 0
    python -m tests.simulation.soak --seed 4711 --schedules 1 --show

A seed that fails is printed with the command that repeats it, made smaller, and printed again as a line for
tests/simulation/kept.json, which tests/unit/simulation replays for ever.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import sys
import time

from tests.simulation import schedules

CHUNK = 50


def _begin() -> None:
    """A process of its own makes the undisturbed runs once. What lives as long as it does is never garbage."""
    for name in schedules.SCENARIOS:
        schedules.prefix(name)
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def _chunk(seeds: range) -> tuple[int, int, int, float, list[tuple[int, str, str]]]:
    """How many turns, events and effects these seeds took, the processor seconds, and what failed."""
    began = time.process_time()
    turns = events = effects = 0
    failed = []
    for seed in seeds:
        schedule = schedules.of_seed(seed)
        outcome = schedules.run(schedule)
        turns, events, effects = turns + outcome.turns, events + outcome.events, effects + outcome.effects
        if outcome.violation is not None:
            small = schedules.shrunk(schedule)
            told = schedules.run(small).violation or outcome.violation
            failed.append((seed, told, json.dumps(small.plain())))
    return turns, events, effects, time.process_time() - began, failed


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.soak", description="Seeded schedules of the operator."
    )
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="the first; the others follow")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--show", action="store_true", help="print each schedule and its outcome")
    args = parser.parse_args()
    seeds = range(args.seed, args.seed + args.schedules)
    if args.show:
        for seed in seeds:
            schedule = schedules.of_seed(seed)
            print(json.dumps(schedule.plain()), schedules.run(schedule), sep="\n")
        return 0
    began, done, processor, sums, failures = time.monotonic(), 0, 0.0, [0, 0, 0], 0
    chunks = [seeds[i : i + CHUNK] for i in range(0, len(seeds), CHUNK)]
    # spawn: Arrow has threads of its own, which do not live through a fork.
    with multiprocessing.get_context("spawn").Pool(args.processes, _begin) as pool:
        for number, (turns, events, effects, used, failed) in enumerate(pool.imap(_chunk, chunks), 1):
            done, processor = done + len(chunks[number - 1]), processor + used
            sums = [a + b for a, b in zip(sums, (turns, events, effects), strict=True)]
            for seed, told, kept in failed:
                failures += 1
                print(f"FAILED seed {seed}: {told}", flush=True)
                print(f"  again: python -m tests.simulation.soak --seed {seed} --schedules 1 --show", flush=True)
                print(f"  kept:  {kept}", flush=True)
            if number % 20 == 0:
                print(f"  {done} schedules, {time.monotonic() - began:.0f} s", flush=True)
    seconds = time.monotonic() - began
    print(
        f"{done} schedules, {sums[0]} turns, {sums[1]} events, {sums[2]} effects in {seconds:.0f} s "
        f"({done / seconds:.0f} a second; {1000 * processor / done:.0f} ms of a processor each), {failures} failed"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
