"""Where a table is that Spark reads or writes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Place", "address", "is_address", "literal", "place_of", "to_read"]

TABLE = "table:"
_PATTERN = re.compile(r"[\\{}\[\]*?]")
"""What Spark takes for a pattern in an address that it reads."""


@dataclass(frozen=True)
class Place:
    """address: a path or an address (s3a://..., hdfs://...) that the driver and every executor see; with `named` the
    name of a table in a catalog. format: as Spark knows it, None: Parquet, and for a table its own. options: the
    format's. where: SQL, the rows that are meant. file: the single Parquet file on this machine that it is, where its
    footer may be asked in Spark's place."""

    address: str
    named: bool = False
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None
    file: Path | None = None

    def __str__(self) -> str:
        return f"{TABLE}{self.address}" if self.named else self.address


def is_address(text: str) -> bool:
    """Whether a text names a place that only Spark knows: an address, or table:NAME."""
    return "://" in text or text.startswith(TABLE)


def address(path: Path) -> str:
    """A path as Spark writes to it, which decodes no %20."""
    return f"file://{path.resolve()}"


def to_read(path: Path) -> str:
    """A path as Spark reads it."""
    return literal(address(path))


def literal(written: str) -> str:
    """An address that Spark wrote to as Spark reads it, which otherwise takes brackets for a pattern."""
    return _PATTERN.sub(r"\\\g<0>", written)


def place_of(
    text: str, form: str | None = None, options: Mapping[str, str] | None = None, where: str | None = None
) -> Place:
    """The place that `table:NAME`, an address, or an absolute path names."""
    named = text.startswith(TABLE)
    return Place(text.removeprefix(TABLE), named, form, dict(options or {}), where)
