"""Where Arrow and numpy meet: the few conversions the planner needs, with plain types on the numpy side."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

__all__ = [
    "Column", "Int64s", "flat_values", "integers", "is_valid", "leave_pandas_out", "list_column", "list_lengths",
    "names",
]  # fmt: skip

Column: TypeAlias = Any
"""A pyarrow Array or ChunkedArray. The stubs' generics would say less than each docstring does."""
Int64s = npt.NDArray[np.int64]
compute: Any = pyarrow.compute


def leave_pandas_out() -> None:
    """Keep pyarrow from loading pandas by itself, which it does wherever there is one: a fifth of the time of a plan
    for 200,000 partitions, and 45 MB, for nothing that is done here. It tries once for an array of numpy's and once for
    a list; its to_pandas() tries again."""
    if "pandas" in sys.modules:
        return
    hidden = _NoPandas()
    sys.meta_path.insert(0, hidden)
    try:
        pa.array(np.zeros(1))
        pa.array([0])
    finally:
        sys.meta_path.remove(hidden)


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ImportError(name)


def integers(column: Column, null: int = -1) -> Int64s:
    """Integer column as int64[N], `null` where there is no value."""
    if column.null_count or pa.types.is_uint64(column.type):
        column = compute.fill_null(column.cast(pa.int64()), null)
    # Widening in numpy is a single pass, which counts when the columns are millions long.
    return np.asarray(column.to_numpy() if isinstance(column, pa.ChunkedArray) else column).astype(np.int64, copy=False)


def names(column: Column) -> list[str]:
    """String column as a list; nulls as empty strings."""
    return [str(name or "") for name in column.to_pylist()]


def is_valid(column: Column) -> npt.NDArray[np.bool_]:
    """bool[N]: where there is a value."""
    return np.asarray(column.is_valid(), dtype=np.bool_)


def list_lengths(column: Column) -> Int64s:
    """int64[N] lengths of a list column, -1 for null."""
    return integers(compute.list_value_length(column))


def flat_values(column: Column, null: int = -2) -> Int64s:
    """The items of a list column one after another, `null` for an item that is null."""
    return integers(compute.list_flatten(column), null)


def list_column(lengths: npt.NDArray[Any], values: npt.NDArray[Any]) -> Column:
    """list<int32>[N] from the lengths of the rows and the items one after another."""
    offsets: Any = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(values, pa.int32()))
