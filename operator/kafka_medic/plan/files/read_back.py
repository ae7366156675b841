"""Read back: a plan as it was written, in either format, for the verifier to check before the plan is carried out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_medic.plan.arrow import Column, compute
from kafka_medic.plan.files.inputs import InputError, is_parquet, read_partitions, read_table
from kafka_medic.plan.lists import flatten, member
from kafka_medic.plan.model import PLAN_SCHEMA
from kafka_medic.plan.verify.rules import Check, PlanInput
from kafka_medic.plan.wave_limits import WaveLimits

__all__ = ["is_order", "read_plan", "verify_order", "verify_read_back"]


def read_plan(path: Path, partitions: pa.Table) -> tuple[pa.Table, bool]:
    """(PLAN_SCHEMA, whether its waves are given) from plan.parquet, a file or a directory, or from Kafka's reassignment
    JSON, which has neither waves nor an order of its own; what was before is then as the partitions have it. Raises
    InputError."""
    return (_from_parquet(path), True) if is_parquet(path) else (_from_reassignment(path, partitions), False)


def _from_parquet(path: Path) -> pa.Table:
    table = read_table(path)
    if table.schema.names != PLAN_SCHEMA.names:
        raise InputError(path, None, f"its columns are {table.schema.names}, not {PLAN_SCHEMA.names}")
    try:
        table = table.cast(PLAN_SCHEMA).combine_chunks()
    except pa.ArrowException as error:
        raise InputError(path, None, f"not a plan: {str(error).splitlines()[0]}") from None
    _refuse_nulls(table, path)
    return table


def _from_reassignment(path: Path, partitions: pa.Table) -> pa.Table:
    given = read_partitions(path)
    _refuse_nulls(given.select(["topic", "partition", "replicas"]), path)
    place = compute.index_in(_names(given), _names(partitions))
    before = compute.take(partitions.column("replicas"), place)
    replicas = given.column("replicas")
    # The verifier reports a partition that is not there; here only a list is needed.
    columns: Any = [
        given.column("topic"), given.column("partition"), compute.if_else(compute.is_valid(before), before, replicas),
        replicas, replicas, pa.array(np.zeros(given.num_rows, dtype=np.int32)),
    ]  # fmt: skip
    try:
        return pa.table(columns, names=PLAN_SCHEMA.names).cast(PLAN_SCHEMA).combine_chunks()
    except pa.ArrowException as error:
        raise InputError(path, None, f"a value does not fit: {str(error).splitlines()[0]}") from None


def is_order(table: pa.Table) -> bool:
    """Whether a plan read from JSON moves nothing, but only names the replicas that there are in another order."""
    before, after = flatten(table.column("replicasBefore")), flatten(table.column("replicas"))
    same = len(before.length) == len(after.length) and bool((before.length == after.length).all())
    return bool(table.num_rows) and same and bool(member(after, before).all())


def verify_order(request: PlanInput, table: pa.Table) -> list[str]:
    """Every rule that a file of preferred orders, as `read_plan` gives it, breaks for the partitions as they are."""
    return Check(request, table).reordering()


def verify_read_back(check: Check, *, waved: bool) -> list[str]:
    """Every rule that a written plan, as `read_plan` gives it, breaks for the partitions as they are."""
    check.later = True
    if broken := check.placement():
        return broken
    size = check.raw.column("sizeBytes") if "sizeBytes" in check.raw.column_names else None
    sizes = pa.nulls(len(check.place), pa.int64()) if size is None else size.take(pa.array(check.place, pa.int64()))
    waves = [*check.numbering(), *check.waves(sizes, check.senders(), WaveLimits())] if waved else []
    return [*waves, *check.disk_capacity(), *check.limits(), *check.owed()]


def _names(table: pa.Table) -> Column:
    """A string of its own for each partition; a topic's name never has a slash."""
    topic, number = table.column("topic").cast(pa.string()), table.column("partition").cast(pa.string())
    return compute.binary_join_element_wise(topic, number, "/")


def _refuse_nulls(table: pa.Table, path: Path) -> None:
    for name in table.column_names:
        column = table.column(name)
        if column.null_count:
            row = int(compute.index(compute.is_null(column), True).as_py()) + 1
            raise InputError(path, row, f"{name} is missing")
        if pa.types.is_list(column.type) and compute.list_flatten(column).null_count:
            raise InputError(path, None, f"{name} holds a null")
