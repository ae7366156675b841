"""Where a table is that Spark reads or writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Place", "is_address", "place_of"]

TABLE = "table:"


@dataclass(frozen=True)
class Place:
    """address: a path or an address (s3a://..., hdfs://...) that the driver and every executor see; with `named` the
    name of a table in a catalog. format: as Spark knows it, None: Parquet, and for a table its own. options: the
    format's. where: SQL, the rows that are meant."""

    address: str
    named: bool = False
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None

    def __str__(self) -> str:
        return f"{TABLE}{self.address}" if self.named else self.address


def is_address(text: str) -> bool:
    """Whether a text names a place that only Spark knows: an address, or table:NAME."""
    return "://" in text or text.startswith(TABLE)


def place_of(
    text: str, form: str | None = None, options: Mapping[str, str] | None = None, where: str | None = None
) -> Place:
    """The place that `table:NAME`, an address, or an absolute path names."""
    named = text.startswith(TABLE)
    return Place(text.removeprefix(TABLE), named, form, dict(options or {}), where)
