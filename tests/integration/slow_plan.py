"""`kafka-medic plan` in blocks of 4,000 partitions; the first attempt to write the first of them stops halfway.

python -m tests.integration.slow_plan SECONDS plan ...
"""

from __future__ import annotations

import sys
import time

from kafka_medic.cli import main
from kafka_medic.plan.spark import engine


def slowly(seconds: float) -> None:
    unpacking = engine._unpacking

    def slow(digests):
        work = unpacking(digests)

        def halting(batches):
            from pyspark import TaskContext

            context = TaskContext.get()
            for number, batch in enumerate(work(batches)):
                if number == 2 and context.partitionId() == 0 and context.attemptNumber() == 0:
                    time.sleep(seconds)
                yield batch

        return halting

    engine._unpacking = slow
    engine.BLOCK_ROWS, engine.ROWS_OUT = 4_000, 1_000


if __name__ == "__main__":
    slowly(float(sys.argv[1]))
    sys.exit(main.main(sys.argv[2:]))
